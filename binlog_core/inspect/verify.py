"""Is a log whole? Checksums, lengths, rows and transactions of one file; damage is stepped over and told.

Where the chain of events breaks, the next event is looked for just as ``on_error="skip"`` does.
"""

from __future__ import annotations

import contextlib
import mmap
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from .._core import _headers
from .._core._headers import HEADER_DTYPE, walk_headers
from .._decode.log_decoder import LogDecoder
from .._decode.selection import Selection
from .._format.format_description import FormatDescription, detect, parse_format_description
from .._sources.sources import BufferSource
from .._walk.resync import Boundaries
from .._walk.salvage import Resumption, resume
from ..batch import OUTCOMES
from ..errors import BinlogError, DecompressionError
from ..limits import DEFAULT_LIMITS, Limits
from ..report import BinlogWarning, Report

if TYPE_CHECKING:
    from .._sources.log_files import LogFile
    from .._sources.sources import Source

_HEAD_LEN = 4096
_CHUNK = 65536  # headers
_COPY_LEN = 1 << 20
MOST_PLACES = 10_000  # of damage that are kept; all are counted

Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a log that cannot be read.

    Parameters
    ----------
    begin, end : int
        Offsets; end is where reading goes on.
    reason : str
    """

    begin: int
    end: int
    reason: str


class Places(list[Damage]):
    """Damages in log order; those that touch, with the same reason, as one.

    Attributes
    ----------
    total : int
        How many there are: the first 10,000 are in the list.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self._last: Damage | None = None

    def add(self, damage: Damage) -> None:
        """Add what was found behind all others."""
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
    """What was found of one file.

    Parameters
    ----------
    path : str
    size : int
        Bytes, decrypted and decompressed.
    format : FormatDescription or None
        None: the file ends before it says what it is.
    events, checksums : int
        Whole events, and those of them whose checksum was compared.
    damages : Places
    unreadable : Places
        Rows that cannot be decoded in events whose checksums say that they are as the server wrote them.
    tail : Damage or None
        The file ends inside this event.
    transactions : Counter
        Transactions with row changes, by outcome.
    incomplete : list of int
        Where transactions begin whose end is not there, the first 10,000 of them.
    incomplete_count : int
        How many there are.
    notes : Counter
        What decoding the rows counted besides; see ``binlog_core.report.KINDS``.
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

    @property
    def state(self) -> str:
        """ "whole", "cut" (it ends inside an event or transaction) or "damaged"."""
        if self.damages or self.format is None:
            return "damaged"
        return "cut" if self.tail is not None or self.incomplete else "whole"


def verify(file: LogFile, progress: Progress | None = None, *, limits: Limits = DEFAULT_LIMITS) -> Verdict:
    """Read a whole log and tell what of it is not as it should be.

    Parameters
    ----------
    file : LogFile
        Of ``log.files``, or of `binlog_core._sources.log_files.resolve`.
    progress : callable of (path, position), optional
    limits : Limits
        Its `spool_bytes` bound the temporary file of what a compressed or encrypted log unpacks to.

    Returns
    -------
    Verdict

    Raises
    ------
    BinlogError
        The file cannot be opened, is not a log, its key or a library for it is missing, or it unpacks to
        more than the limit.
    """
    with file.open() as source, _whole(source, limits.spool_bytes) as data:
        return _Verifier(file.name, data, progress, decrypted=source.decrypted).run()


class _Verifier:
    def __init__(
        self, path: str, data: memoryview, progress: Progress | None, *, decrypted: bool = False
    ) -> None:
        self.path = path
        self.data = data
        self.progress = progress
        self.out = Verdict(path, size=len(data))
        self.decrypted = decrypted
        self.has_checksums = False
        self.walked = self.decoded = 0
        self.ahead_from: int | None = None  # where positions begin to run ahead of the log

    def run(self) -> Verdict:
        out = self.out
        found = detect(bytes(self.data[:_HEAD_LEN]), self.path, verify_checksum=False)
        out.format = found.format
        if found.format is None:
            out.damages.add(Damage(0, len(self.data), "the file ends before it says what it is"))
            return out
        for begin, end in self._segments(found.format):
            self.has_checksums = out.checksums > 0
            self._rows(begin, end)
        return out

    def _tell(self, walked: int, decoded: int | None = None) -> None:
        """Progress: half of the work is to walk over the events, half to decode their rows."""
        self.walked = walked
        self.decoded = self.decoded if decoded is None else decoded
        if self.progress is not None:
            self.progress(self.path, (self.walked + self.decoded) // 2)

    # ------------------------------------------------------------ events

    def _segments(self, description: FormatDescription) -> Iterator[tuple[int, int]]:
        """Ranges of whole events, one after the other; what lies between them is damage."""
        out, data = self.out, self.data
        headers = np.empty(_CHUNK, HEADER_DTYPE)
        head = bytes(data[:_HEAD_LEN])
        boundaries = Boundaries.of(head, description)
        begin = offset = 4
        while True:
            header_length, _, canonical, checksum = description.core_arrays()
            count, offset, status = walk_headers(
                data,
                offset,
                headers,
                base=0,
                header_length=header_length,
                canonical=canonical,
                checksum=bool(checksum),
                verify=True,
                positions=boundaries.splittable,
            )
            out.events += count
            out.checksums += count if checksum else 0
            self._tell(offset)
            if status == _headers.WALK_FULL:
                continue
            if status == _headers.WALK_END:
                yield begin, offset
                return
            if status == _headers.WALK_DESCRIPTOR:
                length = int.from_bytes(data[offset + 9 : offset + 13], "little")
                if offset + length <= len(data):
                    try:
                        description = parse_format_description(
                            data[offset : offset + length], offset, self.path, verify_checksum=True
                        )
                        boundaries = Boundaries.of(head, description)
                        if self.ahead_from is not None:
                            boundaries = boundaries.ahead()
                        continue
                    except BinlogError as error:
                        reason = error.message
                else:
                    status, reason = _headers.WALK_TRUNCATED, ""
            if status == _headers.WALK_TRUNCATED:
                reason = f"the file ends inside an event, {len(data) - offset} bytes of it are there"
            elif status == _headers.WALK_CHECKSUM:
                reason = "wrong checksum"
            elif status == _headers.WALK_MALFORMED:
                reason = "an event's length is less than its header"
            elif status == _headers.WALK_BROKEN:
                reason = "the event does not end where it says"
            doubtful = None
            if status in (_headers.WALK_MALFORMED, _headers.WALK_BROKEN) and count:
                last = headers[count - 1]
                # It told no position: the length that led here may be what is wrong.
                doubtful = None if last["next_position"] else int(last["position"])
            found = self._next_event(offset, boundaries, status, doubtful)
            following = found.offset
            if found.ahead and following is not None:
                boundaries = boundaries.ahead()
                self.ahead_from = following
                out.notes["missing_bytes"] += 1
            if following == offset:
                continue
            if doubtful is not None and following is not None and following <= offset:
                offset = doubtful
                out.events -= 1
                out.checksums -= 1 if checksum else 0
            yield begin, offset
            if following is None:
                gap = Damage(offset, len(data), reason)
                if status == _headers.WALK_TRUNCATED or (
                    status == _headers.WALK_CHECKSUM and description.in_use
                ):
                    out.tail = gap
                else:
                    out.damages.add(gap)
                return
            if status == _headers.WALK_TRUNCATED:
                reason = "an event's length reaches past the end of the file"
            out.damages.add(Damage(offset, following, reason))
            begin = offset = following

    def _next_event(
        self, offset: int, boundaries: Boundaries, status: int, doubtful: int | None
    ) -> Resumption:
        """How the log goes on with the next whole event behind the one that is damaged."""
        length = int.from_bytes(self.data[offset + 9 : offset + 13], "little")
        return resume(
            boundaries,
            BufferSource(self.data, self.path),
            self.data,
            0,
            offset,
            length if status == _headers.WALK_CHECKSUM else 0,
            doubtful=doubtful,
            report=Report(),
        )

    # ------------------------------------------------------------ rows

    def _rows(self, begin: int, end: int) -> None:
        """Decode the rows of a range of whole events."""
        out = self.out
        places: list[tuple[int, str]] = []
        open_begins: dict[int, None] = {}
        report = Report()
        source = BufferSource(self.data, self.path)
        source.decrypted = self.decrypted
        decoder = LogDecoder(
            source,
            selection=Selection(start_position=begin, stop_position=end),
            report=report,
            verify_checksum=False,
            skip_errors=True,
        )
        if self.ahead_from is not None and begin >= self.ahead_from:
            decoder.believe_no_positions()
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always", BinlogWarning)
            try:
                for group in decoder.groups():
                    for batch in group.batches:
                        out.rows += int(np.count_nonzero(batch.array["image"]["op"] != 2))
                    for one in group.transactions:
                        at = int(one["begin_position"])
                        if one["end_position"]:
                            open_begins.pop(at, None)
                            out.transactions[OUTCOMES[one["outcome"]]] += 1
                        else:
                            open_begins[at] = None
                    self._tell(self.walked, group.end_position)
            except BinlogError as error:
                places.append((error.offset or begin, error.message))
        out.incomplete_count += len(open_begins)
        out.incomplete += islice(open_begins, MOST_PLACES - len(out.incomplete))
        for kind, count in report.as_dict().items():
            if kind != "missing_bytes":  # counted with the events
                out.notes[kind] += count
        places += [(begin if p.offset is None else p.offset, p.detail or "") for p in report.skipped]
        found = out.unreadable if self.has_checksums else out.damages
        for offset, reason in sorted(places):
            length = int.from_bytes(self.data[offset + 9 : offset + 13], "little")
            found.add(Damage(offset, min(offset + max(length, 1), len(self.data)), reason))
        found.total += report.skipped_events - len(report.skipped)


@contextmanager
def _whole(source: Source, most: int) -> Iterator[memoryview]:
    """All bytes of a log as one buffer: its mapping, or an unnamed temporary file of what it unpacks to."""
    view = source.view()
    if view is not None:
        yield view
        return
    with tempfile.TemporaryFile(prefix="binlog-core-") as file:
        while chunk := source.read(_COPY_LEN):
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
            with contextlib.suppress(BufferError):  # batches may still look at it; it goes with them
                mapping.close()
