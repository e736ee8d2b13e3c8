"""The types of the arguments of `binlog_core.open`, for everything that passes options on to it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

from .._base.options import OnError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from .._decode.gtid_selection import GtidArgument
    from .._decode.selection import Columns, LogPlace
    from .._sources.log_files import IndexFile, LogFile, LogFiles
    from ..conditions.language import Condition
    from ..gtids import AnyGtidSet
    from ..limits import Limits
    from ..position import CommitRecord
    from ..schema.definitions import SchemaSource
    from ..schema.given import Schema
    from .log import Log

Path: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Path | Iterable[Path]
Keys: TypeAlias = str | os.PathLike[str] | Mapping[str, bytes] | Mapping[int, bytes]
Op: TypeAlias = Literal["insert", "update", "delete"]


class BinaryFile(Protocol):
    """An open binary file, such as ``open(path, "rb")`` gives."""

    def read(self, size: int = -1, /) -> bytes: ...


One: TypeAlias = "Path | BinaryFile | Buffer | IndexFile | LogFile | LogFiles"
Target: TypeAlias = "One | Sequence[One]"  # the targets of `open`
AnyTarget: TypeAlias = "Log | Target"
Start: TypeAlias = "LogPlace | CommitRecord | AnyGtidSet | Literal['now']"


class StoredOptions(TypedDict, total=False):
    """Options of `open` for getting the bytes."""

    keys: Keys | None
    storage_options: dict[str, Any] | None
    server: Mapping[str, Any] | None
    password_file: Path | None
    defaults_file: Path | None


class StateOptions(StoredOptions, total=False):
    """Options of `open` for reading logs, and for changes besides those of the requested row."""

    schema: SchemaSource | Schema | None
    verify_checksum: bool
    on_error: OnError
    strict: bool
    start: Start | None
    exclude_tables: str | Iterable[str] | None
    gtids: GtidArgument | None
    exclude_gtids: GtidArgument | None
    server_id: int | None
    ops: Op | Iterable[Op] | None
    rows_v0: bool
    mmap: bool | None
    schema_start: SchemaSource | Schema | None
    charset: str | None
    limits: Limits | None
    threads: int
    index: bool


class RangeOptions(StateOptions, total=False):
    """The same options, and `stop`."""

    stop: LogPlace | None


class TableOptions(RangeOptions, total=False):
    """The options for one table that is already named."""

    where: str | Condition | None


class LogOptions(TableOptions, total=False):
    """All options for logs that are read to their end."""

    tables: str | Iterable[str] | None
    columns: Columns | None


class OpenOptions(LogOptions, total=False):
    """All arguments of `open` except the target."""

    follow: bool
