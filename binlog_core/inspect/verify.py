"""Checks whether a log is complete: checksums, lengths, rows and transactions of one file. Reports damage.

Where the chain of events breaks, it looks for the next event just as ``on_error="skip"`` does.
"""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Unpack

import numpy as np

from .._base.change_columns import PREIMAGE
from .._decode.log_decoder import LogDecoder
from .._decode.selection import Selection
from .._format.event_header import FIRST_EVENT, length_of
from .._format.event_types import GTID_EVENTS, ROWS_EVENTS, ROWS_EVENTS_V0, EventType
from .._format.format_description import FormatDescription
from .._sources.sources import BufferSource, Source
from .._walk.event_walk import Damage, EventRun, walk
from .._walk.track import Rules, Track
from .._walk.typed_events import bodies_in, packed_events
from ..batch.change_batch import OUTCOMES
from ..errors import BinlogError, ChecksumError, DecodeError, DecompressionError, MissingExtraError
from ..events import parse_event
from ..limits import DEFAULT_LIMITS, Limits
from ..log.opened import files_of
from ..log.threads import processors
from ..report import Report

if TYPE_CHECKING:
    from .._sources.log_files import LogFile
    from ..log.options import AnyTarget, StoredOptions

_COPY_LEN = 1 << 20
_CONTENT_BYTES = 32 << 20  # of parsed events that are kept: an equal event is not parsed again
_CONTENT_COST = 128  # bytes that keeping one takes besides
# Bytes at the beginning in which otherwise equal events differ: the table id; thread and duration.
_OFTEN_THE_SAME = {int(EventType.TABLE_MAP): 6, int(EventType.QUERY): 8}
_DECODED_WITH_ROWS = np.array(sorted((*GTID_EVENTS, *ROWS_EVENTS_V0, *ROWS_EVENTS, EventType.XID)), np.uint8)
MOST_PLACES = 10_000  # of damage that are kept; all are counted

Progress = Callable[[str, int], None]


