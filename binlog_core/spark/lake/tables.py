"""An export into tables of a lake: Delta through deltalake, Iceberg through pyiceberg, neither needs a JVM.

Workers write into the tables' directories, where nobody looks at a file that no commit names. The driver
commits what came back, one commit for each table, and deletes the rest.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...errors import BinlogError, MissingExtraError
from ..rows.types import import_pyarrow, plain_type
from .destination import Destination, by_table, describe_logs, describe_statements, directory_name, result_of
from .results import TableResult

if TYPE_CHECKING:
    import pyarrow as pa

    from .results import FileStatistics, WrittenSplit

_RUN = "binlog_core.run_id"
_MOST_DEFINITIONS = 1000
_DELETING_THREADS = 32


class LakeTables(Destination):
    """What Delta and Iceberg have in common.

    Parameters
    ----------
    output : str
        Path or URL of the directory that holds the tables' data.
    run_id : str
    storage_options : dict or None
    """

    nested = True

    def __init__(self, output: str, run_id: str, *, storage_options: dict[str, Any] | None = None) -> None:
        super().__init__(output, run_id, storage_options=storage_options)
        self.staging = output
        # Task attempts are counted anew in each session: a run that is repeated must not write over its own.
        self.prefix = f"{uuid.uuid4().hex[:12]}-"
        self._marker = f"{self.path}/_runs/{quote(run_id, safe='')}.json"
        self._kept: set[str] = set()

    @property
    def notes(self) -> str:
        """The directory where workers leave notes of errors."""
        return self.path

    def committed(self) -> list[TableResult] | None:
        """What this run has committed before; None: nothing, or not all."""
        marker = self.read_json(self._marker)
        if marker is None:
            return None
        return [
            TableResult(**{**table, "key": tuple(table["key"]) if table["key"] else None})
            for table in marker["tables"]
        ]

    def begin(self) -> None:
        """Make the directory."""
        try:
            self.filesystem.create_dir(f"{self.path}/_runs", recursive=True)
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error

    def commit(self, splits: list[WrittenSplit]) -> list[TableResult]:
        """Append the files that the results name to their tables.

        Raises
        ------
        BinlogError
            A table cannot be written. All others are.
        """
        results: list[TableResult] = []
        failures: list[BinlogError] = []
        for database, table, files in by_table(splits):
            try:
                results += self._commit_table(database, table, files)
            except Exception as error:  # of deltalake, pyiceberg and the stores below them
                failure = error
                if not isinstance(failure, BinlogError):
                    failure = BinlogError(f"the table cannot be written: {type(error).__name__}: {error}")
                    failure.__cause__ = error
                failures.append(failure.located(path=self.output, table=f"{database}.{table}"))
        if failures:
            others = ", ".join(str(failure.table) for failure in failures[1:])
            if others:
                failures[0].add_note(f"These tables could not be written either: {others}.")
            raise failures[0]
        marker = {
            "run_id": self.run_id,
            "logs": describe_logs(splits),
            "statements": describe_statements(splits),
            "tables": [{name: getattr(one, name) for name in TableResult.__slots__} for one in results],
        }
        try:
            self.write_json(self._marker, marker)
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error
        return results

    def _commit_table(self, database: str, table: str, files: list[FileStatistics]) -> Iterator[TableResult]:
        for place, group in self._by_definition(database, table, files):
            if self._append(database, table, place, group):
                self._kept.update(file.name for file in group)
            yield result_of(database, table, self._told(database, table, place), group)

    def abort(self) -> None:
        """Delete what this run wrote and no commit names."""
        from pyarrow.fs import FileSelector

        with contextlib.suppress(OSError):
            found = self.filesystem.get_file_info(FileSelector(self.path, recursive=True))
            left = [
                info.path
                for info in found
                if info.base_name.startswith(self.prefix)
                and info.path.removeprefix(f"{self.path}/") not in self._kept
            ]
            with ThreadPoolExecutor(_DELETING_THREADS) as threads:
                list(threads.map(self.filesystem.delete_file, left))

    def _by_definition(
        self, database: str, table: str, files: list[FileStatistics]
    ) -> Iterator[tuple[int, list[FileStatistics]]]:
        """The files by the table they go to: the first of which all columns have the same types."""
        groups: dict[int, list[FileStatistics]] = {}
        schemas: dict[int, dict[str, pa.DataType]] = {}
        places: list[tuple[pa.Schema, int]] = []
        for file in files:
            types = {field.name.lower(): self._kept_as(field.type) for field in file.schema}
            place = next((known for schema, known in places if schema == file.schema), 0)
            while not place or place not in schemas:
                for number in range(1, _MOST_DEFINITIONS):
                    if number not in schemas:
                        schemas[number] = self._types(database, table, number)
                    have = schemas[number]
                    if all(
                        self._widest(have.get(name, kind), kind) is not None for name, kind in types.items()
                    ):
                        place = number
                        break
                else:
                    raise BinlogError("too many definitions of a table", table=f"{database}.{table}")
                places.append((file.schema, place))
            have = schemas[place]
            have.update({name: self._widest(have.get(name, kind), kind) for name, kind in types.items()})
            groups.setdefault(place, []).append(file)
        yield from sorted(groups.items())

    def _kept_as(self, kind: pa.DataType) -> pa.DataType:
        """The type that a table has for one of ours."""
        return kind

    def _widest(self, have: pa.DataType, kind: pa.DataType) -> pa.DataType | None:
        """The type of a table's column that is to hold both; None: there is none without a rewrite."""
        return have if have == kind else None

    @abstractmethod
    def _types(self, database: str, table: str, place: int) -> dict[str, pa.DataType]:
        """The types of a table's columns by name in lower case; none where it does not exist."""

    @abstractmethod
    def _append(self, database: str, table: str, place: int, files: list[FileStatistics]) -> bool:
        """Commit files; False: this run did before."""

    @abstractmethod
    def _told(self, database: str, table: str, place: int) -> str:
        """What a result calls the table."""


