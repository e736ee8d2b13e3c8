"""Changes that are missing in a server's log: refuses settings that lose them, and warns of the others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator

from .._tables.full_names import full_name
from ..errors import ServerError, UnsafeServerError
from ..report import BinlogWarning
from ..server.answers import maybe, text
from ..server.connection import LIST_BYTES, Connection, Facts
from ..server.start import status_of
from .unlogged import Reach

# Their rows are other tables', or nowhere, and the log has only some of their changes.
_ENGINES_WITHOUT_OWN_ROWS = frozenset(
    ("BLACKHOLE", "CONNECT", "FEDERATED", "MERGE", "MRG_MYISAM", "SPHINX", "SPIDER")
)
_WANTED = {"binlog_format": "ROW", "binlog_row_image": "FULL"}
_UPDATES = ("log_replica_updates", "log_slave_updates")
_JSON = "binlog_row_value_options"
_SYNTAX_ERROR = 1064
_APPLYING = 11  # the column of SHOW REPLICA STATUS that says whether it applies transactions


def check_settings(connection: Connection) -> None:
    """Refuse a server whose log cannot have all changes.

    Raises
    ------
    UnsafeServerError
        A setting loses changes.
    """
    found = connection.variables([*_WANTED, *_UPDATES])
    for name, wanted in _WANTED.items():
        value = found.get(name, wanted).upper()
        if value != wanted:
            raise UnsafeServerError(
                f"{name} is {value}: expected {wanted}; set it in the server's option file and with SET"
                " GLOBAL, and let its clients reconnect",
                path=connection.name,
            )
    for name in _UPDATES:
        if found.get(name) == "OFF" and _replicates(connection):
            raise UnsafeServerError(
                f"{name} is OFF on a replica: what it replicates is not in its log; mirror its primary, or"
                " set it to ON in the replica's option file",
                path=connection.name,
            )


def _replicates(connection: Connection) -> bool:
    """Whether the server replicates from another one, if the user may ask for it."""
    # MariaDB, and MySQL before 5.7, show it to every user; there the other query needs a separate privilege.
    running = connection.query("SHOW GLOBAL STATUS LIKE 'Slave%running'", text, maybe)
    if running:
        return any(value not in ("OFF", "0") for _, value, *_ in running)
    for statement in ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"):
        try:
            rows = connection.query(
                statement, *[maybe] * (_APPLYING + 1), most=LIST_BYTES, right="REPLICATION CLIENT"
            )
        except ServerError as error:
            if error.code != _SYNTAX_ERROR:
                raise
        else:
            return any(row[_APPLYING] == "Yes" for row in rows)
    return False


def check_filters(connection: Connection, databases: Iterable[str]) -> None:
    """Refuse a server that leaves some databases out of its log.

    Raises
    ------
    UnsafeServerError
        It leaves out one of these.
    """
    status = status_of(connection)
    if status is None:
        return
    for name in databases:
        if name in status.ignored or (status.logged and name not in status.logged):
            option = "binlog_ignore_db" if name in status.ignored else "binlog_do_db"
            raise UnsafeServerError(
                f"{option} leaves the database {name} out of the server's log: expected one that is logged",
                path=connection.name,
            )


def warn_of_losses(connection: Connection, reach: Reach, wants: Callable[[str], bool]) -> None:
    """Warn of all that the server's log does not show of tables that are wanted."""
    facts = connection.facts()
    warn_of_cascades(reach, wants)
    warn_of_partial_json(connection)
    for warn in (warn_of_generated_columns, warn_of_engines):
        warn(connection, facts, wants)


def warn_of_cascades(reach: Reach, wants: Callable[[str], bool]) -> None:
    """Warn of tables that a foreign key changes without logging the changes."""
    if reach.logged:
        return
    _warn(
        {one.child for one in reach.cascades},
        wants,
        "foreign keys change rows of {} (ON DELETE, ON UPDATE): the server does not log these changes. After"
        " one the table is copied again, or, beyond --heal, suspect; verify lists the rows",
    )


def logs_computed(facts: Facts) -> bool:
    """Whether a server logs the generated columns of updated rows: MariaDB does not from 11 on."""
    return not facts.mariadb or facts.number < (11,)


def warn_of_generated_columns(connection: Connection, facts: Facts, wants: Callable[[str], bool]) -> None:
    """Warn of tables with columns that the server computes and leaves out of the images of updates."""
    if logs_computed(facts):
        return
    tables = _tables(
        connection,
        "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMNS"
        " WHERE GENERATION_EXPRESSION IS NOT NULL AND GENERATION_EXPRESSION NOT IN ('ROW START', 'ROW END')",
    )
    _warn(
        tables,
        wants,
        "MariaDB from 11 on does not log the generated columns of updated rows: those of {} are left out, and"
        " null in the lake; mirror a server that logs them (MySQL, MariaDB 10.11) to have them",
    )


def warn_of_partial_json(connection: Connection) -> None:
    """Warn of a server that may log changes of JSON documents without the documents."""
    if "PARTIAL_JSON" in connection.variables([_JSON]).get(_JSON, "").upper():
        warnings.warn(
            f"{_JSON}=PARTIAL_JSON: a session with another binlog_row_image than FULL logs changes of JSON"
            " documents without the documents, and each such update leads to a new copy of its table; set"
            f" {_JSON} to ''",
            BinlogWarning,
            stacklevel=2,
        )


def warn_of_engines(connection: Connection, facts: Facts, wants: Callable[[str], bool]) -> None:
    """Warn of tables whose rows are those of other tables, or are not kept."""
    engines = ", ".join(f"'{name}'" for name in sorted(_ENGINES_WITHOUT_OWN_ROWS))
    tables = _tables(
        connection,
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME FROM information_schema.TABLES t"
        f" WHERE TABLE_TYPE = 'BASE TABLE' AND UPPER(ENGINE) IN ({engines})",
    )
    _warn(
        tables,
        wants,
        "{} have no rows of their own (engines such as MERGE, BLACKHOLE, FEDERATED): the server does not log"
        " all changes of what they show, and the tables of a MERGE table lack what is written through it;"
        " leave them out; verify lists the rows",
    )


def _tables(connection: Connection, statement: str) -> Iterator[str]:
    """The tables whose databases and names a statement shows."""
    rows = connection.query(statement, text, text, most=LIST_BYTES, right="SELECT")
    return (full_name(database, table) for database, table, *_ in rows)


def _warn(tables: Iterable[str], wants: Callable[[str], bool], text: str) -> None:
    """Warn of those tables among the server's that are mirrored."""
    if names := sorted(filter(wants, tables)):
        warnings.warn(text.format(", ".join(names)), BinlogWarning, stacklevel=3)
