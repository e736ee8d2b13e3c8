"""Tokens of MySQL and MariaDB statements, and a reader over them.

Definitions are read token by token because a general SQL parser loses what a binary log
needs: what ``/*! … */`` comments contain (INVISIBLE, COMPRESSED), MariaDB's
``/* mariadb-5.3 */`` mark, and whole statements such as RENAME TABLE.

Source: MySQL manual, "Language Structure"; MariaDB knowledge base, "Comment Syntax".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from .._base.redaction import SQL_MODE_NO_BACKSLASH_ESCAPES as SQL_MODE_NO_BACKSLASH_ESCAPES
from ..errors import SchemaError

SQL_MODE_REAL_AS_FLOAT = 1
SQL_MODE_ANSI_QUOTES = 4


class TokenKind(Enum):
    """The kind of a token."""

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


_TOKEN = r"""
      (?P<blank>     \s+ | --(?=\s|$)[^\n]* | \#[^\n]* )
    | (?P<run>       /\*M?!\d* | \*/ )          # the server executes the content of such a comment
    | (?P<old>       /\*\s*mariadb-5\.3\s*\*/ )
    | (?P<comment>   /\*.*?\*/ )
    | (?P<word>      [0-9A-Za-z_$\u0080-\U0010ffff]+ )
    | (?P<single>    '(?:[^'ESCAPE]+|ESCAPED'')*+' )
    | (?P<double>    "(?:[^"ESCAPE]+|ESCAPED"")*+" )
    | (?P<name>      `(?:[^`]+|``)*+` )
    | (?P<symbol>    (?!/\*)[^'"`] )           # a quote or comment that is not closed is refused
