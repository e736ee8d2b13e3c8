"""Batches for any library that speaks the Arrow PyCapsule interface; no Arrow library is needed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

import numpy as np

from .._core._capsules import schema_capsule, stream_capsule
from .._tables.tables import Column, Table, record_dtype
from .._tables.widening import converted, type_name, wider
from ..batch.arrow_batch import NO_POLARS, ArrowBatch
from ..batch.arrow_forms import pyarrow_schema
from ..batch.arrow_types import (
    ArrowField,
    NewColumns,
    SharedOptions,
    StreamOptions,
    arrow_field,
    followed,
    struct_field,
)
from ..batch.change_batch import TRANSACTION_DTYPE, ChangeBatch
from ..batch.subsets import made_of
from ..errors import MissingExtraError, SchemaError
from .passes import Pass, Prepared

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from .._walk.track import Tail
    from ..report import Report


class Batches(Iterator[ChangeBatch]):
    """Row changes as batches, and those of one table as a whole: Arrow stream, table or data frame.

    Nothing is read before it is needed. ``next(batches)`` and a loop continue where the last one stopped; a
    loop that begins after the last batch reads the log again. Everything else (`to_arrow`, `to_pandas`,
    `to_polars`, `stream`, and libraries that take the Arrow stream) always gives all batches from the first
    one, as often as you call it, whatever you looped over before. A source that can be read only once, such
    as a pipe, raises an error the second time.

    Parameters
    ----------
    read : callable
        Starts a pass of ChangeBatch from the beginning.
    of : str
        Which tables and logs these are, for ``repr`` and messages.
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
        import html

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

    def to_arrow(self, **options: Unpack[StreamOptions]) -> pyarrow.Table:
        """All batches of one table as ``pyarrow.Table``.

        Parameters
        ----------
        **options
            As in `stream`.

        Raises
        ------
        MissingExtraError
            pyarrow is not installed.
        SchemaError
            The batches are of more than one table, or there are none; also as in :func:`batch_stream`.
        BinlogError
            Reading the log failed.
        """
        try:
            import pyarrow
        except ImportError:
            raise MissingExtraError.of("pyarrow", "arrow", "to_arrow()") from None
        fields, parts = self.stream(**options).parts()
        return pyarrow.Table.from_batches([part.to_pyarrow() for part in parts], pyarrow_schema(fields))

    def to_pandas(self, **options: Unpack[StreamOptions]) -> pandas.DataFrame:
        """All batches of one table as ``pandas.DataFrame`` with Arrow-backed columns.

        Parameters
        ----------
        **options
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
        table = self.to_arrow(**options)
        return table.to_pandas(types_mapper=pandas.ArrowDtype)

    def to_polars(self, **options: Unpack[StreamOptions]) -> polars.DataFrame:
        """All batches of one table as ``polars.DataFrame``; pyarrow is not needed.

        Parameters
        ----------
        **options
            As in `stream`; DECIMAL of more than 38 digits becomes text, as polars has no such type.

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
        fields, parts = self.stream(**options).parts()
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

    def stream(self, **options: Unpack[StreamOptions]) -> ArrowStream:
        """All batches of one table as an Arrow stream, with options.

        Parameters
        ----------
        **options
            As in :func:`batch_stream`.
        """
        return ArrowStream(self, **options)

    def peek(self) -> ChangeBatch | None:
        """The next batch, without taking it; None if there is none."""
        if self._first is None and not self._ended:
            self._first = next(self._started(), None)
        return self._first

    def take(self, prepared: Prepared[Any]) -> Iterator[ChangeBatch]:
        """All batches from the first one on; one that was only peeked at is not read again.

        Parameters
        ----------
        prepared : Prepared
            What to make from each batch.
        """
        if self._begun or self._ended:
            self._latest = self._read()
            every = iter(self._latest)
        else:
            every = chain(() if self._first is None else (self._first,), self._started())
            self._first = self._pass = None
        if isinstance(read := self._latest_pass(), Pass):  # or an iterator over batches made by hand
            read.prepare(prepared)
        return every

    def defined_columns(self) -> tuple[Column, ...] | None:
        """The columns of a table without rows, if it is the only selected table that ``schema=`` defines."""
        tables = [columns for _, columns in self._latest_pass().defined()]
        return tables[0] if len(tables) == 1 else None

    def _started(self) -> Iterator[ChangeBatch]:
        if self._pass is None:
            self._latest = self._read()
            self._pass = iter(self._latest)
        return self._pass

    @property
    def report(self) -> Report:
        """What the pass over the log has found missing or lost, or has skipped, so far."""
        return self._latest_pass().report

    @property
    def tail(self) -> Tail | None:
        """Where and why the pass over the log ended inside an event."""
        return self._latest_pass().tail

    def close(self) -> None:
        """End the pass early. Batches stay valid."""
        self._latest_pass().close()

    def _latest_pass(self) -> Pass[ChangeBatch]:
        if self._latest is None:
            self._started()
        assert self._latest is not None
        return self._latest


