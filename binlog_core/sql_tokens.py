"""Tokens of MySQL and MariaDB statements, and a reader over them.

Definitions are read token by token because a general SQL parser loses what a binary log
needs: what stands in ``/*! … */`` comments (INVISIBLE, COMPRESSED), MariaDB's
``/* mariadb-5.3 */`` mark, and whole statements such as RENAME TABLE.

Source: MySQL manual, "Language Structure"; MariaDB knowledge base, "Comment Syntax".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from .errors import SchemaError

SQL_MODE_REAL_AS_FLOAT = 1
SQL_MODE_ANSI_QUOTES = 4
SQL_MODE_NO_BACKSLASH_ESCAPES = 1 << 20


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"  # keyword, bare name or number
    NAME = "name"  # quoted name
    STRING = "string"
    SYMBOL = "symbol"
    OLD_FRACTION = "old fraction"  # the comment with which MariaDB marks its own fractional types


@dataclass(frozen=True, slots=True)
class Token:
    """One token; the text of names and strings is unquoted."""

    kind: TokenKind
    text: str


_PATTERN = re.compile(
    r"""
      (?P<blank>     \s+ | --(?=\s|$)[^\n]* | \#[^\n]* )
    | (?P<run>       /\*M?!\d* | \*/ )          # what such a comment holds is run by the server
    | (?P<old>       /\*\s*mariadb-5\.3\s*\*/ )
    | (?P<comment>   /\*.*?\*/ )
    | (?P<word>      [0-9A-Za-z_$\u0080-\U0010ffff]+ )
    | (?P<single>    '(?:[^'\\]+|\\.|'')*+' )
    | (?P<double>    "(?:[^"\\]+|\\.|"")*+" )
    | (?P<name>      `(?:[^`]+|``)*+` )
    | (?P<symbol>    [^'"`] )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_STRINGS = {"'": re.compile(r"'(?:[^']+|'')*+'"), '"': re.compile(r'"(?:[^"]+|"")*+"')}
_DELIMITER_LINE = re.compile(r"[ \t]*(\S+)[^\n]*")
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unquote(text: str, escapes: bool) -> str:
    quote = text[0]
    # Doubled quotes and escapes are told apart in one pass: \'' ends no string, '\\' holds one \.
    pattern = f"{quote}{quote}|\\\\(.)" if escapes else quote * 2
    return re.sub(
        pattern,
        lambda m: quote if m[0] == quote * 2 else _ESCAPED.get(m[1], m[1]),
        text[1:-1],
        flags=re.DOTALL,
    )


def tokenize_statements(sql: str, sql_mode: int = 0) -> Iterator[list[Token]]:
    """The statements of a text, each as its tokens; ``DELIMITER`` lines of dumps are obeyed.

    Parameters
    ----------
    sql : str
    sql_mode : int
        The server's bit mask; ANSI_QUOTES and NO_BACKSLASH_ESCAPES matter here.

    Yields
    ------
    list of Token
        Never empty; comments are gone, but the content of ``/*! … */`` is there.

    Raises
    ------
    SchemaError
        A quote is not closed.
    """
    escapes = not sql_mode & SQL_MODE_NO_BACKSLASH_ESCAPES
    ansi_quotes = bool(sql_mode & SQL_MODE_ANSI_QUOTES)
    delimiter = ";"
    statement: list[Token] = []
    position = 0
    while position < len(sql):
        if sql.startswith(delimiter, position):
            position += len(delimiter)
            if statement:
                yield statement
                statement = []
            continue
        match = _PATTERN.match(sql, position)
        if match is not None and not escapes and match.lastgroup in ("single", "double"):
            match = _PLAIN_STRINGS[sql[position]].match(sql, position)
        if match is None:
            raise SchemaError(f"the quote {sql[position]} at character {position} is not closed")
        position = match.end()
        text = match[0]
        kind = match.lastgroup or ("single" if text[0] == "'" else "double")
        if kind == "word":
            if not statement and text.upper() == "DELIMITER":
                line = _DELIMITER_LINE.match(sql, position)
                if line is not None:
                    delimiter, position = line[1], line.end()
                    continue
            if (cut := text.find(delimiter)) > 0:  # a delimiter such as $$ looks like part of a word
                text, position = text[:cut], match.start() + cut
            statement.append(Token(TokenKind.WORD, text))
        elif kind == "symbol":
            statement.append(Token(TokenKind.SYMBOL, text))
        elif kind == "name" or (kind == "double" and ansi_quotes):
            statement.append(Token(TokenKind.NAME, _unquote(text, escapes=False)))
        elif kind in ("single", "double"):
            statement.append(Token(TokenKind.STRING, _unquote(text, escapes)))
        elif kind == "old":
            statement.append(Token(TokenKind.OLD_FRACTION, text))
    if statement:
        yield statement


