"""Batches for any library that speaks the Arrow PyCapsule interface; no Arrow library is needed here."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, Unpack

import numpy as np

from ._core._capsules import schema_capsule, stream_capsule
from ._core._columns import array_address, export_batch
from ._decode.gtid_selection import gtid_text
from ._tables.tables import Column, Table, record_dtype
from ._tables.widening import converted, type_name, wider
from .arrow.shapes import IMAGE_COLUMNS, OP_LABELS, pyarrow_schema, shape_of
from .arrow.text import TextErrors
from .arrow.types import (
    ArrowField,
    ChangeColumn,
    Geometry,
    StreamOptions,
    Vectors,
    WideDecimals,
    arrow_field,
    struct_field,
)
from .errors import DecodeError, MissingExtraError, SchemaError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from numpy.typing import NDArray

    from ._walk.track import Tail
    from .arrow.types import Rows
    from .batch import ChangeBatch
    from .passes import Pass
    from .report import Report

NO_POLARS = "to_polars() needs polars: pip install polars"
NewColumns = Literal["raise", "drop"]

DEFAULT_CHANGE_COLUMNS = ("_change_type", "_commit_timestamp", "_position", "_row")
CHANGE_COLUMNS = (
    "_change_type",
    "_commit_timestamp",
    "_timestamp",
    "_server_id",
    "_file",
    "_position",
    "_row",
    "_gtid",
    "_transaction",
)


class ArrowBatch:
    """A batch as Arrow columns, with options; ``batch.export()`` makes it.

    Columns are made when a library asks, anew each time: the interface gives them away.

    Parameters
    ----------
    batch : ChangeBatch
    change_columns, extras, rows, fill_absent, text_errors, vectors, wide_decimals, geometry
        As in ``ChangeBatch.export``.
    columns : sequence of Column or None
        The columns wanted; None: those of the batch. One that the records do not have is all null.
    """

    def __init__(
        self,
        batch: ChangeBatch,
        *,
        change_columns: bool | str | Sequence[str] = True,
        extras: Sequence[ChangeColumn] = (),
        rows: Rows | None = None,
        fill_absent: bool = False,
        text_errors: TextErrors = "raise",
        vectors: Vectors = "fixed",
        wide_decimals: WideDecimals = "decimal256",
        geometry: Geometry = "struct",
        columns: Sequence[Column] | None = None,
    ) -> None:
        self.batch = batch
        self.columns = batch.value_columns if columns is None else tuple(columns)
        self.rows = rows = None if rows is None else record_numbers(rows, len(batch))
        self.fill_absent = fill_absent
        self.text_errors: TextErrors = text_errors
        if text_errors not in ("raise", "replace", "binary"):
            raise ValueError(f"text_errors={text_errors!r}: raise, replace and binary are known")
        if geometry not in ("struct", "ewkb"):
            raise ValueError(f"geometry={geometry!r}: struct and ewkb are known")
        if vectors not in ("fixed", "list"):
            raise ValueError(f"vectors={vectors!r}: fixed and list are known")
        if wide_decimals not in ("decimal256", "text"):
            raise ValueError(f"wide_decimals={wide_decimals!r}: decimal256 and text are known")
        if isinstance(change_columns, str):
            change_columns = (change_columns,)
        names = DEFAULT_CHANGE_COLUMNS if change_columns is True else tuple(change_columns or ())
        # The core makes those that come first, as far as they are in the records.
        made = 0
        while made < len(names) and names[made] in IMAGE_COLUMNS:
            made += 1
        self._shape = shape_of(batch, self.columns, names[:made], vectors, wide_decimals, geometry)
        self._made = names[:made]
        self._extras = (*[change_column(batch, name, rows) for name in names[made:]], *extras)
        own = self._shape.names
        if not own.isdisjoint(names) or not own.isdisjoint([extra.name for extra in extras]):
            raise SchemaError(
                "the table has a column of this name: choose other change_columns",
                path=batch.path,
                table=batch.table.full_name,
                column=next(name for name in (*names, *[extra.name for extra in extras]) if name in own),
            )

    @cached_property
    def change_columns(self) -> tuple[ChangeColumn, ...]:
        """The columns that follow the table's own."""
        made = [change_column(self.batch, name, self.rows) for name in self._made]
        return (*made, *self._extras)

    def fields(self) -> tuple[ArrowField, ...]:
        """The fields of the schema.

        Raises
        ------
        DecodeError
            text_errors is "binary", so that values decide, and one cannot be of its type.
        """
        if self.text_errors == "binary":
            return self.export()[0]
        return (*self._shape.layout.fields, *(extra.field for extra in self._extras))

    def export(self) -> tuple[tuple[ArrowField, ...], object]:
        """Fields, and the columns in a capsule named "arrow_array"; errors as in ``ChangeBatch.export``."""
        batch = self.batch
        try:
            return export_batch(
                self._shape.layout,
                batch.array,
                batch.buffer,
                rows=self.rows,
                fill_absent=self.fill_absent,
                text_errors=self.text_errors,
                documents=json_documents(batch),
                extras=self._extras,
                transactions=batch.transactions,
                most=batch.arrow_bytes,
            )
        except DecodeError as error:
            raise error.located(path=batch.path, table=batch.table.full_name) from error.__cause__

    def to_pyarrow(self) -> pyarrow.RecordBatch:
        """The columns for pyarrow, which is installed; errors as in ``ChangeBatch.export``."""
        import pyarrow

        fields, array = self.export()
        schema = self._shape.schema if fields is self._shape.layout.fields else pyarrow_schema(fields)
        # As pyarrow.record_batch(self), without the schema made anew, which takes longer than a small batch.
        return pyarrow.RecordBatch._import_from_c(array_address(array), schema)

    def __arrow_c_schema__(self) -> object:
        """The schema, as PyCapsule."""
        return schema_capsule(struct_field(self.fields()))

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Schema and array, as PyCapsules; a requested schema is not followed."""
        fields, array = self.export()
        return schema_capsule(struct_field(fields)), array

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of this one batch, as PyCapsule; a requested schema is not followed."""
        fields, array = self.export()
        return stream_capsule(struct_field(fields), iter((array,)))


