"""MySQL and MariaDB binary logs as columns: NumPy structured arrays, Arrow, pandas, Spark.

>>> import binlog_core
>>> with binlog_core.open("mysql-bin.000042") as log:       # doctest: +SKIP
...     for change in log.rows():
...         print(change.op, change.table, change.after)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _core as _core  # fails early if it is not built
from .schema import asked as _asked

if TYPE_CHECKING:
    from . import archive as archive
    from . import conditions as conditions
    from . import dataset as dataset
    from . import duckdb as duckdb
    from . import events as events
    from . import history as history
    from . import inspect as inspect
    from . import mirror as mirror
    from . import replay as replay
    from . import schema as schema
    from . import server as server
    from . import spark as spark
    from . import splits as splits
    from . import transactions as transactions
    from ._core._values import RowChange as RowChange
    from ._decode.group import Group as Group
    from ._format.event_types import EventType as EventType
    from ._format.format_description import FormatDescription as FormatDescription
    from ._sources.log_files import IndexFile as IndexFile
    from ._tables.column_types import Kind as Kind
    from ._tables.tables import Column as Column
    from ._tables.tables import Table as Table
    from ._walk.track import Tail as Tail
    from .batch.change_batch import OPS as OPS
    from .batch.change_batch import OUTCOMES as OUTCOMES
    from .batch.change_batch import ChangeBatch as ChangeBatch
    from .conditions.language import Condition as Condition
    from .errors import ApplyStopped as ApplyStopped
    from .errors import ArchiveError as ArchiveError
    from .errors import AuthenticationError as AuthenticationError
    from .errors import BinlogError as BinlogError
    from .errors import ChecksumError as ChecksumError
    from .errors import CommitInDoubtError as CommitInDoubtError
    from .errors import ConditionError as ConditionError
    from .errors import CopyNeeded as CopyNeeded
    from .errors import DecodeError as DecodeError
    from .errors import DecompressionError as DecompressionError
    from .errors import DivergedError as DivergedError
    from .errors import EncryptionError as EncryptionError
    from .errors import FormatError as FormatError
    from .errors import GtidError as GtidError
    from .errors import IdentityError as IdentityError
    from .errors import MirrorError as MirrorError
    from .errors import MissingExtraError as MissingExtraError
    from .errors import MissingFileError as MissingFileError
    from .errors import NotABinlogError as NotABinlogError
    from .errors import OtherHistory as OtherHistory
    from .errors import PositionError as PositionError
    from .errors import PreparedBeforeError as PreparedBeforeError
    from .errors import PrivilegeError as PrivilegeError
    from .errors import ProtocolError as ProtocolError
    from .errors import PurgedError as PurgedError
    from .errors import SchemaError as SchemaError
    from .errors import ServerError as ServerError
    from .errors import StrictError as StrictError
    from .errors import TruncatedError as TruncatedError
    from .errors import UnreachableError as UnreachableError
    from .errors import UnsafeServerError as UnsafeServerError
    from .gtids import Gtid as Gtid
    from .gtids import GtidSet as GtidSet
    from .gtids import MariadbGtid as MariadbGtid
    from .gtids import MariadbGtidSet as MariadbGtidSet
    from .limits import Limits as Limits
    from .log.batches import Batches as Batches
    from .log.log import Log as Log
    from .log.opening import open as open
    from .log.passes import Pass as Pass
    from .position import CommitRecord as CommitRecord
    from .position import Position as Position
    from .report import BinlogWarning as BinlogWarning
    from .report import Report as Report
    from .scans.read_table import read_table as read_table
    from .versions import show_versions as show_versions

    __version__: str

# Everything is loaded when it is first used, so that an import is cheap and needs no extra.
_MODULES = frozenset(
    [
        "archive",
        "arrow",
        "batch",
        "batches",
        "conditions",
        "dataset",
        "duckdb",
        "errors",
        "events",
        "gtids",
        "history",
        "index",
        "inspect",
        "limits",
        "log",
        "mirror",
        "passes",
        "position",
        "replay",
        "report",
        "schema",
        "server",
        "spark",
        "splits",
        "transactions",
        "versions",
    ]
)
_HOMES = {
    name: home
    for home, names in {
        "_core._values": "RowChange",
        "_decode.group": "Group",
        "_format.event_types": "EventType",
        "_format.format_description": "FormatDescription",
        "log.opening": "open",
        "scans.read_table": "read_table",
        "_sources.log_files": "IndexFile",
        "_tables.column_types": "Kind",
        "_tables.tables": "Column Table",
        "_walk.track": "Tail",
        "batch.change_batch": "OPS OUTCOMES ChangeBatch",
        "log.batches": "Batches",
        "conditions.language": "Condition",
        "errors": (
            "ApplyStopped ArchiveError AuthenticationError BinlogError ChecksumError CommitInDoubtError"
            " ConditionError CopyNeeded DecodeError DecompressionError DivergedError EncryptionError"
            " FormatError GtidError IdentityError MirrorError MissingExtraError MissingFileError"
            " NotABinlogError OtherHistory PositionError PreparedBeforeError PrivilegeError ProtocolError"
            " PurgedError SchemaError ServerError StrictError TruncatedError UnreachableError"
            " UnsafeServerError"
        ),
        "gtids": "Gtid GtidSet MariadbGtid MariadbGtidSet",
        "limits": "Limits",
        "log.log": "Log",
        "log.passes": "Pass",
        "position": "CommitRecord Position",
        "report": "BinlogWarning Report",
        "versions": "show_versions",
    }.items()
    for name in names.split()
}

__all__ = sorted(_HOMES)


def _tables_of(url: str) -> Any:
    from .server.definitions import tables_of

    return tables_of(url)


_asked.tables_of = _tables_of  # schemas stand below servers


if not TYPE_CHECKING:  # to a type checker only the names above are there

    def __getattr__(name: str) -> Any:
        if (home := _HOMES.get(name)) is not None:
            found = getattr(import_module(f"{__name__}.{home}"), name)
        elif name in _MODULES:
            found = import_module(f"{__name__}.{name}")
        elif name == "__version__":
            from importlib.metadata import version

            found = version("binlog_core")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES, "__version__"})
