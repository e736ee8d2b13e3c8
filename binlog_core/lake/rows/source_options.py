"""Options of the `binlog` data source and of `changes_df`: from text to checked values."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from glob import escape
from typing import Any, Literal, TypedDict, TypeVar, cast

from ..._base.change_columns import LAKE_METADATA
from ..._base.redaction import shown_text
from ..._decode.selection import is_wanted_name
from ..._sources.places import is_server
from ..._tables.full_names import canonical_name, full_name, split_name
from ..._tables.given_names import near
from ..._tables.transcoding import TextErrors
from ...conditions.language import Condition
from ...schema.given import Schema
from ...schema.tokens import is_number
from ...server.address import has_password
from ...splits import DEFAULT_SPLIT_SIZE
from .fit import OnSchemaChange
from .images import Images
from .json_rows import Documents
from .read_options import LogOptions, ReadOptions, Unnamed

Ddl = Literal["ignore", "fail", "rows"]
OnError = Literal["raise", "skip", "rows"]

_UNITS = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
}
_SIZE = re.compile(r"(\d+)\s*([a-z]*)", re.IGNORECASE)
_EPOCHS = 128
_T = TypeVar("_T")


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
    on_error: OnError
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
    xa: Literal["prepared", "committed"]
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
    where, keys, images, unnamed, text_errors, verify_checksum, index
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
    on_error : "raise", "skip" or "rows"
        What to do with a damaged event: raise an error, skip it, or give a row with `_corrupt`.
    start_time, end_time : int or None
        ISO 8601 (UTC if it has no time zone) or a number; events from the end on are not read.
    documents : "json", "variant" or "debezium"
        Without `table`, the type of before and after. Spark's own ``parse_json(after)`` makes the same
        VARIANT, and is faster. "debezium" gives `key` and `value` instead, with Debezium's change events as
        text.
    start_offset : (str, int) or None
        Where reading begins, as ``FILE:POSITION`` of a transaction.
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

    table: str | None = None
    schema: str | Schema | None = field(default=None, repr=False)
    schema_start: str | None = field(default=None, repr=False)
    absent: bool | None = None
    on_error: OnError = "raise"
    documents: Documents = "json"
    start_offset: tuple[str, int] | None = None
    split_size: int | None = DEFAULT_SPLIT_SIZE
    verify_splits: bool = False
    on_schema_change: OnSchemaChange = "fail"
    merge_schema: bool = False
    file_number: int | None = None
    epoch: int = 0
    ddl: Ddl = "ignore"
    xa: Literal["prepared", "committed"] = "prepared"
    push_filters: bool = False
    max_bytes_per_trigger: int | None = None
    server: str | None = None
    password_file: str | None = None
    defaults_file: str | None = None

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
            if key not in _PARSERS:
                raise ValueError(f"option {name!r} is unknown{_OF_DELTA.get(key) or near(name, _KNOWN)}")
            shown, parse = _PARSERS[key]
            try:
                values[_field(shown)] = parse(str(text))
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
        return ReadOptions(
            **common,
            columns={own: tuple(columns)} if own is not None and columns is not None else None,
            on_error="raise" if self.on_error == "raise" else "skip",
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


def _choice(*known: _T) -> Callable[[str], _T]:
    def parse(text: str) -> _T:
        for value in known:
            if text.lower() == str(value).lower():
                return value
        raise ValueError(f"expected one of {', '.join(map(str, known))}")

    return parse


def _bool(text: str) -> bool:
    return _choice("true", "false")(text) == "true"


def _absent(text: str) -> bool | None:
    return None if text.lower() == "auto" else _choice("auto", "true", "false")(text) == "true"


def _plain_address(text: str) -> str:
    """Refuse an address with a password: Spark shows its plan, and writes it to its logs."""
    if is_server(text) and has_password(text):
        raise ValueError(
            "a password would be in Spark's plan: give it as MYSQL_PWD, or a server's in passwordFile or"
            " defaultsFile"
        )
    return text


def _server(text: str) -> str:
    if not is_server(text):
        raise ValueError("expected mysql://user@host:port or mariadb://…")
    return _plain_address(text)


def _names(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("expected names separated by commas")
    return found


def _metadata(text: str) -> tuple[str, ...]:
    if text.lower() == "full":
        return LAKE_METADATA
    if text.lower() == "none":
        return ()
    return tuple(_choice(*LAKE_METADATA)(name) for name in _names(text))


def _time(text: str) -> int:
    if is_number(text):
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("expected ISO 8601, such as 2026-11-21T08:00:00, or seconds since 1970") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return max(int(moment.timestamp()), 0)


def _offset(text: str) -> tuple[str, int]:
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
            return str(found["file"]), int(found["position"])
        except (KeyError, TypeError, ValueError):
            raise ValueError('expected {"file": …, "position": …}') from None
    file, _, position = text.rpartition(":")
    if not file or not is_number(position):
        raise ValueError("expected FILE:POSITION")
    return file, int(position)


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if not found or found[2].lower() not in _UNITS or not int(found[1]):
        raise ValueError("expected a number of bytes above 0, such as 134217728 or 128m")
    return int(found[1]) * _UNITS[found[2].lower()]


def split_size_of(text: str) -> int | None:
    """Bytes of a split from an option's text; None for 0: the whole log.

    Raises
    ------
    ValueError
        The text is not such a number.
    """
    return None if text.strip() == "0" else _size(text)


def _number(most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not is_number(text) or int(text) > most:
            raise ValueError(f"expected a number from 0 to {most}")
        return int(text)

    return parse


_KNOWN: dict[str, Callable[[str], Any]] = {
    "table": str,
    "tables": _names,
    "excludeTables": _names,
    "where": Condition,
    "documents": _choice("json", "variant", "debezium"),
    "images": _choice("both", "after", "keychange"),
    "metadata": _metadata,
    "absent": _absent,
    "startTime": _time,
    "endTime": _time,
    "startOffset": _offset,
    "splitSize": split_size_of,
    "verifySplits": _bool,
    "onError": _choice("raise", "skip", "rows"),
    "onSchemaChange": _choice("fail", "ignore", "rescue"),
    "mergeSchema": _bool,
    "schema": _plain_address,
    "schemaStart": _plain_address,
    "unnamed": _choice("refuse", "positions"),
    "keys": str,
    "keyColumns": _names,
    "fileNumber": _number((1 << 23) - 1),
    "epoch": _number(_EPOCHS - 1),
    "ddl": _choice("ignore", "fail", "rows"),
    "xa": _choice("prepared", "committed"),
    "pushFilters": _bool,
    "maxBytesPerTrigger": _size,
    "textErrors": _choice("raise", "replace"),
    "verifyChecksum": _bool,
    "index": _bool,
    "server": _server,
    "passwordFile": str,
    "defaultsFile": str,
}
_PARSERS = {name.lower(): (name, parse) for name, parse in _KNOWN.items()}
_OF_DELTA = {  # and of Spark's files: what is meant here
    "readchangefeed": ": each read gives the changes, leave it out",
    "startingversion": ": expected startOffset, startTime or a filter on _commit_version",
    "endingversion": ": expected endTime or a filter on _commit_version",
    "startingtimestamp": ": expected startTime",
    "endingtimestamp": ": expected endTime",
    "maxfilespertrigger": ": expected maxBytesPerTrigger",
}


def _field(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), name)


_NAMES = {_field(name) for name in _KNOWN}
assert {"storage_options", *_NAMES} == {f.name for f in fields(cast(Any, SourceOptions))}
assert {"storage_options", *_NAMES} == {"table", *SourceKeywords.__annotations__}