def record_numbers(rows: Rows, count: int) -> NDArray[np.intp]:
    """Numbers of the records that `rows` chooses among `count`.

    Raises
    ------
    TypeError
        It is neither numbers nor a mask.
    IndexError
        A mask of another length, or a number that no record has.
    """
    given = np.asarray(rows)
    if given.ndim != 1:
        raise TypeError(f"rows= takes one dimension, not {given.ndim}")
    if given.dtype == bool:
        if len(given) != count:
            raise IndexError(f"rows: a mask of {len(given)} for {count} records")
        return np.flatnonzero(given)
    if not len(given):
        return np.empty(0, np.intp)
    if given.dtype.kind not in "iu":
        raise TypeError(f"rows= takes whole numbers or a mask of booleans, not {given.dtype}")
    if given.min() < 0 or given.max() >= count:
        raise IndexError(f"rows: the records are 0 to {count - 1}")
    return given.astype(np.intp, copy=False)


class Batches(Iterator["ChangeBatch"]):
    """Row changes as batches, and those of one table as a whole: Arrow stream, table or data frame.

    Nothing is read before it is asked for. ``next(batches)`` and a loop go on where the last one stopped; a
    loop that begins after the last batch was given reads the log anew. Everything else (`to_arrow`,
    `to_pandas`, `to_polars`, `stream`, and libraries that take the Arrow stream) gives all batches from the
    first one on, as often as it is asked for, whatever was looped over before. What can be read only once,
    such as a pipe, says so when it is asked a second time.

    Parameters
    ----------
    read : callable
        Gives a pass of ChangeBatch, from the beginning.
    of : str
        Which tables and logs, for people.
    """

    def __init__(self, read: Callable[[], Pass[ChangeBatch]], of: str = "") -> None:
        self._read = read
        self._of = of
        self._pass: Iterator[ChangeBatch] | None = None
        self._latest: Pass[ChangeBatch] | None = None
        self._first: ChangeBatch | None = None  # looked at, not given yet
        self._begun = False  # a batch of the pass was given
        self._ended = False

    def __repr__(self) -> str:
        state = "read to the end" if self._ended else "partly read" if self._begun else "not read yet"
        return f"<Batches{f' of {self._of}' if self._of else ''}: {state}>"

    def _repr_html_(self) -> str:
        calls = "for batch in batches, .to_pandas(), .to_polars(), .to_arrow()"
        return f"<p>{html.escape(repr(self)[1:-1])}<br><small>{html.escape(calls)}</small></p>"

    def __iter__(self) -> Self:
        if self._ended:
            self._pass, self._begun, self._ended = None, False, False
        return self

    def __next__(self) -> ChangeBatch:
        self._begun = True
        if (first := self._first) is not None:
            self._first = None
            return first
        try:
            return next(
                self._pass or self._started()
            )  # without a call: there may be thousands of small batches
        except StopIteration:
            self._ended = True
            raise

    def to_arrow(
        self,
        *,
        columns: Sequence[Column] | None = None,
        new_columns: NewColumns = "raise",
        **options: Unpack[StreamOptions],
    ) -> pyarrow.Table:
        """All batches of one table as ``pyarrow.Table``.

        Parameters
        ----------
        columns, new_columns, **options
            As in `stream`.

        Raises
        ------
        MissingExtraError
            pyarrow is not installed.
        SchemaError
            The batches are of more than one table, or there is none, or as in :func:`batch_stream`.
        BinlogError
            As reading the log does.
        """
        try:
            import pyarrow
        except ImportError:
            raise MissingExtraError.of("pyarrow", "arrow", "to_arrow()") from None
        fields, parts = self.stream(columns=columns, new_columns=new_columns, **options).parts()
        return pyarrow.Table.from_batches([part.to_pyarrow() for part in parts], pyarrow_schema(fields))

    def to_pandas(
        self,
        *,
        columns: Sequence[Column] | None = None,
        new_columns: NewColumns = "raise",
        **options: Unpack[StreamOptions],
    ) -> pandas.DataFrame:
        """All batches of one table as ``pandas.DataFrame`` with Arrow-backed columns.

        Parameters
        ----------
        columns, new_columns, **options
            As in `stream`.

        Raises
        ------
        MissingExtraError
            pandas or pyarrow is not installed.
        SchemaError, BinlogError
            As in `to_arrow`.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtraError.of("pandas", "pandas", "to_pandas()") from None
        table = self.to_arrow(columns=columns, new_columns=new_columns, **options)
        return table.to_pandas(types_mapper=pandas.ArrowDtype)

    def to_polars(
        self,
        *,
        columns: Sequence[Column] | None = None,
        new_columns: NewColumns = "raise",
        **options: Unpack[StreamOptions],
    ) -> polars.DataFrame:
        """All batches of one table as ``polars.DataFrame``; needs no pyarrow.

        Parameters
        ----------
        columns, new_columns, **options
            As in `stream`; DECIMAL of more than 38 digits, which polars does not have, is text.

        Raises
        ------
        MissingExtraError
            polars is not installed.
        SchemaError, BinlogError
            As in `to_arrow`.
        """
        try:
            import polars
        except ImportError:
            raise MissingExtraError(NO_POLARS) from None
        options.setdefault("wide_decimals", "text")
        fields, parts = self.stream(columns=columns, new_columns=new_columns, **options).parts()
        frames = [polars.DataFrame(part) for part in parts]
        return polars.concat(frames) if frames else polars.DataFrame(NoRows(fields))

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        # pandas.DataFrame(batches) asks for this; without it, it would make a frame of two cells.
        raise TypeError(
            "batches are not an array: to_pandas(), to_arrow() and to_polars() give the rows of one table,"
            " batch.array the records of each batch"
        )

    def __arrow_c_schema__(self) -> object:
        """The stream's schema, as PyCapsule; reads the first batch."""
        return self.stream().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The batches as :func:`batch_stream` with its defaults."""
        return self.stream().__arrow_c_stream__(requested_schema)

    def stream(
        self,
        *,
        columns: Sequence[Column] | None = None,
        new_columns: NewColumns = "raise",
        **options: Unpack[StreamOptions],
    ) -> ArrowStream:
        """All batches of one table as Arrow stream, with options.

        Parameters
        ----------
        columns, new_columns, **options
            As in :func:`batch_stream`.
        """
        return ArrowStream(self, columns=columns, new_columns=new_columns, **options)

    def peek(self) -> ChangeBatch | None:
        """The batch that comes next, which then still comes; None: there is none."""
        if self._first is None and not self._ended:
            self._first = next(self._started(), None)
        return self._first

    def take(self) -> Iterator[ChangeBatch]:
        """All from the first one on; what was looked at only is not read again."""
        if self._begun or self._ended:
            self._latest = self._read()
            return iter(self._latest)
        every = chain(() if self._first is None else (self._first,), self._started())
        self._first = self._pass = None
        return every

    def defined_columns(self) -> tuple[Column, ...] | None:
        """Of a table without rows, where ``schema=`` defines it and no other that is wanted; else None."""
        tables = [columns for _, columns in self._told().defined()]
        return tables[0] if len(tables) == 1 else None

    def _started(self) -> Iterator[ChangeBatch]:
        if self._pass is None:
            self._latest = self._read()
            self._pass = iter(self._latest)
        return self._pass

    @property
    def report(self) -> Report:
        """What the pass over the log did not find told, skipped or lost, so far."""
        return self._told().report

    @property
    def tail(self) -> Tail | None:
        """Where and why the pass over the log ended inside an event."""
        return self._told().tail

    def close(self) -> None:
        """End the pass early. Batches stay valid."""
        self._told().close()

    def _told(self) -> Pass[ChangeBatch]:
        if self._latest is None:
            self._started()
        assert self._latest is not None
        return self._latest


class ArrowStream:
    """Batches as Arrow stream, with options; ``batches.stream()`` makes it.

    Parameters
    ----------
    batches : Batches
    columns, new_columns, **options
        As in :func:`batch_stream`.

    Raises
    ------
    TypeError, ValueError
        An option is not one of a stream.
    """

    def __init__(
        self,
        batches: Batches,
        *,
        columns: Sequence[Column] | None = None,
        new_columns: NewColumns = "raise",
        **options: Unpack[StreamOptions],
    ) -> None:
        check_stream_options(new_columns, options)
        self.batches = batches
        self.columns = columns
        self.new_columns: NewColumns = new_columns
        self.options = options

    def parts(self) -> tuple[tuple[ArrowField, ...], Iterator[ArrowBatch]]:
        """The fields of the schema, and the batches as Arrow columns; errors as :func:`batch_stream`."""
        return stream_parts(
            self.batches.take(), self.columns, self.new_columns, self.options, self.batches.defined_columns
        )

    def __arrow_c_schema__(self) -> object:
        """The schema, as PyCapsule; reads the first batch."""
        first = self.batches.peek()
        columns = self.columns
        if first is None and columns is None:
            columns = self.batches.defined_columns()
        return schema_capsule(struct_field(_stream_fields(first, columns, self.options)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream, as PyCapsule; a requested schema is not followed."""
        fields, parts = self.parts()
        return stream_capsule(struct_field(fields), (part.export()[1] for part in parts))


