"""Binary logs into Spark: splits, record batches for any road into it, and the export to Parquet.

Importing this needs neither pyspark nor pyarrow.
"""

from .export import Progress, export_logs
from .parquet import WriteLimits
from .read import ReadOptions, SplitReader, read_split
from .results import ExportResult
from .splits import Split, plan_splits

__all__ = [
    "ExportResult",
    "Progress",
    "ReadOptions",
    "Split",
    "SplitReader",
    "WriteLimits",
    "export_logs",
    "plan_splits",
    "read_split",
]
