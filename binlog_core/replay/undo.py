"""Undoing changes: the effect on each row, and later changes to it.

All changes of a row are folded into two states: before the first of them, and after the last. A row is undone
only if it is still in the second state; every statement checks that in its WHERE.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Unpack

from .._decode.selection import names
from ..errors import BinlogError, SchemaError
from ..lake.exports import opener_of
from .later_changes import find_later
from .literals import is_plain, prepared
from .row_batches import ROWS_AT_A_TIME, divided, is_certain, joined
from .script_lines import POSTAMBLE, comment, place_text, preamble
from .scripts import Script, Transaction
from .statements import BatchStatements, Ident, Literals, SetByServer, StatementMaker, TableStatements
from .undo_rows import Place, UndoRow

if TYPE_CHECKING:
    from .._decode.group import Aside
    from ..batch.change_batch import ChangeBatch
    from ..lake.exports.reading import ExportedLog
    from ..log.log import Log
    from ..log.options import LogOptions, Target

_NOT_FOR_ALL = ("start", "stop", "gtids", "exclude_gtids", "server_id", "ops", "where", "tables", "columns")


@dataclass(slots=True)
class UndoPlan:
    """A plan that undoes changes, as far as the logs allow.

    Parameters
    ----------
    rows : list of UndoRow
        The rows in the order in which they are undone, the last change first.
    transactions : list of str
        Where, when and under which GTID the changes were made.
    notes : list of str
        What else the range contains: statements, and transactions that were not committed. Then the DDL on
        the rows' tables after it, and changes there that are lost or were logged as statements.
    mariadb : bool
        Whether a MariaDB server wrote the logs.
    altered : dict of str to str
        The rows' tables whose definition a statement after the changes may have replaced, and the first such.
    """

    rows: list[UndoRow]
    transactions: list[str]
    notes: list[str]
    mariadb: bool
    altered: dict[str, str] = field(default_factory=dict)

    def ready(self) -> list[UndoRow]:
        """The rows that can be undone."""
        return [row for row in self.rows if row.state == "ready"]

    def left_alone(self) -> list[UndoRow]:
        """The rows that are not undone; each says why."""
        return [row for row in self.rows if row.state not in ("ready", "done")]

    def write(self, file: BinaryIO, *, batch: int | None = None) -> None:
        """Write the script for a client: one transaction, in printable ASCII without a backslash.

        Parameters
        ----------
        file : binary file
            Where to write it.
        batch : int, optional
            Rows of a statement. Without it INSERT and DELETE have several and UPDATE has one, since only the
            server knows whether several would collide in a UNIQUE key.
        """

        def line(text: str) -> None:
            file.write(text.encode("ascii") + b"\n")

        for text in preamble(mariadb=self.mariadb):
            line(text)
        for text in self.transactions:
            line(comment(f"undoes {text}"))
        for text in self.notes:
            line(comment(text))
        for row in self.left_alone():
            line(comment(f"left alone: {row.table}, {row.key}: {row.why}"))
        line("BEGIN;")
        for rows in divided(self.ready(), batch or ROWS_AT_A_TIME):
            together = is_certain(rows) and (batch is not None or rows[0].action != "update")
            for part in [rows] if together else ([row] for row in rows):
                statement = joined(part)
                line(statement if is_plain(statement) else prepared(statement))
        line("COMMIT;")
        for text in POSTAMBLE:
            line(text)


def plan_undo(
    target: Target,
    *,
    partial: bool = False,
    databases: Mapping[str, str] | None = None,
    ask: Callable[[str, str], SetByServer] | None = None,
    **options: Unpack[LogOptions],
) -> UndoPlan:
    """Plan how to undo the changes of some transactions.

    Parameters
    ----------
    target : what `binlog_core.open` takes
        The logs from the changes on, an archive, or the directory of an export to Parquet or Delta. It is
        read twice: what follows the changes shows which rows were changed since, or may have been, and which
        tables were dropped, renamed, replaced or truncated.
    partial : bool
        Make a plan even if not everything can be undone.
    databases : mapping of str to str, optional
        New names of databases, if the rows are undone in databases with other names.
    ask : callable, optional
        Tells which columns the server sets itself: ``binlog_core.replay.set_by_server(connection)``.
    **options
        Options for `binlog_core.open`: which changes to undo (`start`, `stop`, `gtids`, `tables`, `ops`,
        `where` …), and how to read the logs.

    Returns
    -------
    UndoPlan
        The plan, which takes memory for each row.

    Raises
    ------
    SchemaError
        The log does not have the column names, or a table cannot be decoded.
    BinlogError
        Reading the logs failed. Without `partial`, also if something in the range cannot be undone:
        statements that changed rows (including TRUNCATE and DROP), transactions that do not end in it, and
        rows whose old values are not all in the log.
    """
    open_changes = opener_of(target, options.get("storage_options"))
    with open_changes(**options) as log:
        collector = _Collector(log, databases, ask, options)
        for group in log.groups(asides=True):
            collector.add(group)
        collector.close()
        mariadb = log.format.is_mariadb
    rows = collector.rows()
    altered: dict[str, str] = {}
    refused = [row for row in rows if row.state == "refused"]
    if (refused or collector.incomplete) and not partial:
        count = collector.incomplete
        what = [f"{count:,} transaction{'s' * (count > 1)} or statement{'s' * (count > 1)}"] * (count > 0)
        what += [f"{len(refused):,} row{'s' * (len(refused) > 1)}"] * bool(refused)
        first = f"{refused[0].table}, {refused[0].key}: {refused[0].why}" if refused else ""
        first = first or collector.first_missed
        of = ":" if count + len(refused) == 1 else "; the first:"
        raise BinlogError(
            f"{' and '.join(what)} in the range cannot be reversed{of} {first}."
            " Choose another range, or reverse the rest with partial="
        )
    if rows:
        others = {name: value for name, value in options.items() if name not in _NOT_FOR_ALL}
        assert collector.first is not None
        if options.get("schema") == "ddl":  # of a server, statements before a start are not read
            others["start"] = options.get("start")
        later = find_later(open_changes, rows, collector.first, collector.statements, others, altered)
        collector.notes += later
    return UndoPlan(rows, collector.transactions, collector.notes, mariadb, altered)


# ------------------------------------------------------------ effects of the changes


@dataclass(frozen=True, slots=True)
class _Change:
    """Images of one change, as literals."""

    plan: TableStatements
    before: Literals | None
    after: Literals | None
    path: str
    place: Place


class _BatchChanges:
    """The changes of a batch, by the record in which each begins."""

    def __init__(self, batch: ChangeBatch, plan: TableStatements) -> None:
        self._plan, self._path = plan, batch.path or ""
        self._statements = BatchStatements(batch, plan, inverse=True)
        self.records = self._statements.records
        image = batch.array["image"]
        self._position, self._row = image["position"].tolist(), image["row"].tolist()

    def __getitem__(self, record: int) -> _Change:
        before, after = self._statements.images(record)
        return _Change(self._plan, before, after, self._path, (self._position[record], self._row[record]))


class _Collector(Script):
    """Folds the changes of transactions that were committed."""

    def __init__(
        self,
        log: Log | ExportedLog,
        databases: Mapping[str, str] | None,
        ask: Callable[[str, str], SetByServer] | None,
        options: LogOptions,
    ) -> None:
        self.notes: list[str] = []
        self.transactions: list[str] = []
        self.incomplete = 0
        self.first_missed = ""
        self.statements: dict[tuple[str, int], bool] = {}  # those in the range, and whether they took rows
        self.first: tuple[str, int] | None = None  # where the first transaction of a row begins
        self.tracked: dict[tuple[str, Ident], list[UndoRow]] = {}
        self._before: list[str] = []  # statements without rows, which matter only if no row comes after them
        self._pending: dict[tuple[str, int], list[_Change]] = {}
        self._order: dict[UndoRow, None] = {}  # the row changed last comes last
        description = log.format
        super().__init__(
            io.BytesIO(),
            StatementMaker(description, databases, ask),
            self.notes.append,
            mariadb=description.is_mariadb,
            inverse=True,
            limits=log.limits,
            tables=names(options.get("tables")),
            exclude_tables=names(options.get("exclude_tables")),
        )

    def rows(self) -> list[UndoRow]:
        """The rows in the order in which they are undone."""
        found = []
        for row in reversed(self._order):
            if row.before is not None and row.after is not None and list(row.before) == list(row.after):
                continue  # changed, and changed back
            if row.state == "ready":
                try:
                    _check(row)
                except SchemaError as error:
                    row.refuse(str(error))
            found.append(row)
        return found

    # ------------------------------------------------------------ of Script

    def _changes_of(self, batch: ChangeBatch) -> _BatchChanges:
        try:
            return _BatchChanges(batch, self._maker.plan(batch))
        except BinlogError as error:
            raise error.located(table=batch.table.full_name, path=batch.path) from None

    def _place(self) -> int:
        return 0

    def _write_begin(self, transaction: Transaction) -> None:
        self._pending[transaction.path, transaction.begin] = []

    def _write(self, change: _Change) -> None:
        assert self._open is not None
        self._pending[self._open.path, self._open.begin].append(change)

    def _write_savepoint(self, statement: str) -> None:
        pass

    def _write_note(self, text: str) -> None:
        pass

    def _miss(self, path: str, aside: Aside, text: str, *, changed: bool) -> None:
        self.statements[path, aside.position] = changed
        note = f"not reversed: {place_text(path, aside.position)}: {text}"
        if changed:
            self._miss_one(note)
        elif self.first is None:
            self._before.append(note)
        else:
            self._tell(note)

    def _commit(self, transaction: Transaction) -> None:
        changes = self._pending.pop((transaction.path, transaction.begin))
        if transaction.savepoints.undone:
            self._roll_back(transaction, "it goes back to a savepoint")
            return
        if transaction.holes:
            self._miss_one(
                f"not reversed completely, since {transaction.holes[0]}:"
                f" transaction of {transaction.description}"
            )
        self.transactions.append(transaction.description)
        if self.first is None:
            self.first = transaction.path, transaction.begin
            self._before.clear()
        for change in changes:
            self._fold(change)

    def _roll_back(self, transaction: Transaction, why: str) -> None:
        self._pending.pop((transaction.path, transaction.begin), None)
        self._miss_one(f"not reversed, since {why}: transaction of {transaction.description}")

    def _miss_one(self, note: str) -> None:
        self.incomplete += 1
        self.first_missed = self.first_missed or note.removeprefix("not reversed: ")
        self._tell(note)

    def _flush(self) -> None:
        pass

    def _end(self, *, broken: bool) -> None:
        for note in self._before:
            self._tell(note)

    # ------------------------------------------------------------ folding

    def _fold(self, change: _Change) -> None:
        plan, before, after = change.plan, change.before, change.after
        row = self._take(plan, before, after)
        if row is None:
            row = UndoRow(plan, before, _merged(before, after), change.path, change.place)
        else:
            if not _same_columns(row.plan, plan):
                row.refuse("the table was altered between two changes of the row")
                row.before = before
            elif before is not None and row.after is not None:
                if not _agree(row.after, before):
                    row.changed("another transaction between two of these", between=True)
                if row.before is not None:
                    row.before = [
                        # A column that the first image lacks was not changed until now.
                        old if old is not None or known is not None else value
                        for old, known, value in zip(row.before, row.after, before, strict=True)
                    ]
                after = _merged(row.after, after)
            row.plan, row.after, row.path, row.place = plan, _merged(before, after), change.path, change.place
            self._order.pop(row, None)
        if row.before is None and row.after is None:
            return  # inserted and deleted again
        self._order[row] = None
        self.tracked.setdefault((row.table, row.ident), []).append(row)

    def _take(self, plan: TableStatements, before: Literals | None, after: Literals | None) -> UndoRow | None:
        """The tracked row that a change continues with; it is no longer tracked under that key."""
        if before is not None:
            row = self._pop(plan, before, dead=False)
            if row is None and plan.key is not None and (gone := self._pop(plan, before, dead=True)):
                gone.changed("another transaction, which inserted it again", between=True)
            return row
        if after is None or plan.key is None:
            return None
        if (row := self._pop(plan, after, dead=True)) is None and (
            live := self._pop(plan, after, dead=False)
        ):
            live.changed("another transaction, which deleted it", between=True)
        return row

    def _pop(self, plan: TableStatements, image: Literals, *, dead: bool) -> UndoRow | None:
        place = plan.table.full_name, plan.ident(image)
        rows = self.tracked.get(place, [])
        for i in range(len(rows) - 1, -1, -1):
            if (rows[i].after is None) == dead:
                return rows.pop(i)
        return None


def _merged(before: Literals | None, after: Literals | None) -> Literals | None:
    """An image, completed by the one before it."""
    if before is None or after is None or None not in after:
        return after
    return [old if new is None else new for old, new in zip(before, after, strict=True)]


def _agree(left: Literals, found: Literals) -> bool:
    return all(a == b for a, b in zip(left, found, strict=True) if a is not None and b is not None)


def _same_columns(a: TableStatements, b: TableStatements) -> bool:
    return a is b or (a.columns == b.columns and a.key == b.key)


def _check(row: UndoRow) -> None:
    """Raise SchemaError if the log lacks something that undoing a row needs."""
    if row.after is None:
        assert row.before is not None
        row.plan.want_whole(row.before)
    else:
        row.plan.comparisons(row.after)
        if row.before is not None:
            row.plan.want_old_values(row.before, row.after)
    row.statement()
