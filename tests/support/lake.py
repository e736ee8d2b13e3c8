"""Rows in the types of Spark and data lakes, made comparable with the servers' truth."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .golden import Golden

OPS = {"insert": "insert", "update_postimage": "update", "delete": "delete"}
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp", "_change_ordinal")


@dataclass
class LakeChange:
    """One changed row, made of one or two rows of a lake."""

    op: str
    database: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    position: int
    timestamp: int
    gtid: str | None = None


@dataclass
class LakeRow:
    """One row of a lake."""

    database: str
    table: str
    values: dict[str, Any]
    kind: str
    version: int
    moment: dt.datetime
    ordinal: int


def lake_rows(database: str, table: str, records: Iterable[dict[str, Any]]) -> list[LakeRow]:
    """Records of a table, as ``pyarrow.Table.to_pylist`` has them."""
    rows = []
    for record in records:
        assert tuple(record)[-4:] == CHANGE_COLUMNS
        kind, version, moment, ordinal = (record.pop(name) for name in CHANGE_COLUMNS)
        rows.append(LakeRow(database, table, record, kind, version, moment, ordinal))
    return rows


def lake_changes(
    rows: Iterable[LakeRow], golden: Golden, statements: Collection[tuple[int, int]] = ()
) -> list[LakeChange]:
    """The changes of one log in the order of (_commit_version, _change_ordinal), which must be total.

    If statements were read, too, they have their own places in this order.

    Values are converted to the form of the truth, and checked where that loses something.
    """
    changes: list[LakeChange] = []
    before: LakeRow | None = None
    last = (-1, -1)
    for row in sorted(rows, key=lambda r: (r.version, r.ordinal)):
        place = (row.version, row.ordinal)
        assert place > last, "not a total order"
        number = last[1] + 1 if row.version == last[0] else 0
        while (row.version, number) in statements:
            number += 1
        assert row.ordinal == number, "numbers without gaps, from 0"
        last = place
        number = len(changes)
        assert number < len(golden.truth), "more rows than the truth has"
        if row.kind == "update_preimage":
            assert before is None
            before = row
            continue
        if row.kind == "update_postimage":
            assert before is not None
            assert (before.database, before.table) == (row.database, row.table)
        else:
            assert before is None
        is_delete = row.kind == "delete"
        first = row if is_delete else before
        changes.append(
            LakeChange(
                OPS[row.kind],
                row.database,
                row.table,
                _image(first, golden, number, "before") if first else None,
                None if is_delete else _image(row, golden, number, "after"),
                row.version & (1 << 40) - 1,
                int(row.moment.timestamp()),
            )
        )
        before = None
    assert before is None
    return changes


def _image(row: LakeRow, golden: Golden, number: int, side: str) -> dict[str, Any]:
    truth = golden.truth[number]
    columns = list(golden.columns_of(number).values())
    logged = truth.get(f"{side}_cols")
    image = {}
    for i, ((name, value), column) in enumerate(zip(row.values.items(), columns, strict=True)):
        if logged is not None and i not in logged:
            assert value is None, "a column that the image lacks is null"
            continue
        image[name] = as_read(value, column, (truth[side] or {}).get(column["name"]))
    return image


def as_read(value: Any, column: dict[str, Any], want: Any) -> Any:
    """A value of a lake, in the form that is compared with the truth."""
    kind = column["data_type"]
    if value is None:
        return None
    if kind == "time":
        assert type(value) is int
        return dt.timedelta(microseconds=value)
    if kind == "decimal":
        if isinstance(value, str):  # more than 38 digits
            assert value == want
            return Decimal(value)
        return value
    if isinstance(value, Decimal):  # BIGINT UNSIGNED, BIT(64), the mask of a SET of 64
        assert value == int(value)
        return int(value)
    if kind == "bit":
        assert isinstance(value, bool) == (column["column_type"] == "bit(1)")
        return int(value)
    return value
