"""A Delta table through deltalake, without a JVM: its state, and all commits to it."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ..._base.own_files import create, remove
from ..._sources.deltas import import_deltalake
from ..._sources.places import local_path
from ...errors import BinlogError
from ...report import BinlogWarning
from ..rows.types import import_pyarrow, plain_type
from .delta_log import FEATURE, LogState, Taken, as_json, commit, exists, implied, state_of
from .partitions import Partition
from .table import App, DataFile
from .vectors import stored

if TYPE_CHECKING:
    import pyarrow as pa

# What a table may have and this module's own commits need not know of, besides what `special` looks at.
_HARMLESS = frozenset((FEATURE, "appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns"))
_HARMLESS |= {"invariants", "timestampNtz", "variantType"}
_CHECKPOINT_INTERVAL = 100
_OPERATION = {"operation": "WRITE", "operationParameters": {"mode": "Append"}, "engineInfo": "binlog_core"}


class DeltaLakeTable:
    """A Delta table, which may not exist yet; seen as it was when opened, or after its own last commit.

    Parameters
    ----------
    uri : str
        The path or URL of its directory.
    options : dict or None
        Storage options for deltalake: see `_sources.deltas.delta_options`.
    partition : tuple of PartitionField
        The columns by which its files are divided, which the files have too.

    Raises
    ------
    MissingExtraError
        deltalake is not installed.
    """

    def __init__(self, uri: str, options: Mapping[str, str] | None = None, partition: Partition = ()) -> None:
        import_deltalake()
        self.uri, self.partition = uri, partition
        self._options = dict(options) if options else None
        self._delta = self._opened()

    def _opened(self) -> Any:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self.uri, storage_options=self._options)
        except TableNotFoundError:
            return None

    @cached_property
    def _delta(self) -> Any:
        """The opened table; None if it does not exist."""
        return self._opened()

    @cached_property
    def _applied(self) -> dict[str, int | None]:
        return {}

    def _committed(self) -> None:
        """Forget the state before a commit: the table is opened again when it is needed."""
        for name in ("_delta", "_applied", "_log", "columns"):
            self.__dict__.pop(name, None)

    # ------------------------------------------------------------ state

    @property
    def exists(self) -> bool:
        """Whether it exists."""
        return self._delta is not None

    @cached_property
    def columns(self) -> pa.Schema:
        """The current schema; empty: the table does not exist yet."""
        pa = import_pyarrow()
        if self._delta is None:
            return pa.schema([])
        return pa.schema([(one.name, plain_type(one.type)) for one in pa.schema(self._delta.schema())])

    @property
    def special(self) -> list[str]:
        """Its features that only Spark can write."""
        if self._delta is None:
            return []
        return self._special + ([] if self._is_divided else ["partitions"])

    @property
    def _divided_by(self) -> list[str]:
        return [one.name for one in self.partition]

    @property
    def _is_divided(self) -> bool:
        """Whether the table has the partition that it is to have."""
        return list(self._delta.metadata().partition_columns) == self._divided_by

    @property
    def _special(self) -> list[str]:
        metadata = self._delta.metadata()
        found = sorted(
            self._features - _HARMLESS if self._has_vectors else self._features & {"columnMapping"}
        )
        if self._has_vectors and local_path(self.uri) is None:
            found.append(f"{FEATURE} in a store")
        fields = self._delta.schema().fields
        found += sorted({name for one in fields for name in one.metadata if name.startswith("delta.")})
        if metadata.configuration.get("delta.appendOnly") == "true":
            found.append("delta.appendOnly")
        found += [name for name in metadata.configuration if name.startswith("delta.constraints.")]
        if metadata.configuration.get("delta.enableChangeDataFeed") == "true":
            found.append("delta.enableChangeDataFeed")
        return found

    @property
    def no_vectors(self) -> list[str]:
        """Why its files can get no deletion vectors: only a directory has commits of our own."""
        if local_path(self.uri) is None:
            return ["it is in a store"]
        if self._delta is None:
            return []
        return sorted((self._features | implied(self._delta.protocol().min_writer_version)) - _HARMLESS)

    @property
    def _features(self) -> set[str]:
        protocol = self._delta.protocol()
        return {*(protocol.reader_features or ()), *(protocol.writer_features or ())}

    @property
    def _has_vectors(self) -> bool:
        """Whether the table has the feature, so that its files may have deletion vectors."""
        return FEATURE in self._features

    @cached_property
    def _log(self) -> LogState:
        """What deltalake does not tell of the table."""
        return state_of(self._files, self.version, self.uri)

    @property
    def _files(self) -> Any:
        """A file system whose paths begin in the table's directory."""
        place = local_path(self.uri)
        if place is None:
            return delta_filesystem(self.uri, self._options)
        from .local_files import LocalFolder

        return LocalFolder(place)

    def applied(self, app_id: str) -> int | None:
        """The last batch that an application has committed; None: none, as far back as the table knows."""
        if self._delta is None:
            return None
        if app_id not in self._applied:  # deltalake reads the log for it
            self._applied[app_id] = self._delta.transaction_version(app_id)
        return self._applied[app_id]

    def reached(self, app_id: str) -> int | None:
        """The last `_commit_version` that an application has committed; None: it is not known."""
        return self.applied(_last_of(app_id))

    def files(self) -> list[DataFile]:
        """Its files, with the bounds of their columns."""
        if self._delta is None:
            return []
        found = []
        log = self._log if self._has_vectors else None
        actions = import_pyarrow().table(self._delta.get_add_actions(flatten=True))
        columns = map(_values, actions.columns)
        for values in zip(*columns, strict=True):
            one = dict(zip(actions.column_names, values, strict=True))
            least, most = (
                {name[4:]: value for name, value in one.items() if name.startswith(kind) and _is_sure(value)}
                for kind in ("min.", "max.")
            )
            rows = -1 if one["num_records"] is None else one["num_records"]
            deleted = None if log is None else log.vector(one["path"], self.uri)
            divided = tuple(one.get(f"partition.{name}") for name in self._divided_by)
            name, size = one["path"], one["size_bytes"]
            found.append(DataFile(name, rows, size, least, most, deleted=deleted, partition=divided))
        return found

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return sum(file.live if file.rows >= 0 else self._counted(file) for file in self.files())

    def _counted(self, file: DataFile) -> int:
        """The number of a file's rows, of which the log does not tell."""
        import pyarrow.parquet as pq

        with self._files.open_input_file(file.name) as source:
            return replace(file, rows=pq.read_metadata(source).num_rows).live

    @property
    def version(self) -> int:
        """The version of the last commit, to which a reader can go back."""
        return int(self._delta.version())

    def last_commit(self) -> dict[str, Any]:
        """The properties of the last commit, with its `timestamp` in milliseconds; {} if there is none."""
        commits: list[dict[str, Any]] = [] if self._delta is None else self._delta.history(1)
        return commits[0] if commits else {}

    def reopened(self) -> DeltaLakeTable:
        """The table, opened again in its current state."""
        return DeltaLakeTable(self.uri, self._options)

    def kept(self, columns: pa.Schema) -> pa.Schema:
        """The columns in the types that the table's format has for them."""
        return columns

    def takes(self, columns: pa.Schema) -> bool:
        """Whether its columns can get these types without a rewrite of its files."""
        return all(
            columns.field(one.name).type == one.type for one in self.columns if one.name in columns.names
        )

    # ------------------------------------------------------------ commits

    def append(self, files: Sequence[DataFile], columns: pa.Schema, app: App | None) -> None:
        """Add files in one commit, which creates the table or adds columns that it lacks."""
        self.exchange(files, (), columns, app, alone=False)

    def exchange(
        self,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        columns: pa.Schema,
        app: App | None,
        properties: dict[str, str] | None = None,
        *,
        changes: bool = True,
        alone: bool = True,
    ) -> None:
        """Add and remove files in one commit; columns that it lacks are added before.

        Parameters
        ----------
        added, removed : sequence of DataFile
            The files.
        columns : pyarrow.Schema
            The columns that the table needs.
        app : (str, int) or None
            The application and its batch, which the commit records.
        properties : dict or None
            Further properties of the commit.
        changes : bool
            False if the table has the same rows as before.
        alone : bool
            Whether to fail if another writer has committed since the table was opened.

        Raises
        ------
        BinlogError
            Another writer has committed, or a file has a null in a column that takes none.
        """
        if self._delta is None:
            return self.replace(added, columns, app, properties)
        from deltalake.transaction import RemoveAction

        self._check_nulls(added)
        if alone and (self._has_vectors or any(one.deleted is not None for one in added)):
            return self._commit_own(added, removed, self._with(columns), app, properties, changes=changes)
        before = self.version
        self.add_columns(columns)
        if alone:
            self._check_alone(before)
        now = int(time.time() * 1000)
        actions = self._added(added, now, changes=changes)
        actions += [
            RemoveAction(one.name, changes, now, size=one.bytes, partition_values=self._values(one))
            for one in removed
        ]
        return self._commit(actions, "append", self._delta.schema(), app, properties, alone=alone)

    def replace(
        self,
        files: Sequence[DataFile],
        columns: pa.Schema,
        app: App | None,
        properties: dict[str, str] | None = None,
    ) -> None:
        """Create the table again, with only these files; parameters as for `exchange`.

        A column that keeps its type keeps its comment, and stays NOT NULL if the files have no null in it.

        Raises
        ------
        BinlogError
            Another writer has committed since the table was opened.
        """
        from deltalake import Schema, TableFeatures
        from deltalake.transaction import create_table_with_add_actions

        actions = self._added(files, int(time.time() * 1000))
        if self._delta is None:
            create_table_with_add_actions(
                self.uri,
                Schema.from_arrow(columns),
                actions,
                partition_by=self._divided_by,
                storage_options=self._options,
                commit_properties=_properties(app, properties),
            )
            return self._committed()
        if not self._is_divided and local_path(self.uri) is None:
            raise BinlogError(
                "a Delta table in a store cannot get another partition: remove it, and copy it again",
                path=self.uri,
            )
        if self._has_vectors or not self._is_divided:
            schema = self._fitting(columns, files)
            return self._commit_own(files, self.files(), schema, app, properties)
        before = self.version
        if _without_zone(columns) and not _without_zone(self.columns):
            self._delta.alter.add_feature(
                TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True
            )
            self._check_alone(before)
        return self._commit(actions, "overwrite", self._fitting(columns, files), app, properties, alone=True)

    def _fitting(self, columns: pa.Schema, files: Sequence[DataFile]) -> Any:
        """The Delta schema of columns that a table gets with only these files."""
        from deltalake import Field, Schema

        known = {one.name: one for one in self._delta.schema().fields}
        fields = []
        for one in Schema.from_arrow(columns).fields:
            own = known.get(one.name)
            if own is not None and own.type == one.type:
                nullable = own.nullable or not all(file.nulls.get(one.name) == 0 for file in files)
                one = Field(one.name, own.type, nullable=nullable, metadata=own.metadata)
            fields.append(one)
        return Schema(fields)

    def _check_nulls(self, files: Sequence[DataFile]) -> None:
        """Refuse files with a null in a column that takes none: deltalake does not look into them."""
        for one in self._delta.schema().fields:
            if not one.nullable and any(file.nulls.get(one.name) for file in files):
                raise BinlogError(
                    "the table's column is NOT NULL, and a row has a null in it",
                    path=self.uri,
                    column=one.name,
                )

    def _lacking(self, columns: pa.Schema) -> list[Any]:
        """The columns that the table lacks, as Delta has them; names are compared without case."""
        from deltalake import Field, Schema

        names = {name.lower() for name in self.columns.names}
        lacking = [one for one in columns if one.name.lower() not in names]
        new = Schema.from_arrow(import_pyarrow().schema(lacking)).fields
        return [Field(one.name, one.type, nullable=True) for one in new]

    def _with(self, columns: pa.Schema) -> Any:
        """The table's schema, with the columns that it lacks."""
        from deltalake import Schema

        return Schema([*self._delta.schema().fields, *self._lacking(columns)])

    def add_columns(self, columns: pa.Schema) -> None:
        """Add missing columns; names are compared without case."""
        if not (lacking := self._lacking(columns)):
            return
        if self._has_vectors and local_path(self.uri) is not None:
            self._commit_own((), (), self._with(columns), None, None)
        else:
            self._delta.alter.add_columns(lacking)
            self._committed()

    def empty(self) -> None:
        """Delete its rows, if it exists."""
        if self._delta is None:
            return
        if self._has_vectors and local_path(self.uri) is not None:
            self._commit_own((), self.files(), self._delta.schema(), None, None)
        else:
            self._delta.delete()
            self._committed()

    def _commit_own(
        self,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        schema: Any,
        app: App | None,
        properties: dict[str, str] | None,
        *,
        changes: bool = True,
    ) -> None:
        """Commit without deltalake, which writes no deletion vectors; fails as `exchange` with `alone`."""
        place, found = local_path(self.uri), self._special or self.no_vectors
        if place is None or found:
            raise BinlogError(
                f"the table has {', '.join(found)}, which only Spark writes here", path=self.uri
            )
        version, log, now = self.version, self._log, int(time.time() * 1000)
        vectors, file_name, content = stored([one.deleted for one in added if one.deleted is not None])
        left = iter(vectors)
        added = [one if one.deleted is None else replace(one, deleted=next(left)) for one in added]
        features = [FEATURE] if vectors else []
        # Only a schema that changes is written: deltalake's text of the same one may be another.
        text, types = None, import_pyarrow().schema(schema)
        if schema != self._delta.schema():
            text = schema.to_json()
            features += ["timestampNtz"] if _without_zone(types) else []
        divided = None if self._is_divided else self._divided_by
        actions: list[dict[str, Any]] = [
            {"commitInfo": {"timestamp": now, **_OPERATION, "readVersion": version, **(properties or {})}}
        ]
        actions += [
            {"txn": {"appId": one, "version": number, "lastUpdated": now}}
            for one, number in _transactions(app)
        ]
        actions += log.upgraded(features, text, divided)
        actions += [{"remove": log.removal(one.name, now, changes=changes)} for one in removed]
        actions += [{"add": _addition(log, one, self._values(one), now, changes=changes)} for one in added]
        try:
            if file_name:
                with create(f"{place}/{file_name}", place) as file:
                    file.write(content)
            commit(place, version + 1, actions)
        except BaseException as error:
            taken = isinstance(error, Taken)
            if file_name and (taken or not exists(place, version + 1)):
                with contextlib.suppress(OSError):
                    remove(f"{place}/{file_name}", place)
            if taken:
                raise self._conflict(str(error)) from error
            raise
        self._committed()
        if (version + 2) % _CHECKPOINT_INTERVAL == 0:
            self._make_checkpoint()

    def _make_checkpoint(self) -> None:
        """Have a checkpoint after a commit, which stays without one."""
        try:
            self._delta.create_checkpoint()
            self._delta.cleanup_metadata()
        except Exception as error:  # of deltalake
            warnings.warn(
                f"the log of {self.uri} gets no checkpoint: {type(error).__name__}: {error}",
                BinlogWarning,
                stacklevel=2,
            )

    def _commit(
        self,
        actions: list[Any],
        mode: str,
        schema: Any,
        app: App | None,
        properties: dict[str, str] | None = None,
        *,
        alone: bool,
    ) -> None:
        from deltalake.exceptions import CommitFailedError

        # deltalake commits after others where it sees no conflict, and in a compaction it sees none: the
        # compacted file would stay beside those that replace its rows.
        committed = _properties(app, properties, max_commit_retries=0 if alone else None)
        try:
            self._delta.create_write_transaction(
                actions, mode, schema, partition_by=self._divided_by, commit_properties=committed
            )
        except CommitFailedError as error:
            if alone:
                raise self._conflict(str(error)) from error
            raise
        self._committed()

    def _added(self, files: Sequence[DataFile], now: int, *, changes: bool = True) -> list[Any]:
        from deltalake.transaction import AddAction

        return [
            AddAction(one.name, one.bytes, self._values(one), now, changes, _statistics(one)) for one in files
        ]

    def _values(self, file: DataFile) -> dict[str, str | None]:
        """The values of a file's partition, as Delta keeps them."""
        return {
            name: None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in zip(self._divided_by, file.partition, strict=True)
        }

    def _check_alone(self, before: int) -> None:
        """Check that there was no other commit in between."""
        if self.version > before + 1:
            raise self._conflict(f"version {self.version}, expected {before + 1}")

    def _conflict(self, detail: str) -> BinlogError:
        return BinlogError(
            "another writer has committed to the table in the meantime: nothing of this commit is in it"
            f" ({detail})",
            path=self.uri,
        )


