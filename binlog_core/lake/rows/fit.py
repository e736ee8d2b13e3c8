"""Rows of any definition of a table into the one schema that a DataFrame has."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..._base.change_columns import ABSENT, LAKE_COLUMNS, LAKE_METADATA
from ..._base.json_text import JsonText
from ..._tables.tables import Table
from ...errors import SchemaError
from ...report import Place
from ...splits import Split
from .observers import LoggedStatement
from .reader import Chunk
from .types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

OnSchemaChange = Literal["fail", "ignore", "rescue"]
RESCUED = "_rescued"
CORRUPT = "_corrupt"
STATEMENT = "_statement"
SPECIAL = (*LAKE_COLUMNS, ABSENT, *LAKE_METADATA, RESCUED, CORRUPT, STATEMENT)


def special_fields() -> dict[str, pa.DataType]:
    """The types of the columns that are not the table's own."""
    pa = import_pyarrow()
    text, number, names = pa.string(), pa.int64(), pa.list_(pa.field("element", pa.string()))
    change = (text, number, pa.timestamp("us", "UTC"), number)
    metadata = (text, text, number, number, number)
    return dict(zip(SPECIAL, (*change, names, *metadata, text, text, text), strict=True))


@dataclass(frozen=True)
class FrameSchema:
    """The schema of a DataFrame of one table.

    Parameters
    ----------
    table : str
        The table, as ``database.table``.
    schema : pyarrow.Schema
        The Arrow schema that Spark makes from its own.
    projected : bool
        Whether the user gave it: columns that it does not name are not wanted then.
    on_schema_change : "fail", "ignore" or "rescue"
        What to do with columns and values that do not fit.
    require_absent : bool
        Whether a row image that lacks columns is an error if there is no `_absent`.
    """

    table: str
    schema: pa.Schema
    projected: bool
    on_schema_change: OnSchemaChange
    require_absent: bool


class _Column(NamedTuple):
    field: pa.Field
    place: int | None  # in the chunk's batch; None: the definition has no such column
    cast: bool
    narrow: bool = False  # it holds only some of the values


class _Fit(NamedTuple):
    columns: list[_Column]
    rescued: list[int]  # columns of the chunk's batch that go to `_rescued`
    narrow: dict[int, pa.DataType | None]  # types that hold only some of the values; None: no value


