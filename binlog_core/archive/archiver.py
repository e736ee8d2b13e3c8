"""The archiver: stores a server's logs as they arrive, and finds its position after any interruption."""

from __future__ import annotations

import contextlib
import datetime as dt
import mmap
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from .._decode.boundaries import last_boundary
from .._decode.gtid_selection import union
from .._format.event_header import FIRST_EVENT, HEADER_LENGTH_V3, length_of
from .._sources.log_files import LogFile
from .._sources.timeline import CONTINUED, FAILOVER, GAP, NAME, RESET, ArchiveTimeline, Segment
from ..errors import ArchiveError, BinlogError, DivergedError, OtherHistory, PurgedError
from ..gtids import AnyGtidSet, MariadbGtidSet, parse_gtid_set
from ..report import BinlogWarning
from ..server.world import REAL, World
from .feed import Behind, Feed, FeedRun, Identity, LineLost, LogMissing, Start
from .files import Files, as_archive_error, locked, open_itself, put, put_on_disk, remove_unfinished
from .growing import GrowingLog, whole_events
from .keeper import Keeper
from .names import is_log_name, logs_among, next_name, number_of
from .own_logs import FIRST_LOG, end_of
from .status import Status
from .store import Uploader
from .tracker import Tracker

_COMPARED_AGAIN = 64 << 10  # bytes before the end that are requested again on a new connection
_UNSYNCED = 16 << 20  # bytes
_SYNC_INTERVAL = 1.0  # seconds
_LOOKING = 5.0  # seconds to wait for servers that lack transactions of the archive, when an archiver starts
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds between two connections


class Seam(NamedTuple):
    """A segment that begins with the next log."""

    kind: str | None
    before: AnyGtidSet | None = None


