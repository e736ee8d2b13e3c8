"""Which part of a log is read, and how much at a time."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Self

from .._tables.full_names import canonical_name, full_name, matches_names, own_name, split_name
from .._tables.given_names import NamesMet
from .._tables.tables import Column, Table
from .._walk.event_walk import EventRange
from ..errors import GtidError, SchemaError
from ..gtids import AnyGtidSet, MariadbGtidSet, parse_gtid_set
from ..position import Position
from .gtid_selection import union

if TYPE_CHECKING:
    from ..conditions.language import Condition
    from ..conditions.pushed import PushedFilters

LogPlace = int | tuple[str, int] | dt.datetime | Position
Columns = Mapping[str, str | Iterable[str]] | Iterable[str]
TableMapsMet = dict[int, tuple[Table, int, bytes]]  # flags and body, by the identity of the Table made of it
MAX_POSITION = (1 << 63) - 1
OP_BITS = {"insert": 1, "update": 2, "delete": 4}  # rows_op_t in src/wire/codes.pxd
ALL_OPS = sum(OP_BITS.values())
_MANY = 32  # names and patterns of tables
_ESCAPED, _WILD = re.compile(r"\[([*?[])\]"), re.compile(r"[*?[]")  # as `glob.escape` writes them


@dataclass(slots=True, eq=False, repr=False)
class Selection:
    """Which rows are decoded; see `binlog_core.open`."""

    tables: tuple[str, ...] | None = None
    exclude_tables: tuple[str, ...] | None = None
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ops: int = ALL_OPS  # bit 0 insert, 1 update, 2 delete
    server_id: int | None = None
    rows_v0: bool = False
    start_position: int | None = None
    stop_position: int | None = None
    done_records: int = 0  # row images from start_position on that are not wanted again
    done_gtids: AnyGtidSet | None = None  # the transactions before start_position, if they are known
    stop_anchor: int = 0  # stop at the first of these at or after stop_position, not at any event
    in_parts: bool = False  # of a log that is read in parts: its events have to end where they say
    start_timestamp: int | None = None
    stop_timestamp: int | None = None
    gtids: AnyGtidSet | None = None
    exclude_gtids: AnyGtidSet | None = None
    where: Condition | PushedFilters | None = None
    repeated: AnyGtidSet | None = None  # of these, which came before, statements do not count again
    asides: frozenset[str] = frozenset()  # kinds of what is not a row that are gathered too: see group.Aside
    met: NamesMet = field(default_factory=NamesMet)  # of the names given here, in a pass
    tables_from_index: list[Table] | None = None  # given where only definitions are wanted: those of an index
    table_maps: TableMapsMet | None = None  # of the definitions that are met, where they are asked for

    def without_repeated(self, before: str | None) -> Self:
        """The same without transactions that an earlier log of an archive has: see `Share.before`."""
        if before is None:
            return self
        repeated = parse_gtid_set(before)
        return replace(self, repeated=repeated).without(repeated)

    def without(self, done: AnyGtidSet | None) -> Self:
        """The same without some transactions."""
        return self if not done else replace(self, exclude_gtids=union(done, self.exclude_gtids))

    @property
    def part(self) -> EventRange:
        """Which events are wanted, judged by their headers."""
        return EventRange(
            self.start_position,
            self.stop_position,
            self.start_timestamp,
            self.stop_timestamp,
            self.server_id,
        )

    @property
    def narrows(self) -> bool:
        """Whether anything is left out that an index can find."""
        return (
            self.where is not None
            or self.tables is not None
            or bool(self.exclude_tables)
            or self.start_timestamp is not None
            or self.server_id is not None
            or self.selects_gtids
            or self.ops != ALL_OPS
            or self.tables_from_index is not None
        )

    @property
    def selects_gtids(self) -> bool:
        return self.gtids is not None or self.exclude_gtids is not None

    def wants_table(self, table: Table) -> bool:
        met = self.met
        met.table(table.full_name)
        wanted = self.tables is None or self._matched(table, self.tables)
        return wanted and not self._matched(table, self.exclude_tables or ())

    def _matched(self, table: Table, patterns: tuple[str, ...]) -> bool:
        met = self.met.patterns
        found = False
        for pattern in _that_may_match(patterns, table.database, table.name):
            if not (found and pattern in met) and matches(table, pattern):
                met.add(pattern)
                found = True
        return found

    def wanted_columns(self, table: Table) -> Collection[str] | None:
        wanted = None
        for pattern, names in self.columns.items():
            if matches(table, pattern):
                wanted = set(names) if wanted is None else wanted | set(names)
                self.met.columns.setdefault(pattern, set()).update(
                    c.name for c in table.columns if c.name in names
                )
        return wanted

    def of_tables(self, tables: Iterable[Table]) -> Iterator[tuple[Table, tuple[Column, ...]]]:
        """The wanted ones among some tables, each with its wanted columns."""
        for table in tables:
            if self.wants_table(table):
                wanted = self.wanted_columns(table)
                yield table, tuple(c for c in table.columns if wanted is None or c.name in wanted)


def matches(table: Table, pattern: str) -> bool:
    """A name or glob pattern of "database.table", or of the table alone."""
    return matches_names(table.database, table.name, pattern)


def is_wanted_name(name: str, tables: Iterable[str] | None, exclude_tables: Iterable[str] | None) -> bool:
    """Whether a table is among ``tables`` and not among ``exclude_tables``, by its full name."""

    def among(patterns: Iterable[str]) -> bool:
        near = _that_may_match(tuple(patterns), database, table)
        return any(matches_names(database, table, pattern) for pattern in near)

    database, table = split_name(name)
    return (tables is None or among(tables)) and not among(exclude_tables or ())


def unmatched(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """The patterns that match none of some tables, by their full names."""
    given = tuple(patterns)
    left = dict.fromkeys(given)
    for database, table in map(split_name, names):
        for pattern in _that_may_match(given, database, table):
            if pattern in left and matches_names(database, table, pattern):
                del left[pattern]
    return list(left)


def _that_may_match(patterns: tuple[str, ...], database: str, table: str) -> Iterable[str]:
    """Patterns without those that are another table's name: there may be thousands of those."""
    names, others = _sorted_out(patterns if len(patterns) < _MANY else _Same(patterns))
    own = {full_name(database, table), f"{database}.{table}", table}
    return chain(*(names.get(one, ()) for one in own), others)


