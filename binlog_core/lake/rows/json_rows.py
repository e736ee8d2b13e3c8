"""Rows of all tables in one DataFrame: before and after as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..._base.change_columns import DELETE, INSERT, LAKE_COLUMNS, LAKE_METADATA, POSTIMAGE, PREIMAGE
from ..._base.options import Images
from ..._core._values import JsonTexts, RowReader
from ..._decode.merge import ChangeReader
from ..._tables.tables import records_at_a_time
from ...batch.arrow_batch import change_column
from ...batch.change_batch import ChangeBatch
from ...errors import DecodeError
from ...report import Place
from .debezium import Envelopes
from .fit import CORRUPT, encode_compact, special_fields
from .images import metadata_column
from .ordinals import Ordinals
from .reader import SplitRows
from .types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ..._decode.group import Group

Documents = Literal["json", "variant", "debezium"]
_KINDS = ("", "insert", "update", "update", "delete")
_ROWS = 8192  # of a record batch: rows of JSON are large
_NONE = -1  # in place of a record's number
_MOST_TEXT = 2**31 - 1  # bytes: offsets of Arrow's strings have 32 bits


def all_tables_schema(
    metadata: Sequence[str] = LAKE_METADATA, *, corrupt: bool = True, documents: Documents = "json"
) -> pa.Schema:
    """The schema of all tables' rows.

    Parameters
    ----------
    metadata : sequence of str
        The columns about the change that were requested.
    corrupt : bool
        Whether there is a column for events that cannot be read.
    documents : "json", "variant" or "debezium"
        Whether before and after are text or VARIANT, or there are key and value as text instead.
    """
    pa = import_pyarrow()
    types = special_fields()
    names = [*LAKE_COLUMNS, *metadata]
    if corrupt:
        names.append(CORRUPT)
    document = _variant() if documents == "variant" else pa.string()
    names_of = ("key", "value") if documents == "debezium" else ("before", "after")
    return pa.schema(
        [
            ("_database", pa.string()),
            ("_table", pa.string()),
            *((name, document) for name in names_of),
            *((name, types[name]) for name in names),
        ]
    )


def _json_array(texts: JsonTexts) -> pa.Array:
    """Texts as an Arrow array; an empty one, which is not JSON, is null."""
    pa = import_pyarrow()
    offsets = texts.offsets()
    if offsets[-1] > _MOST_TEXT:
        raise DecodeError(f"{offsets[-1]} bytes of JSON in one batch: at most {_MOST_TEXT}")
    valid = np.packbits(np.diff(offsets) > 0, bitorder="little")
    buffers = [pa.py_buffer(one) for one in (valid, offsets.astype(np.int32), texts.joined())]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def _repeated(text: str, count: int) -> pa.Array:
    pa = import_pyarrow()
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _variant() -> pa.DataType:
    """The Arrow type that Spark takes for a VARIANT."""
    pa = import_pyarrow()
    marked = pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"})
    return pa.struct([pa.field("value", pa.binary(), nullable=False), marked])


class JsonRows:
    """Makes one row of each changed row.

    Parameters
    ----------
    schema : pyarrow.Schema
        Columns of `all_tables_schema`, in any order.
    images : "both", "after" or "keychange"
        Which row images become documents; see `select_images`.
    variant : callable or None
        Makes a VARIANT of a document's JSON text; None: documents stay text.
    """

    def __init__(
        self, schema: pa.Schema, images: Images, variant: Callable[[str], dict[str, bytes]] | None = None
    ) -> None:
        self._schema = schema
        self._names = [name.lower() for name in schema.names]
        self._images = images
        self._variant = variant
        self._texts = JsonTexts("compact", encode_compact)

    def read(self, reader: SplitRows) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        ordinals = Ordinals()
        base = reader.split.version_base
        for _, group in reader.noted_groups():
            batches = [batch for batch in group.batches if batch.table.undecodable is None]
            for batch in batches:
                reader.check_names(batch)
            yield from self._of_group(group, batches, ordinals.number(batches), reader)
            yield from self._damage(reader, base)
        yield from self._damage(reader, base)

    def _of_group(
        self, group: Group, batches: list[ChangeBatch], numbers: list[Any], reader: SplitRows
    ) -> Iterator[pa.RecordBatch]:
        for batch, ordinals in zip(batches, numbers, strict=True):
            yield from self._rows(batch, ordinals, reader)

    @staticmethod
    def _times(batch: ChangeBatch, reader: SplitRows) -> tuple[Any, Any, Any]:
        """Version and time of each record, and whether it is read; None: all are."""
        image = batch.array["image"]
        begins = batch.transactions["begin_position"][image["transaction"]]
        versions = begins.astype(np.int64) + reader.split.version_base
        times = change_column(batch, "_commit_timestamp", None).values
        return *reader.xa.change(begins, versions, times), reader.kept(image, begins)

    def _rows(self, batch: ChangeBatch, ordinals: Any, reader: SplitRows) -> Iterator[pa.RecordBatch]:
        pa = import_pyarrow()
        image = batch.array["image"]
        versions, times, keep = self._times(batch, reader)
        # An update is one row, at its postimage; it has the number of its preimage, where its change began.
        rows = np.flatnonzero(image["op"] != PREIMAGE)
        rows = rows if keep is None else rows[keep[rows]]
        records = RowReader(batch)
        step = min(_ROWS, records_at_a_time(batch.columns))
        for at in range(0, len(rows), step):
            part = rows[at : at + step]
            ops = image["op"][part]
            updates = ops == POSTIMAGE
            transaction = image["transaction"][part]
            columns: dict[str, Any] = {
                "_database": _repeated(batch.table.database, len(part)),
                "_table": _repeated(batch.table.name, len(part)),
                "before": self._before(records, part, ops),
                "after": self._after(records, part, ops),
                "_change_type": pa.array(_KINDS).take(pa.array(ops)),
                "_commit_version": versions[part],
                "_commit_timestamp": times[part],
                "_change_ordinal": ordinals[part] - updates,
                "_position": image["position"][part].astype(np.int64),
                "_server_id": image["server_id"][part].astype(np.int64),
            }
            for name in ("_gtid", "_file", "_xid"):
                if name in self._names:
                    columns[name] = metadata_column(batch, name, transaction)
            if self._variant is not None:
                for name in ("before", "after"):
                    if name in self._names:
                        texts = columns[name].to_pylist()
                        columns[name] = [None if one is None else self._variant(one) for one in texts]
            yield self._batch(columns, len(part))

    def _batch(self, columns: dict[str, Any], count: int) -> pa.RecordBatch:
        pa = import_pyarrow()
        arrays = []
        for name, field in zip(self._names, self._schema, strict=True):
            values = columns.get(name)
            if values is None:
                values = pa.nulls(count, field.type)
            arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _before(self, records: RowReader, part: NDArray[np.intp], ops: NDArray[np.uint8]) -> pa.Array | None:
        if "before" not in self._names:
            return None
        none = ops == INSERT if self._images == "both" else ops != DELETE
        return self._documents(records, np.where(none, _NONE, part - (ops == POSTIMAGE)))

    def _after(self, records: RowReader, part: NDArray[np.intp], ops: NDArray[np.uint8]) -> pa.Array | None:
        if "after" not in self._names:
            return None
        # What an image after an update lacks comes from the one before it.
        merged = None if self._images == "both" else np.where(ops == POSTIMAGE, part - 1, _NONE)
        return self._documents(records, np.where(ops == DELETE, _NONE, part), merged)

    def _documents(
        self, records: RowReader, chosen: NDArray[np.int64], bases: NDArray[np.int64] | None = None
    ) -> pa.Array:
        """Records as JSON; null for _NONE."""
        self._texts.clear()
        self._texts.add_objects(records, chosen, bases)
        return _json_array(self._texts)

    def _damage(self, reader: SplitRows, base: int) -> Iterator[pa.RecordBatch]:
        damaged = reader.report.take_damaged()
        if CORRUPT in self._names:
            for place in damaged:
                yield self._single(place, reader.split.name, base)

    def _single(self, place: Place, path: str, base: int) -> pa.RecordBatch:
        pa = import_pyarrow()
        damage = {"file": path, "offset": place.offset, "reason": place.detail}
        values = {
            "_commit_version": base + (place.offset or 0),
            "_file": path,
            "_position": place.offset,
            CORRUPT: json.dumps(damage),
        }
        arrays = [
            pa.array([values.get(name)], field.type)
            for name, field in zip(self._names, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class DebeziumRows(JsonRows):
    """Makes one row of each of Debezium's change events, in log order."""

    def read(self, reader: SplitRows) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        self._envelopes: Envelopes | None = None
        self._changes = ChangeReader(reader.report, skip_errors=reader.options.on_error == "skip")
        yield from super().read(reader)

    def _of_group(
        self, group: Group, batches: list[ChangeBatch], numbers: list[Any], reader: SplitRows
    ) -> Iterator[pa.RecordBatch]:
        pa = import_pyarrow()
        if self._envelopes is None:
            self._envelopes = Envelopes(mariadb=reader.format is not None and reader.format.is_mariadb)
        found = [(batch, *self._times(batch, reader)) for batch in batches]
        kept = {id(batch): keep for batch, _, _, keep in found}
        columns = self._columns(found, numbers) if found else {}
        begins = np.cumsum([0, *map(len, batches)])
        with self._changes.readers(group) as readers:
            for events in self._envelopes.of(group.path, readers, lambda batch: kept[id(batch)]):
                records = pa.array(begins[events.batch] + events.record)
                some = {name: values.take(records) for name, values in columns.items()}
                some |= {"key": _json_array(events.keys), "value": _json_array(events.values)}
                yield self._batch(some, len(records))

    def _columns(self, found: list[tuple[ChangeBatch, Any, Any, Any]], numbers: list[Any]) -> dict[str, Any]:
        """The columns about the change, of all records of the batches."""
        pa = import_pyarrow()
        types = {field.name.lower(): field.type for field in self._schema}
        parts: dict[str, list[Any]] = {}
        for (batch, versions, times, _), ordinals in zip(found, numbers, strict=True):
            image = batch.array["image"]
            its = {
                "_database": _repeated(batch.table.database, len(image)),
                "_table": _repeated(batch.table.name, len(image)),
                "_change_type": pa.array(_KINDS).take(pa.array(image["op"])),
                "_commit_version": versions,
                "_commit_timestamp": times,
                "_change_ordinal": ordinals,
                "_position": image["position"].astype(np.int64),
                "_server_id": image["server_id"].astype(np.int64),
            }
            for name in ("_gtid", "_file", "_xid"):
                if name in self._names:
                    its[name] = metadata_column(batch, name, image["transaction"])
            for name, values in its.items():
                if name in types:
                    made = values if isinstance(values, pa.Array) else pa.array(values, types[name])
                    parts.setdefault(name, []).append(made)
        return {name: pa.concat_arrays(arrays) for name, arrays in parts.items()}
