"""Ranges of a table's key with about equally many rows, found one after the other while others are read.

A chunk is one SELECT, so the server keeps old rows only as long as that takes; and it is what a copy that was
killed does not read again. What was found is noted in the lake, since writers move the ranges' ends.
"""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any, NamedTuple

from .._sources.object_stores import load_json
from .._tables.column_types import Kind
from .._tables.tables import Column, Table
from ..errors import BinlogError, MirrorError
from ..lake.exports.manifests import MIRROR
from ..lake.tables.destination import write_whole
from ..server.address import Address
from ..server.answers import text, understood, whole
from ..server.connection import Connection
from ..server.world import Started
from .lake import COPIES, Lake
from .marks import connected
from .values import FIXED_BINARY, quoted, set_for_reading

CHUNK_BYTES = 128 << 20  # by the server's estimate: a file that compaction takes for large enough
VECTOR_BYTES = 384 << 20  # where rounds do not write whole files again: about 128 MB of Parquet
_LEAST_BYTES = 96 << 20
_LEAST_ROWS, _MOST_ROWS = 1000, 1 << 22
_SHARES = 2  # of a table, for each task that runs
_FULL = (errno.ENOSPC, errno.EDQUOT)
_MOST = 256  # chunks of a table that are found at a time
_VERSIONED = "SYSTEM VERSIONED"
_NUMBERS = (Kind.INT, Kind.DECIMAL, Kind.YEAR)
_TIMES = (Kind.DATE, Kind.TIME, Kind.DATETIME, Kind.TIMESTAMP)
_ORDERED = frozenset((*_NUMBERS, *_TIMES, Kind.TEXT, Kind.BINARY))


