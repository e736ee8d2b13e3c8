"""Which ranges of a log may contain what a pass looks for; the others certainly do not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.change_columns import DELETE, INSERT, POSTIMAGE, PREIMAGE
from .._decode.selection import ALL_OPS, OP_BITS
from .._format.event_header import FIRST_EVENT
from .._tables.table_map import TableMaps
from ..conditions.bound import Joined, bind
from ..conditions.compiled import stored_text
from ..conditions.predicates import (
    TRUE,
    ChangedTest,
    Constant,
    GtidTest,
    MetaTest,
    NumberTest,
    OpTest,
    TextColumnTest,
)
from ..conditions.values import Span, TextSpan
from ..errors import BinlogError, ConditionError
from ..gtids import AnyGtidSet, MariadbGtid, MariadbGtidSet, parse_gtid, parse_gtid_set
from ..report import Report
from . import filters
from .building import MANY, UNKNOWN
from .files import FILTERS, LEAST, MOST, IndexDamage, IndexFile, damage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._decode.selection import Selection
    from .._tables.tables import Column, Table
    from ..conditions.bound import BoundCondition, BoundNode
    from ..schema.definitions import Definitions

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.intp]

Extent = tuple[int | None, int | None]  # of a log: from a position up to another; None: where the pass says
_MOST_KEYS = 64  # values that an AND of several IN expands to
_RECORDED_IN = {"_server_id": "servers", "_thread_id": "threads"}
_COLUMNS = (
    *("begin", "end", "first_timestamp", "last_timestamp", "first_commit", "last_commit", "statements"),
    *("reported", "definition", "flags", "inserts", "updates", "deletes", "moved"),
    *("low", "high", "low_2", "high_2", "hashed", "gtids", "servers", "threads", "table_map", "key", "few"),
)


@dataclass(frozen=True, slots=True)
class _Definition:
    """One definition of a table, from the point of view of a pass.

    Parameters
    ----------
    wanted : bool
    condition : BoundCondition or None
    ordinals : dict of int to int
        Place in the key, by the index of a column whose values are hashed as in the index.
    joined : bool
        Whether all columns of the key are also hashed together.
    """

    wanted: bool
    condition: BoundCondition | None = None
    ordinals: dict[int, int] | None = None
    joined: bool = False


_UNKNOWN = _Definition(True)


class LogRanges:
    """The ranges of one log.

    Parameters
    ----------
    file : IndexFile
    number : int
        Number of its entry.
    complete : bool
        The log does not continue after the last range.
    on_damage : callable
        Called with damage that is found later: then all ranges are read.

    Raises
    ------
    IndexDamage
    """

    def __init__(
        self, file: IndexFile, number: int, *, complete: bool, on_damage: Callable[[IndexDamage], None]
    ) -> None:
        self._file, self._number = file, number
        self._complete, self._on_damage = complete, on_damage
        self._has_gtids = file.entries[number].has_gtids
        self._rows: dict[str, Any] = file.rows(number, _COLUMNS)
        self._filters: dict[int, list[Any]] = {}
        begins, ends = self._rows["begin"], self._rows["end"]
        self._firsts = np.flatnonzero(np.diff(begins, prepend=-1))  # rows that begin a range
        edges = np.stack([begins[self._firsts], ends[self._firsts]], axis=1).ravel()
        if len(edges) and (edges[0] < 0 or (np.diff(edges) < 0).any()):
            raise IndexDamage("its ranges are not in order")
        self.end = int(ends[-1]) if len(begins) else 0

    def serve(self, selection: Selection) -> bool:
        """Whether a pass may rely on them."""
        if selection.tables_from_index is not None and not self._has_all_definitions(selection):
            return False
        # Whether a transaction without a GTID is wanted depends on the events before it.
        return not selection.done_records and (self._has_gtids or not selection.selects_gtids)

    def _has_all_definitions(self, selection: Selection) -> bool:
        """Whether the index records every definition that a pass would meet, in order."""
        places = selection.start_position, selection.stop_position
        times = selection.start_timestamp, selection.stop_timestamp
        return not (
            any(one is not None for one in (*places, *times, selection.server_id, selection.where))
            or selection.selects_gtids
            or selection.ops != ALL_OPS
            or (self._rows["definition"] == MANY).any()
            or self._rows["reported"].any()
        )

    def extents(
        self, selection: Selection, definitions: Definitions | None, *, mariadb: bool
    ) -> Iterator[Extent]:
        """The extents to read, in order; each must be read before the next is requested.

        Parameters
        ----------
        selection : Selection
            Its `met` also gets the tables in ranges that are left out.
        definitions : Definitions or None
        mariadb : bool
            Whether MariaDB wrote the log.
        """
        choice = _Choice(self, selection, definitions, mariadb=mariadb)
        begins, ends = self._rows["begin"][self._firsts], self._rows["end"][self._firsts]
        start, stop = selection.start_position or 0, selection.stop_position
        open_: list[int] | None = None  # of an extent that may continue
        at = 0
        for until in choice.segments():
            try:
                with damage():
                    wanted = choice.wanted(at, until)
            except IndexDamage as error:
                self._on_damage(error)
                wanted = choice.inside(np.arange(at, until))
            for i in range(at, until):
                begin, end = int(begins[i]), int(ends[i])
                if open_ is not None and (not wanted[i - at] or open_[1] != begin):
                    yield _extent(open_, start, stop)
                    open_ = None
                if wanted[i - at]:
                    open_ = [begin if open_ is None else open_[0], end]
            if until < len(begins) and open_ is not None:  # a statement may have changed a table
                yield _extent(open_, start, stop)
                open_ = None
            at = until
        if self._complete:
            if open_ is not None:
                yield _extent(open_, start, stop)
        elif stop is None or stop > self.end:
            rest = self.end
            if open_ is not None and open_[1] == rest:
                rest = open_[0]
            elif open_ is not None:
                yield _extent(open_, start, stop)
            yield (None if rest <= max(start, FIRST_EVENT) else rest), None
        elif open_ is not None:
            yield _extent(open_, start, stop)

    def may_hold(self, selection: Selection, definitions: Definitions | None, *, mariadb: bool) -> bool:
        """Whether the ranges may contain anything selected; the parameters are those of `extents`."""
        stop = selection.stop_position
        if not self._complete and (stop is None or stop > self.end):
            return True
        choice = _Choice(self, selection, definitions, mariadb=mariadb, reads=False)
        try:
            with damage():
                return bool(choice.wanted(0, len(self._firsts)).any())
        except IndexDamage as error:
            self._on_damage(error)
            return True

    # ------------------------------------------------------------ for a choice

    def column(self, name: str) -> Any:
        return self._rows[name]

    @property
    def firsts(self) -> Numbers:
        return self._firsts

    def filter(self, part: int) -> list[Any]:
        found = self._filters.get(part)
        if found is None:
            name = FILTERS[part]
            found = self._filters[part] = self._file.rows(self._number, (name,))[name]  # type: ignore[assignment]
        assert found is not None
        return found


def _extent(open_: list[int], start: int, stop: int | None) -> Extent:
    begin, end = open_
    return (None if begin <= max(start, FIRST_EVENT) else begin), (
        None if stop is not None and stop <= end else end
    )


class _Choice:
    """What one pass wants from one log; `reads`: it must also find its end, and follow statements."""

    def __init__(
        self,
        ranges: LogRanges,
        selection: Selection,
        definitions: Definitions | None,
        *,
        mariadb: bool,
        reads: bool = True,
    ) -> None:
        self._reads = reads
        self._ranges = ranges
        self._selection = selection
        self._definitions = definitions
        self._follows = definitions is not None and (definitions.follows or definitions.notes_changes)
        self._mariadb = mariadb
        self._known: dict[int, _Definition] = {}
        self._maps = TableMaps()

    def segments(self) -> Iterator[int]:
        """Numbers of ranges up to which nothing changes a definition, and the pass does not end."""
        edges = self._forced(np.arange(len(self._ranges.firsts)), reported=False)
        for i in np.flatnonzero(edges).tolist():
            yield i + 1
            if self._follows:
                self._known.clear()
        yield len(self._ranges.firsts)

    def wanted(self, begin: int, end: int) -> Mask:
        """Which of some ranges must be read."""
        ranges, selection = self._ranges, self._selection
        inside, forced = self.inside(np.arange(begin, end)), self._forced(np.arange(begin, end))
        wanted = inside & forced
        left = np.flatnonzero(inside & ~forced)
        if not len(left):
            return wanted
        firsts = ranges.firsts[begin:end][left]
        chosen = self._of_tables(begin + left)
        if selection.start_timestamp is not None:
            chosen &= ranges.column("last_timestamp")[firsts] >= selection.start_timestamp
        if selection.server_id is not None:
            chosen &= self._may_contain("servers", firsts, {selection.server_id})
        if selection.selects_gtids:
            chosen &= self._of_gtids(firsts)
        wanted[left] = chosen
        if (ranges.column("definition")[firsts[~chosen]] == MANY).any():
            selection.met.left_out = True
        return wanted

    def inside(self, numbers: Numbers) -> Mask:
        """Which ranges overlap the positions between which the pass reads."""
        rows = self._ranges.firsts[numbers]
        start, stop = self._selection.start_position, self._selection.stop_position
        inside: Mask = self._ranges.column("end")[rows] > (start or 0)
        return inside if stop is None else inside & (self._ranges.column("begin")[rows] < stop)

    def _forced(self, numbers: Numbers, *, reported: bool = True) -> Mask:
        """Which ranges must be read in any case: to end there, to follow statements, or to report."""
        ranges, selection = self._ranges, self._selection
        rows = ranges.firsts[numbers]
        forced = np.zeros(len(rows), np.bool_)
        for position in (selection.start_position, selection.stop_position) if self._reads else ():
            if position is not None:
                forced |= (ranges.column("begin")[rows] < position) & (position < ranges.column("end")[rows])
        if self._reads and selection.stop_timestamp is not None:
            forced |= ranges.column("last_timestamp")[rows] >= selection.stop_timestamp
        if self._reads and self._follows:
            forced |= ranges.column("statements")[rows] != 0
        return forced | (ranges.column("reported")[rows] != 0) if reported else forced

    def _of_tables(self, numbers: Numbers) -> Mask:
        """Which ranges may have a wanted change of a wanted table."""
        ranges = self._ranges
        ends = np.append(ranges.firsts[1:], len(ranges.column("begin")))[numbers]
        begins = ranges.firsts[numbers]
        rows = np.concatenate([np.arange(a, b) for a, b in zip(begins, ends, strict=True)])
        edges = np.cumsum(np.concatenate([[0], (ends - begins)[:-1]]))
        found: Mask = np.logical_or.reduceat(self._of_rows(rows), edges)
        return found

    # ------------------------------------------------------------ ranges

    def _may_contain(self, name: str, firsts: Numbers, wanted: set[int]) -> Mask:
        texts = self._ranges.column(name)
        return np.array(
            [texts[i] == UNKNOWN or not wanted.isdisjoint(_numbers(texts[i])) for i in firsts], np.bool_
        )

    def _gtids_of(self, row: int) -> AnyGtidSet | None:
        """None: they are not known."""
        text = self._ranges.column("gtids")[row]
        return None if text == UNKNOWN else parse_gtid_set(text)

    def _of_gtids(self, firsts: Numbers) -> Mask:
        wanted, excluded = self._selection.gtids, self._selection.exclude_gtids
        found = np.ones(len(firsts), np.bool_)
        for i, row in enumerate(firsts.tolist()):
            gtids = self._gtids_of(row)
            if not gtids:  # or none: there are no rows
                continue
            kept = wanted is None or (type(wanted) is type(gtids) and not wanted.isdisjoint(gtids))
            found[i] = kept and not (type(excluded) is type(gtids) and gtids <= excluded)
        return found

    # ------------------------------------------------------------ rows

    def _of_rows(self, rows: Numbers) -> Mask:
        """Which rows of the index, each a table in a range, may hold a wanted change."""
        found = np.zeros(len(rows), np.bool_)
        definitions = self._ranges.column("definition")[rows]
        for number in np.unique(definitions).tolist():
            mine = np.flatnonzero(definitions == number)
            found[mine] = number == MANY or (number >= 0 and self._of_definition(number, rows[mine]))
        return found

    def _of_definition(self, number: int, rows: Numbers) -> Mask:
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = self._definition(number)
        mask = np.full(len(rows), known.wanted, np.bool_)
        ops = self._selection.ops
        if ops != ALL_OPS:
            mask &= self._has_op(rows, lambda bit: bool(ops & bit))
        if known.condition is not None and known.wanted:
            mask &= self._may(known.condition.root, known, rows)
        return mask

    def _definition(self, number: int) -> _Definition:
        selection, ranges = self._selection, self._ranges
        try:
            body = ranges.column("table_map")[number]
            shape, names = self._maps.shape_of(
                body, flags=int(ranges.column("flags")[number]), mariadb=self._mariadb
            )
            table = shape.table_of(names)
            if not selection.wants_table(table):
                return _Definition(False)
            if self._definitions is not None:
                table = self._definitions.complete(table, Report(warn=False), path="", offset=0)
            if selection.tables_from_index is not None:
                selection.tables_from_index.append(table)
                return _Definition(False)
            selection.wanted_columns(table)
            where = None if selection.where is None else selection.where.of(table)
            if where is None or table.undecodable is not None:  # which reading reports
                return _UNKNOWN
            condition = bind(where, table)
        except ConditionError as error:
            selection.met.unfit(table.full_name, error)
            return _Definition(False)
        except BinlogError:  # reading reports it
            return _UNKNOWN
        selection.met.fits(table)
        return _Definition(True, condition, *_key_of(table, ranges.column("key")[number]))

    def _has_op(self, rows: Numbers, wants: Any) -> Mask:
        found = np.zeros(len(rows), np.bool_)
        for op, bit in OP_BITS.items():
            if wants(bit):
                found |= self._ranges.column(f"{op}s")[rows] > 0
        return found

    # ------------------------------------------------------------ conditions

    def _may(self, node: BoundNode, known: _Definition, rows: Numbers) -> Mask:
        """Whether a change may satisfy a part of the condition, so that it is true."""
        ranges, yes = self._ranges, np.ones(len(rows), np.bool_)
        if isinstance(node, Joined):
            if not node.every:
                found: Mask = np.logical_or.reduce([self._may(part, known, rows) for part in node.parts])
                return found
            for part in node.parts:
                left = np.flatnonzero(yes)
                yes[left] = self._may(part, known, rows[left])
            for keys in self._whole_keys(node, known):
                left = np.flatnonzero(yes)
                hashes = [filters.joined_hash(key) for key in keys]
                yes[left] = self._any_of(hashes, filters.JOINED, rows[left])
            return yes
        if isinstance(node, Constant):
            return yes & (node.state == TRUE)
        if isinstance(node, ChangedTest):
            updated: Mask = ranges.column("updates")[rows] > 0
            if (known.ordinals or {}).get(node.column.index) is not None:
                updated &= ranges.column("moved")[rows] != 0
            return updated
        if isinstance(node, OpTest):
            states = node.table
            by_bit = dict(zip(OP_BITS.values(), ((INSERT,), (PREIMAGE, POSTIMAGE), (DELETE,)), strict=True))
            return self._has_op(rows, lambda bit: any(states[op] == TRUE for op in by_bit[bit]))
        if isinstance(node, MetaTest | GtidTest):
            return self._of_ranges(node, rows)
        if isinstance(node, NumberTest):
            return self._of_numbers(node, known, rows)
        if isinstance(node, TextColumnTest):
            return self._of_texts(node, known, rows)
        return yes

    def _of_ranges(self, node: MetaTest | GtidTest, rows: Numbers) -> Mask:
        ranges, yes = self._ranges, np.ones(len(rows), np.bool_)
        if isinstance(node, MetaTest) and node.name == "_commit_timestamp":
            first, last = ranges.column("first_commit")[rows], ranges.column("last_commit")[rows]
            return _overlaps(node.spans, first, last)
        firsts = ranges.firsts[np.searchsorted(ranges.firsts, rows, "right") - 1]
        if isinstance(node, MetaTest):
            exact = {span.low for span in node.spans if span.low is not None and span.low == span.high}
            if len(exact) != len(node.spans):
                return yes
            return self._may_contain(_RECORDED_IN[node.name], firsts, exact)
        values = _values_of(node)
        if values is None:
            return yes
        wanted = []
        for value in values:
            try:
                wanted.append(parse_gtid(value))
            except BinlogError:  # no transaction has it
                continue
        for i, row in enumerate(firsts.tolist()):
            gtids = self._gtids_of(row)
            if gtids is not None:
                mariadb = isinstance(gtids, MariadbGtidSet)
                yes[i] = any(isinstance(one, MariadbGtid) == mariadb and one in gtids for one in wanted)
        return yes

    def _of_numbers(self, node: NumberTest, known: _Definition, rows: Numbers) -> Mask:
        yes = np.ones(len(rows), np.bool_)
        ordinal = (known.ordinals or {}).get(node.column.index)
        if ordinal is None:
            return yes
        if ordinal < filters.RANGED:
            spans = [_signed(span, node.column) for span in node.spans]
            name = "_2" if ordinal else ""
            low, high = self._ranges.column(f"low{name}")[rows], self._ranges.column(f"high{name}")[rows]
            yes = _overlaps(spans, low, high)
        if (values := _numbers_of(node)) is not None:
            left = np.flatnonzero(yes)
            hashes = [filters.hash_of(value, node.column, ordinal) for value in values]
            yes[left] = self._any_of(hashes, 1 << ordinal, rows[left])
        return yes

    def _of_texts(self, node: TextColumnTest, known: _Definition, rows: Numbers) -> Mask:
        values = _texts_of(node)
        ordinal = (known.ordinals or {}).get(node.column.index)
        if ordinal is None or values is None:
            return np.ones(len(rows), np.bool_)
        hashes = [filters.hash_of(value, node.column, ordinal) for value in values]
        return self._any_of(hashes, 1 << ordinal, rows)

    def _any_of(self, hashes: Iterable[int], bit: int, rows: Numbers) -> Mask:
        """Which rows may have one of some hashes; `bit`: says what is hashed."""
        found: Mask = self._ranges.column("hashed")[rows] & bit == 0
        for i in np.flatnonzero(~found).tolist():
            found[i] = any(self._passes(int(rows[i]), one) for one in hashes)
        return found

    def _passes(self, row: int, hash_: int) -> bool:
        few = self._ranges.column("few")[row]
        if few:
            return filters.is_listed(few, hash_)
        return filters.passes(self._ranges.filter(filters.part_of(hash_))[row], hash_)

    def _whole_keys(self, node: Joined, known: _Definition) -> Iterator[list[list[int]]]:
        """The hashes of keys, if an AND gives values for all columns of the key in one image."""
        if not known.joined or not known.ordinals:
            return
        given: dict[str, dict[int, list[int]]] = {}
        for part in _flat(node):
            if not isinstance(part, NumberTest | TextColumnTest):
                continue
            ordinal = known.ordinals.get(part.column.index)
            values = _numbers_of(part) if isinstance(part, NumberTest) else _texts_of(part)
            if ordinal is not None and values is not None:
                hashes = [filters.hash_of(value, part.column, ordinal) for value in values]
                given.setdefault(part.side, {}).setdefault(ordinal, hashes)
        for values_of in given.values():
            columns = [values_of.get(i) for i in range(len(known.ordinals))]
            if all(one is not None for one in columns):
                keys = [one for one in columns if one is not None]
                if np.prod([len(one) for one in keys]) <= _MOST_KEYS:
                    yield [list(key) for key in product(*keys)]


def _key_of(table: Table, text: str) -> tuple[dict[int, int], bool]:
    key = json.loads(text or "[]")
    ordinals = {}
    for ordinal, (index, form) in enumerate(key):
        if index < len(table.columns) and filters.form_of(table.columns[index]) == form:
            ordinals[index] = ordinal
    return ordinals, len(ordinals) == len(key)


def _flat(node: Joined) -> Iterator[BoundNode]:
    for part in node.parts:
        if isinstance(part, Joined) and part.every:
            yield from _flat(part)
        else:
            yield part


def _signed(span: Span, column: Column) -> Span:
    """Values in the order of ``filters.as_signed``."""
    shift = 1 << 63 if column.dtype.kind == "u" else 0
    low = None if span.low is None else span.low - shift
    return Span(low, None if span.high is None else span.high - shift)


def _numbers_of(node: NumberTest) -> list[int] | None:
    spans = [_signed(span, node.column) for span in node.spans]
    if not all(span.low is not None and span.low == span.high for span in spans):
        return None
    return [span.low for span in spans if span.low is not None and LEAST <= span.low <= MOST]


def _values_of(node: TextColumnTest | GtidTest) -> frozenset[Any] | None:
    """The values that a test accepts; None: it accepts others, too."""
    test = node.test
    if node.values is None and isinstance(test, TextSpan) and test.low is not None and test.low == test.high:
        return frozenset((test.low,))
    return node.values


def _texts_of(node: TextColumnTest) -> list[bytes] | None:
    """The values that a test accepts, as the log has them; None: also others, or they are not known."""
    values = _values_of(node)
    if values is None:
        return None
    found: list[bytes] = []
    for value in values:
        text = stored_text(value, node.column)
        if text is None:
            return None
        found += text
    return found


def _overlaps(spans: Iterable[Span], low: NDArray[np.int64], high: NDArray[np.int64]) -> Mask:
    found = np.zeros(len(low), np.bool_)
    for span in spans:
        one = np.ones(len(low), np.bool_)
        if span.low is not None:
            one &= high >= span.low if span.low <= MOST else False
        if span.high is not None:
            one &= low <= span.high if span.high >= LEAST else False
        found |= one
    return found


def _numbers(text: str) -> set[int]:
    return {int(one) for one in text.split(",") if one}
