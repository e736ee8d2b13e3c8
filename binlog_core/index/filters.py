"""Hashes of the values of key columns, and Bloom filters of them, built and queried a batch at a time.

A value is hashed as conditions compare it: numbers as whole numbers of their column's unit, text and bytes as
the log has them. Conditions compare text exactly, whatever its collation: equal texts have equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import _index
from .._tables.column_types import KINDS, SPAN_DTYPE
from ..conditions.predicates import ordered_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._tables.tables import Column
    from ..batch.change_batch import ChangeBatch

    Hashes = NDArray[np.uint64]

PARTS = 16  # of a filter, each in its own column: a search for one value reads only one
RANGED = 2  # columns of a key whose least and greatest values are kept
JOINED = 1 << 32  # a filter has whole keys of several columns
_PROBES = 7
_BITS = 10.1  # of a filter for each value: half of all bits are set, and one of 128 values passes by chance
_FEW = 32  # up to this many values, a list is smaller than a filter
_NUMBERS = ("number", "real", "moment", "time")  # of those that conditions compare
_TEXTS = ("text", "bytes")


def form_of(column: Column) -> str | None:
    """How a column's values are hashed, as text; None: not hashed. Only equal forms may be compared."""
    compared = KINDS[column.kind].compared
    if compared in _NUMBERS and column.dtype.names is None:
        return f"{column.kind.name} {column.dtype.str} {column.scale}"
    return f"BYTES {column.pad_to}" if compared in _TEXTS and not column.compressed else None


def is_number(column: Column) -> bool:
    """Whether its values have an order, so that ranges can have bounds."""
    return KINDS[column.kind].compared in _NUMBERS


def whole_numbers(batch: ChangeBatch, column: Column) -> NDArray[Any]:
    """The values of a column of numbers as int64, in the order of the values."""
    return as_signed(ordered_keys(batch.array["row"][column.name], column))


def as_signed(keys: NDArray[Any]) -> NDArray[Any]:
    """Unsigned numbers as signed ones in the same order."""
    if keys.dtype == np.uint64:
        keys = (keys ^ np.uint64(1 << 63)).view(np.int64)
    return keys


def hashes_of_numbers(numbers: NDArray[np.int64], ordinal: int) -> Hashes:
    """Hashes of the values of the column with this place in the key."""
    return _index.hashes_of_numbers(numbers.view(np.uint64), _salt(ordinal))


def hashes_of_texts(buffer: Any, spans: NDArray[np.void], pad_to: int, ordinal: int) -> Hashes:
    """The same for texts in a buffer: of 32 bytes and the length; padded texts without trailing zeros."""
    return _index.hashes_of_texts(np.frombuffer(buffer, np.uint8), spans, bool(pad_to), _salt(ordinal))


def hash_of(value: int | bytes, column: Column, ordinal: int) -> int:
    """The hash of one value of a condition: a number from `whole_numbers`, or bytes as in the log."""
    if isinstance(value, int):
        return int(hashes_of_numbers(np.array([value], np.int64), ordinal)[0])
    span = np.array([(0, len(value))], SPAN_DTYPE)
    return int(hashes_of_texts(value, span, column.pad_to, ordinal)[0])


class Values:
    """The values of one column of a key in a range, in parts: numbers, or hashes of texts.

    Attributes
    ----------
    count : int
    least, most : int or None
        Smallest and largest of the numbers among the key's first columns.
    """

    def __init__(self, column: Column, ordinal: int, parts: Sequence[NDArray[Any]]) -> None:
        self._numbers, self._ordinal, self._parts = is_number(column), ordinal, parts
        self.count = sum(map(len, parts))
        self.least: int | None = None
        self.most: int | None = None
        self._ascending = False
        if self._numbers and ordinal < RANGED and self.count:
            self.least, self.most, self._ascending = _index.spread(parts)

    @property
    def span(self) -> int:
        """The most different values that there can be."""
        return 1 << 63 if self.least is None or self.most is None else self.most - self.least + 1

    def is_dense(self) -> bool:
        """Whether at least half of the numbers between the least and the greatest occur."""
        if self.span > 4 * self.count:
            return False
        if self._ascending:
            return 2 * self.count >= self.span
        marks = np.zeros(self.span, np.bool_)
        for part in self._parts:
            marks[part - self.least] = True
        return 2 * int(np.count_nonzero(marks)) >= self.span

    def hashes(self) -> Hashes:
        """The hashes of all values."""
        values = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        return hashes_of_numbers(values, self._ordinal) if self._numbers else values


def of_key(columns: Sequence[Values]) -> tuple[Hashes, int]:
    """All hashes for a filter of the keys in a range, and a bit for each column that it covers.

    A column needs no hashes if its numbers are at least half of those between the least and the greatest; nor
    does a key of several columns with hardly more combinations than keys.

    Parameters
    ----------
    columns : sequence of Values
        The values of the key's columns.
    """
    found: list[Hashes] = []
    hashes: dict[int, Hashes] = {}
    field, told = 1, 0
    for ordinal, column in enumerate(columns):
        field *= column.span
        if not column.is_dense():
            hashes[ordinal] = column.hashes()
            found.append(hashes[ordinal])
            told |= 1 << ordinal
    if len(columns) > 1 and field > 4 * columns[0].count:
        found.append(joined([hashes[i] if i in hashes else one.hashes() for i, one in enumerate(columns)]))
        told |= JOINED
    if len(found) == 1:
        return found[0], told
    return (np.concatenate(found) if found else np.empty(0, np.uint64)), told


def joined(hashes: Sequence[Hashes]) -> Hashes:
    """The hashes of whole keys, from those of their columns."""
    return reduce(_index.joined, hashes)


def joined_hash(hashes: Iterable[int]) -> int:
    """The hash of one whole key."""
    return int(joined([np.array([one], np.uint64) for one in hashes])[0])


def _salt(ordinal: int) -> int:
    return (ordinal + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF


# ---------------------------------------------------------------- filters


def made_filter(hashes: Hashes) -> list[bytes]:
    """A Bloom filter of some hashes, in its parts."""
    length = _part_len(_distinct(hashes))
    bits = _index.made_filter(hashes, length, _PROBES)
    return [bits[i * length : (i + 1) * length] for i in range(PARTS)]


def made_list(hashes: Hashes) -> bytes | None:
    """The leading bits of a few different hashes; None if there are so many that a filter is smaller."""
    if len(hashes) > 16 * _FEW or len(set(hashes[: 2 * _FEW].tolist())) > _FEW:
        return None
    found = sorted(set(hashes.tolist()))
    return None if len(found) > _FEW else np.array(found, "<u8").view("<u4")[1::2].tobytes()


def is_listed(few: bytes, hash_: int) -> bool:
    """Whether the hash may be one of those of a list."""
    return hash_ >> 32 in memoryview(few).cast("I")


def part_of(hash_: int) -> int:
    """The part of a filter that a hash belongs to."""
    return hash_ >> 60


def passes(part: bytes, hash_: int) -> bool:
    """Whether the hash may be one of those that a filter was made from. An empty part means no filter."""
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
    """An estimate of the number of different hashes, from the bits that they set in a bitmap."""
    if len(hashes) < 64:
        return len(hashes)
    bits = (2 * len(hashes)).bit_length()
    size, marked = 1 << bits, _index.count_marks(hashes, bits)
    return min(len(hashes), int(-size * math.log(max(size - marked, 1) / size) * 1.02) + 8)
