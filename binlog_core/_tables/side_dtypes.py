"""dtypes of the arrays that the decoding loop gathers beside the records of a table."""

import numpy as np

# One transaction that rows of a group belong to; filled in the decoding loop.
# Twin of transaction_t in src/batch/records.pxd.
TRANSACTION_DTYPE = np.dtype(
    [
        ("begin_position", "<u8"),  # of the transaction's first event (GTID, BEGIN, XA START)
        ("end_position", "<u8"),  # first byte after its last event; 0: not seen yet
        ("timestamp", "<u4"),  # header of the first event, seconds since 1970 UTC
        ("commit_time", "<i8"),  # microseconds since 1970 UTC, -1 unknown
        ("gtid_kind", "u1"),  # 0 none or anonymous, 1 MySQL, 2 MariaDB
        ("uuid", "u1", (16,)),  # MySQL: source UUID
        ("domain_id", "<u4"),  # MariaDB
        ("server_id", "<u4"),  # of the first event
        ("sequence_number", "<u8"),  # MySQL: GNO; MariaDB: seq_no
        ("tag", "S32"),  # MySQL 8.3+; empty: none
        ("xid", "<u8"),
        ("outcome", "u1"),  # see Outcome
        ("thread_id", "<u4"),  # of the connection; 0: unknown
    ]
)

# An invalid date or time (zero, partial, year 0): its record holds NaT with the NULL bit clear, and
# this list holds the fields that the log has. Twin of invalid_date_t in src/batch/records.pxd.
INVALID_DATE_DTYPE = np.dtype(
    [
        ("record", "<u4"),
        ("column", "<u2"),  # Column.index
        ("year", "<u2"),
        ("month", "u1"),
        ("day", "u1"),
        ("hour", "u1"),
        ("minute", "u1"),
        ("second", "u1"),
        ("microsecond", "<u4"),
    ]
)

# Consecutive GTIDs of one source. Twin of gtid_run_t in src/batch/records.pxd.
# uuid and tag are arrays of bytes: "S" would drop NULs at the end.
GTID_RUN_DTYPE = np.dtype(
    [
        ("kind", "u1"),
        ("uuid", "V16"),
        ("tag", "V32"),
        ("domain_id", "<u4"),
        ("server_id", "<u4"),
        ("first", "<u8"),
        ("last", "<u8"),
    ]
)

# Twin of json_diff_t in src/batch/records.pxd.
# A JSON value that a partial update logged as a list of diffs (its span holds them).
JSON_DIFF_DTYPE = np.dtype([("record", "<u4"), ("column", "<u2")])
