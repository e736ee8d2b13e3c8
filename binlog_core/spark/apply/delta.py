"""A Delta table as the target of changes, through deltalake: no JVM."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import BinlogError, MissingExtraError
from ..rows.fit import widened
from ..rows.types import import_pyarrow, plain_type
from .alterations import Check
from .changes import Changes
from .files import Checker, DataFile, FileSink, Replaced, Rewriter, Sunk
from .jobs import Folder, Jobs
from .statements import ApplyStopped

if TYPE_CHECKING:
    import pyarrow as pa

_NOT_WRITTEN = ("columnMapping", "deletionVectors")


class DeltaTarget:
    """A Delta table; made by the first commit where there is none.

    Workers write the new rows, and anew those files of the table that have rows of the keys that changed; the
    commit removes and adds files.

    Parameters
    ----------
    path : str
        Path or URL.
    storage_options : dict
        Of deltalake.

    Raises
    ------
    BinlogError
        The table is partitioned, or has a feature that only Spark writes.
    MissingExtraError
        deltalake is not installed.
    """

    def __init__(self, path: str, storage_options: dict[str, str]) -> None:
        try:
            from deltalake import DeltaTable
        except ImportError:
            raise MissingExtraError("apply_changes needs deltalake: pip install deltalake") from None
        self._path, self._options = path, storage_options
        self._delta: Any = None
        if DeltaTable.is_deltatable(path, storage_options=storage_options):
            self._delta = DeltaTable(path, storage_options=storage_options)
            self._refuse_features()

    def _refuse_features(self) -> None:
        protocol, metadata = self._delta.protocol(), self._delta.metadata()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        found = sorted(features.intersection(_NOT_WRITTEN))
        found += [name for name in metadata.configuration if name.startswith("delta.constraints.")]
        if metadata.configuration.get("delta.enableChangeDataFeed") == "true":
            found.append("delta.enableChangeDataFeed")
        if metadata.partition_columns:
            found.append("partitions")
        if found:
            raise BinlogError(
                f"the Delta table has {', '.join(found)}, which only Spark writes here: use a SparkTarget",
                path=self._path,
            )

    @property
    def place(self) -> Folder:
        """Its directory."""
        return Folder(self._path, self._options or None, delta=True)

    @property
    def schema(self) -> pa.Schema:
        """Of the table as it is."""
        pa = import_pyarrow()
        if self._delta is None:
            return pa.schema([])
        return pa.schema([(one.name, plain_type(one.type)) for one in pa.schema(self._delta.schema())])

    @property
    def has_rows(self) -> bool:
        """There is something to lose."""
        return self._delta is not None and any(file.rows for file in self._files())

    def applied(self, app_id: str) -> int | None:
        """The last batch that was applied."""
        if self._delta is None:
            return None
        found: int | None = self._delta.transaction_version(app_id)
        return found

    def _files(self) -> list[DataFile]:
        """The table's files with the bounds of their columns."""
        if self._delta is None:
            return []
        actions = import_pyarrow().table(self._delta.get_add_actions(flatten=True))
        found = []
        for batch in actions.to_batches():
            for one in batch.to_pylist():
                least = {name[4:]: value for name, value in one.items() if name.startswith("min.")}
                most = {name[4:]: value for name, value in one.items() if name.startswith("max.")}
                rows = -1 if one["num_records"] is None else one["num_records"]
                found.append(DataFile(one["path"], rows, one["size_bytes"], least, most))
        return found

    def check(self, checks: Sequence[Check], jobs: Jobs) -> None:
        """Hold the table's own values against what a new type leaves alone.

        Raises
        ------
        ApplyStopped
            A value would change.
        """
        names = set(self.schema.names)
        for check in checks:
            if check.column in names and not all(jobs.run(Checker(self.place, check), self._files())):
                raise ApplyStopped(f"alter of the table is not applied: {check.reason}", column=check.column)

    def write(self, changes: Changes, schema: pa.Schema) -> tuple[int, int]:
        """Write what the changes are folded to, in one commit.

        Parameters
        ----------
        changes : Changes
        schema : pyarrow.Schema
            What the table is to have.

        Returns
        -------
        tuple of int
            Keys that were written, and deleted.
        """
        here, effects, jobs = self.schema, changes.effects, changes.jobs
        wanted = import_pyarrow().schema([*_merged(here, schema)])
        known = [file for file in self._files() if effects.cleared is None]
        workspace = changes.stager.place
        written: list[DataFile] = []
        try:
            self.place.make()
            sunk = changes.fold(FileSink(changes.schema, wanted, changes.keys, self.place, workspace))
            written += [one.data for one in sunk if one.data is not None]
            every = bool(effects.values) or _retyped(here, schema)
            rewriter = Rewriter(
                self.place, workspace, wanted, changes.keys, tuple(sunk), effects.values, every
            )
            replaced = jobs.run(rewriter, [file for file in known if rewriter.concerns(file)])
            written += [file for one in replaced for file in one.new]
            _check_completed(sunk, replaced, changes.keys)
            puts, deletes = sum(one.puts for one in sunk), sum(one.deletes for one in sunk)
            touched = {one.name: one for one in replaced if one.touched}
            anew = every or effects.cleared is not None
            if self._delta is None or anew or written or touched or changes.app is not None:
                self._commit(wanted, written, [f for f in known if f.name in touched], anew, changes.app)
            elif len(wanted) > len(here):
                self._add_columns(wanted)
        except BaseException:
            self._delete(written)
            self.place.unmake()
            raise
        return puts, deletes

    def _commit(
        self,
        schema: pa.Schema,
        written: Sequence[DataFile],
        removed: Sequence[DataFile],
        anew: bool,
        app: tuple[str, int] | None,
    ) -> None:
        from deltalake import DeltaTable, Schema, TableFeatures
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

        now = int(time.time() * 1000)
        told: list[Any] = [AddAction(f.name, f.bytes, {}, now, True, _told(f)) for f in written]
        properties, wanted = _properties(app), Schema.from_arrow(schema)
        options = self._options or None
        try:
            if self._delta is None:
                create_table_with_add_actions(
                    self._path, wanted, told, storage_options=options, commit_properties=properties
                )
            elif anew:
                if _without_zone(schema) and not _without_zone(self.schema):
                    self._delta.alter.add_feature(
                        TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True
                    )
                self._delta.create_write_transaction(told, "overwrite", wanted, commit_properties=properties)
            else:
                self._add_columns(schema)
                told += [RemoveAction(f.name, True, now, size=f.bytes, partition_values={}) for f in removed]
                self._delta.create_write_transaction(
                    told, "append", self._delta.schema(), commit_properties=properties
                )
        except DeltaError as error:
            raise BinlogError(
                f"the commit failed, nothing of the batch is applied: {error}", path=self._path
            ) from error
        self._delta = DeltaTable(self._path, storage_options=options)

    def _add_columns(self, schema: pa.Schema) -> None:
        from deltalake import DeltaTable, Field, Schema

        names = self.schema.names
        fields = [one for one in schema if one.name not in names]
        if not fields:
            return
        new = Schema.from_arrow(import_pyarrow().schema(fields)).fields
        self._delta.alter.add_columns([Field(one.name, one.type, nullable=True) for one in new])
        self._delta = DeltaTable(self._path, storage_options=self._options)

    def _delete(self, files: Iterable[DataFile]) -> None:
        filesystem = self.place.open()
        for file in files:
            with contextlib.suppress(OSError, NotImplementedError):
                filesystem.delete_file(file.name)


