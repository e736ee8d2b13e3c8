"""Conditions bound to a table's columns: what decides of each record, as numbers, bytes and texts.

A bound condition works on all records of a batch at once. Each of its tests gives a state for every record:
false, unknown (NULL, or not in the image) or true, ordered so that AND is the least and OR the greatest.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core._values import RowReader
from .._tables.column_types import TEMPORAL_KINDS, Kind
from ..conditions import (
    CHANGE_TYPES,
    All,
    Any_,
    Changed,
    Comparison,
    Condition,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    OneOf,
    Ref,
)
from ..errors import ConditionError
from .gtid_selection import gtid_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._tables.tables import Column, Table
    from ..batch import ChangeBatch

    States = NDArray[np.uint8]

FALSE, UNKNOWN, TRUE = 0, 1, 2
_INSERT, _PREIMAGE, _POSTIMAGE, _DELETE = 1, 2, 3, 4  # of image["op"]
_NOT_A_TIME = -(1 << 63)
_DAY = 86_400_000_000  # microseconds
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)

_DATE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?"
    r"\s*(Z|[+-]\d{2}:\d{2})?",
    re.ASCII,
)
_TIME = re.compile(r"(-?)(\d{1,3}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:\d{1,128}(?:\.\d{0,128})?|\.\d{1,128})(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)

Fields = tuple[int, int, int, int, int, int, int]  # year to microsecond


# ---------------------------------------------------------------- what a test accepts


@dataclass(frozen=True, slots=True)
class Span:
    """Whole numbers from `low` to `high`, both included; None: without end.

    Of dates also the fields of the ends, for those that no calendar has: those lie between others, too.
    """

    low: int | None = None
    high: int | None = None
    fields_low: Fields | None = None
    fields_high: Fields | None = None

    def has_fields(self, fields: Fields) -> bool:
        low, high = self.fields_low, self.fields_high
        return (low is None or low <= fields) and (high is None or fields <= high)


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Texts (or bytes) from `low` to `high`; None: without end."""

    low: Any = None
    high: Any = None
    open_low: bool = False
    open_high: bool = False

    def has(self, value: Any) -> bool:
        if self.low is not None and not (self.low < value if self.open_low else self.low <= value):
            return False
        return self.high is None or (value < self.high if self.open_high else value <= self.high)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Texts (or bytes) that a LIKE pattern matches.

    Parameters
    ----------
    tokens : tuple of (int, str or bytes)
        0 and a character, 1 for any character, 2 for any text.
    """

    tokens: tuple[tuple[int, Any], ...]

    @property
    def regex(self) -> re.Pattern[Any]:
        return _like_regex(self.tokens)

    def has(self, value: Any) -> bool:
        return self.regex.fullmatch(value) is not None


TextTest = TextSpan | Pattern


# ---------------------------------------------------------------- tests


class Records:
    """The records of a batch, as tests look at them."""

    def __init__(self, batch: ChangeBatch) -> None:
        self.batch = batch
        self.image = batch.array["image"]
        self.ops: NDArray[np.uint8] = self.image["op"]
        self.count = len(self.ops)
        self._reader: RowReader | None = None

    @property
    def reader(self) -> RowReader:
        if self._reader is None:
            self._reader = RowReader(self.batch, None, "skip")
        return self._reader

    def bit(self, bitmap: str, column: Column) -> NDArray[np.bool_]:
        return (self.image[bitmap][:, column.index // 8] >> (column.index % 8) & 1).astype(np.bool_)

    def values(self, column: Column) -> NDArray[Any]:
        return self.batch.array["row"][column.name]


@dataclass(frozen=True, slots=True)
class Test:
    """A test of something that each record has.

    Parameters
    ----------
    side : str
        "before" or "after": of the change's image of that name; "": of the record's own.
    """

    side: str

    def states(self, records: Records) -> States:
        return _of_side(self.own(records), records.ops, self.side)

    def own(self, records: Records) -> States:
        """The state of each record by itself."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ColumnTest(Test):
    """A test of a column's value."""

    column: Column

    def own(self, records: Records) -> States:
        states = self.of_values(records)
        states[records.bit("null_bitmap", self.column)] = UNKNOWN
        return _filled(states, records, self.column)

    def of_values(self, records: Records) -> States:
        """The states of values that are neither NULL nor absent; anything for the others."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class NumberTest(ColumnTest):
    """What is stored as a number, or as several that are one: in one of some spans of whole numbers."""

    spans: tuple[Span, ...]

    def of_values(self, records: Records) -> States:
        column, values = self.column, records.values(self.column)
        keys = _keys(values, column)
        found = np.zeros(len(keys), np.bool_)
        exact = [s.low for s in self.spans if s.low is not None and s.low == s.high]
        if len(exact) > 2 and keys.dtype != object:
            found |= np.isin(keys, np.array(_within(exact, keys.dtype), keys.dtype))
        elif exact:
            for key in exact:
                found |= keys == key
        for span in self.spans:
            if span.low is not None and span.low == span.high:
                continue
            inside = np.ones(len(keys), np.bool_)
            if span.low is not None:
                inside &= keys >= span.low
            if span.high is not None:
                inside &= keys <= span.high
            found |= inside
        states = np.where(found, np.uint8(TRUE), np.uint8(FALSE))
        if column.kind in TEMPORAL_KINDS and len(invalid := records.batch.invalid):
            for entry in invalid[invalid["column"] == column.index].tolist():
                inside_any = any(span.has_fields(entry[2:]) for span in self.spans)
                states[entry[0]] = TRUE if inside_any else FALSE
        return states


@dataclass(frozen=True, slots=True)
class TableTest(ColumnTest):
    """ENUM: the state of each number; of one that has none UNKNOWN."""

    table: bytes

    def of_values(self, records: Records) -> States:
        values = records.values(self.column)
        table = np.frombuffer(self.table + bytes([UNKNOWN]), np.uint8)
        states: States = table[np.minimum(values, len(self.table))]
        return states


@dataclass(frozen=True, slots=True)
class TextColumnTest(ColumnTest):
    """Text, bytes, or the members of a SET with commas between."""

    test: TextTest
    values: frozenset[Any] | None = None

    def has(self, value: Any) -> bool:
        return value in self.values if self.values is not None else self.test.has(value)

    def of_values(self, records: Records) -> States:
        kind = bytes if self.column.kind is Kind.BINARY else str
        states = np.full(records.count, UNKNOWN, np.uint8)
        for i, value in enumerate(records.reader.column_values(self.column.name)):
            if isinstance(value, list):
                value = ",".join(value)
            if isinstance(value, kind):
                states[i] = TRUE if self.has(value) else FALSE
        return states


@dataclass(frozen=True, slots=True)
class NullTest(ColumnTest):
    """IS NULL; a column that the image does not have is neither that nor the opposite."""

    def own(self, records: Records) -> States:
        states = records.bit("null_bitmap", self.column).astype(np.uint8) * np.uint8(TRUE)
        return _filled(states, records, self.column)


@dataclass(frozen=True, slots=True)
class ChangedTest(Test):
    """Whether an update's images differ in a column."""

    column: Column

    def states(self, records: Records) -> States:
        column, ops = self.column, records.ops
        states = np.zeros(records.count, np.uint8)
        before = np.flatnonzero(ops == _PREIMAGE)
        after = before + 1
        null = records.bit("null_bitmap", column)
        absent = records.bit("absent_bitmap", column)
        differ = null[before] != null[after]
        both = ~(null[before] | null[after] | absent[before] | absent[after])
        differ[both] = self._differ(records, before[both])
        found = np.where(differ, np.uint8(TRUE), np.uint8(FALSE))
        found[absent[before]] = UNKNOWN
        found[absent[after]] = FALSE  # it was not logged since it stayed what it was
        states[before] = states[after] = found
        return states

    def _differ(self, records: Records, before: NDArray[np.intp]) -> NDArray[np.bool_]:
        column = self.column
        values = records.values(column)
        if column.kind in _SPAN_KINDS:
            texts = records.reader.column_values(column.name)
            return np.array([texts[i] != texts[i + 1] for i in before.tolist()], np.bool_)
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(records.count, -1)
        differ: NDArray[np.bool_] = (raw[before] != raw[before + 1]).any(axis=1)
        if column.kind in TEMPORAL_KINDS and len(invalid := records.batch.invalid):
            fields = {entry[0]: entry[2:] for entry in invalid[invalid["column"] == column.index].tolist()}
            for i, record in enumerate(before.tolist()):
                differ[i] |= fields.get(record) != fields.get(record + 1)
        elif column.kind in (Kind.FLOAT, Kind.DOUBLE):
            differ = values[before] != values[before + 1]
        return differ


