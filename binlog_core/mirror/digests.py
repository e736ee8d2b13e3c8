"""A number for each row, equal for equal values, that is compared instead of the row."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MirrorError
from ..lake.rows.types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

DIGEST = "digest "  # beside columns of a key, whose names on a server never end with a space


def digested(batch: pa.RecordBatch, schema: pa.Schema, key: Sequence[str]) -> pa.RecordBatch:
    """The key's columns of rows, and the rows' numbers.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The rows.
    schema : pyarrow.Schema
        The columns, in the types in which they are compared.
    key : sequence of str
        The names of the key's columns.

    Raises
    ------
    MirrorError
        A value does not fit its column's type.
    """
    pa = import_pyarrow()
    try:
        rows = pa.record_batch([batch.column(one.name).cast(one.type) for one in schema], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise MirrorError(f"the columns' types differ from the server's: {error}") from None
    kept = rows.select(list(key))
    digests = pa.array(row_digests(rows).view(np.int64))
    return pa.record_batch([*kept.columns, digests], schema=digest_schema(schema, key))


def digest_schema(schema: pa.Schema, key: Sequence[str]) -> pa.Schema:
    """The schema of the result of `digested`."""
    pa = import_pyarrow()
    return pa.schema([*((name, schema.field(name).type) for name in key), (DIGEST, pa.int64())])


def row_digests(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    """A number for each row: the same for the same values.

    Parameters
    ----------
    batch : pyarrow.RecordBatch

    Returns
    -------
    ndarray of uint64, shape (n_rows,)
    """
    rows = zip(*(_as_bytes(column) for column in batch.columns), strict=True)
    data = b"".join(
        blake2b(repr(row).encode("utf-8", "surrogateescape"), digest_size=8).digest() for row in rows
    )
    return np.frombuffer(data, np.uint64)


def _as_bytes(column: pa.Array) -> list[Any]:
    pa = import_pyarrow()
    types = pa.types
    if types.is_temporal(column.type):  # Python has no year 0 and none beyond 9999
        column = column.cast(pa.int32() if types.is_date32(column.type) else pa.int64())
    values: list[Any] = column.to_pylist()
    return values
