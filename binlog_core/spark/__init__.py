"""Binary logs in Spark: the data source and DataFrames, the export, and record batches for anything else.

Importing this needs neither pyspark nor pyarrow.
"""

from ..errors import ApplyStopped
from ..splits import Split, plan_splits
from .apply.batch import Applied
from .apply.file_target import IcebergTarget
from .applying import apply_changes
from .current import CurrentTable, write_current
from .doors.dataframe import changes_df, primary_key, read_changes, register, splits_df, table_schema
from .doors.export import export_logs
from .doors.running import Progress
from .lake.results import ExportResult, ExportState
from .lake.writer import WriteLimits
from .merge_target import SparkTarget
from .options import SourceOptions
from .rows.read_options import ReadOptions
from .rows.reader import SplitRows, read_split
from .session import start_session

__all__ = [
    "Applied",
    "ApplyStopped",
    "CurrentTable",
    "ExportResult",
    "ExportState",
    "IcebergTarget",
    "Progress",
    "ReadOptions",
    "SourceOptions",
    "SparkTarget",
    "Split",
    "SplitRows",
    "WriteLimits",
    "apply_changes",
    "changes_df",
    "export_logs",
    "plan_splits",
    "primary_key",
    "read_changes",
    "read_split",
    "register",
    "splits_df",
    "start_session",
    "table_schema",
    "write_current",
]
