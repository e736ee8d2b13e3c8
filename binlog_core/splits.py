"""Parts of a log that several workers read at once, found without an index.

A plan is made from file sizes alone. The worker of a part finds the first transaction that begins in
it by itself (see ``resync.py``) and reads up to the first that begins at or behind its end::

    splits = plan_splits("binlogs/", split_size=64 << 20)
    results = []
    for split in splits:  # anywhere, in any order
        reader = read_split_groups(split)
        for group in reader:
            ...
        results.append(reader.result)
    again = check_seams(results)  # almost always empty: see there
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self, Unpack

from ._core import _resync
from ._decode.group import Group
from ._decode.gtid_selection import gtid_set, union
from ._decode.log_decoder import LogDecoder
from ._format.format_description import FIRST_EVENT_POSITION
from ._opening import OpenOptions
from ._opening import open as open_log
from ._redaction import shown_url
from ._sources.archives import EPOCH_SHIFT, check_share
from ._sources.log_files import LogFile, resolve
from ._sources.log_names import LogName, name_key
from ._sources.places import is_url
from ._walk.anchors import ELSEWHERE, NOT_IN_PARTS, Head, first_anchor, walk_to_anchor, window_at
from ._walk.track import Tail
from .errors import BinlogError, DecodeError, MissingFileError
from .gtids import parse_gtid_set

if TYPE_CHECKING:
    from ._sources.sources import Source

FILE_NUMBER_SHIFT = 40  # `version_base`: the file's number above, an offset within the file below
DEFAULT_SPLIT_SIZE = 128 << 20

_MAX_FILE_NUMBER = (1 << 63 - FILE_NUMBER_SHIFT) - 1
_PLANNING_THREADS = 32  # a look into an object store is waiting, not work


Logs = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True, repr=False)
class Split:
    """A part of one log that one task reads; small, and made to be pickled.

    It owns all transactions that begin in it: everything from the first anchor in ``[start, end)`` up to the
    first anchor at or behind ``end``. Without an anchor it owns nothing. An anchor is where a transaction
    begins. The first split of a log begins at its first event.

    Parameters
    ----------
    path : str
        Path or URL of the log, as a worker opens it.
    start : int
        Where the part begins, in bytes.
    end : int or None
        Where it ends; None: at the end of the log.
    file_number : int
        The log's number.
    index : int
        Place in the plan, from 0.
    anchor : int or None
        The first anchor, or that there is none, where that is known already; see `trusted`.
    trusted : bool
        `anchor` is known: it is not looked for.
    before : str or None
        Of a log in an archive: GTIDs of transactions that came in earlier logs, and are left out.
    """

    path: str
    start: int = 0
    end: int | None = None
    file_number: int = 0
    index: int = 0
    anchor: int | None = None
    trusted: bool = False
    before: str | None = None

    def __repr__(self) -> str:
        end = "the end" if self.end is None else self.end
        return f"Split({shown_url(self.path)!r}, {self.start} to {end}, file {self.file_number})"

    @property
    def name(self) -> str:
        """Its path as it is shown: of a URL without user, password and signature."""
        return shown_url(self.path)

    @property
    def whole(self) -> bool:
        """Whether it is the whole log."""
        return self.start == 0 and self.end is None

    @property
    def version_base(self) -> int:
        """What is added to an offset to order the transactions of several logs: file number * 2**40."""
        return self.file_number << FILE_NUMBER_SHIFT


@dataclass(frozen=True, slots=True)
class SplitResult:
    """Between which anchors a split was read: what `check_seams` needs. Pickled with what a task returns.

    Parameters
    ----------
    split : Split
    first_anchor : int or None
        Position of its first event; None: it owns nothing.
    next_anchor : int or None
        Position where the next split's events begin; None: the log ends before.
    error : BinlogError or None
        What ended the reading early. Give it to `check_seams` rather than raise it: of a split that began
        at no true event it says nothing about the log.
    """

    split: Split
    first_anchor: int | None
    next_anchor: int | None
    error: BinlogError | None = None


# ---------------------------------------------------------------- planning


def plan_splits(
    target: Logs,
    split_size: int | None = None,
    *,
    storage_options: dict[str, Any] | None = None,
) -> list[Split]:
    """The splits of some logs.

    Parameters
    ----------
    target : str, path or iterable of them
        Logs, directories, index files, URLs that fsspec knows, or glob patterns of local paths. A log that is
        given twice is read once.
    split_size : int or None
        Most bytes of a split; a log is cut into equal ones. None: each log is one split. So are in any case
        v1 and v3 logs, relay logs, encrypted and compressed ones, whose bytes do not tell where events begin.
    storage_options : dict or None
        For fsspec.

    Returns
    -------
    list of Split
        By base name and number, then by position. A file's number is the digits at the end of its name
        (``mysql-bin.000042``: 42), where it has none its place in this order, from 1. What is written to a
        log after the plan was made belongs to none of several splits.

    Raises
    ------
    BinlogError
        There is no such path, or no log; two logs have the same number, so that their changes would have no
        order among them.
    """
    if split_size is not None and split_size < 1:
        raise ValueError(f"split_size={split_size}: at least 1")
    numbered = list(_numbered(target, storage_options))
    sizes: Iterable[int | None] = [None] * len(numbered)
    if split_size is not None:
        with ThreadPoolExecutor(_PLANNING_THREADS) as threads:
            sizes = list(threads.map(_splittable_size, (file for _, file in numbered)))
    splits: list[Split] = []
    for (number, file), size in zip(numbered, sizes, strict=True):
        until = file.share.until if file.share is not None else None
        before = file.share.before if file.share is not None else None
        if size is not None and until is not None:
            size = min(size, until)
        if size is None or split_size is None or size <= split_size:
            splits.append(Split(file.path, 0, until, number, len(splits), before=before))
            continue
        count = -(-size // split_size)
        for i in range(count):
            start, end = size * i // count, size * (i + 1) // count
            splits.append(Split(file.path, start, end, number, len(splits), before=before))
    return splits


def _numbered(target: Logs, storage_options: dict[str, Any] | None) -> Iterator[tuple[int, LogFile]]:
    targets = [target] if isinstance(target, str | os.PathLike) else list(target)
    files: dict[str, LogFile] = {}
    for one in targets:
        for file in resolve(one, storage_options=storage_options):
            path = file.path if is_url(file.path) else os.path.abspath(file.path)
            if not is_url(path) and not os.path.exists(path):  # a log that is not divided is not opened here
                raise MissingFileError("cannot be opened: No such file or directory", path=path)
            files[path] = replace(file, path=path)
    if not files:
        raise BinlogError("no logs given")
    owners: dict[int, str] = {}
    for i, path in enumerate(sorted(files, key=lambda path: (_epoch(files[path]), name_key(path)))):
        if i:
            check_share(files[path])
        name = LogName.of(path)
        number = name.number if name else i + 1
        if (epoch := _epoch(files[path])) and number >= 1 << EPOCH_SHIFT:
            raise BinlogError(
                f"file number {number}, the largest handled behind a failover is {(1 << EPOCH_SHIFT) - 1}",
                path=path,
            )
        number += epoch << EPOCH_SHIFT
        if number > _MAX_FILE_NUMBER:
            raise BinlogError(f"file number {number}, the largest handled is {_MAX_FILE_NUMBER}", path=path)
        if number in owners:
            raise BinlogError(
                f"{os.path.basename(owners[number])} has the number {number} too, so their changes have no"
                " order among them: read logs of different servers apart",
                path=path,
            )
        owners[number] = path
        yield number, files[path]


def _epoch(file: LogFile) -> int:
    return file.share.epoch if file.share is not None else 0


def _splittable_size(file: LogFile) -> int | None:
    """Bytes of a log that can be split; of others None. What the log is is told by who reads it."""
    with file.open_stored() as source:
        try:
            head = Head.of(source)
        except BinlogError:
            return None
        return source.size if head is not None and head.splittable else None


# ---------------------------------------------------------------- trust


def trust_splits(splits: Iterable[Split], *, storage_options: dict[str, Any] | None = None) -> list[Split]:
    """The same splits with anchors that need no check: walks over all event headers of their logs.

    For roads into a lake that do not commit, so that nothing can be redone later.

    Parameters
    ----------
    splits : iterable of Split
        In order; the first of each log begins at its beginning, or is trusted already.
    storage_options : dict or None
        For fsspec.

    Returns
    -------
    list of Split

    Raises
    ------
    DecodeError
        A log is damaged.
    """
    trusted: list[Split] = []
    for path, group in groupby(splits, lambda split: split.path):
        parts = list(group)
        if len(parts) == 1 and (parts[0].whole or parts[0].trusted):
            trusted += parts
            continue
        with LogFile(path, storage_options=storage_options).open() as source:
            head = Head.of(source)
            here = parts[0].anchor if parts[0].trusted else FIRST_EVENT_POSITION
            for split in parts:
                if head is None or not head.splittable:
                    trusted.append(split)
                    continue
                if here is None or (split.end is not None and here >= split.end):
                    trusted.append(replace(split, anchor=None, trusted=True))
                    continue
                trusted.append(replace(split, anchor=here, trusted=True))
                if split.end is not None:
                    here = _anchor_behind(source, head, here, split.end)
    return trusted


def trust_split(split: Split, *, storage_options: dict[str, Any] | None = None) -> Split:
    """One split with its true anchor, found by a walk over the event headers from the log's beginning on.

    Raises
    ------
    DecodeError
        The log is damaged.
    """
    if split.trusted or split.start <= FIRST_EVENT_POSITION:
        return split
    with LogFile(split.path, storage_options=storage_options).open() as source:
        head = Head.of(source)
        if head is None or not head.splittable:
            return replace(split, anchor=None, trusted=True)
        anchor = _anchor_behind(source, head, FIRST_EVENT_POSITION, split.start)
        owned = anchor is not None and (split.end is None or anchor < split.end)
        return replace(split, anchor=anchor if owned else None, trusted=True)


def _anchor_behind(source: Source, head: Head, here: int, least: int) -> int | None:
    """The first anchor at or behind `least`, from the true event at `here` on; None: the log ends before."""
    window, base, offset = window_at(source, here)
    window, base, offset, status = walk_to_anchor(source, head, window, base, offset, least=least, limit=None)
    if status == _resync.WALK_BROKEN:
        raise DecodeError(ELSEWHERE + NOT_IN_PARTS, path=source.path, offset=base + offset)
    return base + offset if status == _resync.WALK_FOUND else None


# ---------------------------------------------------------------- reading


class SplitBounds:
    """Where a split's transactions lie in its log.

    Parameters
    ----------
    split : Split
    source : Source
        Just opened, and left at its beginning.

    Attributes
    ----------
    first_anchor : int or None
        Position of the first event that the split owns; None: nothing.
    next_anchor : int or None
        Position where the next split's events begin, once `finish` was called; None: the log ends before.

    Raises
    ------
    BinlogError
        It is not a log.
    """

    def __init__(self, split: Split, source: Source) -> None:
        self.split = split
        self.next_anchor: int | None = None
        self._head = Head.of(source)
        self._splittable = self._head is not None and self._head.splittable
        self.first_anchor = self._first_anchor(source)
        if source.position:
            source.seek(0)

    def _first_anchor(self, source: Source) -> int | None:
        split, head = self.split, self._head
        if split.trusted:
            return split.anchor
        if split.start <= FIRST_EVENT_POSITION:
            return FIRST_EVENT_POSITION
        if head is None or not head.splittable:
            return None
        return first_anchor(source, head, split.start, 1 << 63 if split.end is None else split.end)

    @property
    def start_position(self) -> int | None:
        """For ``Selection``, as the two below; only of a split that owns something."""
        first = self.first_anchor
        return first if first is not None and first > FIRST_EVENT_POSITION else None

    @property
    def stop_position(self) -> int | None:
        """See above. A log that cannot be split is read to its end."""
        return self.split.end if self._splittable else None

    @property
    def stop_anchor(self) -> int:
        """See above."""
        return self._head.anchors if self._head is not None else 0

    @property
    def in_parts(self) -> bool:
        """See above. Others find their parts by where the events say that they end, so they have to."""
        return self._splittable and not self.split.whole

    def finish(self, decoder: LogDecoder) -> None:
        """Find `next_anchor`, once the decoder has come to the end."""
        here, end = decoder.stopped_at, self.split.end
        if not self._splittable or here is None or end is None:
            return
        # It stands at the anchor, unless it was a time that it was to stop at.
        assert self._head is not None
        source = decoder.source
        window, base, offset = window_at(source, here)
        window, base, offset, status = walk_to_anchor(
            source, self._head, window, base, offset, least=end, limit=None
        )
        if status == _resync.WALK_FOUND:
            self.next_anchor = base + offset


class SplitReader:
    """Iterator over the groups of one split; `read_split_groups` makes it.

    Attributes
    ----------
    split : Split
    first_anchor : int or None
        Position of the first event that the split owns; None: nothing.
    next_anchor : int or None
        Position where the next split's events begin, known once all was read; None: the log ends before.
    rows : int
        Row images handed over.
    end_position : int
        Everything before it was handed over.
    report : Report
        What the log did not tell, skipped or lost, as far as it was read.
    tail : Tail or None
        Where the log ended inside an event.
    error : BinlogError or None
        What ended the reading early.
    """

    def __init__(self, split: Split, options: OpenOptions) -> None:
        for name, value in (("start", options.get("start")), ("stop", options.get("stop"))):
            if isinstance(value, int | tuple):
                raise ValueError(f"{name}={value!r}: positions are what splits are made of")
        self.split = split
        self.rows = 0
        self.tail: Tail | None = None
        self.error: BinlogError | None = None
        if split.before is not None:
            excluded = gtid_set(options.get("exclude_gtids"), "exclude_gtids")
            options = {**options, "exclude_gtids": union(parse_gtid_set(split.before), excluded)}
        self._log = open_log(split.path, **options)
        self.report = self._log.report
        self._source = self._log.sources.take(0)
        try:
            self._bounds = SplitBounds(split, self._source)
        except BaseException:
            self._end()
            raise
        self.end_position = self.first_anchor or split.start
        self._groups = self._read()

    @property
    def first_anchor(self) -> int | None:
        """See above."""
        return self._bounds.first_anchor

    @property
    def next_anchor(self) -> int | None:
        """See above."""
        return self._bounds.next_anchor

    @property
    def bytes_read(self) -> int:
        """Bytes of the log from the first anchor to where reading ended."""
        return self.end_position - self.first_anchor if self.first_anchor is not None else 0

    @property
    def overrun(self) -> int:
        """Bytes read behind the split's end: more than its size is skew, by one long transaction."""
        if self.first_anchor is None or self.split.end is None:
            return 0
        return max(self.end_position - self.split.end, 0)

    @property
    def result(self) -> SplitResult:
        """What `check_seams` needs; once all was read."""
        return SplitResult(self.split, self.first_anchor, self.next_anchor, self.error)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Group:
        return next(self._groups)

    def close(self) -> None:
        """End reading early. Batches stay valid."""
        self._groups.close()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> Generator[Group, None, None]:
        bounds = self._bounds
        if bounds.first_anchor is None:
            self._end()
            return
        try:
            log, settings = self._log, self._log.settings
            selection = settings.part(
                log.files,
                start=bounds.start_position,
                stop=bounds.stop_position,
                anchors=bounds.stop_anchor,
                in_parts=bounds.in_parts,
            )
            self.report = settings.report()
            log.files.tell(self.report)
            decoder = settings.decoder(self._source, selection, self.report, settings.definitions())
            try:
                for group in decoder.groups():
                    self.rows += sum(len(batch.array) for batch in group.batches)
                    self.end_position = group.end_position
                    yield group
            finally:
                self.tail = decoder.tail
            bounds.finish(decoder)
            self.end_position = max(self.end_position, decoder.position)
        except BinlogError as error:
            self.error = error
            raise
        finally:
            self._end()

    def _end(self) -> None:
        self._source.close()
        self._log.close()


