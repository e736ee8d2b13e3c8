"""A Delta table as the target of changes, through deltalake: no JVM."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from ...errors import MissingExtraError
from ..rows.fit import widened
from ..rows.types import import_pyarrow
from .alterations import Check, From
from .folding import ApplyStopped, Folded, Key, Row

if TYPE_CHECKING:
    import pyarrow as pa

_DELETES = "__deletes"


class DeltaTarget:
    """A Delta table; made by the first commit where there is none.

    Parameters
    ----------
    path : str
        Path or URL.
    storage_options : dict
        Of deltalake.

    Raises
    ------
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

    @property
    def schema(self) -> pa.Schema:
        """Of the table as it is."""
        pa = import_pyarrow()
        return pa.schema([]) if self._delta is None else pa.schema(self._delta.schema())

    @property
    def has_rows(self) -> bool:
        """There is something to lose."""
        return self._delta is not None and self._delta.to_pyarrow_dataset().head(1).num_rows > 0

    def applied(self, app_id: str) -> int | None:
        """The last batch that was applied."""
        if self._delta is None:
            return None
        found: int | None = self._delta.transaction_version(app_id)
        return found

    def rows(self, keys: Sequence[str], wanted: Sequence[Key]) -> dict[Key, Row]:
        """Rows of the table by key."""
        import pyarrow.dataset as ds

        if self._delta is None or not wanted:
            return {}
        # Each column of the key by itself lets more rows through than are wanted: those go by batch. Text
        # is left to that: deltalake's statistics are string_view, which pyarrow cannot compare with string.
        filters = [
            ds.field(name).isin(list(set(values)))
            for name, values in zip(keys, zip(*wanted, strict=True), strict=True)
            if not any(isinstance(value, str) for value in values)
        ]
        wide = reduce(operator.and_, filters) if filters else None
        found: dict[Key, Row] = {}
        for batch in self._delta.to_pyarrow_dataset().to_batches(filter=wide):
            for row in with_keys(batch, keys, set(wanted)).to_pylist():
                found[tuple(row[name] for name in keys)] = row
        return found

    def check(self, checks: Sequence[Check]) -> None:
        """Hold the table's own values against what a new type leaves alone.

        Raises
        ------
        ApplyStopped
            A value would change.
        """
        names = set(self.schema.names)
        for check in checks:
            if check.column not in names:
                continue
            for batch in self._delta.to_pyarrow_dataset().to_batches(columns=[check.column]):
                for value in batch.column(0).unique().to_pylist():
                    if value is not None and not check.fits(value):
                        raise ApplyStopped(
                            f"alter of the table is not applied: {check.reason}", column=check.column
                        )

    def write(
        self, folded: Folded, keys: Sequence[str], schema: pa.Schema, app: tuple[str, int] | None
    ) -> None:
        """Write what changes were folded to, in one commit.

        Parameters
        ----------
        folded : Folded
            All rows whole.
        keys : sequence of str
        schema : pyarrow.Schema
            What the table is to have.
        app : (str, int) or None
            Kept in the commit.
        """
        here = self.schema
        if self._delta is None or folded.truncated or folded.values or _retyped(here, schema):
            self._rewrite(folded, keys, schema, app)
            return
        new = [field for field in schema if field.name not in here.names]
        if new:
            self._add_columns(new)
        if folded.rows or app is not None:
            self._merge(folded, keys, app)

    def _add_columns(self, fields: Sequence[pa.Field]) -> None:
        from deltalake import DeltaTable, Field, Schema

        pa = import_pyarrow()
        new = Schema.from_arrow(pa.schema(fields)).fields
        self._delta.alter.add_columns([Field(one.name, one.type, nullable=True) for one in new])
        self._delta = DeltaTable(self._path, storage_options=self._options)

    def _merge(self, folded: Folded, keys: Sequence[str], app: tuple[str, int] | None) -> None:
        pa = import_pyarrow()
        own = self.schema
        rows = [
            {**(dict(zip(keys, key, strict=True)) if row is None else row), _DELETES: row is None}
            for key, row in folded.rows.items()
        ]
        source = pa.Table.from_pylist(rows, schema=pa.schema([*own, pa.field(_DELETES, pa.bool_())]))
        merger = self._delta.merge(
            source,
            " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in keys),
            source_alias="s",
            target_alias="t",
            commit_properties=_properties(app),
        )
        columns = {quoted(name): f"s.{quoted(name)}" for name in own.names}
        deletes = f"s.{quoted(_DELETES)}"
        (
            merger.when_matched_delete(predicate=deletes)
            .when_matched_update(updates=columns, predicate=f"NOT {deletes}")
            .when_not_matched_insert(updates=columns, predicate=f"NOT {deletes}")
            .execute()
        )

    def _rewrite(
        self, folded: Folded, keys: Sequence[str], schema: pa.Schema, app: tuple[str, int] | None
    ) -> None:
        """The whole table anew: every row changes, or its type does."""
        from deltalake import write_deltalake

        arrow = import_pyarrow()
        schema = arrow.schema([*_merged(self.schema, schema)])

        # Opened here: deltalake cannot do it while it writes.
        kept = None if self._delta is None or folded.truncated else self._delta.to_pyarrow_dataset()

        def batches() -> Iterator[pa.RecordBatch]:
            if kept is not None:
                for batch in kept.to_batches():
                    yield rewritten(with_keys(batch, keys, folded.rows, others=True), schema, folded.values)
            rows = [row for row in folded.rows.values() if row is not None]
            if rows:
                yield from arrow.Table.from_pylist(rows, schema=schema).to_batches()

        write_deltalake(
            self._path if self._delta is None else self._delta,
            arrow.RecordBatchReader.from_batches(schema, batches()),
            mode="overwrite",
            schema_mode="overwrite",
            storage_options=self._options,
            commit_properties=_properties(app),
        )


def rewritten(batch: pa.RecordBatch, schema: pa.Schema, values: Mapping[str, Any]) -> pa.RecordBatch:
    """Rows of a target after an ALTER TABLE: each column from where `Folded.values` says."""
    pa = import_pyarrow()
    arrays = []
    for field in schema:
        source = values.get(field.name, From(field.name))
        if not isinstance(source, From):
            arrays.append(pa.repeat(pa.scalar(source, field.type), batch.num_rows))
        elif source.column in batch.schema.names:
            arrays.append(batch.column(source.column).cast(field.type))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def with_keys(
    batch: pa.RecordBatch, keys: Sequence[str], wanted: Collection[Key], *, others: bool = False
) -> pa.RecordBatch:
    """The rows of some keys; or all others."""
    pa = import_pyarrow()
    columns = [batch.column(name).to_pylist() for name in keys]
    kept = [(key in wanted) is not others for key in zip(*columns, strict=True)]
    return batch.filter(pa.array(kept, pa.bool_()))


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


def quoted(name: str) -> str:
    """A name in SQL."""
    return "`" + name.replace("`", "``") + "`"
