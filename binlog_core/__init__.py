"""MySQL and MariaDB binary logs as columns: NumPy structured arrays, Arrow, pandas, Spark.

>>> import binlog_core
>>> with binlog_core.open("mysql-bin.000042") as log:       # doctest: +SKIP
...     for change in log.rows():
...         print(change.op, change.table, change.after)
"""

from ._core._values import RowChange
from ._decode.group import Group, Tail
from ._format.event_types import EventType
from ._format.format_description import FormatDescription
from ._sources.log_files import IndexFile
from ._tables.tables import Column, Table
from .batch import ChangeBatch
from .errors import (
    BinlogError,
    ChecksumError,
    DecodeError,
    DecompressionError,
    EncryptionError,
    FormatError,
    MissingExtraError,
    NotABinlogError,
    SchemaError,
    StrictError,
    TruncatedError,
)
from .limits import Limits
from .log import Log, open
from .passes import Pass
from .position import Position
from .report import BinlogWarning, Report
from .versions import show_versions

__all__ = [
    "BinlogError",
    "BinlogWarning",
    "ChangeBatch",
    "ChecksumError",
    "Column",
    "DecodeError",
    "DecompressionError",
    "EncryptionError",
    "EventType",
    "FormatDescription",
    "FormatError",
    "Group",
    "IndexFile",
    "Limits",
    "Log",
    "MissingExtraError",
    "NotABinlogError",
    "Pass",
    "Position",
    "Report",
    "RowChange",
    "SchemaError",
    "StrictError",
    "Table",
    "Tail",
    "TruncatedError",
    "open",
    "show_versions",
]