def _merged(files: list[FileStatistics]) -> pa.Schema:
    pa = import_pyarrow()
    fields: dict[str, Any] = {}
    for file in files:
        for one in file.schema:
            fields.setdefault(one.name.lower(), one)
    return pa.schema(list(fields.values()))


class DeltaTables(LakeTables):
    """A Delta table for each table: ``OUTPUT/database.table``, ``….v2`` where a column changed its type."""

    def __init__(self, output: str, run_id: str, *, storage_options: dict[str, Any] | None = None) -> None:
        try:
            import deltalake  # noqa: F401
        except ImportError:
            raise MissingExtraError("format=delta needs deltalake: pip install deltalake") from None
        if "%" in output:
            raise BinlogError("deltalake cannot write to a path with a % in it: choose another", path=output)
        super().__init__(output, run_id, storage_options=storage_options)
        self._options = delta_options(storage_options)

    def _told(self, database: str, table: str, place: int) -> str:
        name = directory_name(database, table) + (f".v{place}" if place > 1 else "")
        return f"{self.output.rstrip('/')}/{name}"

    def _types(self, database: str, table: str, place: int) -> dict[str, pa.DataType]:
        from deltalake import DeltaTable

        pa = import_pyarrow()
        uri = self._told(database, table, place)
        if not DeltaTable.is_deltatable(uri, storage_options=self._options):
            return {}
        schema = pa.schema(DeltaTable(uri, storage_options=self._options).schema())
        return {field.name.lower(): plain_type(field.type) for field in schema}

    def _append(self, database: str, table: str, place: int, files: list[FileStatistics]) -> bool:
        from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
        from deltalake.transaction import AddAction

        uri, schema = self._told(database, table, place), Schema.from_arrow(_merged(files))
        if not DeltaTable.is_deltatable(uri, storage_options=self._options):
            DeltaTable.create(uri, schema, storage_options=self._options)
        delta = DeltaTable(uri, storage_options=self._options)
        application = f"binlog_core:{self.run_id}"
        if delta.transaction_version(application) is not None:
            return False
        known = {one.name.lower() for one in delta.schema().fields}
        new = [Field(one.name, one.type) for one in schema.fields if one.name.lower() not in known]
        if new:
            delta.alter.add_columns(new)
            delta = DeltaTable(uri, storage_options=self._options)
        folder = directory_name(database, table)
        if place > 1:
            for file in files:
                name = file.name.rpartition("/")[2]
                self.filesystem.move(f"{self.path}/{file.name}", f"{self.path}/{folder}.v{place}/{name}")
            self._kept.update(f"{folder}.v{place}/{file.name.rpartition('/')[2]}" for file in files)
        now = int(time.time() * 1000)
        actions: list[Any] = [
            AddAction(file.name.rpartition("/")[2], file.bytes, {}, now, True, _delta_statistics(file))
            for file in files
        ]
        delta.create_write_transaction(
            actions,
            "append",
            delta.schema(),
            commit_properties=CommitProperties(
                custom_metadata={_RUN: self.run_id}, app_transactions=[Transaction(application, 1)]
            ),
        )
        return True


def _delta_statistics(file: FileStatistics) -> str:
    return json.dumps(
        {
            "numRecords": sum(file.rows.values()),
            "minValues": {"_commit_version": file.first_version},
            "maxValues": {"_commit_version": file.last_version},
            "nullCount": {"_commit_version": 0},
        }
    )


