"""A table of an Iceberg catalog through pyiceberg, without a JVM: its state, and all commits to it."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..._sources.deltas import delta_options
from ...errors import BinlogError, CommitInDoubtError, MissingExtraError
from ..rows.types import import_pyarrow, plain_type
from .partitions import Partition, PartitionField
from .table import App, DataFile

if TYPE_CHECKING:
    import pyarrow as pa

_APP, _BATCH = "binlog_core.app_id", "binlog_core.batch_id"
_APPLIED = "binlog_core.applied"  # of the table: apps and their last batches, even if it keeps few snapshots
_REACHED = "binlog_core.reached"  # of the table: apps and the last places of their batches
_MOST_APPS = 32  # each run of an export is one
_SOURCE = "binlog_core.table"
_WANTED = "binlog_core.location"  # of the table: what was asked for, if the catalog chose its location
_EPOCH = dt.date(1970, 1, 1)
_TRIES = 5  # of an append, when others commit at the same time
_READING_THREADS = 16  # of Parquet footers
_STORE = {  # names of deltalake, and those of pyiceberg for them
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_REGION": "s3.region",
    "AWS_ENDPOINT_URL": "s3.endpoint",
}
# Statuses with which a catalog says that it has done nothing; after others a commit may have been made.
_REFUSALS = frozenset((400, 401, 403, 404, 405, 413, 415, 419, 422, 429))
_PLAIN = frozenset(
    (
        *("name", "type", "uri", "warehouse", "prefix", "py-catalog-impl", "scope", "oauth2-server-uri"),
        *("client.region", "glue.region", "glue.id", "glue.endpoint", "s3.region", "s3.endpoint"),
        *("rest.sigv4-enabled", "rest.signing-region", "rest.signing-name"),
    )
)
_MERGED = "commit.manifest.min-count-to-merge"
_MOST_MANIFESTS = "16"  # of a table that we create, before they are merged


class IcebergLakeTable:
    """A table of a catalog, which may not exist yet; seen as when opened, or after its own last commit.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
        The catalog.
    identifier : tuple of str
        Namespace and name.
    location : str or None
        The path or URL of its directory; a table of this name in another directory is another table, unless
        the catalog chose that when the table was made for this one. None: wherever the catalog has it.
    source : str or None
        The table in the logs whose rows it has, recorded when it is created.
    partition : tuple of PartitionField
        The partition of its files.

    Raises
    ------
    BinlogError
        It was made for the rows of another source.
    """

    def __init__(
        self,
        catalog: Any,
        identifier: tuple[str, ...],
        location: str | None = None,
        source: str | None = None,
        partition: Partition = (),
    ) -> None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        self._catalog, self._identifier, self._source = catalog, identifier, source
        self.partition = partition
        self._location = None if location is None else location.rstrip("/")
        self._table: Any = None
        self._planned: dict[str, Any] | None = None
        with contextlib.suppress(NoSuchNamespaceError, NoSuchTableError):
            table = catalog.load_table(identifier)
            if self._location in (None, table.location().rstrip("/"), table.properties.get(_WANTED)):
                self._table = table
                other = table.properties.get(_SOURCE, source)
                if source is not None and other != source:
                    raise BinlogError(
                        f"the catalog's table {'.'.join(identifier)} has the rows of {other}: expected those"
                        f" of {source}"
                    )

    # ------------------------------------------------------------ state

    @property
    def uri(self) -> str:
        """Where its files are."""
        if self._table is not None:
            return str(self._table.location()).rstrip("/")
        return self._location or ""

    @property
    def exists(self) -> bool:
        """Whether it exists."""
        return self._table is not None and bool(self._table.schema().fields)

    @property
    def columns(self) -> pa.Schema:
        """The current schema; empty: the table does not exist yet."""
        pa = import_pyarrow()
        if self._table is None:
            return pa.schema([])
        return pa.schema([(one.name, plain_type(one.type)) for one in self._table.schema().as_arrow()])

    @property
    def special(self) -> list[str]:
        """Its features that only Spark can write."""
        if self._table is None:
            return []
        tasks = self._tasks()
        found = {
            "partitions": self._divided_by(self._table.metadata) != [*self.partition]
            or any(task.file.spec_id != self._table.spec().spec_id for task in tasks.values()),
            "columns that take no null": any(one.required for one in self._table.schema().fields),
            "delete files": any(task.delete_files for task in tasks.values()),
            "files other than Parquet": any(task.file.file_format != "PARQUET" for task in tasks.values()),
            "files outside of its directory": any(self._path(name) == name for name in tasks),
        }
        return [name for name, there in found.items() if there]

    @staticmethod
    def _divided_by(metadata: Any) -> list[PartitionField]:
        """The partition that a table has now."""
        schema = metadata.schema()
        return [
            PartitionField(schema.find_column_name(one.source_id), str(one.transform))
            for one in metadata.spec().fields
        ]

    @property
    def no_vectors(self) -> list[str]:
        """See `FileTable`."""
        return ["it is an Iceberg table"]

    def applied(self, app_id: str) -> int | None:
        """The last batch that an application has committed; None: none, as far back as the table knows."""
        return self._recorded(_APPLIED).get(app_id)

    def reached(self, app_id: str) -> int | None:
        """The last `_commit_version` that an application has committed; None: it is not known."""
        return self._recorded(_REACHED).get(app_id)

    def _recorded(self, name: str) -> dict[str, int]:
        """What a property of the table says of applications."""
        found: dict[str, int] = {}
        if self._table is not None:
            found = json.loads(self._table.properties.get(name, "{}"))
        return found

    def _with(self, name: str, app_id: str, number: int) -> dict[str, str]:
        """The property with a number for an application: the last, not the highest.

        A new copy may begin before the old one's end.
        """
        others = [one for one in self._recorded(name).items() if one[0] != app_id]
        return {name: json.dumps(dict([*others[1 - _MOST_APPS :], (app_id, number)]))}

    def files(self) -> list[DataFile]:
        """Its files, with the bounds of their columns."""
        found = []
        for name, task in self._tasks().items():
            file = task.file
            least, most = dict(self._bounds(file.lower_bounds)), dict(self._bounds(file.upper_bounds))
            rows, size = file.record_count, file.file_size_in_bytes
            # Its own partition: before a copy is committed that has another, the table has the old one.
            found.append(DataFile(name, rows, size, least, most, partition=tuple(file.partition)))
        return found

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return sum(file.rows for file in self.files())

    @property
    def version(self) -> int:
        """The version of the last commit, to which a reader can go back."""
        return int(self._table.current_snapshot().snapshot_id)

    def last_commit(self) -> dict[str, Any]:
        """The properties of the last commit, with its `timestamp` in milliseconds; {} if there is none."""
        snapshot = None if self._table is None else self._table.current_snapshot()
        return {} if snapshot is None else {**_properties_of(snapshot), "timestamp": snapshot.timestamp_ms}

    def reopened(self) -> IcebergLakeTable:
        """The table, opened again in its current state."""
        return IcebergLakeTable(self._catalog, self._identifier, self._location, self._source, self.partition)

    def kept(self, columns: pa.Schema) -> pa.Schema:
        """The columns in the types that the table's format has for them."""
        return import_pyarrow().schema([(one.name, kept_type(one.type)) for one in columns])

    def takes(self, columns: pa.Schema) -> bool:
        """Whether its columns can get these types without a rewrite of its files."""
        return not self._retyped(columns)

    def _retyped(self, columns: pa.Schema) -> list[str]:
        """Columns that cannot get these types in place."""
        wanted = {one.name: one.type for one in self.kept(columns)}
        return [
            one.name
            for one in self.columns
            if (kind := wanted.get(one.name, one.type)) != one.type and not promoted(one.type, kind)
        ]

    def _tasks(self) -> dict[str, Any]:
        """Pyiceberg's task for each file, by the file's path in the table's directory."""
        if self._planned is None:
            tasks = () if self._table is None else self._table.scan().plan_files()
            self._planned = {task.file.file_path.removeprefix(f"{self.uri}/"): task for task in tasks}
        return self._planned

    def _path(self, name: str) -> str:
        return name if "://" in name or name.startswith("/") else f"{self.uri}/{name}"

    def _bounds(self, kept: Mapping[int, bytes] | None) -> Iterator[tuple[str, Any]]:
        """The bounds of columns of the types by which files are selected."""
        from pyiceberg.types import DateType, IntegerType, LongType, StringType

        for one in self._table.schema().fields:
            data = (kept or {}).get(one.field_id)
            if data is None:
                continue
            if isinstance(one.field_type, IntegerType | LongType | DateType):  # an int may be a long now
                number = int.from_bytes(data, "little", signed=True)
                with contextlib.suppress(OverflowError):
                    date = isinstance(one.field_type, DateType)
                    yield one.name, _EPOCH + dt.timedelta(number) if date else number
            elif isinstance(one.field_type, StringType):
                yield one.name, data.decode()

    # ------------------------------------------------------------ commits

    def place(self) -> str:
        """The path or URL of the directory for its files, which come before its first commit.

        A REST catalog may choose it, and says so when the table is made. So it is made now, without columns.

        Raises
        ------
        BinlogError
            The catalog does not make the table, or has another of this name.
        """
        from pyiceberg.catalog.rest import RestCatalog
        from pyiceberg.schema import Schema

        if self._table is None and isinstance(self._catalog, RestCatalog):
            properties = self._first_properties
            if self._location is not None:
                properties[_WANTED] = self._location
            try:
                self._check_free()
                self._table = self._catalog.create_table(
                    self._identifier, Schema(), self._location, properties=properties
                )
            except BinlogError:
                raise
            except Exception as error:
                raise BinlogError(
                    f"the catalog does not make the table: {type(error).__name__}: {error}", path=self.uri
                ) from error
        return self.uri

    def append(self, files: Sequence[DataFile], columns: pa.Schema, app: App) -> None:
        """Add files, whose names may be URIs, in one commit. Types that are wider here become the table's."""
        for left in reversed(range(_TRIES)):
            try:
                return self._commit(files, (), columns, app, None, alone=False)
            except CommitInDoubtError:
                raise
            except BinlogError:
                again = self.reopened()
                done = again.applied(app.id)
                if not left or not again.exists or (done is not None and done >= app.batch):
                    raise
                self._table, self._planned = again._table, None
        raise AssertionError

    def exchange(
        self,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        columns: pa.Schema,
        app: App | None,
        properties: dict[str, str] | None = None,
        *,
        changes: bool = True,
    ) -> None:
        """Add and remove files, and add columns that it lacks; `changes` False: the rows stay the same."""
        self._commit(added, removed, columns, app, properties)

    def replace(
        self,
        files: Sequence[DataFile],
        columns: pa.Schema,
        app: App | None,
        properties: dict[str, str] | None = None,
    ) -> None:
        """Create it again, with only these files and columns."""
        self._commit(files, self.files(), columns, app, properties, exact=True)

    def add_columns(self, columns: pa.Schema) -> None:
        """Add the columns that it lacks."""
        with self._table.transaction() as transaction:
            self._fit(transaction, columns, exact=False)

    def empty(self) -> None:
        """Delete its rows, if it exists."""
        if self._table is not None:
            self._commit((), self.files(), self.columns, None, None)

    def _commit(
        self,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        columns: pa.Schema,
        app: App | None,
        properties: dict[str, str] | None,
        *,
        exact: bool = False,
        alone: bool = True,
    ) -> None:
        """One commit, of one snapshot, with the schema that its files need."""
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError, ValidationException

        recorded = {_APP: app.id, _BATCH: str(app.batch)} if app is not None else {}
        recorded |= properties or {}
        tasks = self._tasks()
        try:
            transaction = self._created(columns) if self._table is None else self._table.transaction()
            new = exact or self._table is None or not self._table.schema().fields
            anew = new and self._divided_by(transaction.table_metadata) != [*self.partition]
            if anew and self._table is not None:
                # Before columns go that divided its files: pyiceberg could not read those any more.
                if removed:
                    update = transaction.update_snapshot(snapshot_properties=recorded)
                    with update.overwrite() as snapshot:
                        for file in removed:
                            snapshot.delete_data_file(tasks[file.name].file)
                    removed = ()
                with transaction.update_spec() as update:
                    for one in transaction.table_metadata.spec().fields:
                        update.remove_field(one.name)
            if self._table is not None:
                self._fit(transaction, columns, exact=exact)
            if anew:
                with transaction.update_spec() as update:
                    for one in self.partition:
                        update.add_field(one.column, one.transform, one.name)
            if transaction.table_metadata.name_mapping() is None:  # our files have no column ids
                names = transaction.table_metadata.schema().name_mapping
                transaction.set_properties({"schema.name-mapping.default": names.model_dump_json()})
            if app is not None:
                transaction.set_properties(self._with(_APPLIED, app.id, app.batch))
                if app.last is not None:
                    transaction.set_properties(self._with(_REACHED, app.id, app.last))
            update = transaction.update_snapshot(snapshot_properties=recorded)
            # An overwrite fails if others have committed since it was begun.
            with update.overwrite() if alone else update.merge_append() as snapshot:
                for data_file in self._described(transaction, added):
                    snapshot.append_data_file(data_file)
                for file in removed:
                    snapshot.delete_data_file(tasks[file.name].file)
            metadata = transaction.table_metadata
            most = int(metadata.properties.get(_MERGED, 100))
            if len(metadata.current_snapshot().manifests(self._io(transaction))) > most:
                with transaction.update_snapshot(snapshot_properties=recorded).merge_append():
                    pass
            try:
                # Once: after another's commit of the same batch pyiceberg would append it a second time.
                transaction._table.metadata.properties["commit.retry.num-retries"] = "0"
                transaction.commit_transaction()
            except (CommitFailedException, TableAlreadyExistsError, ValidationException):
                raise
            except Exception as error:
                if _is_refusal(error):
                    raise BinlogError(
                        f"the catalog refuses the commit: {type(error).__name__}: {error}", path=self.uri
                    ) from error
                # For example a lost connection: the commit may still be made.
                raise CommitInDoubtError(
                    f"the catalog does not say whether the commit was made: {type(error).__name__}: {error}",
                    path=self.uri,
                ) from error
        except (CommitFailedException, TableAlreadyExistsError, ValidationException) as error:
            raise BinlogError(
                "another writer has committed to the table in the meantime: nothing of this commit is in it"
                f" ({type(error).__name__}: {error})",
                path=self.uri,
            ) from error
        self._table, self._planned = self._catalog.load_table(self._identifier), None

    def _created(self, columns: pa.Schema) -> Any:
        """A transaction that creates the table."""
        self._check_free()
        return self._catalog.create_table_transaction(
            self._identifier,
            self.kept(columns),
            location=self._location,
            properties=self._first_properties,
        )

    def _check_free(self) -> None:
        """Refuse a name that another table has; make the namespace if necessary."""
        if self._catalog.table_exists(self._identifier):
            there = self._catalog.load_table(self._identifier).location()
            raise BinlogError(
                f"the catalog has another table {'.'.join(self._identifier)}, in {there}", path=self.uri
            )
        self._catalog.create_namespace_if_not_exists(self._identifier[:-1])

    @property
    def _first_properties(self) -> dict[str, str]:
        """Those of a new table."""
        return {_MERGED: _MOST_MANIFESTS} | ({_SOURCE: self._source} if self._source else {})

    def _fit(self, transaction: Any, columns: pa.Schema, *, exact: bool) -> None:
        """Add columns and widen types; `exact`: have only these columns, in their order."""
        columns = self.kept(columns)
        gone = [one for one in self.columns.names if one not in columns.names] + self._retyped(columns)
        if exact and gone:
            with transaction.update_schema() as update:  # a column with another type is another column
                for name in gone:
                    update.delete_column(name)
        with transaction.update_schema() as update:
            update.union_by_name(columns)
            if exact:
                update.move_first(columns.names[0])
                for before, name in pairwise(columns.names):
                    update.move_after(name, before)

    def _described(self, transaction: Any, files: Sequence[DataFile]) -> list[Any]:
        """Pyiceberg's descriptions of files, made from their footers."""
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        io, metadata = self._io(transaction), transaction.table_metadata
        with ThreadPoolExecutor(_READING_THREADS) as threads:
            paths = [self._path(file.name) for file in files]
            return list(threads.map(lambda path: parquet_file_to_data_file(io, metadata, path), paths))

    def _io(self, transaction: Any) -> Any:
        # Private in pyiceberg 0.12: for a table that is being created, only the transaction has it.
        return transaction._table.io


