"""Records of a batch, filled by NumPy: what they hold and what it means is stated by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binlog_core._core._values import (
    RowReader,
)
from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import Column, Table, record_dtype
from binlog_core.batch.change_batch import INVALID_DATE_DTYPE, JSON_DIFF_DTYPE, TRANSACTION_DTYPE

INSERT, PREIMAGE, POSTIMAGE, DELETE = 1, 2, 3, 4
ABSENT = object()


@dataclass
class Batch:
    """What RowReader needs of a ChangeBatch."""

    table: Table
    columns: tuple[Column, ...]
    array: NDArray[np.void]
    buffer: bytes
    transactions: NDArray[np.void]
    invalid: NDArray[np.void]
    json_diffs: NDArray[np.void]
    path: str | None = "binlog.000042"


def column(kind: Kind, name: str = "c", index: int = 0, **more: Any) -> Column:
    return Column(name=name, index=index, type_code=more.pop("type_code", 3), kind=kind, **more)


def integer(width: int, *, signed: bool | None = True, name: str = "c", index: int = 0) -> Column:
    code = {1: 1, 2: 2, 3: 9, 4: 3, 8: 8}[width]
    return Column(name=name, index=index, type_code=code, kind=Kind.INT, signed=signed)


def make_batch(
    columns: list[Column],
    rows: Sequence[Sequence[Any]],
    ops: list[int] | None = None,
    *,
    all_columns: list[Column] | None = None,
    invalid: Sequence[tuple[int, ...]] = (),
    json_diffs: Sequence[tuple[int, int]] = (),
    transactions: NDArray[np.void] | None = None,
) -> Batch:
    """A batch of one record per row. None is NULL, ABSENT absent, bytes a span, else what NumPy takes."""
    table = Table("shop", "orders", tuple(all_columns or columns))
    array = np.zeros(len(rows), record_dtype(len(table.columns), columns))
    heap = bytearray(b"\xff\xfe\xfd")  # so that no value begins at 0
    for r, row in enumerate(rows):
        image = array[r]["image"]
        image["op"] = ops[r] if ops else INSERT
        image["position"] = 1000 + r
        image["timestamp"] = 1700000000 + r
        for c, value in zip(columns, row, strict=True):
            bit = np.uint8(1 << c.index % 8)
            if value is None:
                image["null_bitmap"][c.index // 8] |= bit
            elif value is ABSENT:
                image["absent_bitmap"][c.index // 8] |= bit
            elif isinstance(value, bytes):
                array[r]["row"][c.name] = (len(heap), len(value))
                heap += value
            else:
                array[r]["row"][c.name] = value
    if transactions is None:
        transactions = np.zeros(1, TRANSACTION_DTYPE)
    return Batch(
        table, tuple(columns), array, bytes(heap), transactions,
        np.array(list(invalid), INVALID_DATE_DTYPE) if invalid else np.empty(0, INVALID_DATE_DTYPE),
        np.array(list(json_diffs), JSON_DIFF_DTYPE) if json_diffs else np.empty(0, JSON_DIFF_DTYPE),
    )  # fmt: skip


def value_of(c: Column, stored: Any, **more: Any) -> Any:
    reader = RowReader(make_batch([c], [[stored]], **more))
    (value,) = reader.column_values("c")
    assert type(reader.values(0)["c"]) is type(value)
    return value


def same(got: object, want: object) -> None:
    assert type(got) is type(want)
    assert got == want
