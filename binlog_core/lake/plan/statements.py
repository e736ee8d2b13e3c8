"""The effect of a logged statement on one table."""

from __future__ import annotations

from ..._format.statements import changes_rows
from ..._tables.full_names import own_name
from ...errors import SchemaError
from ...schema.alter_table import Alteration
from ...schema.create_table import Dialect
from ...schema.table_statements import Kind, TableStatement, read_statement, words_of_change
from ...schema.tokens import (
    SQL_MODE_ANSI_QUOTES,
    SQL_MODE_NO_BACKSLASH_ESCAPES,
    SQL_MODE_REAL_AS_FLOAT,
    TokenReader,
    tokenize_statements,
)
from ..rows.observers import LoggedStatement

_STRICT = 3 << 21  # STRICT_TRANS_TABLES, STRICT_ALL_TABLES
_QUOTING = SQL_MODE_ANSI_QUOTES | SQL_MODE_NO_BACKSLASH_ESCAPES
# The modes under which an ALTER does to rows what its text says. Others change values (such as
# PAD_CHAR_TO_FULL_LENGTH, EMPTY_STRING_IS_NULL) or the meaning of types (ORACLE, MAXDB), or are not known:
# MySQL and MariaDB give the bits from 32 on different meanings.
_HARMLESS = _STRICT | sum(
    1 << bit
    for bit in (
        *(1, 3, 4, 5, 6, 7),  # PIPES_AS_CONCAT, IGNORE_SPACE, IGNORE_BAD_TABLE_OPTIONS, ONLY_FULL_GROUP_BY,
        # NO_UNSIGNED_SUBTRACTION, NO_DIR_IN_CREATE
        *(18, 19),  # ANSI, which has bits of its own for its parts; NO_AUTO_VALUE_ON_ZERO
        *(23, 24, 25, 26, 27),  # NO_ZERO_IN_DATE, NO_ZERO_DATE, ALLOW_INVALID_DATES,
        # ERROR_FOR_DIVISION_BY_ZERO, TRADITIONAL
        *(28, 29, 30),  # NO_AUTO_CREATE_USER, HIGH_NOT_PRECEDENCE, NO_ENGINE_SUBSTITUTION
    )
)


def kind_of(statement: LoggedStatement, table: str) -> Kind | None:
    """The effect of a statement on a table; None: it has none."""
    if is_change(statement):
        words = words_of_change(statement.sql, statement.sql_mode)
        return "unknown" if words is None or own_name(table).lower() in words else None
    read = read_statement(statement.sql, statement.database, statement.sql_mode)
    if read is None or not read.concerns(table):
        return None
    if statement.of_session and read.kind in ("alter", "truncate"):
        return "unknown"  # a temporary table may hide the one of this name
    if read.kind == "alter" and not (_means_what_it_says(statement) and _is_followed(statement, read)):
        return "unknown"
    return read.kind


def is_change(statement: LoggedStatement) -> bool:
    """Whether it changes rows, and the log has it instead of the rows."""
    return changes_rows(statement.sql.encode("utf-8", "surrogateescape"))


def _means_what_it_says(statement: LoggedStatement) -> bool:
    """Whether the text of an ALTER has its usual meaning in its session's ``sql_mode``."""
    mode, sql = statement.sql_mode, statement.sql
    if mode & _QUOTING and ('"' in sql or "\\" in sql):
        return False
    if mode & SQL_MODE_REAL_AS_FLOAT and "real" in sql.lower():
        return False
    return not mode & ~(_HARMLESS | _QUOTING | SQL_MODE_REAL_AS_FLOAT)


def _is_followed(statement: LoggedStatement, read: TableStatement) -> bool:
    """Whether an ALTER changes only values of which its text says so.

    A server that is not strict cuts and clips what it converts. Any server computes generated columns again.
    """
    strict, before = bool(statement.sql_mode & _STRICT), statement.before
    if before is None:  # also a new primary key converts: NULL to a value
        return not read.retypes and (strict or "primary" not in statement.sql.lower())
    try:
        reader = TokenReader(next(tokenize_statements(statement.sql, statement.sql_mode), ()))
        reader.table_verb()
        reader.accept("TABLE")
        reader.accept("IF", "EXISTS")
        reader.qualified_name("")
        if reader.accept("WAIT"):
            reader.number()
        reader.accept("NOWAIT")
        alteration = Alteration(before, Dialect(statement.mariadb, statement.sql_mode))
        alteration.read(reader, statement.database)
        computed = any(column.generated for column in before.columns)
        return (alteration.keeps_computed or not computed) and (strict or alteration.keeps_types)
    except SchemaError:
        return False
