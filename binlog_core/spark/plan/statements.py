"""The effect of a logged statement on one table."""

from __future__ import annotations

from ..._format.statements import changes_rows
from ..._tables.full_names import own_name
from ...schema.table_statements import Kind, read_statement, words_of_change
from ...schema.tokens import SQL_MODE_ANSI_QUOTES, SQL_MODE_NO_BACKSLASH_ESCAPES
from ..rows.observers import LoggedStatement

_STRICT = 3 << 21  # STRICT_TRANS_TABLES, STRICT_ALL_TABLES
_QUOTING = SQL_MODE_ANSI_QUOTES | SQL_MODE_NO_BACKSLASH_ESCAPES


def kind_of(statement: LoggedStatement, table: str) -> Kind | None:
    """The effect of a statement on a table; None: it has none."""
    if changes_rows(statement.sql.encode()):
        words = words_of_change(statement.sql, statement.sql_mode)
        return "unknown" if words is None or own_name(table).lower() in words else None
    read = read_statement(statement.sql, statement.database, statement.sql_mode)
    if read is None or not read.concerns(table):
        return None
    if statement.of_session and read.kind in ("alter", "truncate"):
        return "unknown"  # a temporary table may hide the one of this name
    # A server that is not strict cuts and clips values silently. The text alone does not show that, nor the
    # rules by which it is quoted.
    if read.kind == "alter" and (
        statement.sql_mode & _QUOTING or (read.retypes and not statement.sql_mode & _STRICT)
    ):
        return "unknown"
    return read.kind
