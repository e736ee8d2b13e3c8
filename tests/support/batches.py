"""Batches made by hand, record by record, as the decoder would return them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from binlog_core._tables.column_types import (
    KINDS,
    MYSQL_TYPE_BIT,
    MYSQL_TYPE_BLOB,
    MYSQL_TYPE_DATE,
    MYSQL_TYPE_DATETIME2,
    MYSQL_TYPE_DOUBLE,
    MYSQL_TYPE_ENUM,
    MYSQL_TYPE_FLOAT,
    MYSQL_TYPE_GEOMETRY,
    MYSQL_TYPE_INT24,
    MYSQL_TYPE_JSON,
    MYSQL_TYPE_LONG,
    MYSQL_TYPE_LONGLONG,
    MYSQL_TYPE_NEWDECIMAL,
    MYSQL_TYPE_NULL,
    MYSQL_TYPE_SET,
    MYSQL_TYPE_SHORT,
    MYSQL_TYPE_STRING,
    MYSQL_TYPE_TIME2,
    MYSQL_TYPE_TIMESTAMP2,
    MYSQL_TYPE_TINY,
    MYSQL_TYPE_VARCHAR,
    MYSQL_TYPE_VECTOR,
    MYSQL_TYPE_YEAR,
    Kind,
)  # fmt: skip
from binlog_core._tables.tables import Column, Table, record_dtype
from binlog_core.batch.change_batch import (
    INVALID_DATE_DTYPE,
    JSON_DIFF_DTYPE,
    TRANSACTION_DTYPE,
    ChangeBatch,
)
from support.guarded import exact

ABSENT = object()  # a value that is not in the row image

INT_CODES = {
    1: MYSQL_TYPE_TINY,
    2: MYSQL_TYPE_SHORT,
    3: MYSQL_TYPE_INT24,
    4: MYSQL_TYPE_LONG,
    8: MYSQL_TYPE_LONGLONG,
}
TYPE_CODES = {
    Kind.NULL: MYSQL_TYPE_NULL, Kind.FLOAT: MYSQL_TYPE_FLOAT, Kind.DOUBLE: MYSQL_TYPE_DOUBLE,
    Kind.DECIMAL: MYSQL_TYPE_NEWDECIMAL, Kind.BIT: MYSQL_TYPE_BIT, Kind.YEAR: MYSQL_TYPE_YEAR,
    Kind.DATE: MYSQL_TYPE_DATE, Kind.DATETIME: MYSQL_TYPE_DATETIME2, Kind.TIMESTAMP: MYSQL_TYPE_TIMESTAMP2,
    Kind.TIME: MYSQL_TYPE_TIME2, Kind.TEXT: MYSQL_TYPE_VARCHAR, Kind.BINARY: MYSQL_TYPE_BLOB,
    Kind.ENUM: MYSQL_TYPE_ENUM, Kind.SET: MYSQL_TYPE_SET, Kind.JSON: MYSQL_TYPE_JSON,
    Kind.GEOMETRY: MYSQL_TYPE_GEOMETRY, Kind.VECTOR: MYSQL_TYPE_VECTOR,
}  # fmt: skip


def column(name: str, kind: Kind, *, bytes_: int = 0, **attributes: Any) -> Column:
    """A column whose index `make_batch` sets; `bytes_` of an INT."""
    code = INT_CODES[bytes_] if kind == Kind.INT else TYPE_CODES[kind]
    if kind == Kind.BINARY and attributes.get("pad_to"):
        code = MYSQL_TYPE_STRING
    return Column(name, attributes.pop("index", 0), code, kind, **attributes)


def make_batch(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    *,
    ops: Sequence[int] | None = None,
    invalid: Sequence[tuple[int, ...]] = (),
    json_diffs: Sequence[tuple[int, int]] = (),
    transactions: Sequence[Mapping[str, Any]] = ({},),
    transaction_of: Sequence[int] | None = None,
    projection: Sequence[str] | None = None,
    path: str | None = "log.000001",
    table: str = "orders",
) -> ChangeBatch:
    """A batch of one record per row.

    A value is a number, a tuple of limbs, bytes of a span, None for NULL, or ABSENT. The spans lie
    after 7 unused bytes.
    """
    columns = tuple(_at(c, i) for i, c in enumerate(columns))
    decoded = tuple(c for c in columns if projection is None or c.name in projection)
    array = np.zeros(len(rows), record_dtype(len(columns), decoded))
    heap = bytearray(b"\xfe" * 7)
    for i, row in enumerate(rows):
        record = array[i]
        image = record["image"]
        image["op"] = 1 if ops is None else ops[i]
        image["timestamp"] = 1_700_000_000
        image["server_id"] = 7
        image["position"] = 1000 + 10 * i
        image["row"] = i
        image["transaction"] = 0 if transaction_of is None else transaction_of[i]
        for c in columns:
            value = row[c.name]
            if value is ABSENT:
                image["absent_bitmap"][c.index // 8] |= 1 << c.index % 8
            elif value is None:
                image["null_bitmap"][c.index // 8] |= 1 << c.index % 8
            elif c in decoded:
                if KINDS[c.kind].stored == "span":
                    record["row"][c.name] = (len(heap), len(value))
                    heap += value
                else:
                    record["row"][c.name] = value
    logged = np.zeros(len(transactions), TRANSACTION_DTYPE)
    logged["commit_time"] = -1
    for i, transaction in enumerate(transactions):
        for key, value in transaction.items():
            logged[i][key] = value
    return ChangeBatch(
        Table("shop", table, columns),
        decoded,
        array,
        exact(bytes(heap)).data,
        logged,
        np.array(list(invalid), INVALID_DATE_DTYPE),
        np.array(list(json_diffs), JSON_DIFF_DTYPE),
        path,
    )


def letters(length: int, seed: int = 0) -> bytes:
    """Printable ASCII, different for each seed."""
    return bytes(33 + (i * 31 + seed * 7) % 90 for i in range(length))


def batch_with_null_spans() -> tuple[ChangeBatch, list[bytes | None]]:
    """A batch of one column of text, and its values; what the spans of its NULLs say is not in the log."""
    chance = random.Random(5)
    values = [None if chance.random() < 0.4 else letters(chance.randrange(200), i) for i in range(1500)]
    batch = make_batch([column("t", Kind.TEXT, charset="utf8mb4")], [{"t": value} for value in values])
    spans = batch.array["row"]["t"]
    for i, value in enumerate(values):
        if value is None:
            spans[i] = (2**63 + i, 2**32 - 1 - i)
    return batch, values


def _at(c: Column, index: int) -> Column:
    from dataclasses import replace

    return replace(c, index=index)
