"""Undo on a server: compares every row with the state after the change, and undoes all in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from ..errors import BinlogError, ProtocolError, ServerError, UnreachableError
from ..server.answers import Answer, Convert, maybe, text, whole
from .literals import quote_name, quote_text
from .row_batches import ROWS_AT_A_TIME, any_key, divided, each_is, joined
from .script_lines import SESSION
from .statements import SetByServer
from .undo import UndoPlan
from .undo_rows import Action, UndoRow

if TYPE_CHECKING:
    from ..server.connection import Connection
    from .statements import TableStatements

# A duplicate key, a value that the column no longer takes, a CHECK that fails, a trigger that refuses.
_CONFLICTS = frozenset((1062, 1586, 1048, 1264, 1265, 1292, 1364, 1366, 1406, 3819, 4025, 1644))
_NOT_SETTABLE = frozenset((1193, 1227))  # no such variable; no right to set it
_STRICT = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"


_ORDER: tuple[Action, ...] = ("delete", "update", "insert")
_PATIENCE = 600.0  # seconds that a statement may take

Outcome = Literal["unchanged", "committed", "unknown"]


class ServerUndo:
    """Compares the rows of a plan with a server's rows, and undoes the changes there.

    Parameters
    ----------
    plan : UndoPlan
        The plan; its rows get the state in which they are found.
    connection : Connection
        A connection of a user who may SELECT from the tables and, for `execute`, change them.
    by_column : bool
        If others changed other columns of a row since, set back only the columns that the changes set. Times
        that the server sets at each change of a row are then left to the server.
    batch : int
        Rows of a statement. Where a statement of several rows does not do exactly what those of each row
        would do, it is taken back, and its rows are undone in smaller parts.
    progress : callable, optional
        Called now and then with the number of rows that are done, and of all.

    Attributes
    ----------
    notes : list of str
        What else you should know before you execute the plan: triggers that will run.
    outcome : str
        "unchanged": nothing on the server was changed; "committed"; or "unknown": the connection was lost
        during COMMIT.

    Raises
    ------
    ServerError
        The server refuses a query.
    """

    def __init__(
        self,
        plan: UndoPlan,
        connection: Connection,
        *,
        by_column: bool = False,
        batch: int = ROWS_AT_A_TIME,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        self.plan, self._connection, self._by_column, self._batch = plan, connection, by_column, batch
        self.notes: list[str] = []
        self.outcome: Outcome = "unchanged"
        self._progress = progress or (lambda done, all_: None)
        # Within `execute` the rows as they are now, also if others have changed them since it began.
        self._lock = ""
        for statement in SESSION:
            self._ask(statement.removesuffix(";"))
        self._ask(_STRICT)
        self._ask("SET SESSION innodb_lock_wait_timeout = 5")
        if plan.mariadb:
            self._log_rows_only()
        self._with_triggers: set[str] = set()
        self._look_at_tables()
        for row in plan.rows:
            if row.state != "refused" and (names := row.enum_zeros()):
                row.refuse(
                    f"it had an invalid value (index 0) in the ENUM column {', '.join(names)}, which is not"
                    " written in strict mode; a script made without a server writes it"
                )

    def _log_rows_only(self) -> None:
        """Keep the statements out of the log, where the servers' default would put them beside their rows."""
        try:
            self._ask("SET SESSION binlog_annotate_row_events = 0")
        except ServerError as error:
            if error.code not in _NOT_SETTABLE:  # then the log is larger, and no less right
                raise

    # ------------------------------------------------------------ looking

    def check(self) -> None:
        """Compare without changing anything: rows that are not as the change left them are marked.

        Later changes in the logs do not matter then; only the row on the server counts.
        """
        self._ask("START TRANSACTION READ ONLY")
        try:
            self._each(self._candidates(), self._are_as_left, self._compare)
        finally:
            self._ask("ROLLBACK")

    def execute(self) -> None:
        """Compare, and undo the rows that are as the change left them, all in one transaction.

        Raises
        ------
        BinlogError
            A table's engine has no transactions, other rows would refer to rows that no longer exist, a
            trigger gave a row other values, or the server refuses. Nothing is changed then; if the
            connection is lost during COMMIT, that is not known: see `outcome`.
        """
        self._ask("START TRANSACTION")
        self._lock = " LOCK IN SHARE MODE"
        try:
            keys = list(self._foreign_keys())
            dangling = [self._dangling(key) for key in keys]
            for row in self._candidates():
                if row.after is None and row.plan.key is None:
                    self._compare(row)
            todo = self._candidates()
            while todo:
                self._each(todo, self._undo_together, self._undo)
                again = [row for row in todo if row.state == "conflict"]
                if len(again) == len(todo):
                    break
                todo = again
            for key, before in zip(keys, dangling, strict=True):
                if (after := self._dangling(key)) > before:
                    raise BinlogError(
                        f"{after - before:,} rows of {key[0]} would refer to rows of {key[2]} that do not"
                        " exist: nothing was changed"
                    )
            self._check_triggers()
            self.outcome = "unknown"
            self._ask("COMMIT")
            self.outcome = "committed"
        except BaseException as error:
            if isinstance(error, ServerError) and not isinstance(error, UnreachableError | ProtocolError):
                self.outcome = "unchanged"  # the server refused the COMMIT
            self._connection.close()  # the server rolls back
            for row in self.plan.rows:
                if row.state == "done":
                    row.found("ready")
            raise
        finally:
            self._lock = ""

    def _check_triggers(self) -> None:
        """Raise an error if a row of a table with triggers is not as it was."""
        for row in self.plan.rows:
            if row.state != "done" or row.before is None or row.table not in self._with_triggers:
                continue
            if not self._exists(row, row.restored()):
                raise BinlogError(
                    f"a trigger gave the row {row.key} other values than it had: nothing was changed",
                    table=row.table,
                )

    def _candidates(self) -> list[UndoRow]:
        """Rows that the log describes completely; the server shows whether they were changed since."""
        return [row for row in self.plan.rows if row.state in ("ready", "changed since")]

    def _each(
        self, rows: list[UndoRow], together: Callable[[list[UndoRow]], bool], alone: Callable[[UndoRow], None]
    ) -> None:
        """Treat rows many at a time, and in ever smaller parts those that need to be looked at alone."""
        kinds: dict[tuple[Action, TableStatements], list[UndoRow]] = {}
        for row in rows:
            row.columns = None
            kinds.setdefault((row.action, row.plan), []).append(row)
        # A row that is removed or set back may have the key of one that is inserted again.
        ordered = sorted(kinds, key=lambda kind: _ORDER.index(kind[0]))
        parts = [part for kind in ordered for part in divided(kinds[kind], self._batch)][::-1]
        done = 0
        while parts:
            part = parts.pop()
            if len(part) > 1 and not together(part):
                half = len(part) // 2
                parts += [part[half:], part[:half]]
                continue
            if len(part) == 1:
                alone(part[0])
            done += len(part)
            self._progress(done, len(rows))

    def _are_as_left(self, rows: list[UndoRow]) -> bool:
        """Compare several rows; False if one of them is not ready."""
        if rows[0].after is not None:
            if self._count(rows, each_is(rows, [row.condition() for row in rows])) != len(rows):
                return False
        elif any(row.plan.key_condition(row.image) is None for row in rows) or self._count(
            rows, any_key(rows)
        ):
            return False
        for row in rows:
            row.found("ready")
        return True

    def _undo_together(self, rows: list[UndoRow]) -> bool:
        """Undo several rows in one statement; False, and nothing done, unless it does so for each of them."""
        if rows[0].table in self._with_triggers:
            return False
        self._ask("SAVEPOINT together")
        try:
            is_done = self._change(joined(rows)) == len(rows)
        except ServerError as error:
            if error.code not in _CONFLICTS:
                raise
            is_done = False
        if is_done and rows[0].action == "update":
            is_done = self._count(rows, each_is(rows, [row.restored() for row in rows])) == len(rows)
        if not is_done:
            self._ask("ROLLBACK TO SAVEPOINT together")
            return False
        for row in rows:
            row.found("done")
        return True

    def _undo(self, row: UndoRow) -> None:
        """Undo a row; a conflict may be with a row that is yet to be undone."""
        row.columns = None
        try:
            count = self._change(row.statement())
            if not count and self._is_in_parts(row):
                count = self._change(row.statement())
        except ServerError as error:
            if error.code not in _CONFLICTS:
                raise
            row.found("conflict", f"the server refused it: {error.message}")
            return
        if count:
            row.found("done")
        else:
            self._differs(row)

    def _is_in_parts(self, row: UndoRow) -> bool:
        """Set back only the changed columns of a row from now on; False if that is not possible."""
        row.columns = row.changed_columns() if self._by_column else None
        return row.columns is not None

    def _compare(self, row: UndoRow) -> None:
        row.columns = None
        if row.after is not None:
            found = self._exists(row, row.condition())
            if not found and self._is_in_parts(row):
                found = self._exists(row, row.condition())
            if found:
                row.found("ready")
            else:
                self._differs(row)
            return
        assert row.before is not None
        key = row.plan.key_condition(row.before)
        if key is None:
            equal = " AND ".join(condition for _, condition in row.plan.comparisons(row.before))
            if self._exists(row, equal):
                row.found(
                    "conflict", "an equal row exists; without a key it is not known whether it is this one"
                )
                return
        elif self._exists(row, key):
            if not self._moves_away(row):
                row.found("changed since", "a row with its key exists")
            return
        row.found("ready")

    def _moves_away(self, row: UndoRow) -> bool:
        """Whether the row that has a deleted one's key now is reversed too."""
        assert row.before is not None
        ident = row.plan.ident(row.before)
        return any(
            one.after is not None and one.table == row.table and one.plan.ident(one.after) == ident
            for one in self.plan.rows
            if one.state == "ready"
        )

    def _differs(self, row: UndoRow) -> None:
        """Describe how a row differs from the state after the change."""
        row.columns = None
        assert row.after is not None
        key = row.plan.key_condition(row.after)
        if key is None:
            row.found("changed since", "the row does not exist")
            return
        compared = row.plan.comparisons(row.after)
        asked = ", ".join(f"({condition})" for _, condition in compared)
        found = self._ask(
            f"SELECT {asked} FROM {row.plan.name} WHERE {key}{self._lock}", *[maybe] * len(compared)
        )
        if not found:
            row.found("changed since", "it is gone")
            return
        names = [name for (name, _), same in zip(compared, found[0], strict=False) if same != "1"]
        row.found("changed since", f"other values in {', '.join(names)}" if names else "it has changed since")

    def _exists(self, row: UndoRow, condition: str) -> bool:
        limit = "" if condition.endswith(" LIMIT 1") else " LIMIT 1"
        return bool(self._ask(f"SELECT 1 FROM {row.plan.name} WHERE {condition}{limit}{self._lock}"))

    def _count(self, rows: list[UndoRow], condition: str) -> int:
        """The number of rows of some rows' table that meet a condition."""
        found = self._ask(
            f"SELECT COUNT(*) FROM {rows[0].plan.name} WHERE {condition}{self._lock}", whole, least=1
        )
        return int(found[0][0])

    # ------------------------------------------------------------ tables

    def _look_at_tables(self) -> None:
        tables = list(dict.fromkeys(row.table for row in self.plan.rows))
        plans = {row.table: row.plan for row in self.plan.rows}
        for name in tables:
            database, its = quote_text(plans[name].database), quote_text(plans[name].table.name)
            place = f"TABLE_SCHEMA = {database} AND TABLE_NAME = {its}"
            columns = _extras(self._ask, plans[name].database, plans[name].table.name)
            for plan in {id(row.plan): row.plan for row in self.plan.rows if row.table == name}.values():
                plan.set_by_server = _set_by_server(columns)
            reason = None
            if not columns:
                reason = "the server does not have the table"
            elif missing := [c.name for c in plans[name].columns if c.name not in columns]:
                reason = f"the server's table has no column {missing[0]}"
            else:
                engines = self._ask(
                    "SELECT e.ENGINE, e.TRANSACTIONS FROM information_schema.TABLES t"
                    " JOIN information_schema.ENGINES e USING (ENGINE)"
                    f" WHERE {place}",
                    text,
                    text,
                )
                if not engines:
                    reason = "it has no storage engine, as a view has none"
                elif engines[0][1] != "YES":
                    reason = f"its engine, {engines[0][0]}, has no transactions"
            for row in self.plan.rows:
                if row.table == name and reason is not None and row.state != "refused":
                    row.refuse(reason)
            triggers = self._ask(
                "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS"
                f" WHERE EVENT_OBJECT_SCHEMA = {database} AND EVENT_OBJECT_TABLE = {its}",
                text,
            )
            if triggers:
                self._with_triggers.add(name)
                names = ", ".join(one[0] for one in triggers)
                self.notes.append(f"triggers of {name} run when its rows are reversed: {names}")

    def _foreign_keys(self) -> Iterator[tuple[str, list[str], str, list[str]]]:
        """The foreign keys from and to the tables, each as child, its columns, parent, its columns."""
        plans = {row.table: row.plan for row in self.plan.rows}
        seen: set[tuple[str, ...]] = set()
        for plan in plans.values():
            database, name = quote_text(plan.database), quote_text(plan.table.name)
            rows = self._ask(
                "SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME,"
                " REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME"
                " FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL AND"
                f" ((TABLE_SCHEMA = {database} AND TABLE_NAME = {name}) OR"
                f" (REFERENCED_TABLE_SCHEMA = {database} AND REFERENCED_TABLE_NAME = {name}))"
                " ORDER BY CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION",
                *[text] * 8,
            )
            by_name: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
            for found in rows:
                by_name.setdefault((found[0], found[1], found[3]), []).append(found)
            for constraint, columns in by_name.items():
                if constraint in seen:
                    continue
                seen.add(constraint)
                first = columns[0]
                child = f"{quote_name(first[2])}.{quote_name(first[3])}"
                parent = f"{quote_name(first[5])}.{quote_name(first[6])}"
                yield child, [one[4] for one in columns], parent, [one[7] for one in columns]

    def _dangling(self, key: tuple[str, list[str], str, list[str]]) -> int:
        """The number of rows whose foreign key refers to a row that does not exist."""
        child, columns, parent, referred = key
        pairs = " AND ".join(
            f"c.{quote_name(a)} = p.{quote_name(b)}" for a, b in zip(columns, referred, strict=True)
        )
        known = " AND ".join(f"c.{quote_name(a)} IS NOT NULL" for a in columns)
        rows = self._ask(
            f"SELECT COUNT(*) FROM {child} c WHERE {known}"
            f" AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE {pairs}) LOCK IN SHARE MODE",
            whole,
            least=1,
        )
        return int(rows[0][0])

    # ------------------------------------------------------------ talking

    def _ask(self, sql: str, *columns: Convert, least: int = 0) -> Answer:
        right = "SELECT, INSERT, UPDATE and DELETE on the tables"
        return self._connection.query(sql, *columns, least=least, right=right, patience=_PATIENCE)

    def _change(self, sql: str) -> int:
        self._ask(sql.removesuffix(";"))
        return int(self._ask("SELECT ROW_COUNT()", whole, least=1)[0][0])


def set_by_server(connection: Connection) -> Callable[[str, str], SetByServer]:
    """For `plan_undo`: asks a server which columns of a table it sets itself."""

    def ask(sql: str, *columns: Convert) -> Answer:
        return connection.query(sql, *columns, right="SELECT on the tables", patience=_PATIENCE)

    return lambda database, table: _set_by_server(_extras(ask, database, table))


def _extras(ask: Callable[..., Answer], database: str, table: str) -> dict[str, str]:
    """The columns of a table, and what else the server says of each; none without the table."""
    place = f"TABLE_SCHEMA = {quote_text(database)} AND TABLE_NAME = {quote_text(table)}"
    rows = ask(f"SELECT COLUMN_NAME, EXTRA FROM information_schema.COLUMNS WHERE {place}", text, maybe)
    return {column: (extra or "").upper() for column, extra, *_ in rows}


def _set_by_server(columns: dict[str, str]) -> SetByServer:
    return SetByServer(
        frozenset(c for c, extra in columns.items() if "GENERATED" in extra.replace("DEFAULT_GENERATED", "")),
        frozenset(c for c, extra in columns.items() if "ON UPDATE" in extra) if columns else None,
    )
