"""`read_split`: a plain function from a split to record batches. Every road into Spark stands on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .. import reader
from ..arrow import change_column
from ..arrow_types import ChangeColumn
from ..batch import OPS, ChangeBatch
from ..decoding import Tail
from ..errors import SchemaError
from ..report import Report
from ..tables import Column, Table
from ..transcoding import TextErrors
from .ordinals import Ordinals
from .schema import CHANGE_COLUMNS, import_pyarrow, lake_schema, to_lake
from .splits import Split

if TYPE_CHECKING:
    import pyarrow as pa

Images = Literal["both", "after"]
Unnamed = Literal["refuse", "positions"]

_UPDATE_PREIMAGE = 2


@dataclass(frozen=True)
class ReadOptions:
    """How splits are read; travels to the workers.

    Parameters
    ----------
    tables : tuple of str or None
        Names or glob patterns, as in ``binlog_core.open``; others are not decoded.
    columns : mapping or None
        Table name or pattern to the names of the columns to decode.
    schema : dict, str, path, Schema or None
        As in ``binlog_core.open``; see also `loaded`.
    keys : path, dict or None
        Of encrypted logs.
    images : "both" or "after"
        "after" leaves out what was before an update, and fills the columns that the log does not have after
        it from there.
    unnamed : "refuse" or "positions"
        Columns whose names neither log nor schema tells: an error, or named by their places ``c0``, ``c1`` …
    text_errors : "raise" or "replace"
        Bytes that are no text in their character set: an error, or U+FFFD.
    on_error : "raise" or "skip"
        With "skip" damaged events are counted and passed over.
    verify_checksum : bool
    storage_options : dict or None
        For fsspec.
    """

    tables: tuple[str, ...] | None = None
    columns: Mapping[str, tuple[str, ...]] | None = None
    schema: Any = None
    keys: Any = None
    images: Images = "both"
    unnamed: Unnamed = "refuse"
    text_errors: TextErrors = "raise"
    on_error: Literal["raise", "skip"] = "raise"
    verify_checksum: bool = True
    storage_options: dict[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, known in (
            ("images", ("both", "after")),
            ("unnamed", ("refuse", "positions")),
            ("text_errors", ("raise", "replace")),
            ("on_error", ("raise", "skip")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r}: {' and '.join(known)} are known")


class Chunk(NamedTuple):
    """Rows of one table, with what statistics need.

    Parameters
    ----------
    table : Table
    batch : pyarrow.RecordBatch
    ops : ndarray, shape (5,), int64
        Rows by op number: see ``binlog_core.batch.OPS``.
    first_position, last_position : int
        Of the first and last row's event.
    """

    table: Table
    batch: pa.RecordBatch
    ops: NDArray[np.int64]
    first_position: int
    last_position: int


class SplitReader:
    """Iterator over the rows of one split; `read_split` makes it.

    Attributes
    ----------
    split : Split
    report : Report
        What the log did not tell, skipped or lost, as far as it was read.
    tail : Tail or None
        Where the log ended inside an event.
    end_position : int
        Everything before it was read.
    """

    def __init__(self, split: Split, options: ReadOptions) -> None:
        if not split.whole:
            raise ValueError(f"{split}: only whole logs are read")
        self.split = split
        self.options = options
        self.report = Report()
        self.tail: Tail | None = None
        self.end_position = 0
        self._schemas: dict[tuple[Column, ...], pa.Schema] = {}
        self._rows = ((chunk.table, chunk.batch) for chunk in self.chunks())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Table, pa.RecordBatch]:
        return next(self._rows)

    def chunks(self) -> Iterator[Chunk]:
        """The rows with their counts, once."""
        options = self.options
        import_pyarrow()
        ordinals = Ordinals()
        with reader.open(
            self.split.path,
            tables=options.tables,
            columns=options.columns,
            schema=options.schema,
            keys=options.keys,
            on_error=options.on_error,
            verify_checksum=options.verify_checksum,
            mmap=False,  # pages of a mapping count as a worker's memory, and a file that shrinks kills it
            storage_options=options.storage_options,
        ) as log:
            try:
                for group in log.groups():
                    batches = [batch for batch in group.batches if batch.table.undecodable is None]
                    for batch, numbers in zip(batches, ordinals.number(batches), strict=True):
                        chunk = self._chunk(batch, numbers)
                        if chunk is not None:
                            yield chunk
                    self.end_position = group.end_position
            finally:
                self.report = log.report
                self.tail = log.tail

    def _chunk(self, batch: ChangeBatch, ordinals: NDArray[np.int64]) -> Chunk | None:
        pa = import_pyarrow()
        image = batch.array["image"]
        op, position = image["op"], image["position"]
        rows: NDArray[np.intp] | None = None
        begin = batch.transactions["begin_position"][image["transaction"]]
        if self.options.images == "after":
            rows = np.flatnonzero(op != _UPDATE_PREIMAGE)
            if not len(rows):
                return None
            op, position, begin, ordinals = op[rows], position[rows], begin[rows], ordinals[rows]
        schema = self._schema(batch)
        extras = (
            change_column(batch, "_change_type", rows),
            ChangeColumn("_commit_version", begin.astype(np.int64) + self.split.version_base),
            change_column(batch, "_commit_timestamp", rows),
            ChangeColumn("_change_ordinal", ordinals),
        )
        exported = batch.export(
            change_columns=False,
            extras=extras,
            rows=rows,
            fill_absent=rows is not None,
            text_errors=self.options.text_errors,
            vectors="list",
        )
        converted = to_lake(
            pa.record_batch(exported), schema, batch.table, batch.columns, path=self.split.path
        )
        ops = np.bincount(op, minlength=len(OPS) + 1)
        return Chunk(batch.table, converted, ops, int(position[0]), int(position[-1]))

    def _schema(self, batch: ChangeBatch) -> pa.Schema:
        schema = self._schemas.get(batch.columns)
        if schema is None:
            self._check_names(batch)
            schema = self._schemas[batch.columns] = lake_schema(batch.columns)
        return schema

    def _check_names(self, batch: ChangeBatch) -> None:
        where: dict[str, Any] = {
            "path": self.split.path,
            "offset": int(batch.array["image"]["position"][0]),
            "table": batch.table.full_name,
        }
        for column in batch.columns:
            if not column.named and self.options.unnamed == "refuse":
                raise SchemaError(
                    "the log does not tell the names of the columns (binlog_row_metadata=FULL would): give a"
                    " schema, or unnamed='positions' for c0, c1 …",
                    **where,
                )
            if column.name.lower() in CHANGE_COLUMNS:  # Spark does not tell names apart by case
                raise SchemaError(
                    "the table has a column of the name that a change column has", column=column.name, **where
                )


def read_split(
    split: Split,
    *,
    tables: str | tuple[str, ...] | list[str] | None = None,
    columns: Mapping[str, tuple[str, ...] | list[str]] | None = None,
    schema: Any = None,
    keys: Any = None,
    images: Images = "both",
    unnamed: Unnamed = "refuse",
    text_errors: TextErrors = "raise",
    on_error: Literal["raise", "skip"] = "raise",
    verify_checksum: bool = True,
    storage_options: dict[str, Any] | None = None,
) -> SplitReader:
    """Rows of a split as record batches in the types of Spark and lakes.

    Parameters
    ----------
    split : Split
        Of `plan_splits`.
    tables, columns, schema, keys, images, unnamed, text_errors, on_error, verify_checksum, storage_options
        See `ReadOptions`.

    Returns
    -------
    SplitReader
        Iterator of ``(Table, pyarrow.RecordBatch)``: the table's columns in the types of
        ``schema.lake_type``, then `_change_type`, `_commit_version` (number of the file * 2**40 + offset of
        the transaction's first event), `_commit_timestamp` and `_change_ordinal` (number of the row image
        within its transaction, over all decoded tables). Dates that no calendar has, and columns that an
        image lacks, are null. Tables whose rows cannot be decoded are passed over and counted in ``report``.

    Raises
    ------
    SchemaError
        Columns have no names; a column is called like a change column.
    DecodeError, BinlogError
        As reading a log raises them.
    MissingExtraError
        pyarrow is not installed.
    """
    options = ReadOptions(
        tables=(tables,) if isinstance(tables, str) else tuple(tables) if tables is not None else None,
        columns={name: tuple(names) for name, names in columns.items()} if columns else None,
        schema=schema,
        keys=keys,
        images=images,
        unnamed=unnamed,
        text_errors=text_errors,
        on_error=on_error,
        verify_checksum=verify_checksum,
        storage_options=storage_options,
    )
    return SplitReader(split, options)
