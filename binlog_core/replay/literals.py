"""Values and names as SQL that means the same to every client and every server.

A client divides its input into statements by the rules of its own character set, whatever SET NAMES says. For
a client that uses GBK, the second byte of a character may be a backslash, and the text after a quote may be a
command. So everything written here is printable ASCII without a backslash: other text becomes a hexadecimal
literal with its character set, ``_latin1 0xe9``, and a statement with other names is prepared from one.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from .._base.times import time_text
from .._tables import charsets
from .._tables.column_types import Kind
from .._tables.tables import Column
from ..errors import SchemaError

_PLAIN = re.compile(r"[ -\[\]-~]*+")
_PLAIN_BYTES = re.compile(rb"[ -\[\]-~]*+")
_JSON_FUNCTIONS = {"replace": "JSON_REPLACE", "insert": "JSON_INSERT", "remove": "JSON_REMOVE"}
_MAYBE_DECIMAL = re.compile(r"\d\.\d|\d{19}")  # in a JSON document
_MAYBE_NOT_FINITE = re.compile(r"nan|inf", re.IGNORECASE)  # there too: a double that JSON does not have
_UTF8 = frozenset(("utf8mb4", "utf8mb3", "utf8"))
_PREPARED = "binlog_core_statement"

NULL = "NULL"
# What a server stores for a value that no member is. It prints it as '', which may also be a member.
ENUM_ZERO = "0"


class JsonLiteral(str):
    """An SQL expression for a JSON value, and the text to find a row with it by; None if there is none."""

    __slots__ = ("text",)
    text: str | None

    def __new__(cls, expression: str, text: str | None) -> JsonLiteral:
        made = super().__new__(cls, expression)
        made.text = text
        return made


def quote_name(name: str) -> str:
    """An identifier in backticks.

    Raises
    ------
    SchemaError
        No server has such a name: it contains a NUL, or bytes that are not text.
    """
    if "\0" in name:
        raise SchemaError(f"the name {name!r} contains a NUL: no server has such names")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SchemaError(f"the name {name!r} is not valid UTF-8: no server has such names") from None
    return "`" + name.replace("`", "``") + "`"


def is_plain(text: str) -> bool:
    """Whether text is printable ASCII without a backslash, which every client reads in the same way."""
    return _PLAIN.fullmatch(text) is not None


def quote_text(text: str) -> str:
    """A text literal.

    Raises
    ------
    SchemaError
        The text is not valid Unicode.
    """
    if _PLAIN.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    try:
        return f"_utf8mb4 0x{text.encode().hex()}"
    except UnicodeEncodeError:
        raise SchemaError("the text is not valid Unicode and has no literal") from None


def prepared(statement: str) -> str:
    """A statement that is not plain, because of names in it, as three that are."""
    return (
        f"SET @{_PREPARED} = _utf8mb4 0x{statement.removesuffix(';').encode().hex()};\n"
        f"PREPARE {_PREPARED} FROM @{_PREPARED};\n"
        f"EXECUTE {_PREPARED};"
    )


def introducer(charset: str) -> str:
    """The introducer of a literal: its character set's name, as servers know it."""
    return "utf8mb4" if charset in _UTF8 else charset


def is_ascii_alike(charset: str) -> bool:
    """Whether printable ASCII has the same bytes in a character set."""
    found = charsets.get(charset)
    return found is not None and found.min_char_len == 1 and charset != "swe7"


def literal_maker(column: Column, *, axis_order: bool = False) -> Callable[[Any], str]:
    """A function that turns a column's values into literals or expressions that the column accepts.

    Parameters
    ----------
    column : Column
        The column.
    axis_order : bool
        The server reads WKB of geographic systems in their own order of axes: MySQL from 8.0 on.

    Returns
    -------
    callable
        Takes a value as `RowChange` has it; text is better given as the bytes in the log, and an ENUM as the
        number there, which tells a member '' from a value that is not valid. Raises SchemaError for a value
        that has no literal.
    """
    general = _general(column, axis_order=axis_order)
    match column.kind:
        case Kind.TEXT if column.charset is not None:
            return _text_maker(column.charset, general)
        case Kind.INT if column.signed is not None:
            return lambda value: NULL if value is None else str(value)
        case Kind.ENUM if column.members is not None:
            return _enum_maker(column.members, general)
    return general  # the Python value says what it is