class _Same:
    """Patterns as they are, not what they say: a hash of thousands of them, for each table, is quadratic."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns

    def __hash__(self) -> int:
        return id(self.patterns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.patterns is self.patterns


@lru_cache(maxsize=64)
def _sorted_out(patterns: tuple[str, ...] | _Same) -> tuple[dict[str, list[str]], list[str]]:
    """The patterns that match only one name, by that name, and the others."""
    names: dict[str, list[str]] = {}
    others: list[str] = []
    for pattern in dict.fromkeys(patterns.patterns if isinstance(patterns, _Same) else patterns):
        literal = _ESCAPED.sub(r"\1", pattern)
        quoted = "`" in literal and full_name(*split_name(literal)) != literal
        if quoted or _WILD.search(_ESCAPED.sub("", pattern)):
            others.append(pattern)
        else:
            names.setdefault(literal, []).append(pattern)
    return names, others


def names(values: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """One name, or several, as a tuple."""
    if values is None:
        return None
    given = (values,) if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"expected a name, not {name!r}")
    return given


def columns_by_pattern(given: Columns | None) -> dict[str, tuple[str, ...]]:
    """The names of the columns by table name or pattern; names without a table apply to every table."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return {"*": names(given) or ()}
    return {pattern: names(columns) or () for pattern, columns in given.items()}


def check_columns(selection: Selection) -> None:
    """Refuse names that no definition had; at the end, since a later ALTER could have added them."""
    for pattern, seen in () if selection.met.left_out else selection.met.columns.items():
        missing = set(selection.columns[pattern]) - seen
        if missing:
            raise SchemaError(
                f"no definition of {pattern!r} has the columns {sorted(missing)}", table=pattern
            )


def check_condition(selection: Selection, *, whole: bool = True) -> None:
    """Refuse a condition that fits no definition of a table given by name, or no table at all.

    Also refuse a value that does not fit its column's type in a definition of a table given by name. For
    other tables that is not an error: their rows do not match.

    Parameters
    ----------
    selection : Selection
    whole : bool
        False for a part of what is read: other parts may have the definitions that the condition fits.

    Raises
    ------
    ConditionError
    """
    met = selection.met
    for table, error in met.unfitting.items():
        named = _is_named(table, selection.tables or ())
        fits_none = whole and not met.left_out and table not in met.fitting and (named or not met.fitting)
        if fits_none or (named and error.column is not None):
            raise error


def _is_named(table: str, patterns: Iterable[str]) -> bool:
    return any(canonical_name(pattern) in (table, own_name(table)) for pattern in patterns)


def check_vendor(selection: Selection, *, mariadb: bool, path: str) -> None:
    """Refuse a set of the other vendor than the log's, which could select nothing.

    Raises
    ------
    GtidError
    """
    for argument in ("gtids", "exclude_gtids"):
        gtids = getattr(selection, argument)
        if gtids and isinstance(gtids, MariadbGtidSet) != mariadb:
            names = ("MariaDB", "MySQL") if not mariadb else ("MySQL", "MariaDB")
            raise GtidError(f"{argument}= has GTIDs of {names[0]}, and the log is of {names[1]}", path=path)


def ops_mask(ops: str | Iterable[str] | None) -> int:
    """Bit 0 insert, 1 update, 2 delete; all for None."""
    wanted = set(OP_BITS if ops is None else names(ops) or ())
    if not wanted <= set(OP_BITS):
        raise ValueError(f"ops={ops!r}: expected insert, update or delete")
    return sum(OP_BITS[op] for op in wanted)
