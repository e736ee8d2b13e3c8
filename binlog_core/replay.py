"""Row changes as SQL: to replay them on a server, or to take them back (flashback).

Statements say which row they mean by its primary key where the log (or a schema) tells it, else by all
columns of the image and LIMIT 1. Every value is written so that the server reads back exactly what it logged.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import struct
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ._core._values import RowChange, RowReader
from ._tables.column_types import Kind
from ._tables.tables import Column, Table
from .errors import BinlogError, SchemaError

if TYPE_CHECKING:
    from ._decode.group import Group
    from ._format.format_description import FormatDescription

# The session in which the statements mean what they say: TIMESTAMP in UTC, zero in AUTO_INCREMENT columns and
# dates that no calendar has as they are, and rows in any order of their foreign keys.
PREAMBLE = (
    "SET NAMES utf8mb4;",
    "SET @OLD_TIME_ZONE = @@SESSION.time_zone, @OLD_SQL_MODE = @@SESSION.sql_mode;",
    "SET @OLD_FOREIGN_KEY_CHECKS = @@SESSION.foreign_key_checks;",
    "SET SESSION time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO', foreign_key_checks = 0;",
)
POSTAMBLE = (
    "SET SESSION time_zone = @OLD_TIME_ZONE, sql_mode = @OLD_SQL_MODE;",
    "SET SESSION foreign_key_checks = @OLD_FOREIGN_KEY_CHECKS;",
)

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "''", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z"})
_JSON_FUNCTIONS = {"replace": "JSON_REPLACE", "insert": "JSON_INSERT", "remove": "JSON_REMOVE"}

_MAYBE_DECIMAL = re.compile(r"\d\.\d|\d{19}")  # in a JSON document

_SELF_UPDATING = frozenset((Kind.TIMESTAMP, Kind.DATETIME))

Row = dict[str, Any]


def quote_name(name: str) -> str:
    """An identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """A text literal on one line, for a session without NO_BACKSLASH_ESCAPES."""
    return "'" + text.translate(_ESCAPES) + "'"


