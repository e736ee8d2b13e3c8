"""Typed events: ``log.events()`` yields one small frozen dataclass per event.

A module per family, named in MySQL's words. `parse_event` is the way in: it takes an event's header
and body and the format description in force, splits off the post-header by the length that the
description gives (what is longer than we know is stepped over), and hands both to the type's decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._format.cursor import Cursor
from .._format.event_types import ROWS_EVENTS, ROWS_EVENTS_V0, EventType, event_name
from .._format.format_description import FormatDescription
from ..errors import BinlogError, DecodeError
from .base import Event, EventHeader, OpaqueEvent

if TYPE_CHECKING:
    from .control import FormatDescriptionEvent as FormatDescriptionEvent
    from .control import HeartbeatEvent as HeartbeatEvent
    from .control import IncidentEvent as IncidentEvent
    from .control import MariadbBinlogCheckpointEvent as MariadbBinlogCheckpointEvent
    from .control import MariadbStartEncryptionEvent as MariadbStartEncryptionEvent
    from .control import RotateEvent as RotateEvent
    from .control import StopEvent as StopEvent
    from .control import TransactionContextEvent as TransactionContextEvent
    from .control import ViewChangeEvent as ViewChangeEvent
    from .control import XaPrepareEvent as XaPrepareEvent
    from .control import XidEvent as XidEvent
    from .gtid import GtidEvent as GtidEvent
    from .gtid import MariadbGtidEvent as MariadbGtidEvent
    from .gtid import MariadbGtidListEvent as MariadbGtidListEvent
    from .gtid import PreviousGtidsEvent as PreviousGtidsEvent
    from .load import AppendBlockEvent as AppendBlockEvent
    from .load import CreateFileEvent as CreateFileEvent
    from .load import ExecuteLoadQueryEvent as ExecuteLoadQueryEvent
    from .load import FileEvent as FileEvent
    from .load import LoadEvent as LoadEvent
    from .load import SqlEx as SqlEx
    from .query import QueryEvent as QueryEvent
    from .query import QueryStatus as QueryStatus
    from .rows import DUMMY_TABLE_ID as DUMMY_TABLE_ID
    from .rows import RowsEvent as RowsEvent
    from .rows import RowsFragmentEvent as RowsFragmentEvent
    from .rows import RowsQueryEvent as RowsQueryEvent
    from .rows import TableMapEvent as TableMapEvent
    from .rows import TransactionPayloadEvent as TransactionPayloadEvent
    from .user_var import IntvarEvent as IntvarEvent
    from .user_var import RandEvent as RandEvent
    from .user_var import UserVarEvent as UserVarEvent

# A family is loaded with the first of its events: a pass over rows needs two of the six.
_FAMILIES = {
    name: family
    for family, names in {
        "control": (
            "FormatDescriptionEvent HeartbeatEvent IncidentEvent MariadbBinlogCheckpointEvent"
            " MariadbStartEncryptionEvent RotateEvent StopEvent TransactionContextEvent"
            " ViewChangeEvent XaPrepareEvent XidEvent"
        ),
        "gtid": "GtidEvent MariadbGtidEvent MariadbGtidListEvent PreviousGtidsEvent",
        "load": ("AppendBlockEvent CreateFileEvent ExecuteLoadQueryEvent FileEvent LoadEvent SqlEx"),
        "query": "QueryEvent QueryStatus",
        "rows": (
            "DUMMY_TABLE_ID RowsEvent RowsFragmentEvent RowsQueryEvent TableMapEvent TransactionPayloadEvent"
        ),
        "user_var": "IntvarEvent RandEvent UserVarEvent",
    }.items()
    for name in names.split()
}

__all__ = ["Event", "EventHeader", "OpaqueEvent", "parse_event", *_FAMILIES]

if not TYPE_CHECKING:  # to a type checker only the names above are there

    def __getattr__(name: str) -> Any:
        if name in _FAMILIES.values():
            return import_module(f"{__name__}.{name}")
        if (family := _FAMILIES.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{family}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_FAMILIES, *_FAMILIES.values()})


Decoder = Callable[[EventHeader, Cursor, Cursor, FormatDescription], Event]

# Family and function. SLAVE was never written, and IGNORABLE has no content: they stay opaque, as do
# unknown codes.
_DECODERS: dict[int, str] = {
    EventType.START_V3: "control.decode_format_description",
    EventType.QUERY: "query.decode_query",
    EventType.STOP: "control.decode_stop",
    EventType.ROTATE: "control.decode_rotate",
    EventType.INTVAR: "user_var.decode_intvar",
    EventType.LOAD: "load.decode_load",
    EventType.CREATE_FILE: "load.decode_load",
    EventType.APPEND_BLOCK: "load.decode_append_block",
    EventType.EXEC_LOAD: "load.decode_file",
    EventType.DELETE_FILE: "load.decode_file",
    EventType.NEW_LOAD: "load.decode_load",
    EventType.RAND: "user_var.decode_rand",
    EventType.USER_VAR: "user_var.decode_user_var",
    EventType.FORMAT_DESCRIPTION: "control.decode_format_description",
    EventType.XID: "control.decode_xid",
    EventType.BEGIN_LOAD_QUERY: "load.decode_append_block",
    EventType.EXECUTE_LOAD_QUERY: "load.decode_execute_load_query",
    EventType.TABLE_MAP: "rows.decode_table_map",
    EventType.INCIDENT: "control.decode_incident",
    EventType.HEARTBEAT: "control.decode_heartbeat",
    EventType.ROWS_QUERY: "rows.decode_rows_query",
    EventType.GTID: "gtid.decode_gtid",
    EventType.ANONYMOUS_GTID: "gtid.decode_gtid",
    EventType.PREVIOUS_GTIDS: "gtid.decode_previous_gtids",
    EventType.TRANSACTION_CONTEXT: "control.decode_transaction_context",
    EventType.VIEW_CHANGE: "control.decode_view_change",
    EventType.XA_PREPARE: "control.decode_xa_prepare",
    EventType.TRANSACTION_PAYLOAD: "rows.decode_transaction_payload",
    EventType.HEARTBEAT_V2: "control.decode_heartbeat_v2",
    EventType.GTID_TAGGED: "gtid.decode_gtid_tagged",
    EventType.MARIADB_ANNOTATE_ROWS: "rows.decode_rows_query",
    EventType.MARIADB_BINLOG_CHECKPOINT: "control.decode_binlog_checkpoint",
    EventType.MARIADB_GTID: "gtid.decode_mariadb_gtid",
    EventType.MARIADB_GTID_LIST: "gtid.decode_mariadb_gtid_list",
    EventType.MARIADB_START_ENCRYPTION: "control.decode_start_encryption",
    EventType.MARIADB_QUERY_COMPRESSED: "query.decode_query",
    EventType.MARIADB_ROWS_FRAGMENT: "rows.decode_rows_fragment",
} | dict.fromkeys(
    (*ROWS_EVENTS_V0, *ROWS_EVENTS),
    "rows.decode_rows",
)

# Their fixed part is read with the rest, whatever length the log lists: ROTATE's is frozen (and
# absent in v1), a descriptor was read before, MariaDB's GTID fills its own up with optional fields.
_WITHOUT_POST_HEADER = frozenset(
    (
        EventType.START_V3,
        EventType.FORMAT_DESCRIPTION,
        EventType.ROTATE,
        EventType.MARIADB_GTID,
        EventType.MARIADB_ROWS_FRAGMENT,
    )
)
# No server gives them one, so that they can be read where the description does not list them.
_UNLISTED = frozenset(
    (
        EventType.STOP,
        EventType.INTVAR,
        EventType.RAND,
        EventType.USER_VAR,
        EventType.XID,
        EventType.HEARTBEAT,
        EventType.ROWS_QUERY,
        EventType.PREVIOUS_GTIDS,
        EventType.XA_PREPARE,
        EventType.HEARTBEAT_V2,
        EventType.MARIADB_ANNOTATE_ROWS,
    )
)


def parse_event(
    header: EventHeader, body: bytes | memoryview, description: FormatDescription, path: str | None = None
) -> Event:
    """Turn one event into its typed form.

    Parameters
    ----------
    header : EventHeader
        Its common header; `type_code` in today's numbering, `position` our own.
    body : bytes-like, uint8
        All between the header and the checksum. Not copied, but the parts that an event keeps are,
        TRANSACTION_PAYLOAD's payload excepted.
    description : FormatDescription
        In force for this event; for FORMAT_DESCRIPTION and START_V3 the one that they bring.
    path : str or None
        For errors.

    Returns
    -------
    Event
        A subclass for each type; `OpaqueEvent` for types that are unknown or a vendor's own.

    Raises
    ------
    DecodeError
        A length, count or value that is not valid, or a type that the description should list and does
        not; with path, offset and type_code.

    Source: MySQL server documentation, "Binlog Event".
    """
    decode = _decoder_of(header.type_code)
    if decode is None:
        return OpaqueEvent(*header, bytes(body))
    try:
        cur = Cursor(body)
        post = cur.take_slice(_post_header_length(header.type_code, description))
        return decode(header, post, cur, description)
    except BinlogError as error:
        error.path, error.offset, error.type_code = path, header.position, header.type_code
        raise


@cache
def _decoder_of(type_code: int) -> Decoder | None:
    """The function that reads a type's body, or None: the event is opaque."""
    if (place := _DECODERS.get(type_code)) is None:
        return None
    family, _, name = place.partition(".")
    decode: Decoder = getattr(import_module(f"{__name__}.{family}"), name)
    return decode


def _post_header_length(type_code: int, description: FormatDescription) -> int:
    if type_code in _WITHOUT_POST_HEADER:
        return 0
    length = description.post_header_length(type_code)
    if length is None and type_code in _UNLISTED:
        return 0
    if length is None:
        raise DecodeError(
            f"{event_name(type_code)} is beyond the {len(description.post_header_lengths) - 1} event types"
            " that the format description lists"
        )
    if type_code == EventType.CREATE_FILE:
        # LOAD's comes first. v1 has no further one, whatever its artificial descriptor says.
        load_length = description.post_header_length(EventType.LOAD) or 0
        return load_length if description.binlog_version == 1 else load_length + length
    return length
