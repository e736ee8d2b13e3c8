"""A Delta table through deltalake, without a JVM: its state, and all commits to it."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..._sources.deltas import import_deltalake
from ...errors import BinlogError
from ..rows.types import import_pyarrow, plain_type
from .table import App, DataFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset


class DeltaLakeTable:
    """A Delta table, which may not exist yet; seen as it was when opened, or after its own last commit.

    Parameters
    ----------
    uri : str
        The path or URL of its directory.
    options : dict or None
        Storage options for deltalake: see `_sources.deltas.delta_options`.

    Raises
    ------
    MissingExtraError
        deltalake is not installed.
    """

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        import_deltalake()
        self.uri = uri
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
        for name in ("_delta", "_applied", "columns"):
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
        protocol, metadata = self._delta.protocol(), self._delta.metadata()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        found = sorted(features.intersection(("columnMapping", "deletionVectors")))
        found += [name for name in metadata.configuration if name.startswith("delta.constraints.")]
        if metadata.configuration.get("delta.enableChangeDataFeed") == "true":
            found.append("delta.enableChangeDataFeed")
        return found + (["partitions"] if metadata.partition_columns else [])

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
        actions = import_pyarrow().table(self._delta.get_add_actions(flatten=True))
        columns = map(_values, actions.columns)
        for values in zip(*columns, strict=True):
            one = dict(zip(actions.column_names, values, strict=True))
            least = {name[4:]: value for name, value in one.items() if name.startswith("min.")}
            most = {name[4:]: value for name, value in one.items() if name.startswith("max.")}
            rows = -1 if one["num_records"] is None else one["num_records"]
            found.append(DataFile(one["path"], rows, one["size_bytes"], least, most))
        return found

    def dataset(self) -> pyarrow.dataset.Dataset:
        """Its rows."""
        return self._delta.to_pyarrow_dataset()

    @property
    def rows(self) -> int:
        """The number of its rows."""
        counts = [file.rows for file in self.files()]
        return sum(counts) if min(counts, default=0) >= 0 else int(self.dataset().count_rows())

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
        before = self.version
        self.add_columns(columns)
        if alone:
            self._check_alone(before)
        now = int(time.time() * 1000)
        actions = _added(added, now, changes=changes)
        actions += [RemoveAction(f.name, changes, now, size=f.bytes, partition_values={}) for f in removed]
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

        actions = _added(files, int(time.time() * 1000))
        if self._delta is None:
            create_table_with_add_actions(
                self.uri,
                Schema.from_arrow(columns),
                actions,
                storage_options=self._options,
                commit_properties=_properties(app, properties),
            )
            return self._committed()
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

    def add_columns(self, columns: pa.Schema) -> None:
        """Add missing columns; names are compared without case."""
        from deltalake import Field, Schema

        names = {name.lower() for name in self.columns.names}
        lacking = [one for one in columns if one.name.lower() not in names]
        if not lacking:
            return
        new = Schema.from_arrow(import_pyarrow().schema(lacking)).fields
        self._delta.alter.add_columns([Field(one.name, one.type, nullable=True) for one in new])
        self._committed()

    def empty(self) -> None:
        """Delete its rows, if it exists."""
        if self._delta is not None:
            self._delta.delete()
            self._committed()

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
            self._delta.create_write_transaction(actions, mode, schema, commit_properties=committed)
        except CommitFailedError as error:
            if alone:
                raise self._conflict(str(error)) from error
            raise
        self._committed()

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


def _added(files: Sequence[DataFile], now: int, *, changes: bool = True) -> list[Any]:
    from deltalake.transaction import AddAction

    return [AddAction(one.name, one.bytes, {}, now, changes, _statistics(one)) for one in files]


def _last_of(app_id: str) -> str:
    """The name under which a table keeps an application's last place: Delta has one number for each name."""
    return f"{app_id} last _commit_version"


def _properties(
    app: App | None, properties: dict[str, str] | None, max_commit_retries: int | None = None
) -> Any:
    from deltalake import CommitProperties, Transaction

    transactions = []
    if app is not None:
        transactions.append(Transaction(app.id, app.batch))
        if app.last is not None:
            transactions.append(Transaction(_last_of(app.id), app.last))
    return CommitProperties(
        custom_metadata=properties,
        app_transactions=transactions or None,
        max_commit_retries=max_commit_retries,
    )


def _statistics(file: DataFile) -> str:
    """Statistics as Delta keeps them."""
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: _plain(value) for name, value in file.least.items()},
            "maxValues": {name: _plain(value) for name, value in file.most.items()},
            "nullCount": dict(file.nulls),
        }
    )


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
