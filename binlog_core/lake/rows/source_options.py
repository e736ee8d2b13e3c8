"""Options of the `binlog` data source and of `changes_df`: from text to checked values."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from glob import escape
from typing import Any, Literal, TypedDict

from ..._base.options import Images, TextErrors, Unnamed, Xa
from ..._base.redaction import shown_text
from ..._decode.selection import is_wanted_name
from ..._tables.full_names import canonical_name, full_name, split_name
from ..._tables.given_names import near
from ...gtids import AnyGtidSet
from ...schema.given import Schema
from ...splits import DEFAULT_SPLIT_SIZE
from . import option_texts as texts
from .fit import OnSchemaChange
from .json_rows import Documents
from .read_options import LogOptions, OnErrorOrRows, ReadOptions

_EPOCHS, _MOST_FILES = 128, 1 << 23
Ddl = Literal["ignore", "fail", "rows"]


class SourceKeywords(TypedDict, total=False):
    """Options of the source as arguments of Python functions; texts are those of `SourceOptions.parse`."""

    tables: str | Sequence[str] | None
    exclude_tables: str | Sequence[str] | None
    where: str | None
    documents: Documents
    images: Images
    metadata: str | Sequence[str]
    absent: bool | Literal["auto"] | None
    start_time: int | str | dt.datetime | None
    end_time: int | str | dt.datetime | None
    start_offset: str | None
    split_size: int | str
    verify_splits: bool
    on_error: OnErrorOrRows
    on_schema_change: OnSchemaChange
    merge_schema: bool
    schema: str | os.PathLike[str] | None
    schema_start: str | os.PathLike[str] | None
    unnamed: Unnamed
    keys: str | os.PathLike[str] | None
    key_columns: str | Sequence[str] | None
    file_number: int | None
    epoch: int
    ddl: Ddl
    xa: Xa
    push_filters: bool
    max_bytes_per_trigger: int | str | None
    text_errors: TextErrors
    verify_checksum: bool
    index: bool
    server: str | None
    password_file: str | os.PathLike[str] | None
    defaults_file: str | os.PathLike[str] | None
    storage_options: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class SourceOptions(LogOptions):
    """What is read, and how; `parse` makes it. Option names are in camel case; their case is ignored.

    Parameters
    ----------
    table : str or None
        The table, as ``database.table``, for its typed rows; None gives rows of all tables, as JSON.
    tables, exclude_tables : tuple of str or None
        Without `table`, names or glob patterns of tables to read, and of those to leave out; separated by
        commas.
    where, keys, images, unnamed, text_errors, on_error, verify_checksum, index
        See `LogOptions`.
    schema : str or None
        "ddl", a .sql file or a ``mysql://`` URL: see `LogOptions`. With "ddl", planning reads through all
        logs.
    schema_start : str or None
        With "ddl", a .sql file or ``mysql://`` URL with the definitions at the beginning of the first log.
    key_columns : tuple of str or None
        The key for images=keychange, if the log does not have the primary key.
    metadata : tuple of str
        "full", or names separated by commas: `_gtid`, `_file`, `_position`, `_server_id`, `_xid`.
    absent : bool or None
        Whether to add `_absent`, the names of columns that a partial row image lacks. None ("auto") adds it
        if the first rows need it; without it, such columns are null.
    start_time, end_time : int or None
        ISO 8601 (UTC if it has no time zone) or a number; events from the end on are not read.
    documents : "json", "variant" or "debezium"
        Without `table`, the type of before and after. Spark's own ``parse_json(after)`` makes the same
        VARIANT, and is faster. "debezium" gives `key` and `value` instead, with Debezium's change events as
        text.
    start_offset : (str, int), GTID set or None
        Where reading begins, as ``FILE:POSITION`` of a transaction; or GTIDs, to read everything not in them
        (MariaDB: everything behind the last GTID of each domain).
    split_size : int or None
        The most bytes of a split, also with k, m or g; with 0 (here None) a file is one split.
    verify_splits : bool
        Read the event headers of all logs when planning, so that every split is sure to begin at a
        transaction. Otherwise the plan is made from file sizes, and each task finds its first transaction by
        itself; only forged events in a BLOB, with right checksums, could deceive it.
    on_schema_change : "fail", "ignore" or "rescue"
        What to do with columns that the table has and the DataFrame does not: raise an error, leave them out,
        or put them in `_rescued` as JSON.
    merge_schema : bool
        Give the DataFrame the columns of all definitions in the logs, not only of the first.
    file_number : int or None
        The number of the first log in `_commit_version`, if its name has none or a wrong one.
    epoch : int
        0 to 127; logs are ordered after those with a smaller epoch (after a failover, file numbers restart).
    ddl : "ignore", "fail" or "rows"
        What to do with statements that change a table's definition or contents: nothing, raise an error, or
        give a row with `_statement`.
    xa : "prepared" or "committed"
        "prepared" gives rows of XA transactions where they are logged, at XA PREPARE; "committed" gives them
        as of XA COMMIT, and not at all without one.
    push_filters : bool
        Leave out splits by filters on `_commit_version`, and rows by other filters, as `where` does; needs
        Spark's ``spark.sql.python.filterPushdown.enabled=true``.
    max_bytes_per_trigger : int or None
        When streaming, the bytes of logs in a micro-batch, which ends with a transaction.
    server : str or None
        The server, as ``mysql://user@host:port`` without a password. The driver keeps the archive of its logs
        that is read. A stream copies logs as long as it runs; other reads copy what the server has.
    password_file, defaults_file : str or None
        For the server, as for ``binlog_core.open``; otherwise the password is in ``MYSQL_PWD``.
    storage_options : dict or None
        Options ``fs.NAME`` for fsspec.
    """

    table: str | None = field(default=None, metadata=texts.given_as(str))
    schema: str | Schema | None = field(
        default=None, repr=False, metadata=texts.given_as(texts.plain_address)
    )
    schema_start: str | None = field(default=None, repr=False, metadata=texts.given_as(texts.plain_address))
    absent: bool | None = field(default=None, metadata=texts.given_as(texts.absence))
    documents: Documents = field(default="json", metadata=texts.one_of(Documents))
    start_offset: tuple[str, int] | AnyGtidSet | None = field(
        default=None, metadata=texts.given_as(texts.offset)
    )
    split_size: int | None = field(default=DEFAULT_SPLIT_SIZE, metadata=texts.given_as(texts.size_or_none))
    verify_splits: bool = field(default=False, metadata=texts.given_as(texts.boolean))
    on_schema_change: OnSchemaChange = field(default="fail", metadata=texts.one_of(OnSchemaChange))
    merge_schema: bool = field(default=False, metadata=texts.given_as(texts.boolean))
    file_number: int | None = field(default=None, metadata=texts.given_as(texts.number(_MOST_FILES - 1)))
    epoch: int = field(default=0, metadata=texts.given_as(texts.number(_EPOCHS - 1)))
    ddl: Ddl = field(default="ignore", metadata=texts.one_of(Ddl))
    xa: Xa = field(default="prepared", metadata=texts.one_of(Xa))
    push_filters: bool = field(default=False, metadata=texts.given_as(texts.boolean))
    max_bytes_per_trigger: int | None = field(default=None, metadata=texts.given_as(texts.size))
    server: str | None = field(default=None, metadata=texts.given_as(texts.server_address))
    password_file: str | None = field(default=None, metadata=texts.given_as(str))
    defaults_file: str | None = field(default=None, metadata=texts.given_as(str))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table is not None and self.tables is not None:
            raise ValueError("option table and option tables: give only one")
        if self.table is not None and self.exclude_tables is not None:
            raise ValueError("option table and option excludeTables: give only one")
        if self.table is not None:
            object.__setattr__(self, "table", canonical_name(self.table))
        if self.table is not None and not (
            all(names := split_name(self.table)) and full_name(*names) == self.table
        ):
            raise ValueError(
                f"option table={self.table!r}: expected database.table, a name with a dot in backquotes"
            )
        if self.xa == "committed" and (self.start_time is not None or self.end_time is not None):
            raise ValueError("xa=committed cannot be combined with startTime or endTime")
        if self.xa == "committed" and not isinstance(self.start_offset, tuple | None):
            # The GTID of an XA transaction's end tells nothing about the one of its beginning.
            raise ValueError("xa=committed needs startOffset=FILE:POSITION instead of GTIDs")
        if self.table is not None and self.documents != "json":
            raise ValueError(f"documents={self.documents} is for all tables, without option table")
        if self.documents == "debezium" and self.images != "both":
            raise ValueError("documents=debezium and images: the events have both images")
        if self.table is None and (self.images == "keychange" or self.ddl == "rows"):
            raise ValueError("images=keychange and ddl=rows need option table")

    @classmethod
    def of(cls, given: SourceKeywords, *, table: str | None = None) -> SourceOptions:
        """Make it from the arguments of a Python function.

        Raises
        ------
        ValueError
            An option is unknown, or its value is not valid.
        """
        texts = {
            name.replace("_", ""): as_text(value)
            for name, value in {**given, "table": table}.items()
            if value is not None and name != "storage_options"
        }
        return replace(cls.parse(texts), storage_options=given.get("storage_options"))

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Make it from the options of a reader; ``path`` and ``paths`` are ignored.

        Raises
        ------
        ValueError
            An option is unknown, or its value is not valid.
        """
        values: dict[str, Any] = {}
        storage: dict[str, Any] = {}
        for name, text in given.items():
            key = name.lower()
            if key in ("path", "paths") or key.startswith("__"):
                continue
            if key.startswith("fs."):
                storage[name[3:]] = text
                continue
            if key not in _BY_SMALL_NAME:
                raise ValueError(f"option {name!r} is unknown{_OF_DELTA.get(key) or near(name, OPTIONS)}")
            one = OPTIONS[shown := _BY_SMALL_NAME[key]]
            try:
                values[one.name] = one.metadata["parse"](str(text))
            except ValueError as error:
                raise ValueError(f"option {shown}={shown_text(str(text))!r}: {error}") from None
        return cls(**values, storage_options=storage or None)

    def wants(self, table: str) -> bool:
        """Whether rows of a table, by its ``database.table``, are read."""
        if self.table is not None:
            return table == self.table
        return is_wanted_name(table, self.tables, self.exclude_tables)

    def read_options(self, *, columns: Iterable[str] | None = None) -> ReadOptions:
        """How splits are read; a schema file is read here, once.

        Parameters
        ----------
        columns : iterable of str or None
            The columns of `table` to decode.
        """
        own = escape(self.table) if self.table is not None else None
        common = {one.name: getattr(self, one.name) for one in fields(LogOptions)}
        if own is not None:
            common["tables"] = (own,)
        if self.schema is not None and not self.follows:
            common["schema"] = Schema.load(self.schema)
        common["schema_start"] = None  # the plan has it
        common["on_error"] = "raise" if self.on_error == "raise" else "skip"
        return ReadOptions(
            **common,
            columns={own: tuple(columns)} if own is not None and columns is not None else None,
            statements=self.ddl != "ignore",
        )


