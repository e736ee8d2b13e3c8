"""Keys of rows as arrays: hashes that are the same on every worker, equal keys, and where keys are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..rows.types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def hashes(columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
    """A hash of each key; it depends on nothing but the values.

    Raises
    ------
    ValueError
        A column has a type that cannot be a key.
    """
    found: NDArray[np.uint64] | None = None
    for column in columns:
        words = _words(column)
        found = _mixed(words if found is None else found * _ODD + words)
    assert found is not None
    return found


def unfit(kind: pa.DataType) -> ValueError:
    """The error for a column whose type cannot be a key."""
    return ValueError(f"a column of type {kind} cannot be a key: name other keys")


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ values >> np.uint64(30)) * _FIRST
    values = (values ^ values >> np.uint64(27)) * _SECOND
    mixed: NDArray[np.uint64] = values ^ values >> np.uint64(31)
    return mixed


def _words(column: pa.Array) -> NDArray[np.uint64]:
    """A word for each value; null is 0."""
    types, kind = import_pyarrow().types, column.type
    if types.is_string(kind) or types.is_binary(kind):
        return _of_bytes(column)
    first, *more = as_words(column)
    return _mixed(first) + more[0] if more else first


def as_words(column: pa.Array) -> list[NDArray[np.uint64]]:
    """Values of one size as words, two for a decimal; only equal values have equal words, and null has any.

    Raises
    ------
    ValueError
        The column has another type.
    """
    pa = import_pyarrow()
    types, kind = pa.types, column.type
    if types.is_decimal128(kind):
        pairs = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)
        pairs = pairs[column.offset : column.offset + len(column)]
        return [pairs[:, 0], pairs[:, 1]]
    if types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif types.is_date32(kind):
        column = column.cast(pa.int32())
    elif types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif types.is_floating(kind):
        numbers = _with_one_zero(column).to_numpy(zero_copy_only=False)
        return [np.asarray(numbers.astype(np.float64).view(np.uint64))]
    elif not types.is_integer(kind):
        raise unfit(kind)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return [np.asarray(values.astype(np.int64).view(np.uint64))]


def _of_bytes(column: pa.Array) -> NDArray[np.uint64]:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    lengths = np.diff(ends)
    if data is None or not lengths.size or ends[-1] == ends[0]:
        return lengths.view(np.uint64)
    values = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].astype(np.uint64) + np.uint64(1)
    ends -= ends[0]
    powers = np.cumprod(np.full(int(lengths.max()), _ODD, np.uint64))
    values *= powers[np.arange(len(values)) - np.repeat(ends[:-1], lengths)]
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values)))
    return np.asarray(sums[ends[1:]] - sums[ends[:-1]] + lengths.view(np.uint64))


def _with_one_zero(column: pa.Array) -> pa.Array:
    """Floating-point numbers without -0.0, which is 0.0 to a server, but not to Arrow's hash tables."""
    import pyarrow.compute as pc

    pa = import_pyarrow()
    return pc.add(column, pa.scalar(0, column.type)) if pa.types.is_floating(column.type) else column


def numbered(columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], int]:
    """A number for each different key, from 0 in the order of the rows, and how many there are."""
    pa = import_pyarrow()
    codes: NDArray[np.int64] | None = None
    count = 0
    for column in columns:
        encoded = _with_one_zero(column).dictionary_encode()
        here = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if codes is None:
            codes, count = here, len(encoded.dictionary)
            continue
        both = pa.array(codes * max(len(encoded.dictionary), 1) + here).dictionary_encode()
        codes, count = both.indices.to_numpy().astype(np.int64), len(both.dictionary)
    assert codes is not None
    return codes, count


def places(columns: Sequence[pa.Array], wanted: Sequence[pa.Array]) -> NDArray[np.int64]:
    """For each key its place among others, which differ; -1: it is not there."""
    import pyarrow.compute as pc

    codes = known = None
    for column, some in zip(map(_with_one_zero, columns), map(_with_one_zero, wanted), strict=True):
        values = some.unique()
        here, there = (
            pc.index_in(one, value_set=values).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            for one in (column, some)
        )
        if codes is None or known is None:
            codes, known = here, there
            continue
        both, known = np.unique(known * len(values) + there, return_inverse=True)
        codes = np.where((codes < 0) | (here < 0), -1, codes * len(values) + here)
        at = np.minimum(np.searchsorted(both, codes), max(len(both) - 1, 0))
        codes = np.where(both[at] == codes, at, -1) if len(both) else np.full(len(codes), -1)
    assert codes is not None and known is not None
    place_of = np.full(len(known) + 1, -1, np.int64)  # the last element is for keys that are not there
    place_of[known] = np.arange(len(known))
    return np.asarray(place_of[codes])


def rows_with(column: pa.Array, values: Sequence[pa.Array]) -> NDArray[np.int64]:
    """The numbers of the rows that have one of some values: much faster than `places` if they are few."""
    import pyarrow.compute as pc

    wanted = import_pyarrow().concat_arrays([_with_one_zero(one) for one in values])
    found = pc.is_in(_with_one_zero(column), value_set=wanted)
    return np.flatnonzero(found.to_numpy(zero_copy_only=False))


def one_array(column: Any) -> pa.Array:
    """A column of a table as one array."""
    pa = import_pyarrow()
    if not isinstance(column, pa.ChunkedArray):
        return column
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )
