"""Many values of one column at once, in the form of the row image.

A column of n values is a byte matrix with a row per value, and the number of bytes of each row that count. So
a block of rows is merged by putting matrices side by side and keeping the bytes that count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
_DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@dataclass
class Values:
    """Encoded values of one column.

    Parameters
    ----------
    matrix : uint8, shape (rows, width)
    lengths : int64, shape (rows,), or None
        Bytes of each row that count; None: all.
    """

    matrix: Bytes
    lengths: Ints | None = None

    def __len__(self) -> int:
        return len(self.matrix)

    def take(self, rows: Any) -> Values:
        return Values(self.matrix[rows], None if self.lengths is None else self.lengths[rows])

    def counting(self) -> NDArray[np.bool_]:
        width = self.matrix.shape[1]
        if self.lengths is None:
            return np.ones(self.matrix.shape, bool)
        return np.arange(width) < self.lengths[:, None]


def widen(values: Values, width: int) -> Values:
    """The same values in a matrix of more columns."""
    rows, old = values.matrix.shape
    matrix = np.zeros((rows, width), np.uint8)
    matrix[:, :old] = values.matrix
    lengths = np.full(rows, old) if values.lengths is None else values.lengths
    return Values(matrix, lengths)


def row_images(columns: Sequence[Values], nulls: NDArray[np.bool_] | None = None) -> Values:
    """Row images of full rows: NULL bitmap, then the values that are not NULL."""
    rows, count = len(columns[0]), len(columns)
    size = (count + 7) // 8
    if nulls is None:
        bitmap = np.zeros((rows, size), np.uint8)
    else:
        bitmap = np.packbits(nulls, axis=1, bitorder="little")
    bitmap[:, -1] |= (0xFF << (count - 8 * (size - 1)) & 0xFF) if count % 8 else 0  # MariaDB sets unused bits
    matrices, counting = [bitmap], [np.ones(bitmap.shape, bool)]
    for i, column in enumerate(columns):
        keep = column.counting()
        if nulls is not None:
            keep &= ~nulls[:, i : i + 1]
        matrices.append(column.matrix)
        counting.append(keep)
    return compact(np.hstack(matrices), np.hstack(counting))


def compact(matrix: Bytes, keep: NDArray[np.bool_]) -> Values:
    """The rows with their bytes moved to the left, so that their lengths describe them."""
    lengths = keep.sum(axis=1)
    out = np.zeros((len(matrix), int(lengths.max(initial=0))), np.uint8)
    out[np.arange(out.shape[1]) < lengths[:, None]] = matrix[keep]
    return Values(out, lengths)


def pieces(images: Values) -> list[bytes]:
    """Each row image as bytes."""
    flat = images.matrix[images.counting()].tobytes()
    assert images.lengths is not None
    ends = np.cumsum(images.lengths).tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


# ------------------------------------------------------------------- hashes


def hashed(numbers: Ints, salt: int) -> NDArray[np.uint64]:
    """64 well-mixed bits for each number: the seed of every value (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ x >> np.uint64(shift)) * np.uint64(factor)
        return x ^ x >> np.uint64(31)


def below(numbers: Ints, salt: int, limit: int) -> Ints:
    return (hashed(numbers, salt) % np.uint64(limit)).astype(np.int64)


# ----------------------------------------------------------------- encoders


def little(values: NDArray[Any], size: int) -> Values:
    whole = values.astype("<u8" if values.dtype.kind == "u" else "<i8")
    return Values(whole.view(np.uint8).reshape(-1, 8)[:, :size])


def big(values: NDArray[Any], size: int) -> Bytes:
    return values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - size :]


def floats(values: NDArray[np.float64], dtype: str) -> Values:
    cast = values.astype(dtype)
    return Values(cast.view(np.uint8).reshape(-1, cast.itemsize))


