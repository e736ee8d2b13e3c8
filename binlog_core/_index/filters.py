"""Hashes of the values of key columns, and Bloom filters of them: built and asked a batch at a time.

A value is hashed as conditions compare it: numbers as whole numbers of their column's unit, text and bytes as
the log has them. Conditions compare text exactly, whatever its collation: equal texts have equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._decode.condition_tests import ordered_keys
from .._tables.column_types import TEMPORAL_KINDS, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._tables.tables import Column
    from ..batch import ChangeBatch

    Hashes = NDArray[np.uint64]

PARTS = 16  # of a filter, in columns of their own: who asks for one value reads one of them
RANGED = 2  # columns of a key of which least and greatest value are kept
JOINED = 1 << 32  # a filter tells of whole keys of several columns
_PROBES = 7
_BITS = 10.1  # of a filter for each value: half of all bits are set, and one of 128 values passes by chance
_FEW = 32  # values of which a list is smaller than a filter
_WORDS = 4  # of 8 bytes of a text that are hashed
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_NUMBERS = frozenset((Kind.INT, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL, Kind.BIT, Kind.YEAR)) | TEMPORAL_KINDS


def form_of(column: Column) -> str | None:
    """How a column's values are hashed, as text; None: they are not. Only equal forms may be compared."""
    if column.kind in _NUMBERS and column.dtype.names is None:
        return f"{column.kind.name} {column.dtype.str} {column.scale}"
    if column.kind in (Kind.TEXT, Kind.BINARY) and not column.compressed:
        return f"BYTES {column.pad_to}"
    return None


def is_number(column: Column) -> bool:
    """Whether its values have an order that ranges tell."""
    return column.kind in _NUMBERS


def whole_numbers(batch: ChangeBatch, column: Column) -> NDArray[Any]:
    """The values of a column of numbers as int64, in the order of the values."""
    return as_signed(ordered_keys(batch.array["row"][column.name], column))


def as_signed(keys: NDArray[Any]) -> NDArray[Any]:
    """Unsigned numbers as signed ones in the same order."""
    if keys.dtype == np.uint64:
        keys = (keys ^ np.uint64(1 << 63)).view(np.int64)
    return keys


def hashes_of_numbers(numbers: NDArray[np.int64], ordinal: int) -> Hashes:
    """Of the values of a key's column with this place in the key."""
    return _mixed(numbers.view(np.uint64) + _salt(ordinal))