def paths_of(given: Mapping[str, str]) -> list[str]:
    """The paths that ``load`` was given.

    Raises
    ------
    ValueError
        There are none.
    """
    lowered = {name.lower(): value for name, value in given.items()}
    if "paths" in lowered:
        return [str(path) for path in json.loads(lowered["paths"])]
    if "path" in lowered:
        return [lowered["path"]]
    raise ValueError("no path: load() takes a log, a directory, an index file, a URL or a pattern")


def as_text(value: object) -> str:
    """A Python value of an option as Spark passes it on."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)


_OF_DELTA = {  # and of Spark's files: what is meant here
    "readchangefeed": ": each read gives the changes, leave it out",
    "startingversion": ": expected startOffset, startTime or a filter on _commit_version",
    "endingversion": ": expected endTime or a filter on _commit_version",
    "startingtimestamp": ": expected startTime",
    "endingtimestamp": ": expected endTime",
    "maxfilespertrigger": ": expected maxBytesPerTrigger",
}


def option_name(field_name: str) -> str:
    """The option of a field: ``start_time`` is ``startTime``."""
    return re.sub(r"_(.)", lambda letter: letter[1].upper(), field_name)


OPTIONS = {
    option_name(one.name): one for one in fields(SourceOptions) if "parse" in one.metadata
}  # all but fs.NAME
_BY_SMALL_NAME = {name.lower(): name for name in OPTIONS}