class StatementMaker:
    """Makes statements of row changes.

    Parameters
    ----------
    description : FormatDescription
        Of the log: MySQL and MariaDB write some values differently.
    """

    def __init__(self, description: FormatDescription) -> None:
        self._mariadb = description.is_mariadb
        # From 8.0 on MySQL reads WKB of geographic systems in their own order of axes; it stores x first.
        self._axis_order = not self._mariadb and description.server_version_tuple >= (8, 0, 0)
        self._checked: dict[int, Table] = {}  # by id, which the reference keeps from being reused

    def statement(self, table: Table, change: RowChange, *, inverse: bool = False) -> str:
        """One change as a statement.

        Parameters
        ----------
        table : Table
            The definition that it was logged under.
        change : RowChange
        inverse : bool
            What takes the change back.

        Returns
        -------
        str
            On one line, with its semicolon.

        Raises
        ------
        SchemaError
            The log does not tell what the statement needs: names, signs, or the whole row.
        """
        self._check(table)
        columns = {column.name: column for column in table.columns}
        before, after = (change.after, change.before) if inverse else (change.before, change.after)
        name = f"{quote_name(table.database)}.{quote_name(table.name)}"
        try:
            if before is None:
                assert after is not None
                if inverse:
                    self._want_whole(table, after)
                names = ", ".join(map(quote_name, after))
                values = ", ".join(self.literal(columns[n], value) for n, value in after.items())
                return f"INSERT INTO {name} ({names}) VALUES ({values});"
            if after is None:
                return f"DELETE FROM {name} WHERE {self._where(table, columns, before)};"
            return self._update(name, table, columns, before, after, inverse=inverse)
        except BinlogError as error:
            raise error.located(table=table.full_name, offset=change.position) from None

    def literal(self, column: Column, value: Any) -> str:
        """A value as a literal (or an expression) that the column takes."""
        match value:
            case None:
                return "NULL"
            case bool():
                return str(int(value))
            case int():
                if value < 0 and column.kind is Kind.INT and column.signed is None:
                    raise SchemaError(
                        "the log does not tell whether the number is signed: give a schema",
                        column=column.name,
                    )
                return str(value)
            case float():
                text = repr(value)
                # With an exponent the server reads a double, without one a decimal number.
                return text if "e" in text else text + "e0"
            case Decimal():
                return format(value, "f")
            case str():
                return self._json(value) if column.kind is Kind.JSON else quote_text(value)
            case dt.datetime():
                return quote_text(value.replace(tzinfo=None).isoformat(" "))
            case dt.date():
                return quote_text(value.isoformat())
            case dt.timedelta():
                return quote_text(time_text(value))
            case bytes():
                return self._bytes(column, value)
            case list():
                return self._list(column, value)
        raise SchemaError(f"a {type(value).__name__} has no literal", column=column.name)

    # ------------------------------------------------------------ values

    def _json(self, text: str) -> str:
        # MariaDB's JSON is text, and never comes here.
        if _MAYBE_DECIMAL.search(text) and isinstance(document := _with_decimals(text), _Made):
            made = document.expression
            return made if made.startswith("JSON_") else f"CAST({made} AS JSON)"
        return f"CAST({quote_text(text)} AS JSON)"

    def _bytes(self, column: Column, value: bytes) -> str:
        if column.kind is Kind.GEOMETRY and len(value) > 4:
            srid = int.from_bytes(value[:4], "little")
            order = ", 'axis-order=long-lat'" if self._axis_order and srid else ""
            return f"ST_GeomFromWKB(x'{value[4:].hex()}', {srid}{order})"
        return f"x'{value.hex()}'"

    def _list(self, column: Column, value: list[Any]) -> str:
        if column.kind is Kind.VECTOR:
            return f"x'{struct.pack(f'<{len(value)}f', *value).hex()}'"
        if column.kind is Kind.SET:
            return quote_text(",".join(value))
        assert column.kind is Kind.JSON  # changes of a document that the log does not have whole
        expression = quote_name(column.name)
        for operation, path, document in value:
            function = _JSON_FUNCTIONS[operation]
            if operation == "insert" and path.endswith("]"):
                function = "JSON_ARRAY_INSERT"
            value_ = "" if document is None else f", {self._json(document)}"
            expression = f"{function}({expression}, {quote_text(path)}{value_})"
        return expression

    # ------------------------------------------------------------ statements

    def _update(
        self, name: str, table: Table, columns: dict[str, Column], before: Row, after: Row, *, inverse: bool
    ) -> str:
        if inverse:
            # The old values of what the change set; what it found in the row has to be all of them.
            missing = [n for n in before if n not in after]
            if missing:
                raise SchemaError(
                    "the log has no old value of the column (binlog_row_image is not FULL), so that the"
                    " update cannot be taken back",
                    column=missing[0],
                )
            after = {n: after[n] for n in before}
        where = self._where(table, columns, before)
        # Times are set even if they stay: ON UPDATE CURRENT_TIMESTAMP would set those that are not named.
        changed = {
            n: value
            for n, value in after.items()
            if n not in before or columns[n].kind in _SELF_UPDATING or not _same(before[n], value)
        }
        if not changed:
            changed = dict(list(after.items())[:1])  # changed nothing: it still is a change in the log
        pairs = ", ".join(f"{quote_name(n)} = {self.literal(columns[n], v)}" for n, v in changed.items())
        return f"UPDATE {name} SET {pairs} WHERE {where};"

    def _where(self, table: Table, columns: dict[str, Column], row: Row) -> str:
        key = table.primary_key
        if key and all(n in row for n in key):
            return " AND ".join(self._equals(columns[n], row[n], exact=False) for n in key)
        if not row:
            raise SchemaError("the image has no column by which the row could be found")
        return (
            " AND ".join(self._equals(columns[n], value, exact=True) for n, value in row.items()) + " LIMIT 1"
        )

    def _equals(self, column: Column, value: Any, *, exact: bool) -> str:
        name = quote_name(column.name)
        if value is None:
            return f"{name} IS NULL"
        if exact and column.kind in (Kind.TEXT, Kind.JSON) and isinstance(value, str):
            # To the collation other rows may be equal too: letters of the other case, spaces at the end. A
            # date in a JSON document is not equal to the text that it is printed as.
            return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY) = {quote_text(value)}"
        if isinstance(value, list) and column.kind is Kind.JSON:
            raise SchemaError(
                "a list of changes to a document is nothing to find a row by", column=column.name
            )
        return f"{name} = {self.literal(column, value)}"

    # ------------------------------------------------------------ what the log must tell

    def _check(self, table: Table) -> None:
        if id(table) in self._checked:
            return
        if table.undecodable is not None:
            raise SchemaError(
                f"the table's rows cannot be decoded: {table.undecodable}", table=table.full_name
            )
        unnamed = next((column for column in table.columns if not column.named), None)
        if unnamed is not None:
            raise SchemaError(
                "the log does not tell the names of the columns (binlog_row_metadata is not FULL):"
                " give a schema",
                table=table.full_name,
            )
        self._checked[id(table)] = table

    def _want_whole(self, table: Table, row: Row) -> None:
        missing = next((column.name for column in table.columns if column.name not in row), None)
        if missing is not None:
            raise SchemaError(
                "the log has no value of the column (binlog_row_image is not FULL, or not all columns were"
                " read), so that the row cannot be brought back",
                column=missing,
            )


@dataclass(frozen=True, slots=True)
class _Made:
    """A part of a document that only functions make, not a CAST of its text."""

    expression: str


def _with_decimals(text: str) -> Any:
    """A JSON document in which those numbers are `_Made` that a CAST would turn into other texts.

    JSON_SET(document, '$.price', 12.50) stores a DECIMAL, which is printed as 12.50; the same text parsed
    is a double, printed as 12.5. What holds one is `_Made` too.
    """

    def number(token: str) -> Any:
        parsed = float(token)
        kept = "e" in token or "E" in token or Decimal(token).as_tuple() == Decimal(repr(parsed)).as_tuple()
        return parsed if kept else _Made(token)

    def integer(token: str) -> Any:
        value = int(token)
        return value if -(1 << 63) <= value < 1 << 64 else _Made(token)

    document = json.loads(text, parse_float=number, parse_int=integer)
    return _made(document)


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


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def time_text(value: dt.timedelta) -> str:
    """TIME as the server prints it: ``-838:59:59``; a fraction only where there is one."""
    sign = "-" if value < dt.timedelta(0) else ""
    whole = abs(value)
    seconds = whole.days * 86400 + whole.seconds
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{whole.microseconds:06}" if whole.microseconds else text


