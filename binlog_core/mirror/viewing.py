"""The rows of a server's tables at one position in its log, read by workers whose sessions all see the same.

The sessions open their snapshots together. MariaDB says of which place in the log each is: there they try
until all have the same place, without a lock. Elsewhere, or if others commit so often that this does not come
about, one session locks the tables meanwhile. Each reads its share of the tables' chunks, and writes a number
for each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..errors import BinlogError, MirrorError, ServerError, UnreachableError
from ..lake.apply.files import FileWriter
from ..lake.apply.jobs import Folder
from ..lake.rows.types import import_pyarrow
from ..lake.runner import Meet, Runner, by_itself, go_on
from ..server.address import Address
from ..server.connection import Connection
from .chunks import conditions
from .copies import batches_of
from .digests import digest_schema, digested
from .marks import Mark, XaWork, connected, place_mark, prepared, snapshot_mark, xa_work
from .values import SelectList, quoted, set_for_reading

if TYPE_CHECKING:
    import pyarrow as pa

_PAUSE = 2.0  # seconds between them, in which others write
_CHUNK_SECONDS = 2.0
_SETTLING = 0.1  # seconds in which an XA COMMIT that goes on is done
_ALIGNED = 20  # times that sessions try to open snapshots of the same place, before tables are locked
_WITH_SNAPSHOTS = ("innodb", "rocksdb")
_UNSETTLED = "unsettled"  # XA COMMITs have begun: snapshots may lack them
_BUSY = frozenset((1205, 1213))  # the lock was not obtained in time, or because of a deadlock


@dataclass(frozen=True)
class Viewed:
    """A table that is to be read.

    Parameters
    ----------
    table : str
        ``database.table``.
    selection : SelectList
    schema : pyarrow.Schema
        Its columns, as the lake spells them, in the types in which they are compared.
    key : tuple of str
        The names of the key's columns; all columns if there is no key.
    chunks : tuple of str
        The conditions of the chunks in SQL.
    order : tuple of str
        The names of the key's columns on the server; none: it is read at once.
    columns : tuple of str
        The names of all columns that the lake had when this was planned.
    engine : str
        The engine that keeps it.
    """

    table: str
    selection: SelectList = field(repr=False)
    schema: pa.Schema = field(repr=False)
    key: tuple[str, ...]
    chunks: tuple[str, ...] = field(repr=False)
    order: tuple[str, ...]
    columns: tuple[str, ...] = field(repr=False)
    engine: str

    @property
    def name(self) -> str:
        """The table's name in SQL."""
        return f"{quoted(self.selection.table.database)}.{quoted(self.selection.table.name)}"

    @property
    def has_snapshots(self) -> bool:
        """Whether its rows are those of one moment; otherwise changes meanwhile show as differences."""
        return self.engine.lower() in _WITH_SNAPSHOTS


@dataclass(frozen=True)
class Seen:
    """A worker's report about a chunk: its file, or why it cannot be read."""

    table: str
    name: str | None = None
    rows: int = 0
    error: BinlogError | None = None