def read_split_groups(split: Split, **options: Unpack[OpenOptions]) -> SplitReader:
    """The row changes of a split as groups of batches, as ``Log.groups`` gives them.

    Parameters
    ----------
    split : Split
    **options
        Of `binlog_core.open`, all but ``follow``; ``start`` and ``stop`` as times only.

    Returns
    -------
    SplitReader
        Its `first_anchor` is known at once, its `next_anchor` when all was read.

    Raises
    ------
    BinlogError
        As `binlog_core.open`; iterating as ``Log.groups``.
    """
    return SplitReader(split, options)


# ---------------------------------------------------------------- seams


def check_seams(results: Iterable[SplitResult]) -> list[Split]:
    """The splits that must be read again, because they do not begin where the one before them ends.

    A chain of forged events in a BLOB, checksums and positions included, can deceive a worker whose split
    begins inside it. The one that comes to the BLOB from before is not deceived: it reads a log from its
    first event on, or from where another such reader ended. So every split's `next_anchor` must be the
    following one's `first_anchor`, where splits without an anchor are passed over. One that disagrees is
    given back with the true anchor; read it in place of the old one and check again, until none is left.

    Parameters
    ----------
    results : iterable of SplitResult
        Of all splits of the plan, in any order, with the latest result of each.

    Returns
    -------
    list of Split
        At most one of each log. Empty: every transaction was read exactly once.

    Raises
    ------
    BinlogError
        The `error` of a split that did begin where it should.
    ValueError
        A log's splits are not all there.
    """
    again = []
    ordered = sorted(results, key=lambda result: (result.split.path, result.split.start))
    for path, group in groupby(ordered, lambda result: result.split.path):
        parts = list(group)
        covered = [0, *(part.split.end for part in parts[:-1])]
        if [part.split.start for part in parts] != covered:
            raise ValueError(f"{path}: its splits do not cover it")
        anchor: int | None = FIRST_EVENT_POSITION
        for part in parts:
            end = part.split.end
            owned = anchor if anchor is not None and (end is None or anchor < end) else None
            if part.first_anchor != owned:
                again.append(replace(part.split, anchor=owned, trusted=True))
                break
            if part.error is not None:
                raise part.error
            if owned is not None:
                anchor = part.next_anchor
    return again