def _check_completed(sunk: Sequence[Sunk], replaced: Sequence[Replaced], keys: Sequence[str]) -> None:
    partial = sum(one.partial[1] for one in sunk if one.partial is not None)
    completed = sum(one.completed for one in replaced)
    if completed != partial:
        raise ValueError(
            f"partial images change {partial} rows, of which the target has {completed}, by"
            f" {', '.join(keys)}: begin with a copy of the table, or with its first log"
        )


def _told(file: DataFile) -> str:
    """Statistics as Delta keeps them."""
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: _plain(value) for name, value in file.least.items()},
            "maxValues": {name: _plain(value) for name, value in file.most.items()},
            "nullCount": dict(file.nulls),
        }
    )


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def _without_zone(schema: pa.Schema) -> bool:
    """Whether a column is a TIMESTAMP_NTZ, which is a feature of the table."""
    types = import_pyarrow().types
    return any(types.is_timestamp(one.type) and one.type.tz is None for one in schema)


def _retyped(here: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether a column of the table is too narrow."""
    return any(
        field.name in wanted.names and _wider(field.type, wanted.field(field.name).type) != field.type
        for field in here
    )


def _merged(here: pa.Schema, wanted: pa.Schema) -> Iterator[pa.Field]:
    pa = import_pyarrow()
    for field in here:
        kind = field.type
        if field.name in wanted.names:
            kind = _wider(kind, wanted.field(field.name).type)
        yield pa.field(field.name, kind)
    yield from (pa.field(field.name, field.type) for field in wanted if field.name not in here.names)


def _wider(here: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    return wanted if here != wanted and widened(here, wanted) else here


def _properties(app: tuple[str, int] | None) -> Any:
    from deltalake import CommitProperties, Transaction

    return None if app is None else CommitProperties(app_transactions=[Transaction(*app)])