@dataclass(frozen=True)
class Viewer:
    """What all workers call together: opens one of the views and reads its share.

    Parameters
    ----------
    address : Address
        The server.
    password : str or None
        The password, which an address does not keep when it is pickled.
    into : Folder
        Where the files with the rows' numbers go.
    tables : tuple of Viewed
        The tables to read.
    server : str
        The identity of the server to read: see `marks.identity`.
    sessions : int
        How many sessions open a view.
    everything : bool
        Whether to lock all tables of the server: MySQL before 5.7 commits while single tables are locked.
    mask_key : bytes or None
        The key of masked columns.
    by_gtids : bool
        Whether the server's log has no positions: see `Facts.by_gtids_only`.
    placed : bool
        Whether snapshots say of which place in the log they are: MariaDB, whose log has positions.
    tries, lock_wait : int
        How often to try to lock the tables, and for how many seconds each: writers behind this lock wait as
        long.
    """

    address: Address
    password: str | None = field(repr=False)
    into: Folder
    tables: tuple[Viewed, ...]
    server: str
    sessions: int
    everything: bool
    by_gtids: bool = False
    mask_key: bytes | None = field(default=None, repr=False)
    placed: bool = False
    tries: int = 10
    lock_wait: int = 5

    def __call__(self, number: int, meet: Meet) -> list[Mark | Seen | BinlogError]:
        """The position, if this is the first session, and then the result of each chunk."""
        return list(self._found(number, meet))

    def _found(self, number: int, meet: Meet) -> Iterator[Mark | Seen | BinlogError]:
        with ExitStack() as opened:
            try:
                viewing, mark = self._view(opened, meet, number)
            except BinlogError as error:
                yield error
                return
            if mark is not None:
                yield mark
            chunks = [(one, chunk) for one in self.tables for chunk in one.chunks]
            lost: BinlogError | None = None
            for viewed, chunk in chunks[number :: self.sessions]:
                try:
                    if lost is not None:
                        raise lost
                    yield self.read(viewing, viewed, chunk)
                except BinlogError as error:
                    if not isinstance(error, ServerError) or isinstance(error, UnreachableError):
                        lost = error  # rows may still be on their way, and another view is not the same
                    yield Seen(viewed.table, error=error)

    def alone(self, opened: ExitStack) -> tuple[Connection, Mark]:
        """Open a view of one session, which lasts until `opened` ends, and its position.

        Raises
        ------
        BinlogError
            It cannot be opened.
        """
        viewing, mark = self._view(opened, by_itself, 0)
        assert mark is not None
        return viewing, mark

    def _view(self, opened: ExitStack, meet: Meet, number: int) -> tuple[Connection, Mark | None]:
        """Open a view; the first session also says of which place; if it fails, no other is left waiting."""
        address = replace(self.address, password=self.password)
        left, mark = 3 if self.placed else 2, None  # how often the others still wait for this one
        before: XaWork | None = None
        with ExitStack() as locked:
            try:
                viewing = opened.enter_context(connected(address, self.server))
                set_for_reading(viewing)
                for attempt in range(_ALIGNED if self.placed else 0):
                    mark = snapshot_mark(viewing, self.server)
                    place = told = "" if mark is None else f"{mark.file}:{mark.offset}"
                    if mark is not None and not number:  # it asks for all: before and after their snapshots
                        known, before = before, xa_work(viewing)
                        if known is None or known.begun != before.begun:
                            told = _UNSETTLED
                        else:
                            mark = replace(mark, prepared=known.prepared)
                    places = set(meet(told))
                    if mark is not None and places == {place}:
                        left = 0
                        return viewing, None if number else mark
                    over = "" in places or attempt == _ALIGNED - 1  # a session has failed
                    left = 2 if over else 3
                    viewing.query("ROLLBACK")
                    if over:
                        break
                mark, listed = None, ""
                if not number:
                    locking = locked.enter_context(connected(address, self.server))
                    self._lock(locking)
                    listed = self._left_prepared(locking) if self.placed or self.by_gtids else ""
                meet("")
                left = 1
                viewing.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                if not number:
                    mark = place_mark(locking, self.server, by_gtids=self.by_gtids)
                    mark = replace(mark, prepared=listed)
                return viewing, mark
            finally:
                for _ in range(left):
                    meet("")

    def _lock(self, locking: Connection) -> None:
        """Lock the tables; if other sessions hold locks, try again after a pause in which they can go on."""
        locking.query(f"SET SESSION lock_wait_timeout = {self.lock_wait}")
        if self.everything:
            sql, right = "FLUSH TABLES WITH READ LOCK", "RELOAD"
        else:
            sql, right = "LOCK TABLES " + ", ".join(f"{one.name} READ" for one in self.tables), "LOCK TABLES"
        for left in reversed(range(self.tries)):
            try:
                locking.query(sql, right=right, patience=self.lock_wait * (len(self.tables) + 1) + 60)
                return
            except ServerError as error:
                if error.code not in _BUSY:
                    raise
                if not left:
                    raise MirrorError(
                        f"the tables could not be locked for reading in {self.tries} attempts of"
                        f" {self.lock_wait} seconds: another session locks one of them, or has changed it"
                        " in a transaction that is still open. End that transaction, or verify other tables",
                        path=locking.name,
                    ) from None
            self.address.world.sleep(_PAUSE)

    def _left_prepared(self, locking: Connection) -> str:
        """The XA transactions that may be committed while the tables are locked: see `Mark.prepared`.

        Who prepared one may be gone, with its locks. One that is prepared later has no rows of the tables,
        and one that ends at once is seen by then: most, where XA transactions come all the time.
        """
        found = prepared(locking)
        if not found:
            return found
        self.address.world.sleep(_SETTLING)
        still = set(prepared(locking).split())
        return " ".join(one for one in found.split() if one in still)

    def whole(self, viewing: Connection, viewed: Viewed, rate: float) -> list[Seen]:
        """Read a table chunk by chunk, in seconds each: on MySQL an ALTER TABLE waits only for one.

        On MariaDB it waits for the end of the view: a savepoint keeps the lock on the table's definition.

        Parameters
        ----------
        viewing : Connection
            The view.
        viewed : Viewed
            The table.
        rate : float
            The most bytes to receive in a second.

        Raises
        ------
        BinlogError
            It cannot be read.
        GivenUp
            Nobody waits for it any more.
        """
        chunks = conditions(viewing, viewed.selection.table, viewed.order, rate * _CHUNK_SECONDS)
        found: list[Seen] = []
        while True:
            viewing.query("SAVEPOINT chunk")
            if (chunk := next(chunks, None)) is None:
                return found
            found.append(self.read(viewing, viewed, chunk, rate))
            viewing.query("ROLLBACK TO SAVEPOINT chunk")

    def read(self, viewing: Connection, viewed: Viewed, chunk: str, rate: float | None = None) -> Seen:
        """Read a chunk; `rate`: the most bytes to receive in a second."""
        pa, count = import_pyarrow(), 0
        where = f" WHERE {chunk}" if chunk else ""
        sql = f"SELECT {', '.join(viewed.selection.expressions)} FROM {viewed.name}{where}"
        with FileWriter(self.into, digest_schema(viewed.schema, viewed.key)) as writer:
            for batch in batches_of(viewing, sql, viewed.selection, rate=rate, mask_key=self.mask_key):
                go_on()
                rows = digested(batch.rename_columns(viewed.schema.names), viewed.schema, viewed.key)
                writer.write(pa.Table.from_batches([rows]))
                count += batch.num_rows
            done = writer.finish()
        return Seen(viewed.table, done[0].name if done else None, count)


def view(runner: Runner, viewer: Viewer) -> tuple[Mark, list[Seen]]:
    """Read the tables; the position, and the files with the rows' numbers.

    Raises
    ------
    BinlogError
        A view cannot be opened.
    """
    viewer = replace(viewer, sessions=min(viewer.sessions, runner.slots))
    mark, seen = None, []
    for one in (one for found in runner.together(viewer, viewer.sessions) for one in found):
        if isinstance(one, BinlogError):
            raise one
        if isinstance(one, Mark):
            mark = one
        else:
            seen.append(one)
    assert mark is not None
    return mark, seen
