"""Columns of MYSQL_TYPE_NULL: every value is NULL, whatever the row's bitmap says, and whoever asks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support.writer import Log
from support.writer import numbering as n
from support.writer.wire import lenenc

import binlog_core

pytestmark = [pytest.mark.sanitize, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

TYPES = b"\x03\x06\x03\x06"  # INT, NULL, INT, NULL
ROWS_V1 = {"insert": 23, "update": 24, "delete": 25}


def log_of(op: str, present: int, bits: tuple[int, ...], count: int) -> bytes:
    """Rows of (7, NULL, NULL or 8, NULL); `bits`: those of the columns that are present, in each image."""
    log = Log("8.0.36", checksum=False)
    log.begin()
    table_map = log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\4shop\0\1t\0" + lenenc(4) + TYPES
    log.event(n.TABLE_MAP, table_map + lenenc(0) + b"\x0f")
    here = [i for i in range(4) if present >> i & 1]
    bitmap = sum(bit << place for place, bit in enumerate(bits))
    values = {0: (7).to_bytes(4, "little"), 2: (8).to_bytes(4, "little")}
    image = bytes([bitmap]) + b"".join(
        values[i] for i, bit in zip(here, bits, strict=True) if i in values and not bit
    )
    images = 2 if op == "update" else 1
    body = lenenc(4) + bytes([present]) * images + image * images * count
    log.event(ROWS_V1[op], log._post_header(ROWS_V1[op], 8, 7, 1) + body)
    log.commit()
    return log.getvalue()


CASES = [
    (op, present, bits)
    for op in ROWS_V1
    for present in (0b1111, 0b0111, 0b1011, 0b0010)
    for bits in itertools.product((0, 1), repeat=present.bit_count())
]


@pytest.mark.parametrize(("op", "present", "bits"), CASES, ids=str)
@pytest.mark.parametrize("count", [1, 20])
def test_every_road_finds_null(op: str, present: int, bits: tuple[int, ...], count: int) -> None:
    data = log_of(op, present, bits, count)
    here = [i for i in range(4) if present >> i & 1]
    told = dict(zip(here, bits, strict=True))
    expected = {f"c{i}": None if i % 2 or told[i] else (7, 8)[i // 2] for i in here}
    null = {name for name, value in expected.items() if value is None}
    with binlog_core.open(data) as log:
        for change in log.rows():
            assert expected == (change.after if change.after is not None else change.before)
        (batch,) = log.batches()
        for i in range(4):
            name = f"c{i}"
            assert set(batch.is_null(name).tolist()) == {name in null}
            assert set(batch.is_absent(name).tolist()) == {name not in expected}
            assert set(batch.to_arrow()[name].is_null().to_pylist()) == {expected.get(name) is None}
            for condition, holds in (
                (f"{name} is null", name in null),
                (f"{name} is not null", name in expected),
            ):
                found = len(list(log.rows(where=condition)))
                wanted: Any = count if holds and not (name in null and "not" in condition) else 0
                assert found == wanted, condition
            if op == "update":
                assert not list(log.rows(where=f"changed({name})"))


@pytest.mark.parametrize("where", ["c1 is null", "c1 is not null", "not c1 is null"])
def test_a_condition_of_null_columns_alone(where: str) -> None:
    with binlog_core.open(log_of("insert", 0b1111, (0, 0, 0, 0), 5)) as log:
        assert len(list(log.rows(where=where, columns={"shop.t": ["c0"]}))) == (
            5 if where == "c1 is null" else 0
        )