@dataclass(frozen=True, slots=True)
class OpTest(Test):
    """`_change_type`: the state of each op."""

    table: bytes

    def states(self, records: Records) -> States:
        return np.frombuffer(self.table, np.uint8)[records.ops]


@dataclass(frozen=True, slots=True)
class MetaTest(Test):
    """`_server_id` and `_commit_timestamp`: in one of some spans."""

    name: str
    spans: tuple[Span, ...]

    def states(self, records: Records) -> States:
        if self.name == "_server_id":
            values = records.image["server_id"].astype(np.int64)
        else:
            transactions = records.batch.transactions[records.image["transaction"]]
            values = transactions["commit_time"].copy()
            unknown = values < 0
            values[unknown] = transactions["timestamp"][unknown].astype(np.int64) * 1_000_000
        found = np.zeros(records.count, np.bool_)
        for span in self.spans:
            low = -(1 << 63) if span.low is None else max(span.low, -(1 << 63))
            high = (1 << 63) - 1 if span.high is None else min(span.high, (1 << 63) - 1)
            found |= (values >= low) & (values <= high) & (low <= high)
        return np.where(found, np.uint8(TRUE), np.uint8(FALSE))


@dataclass(frozen=True, slots=True)
class GtidTest(Test):
    """`_gtid`: as text; NULL of a transaction without one. `test` is None for IS NULL."""

    test: TextTest | None
    values: frozenset[str] | None = None

    def states(self, records: Records) -> States:
        used, codes = np.unique(records.image["transaction"], return_inverse=True)
        found = [self._state(gtid_text(records.batch.transactions[i])) for i in used.tolist()]
        return np.array(found, np.uint8)[codes.reshape(-1)]

    def _state(self, gtid: str | None) -> int:
        if self.values is None and self.test is None:
            return TRUE if gtid is None else FALSE
        if gtid is None:
            return UNKNOWN
        has = (
            gtid in self.values if self.values is not None else self.test is not None and self.test.has(gtid)
        )
        return TRUE if has else FALSE


