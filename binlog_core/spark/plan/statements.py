"""The effect of a logged statement on one table."""

from __future__ import annotations

from itertools import chain

from ..._format.statements import changes_rows
from ..._tables.full_names import own_name
from ...errors import SchemaError
from ...schema.table_statements import Kind, read_statement
from ...schema.tokens import SQL_MODE_ANSI_QUOTES, SQL_MODE_NO_BACKSLASH_ESCAPES, tokenize_statements
from ..rows.observers import LoggedStatement

_STRICT = 3 << 21  # STRICT_TRANS_TABLES, STRICT_ALL_TABLES
_QUOTING = SQL_MODE_ANSI_QUOTES | SQL_MODE_NO_BACKSLASH_ESCAPES


def kind_of(statement: LoggedStatement, table: str) -> Kind | None:
    """The effect of a statement on a table; None: it has none."""
    if changes_rows(statement.sql.encode()):
        return "unknown" if _names(statement, table) else None
    read = read_statement(statement.sql, statement.database, statement.sql_mode)
    if read is None or not read.concerns(table):
        return None
    # A server that is not strict cuts and clips values silently. The text alone does not show that, nor the
    # rules by which it is quoted.
    if read.kind == "alter" and (
        statement.sql_mode & _QUOTING or (read.retypes and not statement.sql_mode & _STRICT)
    ):
        return "unknown"
    return read.kind


def _names(statement: LoggedStatement, table: str) -> bool:
    """Whether a statement that was logged instead of its row changes has the table's name in it.

    What triggers and foreign keys do to other tables is not looked for.
    """
    name = own_name(table).lower()
    try:
        tokens = chain.from_iterable(tokenize_statements(statement.sql, statement.sql_mode))
        return any(token.text.lower() == name for token in tokens)
    except SchemaError:
        return True
