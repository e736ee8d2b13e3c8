"""Reports names from the user that are in no log, with similar ones."""

from __future__ import annotations

from collections.abc import Iterable

from .._decode.selection import unmatched
from .._format.event_types import EventType
from .._tables.full_names import full_name
from .._tables.given_names import near
from ..errors import SchemaError
from ..log.log import Log
from .output import NoTableError


def check_tables(log: Log, patterns: Iterable[str], seen: Iterable[str]) -> None:
    """Check that every pattern matches a table of the logs.

    Parameters
    ----------
    log : Log
        Read once more only if a pattern matches none of `seen`; must be readable again.
    patterns : iterable of str
    seen : iterable of str
        Tables found so far.

    Raises
    ------
    SchemaError
        A pattern matches none; the message has similar names.
    """
    known = set(seen)
    left = unmatched(patterns, known)
    if not left:
        return
    known |= table_names(log)
    for pattern in unmatched(left, known):
        raise NoTableError(f"no table {pattern!r} in these logs{near(pattern, known)}")


def table_names(log: Log) -> set[str]:
    """Tables with table maps in the logs, as "database.table", including those outside the range."""
    from ..events import TableMapEvent

    names = set()
    with Log(log.files, log.settings.whole()) as whole:
        for event in whole.events(types={EventType.TABLE_MAP}):
            if isinstance(event, TableMapEvent):
                names.add(full_name(event.database, event.table))
    return names


def check_columns(log: Log, wanted: Iterable[str]) -> None:
    """Check that each of these columns is in some definition, before anything is written.

    Parameters
    ----------
    log : Log
        Opened with the same selection, and without columns.
    wanted : iterable of str

    Raises
    ------
    SchemaError
        A column is not; the message has similar names.
    """
    seen: set[str] = set()
    table = None
    missing = set(wanted)
    for group in log.groups():
        for batch in group.batches:
            table = batch.table.full_name
            seen.update(column.name for column in batch.table.columns)
        if not missing - seen:
            return
    if seen:
        raise unknown_column(SchemaError("", table=table), wanted, seen)


def unknown_column(error: SchemaError, wanted: Iterable[str], known: Iterable[str]) -> SchemaError:
    """The error for a column that no definition has, with similar names."""
    names = sorted(set(known))
    missing = [name for name in wanted if name not in names]
    if not missing:
        return error
    return SchemaError(
        f"no definition has the column {missing[0]!r}{near(missing[0], names)}",
        table=error.table,
        column=missing[0],
    )