@dataclass(frozen=True, slots=True)
class Constant(Test):
    """The same for every record."""

    state: int

    def states(self, records: Records) -> States:
        return np.full(records.count, self.state, np.uint8)


_SPAN_KINDS = frozenset((Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.GEOMETRY, Kind.VECTOR))


def _filled(states: States, records: Records, column: Column) -> States:
    """Unknown where the column is absent; what was not logged after an update is what it was before."""
    absent = records.bit("absent_bitmap", column)
    if absent.any():
        states[absent] = UNKNOWN
        after = np.flatnonzero(absent & (records.ops == _POSTIMAGE))
        states[after] = states[after - 1]
    return states


def _of_side(states: States, ops: NDArray[np.uint8], side: str) -> States:
    if not side or not len(states):
        return states
    out = np.full(len(states), UNKNOWN, np.uint8)
    if side == "before":
        own = (ops == _PREIMAGE) | (ops == _DELETE)
        other = np.flatnonzero(ops == _POSTIMAGE)
        out[other] = states[other - 1]
    else:
        own = (ops == _INSERT) | (ops == _POSTIMAGE)
        other = np.flatnonzero(ops == _PREIMAGE)
        out[other] = states[other + 1]
    out[own] = states[own]
    return out


def _keys(values: NDArray[Any], column: Column) -> NDArray[Any]:
    """Whole numbers that are ordered as the values are: int64, uint64, or Python's of wide decimals."""
    kind = column.kind
    if kind in TEMPORAL_KINDS:
        return values.view(np.int64) if values.dtype.isnative else values.astype(np.int64)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        bits = (values.astype(np.float64) + 0.0).view(np.int64)
        return np.where(bits < 0, -(bits & np.int64((1 << 63) - 1)), bits)
    if kind is Kind.DECIMAL and values.dtype.names is not None:
        names = values.dtype.names
        keys = values[names[-1]].astype(object)
        for name in reversed(names[:-1]):
            keys = keys * (1 << 64) + values[name].astype(object)
        return keys
    return values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)