def batch_stream(
    batches: Iterable[ChangeBatch],
    *,
    columns: Sequence[Column] | None = None,
    new_columns: NewColumns = "raise",
    **options: Unpack[StreamOptions],
) -> object:
    """Batches of one table as one Arrow stream.

    The schema is that of the first batch's columns, or of `columns`; columns of later definitions are
    mapped by name, and one that a definition lacks is null.

    Parameters
    ----------
    batches : iterable of ChangeBatch
        Read as the stream is.
    columns : sequence of Column or None
    new_columns : "raise" or "drop"
        A column that the stream's schema does not have.
    **options
        As in ``ChangeBatch.export``, except `rows` and `extras`, which are of one batch, and
        text_errors="binary": a stream has one schema.

    Returns
    -------
    PyCapsule
        Named "arrow_array_stream". Errors while reading reach the consumer as its own, with our message.

    Raises
    ------
    SchemaError
        There is no batch, and `columns` is not given; a change column is unknown. While reading: a batch is
        of another table, or of another type in one of the columns.
    BinlogError
        What reading the first batch raises.
    """
    check_stream_options(new_columns, options)
    fields, parts = stream_parts(batches, columns, new_columns, options)
    return stream_capsule(struct_field(fields), (part.export()[1] for part in parts))


def check_stream_options(new_columns: str, options: StreamOptions) -> None:
    """Refuse what is not an option of a stream.

    Raises
    ------
    TypeError, ValueError
    """
    for name in options:
        if name not in StreamOptions.__annotations__:
            raise TypeError(
                f"{name!r} is not an option of a stream: expected {', '.join(StreamOptions.__annotations__)}"
            )
    if options.get("text_errors") == "binary":
        raise ValueError("text_errors='binary' changes the schema with the values: not in a stream")
    if new_columns not in ("raise", "drop"):
        raise ValueError(f"new_columns={new_columns!r}: raise and drop are known")