def _is_refusal(error: Exception) -> bool:
    """Whether an error of a catalog says that the commit was not made."""
    answer = getattr(error, "response", None)
    if isinstance(answer, dict):  # of botocore, which may have repeated a request that was already done
        about = answer.get("ResponseMetadata", {})
        return about.get("HTTPStatusCode") in _REFUSALS and about.get("RetryAttempts") == 0
    answer = getattr(error.__cause__, "response", None)  # of requests, from which pyiceberg raises its errors
    return getattr(answer, "status_code", None) in _REFUSALS


def _properties_of(snapshot: Any) -> dict[str, str]:
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}


def load_iceberg_catalog(
    catalog: Mapping[str, str] | str | None, storage_options: dict[str, Any] | None = None
) -> Any:
    """A catalog by its properties, or by its name in pyiceberg's configuration.

    Parameters
    ----------
    catalog : mapping, str or None
        Its properties or name; None is the catalog "default".
    storage_options : dict or None
        Options for the tables' store, if the catalog's properties do not have them.

    Raises
    ------
    MissingExtraError
        pyiceberg is not installed.
    BinlogError
        The catalog cannot be opened.
    """
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise MissingExtraError.of("pyiceberg", "iceberg", "an Iceberg table") from None
    properties: dict[str, str] = dict(catalog) if isinstance(catalog, Mapping) else {}
    name = properties.pop("name", "default") if isinstance(catalog, Mapping) else catalog
    store = delta_options(storage_options) or {}
    of_store = {_STORE[word]: value for word, value in store.items() if word in _STORE}
    try:
        return load_catalog(name, **{**of_store, **properties})
    except Exception as error:
        raise BinlogError(f"the catalog cannot be opened: {type(error).__name__}: {error}") from error


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a catalog that may be stored: only names that are known not to be secret."""
    return {name: value for name, value in properties.items() if name in _PLAIN and not _has_secret(value)}


def _has_secret(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return True
    # SQLAlchemy takes passwords with / and # in them, where the host of a URL would have ended.
    login = value.partition("://")[2].rpartition("@")[0]
    return bool(parts.query) or ":" in login


def kept_type(kind: pa.DataType) -> pa.DataType:
    """The Iceberg type for an Arrow type: Iceberg does not have integers of 8 and 16 bits."""
    pa = import_pyarrow()
    return pa.int32() if kind in (pa.int8(), pa.int16()) else kind


def promoted(here: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Iceberg can change a type in place: int to long, float to double, decimals to more digits."""
    types = import_pyarrow().types
    if types.is_decimal(here) and types.is_decimal(wanted):
        return bool(here.scale == wanted.scale and here.precision <= wanted.precision)
    return bool(
        (types.is_int32(here) and types.is_int64(wanted))
        or (types.is_float32(here) and types.is_float64(wanted))
    )
