"""Conditions on row changes, in a small SQL: ``where=`` of `binlog_core.open`, ``log.rows()`` and others.

>>> for change in log.rows(where="id = 42 and status = 'paid'"):       # doctest: +SKIP
...     print(change.gtid, change.before, change.after)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from .._base.change_columns import CONDITION_COLUMNS
from ..errors import ConditionError
from ..limits import DEFAULT_LIMITS, Limits
from ..schema.tokens import unquote

__all__ = ["Condition", "ConditionError"]

_MOST_DIGITS = 128  # of a number
_MOST_EXPONENT = 400


# ---------------------------------------------------------------- what a condition is made of


@dataclass(frozen=True, slots=True)
class Ref:
    """A column, or something about the change.

    Parameters
    ----------
    name : str
    side : str
        "before" or "after"; "": the current image.
    pseudo : bool
        One of CONDITION_COLUMNS.
    at : int
        Its place in the text.
    """

    name: str
    side: str
    pseudo: bool
    at: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A value: int, Decimal, str or bytes; None for NULL."""

    value: int | Decimal | str | bytes | None
    at: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """``ref op value``, op one of = < <= > >=."""

    ref: Ref
    op: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class OneOf:
    """``ref in (…)``."""

    ref: Ref
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """``ref like pattern``; the pattern as a regular expression, and the text that it begins with."""

    ref: Ref
    pattern: str
    escape: str
    at: int


@dataclass(frozen=True, slots=True)
class IsNull:
    """``ref is null``."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Changed:
    """``changed(column)``."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Not:
    """``not part``."""

    part: Node


@dataclass(frozen=True, slots=True)
class All:
    """``a and b and …``."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Any_:
    """``a or b or …``."""

    parts: tuple[Node, ...]


Node = Comparison | OneOf | Like | IsNull | Changed | Not | All | Any_


class Condition:
    """A condition that selects row changes.

    A change matches if one of its row images satisfies the whole condition: either image of an update, the
    after image of an insert, the before image of a delete. "Conditions" in the guide describes the language.

    Parameters
    ----------
    text : str
        The condition, such as ``id = 42 and status in ('paid', 'sent')``.
    limits : Limits, optional
        Limits on its length and depth: `condition_length`, `condition_depth`.

    Raises
    ------
    ConditionError
        The text is not a condition; the message says where it is wrong and what was expected.
    TypeError
        The condition is not a str.

    Attributes
    ----------
    text : str
        The condition as it was given.
    """

    __slots__ = ("text", "tree")

    def __init__(self, text: str, *, limits: Limits = DEFAULT_LIMITS) -> None:
        if not isinstance(text, str):
            raise TypeError(f"expected a condition's text, not {type(text).__name__}")
        self.text = text
        self.tree = _Parser(text, limits).parse()

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def of(self, _table: object) -> Condition:
        """The condition for the changes of a table: itself, for each change."""
        return self

    def __and__(self, other: Condition) -> Condition:
        """Both conditions, for the same image of a change."""
        return Condition(f"({self.text}) and ({other.text})", limits=UNBOUNDED)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.text,)


UNBOUNDED = Limits(condition_length=(1 << 62) - 1, condition_depth=200)


def _unpickled(text: str) -> Condition:
    return Condition(text, limits=UNBOUNDED)


def condition_of(where: str | Condition | None, limits: Limits = DEFAULT_LIMITS) -> Condition | None:
    """The value of ``where=`` as a Condition; None for None and for blank text."""
    if where is None or isinstance(where, Condition):
        return where
    if isinstance(where, str) and not where.strip():
        return None
    return Condition(where, limits=limits)


def refs_of(node: Node) -> Iterator[Ref]:
    """All references in a condition."""
    if isinstance(node, All | Any_):
        for part in node.parts:
            yield from refs_of(part)
    elif isinstance(node, Not):
        yield from refs_of(node.part)
    else:
        yield node.ref


def quoted(value: object) -> str:
    """A Python value as a literal in a condition: int, Decimal, bool, str, bytes, dates and times, None.

    Parameters
    ----------
    value : object
        A value as in ``RowChange``.

    Raises
    ------
    TypeError
        Conditions have no literals for values of this type.
    """
    import datetime as dt

    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | Decimal):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, dt.timedelta):
        total = value // dt.timedelta(microseconds=1)
        seconds, fraction = divmod(abs(total), 1_000_000)
        sign = "-" if total < 0 else ""
        return f"'{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}'"
    if isinstance(value, dt.date):  # a datetime, too
        return f"'{value}'"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    raise TypeError(f"a condition cannot have a {type(value).__name__} as value")


def quoted_name(name: str) -> str:
    """A column's name as it is written in a condition, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"


