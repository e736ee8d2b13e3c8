"""Rows events of version 0 (5.1 before 5.1.18), as far as the format allows.

The bytes of the rows are those of a 5.1.17-beta server: table (a INT NULL, b CHAR(50) NULL).
"""

from __future__ import annotations

import random
import struct

import pytest
from support.growth import assert_linear
from support.writer.wire import lenenc

import binlog_core

pytestmark = pytest.mark.sanitize

FORMAT_DESCRIPTION, TABLE_MAP, WRITE_ROWS_V0, UPDATE_ROWS_V0 = 15, 19, 20, 21
# 22 types, as 5.1.17 lists them: 57 + n is in its own place.
POST_HEADERS = bytes([56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 79, 0, 4, 26, 8, 8, 8, 8])

ONE = bytes.fromhex("F9 00000000 03 6F6E65")
TWO = bytes.fromhex("F9 01000000 03 74776F")
ONE_CHANGED = bytes.fromhex("F9 01000000 03 6F6E65")


def event(kind: int, body: bytes, position: int) -> bytes:
    length = 19 + len(body)
    return struct.pack("<IBIIIH", 1199978447, kind, 1, length, position + length, 0) + body


def log_of(*events: tuple[int, bytes]) -> bytes:
    descriptor = struct.pack("<H50sIB", 4, b"5.1.17-beta-log", 0, 19) + POST_HEADERS
    data = b"\xfebin"
    for kind, body in ((FORMAT_DESCRIPTION, descriptor), *events):
        data += event(kind, body, len(data))
    return data


def table_map(types: bytes) -> bytes:
    return struct.pack("<IHH", 17, 0, 0) + b"\x04test\0\x02t1\0" + lenenc(len(types)) + types


def rows(width: int, *images: bytes) -> bytes:
    return struct.pack("<IHH", 17, 0, 1) + lenenc(width) + b"\xff" * ((width + 7) // 8) + b"".join(images)


CHAR_LOG = log_of(
    (TABLE_MAP, table_map(b"\x03\xfe")),
    (WRITE_ROWS_V0, rows(2, ONE, TWO)),
    (UPDATE_ROWS_V0, rows(2, ONE, ONE_CHANGED)),
)


def test_without_asking_rows_stay_raw_and_are_counted() -> None:
    with pytest.warns(binlog_core.BinlogWarning), binlog_core.open(CHAR_LOG) as log:
        assert list(log.rows()) == []
        assert log.report.rows_v0 == 2
        raw = [e for e in log.events() if e.type_code == WRITE_ROWS_V0]
        assert raw[0].rows == ONE + TWO


def test_values_of_real_rows() -> None:
    with binlog_core.open(CHAR_LOG, rows_v0=True) as log:
        changes = [(c.op, c.before, c.after) for c in log.rows()]
    assert changes == [
        ("insert", None, {"c0": 0, "c1": b"one"}),
        ("insert", None, {"c0": 1, "c1": b"two"}),
        ("update", {"c0": 0, "c1": b"one"}, {"c0": 1, "c1": b"one"}),
    ]


def test_a_null_has_a_value_on_the_wire_and_none_in_the_result() -> None:
    # Bit 0 is reserved; bit 1 is the first nullable column.
    null = bytes.fromhex("FB 00000000 03 6F6E65")
    data = log_of((TABLE_MAP, table_map(b"\x03\xfe")), (WRITE_ROWS_V0, rows(2, null, TWO)))
    with binlog_core.open(data, rows_v0=True) as log:
        assert [c.after for c in log.rows()] == [{"c0": None, "c1": b"one"}, {"c0": 1, "c1": b"two"}]


def test_a_null_date_is_not_counted_as_invalid() -> None:
    null = bytes.fromhex("FB 000000 00000000")  # DATE zero, NULL; INT 0
    data = log_of((TABLE_MAP, table_map(b"\x0a\x03")), (WRITE_ROWS_V0, rows(2, null)))
    with binlog_core.open(data, rows_v0=True) as log:
        (batch,) = log.batches()
    assert len(batch.invalid_dates) == 0
    assert batch.is_null("c0").tolist() == [True]


def test_null_dates_between_invalid_and_valid_ones() -> None:
    """Only the NULLs' dates are forgotten, in every row, whatever their number and place."""
    chance = random.Random(9)
    images, expected = [], []
    for row in range(40):
        kinds = [chance.choice(("null", "zero", "good")) for _ in range(11)]
        nulls = sum(1 << 1 + i for i, kind in enumerate(kinds) if kind == "null") | 1
        dates = [
            b"\x21\xa0\x0f" if kind == "good" or (kind == "null" and row % 2) else bytes(3) for kind in kinds
        ]
        images.append(nulls.to_bytes(2, "little") + b"".join(dates))
        expected += [(row, i, "0000-00-00") for i, kind in enumerate(kinds) if kind == "zero"]
    data = log_of((TABLE_MAP, table_map(b"\x0a" * 11)), (WRITE_ROWS_V0, rows(11, *images)))
    with binlog_core.open(data, rows_v0=True) as log:
        (batch,) = log.batches()
    assert batch.invalid_dates.tolist() == expected
    assert batch.is_null("c3").sum() == sum(image[0] >> 4 & 1 for image in images) > 0


def test_null_dates_cost_the_same_in_a_wide_table() -> None:
    def make(columns: int) -> bytes:
        null = b"\xff" * ((columns + 8) // 8) + bytes(3 * columns)
        return log_of(
            (TABLE_MAP, table_map(b"\x0a" * columns)), (WRITE_ROWS_V0, rows(columns, *[null] * 300))
        )

    def run(data: bytes) -> None:
        with binlog_core.open(data, rows_v0=True) as log:
            (batch,) = log.batches()
        assert len(batch) == 300 and len(batch.invalid) == 0

    assert_linear(run, make, 250)


def test_bit_columns_are_refused() -> None:
    data = log_of((TABLE_MAP, table_map(b"\x10\x03")), (WRITE_ROWS_V0, rows(2, ONE)))
    with binlog_core.open(data, rows_v0=True) as log, pytest.raises(binlog_core.DecodeError) as error:
        list(log.rows())
    assert error.value.column == "c0"


@pytest.mark.parametrize("length", range(1, len(ONE)))
def test_cut_rows(length: int) -> None:
    data = log_of((TABLE_MAP, table_map(b"\x03\xfe")), (WRITE_ROWS_V0, rows(2, TWO, ONE[:length])))
    with binlog_core.open(data, rows_v0=True) as log:
        changes = log.rows()
        assert next(changes).after == {"c0": 1, "c1": b"two"}
        with pytest.raises(binlog_core.DecodeError):
            next(changes)