def delta_filesystem(root: str, options: Mapping[str, str] | None) -> Any:
    """A pyarrow file system whose paths begin at a URL, by deltalake and its options."""
    from deltalake.fs import DeltaStorageHandler

    class Handler(DeltaStorageHandler):
        def open_output_stream(self, path: str, metadata: Any = None) -> Any:
            return import_pyarrow().PythonFile(_Sink(self._handler.open_output_stream(path, metadata)), "w")

    from pyarrow.fs import PyFileSystem

    return PyFileSystem(Handler(root, None if options is None else dict(options)))


class _Sink:
    """A file of deltalake, whose own `write` takes only bytes, not the buffers that Arrow's IPC writes."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        return int(self._file.write(bytes(data)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _last_of(app_id: str) -> str:
    """The name under which a table keeps an application's last place: Delta has one number for each name."""
    return f"{app_id} last _commit_version"


def _properties(
    app: App | None, properties: dict[str, str] | None, max_commit_retries: int | None = None
) -> Any:
    from deltalake import CommitProperties, Transaction

    transactions = [Transaction(name, number) for name, number in _transactions(app)]
    return CommitProperties(
        custom_metadata=properties,
        app_transactions=transactions or None,
        max_commit_retries=max_commit_retries,
    )


def _transactions(app: App | None) -> list[tuple[str, int]]:
    """What a commit records of an application: names and numbers."""
    if app is None:
        return []
    return [(app.id, app.batch), *([] if app.last is None else [(_last_of(app.id), app.last)])]