class TokenReader:
    """A cursor over the tokens of one statement.

    Keywords are compared without regard to case and only with bare words: a quoted name is
    never a keyword.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def done(self) -> bool:
        """True at the end of the statement."""
        return self._next >= len(self._tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        """The token to come, or one further ahead."""
        index = self._next + ahead
        return self._tokens[index] if index < len(self._tokens) else None

    def word(self, ahead: int = 0) -> str:
        """The keyword to come in upper case; "" where none comes."""
        token = self.peek(ahead)
        return token.text.upper() if token is not None and token.kind is TokenKind.WORD else ""

    def symbol(self, ahead: int = 0) -> str:
        """The symbol to come; "" where none comes."""
        token = self.peek(ahead)
        return token.text if token is not None and token.kind is TokenKind.SYMBOL else ""

    def take(self) -> Token:
        """The next token, whatever it is."""
        token = self.peek()
        if token is None:
            raise SchemaError("the statement ends too early")
        self._next += 1
        return token

    def accept(self, *words: str) -> bool:
        """Take these keywords if all of them come, in this order."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            self._next += len(words)
            return True
        return False

    def accept_any(self, *words: str) -> str:
        """Take the next keyword if it is one of these; "" if not."""
        word = self.word()
        if word and word in words:
            self._next += 1
            return word
        return ""

    def accept_symbol(self, symbol: str) -> bool:
        """Take the next symbol if it is this one."""
        if self.symbol() == symbol:
            self._next += 1
            return True
        return False

    def accept_kind(self, kind: TokenKind) -> Token | None:
        """Take the next token if it is of this kind."""
        token = self.peek()
        if token is None or token.kind is not kind:
            return None
        self._next += 1
        return token

    def expect_symbol(self, symbol: str) -> None:
        """Take this symbol, or raise SchemaError."""
        if not self.accept_symbol(symbol):
            raise self.unexpected(repr(symbol))

    def name(self) -> str:
        """Take a name, bare or quoted."""
        token = self.peek()
        if token is None or token.kind not in (TokenKind.WORD, TokenKind.NAME):
            raise self.unexpected("a name")
        self._next += 1
        return token.text

    def qualified_name(self, default_database: str) -> tuple[str, str]:
        """Take ``table`` or ``database.table``: (database, table)."""
        first = self.name()
        return (first, self.name()) if self.accept_symbol(".") else (default_database, first)

    def number(self) -> int:
        """Take a whole number."""
        word = self.word()
        if not (word.isascii() and word.isdigit() and len(word) <= 20):
            raise self.unexpected("a number")
        self._next += 1
        return int(word)

    def skip_parens(self) -> bool:
        """Step over ``( … )`` if it comes, with all that is nested in it."""
        if self.symbol() != "(":
            return False
        depth = 0
        while True:
            symbol = self.symbol()
            self.take()
            depth += {"(": 1, ")": -1}.get(symbol, 0)
            if depth == 0:
                return True

    def skip_element(self) -> None:
        """Step over the rest of a list's element: up to its comma, closing parenthesis or the end."""
        while not self.done and self.symbol() not in (",", ")"):
            if not self.skip_parens():
                self.take()

    def unexpected(self, wanted: str) -> SchemaError:
        """The error for a token that is not what was wanted; it names the place, not the data."""
        return SchemaError(f"expected {wanted} as token {self._next + 1} of {len(self._tokens)}")