def _within(keys: Iterable[int], dtype: Any) -> list[int]:
    limits = np.iinfo(dtype)
    return [key for key in keys if int(limits.min) <= key <= int(limits.max)]


# ---------------------------------------------------------------- bound conditions


@dataclass(frozen=True, slots=True)
class Joined:
    """AND (`every`) or OR of parts."""

    every: bool
    parts: tuple[BoundNode, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """NOT."""

    part: BoundNode


BoundNode = Test | Joined | Negated


def states_of(node: BoundNode, records: Records) -> States:
    """The state of each record."""
    if isinstance(node, Joined):
        join = np.minimum if node.every else np.maximum
        found = states_of(node.parts[0], records)
        for part in node.parts[1:]:
            found = join(found, states_of(part, records))
        return found
    if isinstance(node, Negated):
        return np.uint8(TRUE) - states_of(node.part, records)
    return node.states(records)


class BoundCondition:
    """A condition on the changes of one table definition.

    Parameters
    ----------
    root : BoundNode
    columns : frozenset of str
        Names of the columns that it looks at.
    """

    def __init__(self, root: BoundNode, columns: frozenset[str]) -> None:
        self.root = root
        self.columns = columns

    def kept(self, batch: ChangeBatch) -> NDArray[np.bool_]:
        """Which records belong to changes that match."""
        records = Records(batch)
        kept: NDArray[np.bool_] = states_of(self.root, records) == TRUE
        after = np.flatnonzero(records.ops == _POSTIMAGE)
        kept[after] = kept[after - 1] = kept[after] | kept[after - 1]
        return kept


def bind(condition: Condition, table: Table) -> BoundCondition:
    """A condition for the columns of a table.

    Raises
    ------
    ConditionError
        The table lacks a column, or a value is not one of its column's type.
    """
    binder = _Binder(table)
    root = binder.node(condition.tree)
    return BoundCondition(root, frozenset(binder.used))


class _Binder:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._columns = {column.name: column for column in table.columns}
        self._small = {column.name.lower(): column for column in table.columns}
        self.used: set[str] = set()

    def node(self, node: Node) -> BoundNode:
        if isinstance(node, All | Any_):
            return Joined(isinstance(node, All), tuple(self.node(part) for part in node.parts))
        if isinstance(node, Not):
            return Negated(self.node(node.part))
        ref = node.ref
        if ref.pseudo:
            return self._pseudo(node)
        column = self._column(ref)
        if isinstance(node, Changed):
            return ChangedTest("", column)
        if isinstance(node, IsNull):
            return NullTest(ref.side, column)
        if column.kind is Kind.NULL:
            return Constant("", UNKNOWN)
        literals = _literals(node)
        if any(literal.value is None for literal in literals):
            # NULL is equal to nothing, but one of several values may still be
            left = tuple(literal for literal in literals if literal.value is not None)
            unknown = Constant("", UNKNOWN)
            return Joined(False, (unknown, self._test(OneOf(ref, left), column, left))) if left else unknown
        return self._test(node, column, literals)

    def _column(self, ref: Ref) -> Column:
        column = self._columns.get(ref.name) or self._small.get(ref.name.lower())
        if column is None or self._table.undecodable is not None:
            raise ConditionError(
                f"the table does not have the column {ref.name!r} of the condition",
                table=self._table.full_name,
            )
        self.used.add(column.name)
        return column

    def _misfit(self, column: Column, literal: Literal | None, wanted: str) -> ConditionError:
        at = "" if literal is None else f" at character {literal.at + 1} of the condition"
        return ConditionError(
            f"the column's type is {column.kind.name}: expected {wanted}{at}",
            table=self._table.full_name,
            column=column.name,
        )

    def _test(self, node: Node, column: Column, literals: tuple[Literal, ...]) -> BoundNode:
        assert isinstance(node, Comparison | OneOf | Like)
        kind, side = column.kind, node.ref.side
        if kind in (Kind.JSON, Kind.GEOMETRY, Kind.VECTOR):
            raise self._misfit(column, None, "is null, is not null or changed() for such a column")
        if kind is Kind.ENUM:
            return TableTest(side, column, self._members(node, column, literals))
        by_text = kind in (Kind.TEXT, Kind.BINARY) or (
            kind is Kind.SET and column.members is not None and not _all_numbers(literals)
        )
        if by_text:
            given = tuple(self._text(column, literal) for literal in literals)
            return TextColumnTest(side, column, *_text_test(node, given))
        if isinstance(node, Like):
            raise self._misfit(column, None, "a comparison, in or between: like is for text")
        return NumberTest(side, column, tuple(self._spans(node, column, literals)))

    def _text(self, column: Column, literal: Literal) -> str | bytes:
        value = literal.value
        if column.kind is Kind.BINARY:
            if isinstance(value, str):
                return value.encode("utf-8", "surrogateescape")
            if isinstance(value, bytes):
                return value
            raise self._misfit(column, literal, "a text in quotes or x'…'")
        if not isinstance(value, str):
            raise self._misfit(column, literal, "a text in quotes")
        return value

    def _members(self, node: Node, column: Column, literals: tuple[Literal, ...]) -> bytes:
        """The state of each number of an ENUM."""
        members = column.members
        if members is None or (_all_numbers(literals) and not isinstance(node, Like)):
            if isinstance(node, Like) or not _all_numbers(literals):
                raise self._misfit(
                    column, literals[0], "a number, since neither log nor schema= tells the members"
                )
            spans = list(self._spans(node, column, literals))
            count = 1 << 16 if members is None else len(members) + 1
            accepted = [any(_in_span(i, span) for span in spans) for i in range(count)]
        else:
            texts = tuple(self._text(column, literal) for literal in literals)
            test, values = _text_test(node, texts)
            accepted = [m in values if values is not None else test.has(m) for m in ("", *members)]
        return bytes(TRUE if one else FALSE for one in accepted)

    def _spans(self, node: Node, column: Column, literals: tuple[Literal, ...]) -> Iterator[Span]:
        op = node.op if isinstance(node, Comparison) else "="
        for literal in literals:
            yield self._span(op, column, literal)

    def _span(self, op: str, column: Column, literal: Literal) -> Span:
        kind = column.kind
        if kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
            fields = _fields_of(literal, zone=kind is Kind.TIMESTAMP)
            if fields is None:
                zone = ", maybe with a zone" if kind is Kind.TIMESTAMP else ""
                raise self._misfit(column, literal, f"a text such as '2026-11-21 08:00:00'{zone}")
            return _moments(op, fields, days=kind is Kind.DATE)
        if kind is Kind.TIME:
            time = _time_of(literal)
            if time is None:
                raise self._misfit(column, literal, "a text such as '08:00:00' or '-12:30:00.5'")
            return _span_of(op, Fraction(time))
        value = _number_of(literal, column)
        if value is None:
            raise self._misfit(column, literal, "a number")
        if kind in (Kind.FLOAT, Kind.DOUBLE):
            return _span_of(op, Fraction(_float_key(value)))
        return _span_of(op, Fraction(value) * 10**column.scale)

    # -- about the change

    def _pseudo(self, node: Node) -> BoundNode:
        assert isinstance(node, Comparison | OneOf | Like | IsNull)
        name = node.ref.name
        if isinstance(node, IsNull):
            return GtidTest("", None) if name == "_gtid" else Constant("", FALSE)
        literals = _literals(node)
        if any(literal.value is None for literal in literals):
            left = tuple(literal for literal in literals if literal.value is not None)
            unknown = Constant("", UNKNOWN)
            return Joined(False, (unknown, self._pseudo(OneOf(node.ref, left)))) if left else unknown
        if name in ("_gtid", "_change_type"):
            texts: list[str] = []
            for literal in literals:
                if not isinstance(literal.value, str):
                    raise _pseudo_misfit(name, literal, "a text in quotes")
                texts.append(literal.value)
            if name == "_gtid":
                return GtidTest("", *_text_test(node, tuple(texts)))
            return OpTest("", _ops(node, texts, literals))
        if isinstance(node, Like):
            raise _pseudo_misfit(name, None, "a comparison, in or between")
        op = node.op if isinstance(node, Comparison) else "="
        spans = []
        for literal in literals:
            if name == "_server_id":
                if isinstance(literal.value, str | bytes):
                    raise _pseudo_misfit(name, literal, "a number")
                assert literal.value is not None
                spans.append(_span_of(op, Fraction(literal.value)))
                continue
            fields = _fields_of(literal, zone=True)
            if fields is None:
                raise _pseudo_misfit(name, literal, "a text such as '2026-11-21 08:00:00', maybe with a zone")
            spans.append(_moments(op, fields, days=False))
        return MetaTest("", name, tuple(spans))


def _pseudo_misfit(name: str, literal: Literal | None, wanted: str) -> ConditionError:
    at = "" if literal is None else f" at character {literal.at + 1} of the condition"
    return ConditionError(f"{name}: expected {wanted}{at}")


def _ops(node: Node, texts: list[str], literals: tuple[Literal, ...]) -> bytes:
    """The state of each op, 0 to 4."""
    exact = isinstance(node, OneOf) or (isinstance(node, Comparison) and node.op == "=")
    if exact:
        for text, literal in zip(texts, literals, strict=True):
            if text not in (*CHANGE_TYPES, "update"):
                known = ", ".join((*CHANGE_TYPES, "update"))
                raise _pseudo_misfit("_change_type", literal, f"one of {known}")
        wanted = {name for name in CHANGE_TYPES for text in texts if text in (name, name.partition("_")[0])}
        return bytes([FALSE, *(TRUE if name in wanted else FALSE for name in CHANGE_TYPES)])
    test, _ = _text_test(node, tuple(texts))
    return bytes([FALSE, *(TRUE if test.has(name) else FALSE for name in CHANGE_TYPES)])


# ---------------------------------------------------------------- literals


def _literals(node: Node) -> tuple[Literal, ...]:
    if isinstance(node, Comparison):
        return (node.literal,)
    if isinstance(node, Like):
        return (Literal(node.pattern, node.at),)
    assert isinstance(node, OneOf)
    return node.literals


def _all_numbers(literals: tuple[Literal, ...]) -> bool:
    return all(isinstance(literal.value, int | Decimal) for literal in literals)


def _text_test(node: Node, values: tuple[Any, ...]) -> tuple[TextTest, frozenset[Any] | None]:
    if isinstance(node, Like):
        return Pattern(tuple(_like_tokens(values[0], node.escape))), None
    if isinstance(node, OneOf):
        return TextSpan(), frozenset(values)
    assert isinstance(node, Comparison)
    value = values[0]
    if node.op == "=":
        return TextSpan(value, value), None
    if node.op in ("<", "<="):
        return TextSpan(high=value, open_high=node.op == "<"), None
    return TextSpan(low=value, open_low=node.op == ">"), None


def _like_tokens(pattern: Any, escape: str) -> Iterator[tuple[int, Any]]:
    """See `Pattern`; of bytes each byte is a character."""
    binary = isinstance(pattern, bytes)
    characters = iter(pattern.decode("latin-1") if binary else pattern)
    for character in characters:
        kind = {"%": 2, "_": 1}.get(character, 0)
        if escape and character == escape:
            kind, character = 0, next(characters, escape)
        yield kind, character.encode("latin-1") if binary else character


@lru_cache(256)
def _like_regex(tokens: tuple[tuple[int, Any], ...]) -> re.Pattern[Any]:
    parts = [""]  # between the %
    binary = any(isinstance(character, bytes) for _, character in tokens)
    for kind, character in tokens:
        if kind == 2:
            parts.append("")
        else:
            text = character.decode("latin-1") if binary else character
            parts[-1] += "." if kind else re.escape(text)
    # What stands between two % is taken where it comes first, and not tried again further on.
    head, *middle = parts
    tail = f".*{middle.pop()}" if middle else ""
    regex = head + "".join(f"(?>.*?{part})" for part in middle if part) + tail
    return re.compile(regex.encode("latin-1") if binary else regex, re.DOTALL)


def _span_of(op: str, value: Fraction) -> Span:
    floor, ceiling = math.floor(value), math.ceil(value)
    if op == "=":
        return Span(floor, floor) if floor == ceiling else _NOTHING
    if op == "<":
        return Span(None, ceiling - 1)
    if op == "<=":
        return Span(None, floor)
    return Span(floor + 1, None) if op == ">" else Span(ceiling, None)


_NOTHING = Span(1, 0, (1, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 0))


def _in_span(value: int, span: Span) -> bool:
    return (span.low is None or span.low <= value) and (span.high is None or value <= span.high)


def _number_of(literal: Literal, column: Column) -> int | Decimal | None:
    value = literal.value
    if isinstance(value, bytes):
        integer = column.kind in (Kind.BIT, Kind.INT, Kind.SET)
        return int.from_bytes(value, "big") if integer and len(value) <= 32 else None
    if isinstance(value, str):
        return Decimal(value.strip()) if _NUMBER.fullmatch(value) else None
    return value


def _float_key(value: int | Decimal) -> int:
    """Of the nearest double: see `_keys`."""
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    (bits,) = struct.unpack("<q", struct.pack("<d", nearest + 0.0))
    return -(bits & (1 << 63) - 1) if bits < 0 else int(bits)


def _time_of(literal: Literal) -> int | None:
    """Microseconds of a TIME."""
    found = _TIME.fullmatch(literal.value.strip()) if isinstance(literal.value, str) else None
    if found is None:
        return None
    sign, hour, minute, second, fraction = found.groups()
    if int(minute) > 59 or int(second or 0) > 59:
        return None
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    total = seconds * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -total if sign else total


def _fields_of(literal: Literal, *, zone: bool) -> Fields | None:
    """A date, or a date and time, as fields; one with a zone in UTC. Zero and partial dates are some, too."""
    found = _DATE.fullmatch(literal.value.strip()) if isinstance(literal.value, str) else None
    if found is None or (found[8] and not zone):
        return None
    year, month, day, hour, minute, second = (int(found[i] or 0) for i in range(1, 7))
    fields = (year, month, day, hour, minute, second, int((found[7] or "").ljust(6, "0")))
    if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        return None
    if found[8] and found[8] != "Z":
        try:
            moment = dt.datetime(*fields) - (
                dt.datetime.fromisoformat(f"2000-01-01T00:00{found[8]}").utcoffset() or dt.timedelta()
            )
        except (ValueError, OverflowError):
            return None
        return (*moment.timetuple()[:6], moment.microsecond)
    return fields


def _moments(op: str, fields: Fields, *, days: bool) -> Span:
    """What compares so with a moment; days: values are dates, the first moments of their days."""
    low, high, inside = None, None, True
    at = _first_at(fields)
    exact = at is not None and _fields_at(at) == fields
    unit = _DAY if days else 1
    # Of values that a calendar has; `at` is the first of those that is not before the moment.
    if at is None:
        value = Fraction(253402300800 * 1_000_000, unit)  # behind the year 9999
    else:
        value = Fraction(at if exact else at * 2 - 1, unit if exact else unit * 2)
    span = _span_of(op, value)
    if op == "=":
        low, high = fields, fields
    elif op in ("<", "<="):
        high, inside = fields, op == "<="
    else:
        low, inside = fields, op == ">="
    if not inside:
        if high is not None:
            high = _beside(high, -1)
        elif low is not None:
            low = _beside(low, 1)
    return Span(span.low, span.high, low, high)


def _beside(fields: Fields, step: int) -> Fields:
    """The next fields in order, whether a calendar has them or not."""
    return (*fields[:6], fields[6] + step)


def _first_at(fields: Fields) -> int | None:
    """Microseconds since 1970 of the first moment of the calendar that is not before these fields."""
    year, month, day, hour, minute, second, microsecond = fields
    if year < 1:
        return _microseconds(dt.datetime(1, 1, 1))
    try:
        if not month or not day:
            return _microseconds(dt.datetime(year, max(month, 1), 1))
        try:
            return _microseconds(dt.datetime(year, month, day, hour, minute, second, microsecond))
        except ValueError:  # the 31st of a shorter month
            return _microseconds(dt.datetime(year + month // 12, month % 12 + 1, 1))
    except ValueError:
        return None


def _microseconds(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _fields_at(at: int) -> Fields:
    moment = _EPOCH + at * _MICROSECOND
    return (*moment.timetuple()[:6], moment.microsecond)