def delta_options(options: dict[str, Any] | None) -> dict[str, str] | None:
    """Options of a store in the words of deltalake."""
    names = {
        "access_key": "AWS_ACCESS_KEY_ID",
        "key": "AWS_ACCESS_KEY_ID",
        "secret_key": "AWS_SECRET_ACCESS_KEY",
        "secret": "AWS_SECRET_ACCESS_KEY",
        "session_token": "AWS_SESSION_TOKEN",
        "token": "AWS_SESSION_TOKEN",
        "region": "AWS_REGION",
        "endpoint_url": "AWS_ENDPOINT_URL",
        "endpoint_override": "AWS_ENDPOINT_URL",
    }
    if not options:
        return None
    found = {names.get(name, name): str(value) for name, value in options.items()}
    if found.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    return found


class IcebergTables(LakeTables):
    """Tables ``database.table`` of an Iceberg catalog, ``table__v2`` where a column changed its type.

    Parameters
    ----------
    output, run_id, storage_options
        See `LakeTables`.
    catalog : mapping, str or None
        Properties of the catalog and, if it is not "default", its name; or its name in pyiceberg's
        configuration.
    """

    def __init__(
        self,
        output: str,
        run_id: str,
        catalog: Mapping[str, str] | str | None,
        *,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        try:
            from pyiceberg.catalog import load_catalog
        except ImportError:
            raise MissingExtraError("format=iceberg needs pyiceberg: pip install pyiceberg") from None
        super().__init__(output, run_id, storage_options=storage_options)
        try:
            if isinstance(catalog, Mapping):
                properties = {"name": "default", **catalog}
                self._catalog = load_catalog(properties.pop("name"), **properties)
            else:
                self._catalog = load_catalog(catalog)
        except Exception as error:
            raise BinlogError(f"the catalog cannot be opened: {type(error).__name__}: {error}") from error

    def _told(self, database: str, table: str, place: int) -> str:
        return ".".join(_identifier(database, table, place))

    def _types(self, database: str, table: str, place: int) -> dict[str, pa.DataType]:
        identifier = _identifier(database, table, place)
        if not self._catalog.table_exists(identifier):
            return {}
        schema = self._catalog.load_table(identifier).schema().as_arrow()
        return {field.name.lower(): plain_type(field.type) for field in schema}

    def _kept_as(self, kind: pa.DataType) -> pa.DataType:
        """Iceberg has no whole numbers of 8 and 16 bits."""
        pa = import_pyarrow()
        return pa.int32() if kind in (pa.int8(), pa.int16()) else kind

    def _widest(self, have: pa.DataType, kind: pa.DataType) -> pa.DataType | None:
        """What Iceberg promotes: int to long, float to double, decimals to more digits."""
        return have if have == kind or _promoted(kind, have) else kind if _promoted(have, kind) else None

    def _append(self, database: str, table: str, place: int, files: list[FileStatistics]) -> bool:
        pa = import_pyarrow()
        identifier = _identifier(database, table, place)
        schema = pa.schema([field.with_type(self._kept_as(field.type)) for field in _merged(files)])
        for types in (
            self._types(database, table, place),
            *({field.name.lower(): self._kept_as(field.type) for field in file.schema} for file in files),
        ):
            wide = [self._widest(types.get(field.name.lower(), field.type), field.type) for field in schema]
            schema = pa.schema([field.with_type(kind) for field, kind in zip(schema, wide, strict=True)])
        self._catalog.create_namespace_if_not_exists(identifier[:1])
        target = self._catalog.create_table_if_not_exists(identifier, schema)
        summaries = [snapshot.summary for snapshot in target.snapshots()]
        if any(one is not None and one.additional_properties.get(_RUN) == self.run_id for one in summaries):
            return False
        with target.transaction() as transaction:
            with transaction.update_schema() as update:
                update.union_by_name(schema)
            # Their names are new, so there is no need to look through the whole table for them.
            transaction.add_files(
                [self._uri(file.name) for file in files],
                snapshot_properties={_RUN: self.run_id},
                check_duplicate_files=False,
            )
        return True

    def _uri(self, name: str) -> str:
        base = self.output.rstrip("/") if "://" in self.output else self.path
        return f"{base}/{name}"


def _identifier(database: str, table: str, place: int) -> tuple[str, str]:
    return database, table + (f"__v{place}" if place > 1 else "")


def _promoted(here: pa.DataType, wanted: pa.DataType) -> bool:
    types = import_pyarrow().types
    if types.is_decimal(here) and types.is_decimal(wanted):
        return bool(here.scale == wanted.scale and here.precision <= wanted.precision)
    return bool(
        (types.is_int32(here) and types.is_int64(wanted))
        or (types.is_float32(here) and types.is_float64(wanted))
    )
