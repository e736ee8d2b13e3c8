"""Filters of pyarrow, and so of DuckDB and polars, as conditions that at least what they choose meets.

Whoever scans applies the filter again: a part of it that no condition stands for is left out here.
An expression tells what it is by its text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ._change_columns import CHANGE_TYPES
from ._tables.column_types import Kind
from ._tables.tables import Column
from .conditions import quoted, quoted_name

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")|(?P<symbol>[()]|[^\s()"]+\()|(?P<word>[^\s()"]+)|(?P<blank>\s+)'
)
_OPERATORS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WHOLE = re.compile(r"-?\d{1,20}", re.ASCII)
_UTF8 = ("utf8mb4", "utf8mb3", "ascii")
_MOST = 10_000  # characters of a filter that is looked at


def pushed_condition(filter_: str, columns: Iterable[Column]) -> str | None:
    """A condition that every row meets which a filter chooses; None: every row does.

    Parameters
    ----------
    filter_ : str
        Text of a ``pyarrow.compute.Expression``.
    columns : iterable of Column
        Of the table.
    """
    known = {column.name: column for column in columns}
    if len(filter_) > _MOST or not all(_PLAIN.fullmatch(name) for name in known):
        return None  # a name could look like a part of the expression
    tokens = []
    for found in _TOKEN.finditer(filter_):
        if found.lastgroup != "blank":
            tokens.append(found.group())
    return _Filter(tokens, known).condition()


class _Filter:
    """Parentheses around two operands, to any depth; everything else is not understood."""

    def __init__(self, tokens: list[str], known: dict[str, Column]) -> None:
        self._tokens, self._known = tokens, known

    def condition(self) -> str | None:
        # Without recursion: each open parenthesis has a list of what was found in it so far.
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
        text = column.kind is Kind.TEXT and column.charset in _UTF8 and value.startswith('"')
        if text and value.isprintable() and "\\" not in value and "\ufffd" not in value:
            return _Made(f"{quoted_name(name)} {op} {quoted(value[1:-1])}")
        return None


class _Made:
    """A part of the condition."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text
