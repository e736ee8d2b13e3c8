"""Binary logs in Spark: the data source and DataFrames, the export, and record batches for anything else.

Importing this needs neither pyspark nor pyarrow.
"""

from ..errors import ApplyStopped
from ..lake.apply.batch import Applied
from ..lake.apply.file_target import IcebergTarget
from ..lake.rows.read_options import ReadOptions
from ..lake.rows.reader import SplitRows, read_split
from ..lake.rows.source_options import SourceOptions
from ..lake.runner import LocalRunner
from ..lake.tables.results import ExportResult, ExportState
from ..lake.tables.split_runs import Progress
from ..lake.tables.writer import WriteLimits
from ..splits import Split, plan_splits
from .applying import apply_changes
from .current import CurrentTable, write_current
from .dataframe import changes_df, primary_key, read_changes, register, splits_df, table_schema
from .export import export_logs
from .merge_target import SparkTarget
from .session import start_session

__all__ = [
    "Applied",
    "ApplyStopped",
    "CurrentTable",
    "ExportResult",
    "ExportState",
    "IcebergTarget",
    "LocalRunner",
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