def _text_maker(charset: str, general: Callable[[Any], str]) -> Callable[[Any], str]:
    found = charsets.get(charset)
    before = f"_{introducer(charset)} 0x"
    ascii_alike = is_ascii_alike(charset)
    plain = _PLAIN_BYTES.fullmatch

    def literal(value: Any) -> str:
        if isinstance(value, str) and found is not None:
            value = _encoded(value, found)
        if not isinstance(value, bytes):
            return general(value)
        if ascii_alike and plain(value):
            text = value.decode("ascii")
            return "'" + text.replace("'", "''") + "'" if "'" in text else f"'{text}'"
        if not value:
            return "''"
        if found is not None and found.decodable:
            try:
                beyond = max(found.decode(value)) > "\uffff" and charset in _UTF8 and charset != "utf8mb4"
            except UnicodeDecodeError:
                beyond = True
            if beyond:
                raise SchemaError(f"the text is not valid in its character set, {charset}")
        return before + value.hex()

    return literal


def _enum_maker(members: Sequence[str], general: Callable[[Any], str]) -> Callable[[Any], str]:
    def literal(value: Any) -> str:
        if isinstance(value, int):
            return quote_text(members[value - 1]) if 0 < value <= len(members) else str(value)
        if value == "" and "" not in members:
            return ENUM_ZERO
        return general(value)

    return literal


def _encoded(text: str, charset: charsets.Charset) -> bytes:
    """The bytes of a text; a server's characters differ in places from those of Python's codec."""
    try:
        if charset.table is not None:
            found = bytes(map(_bytes_of(charset).__getitem__, text))
        else:
            found = text.encode(charset.codec or "utf-8")
        if charset.decode(found) == text:
            return found
    except (UnicodeError, KeyError):
        pass
    raise SchemaError(f"the text cannot be written in its character set, {charset.name}")


@cache
def _bytes_of(charset: charsets.Charset) -> dict[str, int]:
    assert charset.table is not None
    return {character: byte for byte, character in enumerate(charset.table) if character is not None}


def comparable(literal: str) -> str:
    """The bytes of a text literal as a literal, for a comparison of bytes.

    Raises
    ------
    SchemaError
        It is a partial update of a JSON document.
    """
    if isinstance(literal, JsonLiteral):
        if literal.text is None:
            raise SchemaError("a row cannot be found by a partial update of a JSON document")
        literal = literal.text
    return literal.partition(" ")[2] if literal.startswith("_") else literal


def _general(column: Column, *, axis_order: bool) -> Callable[[Any], str]:
    def literal(value: Any) -> str:
        match value:
            case None:
                return NULL
            case bool():
                return str(int(value))
            case int():
                if value < 0 and column.kind is Kind.INT and column.signed is None:
                    raise SchemaError(
                        "the log does not say whether the number is signed: give a schema",
                        column=column.name,
                    )
                return str(value)
            case float():
                return _float(value)
            case Decimal():
                return format(value, "f")
            case str():
                return json_literal(value) if column.kind is Kind.JSON else quote_text(value)
            case dt.datetime():
                return f"'{value.replace(tzinfo=None).isoformat(' ')}'"
            case dt.date():
                return f"'{value.isoformat()}'"
            case dt.timedelta():
                return f"'{time_text(value)}'"
            case bytes():
                if column.kind is Kind.GEOMETRY and len(value) > 4:
                    return _geometry(value, axis_order=axis_order)
                return f"x'{value.hex()}'"
            case list():
                return _list(column, value)
        raise SchemaError(f"a {type(value).__name__} has no literal", column=column.name)

    return literal


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise SchemaError(f"{value} is not a number that a server stores")
    text = repr(value)
    # With an exponent the server reads a double, without one a decimal number.
    return text if "e" in text else text + "e0"