def _addition(
    log: LogState, file: DataFile, partition: dict[str, str | None], now: int, *, changes: bool
) -> dict[str, Any]:
    """The action that adds a file, which the table may have with other deleted rows."""
    known = log.added.get(unquote(file.name), {})
    found = {
        "partitionValues": partition,
        "modificationTime": now,
        **known,
        "path": known.get("path", file.name),
    }
    found |= {"size": file.bytes, "dataChange": changes, "stats": known.get("stats") or _statistics(file)}
    if file.deleted is not None:
        # The bounds are those of all rows, also of the deleted ones.
        statistics = _exact(json.loads(found["stats"], parse_float=Decimal))
        statistics |= {"numRecords": file.rows, "tightBounds": False}
        found |= {"stats": as_json(statistics), "deletionVector": file.deleted.to_json()}
    return found


def _exact(values: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics without numbers that floating point would round: such a bound would be wrong."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            out[name] = _exact(value)
        elif not isinstance(value, Decimal):
            out[name] = value
        elif value == Decimal(repr(float(value))):
            out[name] = float(value)
    return out


def _statistics(file: DataFile) -> str:
    """Statistics as Delta keeps them."""
    return as_json(
        {
            "numRecords": file.rows,
            "minValues": _bounds(file.least),
            "maxValues": _bounds(file.most),
            "nullCount": dict(file.nulls),
        }
    )


def _bounds(values: Mapping[str, Any]) -> dict[str, Any]:
    """Bounds as Delta keeps them; those of other types may come from another writer, and are left out."""
    return {name: _plain(value) for name, value in values.items() if isinstance(value, str | int | dt.date)}


def _is_sure(bound: Any) -> bool:
    """Whether a bound is as it was written.

    Of an escape in JSON for a character beyond the basic plane, deltalake makes another one, also beyond it;
    this module once wrote such escapes.
    """
    return not isinstance(bound, str) or bound.isascii() or max(bound) < "\U00010000"


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Values of statistics; none are known if they include a date that Python does not have."""
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        return [None] * len(column)
    return values


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def _without_zone(schema: pa.Schema) -> bool:
    """Whether a column is a TIMESTAMP_NTZ, for which a table needs a feature."""
    types = import_pyarrow().types
    return any(types.is_timestamp(one.type) and one.type.tz is None for one in schema)
