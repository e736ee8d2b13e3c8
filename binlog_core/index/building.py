"""Builds the index of one log, from the keys in its rows and the headers of its events."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._base.change_columns import POSTIMAGE
from .._core._index import any_bits, count_changes, summarize_transactions
from .._decode.log_decoder import LogDecoder
from .._decode.selection import Selection, TableMapsMet
from .._walk.track import Rules, Track
from ..errors import BinlogError
from ..gtids import AnyGtidSet, GtidSet, MariadbGtidSet, uuid_text
from ..report import Report
from . import files, filters
from .files import LEAST, MOST
from .ranges import Ranges, known_of

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

    from .._decode.group import Group
    from .._sources.log_files import LogFile
    from .._tables.tables import Column, Table
    from ..batch.change_batch import ChangeBatch
    from ..limits import Limits
    from ..schema.definitions import Definitions

UNKNOWN = "?"  # GTIDs, servers or threads
_MOST_INTERVALS = 200  # of the GTIDs of a range
MANY = -2  # in place of a definition: of a range with more than …
_MOST_TABLES = 256  # … tables, single tables are not recorded
_ENDLESS = 1 << 64
_ASIDES = frozenset(("statement", "lost"))
_PACKED = 4096  # rows that are collected before they are packed
_MOST_VALUES = 4 << 20  # of a table in a range: of more, the filter would be of no use


class _Keys(Selection):
    """Selects the key columns of every table."""

    def wanted_columns(self, table: Table) -> Collection[str]:
        return {column.name for column in key_columns(table)}


def key_columns(table: Table) -> list[Column]:
    """The columns of the primary key whose values can be hashed."""
    key = table.primary_key or ()
    return [column for column in table.columns if column.name in key and filters.form_of(column) is not None]


class _Noted(Report):
    """Positions of reports that are not about a table's definition."""

    def __init__(self) -> None:
        super().__init__(warn=False)
        self.offsets: list[int] = []

    def add(self, kind: str, **place: Any) -> None:
        super().add(kind, **place)
        if (offset := place.get("offset")) is not None:
            self.offsets.append(offset)

    def add_each(self, of: Collection[Hashable], kind: str, **place: Any) -> None:
        """Recorded for each definition, in whichever range it occurs."""


@dataclass(slots=True)
class _Part:
    """The rows of one definition in one range."""

    table: Table
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    moved: bool = False
    values: list[list[NDArray[Any]]] = field(default_factory=list)  # by column of the key: numbers, or hashes
    whole: bool = True  # all values are among them
    kept: int = 0


@dataclass(slots=True)
class _Rows:
    """The contents of a range's rows."""

    parts: dict[int, _Part] = field(default_factory=dict)  # by the identity of the Table
    gtids: AnyGtidSet | None = None
    has_gtids: bool = True
    threads: set[int] | None = field(default_factory=set)
    first_commit: int = MOST
    last_commit: int = LEAST
    statements: bool = False


class Built(NamedTuple):
    """The index of one log.

    Parameters
    ----------
    rows : pyarrow.Table
        One row for each table in each range; a range without changes has one, too. See ``files.COLUMNS``.
    has_gtids : bool
        Each range but the first begins with a GTID.
    whole : bool
        The ranges cover the whole log: it is closed, and not damaged.
    """

    rows: pyarrow.Table
    has_gtids: bool
    whole: bool


def built(file: LogFile, definitions: Definitions | None, limits: Limits) -> Built:
    """Build the index of a log.

    Parameters
    ----------
    file : LogFile
    definitions : Definitions or None
        Definitions for keys that the log does not have.
    limits : Limits

    Raises
    ------
    BinlogError
        The file is not a log, or cannot be opened.
    """
    with ExitStack() as opened:
        source = opened.enter_context(file.open())
        # With a mapping, both passes use the same pages.
        same = source if source.view() is not None else opened.enter_context(file.open())
        track = Track(same, Rules(Report(warn=False), limits, verify_checksum=False))
        builder = _Builder(Ranges(track))
        decoder = LogDecoder(source, builder.selection, Rules(builder.report, limits), definitions)
        rows = builder.read(decoder)
        return Built(rows, builder.has_gtids, builder.ends_at == track.end)


