# What the loop says, in words. Included by decode/_rows.pyx.

from decode.loop cimport (
    FAULT_BITMAPS, FAULT_CHECKSUM, FAULT_COLUMN_COUNT, FAULT_EXTRA_INFO, FAULT_GTID, FAULT_LENGTH,
    FAULT_NO_COLUMN_COUNT, FAULT_NO_MEMORY, FAULT_NO_POST_HEADER, FAULT_POSITION, FAULT_QUERY, FAULT_RECORDS,
    FAULT_ROW, FAULT_ROWS, FAULT_TABLE_IDS, FAULT_TABLE_MAP, FAULT_TAGGED_GTID, FAULT_VALUE, RUN_ERROR, RUN_EVENT,
    RUN_GROUP, RUN_MORE, RUN_PAUSE, RUN_STOP, RUN_TABLE,
)
from decode.plan cimport (
    WIRE_BIT, WIRE_COPY, WIRE_DATE, WIRE_DATETIME, WIRE_DATETIME2, WIRE_DECIMAL128, WIRE_DECIMAL256, WIRE_DECIMAL64,
    WIRE_INT24, WIRE_MARIA_DATETIME, WIRE_MARIA_TIME, WIRE_MARIA_TIMESTAMP, WIRE_NOTHING, WIRE_SKIP,
    WIRE_SKIP_VALUE, WIRE_SPAN, WIRE_TIME, WIRE_TIME2, WIRE_TIMESTAMP, WIRE_TIMESTAMP2, WIRE_UINT24, WIRE_WIDEN,
    WIRE_YEAR,
)

# Twin of wire_code_t.
WIRE_OPS = {
    "NOTHING": WIRE_NOTHING, "SKIP": WIRE_SKIP, "SKIP_VALUE": WIRE_SKIP_VALUE, "COPY": WIRE_COPY,
    "INT24": WIRE_INT24, "UINT24": WIRE_UINT24, "WIDEN": WIRE_WIDEN, "BIT": WIRE_BIT, "YEAR": WIRE_YEAR,
    "DATE": WIRE_DATE, "TIME": WIRE_TIME, "DATETIME": WIRE_DATETIME, "TIMESTAMP": WIRE_TIMESTAMP,
    "TIME2": WIRE_TIME2, "DATETIME2": WIRE_DATETIME2, "TIMESTAMP2": WIRE_TIMESTAMP2,
    "MARIA_TIME": WIRE_MARIA_TIME, "MARIA_DATETIME": WIRE_MARIA_DATETIME,
    "MARIA_TIMESTAMP": WIRE_MARIA_TIMESTAMP, "DECIMAL64": WIRE_DECIMAL64,
    "DECIMAL128": WIRE_DECIMAL128, "DECIMAL256": WIRE_DECIMAL256, "SPAN": WIRE_SPAN,
}

# What `run` comes back with.
MORE = RUN_MORE
GROUP = RUN_GROUP
TABLE = RUN_TABLE
EVENT = RUN_EVENT
STOP = RUN_STOP
ERROR = RUN_ERROR
PAUSE = RUN_PAUSE

# What can be wrong with an event (`Decoder.failure`), in words; some have names.
FAULTS = {
    FAULT_NO_MEMORY: "no memory",
    FAULT_CHECKSUM: "wrong checksum",
    FAULT_POSITION: "the event does not end where it says",
    FAULT_LENGTH: "event_length is less than its header",
    FAULT_TABLE_MAP: "table map event too short",
    FAULT_TABLE_IDS: "more table ids than one transaction can have",
    FAULT_ROWS: "rows event too short",
    FAULT_EXTRA_INFO: "extra row info runs past the event",
    FAULT_NO_COLUMN_COUNT: "no column count",
    FAULT_COLUMN_COUNT: "column count is not that of the table map",
    FAULT_BITMAPS: "columns-present bitmaps run past the event",
    FAULT_RECORDS: "more records than Limits.record_bytes allows",
    FAULT_ROW: "row runs past its event",
    FAULT_VALUE: "bytes that no value of this type has",
    FAULT_GTID: "GTID event too short",
    FAULT_TAGGED_GTID: "tagged GTID event cannot be read",
    FAULT_QUERY: "query event too short for its lengths",
    FAULT_NO_POST_HEADER: "the format description lists no post-header length for this event type",
}
NO_MEMORY = FAULT_NO_MEMORY
WRONG_CHECKSUM = FAULT_CHECKSUM
WRONG_POSITION = FAULT_POSITION
WRONG_LENGTH = FAULT_LENGTH
