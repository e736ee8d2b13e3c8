"""Conditions bound to the columns of a table: tests, joined by AND, OR and NOT."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .._base.change_columns import CHANGE_TYPES, POSTIMAGE
from .._tables.column_types import KINDS, Kind
from ..errors import ConditionError
from ..report import NAMES_REMEDY
from .language import (
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
from .predicates import (
    FALSE,
    TRUE,
    UNKNOWN,
    ChangedTest,
    Constant,
    GtidTest,
    MetaTest,
    NullTest,
    NumberTest,
    OpTest,
    Records,
    TableTest,
    Test,
    TextColumnTest,
)
from .values import (
    Pattern,
    Span,
    TextSpan,
    TextTest,
    fields_of,
    float_key,
    like_tokens,
    moments,
    number_of,
    span_of,
    time_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._tables.tables import Column, Table
    from ..batch.change_batch import ChangeBatch
    from .predicates import States


@dataclass(frozen=True, slots=True)
class Joined:
    """AND (`every`) or OR of parts."""

    every: bool
    parts: tuple[BoundNode, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """NOT."""

    part: BoundNode


BoundNode: TypeAlias = Test | Joined | Negated


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
        Names of the columns that it uses.
    """

    def __init__(self, root: BoundNode, columns: frozenset[str]) -> None:
        self.root = root
        self.columns = columns

    def kept(self, batch: ChangeBatch) -> NDArray[np.bool_]:
        """Which records belong to changes that match."""
        records = Records(batch)
        kept: NDArray[np.bool_] = states_of(self.root, records) == TRUE
        after = np.flatnonzero(records.ops == POSTIMAGE)
        kept[after] = kept[after - 1] = kept[after] | kept[after - 1]
        return kept


def bind(condition: Condition, table: Table) -> BoundCondition:
    """A condition for the columns of a table.

    Raises
    ------
    ConditionError
        The table lacks a column, or a value does not fit its column's type.
    """
    binder = _Binder(table)
    root = binder.node(condition.tree)
    return BoundCondition(root, frozenset(binder.used))


def may_concern(condition: Condition, server_id: int, thread_id: int) -> bool:
    """Whether changes of a session may match, judged by its server and its thread (0: not known)."""
    image = np.array([(server_id, 0)], [("server_id", "<u4"), ("transaction", "<u4")])
    transactions = np.array([(thread_id,)], [("thread_id", "<u4")])
    session: Any = SimpleNamespace(count=1, image=image, batch=SimpleNamespace(transactions=transactions))

    def state(node: Node) -> int:
        if isinstance(node, Not):
            return TRUE - state(node.part)
        if isinstance(node, All):
            return min(map(state, node.parts))
        if isinstance(node, Any_):
            return max(map(state, node.parts))
        if node.ref.pseudo and node.ref.name in ("_server_id", "_thread_id"):
            with contextlib.suppress(ConditionError):  # reading the rows reports it
                return int(states_of(_pseudo(node), session)[0])
        return UNKNOWN

    return state(condition.tree) != FALSE


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
            return _pseudo(node)
        column = self._column(ref)
        if isinstance(node, Changed):
            return ChangedTest("", column)
        if isinstance(node, IsNull):
            return NullTest(ref.side, column)
        if column.kind is Kind.NULL:
            return Constant("", UNKNOWN)
        literals = _literals(node)
        if any(literal.value is None for literal in literals):
            # NULL is not equal to anything, but another of the values may be
            left = tuple(literal for literal in literals if literal.value is not None)
            unknown = Constant("", UNKNOWN)
            return Joined(False, (unknown, self._test(OneOf(ref, left), column, left))) if left else unknown
        return self._test(node, column, literals)

    def _column(self, ref: Ref) -> Column:
        column = self._columns.get(ref.name) or self._small.get(ref.name.lower())
        if column is None or self._table.undecodable is not None:
            if not all(one.named for one in self._table.columns):
                raise ConditionError(
                    f"the log does not have the column names, and the condition needs {ref.name!r}:"
                    f" {NAMES_REMEDY}",
                    table=self._table.full_name,
                )
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
        compared, side = KINDS[column.kind].compared, node.ref.side
        if compared == "null":
            raise self._misfit(column, None, "is null, is not null or changed() for such a column")
        if compared == "member":
            return TableTest(side, column, self._members(node, column, literals))
        by_text = compared in ("text", "bytes") or (
            compared == "members" and column.members is not None and not _all_numbers(literals)
        )
        if by_text:
            given = tuple(self._text(column, literal) for literal in literals)
            return TextColumnTest(side, column, *_text_test(node, given))
        if isinstance(node, Like):
            raise self._misfit(column, None, "a comparison, in or between: like is for text")
        return NumberTest(side, column, tuple(self._spans(node, column, literals)))

    def _text(self, column: Column, literal: Literal) -> str | bytes:
        value = literal.value
        if KINDS[column.kind].compared == "bytes":
            if isinstance(value, str):
                return value.encode("utf-8", "surrogateescape")
            if isinstance(value, bytes):
                return value
            raise self._misfit(column, literal, "text in quotes or x'…'")
        if not isinstance(value, str):
            raise self._misfit(column, literal, "text in quotes")
        return value

    def _members(self, node: Node, column: Column, literals: tuple[Literal, ...]) -> bytes:
        """The state of each number of an ENUM."""
        members = column.members
        if members is None or (_all_numbers(literals) and not isinstance(node, Like)):
            if isinstance(node, Like) or not _all_numbers(literals):
                raise self._misfit(
                    column, literals[0], "a number, since neither the log nor schema= gives the members"
                )
            states = np.full(1 << 16, FALSE, np.uint8)  # a number need not be that of a member
            for span in self._spans(node, column, literals):
                low, high = max(span.low or 0, 0), len(states) if span.high is None else span.high + 1
                states[low : max(high, low)] = TRUE
            return states.tobytes()
        texts = tuple(self._text(column, literal) for literal in literals)
        test, values = _text_test(node, texts)
        accepted = [m in values if values is not None else test.has(m) for m in ("", *members)]
        return bytes(TRUE if one else FALSE for one in accepted)

    def _spans(self, node: Node, column: Column, literals: tuple[Literal, ...]) -> Iterator[Span]:
        op = node.op if isinstance(node, Comparison) else "="
        for literal in literals:
            yield self._span(op, column, literal)

    def _span(self, op: str, column: Column, literal: Literal) -> Span:
        kind, compared = column.kind, KINDS[column.kind].compared
        if compared == "moment":
            fields = fields_of(literal, zone=kind is Kind.TIMESTAMP)
            if fields is None:
                zone = ", optionally with a zone" if kind is Kind.TIMESTAMP else ""
                raise self._misfit(column, literal, f"text such as '2026-11-21 08:00:00'{zone}")
            return moments(op, fields, days=kind is Kind.DATE)
        if compared == "time":
            time = time_of(literal)
            if time is None:
                raise self._misfit(column, literal, "text such as '08:00:00' or '-12:30:00.5'")
            return span_of(op, Fraction(time))
        value = number_of(literal, column)
        if value is None:
            raise self._misfit(column, literal, "a number")
        if compared == "real":
            return span_of(op, Fraction(float_key(value)))
        return span_of(op, Fraction(value) * 10**column.scale)