class Archiver:
    """Keeps one archive in a directory.

    Parameters
    ----------
    connect : callable
        Returns a Feed; after LineLost it may be called again.
    folder : str
    start : Start
        Where a new archive begins: with the log that contains it.
    until_now : bool
        End at the server's position at the start.
    keeper : Keeper
        Does the work on finished logs.
    files : Files
    stop : threading.Event
        Ends the archiver.
    reconnect : float
        Seconds to keep trying after a connection was lost.
    on_status : callable
        Called with the status whenever something was put on disk, and about once a second.
    uploader : Uploader or None
        Uploads the archive to a store; the directory is then its spool.
    world : World
        Its clock.
    """

    def __init__(
        self,
        connect: Callable[[], Feed],
        folder: str,
        *,
        keeper: Keeper,
        start: Start = None,
        until_now: bool = False,
        files: Files | None = None,
        stop: threading.Event | None = None,
        reconnect: float = 300.0,
        on_status: Callable[[Status], None] = lambda status: None,
        uploader: Uploader | None = None,
        world: World = REAL,
    ) -> None:
        self._connect = connect
        self._folder = folder
        self._keeper = keeper
        self._start = start
        self._until_now = until_now
        self._files = files or Files()
        self._stop = stop or threading.Event()
        self._reconnect = reconnect
        self._on_status = on_status
        self._uploader = uploader
        self._world = world
        self._on_disk: tuple[str, int] | None = None  # path of the growing log, and its bytes on disk
        self.status = Status(uploader.name if uploader is not None else folder, "")
        self.timeline = ArchiveTimeline()
        self._log: GrowingLog | None = None
        self._closed: str | None = None  # name of the last log, if that is finished
        self._before: MariadbGtidSet | None = None  # the next log, if that is one of ours
        self._unkept: str | None = None  # a finished log of ours: the next one has no head on disk
        self._seam: Seam | None = None
        self._identity: Identity | None = None
        self._first_of_segment = False  # whose head has not yet shown what came before
        self._unproved = False  # whether nothing of the archive was compared before the log that begins
        self._tracker = Tracker()
        self._tracked = FIRST_EVENT  # position in the growing log up to which the tracker has seen it
        self._starts: deque[int] = deque(maxlen=64)  # positions of the last runs
        self._synced_at = 0.0
        self._owed = False  # an acknowledgement

    def run(self) -> Status:
        """Archive until stopped, or up to now.

        Returns
        -------
        Status

        Raises
        ------
        ArchiveError
            An operation on the directory fails, or another archiver keeps it.
        BinlogError
            The server refuses, cannot be reached, or has another history.
        """
        with as_archive_error(self._folder, "make the archive's directory"):
            self._files.make_directory(self._folder)
        with locked(self._folder):
            uploader = self._uploader
            if uploader is not None:
                uploader.begin()
            try:
                self._load()
                self._keeper.begin(self, uploader)
                if uploader is not None:
                    uploader.start(lambda: self._on_disk)
                self._keep_up()
                self._settle()
                self._keeper.finish()
                if uploader is not None:
                    uploader.finish(self._on_disk)
            except BaseException as error:
                self.status.state = "failed" if isinstance(error, Exception) else "stopped"
                self.status.error = str(error) or type(error).__name__
                with contextlib.suppress(BinlogError):
                    self._settle()
                self._keeper.abandon()
                if uploader is not None:
                    uploader.stop()
                raise
            else:
                self.status.state = "stopped"
            finally:
                if self._log is not None:
                    self._log.close()
                if uploader is not None:
                    uploader.end()
                with contextlib.suppress(BinlogError):
                    self._tell()
        return self.status

    # ------------------------------------------------------------ the existing archive

    def _load(self) -> None:
        """Find the archive's position; cut the last log back to complete events."""
        with as_archive_error(self._folder, "read the archive's directory"):
            remove_unfinished(self._files, self._folder)
            names = self._files.names(self._folder)
        if NAME not in names:
            logs = logs_among(names)
            if logs:
                raise ArchiveError(
                    f"holds logs ({logs[0]}, …) and is not an archive: expected an empty directory, or one"
                    f" with {NAME}",
                    path=self._folder,
                )
            return
        path = os.path.join(self._folder, NAME)
        with as_archive_error(self._folder, "write to the disk"):
            self._files.sync_directory(self._folder)  # the process that wrote it may have ended before this
        with as_archive_error(path, "read the timeline"), open(path, "rb", opener=open_itself) as file:
            self.timeline = ArchiveTimeline.parse(file.read(), path)
        while (last := self.timeline.last) is not None:
            folder = self.folder_of(last)
            logs = []
            with as_archive_error(folder, "read the archive's directory"):
                if self._files.has_directory(folder):
                    remove_unfinished(self._files, folder)
                    logs = logs_among(self._files.names(folder))
            if logs:
                if last.until is not None:  # it continues, unless the server names a different one
                    self.timeline = ArchiveTimeline((*self.timeline.segments[:-1], replace(last, until=None)))
                    self._write_timeline()
                self._take_up(folder, logs[-1])
                if not Identity.of(last.server).files:
                    self._find_gtids(folder, logs)
                elif not self.status.position and (before := logs[: len(logs) - self.grows]):
                    self._tracker.take_log(os.path.join(folder, before[-1]))
                return
            # A crash came before its first log.
            self.timeline = ArchiveTimeline(self.timeline.segments[:-1])

    def _take_up(self, folder: str, name: str) -> None:
        path = os.path.join(folder, name)
        if name.endswith(".zst"):
            self._closed = name.removesuffix(".zst")
            return
        found = whole_events(path)
        if found.size:
            with as_archive_error(path, "read the log"), open(path, "rb", opener=open_itself) as file:
                data = mmap.mmap(file.fileno(), found.size, access=mmap.ACCESS_READ)
            self._scan(memoryview(data)[FIRST_EVENT:], path)
        if found.closed and found.size == os.path.getsize(path):
            with as_archive_error(path, "write to the disk"):
                put_on_disk(self._files, path)
            self._closed = name
        else:
            self._log = GrowingLog(self._files, path, found)
            self._tracked = self._log.position
        self.status.file, self.status.position = name, found.size

    def _find_gtids(self, folder: str, logs: list[str]) -> None:
        """In logs of ours: the GTIDs before the next one, while the one before it is there."""
        log = self._log
        if log is not None and log.size > FIRST_EVENT + self._description_length():
            return  # it goes on
        if log is not None:
            log.cut_back(FIRST_EVENT)  # not even its head is complete
            self._tracker.begin()
            self._tracked = FIRST_EVENT
        if before := logs[:-1] if log is not None else logs:
            self._before = end_of(os.path.join(folder, before[-1])).gtids

    @property
    def grows(self) -> bool:
        """Whether the last log is not finished."""
        return self._log is not None

    def _scan(self, data: memoryview, path: str) -> None:
        self._tracker.take(data, FIRST_EVENT, path)
        self._note_events(0)

    def folder_of(self, segment: Segment) -> str:
        """The directory of a segment's logs."""
        return os.path.join(self._folder, segment.folder) if segment.folder else self._folder

    # ------------------------------------------------------------ the server

    def _keep_up(self) -> None:
        lost_at: float | None = None
        answered = False  # a server has: the address is right
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            received = self.status.received_bytes
            try:
                feed = self._connect()
                try:
                    self._meet(feed)
                    return
                finally:
                    feed.close()
            except LineLost as error:
                if self._stop.is_set():
                    return
                now = self._world.now()
                waits = self.status.state == "waiting" and not self._until_now
                met = waits or self.status.received_bytes != received
                if met or lost_at is None:
                    lost_at, pause = now, _FIRST_PAUSE
                patience = self._reconnect
                if isinstance(error, Behind):
                    if not self.status.received_bytes:  # it may be another's: look at each host
                        patience = min(patience, _LOOKING)
                    if now - lost_at >= patience:
                        raise DivergedError(error.message, path=error.path) from None
                answered |= error.lost or self._identity is not None
                if now - lost_at >= patience or not answered:
                    error.lost = False
                    raise
                self._settle()
                self.status.reconnects += 1
                self.status.state, self.status.error = "connecting", str(error)
                self._tell()
                self._world.wait(self._stop, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _meet(self, feed: Feed) -> None:
        """One connection: find the place to continue from, and follow."""
        self._identity = feed.identity
        self.status.server = feed.identity.address
        self.status.state = "comparing" if self._log is not None else "archiving"
        file, position = self._place(feed)
        try:
            self._follow(feed, file, position)
            return
        except LogMissing as error:
            if feed.identity.files and self._log is not None and self._log.size and position > FIRST_EVENT:
                file, position = self._log.name, FIRST_EVENT
            else:
                file, position = self._begin_anew(feed, error)
        except OtherHistory as error:
            file, position = self._begin_anew(feed, error)
        try:
            self._follow(feed, file, position)
        except (LogMissing, OtherHistory) as error:
            if self._seam is not None:
                raise
            self._follow(feed, *self._begin_anew(feed, error))

    def _follow(self, feed: Feed, file: str, position: int) -> None:
        if self._log is not None:
            self._starts.clear()
            if file == self._log.name:  # what comes after it may have been lost with a crash of the server
                known = self._log.compared if feed.identity.files else position  # GTIDs prove what is before
                self._log.compared = min(known, position)
        for run in feed.dump(file, position, until_now=self._until_now):
            self._take(feed, run)
            if self._stop.is_set():
                return
            if self._until_now and run.reaches(feed.end):
                return  # a server that writes faster than this reads would never end

    def _place(self, feed: Feed) -> tuple[str, int]:
        """Where to continue: inside the growing log, or with the next one."""
        segment = self.timeline.last
        self._seam = None  # one that was to begin when the last connection was lost
        self._unproved = False
        if segment is None:
            self._seam = Seam(None)
            return feed.locate(self._start)[0], FIRST_EVENT
        if not Identity.of(segment.server).is_same(feed.identity):
            return self._fail_over(feed)
        if not feed.identity.files:
            return self._place_by_gtids(feed, segment)
        self._unproved = self._log is None or not self._log.size
        if self._log is None:
            assert self._closed is not None
            return self._tracker.rotated_to or next_name(self._closed), FIRST_EVENT
        if self._log.compared < self._log.size:
            return self._log.name, self._log.compared
        kept = [at for at in self._starts if at <= self._log.size - _COMPARED_AGAIN]
        return self._log.name, kept[-1] if kept else (self._starts or [FIRST_EVENT])[0]

    def _place_by_gtids(self, feed: Feed, segment: Segment) -> tuple[str, int]:
        """Without the server's files: after the last transaction that is complete in the archive."""
        log = self._log
        if log is not None and log.size:
            end = end_of(log.path, log.size)
            if self._tracker.rotated_to is None:
                feed.go_on(end.gtids, log.read(self._description_length(), FIRST_EVENT))
                return log.name, end.position
            log.compared, self._before = log.size, end.gtids
        last = log.name if log is not None else self._closed
        assert last is not None
        file = last if log is not None and not log.size else next_name(last)
        if self._before is not None:
            feed.go_on(self._before, None)
        elif file == FIRST_LOG:
            if segment.seam == GAP and self._start is None:
                raise ArchiveError(
                    "after a gap, a crash left no record of where this log begins: give --start again",
                    path=os.path.join(self.folder_of(segment), file),
                )
            feed.locate(parse_gtid_set(segment.before) if segment.before else self._start)
        else:
            raise ArchiveError("the log before it is gone, and with it the GTIDs before it", path=file)
        return file, FIRST_EVENT

    def _fail_over(self, feed: Feed) -> tuple[str, int]:
        """For another server: continue where its GTIDs say."""
        gtids = self._known_gtids()
        if not gtids:
            if self._start is not None:
                return self._begin_with_gap(feed)
            raise DivergedError(
                f"{feed.identity.address} is not the server whose logs are in the archive, and without GTIDs"
                " these cannot be continued with its logs: give another destination, or --start to accept a"
                " gap",
                path=self._folder,
            )
        if (lacking := feed.lacking(gtids)) is not None:
            if self._start is not None:
                return self._begin_with_gap(feed)
            raise Behind(
                f"{feed.identity.address} lacks transactions that are in the archive, for example"
                f" {lacking}: it"
                " is behind, or they were lost with the other server; let it catch up, or give another"
                " destination",
                path=self._folder,
            )
        try:
            file, _ = feed.locate(gtids)
        except LogMissing as error:
            if self._start is None:
                raise PurgedError(
                    f"{feed.identity.address} does not have all logs since the archive's end: they were"
                    " purged, or it was made from a backup that has more than the archive. Give --start to"
                    " accept the gap, or another destination",
                    path=self._folder,
                ) from error
            return self._begin_with_gap(feed)
        self._seam = Seam(FAILOVER, gtids)
        return file, FIRST_EVENT

    def _known_gtids(self) -> AnyGtidSet | None:
        """All transactions in the archive or before it, since its present history began."""
        gtids = self._tracker.gtids
        for segment in reversed(self.timeline.segments):
            if segment.seam == FAILOVER and segment.before:
                gtids = union(parse_gtid_set(segment.before), gtids)
            if segment.seam != CONTINUED:
                break
        return gtids

    def _begin_anew(self, feed: Feed, error: BinlogError) -> tuple[str, int]:
        """The server does not have the archive's last log, or has a different one of that name."""
        name = self._log.name if self._log is not None else self._closed
        if name is None:
            raise error
        if not feed.identity.files:
            return self._begin_anew_by_gtids(feed, error)
        oldest, _ = feed.locate(None)
        complete = self._log is None or self._tracker.rotated_to is not None
        following = self._tracker.rotated_to or next_name(name)
        if complete and oldest == following:  # everything before was purged, and is in the archive
            self._unproved = True
            return oldest, FIRST_EVENT
        if isinstance(error, OtherHistory) and (error.offset or 0) > FIRST_EVENT + self._description_length():
            raise DivergedError(
                f"the server's {name} differs from the archive's from {error.offset} on: the server went back"
                " (a restored snapshot, a crash that lost what it had sent); give another destination",
                path=self._folder,
                offset=error.offset,
            ) from error
        if number_of(oldest) > number_of(name) or (isinstance(error, LogMissing) and oldest == name):
            if self._start is not None:
                return self._begin_with_gap(feed)
            raise PurgedError(
                f"the archive ends in {name}, the server's logs begin with {oldest}: the logs between were"
                " purged. Give --start to accept the gap, or another destination",
                path=self._folder,
            ) from error
        self._seam = Seam(RESET)
        return oldest, FIRST_EVENT

    def _begin_anew_by_gtids(self, feed: Feed, error: BinlogError) -> tuple[str, int]:
        """The server's next events have another form, or differ from those of an incomplete transaction."""
        log = self._log
        if isinstance(error, OtherHistory) and log is not None and log.size:
            gtids = end_of(log.path, log.size).gtids
            feed.go_on(gtids, None)
            self._seam = Seam(CONTINUED, gtids)
            return FIRST_LOG, FIRST_EVENT
        if self._start is None:
            raise error
        return self._begin_with_gap(feed)

    def _begin_with_gap(self, feed: Feed) -> tuple[str, int]:
        file, _ = feed.locate(self._start)
        self._seam = Seam(GAP)
        return file, FIRST_EVENT

    def _description_length(self) -> int:
        return (
            length_of(self._log.read(HEADER_LENGTH_V3, FIRST_EVENT))
            if self._log is not None and self._log.size
            else 0
        )

    # ------------------------------------------------------------ the stream

    def _take(self, feed: Feed, run: FeedRun) -> None:
        log = self._log
        if log is None or self._seam is not None or run.file != log.name:
            if not run.data:
                return  # a log begins with its descriptor
            log = self._begin_log(run)
        if run.description is not None and not log.is_log_of(run.description):
            raise OtherHistory(
                "the server's log of this name is a different one", path=log.path, offset=FIRST_EVENT
            )
        if run.data:
            end = run.position + len(run.data)
            added = log.take(run.data, run.position)
            self._starts.append(run.position)
            if self._unkept is not None:
                self._settle()
                self._keeper.keep(self._unkept)
                self._unkept = None
            if end > self._tracked:
                seen = max(0, self._tracked - run.position)
                self._tracker.take(run.data[seen:], run.position + seen, log.path)
                self._tracked = end
                self._check_head()
            self._note_events(added)
            self.status.state = "archiving" if added else "comparing"
        elif log.compared == log.size:
            self.status.state = "waiting"
        self._owed |= run.acknowledge
        now = self._world.now()
        if run.acknowledge or not run.data:
            self._settle()
            if self._owed:
                feed.acknowledge(log.name, log.synced)
                self._owed = False
        elif log.size - log.synced >= _UNSYNCED or now - self._synced_at >= _SYNC_INTERVAL:
            self._settle(behind=True)
        else:
            return
        self._synced_at = now
        self._tell()

    def _check_head(self) -> None:
        """After a failover, or where nothing was compared: check what a head says about earlier logs."""
        previous = self._tracker.previous
        segment = self.timeline.last
        if self._unproved and previous is not None:
            self._unproved = False
            if not self._tracker.follows:
                assert self._log is not None
                self._log.cut_back(FIRST_EVENT)  # it is not the next one
                raise OtherHistory(
                    "the server's log begins after other transactions than the archive's log before it",
                    path=self._log.path,
                    offset=FIRST_EVENT,
                )
        if previous is None or segment is None or segment.before is None or segment.settled is not None:
            return
        if segment.seam != FAILOVER:
            return
        assert self._log is not None
        before = parse_gtid_set(segment.before)
        if self._first_of_segment and (missing := previous - before):
            raise PurgedError(
                f"the server's logs begin after transactions that the archive lacks: {missing}",
                path=self._folder,
            )
        self._first_of_segment = False
        if not before - previous:
            self.timeline = self.timeline.settle(self._log.name)
            self._write_timeline()

    def _begin_log(self, run: FeedRun) -> GrowingLog:
        """Begin the server's next log, or another segment with it."""
        finished = None
        if self._log is not None and self._seam is None:
            if self._log.compared < self._log.size:
                raise DivergedError(
                    f"the server's {self._log.name} ends at {self._log.compared}, the archive's at"
                    f" {self._log.size}: the server lost what it had sent (a crash without sync_binlog=1);"
                    " give another destination",
                    path=self._log.path,
                    offset=self._log.compared,
                )
            self._log.finish()
            self._note_damage(self._log)
            finished = self._log.path
            self._closed = self._log.name
            self.status.closed_logs += 1
        if self._seam is None and self._closed is not None and run.file != next_name(self._closed):
            self._seam = Seam(CONTINUED if finished or run.file == self._tracker.rotated_to else GAP)
        if not is_log_name(run.file):
            raise ArchiveError(f"the server calls a log {run.file!r}: expected a name and a number")
        if run.position != FIRST_EVENT:
            raise ArchiveError(
                f"the server sent {run.file} from {run.position} on: expected all of it", path=run.file
            )
        if self._seam is not None:
            self._begin_segment(self._seam)
            self._first_of_segment, self._unproved = True, False
            self._seam = None
        segment = self.timeline.last
        assert segment is not None
        self._log = GrowingLog(self._files, os.path.join(self.folder_of(segment), run.file))
        self._tracker.begin()
        self._tracked = FIRST_EVENT
        self._starts.clear()
        if finished is not None and self._identity is not None and not self._identity.files:
            self._unkept = finished
        elif finished is not None:
            self._keeper.keep(finished)
        return self._log

    def _note_damage(self, log: GrowingLog) -> None:
        """Report a damaged finished log: it is damaged on the server, too."""
        if self._tracker.damaged is not None:
            self.status.damaged_logs.append(log.name)
            warnings.warn(
                f"a finished log is damaged, as the server sent it: the checksum of the event at"
                f" {self._tracker.damaged} does not match ({log.path})",
                BinlogWarning,
                stacklevel=2,
            )

    def _begin_segment(self, seam: Seam) -> None:
        until = left = None
        if self._log is not None:
            self._log.leave()
            until = (
                self._log.name,
                _last_boundary(self._log.path) if self._log.size else FIRST_EVENT,
            )
            self._log.close()
            left = self._log.path
        elif self._closed is not None:
            until = (self._closed, 1 << 62)
        self._log = self._closed = None
        assert self._identity is not None
        count = len(self.timeline.segments)
        segment = Segment(
            f"timeline-{count + 1}" if count else "",
            self._identity._asdict(),
            dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            seam.kind,
            str(seam.before) if seam.before else None,
        )
        folder = self.folder_of(segment)
        with as_archive_error(folder, "start a segment of the timeline"):
            if count:
                self._files.make_directory(folder)
                remove_unfinished(self._files, folder)
                if logs := logs_among(
                    self._files.names(folder)
                ):  # not left by a crash: the timeline comes first
                    raise ArchiveError(
                        f"holds logs ({logs[0]}, …) that the archiver did not make: move them away",
                        path=folder,
                    )
                self._files.sync_directory(self._folder)
        self.timeline = self.timeline.begin(segment, until)  # the keeper looks into every folder of it
        self._write_timeline()
        if left is not None:
            self._keeper.leave(left)

    def _write_timeline(self) -> None:
        path = os.path.join(self._folder, NAME)
        with as_archive_error(path, "write the timeline"):
            put(self._files, path, self.timeline.to_bytes())

    # ------------------------------------------------------------ syncing

    def _settle(self, *, behind: bool = False) -> None:
        """Put everything on disk, or (`behind`) start to; only data on disk counts."""
        self._keeper.check()
        if self._log is not None:
            if behind:
                self._log.sync_behind()
            else:
                self._log.sync()
            self.status.file, self.status.position = self._log.name, self._log.synced
            self._on_disk = self._log.path, self._log.synced

    def _note_events(self, added: int) -> None:
        self.status.received_bytes += added
        self.status.received_events = self._tracker.events
        self.status.timestamp = self._tracker.timestamp

    def _tell(self) -> None:
        status = self.status
        status.updated = self._world.time()
        status.gtids = str(self._tracker.gtids) if self._tracker.gtids is not None else None
        if status.state == "waiting":
            status.seconds_behind = 0.0
        elif status.timestamp and status.state in ("archiving", "comparing", "connecting"):
            status.seconds_behind = max(0.0, round(status.updated - status.timestamp, 3))
        self._on_status(status)


def _last_boundary(path: str) -> int:
    """Where the last complete transaction of a log ends."""
    with LogFile(path, mmap=False).open() as source:
        return last_boundary(source, FIRST_EVENT)