class Fitter:
    """Makes record batches of a target's schema.

    Parameters
    ----------
    target : FrameSchema
        The schema.
    """

    def __init__(self, target: FrameSchema) -> None:
        self.target = target
        self._fits: dict[int, tuple[Table, _Fit]] = {}  # by id of the table, which the entry keeps alive
        self._types = special_fields()

    def rows(self, chunk: Chunk) -> pa.RecordBatch:
        """The rows of a chunk, in the target's columns.

        Raises
        ------
        SchemaError
            The definition does not fit, or an image lacks columns without `_absent`.
        """
        pa = import_pyarrow()
        fit = self._fit(chunk)
        names = {name.lower() for name in self.target.schema.names}
        absent: Any = None
        if ABSENT in names or self.target.require_absent:
            absent = chunk.absent()
            if ABSENT not in names and absent is not None and absent.null_count < len(absent):
                raise self._error(
                    "a row image lacks columns (binlog_row_image is not FULL): absent=true adds a column"
                    " _absent that lists them, absent=false writes null",
                    chunk,
                )
        arrays = []
        for field, index, cast, narrow in fit.columns:
            name = field.name.lower()
            if name == ABSENT:
                array = absent
            elif name == RESCUED:
                array = self._rescued(chunk, fit)
            elif index is None:
                array = pa.nulls(chunk.batch.num_rows, field.type)
            else:
                array = chunk.batch.column(index)
                if narrow:
                    array = _where(array, held(array, field.type))
                if cast:
                    array = array.cast(field.type)
            if not field.nullable and array.null_count:
                raise self._error(
                    "null in a column that the given schema declares NOT NULL", chunk, field.name
                )
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.target.schema)

    def statement(self, statement: LoggedStatement, split: Split, kind: str) -> pa.RecordBatch:
        """A row for a statement; `kind` is its `_change_type`."""
        return self._single(
            {
                "_change_type": kind,
                "_commit_version": split.version_base + statement.transaction,
                "_commit_timestamp": _moment(statement.timestamp),
                "_change_ordinal": statement.ordinal,
                "_file": split.name,
                "_position": statement.position,
                STATEMENT: statement.sql,
            }
        )

    def damage(self, place: Place, split: Split) -> pa.RecordBatch:
        """A row for an event that cannot be read."""
        damage = {"file": split.name, "offset": place.offset, "reason": place.detail}
        return self._single(
            {
                "_commit_version": split.version_base + (place.offset or 0),
                "_file": split.name,
                "_position": place.offset,
                CORRUPT: json.dumps(damage),
            }
        )

    def _single(self, values: Mapping[str, Any]) -> pa.RecordBatch:
        pa = import_pyarrow()
        schema = self.target.schema
        arrays = [pa.array([values.get(field.name.lower())], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    # ------------------------------------------------------------ one definition

    def _fit(self, chunk: Chunk) -> _Fit:
        found = self._fits.get(id(chunk.table))
        if found is None:
            found = self._fits[id(chunk.table)] = (chunk.table, self._new_fit(chunk))
        return found[1]

    def _new_fit(self, chunk: Chunk) -> _Fit:
        target = self.target
        own = chunk.batch.schema
        by_name = places_by_name(own.names)
        columns: list[_Column] = []
        used: set[int] = set()
        rescued: list[int] = []
        narrow: dict[int, pa.DataType | None] = {}
        for field in target.schema:
            index = by_name.get(field.name, by_name.get(field.name.lower()))
            if index is None or field.name.lower() in (ABSENT, RESCUED):
                columns.append(_Column(field, None, False))
                continue
            used.add(index)
            here = own.field(index).type
            if here != field.type and not widened(here, field.type):
                if target.on_schema_change == "fail":
                    raise self._error(
                        f"the column is {here} in the log, which does not fit {field.type}: give a wider type"
                        " in the schema, or onSchemaChange=rescue",
                        chunk,
                        field.name,
                    )
                rescued.append(index)
                some = narrows(here, field.type)
                narrow[index] = field.type if some else None
                columns.append(_Column(field, index if some else None, True, some))
                continue
            columns.append(_Column(field, index, here != field.type))
        for index, name in enumerate(own.names):
            if index in used or name in LAKE_COLUMNS or name in LAKE_METADATA:
                continue
            if target.on_schema_change == "fail" and not target.projected:
                raise self._error(
                    "the table's definition changed, and the DataFrame lacks the column: expected"
                    " onSchemaChange=ignore"
                    " or rescue, mergeSchema=true, or a schema that names the wanted columns",
                    chunk,
                    name,
                )
            rescued.append(index)
        for name in own.names[: len(chunk.source.columns)]:
            if name.lower() in SPECIAL and name.lower() in (n.lower() for n in target.schema.names):
                raise self._error("a column of the table has the name of a change column", chunk, name)
        return _Fit(columns, rescued, narrow)

    def _rescued(self, chunk: Chunk, fit: _Fit) -> pa.Array:
        """JSON of values that the columns cannot hold: unknown columns, misfits, invalid dates."""
        pa = import_pyarrow()
        count = chunk.batch.num_rows
        found: list[dict[str, Any] | None] = [None] * count
        for index in fit.rescued:
            name, values = chunk.batch.schema.field(index).name, chunk.batch.column(index)
            kind = fit.narrow.get(index)
            stays = values.is_null() if index in fit.narrow else None  # any column holds a null
            if kind is not None:
                stays = held(values, kind).fill_null(True)
            for row, value in enumerate(values.to_pylist()):
                if stays is None or not stays[row].as_py():
                    found[row] = {**(found[row] or {}), name: value}
        if len(chunk.source.invalid):
            for row, name, text in _invalid_dates(chunk):
                found[row] = {**(found[row] or {}), name: text}
        return pa.array([None if values is None else to_json(values) for values in found], pa.string())

    def _error(self, message: str, chunk: Chunk, column: str | None = None) -> SchemaError:
        return SchemaError(
            message,
            path=chunk.source.path,
            offset=chunk.first_position,
            table=chunk.table.full_name,
            column=column,
        )


def places_by_name(names: Iterable[str]) -> dict[str, int]:
    """Places by name, and by the lower-case name if only one name has it: Spark ignores case."""
    places: dict[str, int] = {}
    small: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        places[name] = i
        small.setdefault(name.lower(), []).append(i)
    for name, found in small.items():
        if len(found) == 1:
            places.setdefault(name, found[0])
    return places


def _invalid_dates(chunk: Chunk) -> list[tuple[int, str, str]]:
    batch = chunk.source
    rows = np.arange(len(batch)) if chunk.rows is None else chunk.rows
    place = {int(record): row for row, record in enumerate(rows)}
    names = {column.index: column.name for column in batch.columns}
    found = []
    for record, index, text in batch.invalid_dates.tolist():
        if index not in names:
            continue
        if record in place:
            found.append((place[record], names[index], text))
        if chunk.filled and record + 1 in place and batch.array["image"]["op"][record] == 2:
            bitmap = batch.array["image"]["absent_bitmap"][record + 1]
            if bitmap[index // 8] >> index % 8 & 1:
                found.append((place[record + 1], names[index], text))
    return found


def widened(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the target type can hold every value of the source type."""
    pa = import_pyarrow()
    types = pa.types
    if source == target or types.is_null(source):
        return True
    if types.is_signed_integer(source):
        if types.is_signed_integer(target):
            return bool(target.bit_width >= source.bit_width)
        if types.is_decimal(target):
            digits = {8: 3, 16: 5, 32: 10, 64: 19}[source.bit_width]
            return bool(target.precision - target.scale >= digits)
        if types.is_floating(target):
            return bool(source.bit_width < (64 if types.is_float64(target) else 32))
        return bool(types.is_string(target))
    if types.is_decimal(source):
        if types.is_decimal(target):
            return bool(
                target.scale >= source.scale
                and target.precision - target.scale >= source.precision - source.scale
            )
        return False
    if types.is_float32(source):
        return bool(types.is_float64(target))
    if types.is_date32(source):
        return bool(types.is_timestamp(target) and target.tz is None)
    return bool(types.is_string(source) and types.is_binary(target))


def narrows(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the target type can hold some values of the source type: both whole numbers."""
    types = import_pyarrow().types
    whole = types.is_signed_integer(source) or (types.is_decimal(source) and not source.scale)
    return bool(whole and types.is_signed_integer(target))


def held(values: pa.Array, target: pa.DataType) -> pa.Array:
    """For each integer, whether it fits a narrower integer type; null for null."""
    import pyarrow.compute as pc

    pa = import_pyarrow()
    most = (1 << target.bit_width - 1) - 1
    bounds = [pa.scalar(Decimal(bound), pa.decimal128(38, 0)) for bound in (-most - 1, most)]
    numbers = values.cast(pa.decimal128(38, 0))
    return pc.and_(pc.greater_equal(numbers, bounds[0]), pc.less_equal(numbers, bounds[1]))


def _where(values: pa.Array, wanted: pa.Array) -> pa.Array:
    """The values, null where they are not wanted."""
    import pyarrow.compute as pc

    return pc.if_else(wanted, values, import_pyarrow().scalar(None, values.type))


def to_json(values: Any) -> str:
    """JSON of Python values; numbers without loss, bytes in base64, times in ISO 8601."""
    return encode_compact(values).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)  # as a TIME column has it
    if isinstance(value, dt.date):
        return value.isoformat()
    raise TypeError(type(value).__name__)


encode_compact = JsonText(default=_plain, separators=(",", ":")).encode


def _moment(seconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
