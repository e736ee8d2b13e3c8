"""One line about an event, much as SHOW BINLOG EVENTS has it in its column Info."""

from __future__ import annotations

import dataclasses

from .._base.redaction import shown_statement
from .._tables.full_names import full_name
from . import (
    DUMMY_TABLE_ID,
    Event,
    ExecuteLoadQueryEvent,
    FormatDescriptionEvent,
    GtidEvent,
    IncidentEvent,
    MariadbGtidEvent,
    MariadbGtidListEvent,
    OpaqueEvent,
    PreviousGtidsEvent,
    QueryEvent,
    RotateEvent,
    RowsEvent,
    RowsQueryEvent,
    TableMapEvent,
    TransactionPayloadEvent,
    XaPrepareEvent,
    XidEvent,
)

_STMT_END = 1
_COMMON = frozenset(field.name for field in dataclasses.fields(Event))


class Describer:
    """Describes the events of a log, one after the other: rows events by the table maps before them."""

    def __init__(self) -> None:
        self._tables: dict[int, str] = {}

    def table_of(self, event: Event) -> str | None:
        """The "database.table" that a TABLE_MAP or rows event is about; None of others."""
        if isinstance(event, TableMapEvent):
            self._tables[event.table_id] = full_name(event.database, event.table)
        elif not isinstance(event, RowsEvent):
            if isinstance(event, FormatDescriptionEvent):
                self._tables.clear()  # ids start again with the server
            return None
        return self._tables.get(event.table_id)

    def describe(self, event: Event) -> str:
        """What the event says, on one line."""
        match event:
            case TableMapEvent():
                return f"{self.table_of(event)}: {event.column_count} columns, table_id {event.table_id}"
            case RowsEvent(table_id=table_id) if table_id == DUMMY_TABLE_ID:
                return "end of the statement"
            case RowsEvent():
                table = self.table_of(event) or f"unknown table, table_id {event.table_id}"
                end = ", end of the statement" if event.rows_flags & _STMT_END else ""
                return f"{table}: {len(event.rows):,} bytes of rows{end}"
            case ExecuteLoadQueryEvent():
                return f"{_use(event)}{_statement(event)} (file {event.file_id})"
            case QueryEvent():
                return _use(event) + _statement(event)
            case RowsQueryEvent():
                return "# " + _one_line(shown_statement(event.query))
            case GtidEvent():
                return str(event.gtid) if event.gtid is not None else "anonymous"
            case MariadbGtidEvent():
                return str(event.gtid) + (", standalone" if event.standalone else "")
            case PreviousGtidsEvent():
                return _one_line(str(event.gtid_set))
            case MariadbGtidListEvent():
                return ", ".join(map(str, event.gtids))
            case FormatDescriptionEvent():
                found = event.format
                return (
                    f"server {found.server_version}, binlog version {found.binlog_version}, {found.checksum}"
                )
            case RotateEvent():
                return f"{event.new_log_ident}, position {event.pos}"
            case XidEvent():
                return f"COMMIT, xid {event.xid}"
            case XaPrepareEvent():
                how = "COMMIT ONE PHASE" if event.one_phase else "PREPARE"
                return f"XA {how} x'{event.gtrid.hex()}',x'{event.bqual.hex()}',{event.format_id}"
            case IncidentEvent():
                return f"incident {event.incident}: {_one_line(event.message)}"
            case TransactionPayloadEvent():
                unpacked = f", {event.uncompressed_size:,} unpacked" if event.uncompressed_size else ""
                return f"compressed transaction: {event.payload_size:,} bytes{unpacked}"
            case OpaqueEvent():
                return f"type {event.type_code}, {len(event.body):,} bytes" if event.body else ""
        return self._fields(event)

    def _fields(self, event: Event) -> str:
        told = [field.name for field in dataclasses.fields(event) if field.repr and field.name not in _COMMON]
        values = ((name, getattr(event, name)) for name in told)
        return _one_line(", ".join(f"{name} {_value(value)}" for name, value in values if value is not None))


def _value(value: object) -> str:
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


def _use(event: QueryEvent) -> str:
    return f"use {event.database}; " if event.database else ""


def _statement(event: QueryEvent) -> str:
    return _one_line(shown_statement(event.query, event.status.sql_mode))


def _one_line(text: str) -> str:
    return " ".join(text.split())