class ArrowStream:
    """Batches as an Arrow stream, with options; ``batches.stream()`` makes it.

    Parameters
    ----------
    batches : Batches
        The batches of one table.
    columns, new_columns, **options
        As in :func:`batch_stream`.

    Raises
    ------
    TypeError, ValueError
        An option is unknown, or does not apply to a stream.
    """

    def __init__(
        self,
        batches: Batches,
        *,
        columns: Sequence[Column] | None = None,
        new_columns: NewColumns = "raise",
        **options: Unpack[SharedOptions],
    ) -> None:
        check_stream_options(new_columns, options)
        self.batches = batches
        self.columns = columns
        self.new_columns: NewColumns = new_columns
        self.options = options

    def parts(self) -> tuple[tuple[ArrowField, ...], Iterator[ArrowBatch]]:
        """The fields of the schema, and the batches as Arrow columns; errors as in :func:`batch_stream`."""
        batches = self.batches
        return stream_parts(
            batches.take,
            self.columns,
            self.new_columns,
            self.options,
            batches.defined_columns,
            batches._of,
        )

    def __arrow_c_schema__(self) -> object:
        """The schema, as PyCapsule; reads the first batch."""
        return schema_capsule(struct_field(self._fields()))

    def _fields(self) -> tuple[ArrowField, ...]:
        first = self.batches.peek()
        columns = self.columns
        if first is None and columns is None:
            columns = self.batches.defined_columns()
        return _stream_fields(first, columns, self.options, self.batches._of)

    def following(self, requested_schema: object) -> ArrowStream:
        """The stream with strings and bytes as a requested schema has them: as such, or as views.

        Parameters
        ----------
        requested_schema : PyCapsule or None
        """
        if requested_schema is None:
            return self
        options: SharedOptions = {**self.options, "text": followed(self._fields(), requested_schema)}
        return ArrowStream(self.batches, columns=self.columns, new_columns=self.new_columns, **options)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream, as PyCapsule; of a requested schema only views of text are followed."""
        fields, parts = self.following(requested_schema).parts()
        return stream_capsule(struct_field(fields), (part.export()[1] for part in parts))


def batch_stream(
    batches: Iterable[ChangeBatch],
    *,
    columns: Sequence[Column] | None = None,
    new_columns: NewColumns = "raise",
    **options: Unpack[SharedOptions],
) -> object:
    """Batches of one table as one Arrow stream.

    The schema is made from the first batch's columns, or from `columns`. Columns of later definitions are
    matched by name; a column that a definition lacks is null.

    Parameters
    ----------
    batches : iterable of ChangeBatch
        The batches, which are read as the stream is read.
    columns : sequence of Column or None
        The columns of the stream; None takes those of the first batch.
    new_columns : "raise" or "drop"
        What to do with a column that the stream's schema does not have.
    **options
        As in ``ChangeBatch.export``, except `rows` and `extras`, which belong to one batch, and
        text_errors="binary", since a stream has one schema.

    Returns
    -------
    PyCapsule
        A capsule named "arrow_array_stream". Errors while reading reach the consumer as its own exceptions,
        with the message of the original.

    Raises
    ------
    SchemaError
        There is no batch and `columns` is not given, or a change column is unknown. While reading: a batch
        is of another table, or one of its columns has another type.
    BinlogError
        Reading the first batch failed.
    """
    check_stream_options(new_columns, options)
    fields, parts = stream_parts(lambda _: iter(batches), columns, new_columns, options)
    return stream_capsule(struct_field(fields), (part.export()[1] for part in parts))


def check_stream_options(new_columns: str, options: SharedOptions) -> None:
    """Refuse what is not an option of a stream.

    Raises
    ------
    TypeError, ValueError
    """
    for name in options:
        if name not in SharedOptions.__annotations__:
            raise TypeError(
                f"{name!r} is not an option of a stream: expected {', '.join(StreamOptions.__annotations__)}"
            )
    if options.get("text_errors") == "binary":
        raise ValueError("text_errors='binary' is not for streams: the schema would depend on the values")
    if new_columns not in ("raise", "drop"):
        raise ValueError(f"new_columns={new_columns!r}: expected raise or drop")


def stream_parts(
    take: Callable[[Prepared[Any]], Iterator[ChangeBatch]],
    columns: Sequence[Column] | None,
    new_columns: NewColumns,
    options: SharedOptions,
    defined: Callable[[], tuple[Column, ...] | None] = lambda: None,
    of: str = "",
) -> tuple[tuple[ArrowField, ...], Iterator[ArrowBatch]]:
    """The fields of a stream, and its batches as Arrow columns; see :func:`batch_stream`.

    Parameters
    ----------
    take : callable
        Gives the batches, and receives what is made of each.
    defined : callable
        Gives the columns if there is no batch.
    of : str
        Which tables and logs these are, for messages.
    """
    wanted = None if columns is None else tuple(columns)  # None: not known yet

    def fit(batch: ChangeBatch, columns: tuple[Column, ...]) -> ArrowBatch:
        part, own = fitted(columns, batch, drop=new_columns == "drop")
        return ArrowBatch(part, columns=own, **options)

    def fit_and_hold(batch: ChangeBatch) -> tuple[tuple[Column, ...], ArrowBatch]:
        columns = batch.value_columns if wanted is None else wanted
        part = fit(batch, columns)
        part.hold()
        return columns, part

    prepared = Prepared(fit_and_hold)
    iterator = take(prepared)
    first = next(iterator, None)
    if first is None and columns is None:
        columns = defined()
    fields = _stream_fields(first, columns, options, of)
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
            columns, part = prepared.of(batch)
            # A thread ahead of the first batch knew only its own columns.
            yield part if columns == wanted else fit(batch, wanted)
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
    first: ChangeBatch | None, columns: Sequence[Column] | None, options: SharedOptions, of: str = ""
) -> tuple[ArrowField, ...]:
    if columns is None:
        if first is None:
            raise SchemaError(
                f"no row changes of {of or 'the table'}, so its columns are unknown: give schema= with its"
                " definition, or columns="
            )
        columns = first.value_columns
    return ArrowBatch(first or empty_batch(tuple(columns)), columns=columns, **options).fields()


def empty_batch(columns: tuple[Column, ...]) -> ChangeBatch:
    """A batch without records of a table with these columns."""
    count = max((column.index + 1 for column in columns), default=0)
    records = np.empty(0, record_dtype(count, columns))
    return ChangeBatch(Table("", "", columns), columns, records, b"", np.empty(0, TRANSACTION_DTYPE))


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
            raise _drift(
                batch,
                column,
                'the stream\'s schema does not have this column; new_columns="drop" leaves it out, columns='
                " takes others alone",
            )
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
    return made_of(batch, columns, array, batch.invalid, batch.json_diffs)


def _drift(batch: ChangeBatch, column: Column, what: str) -> SchemaError:
    return SchemaError(
        f"the table's definition changed: {what}",
        path=batch.path,
        offset=int(batch.array["image"]["position"][0]) if len(batch) else None,
        table=batch.table.full_name,
        column=column.name,
    )