"""


def _pattern(*, escapes: bool) -> re.Pattern[str]:
    """The pattern of one token; `escapes`: whether a backslash in a string escapes."""
    written = _TOKEN.replace("ESCAPED", r"\\.|" if escapes else "").replace(
        "ESCAPE", r"\\" if escapes else ""
    )
    return re.compile(written, re.VERBOSE | re.DOTALL)


_PATTERNS = {escapes: _pattern(escapes=escapes) for escapes in (False, True)}
_EXECUTABLE = re.compile(r"/\*(M?)!([0-9]{5,6})?[0-9]*")
_NOT_OF_MARIADB = range(50700, 100000)
_NOT_OF_MYSQL = 100000  # from this version on
_DELIMITER_LINE = re.compile(r"[ \t]*(\S+)[^\n]*")
_MOST_DELIMITER = 15  # characters, as in the servers' client
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def unquote(text: str, escapes: bool) -> str:
    """The value of a quoted string or name; `escapes`: whether a backslash escapes."""
    quote = text[0]
    # Doubled quotes and escapes in one pass: \'' does not end a string, '\\' contains one \.
    pattern = f"{quote}{quote}|\\\\(.)" if escapes else quote * 2
    return re.sub(
        pattern,
        lambda m: quote if m[0] == quote * 2 else _ESCAPED.get(m[1], m[1]),
        text[1:-1],
        flags=re.DOTALL,
    )


def is_number(text: str) -> bool:
    """Whether a text is a whole number of at most 20 ASCII digits.

    `str.isdigit` alone accepts characters that `int` refuses, and more digits than it takes.
    """
    return text.isascii() and text.isdigit() and len(text) <= 20


def executed_by(mariadb: bool | None, sql: str, sql_mode: int = 0) -> str:
    """A statement in which only those comments look like ``/*! … */`` whose content its server executed.

    MySQL takes ``/*M! … */`` for a plain comment, as well as those for versions that it has never had, and
    MariaDB those for versions of MySQL from 5.7 on.

    Parameters
    ----------
    mariadb : bool or None
        Whether MariaDB wrote the statement; None if that is not known: the text stays as it is.
    sql : str
        The statement.
    sql_mode : int
        As for `tokenize_statements`.

    Returns
    -------
    str
        A text of the same length.
    """
    if mariadb is None or _EXECUTABLE.search(sql) is None:
        return sql
    match_token = _PATTERNS[not sql_mode & SQL_MODE_NO_BACKSLASH_ESCAPES].match
    parts, position, copied = [], 0, 0
    while position < len(sql) and (match := match_token(sql, position)) is not None:
        position = match.end()
        found = _EXECUTABLE.fullmatch(match[0])
        if found is None:
            continue
        version = int(found[2] or 0)
        if (version in _NOT_OF_MARIADB) if mariadb else (found[1] or version >= _NOT_OF_MYSQL):
            parts += [sql[copied : match.start()], "/*".ljust(len(match[0]))]
            copied = position
            end = sql.find("*/", position)
            position = len(sql) if end < 0 else end + 2
    return "".join((*parts, sql[copied:]))


def tokenize_statements(sql: str, sql_mode: int = 0, *, most: int | None = None) -> Iterator[Iterator[Token]]:
    """The statements of a text, each as its tokens; ``DELIMITER`` lines of dumps are obeyed.

    Nothing is read ahead: a statement's tokens are made as they are taken, and what is not taken of it is
    stepped over when the next statement is asked for. The time is in proportion to the text.

    Parameters
    ----------
    sql : str
        The text.
    sql_mode : int
        The server's bit mask; ANSI_QUOTES and NO_BACKSLASH_ESCAPES matter here.
    most : int or None
        The most characters that are read; None reads all.

    Yields
    ------
    iterator of Token
        At least one token; comments are left out, except for the content of ``/*! … */``.

    Raises
    ------
    SchemaError
        A quote or comment is not closed, or the text is longer than `most`.
    """
    tokens = _tokens(sql, sql_mode, len(sql) if most is None else most)
    for first in tokens:
        if first is not None:
            statement = chain((first,), iter(tokens.__next__, None))
            yield statement
            deque(statement, maxlen=0)


def _tokens(sql: str, sql_mode: int, most: int) -> Iterator[Token | None]:
    """The tokens of a text; None where a statement ends."""
    escapes = not sql_mode & SQL_MODE_NO_BACKSLASH_ESCAPES
    ansi_quotes = bool(sql_mode & SQL_MODE_ANSI_QUOTES)
    match_token = _PATTERNS[escapes].match
    delimiter = ";"
    begins = True  # a statement
    position = 0
    word_end = 0  # of the word in which a delimiter such as $$ was found
    while position < len(sql):
        if position >= most:
            raise SchemaError(f"the statement has more than {most} characters")
        if sql.startswith(delimiter, position):
            position += len(delimiter)
            begins = True
            yield None
            continue
        if position < word_end:
            kind, end = "word", word_end
        else:
            match = match_token(sql, position)
            if match is None:
                what = "comment" if sql[position] == "/" else f"quote {sql[position]}"
                raise SchemaError(f"the {what} at character {position} is not closed")
            kind, end = match.lastgroup or "", match.end()
        start, position = position, end
        if kind == "word":
            if begins and end - start == len("DELIMITER") and sql[start:end].upper() == "DELIMITER":
                line = _DELIMITER_LINE.match(sql, end)
                if line is not None:
                    delimiter, position = line[1], line.end()
                    if len(delimiter) > _MOST_DELIMITER:
                        raise SchemaError(
                            f"a delimiter of {len(delimiter)} characters: expected at most {_MOST_DELIMITER}"
                        )
                    continue
            word_end = end
            cut = sql.find(delimiter, start, end)
            position = end if cut < 0 else cut
            token = Token(TokenKind.WORD, sql[start:position])
        elif kind == "symbol":
            token = Token(TokenKind.SYMBOL, sql[start])
        elif kind == "name" or (kind == "double" and ansi_quotes):
            token = Token(TokenKind.NAME, unquote(sql[start:end], escapes=False))
        elif kind in ("single", "double"):
            token = Token(TokenKind.STRING, unquote(sql[start:end], escapes))
        elif kind == "old":
            token = Token(TokenKind.OLD_FRACTION, sql[start:end])
        else:
            continue
        begins = False
        yield token


class TokenReader:
    """A cursor over the tokens of one statement.

    Keywords are compared without regard to case and only with bare words: a quoted name is
    never a keyword.

    Parameters
    ----------
    tokens : iterable of Token
        The tokens, taken one by one, so that they are never all in memory.
    """

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = iter(tokens)
        self._ahead: deque[Token] = deque()
        self._taken = 0

    @property
    def done(self) -> bool:
        """Whether the statement has no more tokens."""
        return self.peek() is None

    def peek(self, ahead: int = 0) -> Token | None:
        """The next token, or one further ahead, without taking it; None after the last."""
        while len(self._ahead) <= ahead:
            token = next(self._tokens, None)
            if token is None:
                return None
            self._ahead.append(token)
        return self._ahead[ahead]

    def word(self, ahead: int = 0) -> str:
        """The next word in upper case, or one further ahead; "" if that is not a word."""
        token = self.peek(ahead)
        return token.text.upper() if token is not None and token.kind is TokenKind.WORD else ""

    def symbol(self, ahead: int = 0) -> str:
        """The next symbol, or one further ahead; "" if that is not a symbol."""
        token = self.peek(ahead)
        return token.text if token is not None and token.kind is TokenKind.SYMBOL else ""

    def take(self) -> Token:
        """Take the next token, whatever it is.

        Raises
        ------
        SchemaError
            There is none.
        """
        token = self.peek()
        if token is None:
            raise SchemaError("the statement ends too early")
        self._step()
        return token

    def _step(self, count: int = 1) -> None:
        """Pass tokens that were peeked at."""
        for _ in range(count):
            self._ahead.popleft()
        self._taken += count

    def accept(self, *words: str) -> bool:
        """Take these keywords if they are the next tokens, in this order."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            self._step(len(words))
            return True
        return False

    def accept_any(self, *words: str) -> str:
        """Take the next keyword if it is one of these; "" if not."""
        word = self.word()
        if word and word in words:
            self._step()
            return word
        return ""

    def accept_symbol(self, symbol: str) -> bool:
        """Take the next symbol if it is this one."""
        if self.symbol() == symbol:
            self._step()
            return True
        return False

    def accept_kind(self, kind: TokenKind) -> Token | None:
        """Take the next token if it is of this kind."""
        token = self.peek()
        if token is None or token.kind is not kind:
            return None
        self._step()
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
        self._step()
        return token.text

    def qualified_name(self, default_database: str) -> tuple[str, str]:
        """Take ``table`` or ``database.table``: (database, table)."""
        first = self.name()
        return (first, self.name()) if self.accept_symbol(".") else (default_database, first)

    def skip_settings(self) -> None:
        """Skip MariaDB's SET STATEMENT variable = value FOR, which may stand before a statement."""
        if self.accept("SET", "STATEMENT"):
            while not self.accept("FOR"):
                self.take()

    def table_verb(self) -> tuple[str, bool]:
        """Take the verb of a statement about tables ("" for others), and whether OR REPLACE follows it."""
        self.skip_settings()
        verb = self.accept_any("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE")
        replaces = self.accept("OR", "REPLACE")
        while self.accept_any("ONLINE", "OFFLINE", "IGNORE"):
            pass
        return verb, replaces

    def number(self) -> int:
        """Take a whole number."""
        word = self.word()
        if not is_number(word):
            raise self.unexpected("a number")
        self._step()
        return int(word)

    def skip_parens(self) -> bool:
        """Step over ``( … )`` if it is next, with everything nested in it."""
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
        """The error for an unexpected token; it names the place, not the data."""
        return SchemaError(f"expected {wanted} as token {self._taken + 1} of the statement")
