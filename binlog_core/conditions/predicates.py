"""Tests of a condition, run over the records of a batch.

A test works on all records at once, and gives a state for each: false, unknown (NULL, or not in the image) or
true, ordered so that AND is the least and OR the greatest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.change_columns import DELETE, INSERT, POSTIMAGE, PREIMAGE
from .._core._values import RowReader
from .._tables import charsets
from .._tables.column_types import KINDS
from ..gtids import gtid_text
from .values import Span, TextTest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._tables.tables import Column
    from ..batch.change_batch import ChangeBatch

    States = NDArray[np.uint8]

FALSE, UNKNOWN, TRUE = 0, 1, 2


class Records:
    """The records of a batch, as tests need them."""

    def __init__(self, batch: ChangeBatch) -> None:
        self.batch = batch
        self.image = batch.array["image"]
        self.ops: NDArray[np.uint8] = self.image["op"]
        self.count = len(self.ops)
        self._reader: RowReader | None = None

    @property
    def reader(self) -> RowReader:
        if self._reader is None:
            self._reader = RowReader(self.batch, None, "skip")
        return self._reader

    def bit(self, bitmap: str, column: Column) -> NDArray[np.bool_]:
        return (self.image[bitmap][:, column.index // 8] >> (column.index % 8) & 1).astype(np.bool_)

    def values(self, column: Column) -> NDArray[Any]:
        return self.batch.array["row"][column.name]


@dataclass(frozen=True, slots=True)
class Test:
    """A test of something that each record has.

    Parameters
    ----------
    side : str
        "before" or "after": the test applies to that image of the change; "": to the record's own image.
    """

    side: str

    def states(self, records: Records) -> States:
        return _of_side(self.own(records), records.ops, self.side)

    def own(self, records: Records) -> States:
        """The state of each record by itself."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ColumnTest(Test):
    """A test of a column's value."""

    column: Column

    def own(self, records: Records) -> States:
        states = self.of_values(records)
        states[records.bit("null_bitmap", self.column)] = UNKNOWN
        return _filled(states, records, self.column)

    def of_values(self, records: Records) -> States:
        """The states of values that are neither NULL nor absent; anything for the others."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class NumberTest(ColumnTest):
    """Values stored as a number, or as several limbs: whether they are in one of some spans of numbers."""

    spans: tuple[Span, ...]

    def of_values(self, records: Records) -> States:
        column, values = self.column, records.values(self.column)
        keys = ordered_keys(values, column)
        found = np.zeros(len(keys), np.bool_)
        exact = [s.low for s in self.spans if s.low is not None and s.low == s.high]
        if len(exact) > 2 and keys.dtype != object:
            found |= np.isin(keys, np.array(_within(exact, keys.dtype), keys.dtype))
        elif exact:
            for key in exact:
                found |= keys == key
        for span in self.spans:
            if span.low is not None and span.low == span.high:
                continue
            inside = np.ones(len(keys), np.bool_)
            if span.low is not None:
                inside &= keys >= span.low
            if span.high is not None:
                inside &= keys <= span.high
            found |= inside
        states = np.where(found, np.uint8(TRUE), np.uint8(FALSE))
        if KINDS[column.kind].stored == "moment" and len(invalid := records.batch.invalid):
            for entry in invalid[invalid["column"] == column.index].tolist():
                inside_any = any(span.has_fields(entry[2:]) for span in self.spans)
                states[entry[0]] = TRUE if inside_any else FALSE
        return states


@dataclass(frozen=True, slots=True)
class TableTest(ColumnTest):
    """ENUM: the state of each number; FALSE for numbers without one, which are no member."""

    table: bytes

    def of_values(self, records: Records) -> States:
        values = records.values(self.column)
        table = np.frombuffer(self.table + bytes([FALSE]), np.uint8)
        states: States = table[np.minimum(values.astype(np.intp), len(self.table))]
        return states


@dataclass(frozen=True, slots=True)
class TextColumnTest(ColumnTest):
    """Text, bytes, or the members of a SET separated by commas."""

    test: TextTest
    values: frozenset[Any] | None = None

    def has(self, value: Any) -> bool:
        return value in self.values if self.values is not None else self.test.has(value)

    def of_values(self, records: Records) -> States:
        kind = bytes if KINDS[self.column.kind].compared == "bytes" else str
        charset = charsets.get(self.column.charset or "")
        states = np.full(records.count, UNKNOWN, np.uint8)
        for i, value in enumerate(records.reader.column_values(self.column.name)):
            if isinstance(value, list):
                value = ",".join(value)
            elif isinstance(value, int):  # the mask of a SET with a bit that is no member
                states[i] = FALSE
            elif kind is str and isinstance(value, bytes) and charset is not None:
                value = charset.replaced(value)  # not valid text, and still not equal to other text
            if isinstance(value, kind):
                states[i] = TRUE if self.has(value) else FALSE
        return states


@dataclass(frozen=True, slots=True)
class NullTest(ColumnTest):
    """IS NULL; for a column that the image does not have, neither that nor the opposite is true."""

    def own(self, records: Records) -> States:
        states = records.bit("null_bitmap", self.column).astype(np.uint8) * np.uint8(TRUE)
        return _filled(states, records, self.column)


@dataclass(frozen=True, slots=True)
class ChangedTest(Test):
    """Whether an update's images differ in a column."""

    column: Column

    def states(self, records: Records) -> States:
        column, ops = self.column, records.ops
        states = np.zeros(records.count, np.uint8)
        before = np.flatnonzero(ops == PREIMAGE)
        after = before + 1
        null = records.bit("null_bitmap", column)
        absent = records.bit("absent_bitmap", column)
        differ = null[before] != null[after]
        both = ~(null[before] | null[after] | absent[before] | absent[after])
        differ[both] = self._differ(records, before[both])
        found = np.where(differ, np.uint8(TRUE), np.uint8(FALSE))
        found[absent[before]] = UNKNOWN
        found[absent[after]] = FALSE  # it was not logged because it did not change
        states[before] = states[after] = found
        return states

    def _differ(self, records: Records, before: NDArray[np.intp]) -> NDArray[np.bool_]:
        column = self.column
        values = records.values(column)
        if KINDS[column.kind].stored == "span":
            texts = records.reader.column_values(column.name)
            return np.array([texts[i] != texts[i + 1] for i in before.tolist()], np.bool_)
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(records.count, -1)
        differ: NDArray[np.bool_] = (raw[before] != raw[before + 1]).any(axis=1)
        if KINDS[column.kind].stored == "moment" and len(invalid := records.batch.invalid):
            fields = {entry[0]: entry[2:] for entry in invalid[invalid["column"] == column.index].tolist()}
            for i, record in enumerate(before.tolist()):
                differ[i] |= fields.get(record) != fields.get(record + 1)
        elif KINDS[column.kind].compared == "real":
            differ = values[before] != values[before + 1]
        return differ