def stream_parts(
    batches: Iterable[ChangeBatch],
    columns: Sequence[Column] | None,
    new_columns: NewColumns,
    options: StreamOptions,
    defined: Callable[[], tuple[Column, ...] | None] = lambda: None,
) -> tuple[tuple[ArrowField, ...], Iterator[ArrowBatch]]:
    """The fields of a stream, and its batches as Arrow columns; see :func:`batch_stream`.

    Parameters
    ----------
    defined : callable
        Gives the columns where there is no batch.
    """
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None and columns is None:
        columns = defined()
    fields = _stream_fields(first, columns, options)
    wanted = tuple(first.value_columns if columns is None and first is not None else columns or ())

    def parts() -> Iterator[ArrowBatch]:
        batch = first
        table = first.table.full_name if first is not None else None
        while batch is not None:
            if batch.table.full_name != table:
                raise SchemaError(
                    f"a stream holds one table, {table}: name it in batches()",
                    path=batch.path,
                    table=batch.table.full_name,
                )
            part, own = fitted(wanted, batch, drop=new_columns == "drop")
            yield ArrowBatch(part, columns=own, **options)
            batch = next(iterator, None)

    return fields, parts()


class NoRows:
    """An Arrow stream without a batch.

    Parameters
    ----------
    fields : tuple of ArrowField
    """

    def __init__(self, fields: tuple[ArrowField, ...]) -> None:
        self._fields = fields

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(struct_field(self._fields))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return stream_capsule(struct_field(self._fields), iter(()))