# ---------------------------------------------------------------- whole logs


@dataclass(frozen=True, slots=True)
class Located:
    """A change, the table that it was logged under and the transaction that it belongs to."""

    table: Table
    change: RowChange
    begin_position: int
    gtid: str | None


def located_changes(group: Group) -> Iterator[Located]:
    """The changes of a group in log order across tables."""
    readers = [RowReader(batch) for batch in group.batches]
    order = []
    for i, batch in enumerate(group.batches):
        image = batch.array["image"]
        records = np.flatnonzero(image["op"] != _POSTIMAGE)
        entry = np.empty(len(records), _ORDER_DTYPE)
        entry["position"], entry["row"] = image["position"][records], image["row"][records]
        entry["batch"], entry["record"] = i, records
        order.append(entry)
    for _, _, i, record in np.sort(np.concatenate(order or [np.empty(0, _ORDER_DTYPE)])).tolist():
        batch = group.batches[i]
        transaction = batch.transactions[int(batch.array["image"]["transaction"][record])]
        change = readers[i].change(record)
        yield Located(batch.table, change, int(transaction["begin_position"]), change.gtid)


_POSTIMAGE = 3
_ORDER_DTYPE = np.dtype([("position", "<u8"), ("row", "<u4"), ("batch", "<u4"), ("record", "<u4")])


class ReplayWriter:
    """Writes changes as SQL, transaction by transaction.

    Parameters
    ----------
    file : binary file
    maker : StatementMaker
    """

    def __init__(self, file: BinaryIO, maker: StatementMaker) -> None:
        self._file = file
        self._maker = maker
        self._open: tuple[str, int] | None = None
        self._write(*PREAMBLE)

    def add(self, path: str, one: Located) -> None:
        """Write one change; a new transaction where it belongs to another."""
        place = (path, one.begin_position)
        if place != self._open:
            self.end()
            self._write(f"# {_comment(path, one)}", "BEGIN;")
            self._open = place
        self._write(self._maker.statement(one.table, one.change))

    def end(self) -> None:
        """End the transaction at hand."""
        if self._open is not None:
            self._write("COMMIT;")
        self._open = None

    def close(self) -> None:
        """Write what comes at the end."""
        self.end()
        self._write(*POSTAMBLE)

    def _write(self, *lines: str) -> None:
        for line in lines:
            self._file.write(line.encode("utf-8", "surrogateescape") + b"\n")


class FlashbackWriter:
    """Writes what takes the changes back, the last change first.

    Statements are kept in a temporary file until the end is known; in memory there are 8 bytes for each.

    Parameters
    ----------
    file : binary file
    maker : StatementMaker
    """

    def __init__(self, file: BinaryIO, maker: StatementMaker) -> None:
        self._file = file
        self._maker = maker
        self._kept = tempfile.TemporaryFile(prefix="binlog-core-")  # noqa: SIM115  (closed in close)
        self._ends = array("Q", [0])
        self._open: tuple[str, int] | None = None

    def add(self, path: str, one: Located) -> None:
        """Keep one change."""
        place = (path, one.begin_position)
        if place != self._open:
            self._end()
            # In reverse order the last line of a transaction comes first.
            self._keep("COMMIT;")
            self._open = place
            self._told = _comment(path, one)
        self._keep(self._maker.statement(one.table, one.change, inverse=True))

    def close(self) -> None:
        """Write it all."""
        self._end()
        for line in PREAMBLE:
            self._file.write(line.encode() + b"\n")
        self._kept.flush()
        handle = self._kept.fileno()
        for i in range(len(self._ends) - 1, 0, -1):
            begin, end = self._ends[i - 1], self._ends[i]
            self._file.write(os.pread(handle, end - begin, begin))
        for line in POSTAMBLE:
            self._file.write(line.encode() + b"\n")
        self._kept.close()

    def _end(self) -> None:
        if self._open is not None:
            self._keep("BEGIN;")
            self._keep(f"# takes back {self._told}")

    def _keep(self, line: str) -> None:
        self._kept.write(line.encode("utf-8", "surrogateescape") + b"\n")
        self._ends.append(self._kept.tell())


def _comment(path: str, one: Located) -> str:
    moment = dt.datetime.fromtimestamp(one.change.timestamp, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    gtid = f", GTID {one.gtid}" if one.gtid else ""
    told = f"{path}, position {one.begin_position}, {moment} UTC{gtid}"
    # One line, whatever a path or a GTID's tag holds: what follows a line break would be executed.
    return "".join(c if c.isprintable() else "?" for c in told)