class Places(list[Damage]):
    """Damaged ranges in log order; adjacent ones with the same reason are one.

    Attributes
    ----------
    total : int
        How many ranges there are; only the first 10,000 are in the list.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self._last: Damage | None = None

    def add(self, damage: Damage) -> None:
        """Add damage that was found after all others."""
        last = self._last
        joins = last is not None and damage.begin <= last.end and damage.reason == last.reason
        if joins and last is not None:
            damage = Damage(last.begin, max(last.end, damage.end), last.reason)
        self._last = damage
        self.total += not joins
        if self.total <= MOST_PLACES:
            self[self.total - 1 :] = [damage]


@dataclass(slots=True)
class Verdict:
    """What `verify_log` found in one file.

    Parameters
    ----------
    path : str
        The path of the file, or the name of the source.
    size : int
        Its bytes, decrypted and decompressed.
    format : FormatDescription or None
        The log's descriptor; None if the file ends before it.
    events, checksums : int
        The number of whole events, and of those whose checksum was compared.
    rows : int
        The number of changed rows that were decoded.
    damages : Places
        Where the file is damaged.
    unreadable : Places
        Rows that cannot be decoded although the checksums of their events are right.
    tail : Damage or None
        The event that the file ends inside.
    transactions : Counter
        Transactions with row changes, by outcome.
    incomplete : list of int
        Where transactions without an end begin; only the first 10,000 are kept.
    incomplete_count : int
        How many there are.
    notes : Counter
        What else was counted while decoding the rows; see ``binlog_core.report.KINDS``.
    paged : bool
        Whether the file has pages, whose checksums were compared instead (``.ibb``).
    """

    path: str
    size: int = 0
    format: FormatDescription | None = None
    events: int = 0
    checksums: int = 0
    rows: int = 0
    damages: Places = field(default_factory=lambda: Places())
    unreadable: Places = field(default_factory=lambda: Places())
    tail: Damage | None = None
    transactions: Counter[str] = field(default_factory=Counter)
    incomplete: list[int] = field(default_factory=list)
    incomplete_count: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    paged: bool = False

    @property
    def state(self) -> str:
        """ "whole", "cut" (it ends inside an event or transaction) or "damaged"."""
        if self.damages or self.format is None:
            return "damaged"
        return "cut" if self.tail is not None or self.incomplete else "whole"


def verify_log(
    file: LogFile, progress: Progress | None = None, *, limits: Limits = DEFAULT_LIMITS
) -> Verdict:
    """Read a whole log and report what is wrong with it.

    Parameters
    ----------
    file : LogFile
        A log from ``log.files``.
    progress : callable of (path, position), optional
        Called from time to time with the position reached in the file, in bytes.
    limits : Limits
        Its `spool_bytes` limit the temporary file that a compressed or encrypted log is unpacked to.

    Returns
    -------
    Verdict

    Raises
    ------
    BinlogError
        The file cannot be opened or is not a log, its key or a library is missing, or it unpacks to more
        than the limit.
    """
    return _verify(file, progress, limits)[0]


def _verify(file: LogFile, progress: Progress | None, limits: Limits) -> tuple[Verdict, LogFile | None]:
    """The verdict, and the next log if only reading this one shows which that is."""
    with file.open() as source:
        name = source.path if file.chained else file.name  # a server's address says not which log
        lost: list[Damage] = []
        with _whole(source, limits.spool_bytes, lost) as data:
            if source.finds_transactions:
                verdict = _PagedVerifier(name, data, progress, lost).run()
            else:
                verdict = _Verifier(name, data, progress, decrypted=source.decrypted).run()
        verdict.paged = source.finds_transactions
        if not lost and verdict.tail is None and verdict.paged and source.withheld:
            verdict.tail = Damage(verdict.size, verdict.size, "the file ends inside a record")
        return verdict, file.behind(source)


class _NotWanted(Exception):
    """Ends the reading of a log whose verdict is no longer needed."""


def verify(
    target: AnyTarget,
    progress: Progress | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    threads: int = 0,
    **options: Unpack[StoredOptions],
) -> Iterator[Verdict | BinlogError]:
    """What `verify_log` finds in each log of a target, in order; several are read in parallel.

    A `BinlogWarning` names numbers that are missing between the logs.

    Parameters
    ----------
    target : Log, or what `binlog_core.open` takes
        The logs; of a `Log`, its files from ``start`` to ``stop``, each as a whole.
    progress, limits
        As in `verify_log`; progress is reported only for the log whose verdict comes next.
    threads : int
        How many logs are read in parallel; 0: one per processor. A pipe is read when its turn comes.
    **options
        The options ``keys``, ``storage_options``, ``server``, ``password_file`` and ``defaults_file`` of
        `binlog_core.open`.

    Returns
    -------
    iterator of Verdict or BinlogError
        For each log its verdict, or the error that `verify_log` raises.

    Raises
    ------
    BinlogError
        The target does not exist, or a server refuses.
    """
    files = files_of(target, **options)
    files.tell(Report())
    return _verdicts(files, progress, limits, threads)


def _verdicts(
    files: Iterable[LogFile], progress: Progress | None, limits: Limits, threads: int
) -> Iterator[Verdict | BinlogError]:
    turn: LogFile | None = None
    ended = False

    def verdict(file: LogFile) -> tuple[Verdict | BinlogError, LogFile | None]:
        def reached(path: str, position: int) -> None:
            if ended:
                raise _NotWanted
            if progress is not None and file is turn:
                progress(path, position)

        try:
            return _verify(file, reached, limits)
        except BinlogError as error:
            return error, None

    count = threads or processors()
    left = iter(files)
    ahead: deque[tuple[LogFile, Future[tuple[Verdict | BinlogError, LogFile | None]] | None]] = deque()
    with ThreadPoolExecutor(count, "binlog_core-verify") as pool:
        try:
            while True:
                for file in islice(left, count - len(ahead)):
                    ahead.append((file, pool.submit(verdict, file) if file.divisible else None))
                if not ahead:
                    return
                turn, waited = ahead.popleft()
                found, behind = verdict(turn) if waited is None else waited.result()
                if behind is not None:
                    ahead.appendleft((behind, None))
                yield found
        finally:
            ended = True
            for _, waited in ahead:
                if waited is not None:
                    waited.cancel()


class _Verifier:
    """Verifies one log, all of whose bytes are mapped or in memory."""

    def __init__(
        self, path: str, data: memoryview, progress: Progress | None, *, decrypted: bool = False
    ) -> None:
        self.path = path
        self.data = data
        self.progress = progress
        self.out = Verdict(path, size=len(data))
        self.decrypted = decrypted
        self.walked = self.decoded = 0
        self.parsed: set[bytes] = set()  # contents of events that need not be parsed again
        self.room = _CONTENT_BYTES  # for more of them
        self.unparsed = Report(warn=False)  # of the events of the current range

    def run(self) -> Verdict:
        out = self.out
        track = self._track(Report(warn=False))
        out.format = track.read_format()
        if out.format is None:
            out.damages.add(Damage(0, len(self.data), "the file ends before its format description"))
            return out
        self._descriptor()
        track.verify = True
        begin: int | None = None  # of the current range of undamaged events
        end, lacks_bytes = FIRST_EVENT, False
        for run in walk(track):
            if isinstance(run, Damage):
                self._rows(begin, run.begin, lacks_bytes=lacks_bytes)
                begin = None
                out.damages.add(run)
                continue
            if begin is None:
                begin, lacks_bytes = int(run.headers["position"][0]), track.lacks_bytes
            end = int(run.headers["position"][-1]) + int(run.headers["event_length"][-1])
            out.events += len(run.headers)
            out.checksums += len(run.headers) if run.description.checksum_algorithm else 0
            self._parse(run)
            self._show_progress(end)
        self._rows(begin, end, lacks_bytes=lacks_bytes)
        if track.tail is not None:
            out.tail = Damage(track.tail.offset, len(self.data), track.tail.reason)
        for kind, count in track.report.as_dict().items():
            if kind != "skipped_events":
                out.notes[kind] += count
        return out

    def _track(self, report: Report) -> Track:
        return Track(self._source(), Rules.lenient(report))

    def _source(self) -> Source:
        source = BufferSource(self.data, self.path)
        source.decrypted = self.decrypted
        return source

    def _show_progress(self, walked: int, decoded: int | None = None) -> None:
        """Progress: half of the work is to walk over the events, half to decode their rows."""
        self.walked = walked
        self.decoded = self.decoded if decoded is None else decoded
        if self.progress is not None:
            self.progress(self.path, (self.walked + self.decoded) // 2)

    # ------------------------------------------------------------ events

    def _descriptor(self) -> None:
        """Check the checksum of the first event, by which the log is read even if it is damaged."""
        track = self._track(Report(warn=False))
        track.verify = True
        try:
            track.read_format()
        except ChecksumError as error:
            self.out.damages.add(Damage(*self._place(FIRST_EVENT), error.message))

    def _place(self, offset: int) -> tuple[int, int]:
        """Where an event begins and ends, as far as its header can be believed."""
        length = length_of(self.data, offset)
        return offset, min(offset + max(length, 1), len(self.data))

    def _parse(self, run: EventRun) -> None:
        """Parse the events of a run that are not decoded with its rows."""
        headers = run.headers[~np.isin(run.headers["type_code"], _DECODED_WITH_ROWS)]
        track = self._track(self.unparsed)
        for fields, body in bodies_in(run, headers):
            kind = fields.type_code
            content = b""
            if kind in _OFTEN_THE_SAME:  # except for the bytes at the beginning
                content = bytes((kind,)) + body[_OFTEN_THE_SAME[kind] :]
                if content in self.parsed:
                    continue
            try:
                parse_event(fields, body, run.description, self.path)
                if kind == EventType.TRANSACTION_PAYLOAD:
                    for _ in packed_events(track, fields, body, run.description, _DECODED_WITH_ROWS):
                        pass
            except MissingExtraError:
                raise  # nothing is wrong with the event
            except BinlogError as error:
                self.unparsed.add("skipped_events", offset=fields.position, detail=error.message)
            else:
                if content and (cost := len(content) + _CONTENT_COST) <= self.room:
                    self.parsed.add(content)
                    self.room -= cost

    # ------------------------------------------------------------ rows

    def _rows(self, begin: int | None, end: int, *, lacks_bytes: bool) -> None:
        """Decode the rows of a range of complete events."""
        if begin is None:
            return
        out = self.out
        reasons: dict[int, str] = {}
        open_begins: dict[int, None] = {}
        report = Report(warn=False)
        selection = Selection(start_position=begin, stop_position=end)
        decoder = LogDecoder(self._source(), selection, Rules.lenient(report))
        if lacks_bytes:
            decoder.track.believe_no_positions()
        try:
            for group in decoder.groups():
                for batch in group.batches:
                    out.rows += int(np.count_nonzero(batch.array["image"]["op"] != PREIMAGE))
                for one in group.transactions:
                    at = int(one["begin_position"])
                    if one["end_position"]:
                        open_begins.pop(at, None)
                        out.transactions[OUTCOMES[one["outcome"]]] += 1
                    else:
                        open_begins[at] = None
                self._show_progress(self.walked, group.end_position)
        except MissingExtraError:
            raise
        except BinlogError as error:
            reasons[error.offset or begin] = error.message
        out.incomplete_count += len(open_begins)
        out.incomplete += islice(open_begins, MOST_PLACES - len(out.incomplete))
        for kind, count in report.as_dict().items():
            if kind != "missing_bytes":  # counted with the events
                out.notes[kind] += count
        found = out.unreadable if out.checksums else out.damages
        for told in (report, self.unparsed):
            found.total += told.skipped_events - len(told.skipped)
            for place in told.skipped:
                reasons.setdefault(begin if place.offset is None else place.offset, place.detail or "")
        for offset in sorted(reasons):
            found.add(Damage(*self._place(offset), reasons[offset]))
        self.unparsed = Report(warn=False)


class _PagedVerifier(_Verifier):
    """Verifies the log of a file with pages: behind damage it goes on where the file's reader does."""

    def __init__(self, path: str, data: memoryview, progress: Progress | None, lost: list[Damage]) -> None:
        super().__init__(path, data, progress)
        self.lost = lost

    def _source(self) -> Source:
        return _PagedCopy(self.data, self.path, self.lost)