def _stream_fields(
    first: ChangeBatch | None, columns: Sequence[Column] | None, options: StreamOptions
) -> tuple[ArrowField, ...]:
    if columns is None:
        if first is None:
            raise SchemaError(
                "no row changes of the table, so its columns are unknown: schema= with its definition, or"
                " columns=, gives them"
            )
        columns = first.value_columns
    return ArrowBatch(first or _empty_batch(tuple(columns)), columns=columns, **options).fields()


def change_column(batch: ChangeBatch, name: str, rows: NDArray[np.integer[Any]] | None) -> ChangeColumn:
    """One of CHANGE_COLUMNS for the records of a batch that are exported; SchemaError for any other name."""
    image = batch.array["image"] if rows is None else batch.array["image"][rows]
    if name == "_change_type":
        return ChangeColumn(name, image["op"], labels=OP_LABELS)
    if name == "_commit_timestamp":
        return ChangeColumn(name, _commit_times(batch, image["transaction"]), utc=True)
    if name == "_timestamp":
        return ChangeColumn(name, image["timestamp"].astype("M8[s]").astype("M8[us]"), utc=True)
    if name == "_file":
        return ChangeColumn(name, np.zeros(len(image), np.uint8), labels=(batch.path or "",))
    if name in ("_position", "_row", "_server_id"):
        return ChangeColumn(name, image[name[1:]])
    if name == "_gtid":
        used, codes = np.unique(image["transaction"], return_inverse=True)
        gtids = tuple(gtid_text(batch.transactions[i]) or "" for i in used.tolist()) or ("",)
        return ChangeColumn(name, codes.reshape(-1), labels=gtids)
    if name == "_transaction":
        begins = batch.transactions["begin_position"] if len(image) else np.empty(0, np.uint64)
        return ChangeColumn(name, begins[image["transaction"]])
    raise SchemaError(f"unknown change column {name!r}; known: {', '.join(CHANGE_COLUMNS)}")