def _pseudo(node: Node) -> BoundNode:
    """A test of something about the change."""
    assert isinstance(node, Comparison | OneOf | Like | IsNull)
    name = node.ref.name
    if isinstance(node, IsNull):
        if name == "_thread_id":
            return MetaTest("", name, (Span(0, 0),))
        return GtidTest("", None) if name == "_gtid" else Constant("", FALSE)
    literals = _literals(node)
    if any(literal.value is None for literal in literals):
        left = tuple(literal for literal in literals if literal.value is not None)
        unknown = Constant("", UNKNOWN)
        return Joined(False, (unknown, _pseudo(OneOf(node.ref, left)))) if left else unknown
    if name in ("_gtid", "_change_type"):
        texts: list[str] = []
        for literal in literals:
            if not isinstance(literal.value, str):
                raise _pseudo_misfit(name, literal, "text in quotes")
            texts.append(literal.value)
        if name == "_gtid":
            return GtidTest("", *_text_test(node, tuple(texts)))
        return OpTest("", _ops(node, texts, literals))
    if isinstance(node, Like):
        raise _pseudo_misfit(name, None, "a comparison, in or between")
    op = node.op if isinstance(node, Comparison) else "="
    spans = []
    for literal in literals:
        if name in ("_server_id", "_thread_id"):
            if isinstance(literal.value, str | bytes):
                raise _pseudo_misfit(name, literal, "a number")
            assert literal.value is not None
            span = span_of(op, Fraction(literal.value))
            known = name == "_server_id" or (span.low is not None and span.low > 0)
            spans.append(span if known else replace(span, low=1))
            continue
        fields = fields_of(literal, zone=True)
        if fields is None:
            raise _pseudo_misfit(name, literal, "text such as '2026-11-21 08:00:00', optionally with a zone")
        spans.append(moments(op, fields, days=False))
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
        return Pattern(tuple(like_tokens(values[0], node.escape))), None
    if isinstance(node, OneOf):
        return TextSpan(), frozenset(values)
    assert isinstance(node, Comparison)
    value = values[0]
    if node.op == "=":
        return TextSpan(value, value), None
    if node.op in ("<", "<="):
        return TextSpan(high=value, open_high=node.op == "<"), None
    return TextSpan(low=value, open_low=node.op == ">"), None