class _Builder:
    """Makes the rows of an index.

    Attributes
    ----------
    ends_at : int or None
        The end of the last indexed range; None if there is none, or the log is damaged.
    """

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._rows: dict[int, _Rows] = {}
        self._maps: TableMapsMet = {}
        self._first_of: dict[tuple[bytes, int, str], int] = {}  # row that holds a table map
        self.report = _Noted()
        self.ends_at: int | None = None
        self.selection = _Keys(tables=("*",), asides=_ASIDES, table_maps=self._maps)
        self._made: list[dict[str, Any]] = []
        self._keys: dict[
            int, tuple[list[Column], str]
        ] = {}  # of tables that `_maps` holds, by their identity
        self._parts: list[pyarrow.Table] = []  # rows that were made before
        self._count = 0  # rows
        self._done = 0  # ranges
        self._begins = np.empty(0, np.uint64)  # of the ranges from there on

    @property
    def has_gtids(self) -> bool:
        return self._ranges.has_gtids

    def read(self, decoder: LogDecoder) -> pyarrow.Table:
        ranges, damaged = self._ranges, False
        try:
            for group in decoder.groups():
                ranges.reach(group.end_position)
                self._begins = np.array(ranges.begins[self._done :], np.uint64)
                self._add(group)
                self._finish(ranges.number_at(group.end_position))
                del group
        except BinlogError:  # the reader of the log reports it
            damaged = True
        ranges.reach(_ENDLESS)
        # A range that was not decoded completely is not recorded.
        count = min(ranges.sound, ranges.number_at(decoder.position) if damaged else ranges.sound)
        while count and ranges.found[count - 1].end > decoder.position:
            count -= 1
        self._finish(count)
        self._pack()
        self.ends_at = ranges.found[count - 1].end if count and not damaged else None
        return files.with_reported(self._parts, self._reported(count))

    # ------------------------------------------------------------ a group

    def _add(self, group: Group) -> None:
        records = group.transactions
        for i, part in self._by_range(records["begin_position"]):
            self._add_transactions(self._rows_of(i), records[part])
        for aside in group.asides:
            at = self._range_of(np.array([aside.position], np.uint64))
            self._rows_of(int(at[0])).statements = True
        for batch in group.batches:
            self._add_batch(batch)

    def _range_of(self, positions: NDArray[np.uint64]) -> NDArray[np.intp]:
        found: NDArray[np.intp] = np.maximum(np.searchsorted(self._begins, positions, "right"), 1)
        return found + (self._done - 1)

    def _rows_of(self, i: int) -> _Rows:
        return self._rows.setdefault(i, _Rows())

    def _add_transactions(self, rows: _Rows, records: NDArray[np.void]) -> None:
        first, last, threads, runs = summarize_transactions(records.view(np.uint8), _MOST_INTERVALS)
        rows.first_commit = min(rows.first_commit, first)
        rows.last_commit = max(rows.last_commit, last)
        rows.threads = known_of(rows.threads, threads)
        if rows.has_gtids:
            found = None if runs is None else _gtids(records, runs)
            rows.has_gtids = found is not None
            rows.gtids = found if rows.gtids is None or found is None else rows.gtids | found

    def _by_range(self, positions: NDArray[np.uint64]) -> Iterator[tuple[int, slice]]:
        """Which of some positions, in order, are in each range."""
        if not len(positions):
            return
        first, last = self._range_of(positions[[0, -1]]).tolist()
        # Of a field of records NumPy would make a copy to search it.
        edges = [bisect_left(positions, begin) for begin in self._ranges.begins[first + 1 : last + 1]]
        for i, (begin, end) in enumerate(pairwise([0, *edges, len(positions)])):
            if begin < end:
                yield first + i, slice(begin, end)

    def _add_batch(self, batch: ChangeBatch) -> None:
        image = batch.array["image"]
        key = _KeyValues(batch, self._columns_of(batch.table)[0])
        for i, records in self._by_range(image["position"]):
            part = self._rows_of(i).parts.setdefault(id(batch.table), _Part(batch.table))
            key.add_to(part, records)
            one = self._ranges.found[i]
            if one.servers is None:  # compressed events, which the headers do not show
                times = image["timestamp"][records]
                one.first_timestamp = min(one.first_timestamp, int(times.min()))
                one.last_timestamp = max(one.last_timestamp, int(times.max()))

    # ------------------------------------------------------------ a range

    def _finish(self, until: int) -> None:
        """Make the rows of the ranges that have ended."""
        for i in range(self._done, until):
            one, rows = self._ranges.found[i], self._rows.pop(i, _Rows())
            common = {
                "begin": one.begin,
                "end": one.end,
                "first_timestamp": one.first_timestamp,
                "last_timestamp": one.last_timestamp,
                "first_commit": rows.first_commit,
                "last_commit": rows.last_commit,
                "gtids": UNKNOWN if not rows.has_gtids else str(rows.gtids or ""),
                "servers": _text_of(one.servers),
                "threads": _text_of(rows.threads),
                "statements": int(rows.statements),
            }
            parts: Iterable[_Part | None] = rows.parts.values() or (None,)
            if len(rows.parts) > _MOST_TABLES:
                parts, common = (None,), common | {"definition": MANY}
            for part in parts:
                self._made.append(common if part is None else common | self._of_part(part))
                self._count += 1
                common = common | _SAID  # the row that was made keeps its own
            if len(self._made) >= _PACKED:
                self._pack()
        self._done = max(self._done, until)

    def _pack(self) -> None:
        self._parts.append(files.as_table(self._made))
        self._made = []

    def _columns_of(self, table: Table) -> tuple[list[Column], str]:
        """The columns of a table's key, and their values in the index."""
        known = self._keys.get(id(table))
        if known is None:
            columns = key_columns(table)
            text = json.dumps([[column.index, filters.form_of(column)] for column in columns])
            known = self._keys[id(table)] = columns, text
        return known

    def _of_part(self, part: _Part) -> dict[str, Any]:
        _, flags, body = self._maps[id(part.table)]
        columns, key = self._columns_of(part.table)
        first = self._first_of.setdefault((body, flags, key), self._count)
        met = first < self._count
        row: dict[str, Any] = {
            "database": part.table.database,
            "table": part.table.name,
            "definition": first,
            "table_map": b"" if met else body,
            "flags": flags,
            "key": "" if met else key,
            "inserts": part.inserts,
            "updates": part.updates,
            "deletes": part.deletes,
            "moved": int(part.moved or not part.whole),
        }
        if part.whole and part.kept:
            told = [filters.Values(column, i, part.values[i]) for i, column in enumerate(columns)]
            for values, name in zip(told, ("", "_2"), strict=False):
                if values.least is not None:
                    row[f"low{name}"], row[f"high{name}"] = values.least, values.most
            hashes, row["hashed"] = filters.of_key(told)
            few = filters.made_list(hashes)
            if few is not None:
                row["few"] = few
            elif row["hashed"]:
                row["filter"] = filters.made_filter(hashes)
        return row

    def _reported(self, count: int) -> list[int]:
        """Where ranges with reports begin: these are always read."""
        marked = {self._ranges.number_at(offset) for offset in self.report.offsets}
        return [self._ranges.begins[i] for i in marked if i < count]