class Sizes(NamedTuple):
    """What a server tells of a table: average bytes of a row, bytes, and whether past rows are kept too."""

    row: int
    all: int
    versioned: bool

    def rows(self, size: float) -> int:
        """How many rows have about `size` bytes."""
        return int(min(max(size // max(self.row, 1), _LEAST_ROWS), _MOST_ROWS))

    def chunk(self, most: int, slots: int) -> int:
        """How many rows a chunk has, of at most so many bytes; so many are read at the same time."""
        size = min(most, max(self.all // (_SHARES * slots), _LEAST_BYTES))
        return self.rows(self.all / -(-self.all // size) if self.all else size)  # equally large ones


def sizes_of(connection: Connection, database: str, table: str) -> Sizes:
    """What a server tells of a table."""
    found = connection.query(
        "SELECT AVG_ROW_LENGTH, TABLE_TYPE, DATA_LENGTH FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {_text(database)} AND TABLE_NAME = {_text(table)}",
        whole,
        text,
        whole,
        right="SELECT",
    )
    return Sizes(found[0][0], found[0][2], found[0][1] == _VERSIONED) if found else Sizes(0, 0, False)


class Order(NamedTuple):
    """A table, the names of its key's columns, and how many rows a chunk has."""

    table: Table
    key: Sequence[str]
    rows: int


def chunks_of(connection: Connection, order: Order, after: str = "") -> Iterator[tuple[str, str | None]]:
    """Conditions on the key, in its order; one for all rows if it has no order.

    Each comes with the condition of all rows after it; None: it is the last.

    Parameters
    ----------
    connection : Connection
    order : Order
    after : str
        The condition of the rows to divide; "": all.
    """
    table, rows = order.table, order.rows
    columns = {column.name: column for column in table.columns}
    key = [columns[one] for one in order.key]
    if not key or any(one.kind not in _ORDERED for one in key):
        yield after, None
        return
    names = [quoted(column.name) for column in key]
    listed = ", ".join(names)
    while True:
        sql = f"SELECT {listed} FROM {quoted(table.database)}.{quoted(table.name)}"
        sql += f" WHERE {after}" if after else ""
        found = connection.stream(f"{sql} ORDER BY {listed} LIMIT 1 OFFSET {rows - 1}")
        last = [row for one in found for row in one.tuples()]
        if not last:
            break
        with understood(sql):
            values = [_literal(value, column) for value, column in zip(last[0], key, strict=True)]
        below, above = _compared(names, values, "<", "<="), _compared(names, values, ">", ">")
        if above == after:  # the server compares in another way than it sorts
            break
        yield (f"{after} AND {below}" if after else below), above
        after = above
    yield after, None


def conditions(connection: Connection, table: Table, key: Sequence[str], size: float) -> Iterator[str]:
    """The conditions of chunks of about `size` bytes in a key's order, each found when it is asked for."""
    rows = sizes_of(connection, table.database, table.name).rows(size)
    return (condition for condition, _ in chunks_of(connection, Order(table, key, rows)))


def _compared(names: Sequence[str], values: Sequence[str], strictly: str, last: str) -> str:
    """A comparison of several columns, in a form for which servers use an index."""
    if len(names) == 1:
        return f"{names[0]} {last} {values[0]}"
    rest = _compared(names[1:], values[1:], strictly, last)
    return (
        f"({names[0]} {strictly}= {values[0]} AND ({names[0]} {strictly} {values[0]} OR ({names[0]} ="
        f" {values[0]} AND {rest})))"
    )


def _literal(value: bytes | None, column: Column) -> str:
    if value is None:
        raise ValueError("NULL in a key")
    if column.kind is Kind.TEXT:
        return f"_{column.charset} X'{value.hex()}'" if value else "''"
    if column.kind is Kind.BINARY and column.declared_type not in FIXED_BINARY:
        return f"X'{value.hex()}'"
    printed = value.decode("ascii")
    return printed if column.kind in _NUMBERS else f"'{printed}'"


def _text(value: str) -> str:
    return f"_utf8mb4 X'{value.encode().hex()}'" if value else "''"


class Outage(MirrorError):
    """An error of the lake's store or catalog, which may go away by itself: the copy goes on then."""


def outage(error: Exception) -> BinlogError:
    """An error of the format's library, the catalog or the store as one of ours; mostly an `Outage`."""
    full = isinstance(error, OSError) and error.errno in _FULL  # it needs the room of what was copied
    return (BinlogError if full else Outage)(f"{type(error).__name__}: {error}")


# ---------------------------------------------------------------- while others are read


class Chunks:
    """The chunks of a copy, as far as they are known.

    Parameters
    ----------
    lake : Lake
        Where they are noted.
    copy : str
        The copy's id.
    found : sequence of str
        The conditions of the first.
    rest : str or None
        The condition of all other rows; None: there are none.
    order : Order
    server : str
        The identity of the server.
    """

    def __init__(
        self, lake: Lake, copy: str, found: Sequence[str], rest: str | None, order: Order, server: str
    ) -> None:
        self.found, self.rest, self.server = [*found], rest, server
        self._lake, self._copy, self._order = lake, copy, order
        self._new: list[str] = []
        self._after = rest
        while self.rest is not None and (noted := self._noted()) is not None:
            self.found += noted["chunks"]
            self.rest = noted["rest"]

    @property
    def _note(self) -> str:
        return f"{self._lake.path}/{MIRROR}/{COPIES}/{self._copy}/plan-{len(self.found):06}"

    def _noted(self) -> Any:
        from pyarrow.fs import FileType

        filesystem = self._lake.filesystem
        if filesystem.get_file_info(self._note).type is not FileType.File:
            return None
        try:
            noted = load_json(filesystem, self._note)
            # Of a run whose earlier note was lost, the ranges do not continue these.
            continues = noted["after"] == self.rest
            return noted if continues and noted["chunks"] and noted["rest"] != "" else None
        except (ValueError, TypeError, KeyError, RecursionError):  # whatever ended that run cut it off
            return None

    def more(self, connection: Connection) -> Iterator[None]:
        """Find further chunks, one at a time, for `note`."""
        assert self.rest is not None
        self._new, self._after = [], self.rest
        for one, after in islice(chunks_of(connection, self._order, self.rest), _MOST):
            self._new.append(one)
            self._after = after
            yield

    def note(self) -> None:
        """Take what was found for certain."""
        if not self._new:
            return
        told = {"after": self.rest, "chunks": self._new, "rest": self._after}
        filesystem, path = self._lake.filesystem, self._note
        try:
            filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            write_whole(filesystem, path, json.dumps(told).encode())
        except OSError as error:
            raise outage(error) from error
        self.found += self._new
        self._new, self.rest = [], self._after


class Finding:
    """Finds further chunks of some copies beside what else the caller does within this context.

    At its end each has at least one more, or its error is in `errors`.

    Parameters
    ----------
    address : Address
        The server.
    copies : dict of str to Chunks
        Copies whose chunks are not all known.
    stop : threading.Event or None
        Ends it early.
    """

    def __init__(self, address: Address, copies: dict[str, Chunks], stop: threading.Event | None) -> None:
        self.errors: dict[str, BinlogError] = {}
        self._address, self._copies, self._stop = address, copies, stop
        self._enough = threading.Event()
        self._started: Started | None = None

    def __enter__(self) -> Finding:
        if self._copies:
            self._started = self._address.world.start(self._run, "binlog_core mirror's chunks")
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        if self._started is not None:
            self._started.join()
        for name, one in self._copies.items():
            try:
                one.note()
            except BinlogError as error:
                self.errors.setdefault(name, error)

    def _run(self) -> None:
        with ExitStack() as opened:
            sessions: dict[str, Connection | BinlogError] = {}
            working: dict[str, Iterator[None]] = {}
            for name, one in self._copies.items():
                if one.server not in sessions:
                    sessions[one.server] = self._session(opened, one.server)
                if isinstance(session := sessions[one.server], BinlogError):
                    self.errors[name] = session
                else:
                    working[name] = one.more(session)
            first = True
            while working and (first or not self._enough.is_set()):
                for name in [*working]:
                    if self._stop is not None and self._stop.is_set():
                        return
                    try:
                        if next(working[name], working) is working:
                            del working[name]
                    except Exception as error:
                        self.errors[name] = _as_ours(error)
                        del working[name]
                first = False

    def _session(self, opened: ExitStack, server: str) -> Connection | BinlogError:
        try:
            made = opened.enter_context(connected(self._address, server))
            set_for_reading(made)
            return made
        except Exception as error:
            return _as_ours(error)


def _as_ours(error: Exception) -> BinlogError:
    """The error of a copy: without one, it would be looked for further chunks forever."""
    if isinstance(error, BinlogError):
        return error
    return BinlogError(f"its chunks cannot be found: {type(error).__name__}: {error}")
