"""Notes taken while a split is read: statements between the rows, and places of damage."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from ..._format.event_header import THREAD_SPECIFIC_FLAG
from ..._tables.tables import Table
from ...events import QueryEvent
from ...report import Place, Report
from ...schema.ddl import FLAG_ROLLBACK_ALTER, FLAG_START_ALTER
from ...schema.definitions import Definitions
from ...schema.table_definitions import TableSchema
from ...schema.table_statements import read_statement
from ...schema.tokens import executed_by

_ALTER = re.compile(r"\bALTER\b", re.IGNORECASE)


class LoggedStatement(NamedTuple):
    """A logged statement that may change a table or its contents.

    Parameters
    ----------
    position : int
        The position of its event.
    timestamp : int
        The time of its event, in seconds since 1970 UTC.
    database : str
        The default database.
    sql : str
        The text, in which only those comments are executable that the server executed.
    sql_mode : int
        The server's bit mask, for the rules by which the text is quoted.
    transaction : int
        The position where its transaction begins.
    ordinal : int
        Its number within the transaction, counted together with the row images.
    of_session : bool
        Whether it depends on its session: its table may be a temporary one.
    mariadb : bool or None
        Whether MariaDB wrote it; None if that is not known.
    before : TableSchema or None
        For an ALTER TABLE the definition that it changes; None if it is not known.
    """

    position: int
    timestamp: int
    database: str
    sql: str
    sql_mode: int
    transaction: int
    ordinal: int = 0
    of_session: bool = False
    mariadb: bool | None = None
    before: TableSchema | None = None


class StatementRecorder(Definitions):
    """Stands in for the definitions that follow statements: notes the statements, and passes everything on.

    Parameters
    ----------
    inner : Definitions or None
        The given definitions.
    """

    def __init__(self, inner: Definitions | None) -> None:
        self._inner = inner
        self._seen: list[LoggedStatement] = []

    @property
    def follows(self) -> bool:
        """Statements are handed to `follow`."""
        return True

    @property
    def notes_changes(self) -> bool:
        """A TRUNCATE or a change logged as a statement is handed over too."""
        return True

    def take(self) -> list[LoggedStatement]:
        """The statements since the last call."""
        seen, self._seen = self._seen, []
        return seen

    def complete(self, table: Table, report: Report, *, path: str, offset: int) -> Table:
        """The table with the definition's additions to the log's own metadata."""
        if self._inner is None:
            return table
        return self._inner.complete(table, report, path=path, offset=offset)

    def follow(
        self, event: QueryEvent, report: Report, *, mariadb: bool, path: str, transaction: int
    ) -> None:
        """Note a statement."""
        mode = event.status.sql_mode or 0
        sql = executed_by(mariadb, event.query, mode)
        before = self._before(event, sql)
        if self._inner is not None and self._inner.follows:
            self._inner.follow(event, report, mariadb=mariadb, path=path, transaction=transaction)
        # An ALTER that is only announced, or rolled back, changes nothing.
        if (event.status.gtid_flags3 or 0) & (FLAG_START_ALTER | FLAG_ROLLBACK_ALTER):
            return
        self._seen.append(
            LoggedStatement(
                event.position,
                event.timestamp,
                event.database,
                sql,
                mode,
                transaction,
                of_session=bool(event.flags & THREAD_SPECIFIC_FLAG),
                mariadb=mariadb,
                before=before,
            )
        )

    def _before(self, event: QueryEvent, sql: str) -> TableSchema | None:
        """The definition that an ALTER TABLE changes, if definitions are followed."""
        if self._inner is None or not self._inner.follows or _ALTER.search(sql) is None:
            return None
        found = read_statement(sql, event.database, event.status.sql_mode or 0)
        if found is None or not found.tables:
            return None
        (name, *_), position = found.tables, event.position
        return self._inner.found_by(name, position) or self._inner.found_by(name.lower(), position)


@dataclass
class DamageReport(Report):
    """A report that keeps every place of a skipped event, not only the first."""

    damaged: list[Place] = field(default_factory=list)

    def add(
        self,
        kind: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        table: str | None = None,
        column: str | None = None,
        detail: str | None = None,
        count: int = 1,
    ) -> None:
        if kind == "skipped_events" and count:
            self.damaged.append(Place(path, offset, table, column, detail))
        super().add(kind, path=path, offset=offset, table=table, column=column, detail=detail, count=count)

    def take_damaged(self) -> list[Place]:
        """The places since the last call."""
        damaged, self.damaged = self.damaged, []
        return damaged
