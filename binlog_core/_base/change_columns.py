"""The columns about a change: one list for batches, SQL, conditions and lakes, so that names always agree."""

from __future__ import annotations

CHANGE_TYPES = ("insert", "update_preimage", "update_postimage", "delete")  # by image["op"], from 1
OPS = dict(enumerate(CHANGE_TYPES, 1))
INSERT, PREIMAGE, POSTIMAGE, DELETE = OPS  # change_op_t in src/batch/records.pxd

# For batches and SQL; see ``ChangeBatch.export``.
CHANGE_COLUMNS = (
    "_change_type",
    "_commit_timestamp",
    "_timestamp",
    "_server_id",
    "_file",
    "_position",
    "_row",
    "_gtid",
    "_transaction",
    "_xid",
    "_thread_id",
)
DEFAULT_CHANGE_COLUMNS = ("_change_type", "_commit_timestamp", "_position", "_row")

# Names that a condition may use besides the table's columns.
CONDITION_COLUMNS = ("_gtid", "_commit_timestamp", "_server_id", "_change_type", "_thread_id")

# Of the change feeds of lakes, and further ones on demand. `_commit_version` and `_change_ordinal` order the
# changes of several logs: a batch alone does not have them.
LAKE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp", "_change_ordinal")
LAKE_METADATA = ("_gtid", "_file", "_position", "_server_id", "_xid")
ABSENT = "_absent"  # the columns that a row image lacks
# Behind a column's name in a further entry of `_absent`: its new value is not in the log.
CHANGED = " (changed)"
FILE_NUMBER_SHIFT = 40  # of a `_commit_version`: the log's number above, the transaction's position below
