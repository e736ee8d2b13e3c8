"""Undo on a server: compares every row with the state after the change, and undoes all in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..errors import BinlogError, ServerError
from ..server.answers import Answer, Convert, maybe, text, whole
from .literals import quote_name, quote_text
from .script_lines import SESSION
from .undo import UndoPlan
from .undo_rows import UndoRow

if TYPE_CHECKING:
    from ..server.connection import Connection

# A duplicate key, a value that the column no longer takes, a CHECK that fails, a trigger that refuses.
_CONFLICTS = frozenset((1062, 1586, 1048, 1264, 1265, 1292, 1364, 1366, 1406, 3819, 4025, 1644))
_STRICT = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"


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

    Attributes
    ----------
    notes : list of str
        What else you should know before you execute the plan: triggers that will run.

    Raises
    ------
    ServerError
        The server refuses a query.
    """

    def __init__(self, plan: UndoPlan, connection: Connection, *, by_column: bool = False) -> None:
        self.plan, self._connection, self._by_column = plan, connection, by_column
        self.notes: list[str] = []
        for statement in SESSION:
            self._ask(statement.removesuffix(";"))
        self._ask(_STRICT)
        self._ask("SET SESSION innodb_lock_wait_timeout = 5")
        self._columns: dict[str, dict[str, str]] = {}  # by table: names, and what else is known about them
        self._with_triggers: set[str] = set()
        self._look_at_tables()
        for row in plan.rows:
            if row.state != "refused" and (names := row.enum_zeros()):
                row.refuse(
                    f"it had an invalid value (index 0) in the ENUM column {', '.join(names)}, which is not"
                    " written in strict mode; a script made without a server writes it"
                )

    # ------------------------------------------------------------ looking

    def check(self) -> None:
        """Compare without changing anything: rows that are not as the change left them are marked.

        Later changes in the logs do not matter then; only the row on the server counts.
        """
        self._ask("START TRANSACTION READ ONLY")
        try:
            for row in self._candidates():
                self._compare(row)
        finally:
            self._ask("ROLLBACK")

    def execute(self) -> None:
        """Compare, and undo the rows that are as the change left them, all in one transaction.

        Raises
        ------
        BinlogError
            A table's engine has no transactions, other rows would refer to rows that no longer exist, a
            trigger gave a row other values, or the server refuses. Nothing is changed then.
        """
        self._ask("START TRANSACTION")
        try:
            keys = list(self._foreign_keys())
            dangling = [self._dangling(key) for key in keys]
            for row in self._candidates():
                if row.after is None and row.plan.key is None:
                    self._compare(row)
            todo = list(self._candidates())
            while todo:
                again = [row for row in todo if not self._undo(row)]
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
            self._ask("COMMIT")
        except BaseException:
            self._connection.close()  # the server rolls back
            for row in self.plan.rows:
                if row.state == "done":
                    row.state = "ready"
            raise

    def _check_triggers(self) -> None:
        """Raise an error if a row of a table with triggers is not as it was."""
        for row in self.plan.rows:
            if row.state != "done" or row.before is None or row.table not in self._with_triggers:
                continue
            restored = row.condition_of(row.before, without=self._columns_that(row, _is_made))
            if not self._ask(f"SELECT 1 FROM {row.plan.name} WHERE {_limited(restored)}"):
                raise BinlogError(
                    f"a trigger gave the row {row.key} other values than it had: nothing was changed",
                    table=row.table,
                )

    def _candidates(self) -> Iterator[UndoRow]:
        """Rows that the log describes completely; the server shows whether they were changed since."""
        for row in self.plan.rows:
            if row.state in ("ready", "changed since"):
                yield row

    def _undo(self, row: UndoRow) -> bool:
        """Undo a row; False if the server refused it, maybe because of another row that is yet to undo."""
        row.columns = None
        try:
            count = self._change(self._statement(row))
            if not count and self._is_in_parts(row):
                count = self._change(self._statement(row))
        except ServerError as error:
            if error.code not in _CONFLICTS:
                raise
            row.state, row.why = "conflict", f"the server refused it: {error.message}"
            return False
        if count:
            row.state, row.why = "done", ""
        else:
            self._differs(row)
        return True

    def _statement(self, row: UndoRow) -> str:
        return row.statement(self._columns_that(row, _is_made))

    def _is_in_parts(self, row: UndoRow) -> bool:
        """Set back only the changed columns of a row from now on; False if that is not possible."""
        if self._by_column:
            others = self._columns_that(row, lambda extra: _is_made(extra) or _is_touched(extra))
            row.columns = row.changed_columns(others)
        return row.columns is not None

    def _columns_that(self, row: UndoRow, test: Callable[[str], bool]) -> frozenset[str]:
        return frozenset(name for name, extra in self._columns.get(row.table, {}).items() if test(extra))

    def _compare(self, row: UndoRow) -> None:
        row.columns = None
        if row.after is not None:
            found = self._ask(f"SELECT 1 FROM {row.plan.name} WHERE {_limited(row.condition())}")
            if not found and self._is_in_parts(row):
                found = self._ask(f"SELECT 1 FROM {row.plan.name} WHERE {_limited(row.condition())}")
            if found:
                row.state, row.why = "ready", ""
            else:
                self._differs(row)
            return
        assert row.before is not None
        key = row.plan.key_condition(row.before)
        if key is None:
            equal = " AND ".join(condition for _, condition in row.plan.comparisons(row.before))
            if self._ask(f"SELECT 1 FROM {row.plan.name} WHERE {equal} LIMIT 1"):
                row.state = "conflict"
                row.why = "an equal row exists; without a key it is not known whether it is this one"
                return
        elif self._ask(f"SELECT 1 FROM {row.plan.name} WHERE {key}"):
            if not self._moves_away(row):
                self._mark(row, "a row with its key exists")
            return
        row.state, row.why = "ready", ""

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
            self._mark(row, "the row does not exist")
            return
        compared = row.plan.comparisons(row.after)
        asked = ", ".join(f"({condition})" for _, condition in compared)
        found = self._ask(f"SELECT {asked} FROM {row.plan.name} WHERE {key}", *[maybe] * len(compared))
        if not found:
            self._mark(row, "it is gone")
            return
        names = [name for (name, _), same in zip(compared, found[0], strict=False) if same != "1"]
        self._mark(row, f"other values in {', '.join(names)}" if names else "it has changed since")

    def _mark(self, row: UndoRow, found: str) -> None:
        who = row.why if row.state == "changed since" and row.why.startswith("by ") else ""
        row.state = "changed since"
        row.why = f"{found}, changed {who}" if who else f"{found}; these logs do not show by whom"

    # ------------------------------------------------------------ tables

    def _look_at_tables(self) -> None:
        tables = list(dict.fromkeys(row.table for row in self.plan.rows))
        plans = {row.table: row.plan for row in self.plan.rows}
        for name in tables:
            database, its = quote_text(plans[name].database), quote_text(plans[name].table.name)
            place = f"TABLE_SCHEMA = {database} AND TABLE_NAME = {its}"
            sql = f"SELECT COLUMN_NAME, EXTRA FROM information_schema.COLUMNS WHERE {place}"
            rows = self._ask(sql, text, maybe)
            self._columns[name] = {column: (extra or "").upper() for column, extra, *_ in rows}
            reason = None
            if not rows:
                reason = "the server does not have the table"
            elif missing := [c.name for c in plans[name].columns if c.name not in self._columns[name]]:
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
        return self._connection.query(sql, *columns, least=least, right=right)

    def _change(self, sql: str) -> int:
        self._ask(sql.removesuffix(";"))
        return int(self._ask("SELECT ROW_COUNT()", whole, least=1)[0][0])


def _limited(condition: str) -> str:
    return condition if condition.endswith(" LIMIT 1") else f"{condition} LIMIT 1"


def _is_made(extra: str) -> bool:
    """Whether the server generates the values of a column."""
    return "GENERATED" in extra.replace("DEFAULT_GENERATED", "")


def _is_touched(extra: str) -> bool:
    """Whether each change of a row sets a column to the time of the change."""
    return "ON UPDATE" in extra