class _PagedCopy(Source):
    """A copy of what the reader of a file with pages gives, with the places where it does not give it."""

    seekable = True
    finds_transactions = True

    def __init__(self, data: memoryview, path: str, lost: list[Damage]) -> None:
        super().__init__(path)
        self._data = data
        self._lost = lost
        self._next = 0

    @property
    def size(self) -> int:
        """Its bytes, with those that are lost."""
        return len(self._data)

    def peek(self, size: int) -> bytes:
        """The next bytes without moving on: what comes before damage is not lost by looking ahead."""
        try:
            return super().peek(size)
        except DecodeError:
            if not self._ahead:
                raise
            return self._ahead

    def _fetch(self, size: int) -> bytes:
        end = self._next + size
        if (damage := self._damage()) is not None:
            if damage.begin <= self._next:
                raise DecodeError(damage.reason, path=self.path, offset=self._next)
            end = min(end, damage.begin)
        data = bytes(self._data[self._next : end])
        self._next += len(data)
        return data

    def _damage(self) -> Damage | None:
        """The first damage that does not end before the next byte."""
        place = bisect_right(self._lost, self._next, key=lambda one: one.end)
        return self._lost[place] if place < len(self._lost) else None

    def _move(self, position: int) -> None:
        self._next = position

    def pass_damage(self) -> bool:
        """After an error of `read`: make it go on behind the damage; False: that is not possible."""
        damage = self._damage()
        if damage is None or damage.begin > self._next:
            return False
        self._ahead = b""
        self._next = self.position = damage.end
        return True

    def close(self) -> None:
        """Do nothing: the copy is the verifier's."""


def _read(source: Source, lost: list[Damage]) -> bytes:
    try:
        return source.read(_COPY_LEN)
    except BinlogError as error:
        begin = source.position
        if not source.pass_damage():
            raise
        lost.append(Damage(begin, source.position, f"{error.message}, at {error.offset} in the file"))
        return bytes(source.position - begin)


@contextmanager
def _whole(source: Source, most: int, lost: list[Damage]) -> Iterator[memoryview]:
    """All bytes of a log as one buffer: its mapping, or an unnamed temporary file with its unpacked bytes.

    Bytes that the source cannot read, but reads behind, are 0 and added to `lost`.
    """
    view = source.view()
    if view is not None:
        yield view
        return
    with tempfile.TemporaryFile(prefix="binlog-core-") as file:
        while chunk := _read(source, lost):
            file.write(chunk)
            if file.tell() > most:
                raise DecompressionError(
                    f"the log unpacks to more than Limits.spool_bytes={most}", path=source.path
                )
        file.flush()
        if not file.tell():
            yield memoryview(b"")
            return
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            yield memoryview(mapping)
        finally:
            with contextlib.suppress(BufferError):  # batches may still refer to it; it is closed with them
                mapping.close()
