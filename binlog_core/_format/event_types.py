"""Codes and names of event types, as MySQL and MariaDB number and print them.

Twin of ``event_type_t`` in src/wire/codes.pxd. Codes 30 to 42 are MySQL's, 160 to 172 MariaDB's;
1 to 29 are common to both.

Source: MySQL server documentation, "Binlog Event"; ``binlog_event.h``; MariaDB ``log_event.h``.
"""

from __future__ import annotations

from enum import IntEnum


class EventType(IntEnum):
    """Type code of an event in today's numbering."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIADB_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIADB_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIADB_WRITE_ROWS_COMPRESSED = 169
    MARIADB_UPDATE_ROWS_COMPRESSED = 170
    MARIADB_DELETE_ROWS_COMPRESSED = 171
    MARIADB_ROWS_FRAGMENT = 172


DESCRIPTORS = frozenset((EventType.FORMAT_DESCRIPTION, EventType.START_V3))
# A transaction begins with one of these if the log has GTIDs.
GTID_EVENTS = frozenset(
    (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID)
)
ROWS_EVENTS_V0 = range(EventType.PRE_GA_WRITE_ROWS, EventType.PRE_GA_DELETE_ROWS + 1)
COMPRESSED_ROWS_EVENTS = range(
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1, EventType.MARIADB_DELETE_ROWS_COMPRESSED + 1
)
# Of versions 1 and 2, plain, partial or compressed.
ROWS_EVENTS = frozenset(
    (
        *range(EventType.WRITE_ROWS_V1, EventType.DELETE_ROWS_V1 + 1),
        *range(EventType.WRITE_ROWS, EventType.DELETE_ROWS + 1),
        EventType.PARTIAL_UPDATE_ROWS,
        *COMPRESSED_ROWS_EVENTS,
    )
)


# What SHOW BINLOG EVENTS prints in its column Event_type.
EVENT_NAMES: dict[int, str] = {
    EventType.START_V3: "Start_v3",
    EventType.QUERY: "Query",
    EventType.STOP: "Stop",
    EventType.ROTATE: "Rotate",
    EventType.INTVAR: "Intvar",
    EventType.LOAD: "Load",
    EventType.SLAVE: "Slave",
    EventType.CREATE_FILE: "Create_file",
    EventType.APPEND_BLOCK: "Append_block",
    EventType.EXEC_LOAD: "Exec_load",
    EventType.DELETE_FILE: "Delete_file",
    EventType.NEW_LOAD: "New_load",
    EventType.RAND: "RAND",
    EventType.USER_VAR: "User var",
    EventType.FORMAT_DESCRIPTION: "Format_desc",
    EventType.XID: "Xid",
    EventType.BEGIN_LOAD_QUERY: "Begin_load_query",
    EventType.EXECUTE_LOAD_QUERY: "Execute_load_query",
    EventType.TABLE_MAP: "Table_map",
    EventType.PRE_GA_WRITE_ROWS: "Write_rows_event_old",
    EventType.PRE_GA_UPDATE_ROWS: "Update_rows_event_old",
    EventType.PRE_GA_DELETE_ROWS: "Delete_rows_event_old",
    EventType.WRITE_ROWS_V1: "Write_rows_v1",
    EventType.UPDATE_ROWS_V1: "Update_rows_v1",
    EventType.DELETE_ROWS_V1: "Delete_rows_v1",
    EventType.INCIDENT: "Incident",
    EventType.HEARTBEAT: "Heartbeat",
    EventType.IGNORABLE: "Ignorable",
    EventType.ROWS_QUERY: "Rows_query",
    EventType.WRITE_ROWS: "Write_rows",
    EventType.UPDATE_ROWS: "Update_rows",
    EventType.DELETE_ROWS: "Delete_rows",
    EventType.GTID: "Gtid",
    EventType.ANONYMOUS_GTID: "Anonymous_Gtid",
    EventType.PREVIOUS_GTIDS: "Previous_gtids",
    EventType.TRANSACTION_CONTEXT: "Transaction_context",
    EventType.VIEW_CHANGE: "View_change",
    EventType.XA_PREPARE: "XA_prepare",
    EventType.PARTIAL_UPDATE_ROWS: "Update_rows_partial",
    EventType.TRANSACTION_PAYLOAD: "Transaction_payload",
    EventType.HEARTBEAT_V2: "Heartbeat_v2",
    EventType.GTID_TAGGED: "Gtid_tagged_log_event",
    EventType.MARIADB_ANNOTATE_ROWS: "Annotate_rows",
    EventType.MARIADB_BINLOG_CHECKPOINT: "Binlog_checkpoint",
    EventType.MARIADB_GTID: "Gtid",
    EventType.MARIADB_GTID_LIST: "Gtid_list",
    EventType.MARIADB_START_ENCRYPTION: "Start_encryption",
    EventType.MARIADB_QUERY_COMPRESSED: "Query_compressed",
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1: "Write_rows_compressed_v1",
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1: "Update_rows_compressed_v1",
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1: "Delete_rows_compressed_v1",
    EventType.MARIADB_WRITE_ROWS_COMPRESSED: "Write_rows_compressed",
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED: "Update_rows_compressed",
    EventType.MARIADB_DELETE_ROWS_COMPRESSED: "Delete_rows_compressed",
    EventType.MARIADB_ROWS_FRAGMENT: "Rows_fragment",
}


def event_name(type_code: int) -> str:
    """Name of an event type as SHOW BINLOG EVENTS prints it; "Unknown" for unassigned codes."""
    return EVENT_NAMES.get(type_code, "Unknown")