_SAID = {"gtids": "", "servers": "", "threads": ""}  # of a range, in its first row alone


class _KeyValues:
    """The values of the key columns in a batch: numbers, and hashes of texts."""

    def __init__(self, batch: ChangeBatch, columns: list[Column]) -> None:
        array, image = batch.array, batch.array["image"]
        self._ops: NDArray[np.uint8] = np.ascontiguousarray(image["op"])
        self._whole = batch.table.undecodable is None and not (
            len(batch.invalid) and np.isin(batch.invalid["column"], [c.index for c in columns]).any()
        )  # dates that no calendar has
        self._values: list[NDArray[Any]] = []
        updated = np.flatnonzero(self._ops == POSTIMAGE)
        same = np.ones(len(updated), np.bool_)  # as before the update
        for ordinal, column in enumerate(columns if self._whole else ()):
            byte, bit = column.index // 8, column.index % 8
            fields: Any = image.dtype.fields
            absent, nulls = (fields[name][1] + byte for name in ("absent_bitmap", "null_bitmap"))
            lacks, null = any_bits(array.view(np.uint8).reshape(len(array), -1), absent, nulls, 1 << bit)
            null = null and column.nullable is not False
            if filters.is_number(column):
                values = filters.whole_numbers(batch, column)
            else:
                spans = array["row"][column.name]
                values = filters.hashes_of_texts(batch.buffer, spans, column.pad_to, ordinal)
            if lacks:  # from a postimage: the value did not change
                lacking = image["absent_bitmap"][:, byte] >> bit & 1
                after = updated[lacking[updated] != 0]
                values = values.copy()
                values[after] = values[after - 1]
                null = null or bool(lacking[self._ops != POSTIMAGE].any())
            if null:
                self._whole = False
            same &= values[updated] == values[updated - 1]
            self._values.append(values)
        self._kept: NDArray[np.bool_] | None = None
        self._moved = updated[~same]
        if same.any():
            self._kept = np.ones(len(self._ops), np.bool_)
            self._kept[updated[same]] = False

    def add_to(self, part: _Part, records: slice) -> None:
        inserts, updates, deletes = count_changes(self._ops[records])
        part.inserts += inserts
        part.updates += updates
        part.deletes += deletes
        part.whole = part.whole and self._whole
        if not part.whole:
            part.values.clear()
            return
        first, last = np.searchsorted(self._moved, (records.start, records.stop)).tolist()
        part.moved = part.moved or first < last
        part.values = part.values or [[] for _ in self._values]
        for mine, values in zip(part.values, self._values, strict=True):
            mine.append(values[records] if self._kept is None else values[records][self._kept[records]])
        part.kept += len(part.values[0][-1]) if part.values else 0
        if part.kept > _MOST_VALUES:
            part.whole = False


def _gtids(records: NDArray[np.void], runs: list[int]) -> AnyGtidSet:
    """The GTIDs of some transactions; `runs`: where they do not continue from the one before."""
    firsts = records[runs]
    lasts = records[[*(i - 1 for i in runs[1:]), len(records) - 1]]
    intervals = zip(firsts["sequence_number"].tolist(), lasts["sequence_number"].tolist(), strict=True)
    if firsts["gtid_kind"][0] == 2:
        sources = zip(firsts["domain_id"].tolist(), firsts["server_id"].tolist(), strict=True)
        return MariadbGtidSet(zip(sources, intervals, strict=True))
    names = [
        (uuid_text(one["uuid"].tobytes()), bytes(one["tag"]).decode("ascii", "replace")) for one in firsts
    ]
    return GtidSet(zip(names, intervals, strict=True))


def _text_of(numbers: set[int] | None) -> str:
    return UNKNOWN if numbers is None else ",".join(map(str, sorted(numbers)))