def decimals(whole: Ints, fraction: Ints, negative: NDArray[np.bool_], precision: int, scale: int) -> Values:
    """NEWDECIMAL from the digits before and after the point."""
    columns: list[Bytes] = []
    digits, groups = precision - scale, []
    while digits > 0:
        groups.append((min(9, digits), whole % 10**9))
        whole, digits = whole // 10**9, digits - 9
    columns += [big(values, _DECIMAL_BYTES[size]) for size, values in reversed(groups)]
    left = scale
    while left > 0:
        size = min(9, left)
        left -= size
        columns.append(big(fraction // 10**left % 10**size, _DECIMAL_BYTES[size]))
    matrix = np.hstack(columns)
    matrix[negative] ^= 0xFF
    matrix[:, 0] ^= 0x80
    return Values(matrix)


def dates(days: Ints) -> Values:
    """DATE from days since 1970."""
    year, month, day = _calendar(days)
    return little(year << 9 | month << 5 | day, 3)


def _calendar(days: Ints) -> tuple[Ints, Ints, Ints]:
    day = days.astype("M8[D]")
    month = day.astype("M8[M]")
    year = day.astype("M8[Y]").astype(np.int64)
    return year + 1970, month.astype(np.int64) - year * 12 + 1, (day - month).astype(np.int64) + 1


def _fractions(microseconds: Ints, fsp: int) -> list[Bytes]:
    size = (fsp + 1) // 2
    return [big(microseconds // 10 ** (6 - 2 * size), size)] if size else []


def datetimes(microseconds: Ints, fsp: int) -> Values:
    """DATETIME(fsp) from microseconds since 1970."""
    seconds, fraction = np.divmod(microseconds, 10**6)
    days, second = np.divmod(seconds, 86400)
    year, month, day = _calendar(days)
    packed = (
        ((year * 13 + month) << 5 | day) << 17 | second // 3600 << 12 | second // 60 % 60 << 6 | second % 60
    )
    return Values(np.hstack([big(packed + (1 << 39), 5), *_fractions(fraction, fsp)]))


def timestamps(microseconds: Ints, fsp: int) -> Values:
    seconds, fraction = np.divmod(microseconds, 10**6)
    return Values(np.hstack([big(seconds, 4), *_fractions(fraction, fsp)]))


def times(milliseconds: Ints) -> Values:
    """TIME(3) from milliseconds of either sign."""
    seconds, fraction = np.divmod(np.abs(milliseconds), 1000)
    packed = (seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60) << 24 | fraction * 1000
    packed = np.where(milliseconds < 0, -packed, packed)
    # The integer part is rounded down; the fraction keeps its sign, in ten-thousandths.
    ticks = np.where(milliseconds < 0, -fraction, fraction) * 10
    return Values(np.hstack([big((packed >> 24) + (1 << 23), 3), big(ticks, 2)]))


def strings(matrix: Bytes, lengths: Ints | None, prefix: int) -> Values:
    """Length-prefixed values of the first ``lengths`` bytes of each row."""
    counts = np.full(len(matrix), matrix.shape[1]) if lengths is None else lengths
    return Values(np.hstack([little(counts, prefix).matrix, matrix]), counts + prefix)


def chosen(options: Sequence[bytes], which: Ints) -> tuple[Bytes, Ints]:
    """One of a few texts for each row."""
    width = max(map(len, options))
    table = np.frombuffer(b"".join(o.ljust(width, b"\0") for o in options), np.uint8).reshape(-1, width)
    return table[which], np.array([len(o) for o in options])[which]


def hexadecimal(numbers: Ints, salt: int, width: int) -> Bytes:
    """``width`` hexadecimal digits for each number."""
    words = [hashed(numbers, salt + i) for i in range((width + 15) // 16)]
    raw = np.stack(words, axis=1).view(np.uint8)
    return _HEX[np.stack([raw >> 4, raw & 15], axis=2)].reshape(len(numbers), -1)[:, :width]


def digit_groups(numbers: Ints, salt: int, count: int) -> Bytes:
    """``count`` groups of eleven digits with dashes between."""
    out = np.full((len(numbers), 12 * count), ord("-"), np.uint8)
    for group in range(count):
        left = hashed(numbers, salt + group) % np.uint64(10**11)
        for place in range(10, -1, -1):
            left, digit = np.divmod(left, np.uint64(10))
            out[:, 12 * group + place] = digit.astype(np.uint8) + ord("0")
    return out[:, :-1]


Encoder = Callable[[Ints], Values]
