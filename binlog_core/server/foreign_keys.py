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


def tables_changed_unlogged(connection: Connection, facts: Facts) -> Answer:
    """Database and name of the tables that a foreign key changes without logging it, as far as the user sees.

    Raises
    ------
    ServerError
    """
    if cascades_are_logged(connection, facts):
        return []
    return connection.query(
        "SELECT DISTINCT CONSTRAINT_SCHEMA, TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS"
        f" WHERE DELETE_RULE IN {ACTS} OR UPDATE_RULE IN {ACTS}",
        text,
        text,
        most=LIST_BYTES,
        right="SELECT",
    )
