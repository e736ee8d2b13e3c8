"""How logs are read: options shared by the plain function, the export, the data source and the mirror."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from ..._base.change_columns import LAKE_METADATA
from ..._base.options import Images, OnError, TextErrors, Unnamed
from ..._walk.track import Rules
from ...conditions.language import Condition
from ..access import Access
from . import option_texts as texts
from .prepared import Prepared

if TYPE_CHECKING:
    from ...conditions.pushed import PushedFilters
    from ...report import Report
    from ...schema.definitions import SchemaSource
    from ...schema.given import Schema
    from ...schema.timeline import DefinitionTimeline

OnErrorOrRows = Literal[OnError, "rows"]


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """What `ReadOptions` and the options of the data source have in common.

    Parameters
    ----------
    tables : tuple of str or None
        Names or glob patterns, as in ``binlog_core.open``; other tables are not decoded.
    exclude_tables : tuple of str or None
        Names or glob patterns of tables among these to leave out.
    where : Condition or None
        Only changes that match.
    schema : dict, str, path, Schema, Timeline or None
        As in ``binlog_core.open``. With "ddl" a plan follows the statements in all logs, and each reader gets
        a `DefinitionTimeline`.
    schema_start : dict, str, path, Schema or None
        For "ddl", the definitions at the beginning of the logs.
    keys : path, dict or None
        The keys of encrypted logs.
    images : "both", "after" or "keychange"
        "after" leaves out the preimage of an update, and takes from it the columns that the postimage lacks.
        "keychange" does the same, but gives the preimage of an update that changes the key as a delete.
    key_columns : tuple of str or None
        The key for "keychange"; None takes the primary key from the log.
    metadata : tuple of str
        More columns about the change: ``_gtid``, ``_file``, ``_position``, ``_server_id`` or ``_xid``.
    start_time, end_time : int or None
        Time of the first event to read, and of the first event not to read; seconds since 1970.
    unnamed : "refuse" or "positions"
        What to do with columns whose names neither the log nor a schema has: raise an error, or name them by
        their places ``c0``, ``c1`` …
    text_errors : "raise" or "replace"
        What to do with bytes that are not valid text in their character set: raise an error, or replace them
        with U+FFFD.
    on_error : "raise", "skip" or "rows"
        What to do with a damaged event: raise an error, skip it, or give a row with `_corrupt`.
    verify_checksum : bool
        Verify each event's CRC32, if the log has them.
    index : bool
        Use indexes beside the logs. Set False if others can write there.
    storage_options : dict or None
        Options for fsspec.
    """

    tables: tuple[str, ...] | None = field(default=None, metadata=texts.given_as(texts.names))
    exclude_tables: tuple[str, ...] | None = field(default=None, metadata=texts.given_as(texts.names))
    where: Condition | None = field(default=None, metadata=texts.given_as(Condition))
    schema: SchemaSource | Schema | DefinitionTimeline | None = field(default=None, repr=False)
    schema_start: SchemaSource | Schema | None = field(default=None, repr=False)
    keys: Any = field(default=None, repr=False, metadata=texts.given_as(str))
    images: Images = field(default="both", metadata=texts.one_of(Images))
    key_columns: tuple[str, ...] | None = field(default=None, metadata=texts.given_as(texts.names))
    metadata: tuple[str, ...] = field(default=(), metadata=texts.given_as(texts.metadata_columns))
    start_time: int | None = field(default=None, metadata=texts.given_as(texts.moment))
    end_time: int | None = field(default=None, metadata=texts.given_as(texts.moment))
    unnamed: Unnamed = field(default="refuse", metadata=texts.one_of(Unnamed))
    text_errors: TextErrors = field(default="raise", metadata=texts.one_of(TextErrors))
    on_error: OnErrorOrRows = field(default="raise", metadata=texts.one_of(OnErrorOrRows))
    verify_checksum: bool = field(default=True, metadata=texts.given_as(texts.boolean))
    index: bool = field(default=True, metadata=texts.given_as(texts.boolean))
    storage_options: dict[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for one in fields(self):
            known = one.metadata.get("values")
            if known is not None and getattr(self, one.name) not in known:
                raise ValueError(f"{one.name}={getattr(self, one.name)!r}: expected {' or '.join(known)}")
        for name in self.metadata:
            if name not in LAKE_METADATA:
                raise ValueError(f"metadata={name!r}: expected one of {', '.join(LAKE_METADATA)}")
        if self.schema_start is not None and not self.follows:
            raise ValueError(
                "schema_start needs schema=ddl: it gives the definitions before the first statement"
            )

    @property
    def follows(self) -> bool:
        """Whether statements in the logs change the definitions."""
        return isinstance(self.schema, str) and self.schema == "ddl"

    @property
    def access(self) -> Access:
        """How logs are opened."""
        return Access(self.keys, self.storage_options)

    def rules(self, report: Report) -> Rules:
        """How the bytes of the logs are read."""
        skips = self.on_error != "raise"
        return Rules(report, verify_checksum=self.verify_checksum, skip_errors=skips)


@dataclass(frozen=True, kw_only=True)
class ReadOptions(LogOptions):
    """How splits are read. It is sent to the workers.

    Parameters
    ----------
    tables, exclude_tables, where, schema, schema_start, keys, images, key_columns, metadata
        What to read: see `LogOptions`.
    start_time, end_time, unnamed, text_errors, verify_checksum, index, storage_options
        From when to when, and how: see `LogOptions`.
    columns : mapping or None
        A dict of table name or pattern to the names of the columns to decode.
    pushed : PushedFilters or None
        Spark's filters, used only without `where`. Rows that do not match them may be left out; the other
        rows keep their numbers.
    absent : bool
        Add `_absent`: the names of the columns that a partial row image lacks, null if it lacks none.
    on_error : "raise" or "skip"
        With "skip", damaged events are counted and skipped.
    statements : bool
        Also give the statements that may change a table's definition or contents.
    refused : tuple of str
        Names, in small letters, that a column of a table may not have, besides those of the change columns
        that are read.
    prepared : mapping of str to tuple of Prepared
        XA transactions and their outcomes, by path. The rows of all others stay as they are logged.
    """

    columns: Mapping[str, tuple[str, ...]] | None = None
    pushed: PushedFilters | None = None
    absent: bool = False
    on_error: OnError = field(default="raise", metadata=texts.one_of(OnError))
    statements: bool = False
    refused: tuple[str, ...] = ()
    prepared: Mapping[str, tuple[Prepared, ...]] = field(default_factory=dict, repr=False)