def json_documents(batch: ChangeBatch) -> dict[str, dict[int, bytes | None]]:
    """Texts of the JSON values that a batch has as lists of changes.

    Returns
    -------
    dict of column name to dict of record to (bytes or None)
        The whole document, UTF-8, where the preimage (the record before) holds one; else None.

    Raises
    ------
    DecodeError
        A list of changes cannot be, or does not fit its document.
    """
    found: dict[str, dict[int, bytes | None]] = {}
    if not len(batch.json_diffs):
        return found
    from ._core._jsonb import apply_json_diffs

    columns = {column.index: column for column in batch.columns}
    data = memoryview(batch.buffer).cast("B")
    for record, index in batch.json_diffs.tolist():
        if (column := columns.get(index)) is None:
            continue
        text: bytes | None = None
        try:
            before = _span(batch, data, record - 1, column) if record else None
            diffs = _span(batch, data, record, column)
            if before is not None and diffs is not None:
                text = apply_json_diffs(before, diffs)
        except DecodeError as error:
            error.path, error.table, error.column = batch.path, batch.table.full_name, column.name
            error.offset = int(batch.array[record]["image"]["position"])
            raise
        found.setdefault(column.name, {})[record] = text
    return found


def _empty_batch(columns: tuple[Column, ...]) -> ChangeBatch:
    from .batch import TRANSACTION_DTYPE, ChangeBatch

    count = max((column.index + 1 for column in columns), default=0)
    records = np.empty(0, record_dtype(count, columns))
    return ChangeBatch(Table("", "", columns), columns, records, b"", np.empty(0, TRANSACTION_DTYPE))


def _span(batch: ChangeBatch, data: memoryview, record: int, column: Column) -> bytes | None:
    entry = batch.array[record]
    byte, bit = column.index // 8, 1 << column.index % 8
    if (entry["image"]["null_bitmap"][byte] | entry["image"]["absent_bitmap"][byte]) & bit:
        return None
    offset, length = entry["row"][column.name].tolist()
    if offset + length > len(data):
        raise DecodeError(f"record {record}: the value's span reaches outside the batch's buffer")
    return bytes(data[offset : offset + length])


def _commit_times(batch: ChangeBatch, numbers: NDArray[np.uint32]) -> NDArray[np.datetime64]:
    # Looked up before they are worked on: a group has many more transactions than a small batch has rows.
    times = batch.transactions["commit_time"][numbers]
    unknown = times < 0
    if unknown.any():
        times[unknown] = batch.transactions["timestamp"][numbers[unknown]].astype(np.int64) * 1_000_000
    return times.view("M8[us]")


def fitted(
    columns: tuple[Column, ...], batch: ChangeBatch, *, drop: bool
) -> tuple[ChangeBatch, tuple[Column, ...]]:
    """A batch for a stream with these columns, and the columns as the batch has them.

    Values of a narrower type come in the stream's wider one.

    Parameters
    ----------
    drop : bool
        A column that is not among them is left out, instead of an error.

    Raises
    ------
    SchemaError
        A column is new, or of a type that the stream's does not hold.
    """
    if batch.value_columns == columns:
        return batch, columns
    own = {column.name: column for column in batch.value_columns}
    known = {column.name for column in columns}
    for column in batch.value_columns:
        if column.name not in known and not drop:
            raise _drift(batch, column, "a column that the stream's schema does not have")
    changed: dict[str, Column] = {}
    for column in columns:
        found = own.get(column.name)
        if found is None or arrow_field(found).type == arrow_field(column).type:
            continue
        wide = wider(found, column)
        if wide is None or arrow_field(wide).type != arrow_field(column).type:
            raise _drift(batch, found, f"the stream has {type_name(column)}, here it is {type_name(found)}")
        changed[column.name] = wide
    if changed:
        batch = _widened(batch, changed)
        own |= changed
    return batch, tuple(own.get(column.name, column) for column in columns)


def _widened(batch: ChangeBatch, changed: dict[str, Column]) -> ChangeBatch:
    """The batch with some of its columns in wider types."""
    columns = tuple(changed.get(column.name, column) for column in batch.columns)
    array = np.empty(len(batch), record_dtype(len(batch.table.columns), columns))
    array["image"] = batch.array["image"]
    for column in batch.columns:
        values = batch.array["row"][column.name]
        wide = changed.get(column.name)
        array["row"][column.name] = values if wide is None else converted(values, column, wide)
    return type(batch)(
        batch.table,
        columns,
        array,
        batch.buffer,
        batch.transactions,
        batch.invalid,
        batch.json_diffs,
        batch.path,
    )


def _drift(batch: ChangeBatch, column: Column, what: str) -> SchemaError:
    return SchemaError(
        f"the table's definition changed: {what}",
        path=batch.path,
        offset=int(batch.array["image"]["position"][0]) if len(batch) else None,
        table=batch.table.full_name,
        column=column.name,
    )
