"""An archive in an object store: kept in a local spool, and uploaded from there."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

from .._base.redaction import shown_url
from .._sources.archives import LONGEST_TIMELINE
from .._sources.log_files import LogFile
from .._sources.log_names import SEGMENT
from .._sources.object_stores import arrow_filesystem
from .._sources.places import StorePlace, place_of
from .._sources.sources import Source
from .._sources.tails import TailPart, chain_of, without_parts
from .._sources.timeline import NAME, ArchiveTimeline
from ..errors import ArchiveError, BinlogError, MissingFileError
from ..server.world import REAL, Started, World
from .claims import Claim
from .files import Files, as_archive_error, open_itself, put, write_all
from .names import logs_among

_PIECE = 8 << 20
_WHOLE_PART = 8 << 20  # parts of the growing log are merged up to this
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds between two tries
T = TypeVar("T")


class Store:
    """Objects below a URL. Failed requests are repeated for a while.

    Parameters
    ----------
    url : str
    storage_options : dict or None
    patience : float
        Seconds to keep trying.
    stop : threading.Event
        Ends waiting when set.
    world : World
        Its clock.
    """

    def __init__(
        self,
        url: str,
        storage_options: dict[str, Any] | None,
        *,
        patience: float,
        stop: threading.Event,
        world: World = REAL,
    ) -> None:
        self.url = url.rstrip("/")
        self._storage_options = storage_options
        self._place: StorePlace = place_of(url, storage_options)
        self._patience = patience
        self._stop = stop
        self.world = world
        found = arrow_filesystem(self.url, storage_options)
        if found is not None:
            self._arrow, self._root = found
            self._fsspec = None
        else:
            import fsspec

            self._arrow = None
            self._fsspec, self._root = fsspec.core.url_to_fs(self.url, **(storage_options or {}))

    def names(self, folder: str = "") -> list[str]:
        """Names of the objects in a folder."""

        def listed() -> list[str]:
            try:
                found = self._place.files(self._url_of(folder).rstrip("/") + "/")
            except MissingFileError:
                return []
            return sorted(path.rpartition("/")[2] for path in found or ())

        return self._tried(listed, "list", folder)

    def read(self, name: str) -> Iterator[bytes]:
        """An object, piece by piece."""
        with self._opened(name) as source:
            while piece := source.read(_PIECE):
                yield piece

    def read_surely(self, name: str) -> Iterator[bytes]:
        """An object, piece by piece; a piece that fails is requested again."""
        position = 0

        def piece() -> bytes:
            with self._opened(name) as source:
                source.seek(position)
                return source.read(_PIECE)

        while data := self._tried(piece, "read", name):
            yield data
            position += len(data)

    def read_small(self, name: str, limit: int) -> bytes | None:
        """The first bytes of an object; None: there is none."""

        def content() -> bytes | None:
            data = b""
            try:
                for piece in self.read(name):
                    data += piece
                    if len(data) >= limit:
                        break
            except MissingFileError:
                return None
            return data[:limit]

        return self._tried(content, "read", name)

    def size(self, name: str) -> int:
        """Bytes of an object."""

        def told() -> int:
            with self._opened(name) as source:
                return source.size or 0

        return self._tried(told, "say the size of", name)

    def written_at(self, name: str) -> float | None:
        """When an object was written, by the store's clock; seconds since 1970 UTC. None: it does not say."""

        def told() -> float | None:
            path, found = f"{self._root}/{name}", None
            if self._fsspec is None:
                found = self._arrow.get_file_info(path).mtime
            else:
                with contextlib.suppress(NotImplementedError):  # not every store of fsspec knows
                    found = self._fsspec.modified(path)
            return None if found is None else float(found.timestamp())

        return self._tried(told, "say the age of", name)

    def _opened(self, name: str) -> Source:
        return LogFile(self._url_of(name), storage_options=self._storage_options).open_stored()

    def write(self, name: str, source: BinaryIO, size: int, begin: int = 0) -> None:
        """Create an object from `size` bytes of a file, from `begin` on."""

        def piece_of(left: int) -> bytes:
            piece = source.read(min(left, _PIECE)) if left else b""
            if left and not piece:
                raise OSError(f"the local file ends {left} bytes early")
            return piece

        def written() -> None:
            source.seek(begin)
            left = size
            piece = piece_of(left)  # before the object is begun: a small one is never short
            writer = self._writer(name)
            try:
                with writer as target:
                    while piece:
                        target.write(piece)
                        left -= len(piece)
                        piece = piece_of(left)
            except BaseException as error:
                if left and size > _PIECE:  # closing it has completed what there is of it
                    self._remove_short(name, error)
                raise

        self._tried(written, "write", name)

    def _remove_short(self, name: str, reason: BaseException) -> None:
        try:
            self._remove_once(name)
        except Exception as error:
            raise OSError(f"{reason}; the object is short, and cannot be removed: {error}") from reason

    def remove(self, name: str) -> None:
        """Remove an object, if it exists."""
        self._tried(lambda: self._remove_once(name), "remove", name)

    def _remove_once(self, name: str) -> None:
        remove = self._fsspec.rm_file if self._fsspec is not None else self._arrow.delete_file
        with contextlib.suppress(FileNotFoundError):
            remove(f"{self._root}/{name}")

    def wait(self, seconds: float) -> None:
        """Wait, or until stopped."""
        self.world.wait(self._stop, seconds)

    def logs(self, folder: str) -> list[LogFile]:
        """The logs in a folder, by number."""
        names = self.log_names(folder)
        return [
            LogFile(
                self._url_of(f"{folder}/{name}" if folder else name), storage_options=self._storage_options
            )
            for name in names
        ]

    def log_names(self, folder: str) -> list[str]:
        """Their names, including that of the growing log."""
        return _logs_of(self.names(folder))

    def name_of(self, url: str) -> str:
        """The name of an object."""
        return url.removeprefix(self.url + "/")

    def _writer(self, name: str) -> Any:
        inner = f"{self._root}/{name}"
        if self._fsspec is not None:
            return self._fsspec.open(inner, "wb")
        return self._arrow.open_output_stream(inner, compression=None)  # by default the name decides

    def _url_of(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def _tried(self, work: Callable[[], T], doing: str, name: str) -> T:
        end = self.world.now() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return work()
            except Exception as error:  # each store raises different errors
                if self.world.now() + pause >= end or self._stop.is_set():
                    shown = shown_url(self._url_of(name))
                    raise ArchiveError(
                        f"the store cannot {doing}: {type(error).__name__}: {error}", path=shown
                    ) from None
            self.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


class Uploader:
    """Uploads the contents of the spool: finished logs, the timeline, and the growing log's beginning.

    Parameters
    ----------
    store : Store
    spool : str
        The local directory.
    interval : float
        Seconds between two uploads of the growing log.
    files : Files or None
        How the spool is used.
    """

    def __init__(self, store: Store, spool: str, interval: float, files: Files | None = None) -> None:
        self.store = store
        self._world = store.world
        self._files = files or Files()
        self._spool = spool
        self._interval = interval
        self._claim = Claim(store, 3 * interval + 60, store.world)
        self._timeline = b""  # as the store has it
        self._tail: tuple[str, list[TailPart]] = "", []  # the growing log's path; its parts in the store
        self._finished: set[str] = set()  # logs whose beginning must not be uploaded any more
        self.error: BaseException | None = None
        self._ended = threading.Event()
        self._thread: Started | None = None
        self._renewing: Started | None = None
        self._lock = self._world.lock()  # one upload at a time: the growing log's, or a finished one's

    @property
    def name(self) -> str:
        """The store's address for display."""
        return shown_url(self.store.url)

    # ------------------------------------------------------------ begin and end

    def begin(self) -> None:
        """Refuse if another archiver keeps the store; fetch what the spool lacks.

        Raises
        ------
        ArchiveError
        """
        self._claim.begin()
        self._renewing = self._every("archive-claim", self._renew)
        try:
            self._take_up(self.store.names())
        except BaseException:
            self.end()
            raise

    def _take_up(self, names: list[str]) -> None:
        if NAME not in names:
            if logs := logs_among(names):
                raise ArchiveError(
                    f"holds logs ({logs[0]}, …) and is not an archive: expected an empty place, or one"
                    f" with {NAME}",
                    path=shown_url(self.store.url),
                )
            return
        self._timeline = self.store.read_small(NAME, LONGEST_TIMELINE) or b""
        timeline = ArchiveTimeline.parse(self._timeline, shown_url(self.store.url))
        for segment in reversed(timeline.segments):  # the last may have been lost before its first log came
            folder = segment.folder
            names = self.store.names(folder)
            if logs := _logs_of(names):
                self._remove_stale_parts(folder, names)
                if not self._has(folder, logs[-1]):
                    self._fetch(folder, logs[-1])
                return

    def _remove_stale_parts(self, folder: str, names: list[str]) -> None:
        """Remove the parts that an archiver left when it died after it had uploaded a finished log.

        Also remove parts after a missing one, because of which readers refuse the log: they are uploaded
        again.
        """
        kept = {part for log in without_parts(names)[1] for part in chain_of(names, log)}
        for name in names:
            if (part := TailPart.of(name)) is not None and part not in kept:
                self.store.remove(f"{folder}/{name}" if folder else name)

    def _has(self, folder: str, name: str) -> bool:
        """Whether the spool belongs to this archive and is as far as the store."""
        try:
            with open(os.path.join(self._spool, NAME), "rb", opener=open_itself) as file:
                timeline = ArchiveTimeline.parse(file.read(), self._spool)
        except (OSError, BinlogError):
            return False
        known = [one.folder for one in timeline.segments]
        logs = [self._spooled(one) for one in known]
        # The last may have been lost before its first log came, and the logs before it are only in the store.
        last = max((i for i, mine in enumerate(logs) if mine), default=-1)
        if folder not in known:
            return False
        own = known.index(folder)
        if last != own:
            return last > own
        mine = logs[own]
        if _bare(mine[-1]) != _bare(name):
            return _bare(mine[-1]) > _bare(name)
        if mine[-1] != name:  # if one of them is compressed, that one is finished
            return mine[-1].endswith(".zst")
        return os.path.getsize(os.path.join(self._spool, folder, name)) >= self.store.size(
            f"{folder}/{name}" if folder else name
        )

    def _spooled(self, folder: str) -> list[str]:
        """The logs of a segment that are in the spool, by number."""
        with contextlib.suppress(OSError):
            return logs_among(os.listdir(os.path.join(self._spool, folder)))
        return []

    def _fetch(self, folder: str, name: str) -> None:
        """Fetch the timeline and the last log, for an archiver on another machine.

        Everything in the spool is also in the store, which is further: logs are uploaded one after another.
        """
        files = self._files
        with as_archive_error(self._spool, "clear the spool"):
            for path in self._folders():
                for old in logs_among(files.names(path)):
                    files.remove(os.path.join(path, old))
        target = os.path.join(self._spool, folder)
        with as_archive_error(target, "write into the spool"):
            files.make_directory(target)
            path = os.path.join(target, name)
            with contextlib.suppress(FileNotFoundError):
                files.remove(path)
            descriptor, size = files.open(path, new=True), 0
            try:
                for piece in self.store.read_surely(f"{folder}/{name}" if folder else name):
                    write_all(files, descriptor, piece, size)
                    size += len(piece)
                files.sync(descriptor)
            finally:
                files.close(descriptor)
        put(files, os.path.join(self._spool, NAME), self._timeline)

    def end(self) -> None:
        """Give up the store, so that another archiver can have it."""
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join()
        self._claim.end()

    def _renew(self) -> None:
        self._claim.check()
        self._claim.renew()

    def _write_small(self, name: str, data: bytes) -> None:
        self.store.write(name, io.BytesIO(data), len(data))

    # ------------------------------------------------------------ uploads

    def upload_timeline(self) -> None:
        """Upload the timeline if it has changed."""
        path = os.path.join(self._spool, NAME)
        with as_archive_error(path, "read the timeline"), open(path, "rb", opener=open_itself) as file:
            text = file.read()
        if text != self._timeline:
            self._write_small(NAME, text)
            self._timeline = text

    def upload_finished(self, path: str) -> None:
        """Upload a log that no longer grows; then the spool no longer needs it."""
        with self._lock:
            self._claim.check()
            self.upload_timeline()
            name = os.path.relpath(path, self._spool)
            with as_archive_error(path, "read the log"), open(path, "rb", opener=open_itself) as source:
                self.store.write(name, source, os.fstat(source.fileno()).st_size)
            self._finished.add(_bare(path))
            for part in self._parts(_bare(name), chained=False):  # its beginning went before it, as it grew
                self.store.remove(part.path)
            with as_archive_error(path, "remove the log, which is in the store"):
                self._files.remove(path)

    def _parts(self, name: str, *, chained: bool) -> list[TailPart]:
        """The store's parts of a log: those that join to its beginning, or (not `chained`) all."""
        folder, _, log = name.rpartition("/")
        names = self.store.names(folder)
        parts = chain_of(names, log) if chained else filter(None, map(TailPart.of, names))
        return [part._replace(log=name) for part in parts if part.log == log]

    def upload_tail(self, place: tuple[str, int] | None) -> None:
        """Upload the growing log as far as it is on disk.

        Parameters
        ----------
        place : (str, int) or None
            Its path, and how many of its bytes.
        """
        with self._lock:
            self._claim.check()
            if place is None or place[0] in self._finished:
                return
            path, size = place
            if path != self._tail[0]:
                if self._has_other(path):  # this comes first, so that no reader misses its end
                    return
                self._tail = path, self._parts(os.path.relpath(path, self._spool), chained=True)
            parts = self._tail[1]
            end = parts[-1].end if parts else 0
            if size <= end:
                return
            try:
                with as_archive_error(path, "read the log"):
                    source = open(path, "rb", opener=open_itself)  # noqa: SIM115 - closed below
            except ArchiveError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    return  # it is finished and compressed, and is uploaded as a whole
                raise
            part = TailPart(os.path.relpath(path, self._spool), end, size)
            kept = len(parts)
            # Each byte goes again only when its part grows by half or more: a few times, up to a whole part.
            while kept and parts[kept - 1].size < min(_WHOLE_PART, 2 * part.size):
                kept -= 1
                part = part._replace(begin=parts[kept].begin)
            with source:
                self.upload_timeline()
                self.store.write(part.path, source, part.size, part.begin)
            for old in parts[kept:]:
                self.store.remove(old.path)
            parts[kept:] = [part]

    def _has_other(self, path: str) -> bool:
        """Whether a log before this one is not in the store yet."""
        found = (os.path.join(at, name) for at in self._folders() for name in logs_among(os.listdir(at)))
        return any(_bare(other) != path for other in found)

    def _folders(self) -> list[str]:
        """The spool and its segments; other folders in it are not the archiver's."""
        with os.scandir(self._spool) as entries:
            return [
                self._spool,
                *(
                    one.path
                    for one in entries
                    if SEGMENT.fullmatch(one.name) and one.is_dir(follow_symlinks=False)
                ),
            ]

    # ------------------------------------------------------------ parallel to the stream

    def start(self, place: Callable[[], tuple[str, int] | None]) -> None:
        """Upload the growing log from now on, once per interval."""
        self._thread = self._every("archive-upload", lambda: self.upload_tail(place()))

    def _every(self, name: str, work: Callable[[], None]) -> Started:
        """Work once per interval, in a thread; if the work takes longer, use half of the time."""

        def go_on() -> None:
            pause = self._interval
            while not self._world.wait(self._ended, pause):
                began = self._world.now()
                try:
                    work()
                except BaseException as error:
                    self.error = error
                    return
                pause = max(self._interval, self._world.now() - began)

        return self._world.start(go_on, name)

    def finish(self, place: tuple[str, int] | None) -> None:
        """Upload the rest."""
        self.stop()
        self.upload_tail(place)

    def stop(self) -> None:
        """End the uploads; may be called again."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _logs_of(names: list[str]) -> list[str]:
    """The logs among the names in a folder, including the growing one if its beginning is there."""
    whole, growing = without_parts(names)
    return logs_among([*whole, *(log for log in growing if chain_of(names, log))])


def _bare(name: str) -> str:
    return name.removesuffix(".zst")