@dataclass(frozen=True, slots=True)
class OpTest(Test):
    """`_change_type`: the state of each op."""

    table: bytes

    def states(self, records: Records) -> States:
        return np.frombuffer(self.table, np.uint8)[records.ops]


@dataclass(frozen=True, slots=True)
class MetaTest(Test):
    """`_server_id`, `_thread_id` (0: not known) and `_commit_timestamp`: whether in one of some spans."""

    name: str
    spans: tuple[Span, ...]

    def states(self, records: Records) -> States:
        if self.name == "_server_id":
            values = records.image["server_id"].astype(np.int64)
        elif self.name == "_thread_id":
            values = records.batch.transactions["thread_id"][records.image["transaction"]].astype(np.int64)
        else:
            transactions = records.batch.transactions[records.image["transaction"]]
            values = transactions["commit_time"].copy()
            unknown = values < 0
            values[unknown] = transactions["timestamp"][unknown].astype(np.int64) * 1_000_000
        found = np.zeros(records.count, np.bool_)
        for span in self.spans:
            low = -(1 << 63) if span.low is None else max(span.low, -(1 << 63))
            high = (1 << 63) - 1 if span.high is None else min(span.high, (1 << 63) - 1)
            found |= (values >= low) & (values <= high) & (low <= high)
        states = np.where(found, np.uint8(TRUE), np.uint8(FALSE))
        if self.name == "_thread_id":
            states[(values == 0) & ~found] = UNKNOWN
        return states


@dataclass(frozen=True, slots=True)
class GtidTest(Test):
    """`_gtid` as text; NULL for a transaction without one. `test` is None for IS NULL."""

    test: TextTest | None
    values: frozenset[str] | None = None

    def states(self, records: Records) -> States:
        used, codes = np.unique(records.image["transaction"], return_inverse=True)
        found = [self._state(gtid_text(records.batch.transactions[i])) for i in used.tolist()]
        return np.array(found, np.uint8)[codes.reshape(-1)]

    def _state(self, gtid: str | None) -> int:
        if self.values is None and self.test is None:
            return TRUE if gtid is None else FALSE
        if gtid is None:
            return UNKNOWN
        has = (
            gtid in self.values if self.values is not None else self.test is not None and self.test.has(gtid)
        )
        return TRUE if has else FALSE


@dataclass(frozen=True, slots=True)
class Constant(Test):
    """The same state for every record."""

    state: int

    def states(self, records: Records) -> States:
        return np.full(records.count, self.state, np.uint8)


def _filled(states: States, records: Records, column: Column) -> States:
    """Unknown if the column is absent; in an after image, an absent column has its value from before."""
    absent = records.bit("absent_bitmap", column)
    if absent.any():
        states[absent] = UNKNOWN
        after = np.flatnonzero(absent & (records.ops == POSTIMAGE))
        states[after] = states[after - 1]
    return states


def _of_side(states: States, ops: NDArray[np.uint8], side: str) -> States:
    if not side or not len(states):
        return states
    out = np.full(len(states), UNKNOWN, np.uint8)
    if side == "before":
        own = (ops == PREIMAGE) | (ops == DELETE)
        other = np.flatnonzero(ops == POSTIMAGE)
        out[other] = states[other - 1]
    else:
        own = (ops == INSERT) | (ops == POSTIMAGE)
        other = np.flatnonzero(ops == PREIMAGE)
        out[other] = states[other + 1]
    out[own] = states[own]
    return out


def ordered_keys(values: NDArray[Any], column: Column) -> NDArray[Any]:
    """Whole numbers in the order of the values: int64, uint64, or Python's for wide decimals."""
    facts = KINDS[column.kind]
    if facts.stored == "moment":
        return values.view(np.int64) if values.dtype.isnative else values.astype(np.int64)
    if facts.compared == "real":
        bits = (values.astype(np.float64) + 0.0).view(np.int64)
        return np.where(bits < 0, -(bits & np.int64((1 << 63) - 1)), bits)
    if facts.stored == "decimal" and values.dtype.names is not None:
        names = values.dtype.names
        keys = values[names[-1]].astype(object)
        for name in reversed(names[:-1]):
            keys = keys * (1 << 64) + values[name].astype(object)
        return keys
    return values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)


def _within(keys: Iterable[int], dtype: Any) -> list[int]:
    limits = np.iinfo(dtype)
    return [key for key in keys if int(limits.min) <= key <= int(limits.max)]