def hashes_of_texts(
    buffer: Any, offsets: NDArray[np.uint64], lengths: NDArray[np.uint32], pad_to: int, ordinal: int
) -> Hashes:
    """The same of texts in a buffer: of 32 bytes and the length; of padded ones without the zeros behind."""
    data = np.frombuffer(buffer, np.uint8)
    if len(data) < 8:
        data = np.concatenate([data, np.zeros(8 - len(data), np.uint8)])
    words: Hashes = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    length = lengths.astype(np.uint64)
    first = np.zeros(len(length), np.uint64) if pad_to else length
    hashes = _mixed(first + _salt(ordinal))
    longest = pad_to or int(length.max(initial=0))
    for word in range(min(-(-longest // 8), _WORDS)):
        here = offsets.astype(np.uint64) + np.uint64(8 * word)
        left = np.minimum(np.maximum(length.astype(np.int64) - 8 * word, 0), 8).astype(np.uint64)
        at = np.minimum(here, np.uint64(len(data) - 8))
        shift = np.minimum(here - at, np.uint64(7)) * np.uint64(8)
        found = (words[at] >> shift) & _MASKS[left]
        mixed = _mixed(hashes ^ found)
        hashes = mixed if pad_to else np.where(left > 0, mixed, hashes)
    return hashes


_LOW = np.uint64(0xFFFFFFFF)
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)


def hash_of(value: int | bytes, column: Column, ordinal: int) -> int:
    """The hash of one value of a condition, as `whole_numbers` has it, or as its bytes are in the log."""
    if isinstance(value, int):
        return int(hashes_of_numbers(np.array([value], np.int64), ordinal)[0])
    one = np.zeros(1, np.uint64), np.array([len(value)], np.uint32)
    return int(hashes_of_texts(value, *one, column.pad_to, ordinal)[0])


def of_key(columns: Sequence[Column], values: Sequence[NDArray[Any] | None]) -> tuple[Hashes, int]:
    """All hashes that a filter of the keys in a range is made of, and a bit for each column that it tells of.

    A column's numbers need none where they are at least half of those between the least and the greatest, and
    a key of several columns none where there are hardly more combinations than keys.

    Parameters
    ----------
    columns : sequence of Column
        Of the key.
    values : sequence of ndarray or None
        Of each: numbers, or hashes of texts.
    """
    found: list[Hashes] = []
    every: list[Hashes] = []
    field, told = 1, 0
    for ordinal, (column, mine) in enumerate(zip(columns, values, strict=False)):
        if mine is None or not len(mine):
            return np.empty(0, np.uint64), 0
        span = _span(mine) if is_number(column) and ordinal < RANGED else 1 << 63
        field *= span
        if span > 4 * len(mine) or not _is_dense(mine, span):
            found.append(hashes_of_numbers(mine, ordinal) if is_number(column) else mine)
            told |= 1 << ordinal
    if len(columns) > 1 and field > 4 * len(values[0]):  # type: ignore[arg-type]
        for ordinal, (column, mine) in enumerate(zip(columns, values, strict=True)):
            assert mine is not None
            every.append(hashes_of_numbers(mine, ordinal) if is_number(column) else mine)
        found.append(joined(every))
        told |= JOINED
    return (np.concatenate(found) if found else np.empty(0, np.uint64)), told


def _span(numbers: NDArray[np.int64]) -> int:
    return int(numbers.max()) - int(numbers.min()) + 1


def _is_dense(numbers: NDArray[np.int64], span: int) -> bool:
    if (numbers[1:] > numbers[:-1]).all():
        return 2 * len(numbers) >= span
    marks = np.zeros(span, np.bool_)
    marks[numbers - numbers.min()] = True
    return 2 * int(np.count_nonzero(marks)) >= span


def joined(hashes: Sequence[Hashes]) -> Hashes:
    """Of the whole key, of those of its columns."""
    found = hashes[0]
    for more in hashes[1:]:
        found = _mixed(found + more)
    return found


def joined_hash(hashes: Iterable[int]) -> int:
    """The same of one key."""
    return int(joined([np.array([one], np.uint64) for one in hashes])[0])


def _salt(ordinal: int) -> np.uint64:
    return np.uint64((ordinal + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)


def _mixed(x: Hashes) -> Hashes:
    x = x ^ (x >> np.uint64(33))
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xC4CEB9FE1A85EC53)
    x ^= x >> np.uint64(33)
    return x


# ---------------------------------------------------------------- filters


def made_filter(hashes: Hashes) -> list[bytes]:
    """A Bloom filter of some hashes, in its parts."""
    length = _part_len(_distinct(hashes))
    size = np.uint64(8 * length)
    bits = np.zeros(PARTS * 8 * length, np.uint8)
    at = (hashes >> np.uint64(60)) * size
    place, step = hashes & _LOW, hashes >> np.uint64(28) & _LOW | np.uint64(1)
    for _ in range(_PROBES):
        bits[(at + (place * size >> np.uint64(32))).view(np.int64)] = 1
        place += step
        place &= _LOW
    packed = np.packbits(bits, bitorder="little").tobytes()
    return [packed[i * length : (i + 1) * length] for i in range(PARTS)]


def made_list(hashes: Hashes) -> bytes | None:
    """The beginnings of a few different hashes; None: they are more, and a filter is smaller."""
    found = np.unique(hashes[: 16 * _FEW]) if len(hashes) <= 16 * _FEW else hashes
    return None if len(found) > _FEW else (found >> np.uint64(32)).astype("<u4").tobytes()


def is_listed(few: bytes, hash_: int) -> bool:
    """Whether the hash may be one of those of a list."""
    return hash_ >> 32 in memoryview(few).cast("I")


def part_of(hash_: int) -> int:
    """Which part of a filter tells of a hash."""
    return hash_ >> 60


def passes(part: bytes, hash_: int) -> bool:
    """Whether the hash may be one of those that a filter was made of. An empty part is that of no filter."""
    size = 8 * len(part)
    place, step = hash_ & 0xFFFFFFFF, hash_ >> 28 & 0xFFFFFFFF | 1
    for _ in range(_PROBES if size else 0):
        bit = place * size >> 32
        if not part[bit >> 3] >> (bit & 7) & 1:
            return False
        place = place + step & 0xFFFFFFFF
    return True


def _part_len(count: int) -> int:
    # A part may get more than its share.
    share = count / PARTS
    return max(4, -(-int(_BITS * (share + share**0.5)) // 8))


def _distinct(hashes: Hashes) -> int:
    """About how many different ones there are: counted by the marks that they leave in a field of bits."""
    if len(hashes) < 64:
        return len(hashes)
    size = 1 << int(len(hashes) * 2).bit_length()
    marks = np.zeros(size, np.bool_)
    marks[(hashes >> np.uint64(64 - size.bit_length() + 1)).view(np.int64)] = True
    empty = size - int(np.count_nonzero(marks))
    return min(len(hashes), int(-size * np.log(max(empty, 1) / size) * 1.02) + 8)