# ---------------------------------------------------------------- from text to tree

_TOKEN = re.compile(
    r"""
      (?P<blank>   \s+ )
    | (?P<hex>     0[xX][0-9A-Fa-f]+\b | [xX]'[0-9A-Fa-f]*' )
    | (?P<bits>    0b[01]+\b | [bB]'[01]*' )
    | (?P<number>  (?: \d+(?:\.\d*)? | \.\d+ ) (?: [eE][+-]?\d+ )? (?![0-9A-Za-z_$\u0080-\U0010ffff]) )
    | (?P<word>    [0-9A-Za-z_$\u0080-\U0010ffff]+ )
    | (?P<string>  '(?:[^'\\]+|\\.|'')*+' | "(?:[^"\\]+|\\.|"")*+" )
    | (?P<name>    `(?:[^`]+|``)++` )
    | (?P<symbol>  <> | != | <= | >= | [=<>(),.+-] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMPARISONS = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<>": "<>", "!=": "<>"}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_RESERVED = frozenset(["AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE", "ESCAPE"])


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def shown(self) -> str:
        if self.kind == "end":
            return "the end"
        return self.text if len(self.text) <= 20 else f"{self.text[:20]}…"


class _Parser:
    """Recursive descent; only parentheses and NOT go deeper, and those are counted."""

    def __init__(self, text: str, limits: Limits) -> None:
        if len(text) > limits.condition_length:
            raise ConditionError(
                f"the condition has {len(text)} characters, more than"
                f" Limits.condition_length={limits.condition_length}"
            )
        self._text = text
        self._most = limits.condition_depth
        self._depth = 0
        self._tokens = list(self._tokenized())
        self._next = 0

    def _tokenized(self) -> Iterator[_Token]:
        text, at = self._text, 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                quote = text[at]
                what = f"the quote {quote} is not closed" if quote in "'\"`" else f"unexpected {quote!r}"
                raise ConditionError(f"{what} at character {at + 1} of the condition")
            if found.lastgroup != "blank":
                yield _Token(found.lastgroup or "", found.group(), at)
            at = found.end()
        yield _Token("end", "", len(text))

    def parse(self) -> Node:
        tree = self._either()
        if self._peek.kind != "end":
            self._fail("and, or, or the end")
        return tree

    # -- tokens

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _word(self) -> str:
        return self._peek.text.upper() if self._peek.kind == "word" else ""

    def _accept(self, word: str) -> bool:
        found = self._word() == word
        self._next += found
        return found

    def _accept_symbol(self, symbol: str) -> bool:
        found = self._peek.kind == "symbol" and self._peek.text == symbol
        self._next += found
        return found

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            self._fail(word.lower())

    def _expect_symbol(self, symbol: str) -> None:
        if not self._accept_symbol(symbol):
            self._fail(f"'{symbol}'")

    def _fail(self, wanted: str, token: _Token | None = None) -> NoReturn:
        raise self._failed(wanted, token or self._peek)

    @staticmethod
    def _failed(wanted: str, token: _Token) -> ConditionError:
        return ConditionError(
            f"expected {wanted} at character {token.at + 1} of the condition, found {token.shown}"
        )

    # -- and, or, not

    def _either(self) -> Node:
        return self._joined("OR", self._every, Any_)

    def _every(self) -> Node:
        return self._joined("AND", self._negated, All)

    def _joined(self, word: str, part: Callable[[], Node], kind: Callable[..., Node]) -> Node:
        parts = [part()]
        while self._accept(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def _negated(self) -> Node:
        negative = False
        while self._accept("NOT"):
            negative = not negative
        part = self._part()
        return Not(part) if negative else part

    def _part(self) -> Node:
        if self._accept_symbol("("):
            self._depth += 1
            if self._depth > self._most:
                raise ConditionError(
                    f"more than Limits.condition_depth={self._most} parentheses inside one another at"
                    f" character {self._peek.at} of the condition"
                )
            inner = self._either()
            self._expect_symbol(")")
            self._depth -= 1
            return inner
        ahead = self._tokens[self._next + 1 : self._next + 2]
        if self._word() == "CHANGED" and ahead and ahead[0].text == "(" and ahead[0].kind == "symbol":
            self._next += 2
            ref = self._ref()
            if ref.side or ref.pseudo:
                raise ConditionError(f"changed() at character {ref.at + 1} takes the name of a column")
            self._expect_symbol(")")
            return Changed(ref)
        return self._predicate()

    # -- comparisons

    def _predicate(self) -> Node:
        if self._begins_literal():
            literal = self._literal()
            if (op := self._comparison()) is None:
                self._fail("=, <>, <, <=, > or >=")
            return self._compared(self._ref(), _MIRRORED[op], literal)
        ref = self._ref()
        if (op := self._comparison()) is not None:
            return self._compared(ref, op, self._literal())
        if self._accept("IS"):
            negative = self._accept("NOT")
            self._expect("NULL")
            return Not(IsNull(ref)) if negative else IsNull(ref)
        negative = self._accept("NOT")
        if self._accept("IN"):
            found: Node = self._one_of(ref)
        elif self._accept("BETWEEN"):
            low = self._literal()
            self._expect("AND")
            found = All((Comparison(ref, ">=", low), Comparison(ref, "<=", self._literal())))
        elif self._accept("LIKE"):
            found = self._like(ref)
        else:
            self._fail("in, between or like" if negative else "a comparison, in, between, like or is null")
        return Not(found) if negative else found

    def _comparison(self) -> str | None:
        op = _COMPARISONS.get(self._peek.text) if self._peek.kind == "symbol" else None
        self._next += op is not None
        return op

    @staticmethod
    def _compared(ref: Ref, op: str, literal: Literal) -> Node:
        return Not(Comparison(ref, "=", literal)) if op == "<>" else Comparison(ref, op, literal)

    def _one_of(self, ref: Ref) -> Node:
        self._expect_symbol("(")
        literals = [self._literal()]
        while self._accept_symbol(","):
            literals.append(self._literal())
        self._expect_symbol(")")
        return OneOf(ref, tuple(literals))

    def _like(self, ref: Ref) -> Node:
        token = self._peek
        if token.kind != "string":
            self._fail("text in quotes")
        pattern, escape = self._literal(), "\\"
        if self._accept("ESCAPE"):
            given = self._peek
            if given.kind != "string" or len(escape := unquote(given.text, escapes=True)) > 1:
                self._fail("one character in quotes")
            self._take()
        assert isinstance(pattern.value, str)
        return Like(ref, pattern.value, escape, token.at)

    # -- names and values

    def _ref(self) -> Ref:
        token = self._peek
        name, bare = self._name()
        side = name.lower() if bare else ""
        if side in ("before", "after") and self._accept_symbol("."):
            inner, _ = self._name()
            return Ref(inner, side, False, token.at)
        pseudo = bare and name.lower() in CONDITION_COLUMNS
        return Ref(name.lower() if pseudo else name, "", pseudo, token.at)

    def _name(self) -> tuple[str, bool]:
        token = self._peek
        if token.kind == "name":
            self._take()
            return unquote(token.text, escapes=False), False
        if token.kind != "word" or token.text.upper() in _RESERVED:
            self._fail("the name of a column")
        self._take()
        return token.text, True

    def _begins_literal(self) -> bool:
        token = self._peek
        if token.kind == "word":
            return token.text.upper() in ("NULL", "TRUE", "FALSE")
        return token.kind in ("number", "string", "hex", "bits") or token.text in ("+", "-")

    def _literal(self) -> Literal:
        token = self._take()
        text = token.text
        if token.kind == "symbol" and text in ("+", "-"):
            number = self._take()
            if number.kind != "number":
                self._fail("a number", number)
            value = self._number(number)
            if text == "-":  # which Decimal's own minus would round
                value = value.copy_negate() if isinstance(value, Decimal) else -value
            return Literal(value, token.at)
        if token.kind == "number":
            return Literal(self._number(token), token.at)
        if token.kind == "string":
            return Literal(unquote(text, escapes=True), token.at)
        if token.kind == "hex":
            digits = text[2:].rstrip("'")
            return Literal(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)), token.at)
        if token.kind == "bits":
            return Literal(int(text[2:].rstrip("'") or "0", 2), token.at)
        if token.kind == "word" and (word := text.upper()) in ("NULL", "TRUE", "FALSE"):
            return Literal(None if word == "NULL" else int(word == "TRUE"), token.at)
        dated = token.kind == "word" and text.upper() in ("DATE", "TIME", "TIMESTAMP", "DATETIME")
        if dated and self._peek.kind == "string":
            return self._literal()
        raise self._failed("a number, text in quotes, or NULL", token)

    @staticmethod
    def _number(token: _Token) -> int | Decimal:
        digits, _, exponent = token.text.lower().partition("e")
        if len(digits) > _MOST_DIGITS or len(exponent) > 5 or abs(int(exponent or "0")) > _MOST_EXPONENT:
            raise ConditionError(f"the number at character {token.at + 1} of the condition is too long")
        return int(digits) if digits.isdigit() and not exponent else Decimal(token.text)
