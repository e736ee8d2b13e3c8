"""Filters of pyarrow (and so of DuckDB and polars) and of Spark, as conditions that match at least the rows
that the filters do.

The scanning library applies the filter again, so any part of it that has no condition is left out here. The
structure of a pyarrow expression can be read only from its text.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from .._base.change_columns import CHANGE_TYPES
from .._tables.column_types import Kind
from .._tables.tables import Column, Table
from .language import Condition, quoted, quoted_name

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")|(?P<symbol>[()]|[^\s()"]+\()|(?P<word>[^\s()"]+)|(?P<blank>\s+)'
)
_OPERATORS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WHOLE = re.compile(r"-?\d{1,20}", re.ASCII)
_UTF8 = ("utf8mb4", "utf8mb3", "ascii")
_MOST = 10_000  # characters of a filter that is looked at


def pushed_condition(filter_: str, columns: Iterable[Column]) -> str | None:
    """A condition that matches every row that a filter matches; None if it would match all rows.

    Parameters
    ----------
    filter_ : str
        The text of a ``pyarrow.compute.Expression``.
    columns : iterable of Column
        The table's columns.
    """
    known = {column.name: column for column in columns}
    if len(filter_) > _MOST or not all(_PLAIN.fullmatch(name) for name in known):
        return None  # a name could look like a part of the expression
    tokens = []
    for found in _TOKEN.finditer(filter_):
        if found.lastgroup != "blank":
            tokens.append(found.group())
    return _Filter(tokens, known).condition()


@dataclass(frozen=True, slots=True)
class Predicate:
    """A comparison of a column, or of a change column, with a value.

    Parameters
    ----------
    name : str
        The column's name, in any case.
    op : str
        An operator such as ``=``, ``<>``, ``in`` or ``not in``; "begins", "ends" or "contains".
    values : tuple
        One value, or several for ``in``; none is None.
    """

    name: str
    op: str
    values: tuple[object, ...]

    def condition(self, columns: Iterable[Column]) -> str | None:
        """The condition for the changes of a table; None if no condition means exactly the same."""
        named = [column for column in columns if column.name.lower() == self.name.lower()]
        if not all(map(self._fits, named or (None,))) or len(named) > 1:
            return None
        name = quoted_name(named[0].name) if named else self.name.lower()
        if self.op in ("begins", "ends", "contains"):
            (text,) = self.values
            pattern = re.sub(r"([\\%_])", r"\\\1", str(text))
            before, after = "%" * (self.op != "begins"), "%" * (self.op != "ends")
            return f"{name} like {quoted(f'{before}{pattern}{after}')}"
        told = ", ".join(map(quoted, self.values))
        return f"{name} {self.op} ({told})" if self.op.endswith("in") else f"{name} {self.op} {told}"

    def _fits(self, column: Column | None) -> bool:
        if column is None:
            return all(self._fits_the_change(value) for value in self.values)
        return all(_fits(column, value) for value in self.values)

    def _fits_the_change(self, value: object) -> bool:
        match self.name.lower():
            case "_change_type":
                return self.op in ("=", "in") and value in CHANGE_TYPES
            case "_commit_timestamp":
                return isinstance(value, dt.datetime) and value.tzinfo is not None
            case "_server_id":
                return isinstance(value, int)
        return False


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """Filters of a scan, for `Selection.where`; each definition of a table uses those that fit it.

    Parameters
    ----------
    predicates : tuple of Predicate
        The predicates, all of which must hold for the same image.
    """

    predicates: tuple[Predicate, ...]

    def of(self, table: Table) -> Condition | None:
        """Their condition for the changes of a table."""
        found = [one.condition(table.columns) for one in self.predicates]
        text = " and ".join(filter(None, found))
        return Condition(text) if text and len(text) <= _MOST else None


def _fits(column: Column, value: object) -> bool:
    """Whether a condition understands a value like any scan of the column does."""
    match value:
        case bool():
            return False
        case int():
            return column.kind in (Kind.INT, Kind.DECIMAL)
        case Decimal():
            return column.kind in (Kind.INT, Kind.DECIMAL) and value.is_finite()
        case str():
            if column.kind is Kind.ENUM:
                return column.members is not None
            return column.kind is Kind.TEXT and column.charset in _UTF8 and "\ufffd" not in value
    return type(value) is dt.date and column.kind is Kind.DATE


class _Filter:
    """Parses parentheses around two operands, to any depth; anything else is not understood."""

    def __init__(self, tokens: list[str], known: dict[str, Column]) -> None:
        self._tokens, self._known = tokens, known

    def condition(self) -> str | None:
        # Without recursion: each open parenthesis has a list of the parts found in it so far.
        open_: list[list[str | _Made | None]] = [[]]
        calls: list[bool] = []
        for token in self._tokens:
            if token.endswith("(") and not token.startswith('"'):
                open_.append([])
                calls.append(token != "(")  # of a function
            elif token == ")":
                if not calls:
                    return None
                inner = open_.pop()
                open_[-1].append(None if calls.pop() else self._made(inner))
            else:
                open_[-1].append(token)
        (made,) = open_[0] if len(open_) == 1 and len(open_[0]) == 1 else (None,)
        return made.text if isinstance(made, _Made) else None

    def _made(self, parts: list[str | _Made | None]) -> _Made | None:
        if len(parts) != 3:
            return None
        left, between, right = parts
        if between == "and":
            both = [part for part in (left, right) if isinstance(part, _Made)]
            return _Made(" and ".join(part.text for part in both)) if both else None
        if isinstance(left, _Made) and isinstance(right, _Made):
            return _Made(f"({left.text} or {right.text})") if between == "or" else None
        if isinstance(left, str) and isinstance(between, str) and isinstance(right, str):
            return self._comparison(left, _OPERATORS.get(between), right)
        return None

    def _comparison(self, name: str, op: str | None, value: str) -> _Made | None:
        if op is None:
            return None
        column = self._known.get(name)
        if column is None:
            if name == "_server_id" and _WHOLE.fullmatch(value):
                return _Made(f"_server_id {op} {value}")
            if name == "_change_type" and op == "=" and value[1:-1] in CHANGE_TYPES:
                return _Made(f"_change_type = '{value[1:-1]}'")
            return None
        if column.kind is Kind.INT and _WHOLE.fullmatch(value):
            return _Made(f"{quoted_name(name)} {op} {value}")
        text = column.kind is Kind.TEXT and value.startswith('"') and _fits(column, value)
        if text and value.isprintable() and "\\" not in value:
            return _Made(f"{quoted_name(name)} {op} {quoted(value[1:-1])}")
        return None


class _Made:
    """A part of the condition."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text