def _geometry(value: bytes, *, axis_order: bool) -> str:
    srid = int.from_bytes(value[:4], "little")
    order = ", 'axis-order=long-lat'" if axis_order and srid else ""
    return f"ST_GeomFromWKB(x'{value[4:].hex()}', {srid}{order})"


def _list(column: Column, value: list[Any]) -> str:
    if column.kind is Kind.VECTOR:
        return f"x'{struct.pack(f'<{len(value)}f', *value).hex()}'"
    if column.kind is Kind.SET:
        return quote_text(",".join(value))
    assert column.kind is Kind.JSON  # partial updates of a document
    expression = quote_name(column.name)
    for operation, path, document in value:
        function = _JSON_FUNCTIONS[operation]
        if operation == "insert" and path.endswith("]"):
            function = "JSON_ARRAY_INSERT"
        value_ = "" if document is None else f", {json_literal(document)}"
        expression = f"{function}({expression}, {quote_text(path)}{value_})"
    return JsonLiteral(expression, None)


# ---------------------------------------------------------------- JSON


def json_literal(text: str) -> JsonLiteral:
    """An expression for a document. MariaDB's JSON is text, and is not handled here."""
    quoted = quote_text(text)
    if _MAYBE_DECIMAL.search(text) or _MAYBE_NOT_FINITE.search(text):
        document = _with_decimals(text)
        if isinstance(document, _Made):
            made = document.expression
            return JsonLiteral(made if made.startswith("JSON_") else f"CAST({made} AS JSON)", quoted)
    return JsonLiteral(f"CAST({quoted} AS JSON)", quoted)


class _Made:
    """A part of a document that only SQL functions can make: a CAST of its text would change it."""

    def __init__(self, expression: str) -> None:
        self.expression = expression


def _with_decimals(text: str) -> Any:
    """A JSON document in which numbers that a CAST would change are `_Made`.

    JSON_SET(document, '$.price', 12.50) stores a DECIMAL, which is printed as 12.50; the same text parsed
    is a double, printed as 12.5. What contains a `_Made` part is `_Made` too.
    """

    def number(token: str) -> Any:
        parsed = float(token)
        kept = "e" in token or "E" in token or Decimal(token).as_tuple() == Decimal(repr(parsed)).as_tuple()
        return parsed if kept else _Made(token)

    def integer(token: str) -> Any:
        value = int(token)
        return value if -(1 << 63) <= value < 1 << 64 else _Made(token)

    def not_finite(token: str) -> Any:
        raise ValueError(token)

    try:
        return _made(json.loads(text, parse_float=number, parse_int=integer, parse_constant=not_finite))
    except (ValueError, RecursionError):
        raise SchemaError("the document cannot be written as an expression") from None


def _made(node: Any) -> Any:
    """A part of a document, `_Made` where one of its parts is."""
    if isinstance(node, dict):
        parts = {key: _made(value) for key, value in node.items()}
        if any(isinstance(part, _Made) for part in parts.values()):
            pairs = (f"{quote_text(key)}, {_expression(part)}" for key, part in parts.items())
            return _Made(f"JSON_OBJECT({', '.join(pairs)})")
    elif isinstance(node, list):
        items = [_made(value) for value in node]
        if any(isinstance(item, _Made) for item in items):
            return _Made(f"JSON_ARRAY({', '.join(map(_expression, items))})")
    return node


def _expression(node: Any) -> str:
    if isinstance(node, _Made):
        return node.expression
    return f"CAST({quote_text(json.dumps(node, ensure_ascii=False))} AS JSON)"
