"""Rows that a foreign key changes (ON DELETE CASCADE …), which not every server logs.

Source: MySQL Reference Manual 9.6, "innodb_native_foreign_keys"; tried on 9.7.4: without it, cascades are in
the log as rows, and with ``enable_cascade_triggers`` so are the rows that their triggers change.
"""

from __future__ import annotations

from .answers import Answer, text
from .connection import LIST_BYTES, Connection, Facts

_NATIVE = "innodb_native_foreign_keys"
_LOGGED_SINCE = (9, 6)  # MySQL
ACTS = ("CASCADE", "SET NULL", "SET DEFAULT")  # the rules that change rows; the same in SQL


def cascades_are_logged(connection: Connection, facts: Facts) -> bool:
    """Whether the rows that a foreign key changes are in the log, if those of the parent are."""
    return (
        not facts.mariadb
        and facts.number >= _LOGGED_SINCE
        and connection.variables([_NATIVE]).get(_NATIVE) != "ON"
    )


def acting(connection: Connection) -> Answer:
    """The foreign keys that change rows, as far as the user sees.

    Returns
    -------
    list of tuple
        Database, name and table of each, database and table of its parent, its rules at DELETE and at UPDATE.

    Raises
    ------
    ServerError
    """
    return connection.query(
        "SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA,"
        " REFERENCED_TABLE_NAME, DELETE_RULE, UPDATE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS"
        f" WHERE DELETE_RULE IN {ACTS} OR UPDATE_RULE IN {ACTS}",
        *[text] * 7,
        most=LIST_BYTES,
        right="SELECT",
    )


def tables_changed_unlogged(connection: Connection, facts: Facts) -> list[tuple[str, str]]:
    """Database and name of the tables that a foreign key changes without logging it, as far as the user sees.

    Raises
    ------
    ServerError
    """
    if cascades_are_logged(connection, facts):
        return []
    return list(dict.fromkeys((database, table) for database, _, table, *_ in acting(connection)))
