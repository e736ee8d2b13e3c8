"""Result sets into columns: any split of the bytes gives the same rows, and anything else is refused."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.talk import packet, result_set

pytest.importorskip("pymysql")

from binlog_core import BinlogError, ProtocolError
from binlog_core._core import _result_set as core
from binlog_core._tables.transcoding import utf8_table
from binlog_core.server.result_set import Rows, result_rows

ROWS = [
    (b"1", b"one", None),
    (b"-22", None, b""),
    (None, b"x" * 300, b"\0\xff"),
    (b"", b"y" * 70_000, b"z"),
]


def read(wire: bytes, sizes: Callable[[], int] = lambda: 1 << 30, **options: Any) -> list[tuple[Any, ...]]:
    source = io.BytesIO(wire)

    def receive(room: memoryview) -> int:
        return source.readinto(room[: sizes()])

    return [row for rows in result_rows(receive, **options) for row in rows.tuples()]


def one(values: list[bytes | None]) -> Rows:
    """A result set of one column."""
    return next(result_rows(io.BytesIO(result_set([(value,) for value in values], 1)).readinto))


@pytest.mark.parametrize("most", [1, 7, 100, 1 << 20])
def test_rows_however_they_come(most: int) -> None:
    rng = random.Random(most)
    wire = result_set(ROWS * 3, 3)
    assert read(wire, most=most) == ROWS * 3
    assert read(wire, lambda: rng.randint(1, 50), most=most) == ROWS * 3
    assert read(result_set([], 3), most=most) == []


def test_rows_of_several_packets() -> None:
    longest = 0xFFFFFF
    for length in (
        longest - 5,
        longest - 4,
        longest - 3,
        2 * longest + 9,
    ):  # the field's length takes 4 or 9 bytes
        rows = [(b"before",), (bytes(range(251)) * (length // 251 + 1),), (b"behind",)]
        rows[1] = (rows[1][0][:length],)
        rng = random.Random(length)
        assert read(result_set(rows, 1), lambda: rng.randint(1, 6 << 20)) == rows  # noqa: B023


def test_more_rows_than_sequence_numbers_and_a_line_without_them() -> None:
    rows = [(str(i).encode(),) for i in range(1000)]
    wire = result_set(rows, 1)
    assert read(wire) == rows
    at = wire.index(b"\x03500")
    wrong = wire[: at - 1] + bytes([wire[at - 1] ^ 1]) + wire[at:]
    with pytest.raises(ProtocolError):
        read(wrong)
    assert read(wrong, numbered=False) == rows


def test_an_error_instead_of_rows_and_among_them() -> None:
    from pymysql.err import OperationalError, ProgrammingError

    refusal = b"\xff\x7a\x04#42S02Table 'shop.t' doesn't exist"
    with pytest.raises(ProgrammingError, match="doesn't exist"):
        read(packet(1, refusal))
    whole = result_set([(b"1",)], 1)
    cut = whole[:-9]
    with pytest.raises(OperationalError, match="was killed"):
        read(cut + packet(5, b"\xff\x25\x05#70100was killed"))
    with pytest.raises(OperationalError, match="Lost connection"):
        read(cut)


@pytest.mark.parametrize(
    "wire",
    [
        packet(1, b""),
        packet(1, b"\0\0\0\2\0\0\0"),  # OK: a statement without rows
        packet(1, b"\xfb/etc/passwd"),  # LOCAL INFILE
        packet(1, b"\xfd\1\0\1"),  # more columns than a table has
        packet(1, b"\1") + packet(2, b"\3def") + packet(3, b"\3def"),  # one definition too many
        result_set([(b"1",)], 1)[:-9] + packet(5, b"\5abc"),  # a field beyond its row
        result_set([(b"1",)], 1)[:-9] + packet(5, b"\1a\1b"),  # one too many
        result_set([(b"1", b"2")], 2)[:-9] + packet(6, b"\1a"),  # one too few
        result_set([(b"1",)], 1) + b"more",
    ],
)
def test_what_is_not_a_result_set(wire: bytes) -> None:
    with pytest.raises(ProtocolError, match="not a result set"):
        read(wire)


def numbers(values: list[bytes | None], format: int, dtype: str, **options: Any) -> list[Any]:
    null_count, validity, _, data = one(values).column(0, format, **options)
    found = data.view(dtype).tolist()
    if validity is None:
        assert null_count == 0
        return found
    there = np.unpackbits(validity, count=len(values), bitorder="little").tolist()
    assert there.count(0) == null_count
    return [value if known else None for value, known in zip(found, there, strict=True)]


def test_integers() -> None:
    signed = [0, 7, -7, (1 << 63) - 1, -(1 << 63), None]
    texts = [None if value is None else str(value).encode() for value in signed]
    assert numbers(texts, core.SIGNED, "i8") == signed
    unsigned = [0, 9, (1 << 64) - 1, 10**19, 1]
    assert numbers([str(value).encode() for value in unsigned], core.UNSIGNED, "u8") == unsigned


@pytest.mark.parametrize(
    "text", ["0", "-0.01", "123.45", "-99999.99", "9" * 36 + ".99", "-" + "9" * 36 + ".99"]
)
def test_decimals(text: str) -> None:
    text += "" if "." in text else ".00"
    low, high = numbers([text.encode()], core.DECIMAL, "u8", precision=38, scale=2)
    value = (high << 64 | low) - (1 << 128 if high >> 63 else 0)
    assert value == int(text.replace(".", ""))


def test_dates_and_times() -> None:
    day = 86_400_000_000
    dates = [b"1970-01-01", b"2024-02-29", b"0001-01-01", b"9999-12-31", b"2023-02-29", b"2024-00-10", None]
    assert numbers(dates, core.DATE, "i4") == [0, 19782, -719162, 2932896, None, None, None]
    times = [
        b"1970-01-02 00:00:00",
        b"1969-12-31 23:59:59.5",
        b"0000-00-00 00:00:00.000",
        b"2024-02-29 01:02:03.000004",
    ]
    assert numbers(times, core.DATETIME, "i8") == [day, -500_000, None, 19782 * day + 3_723_000_004]
    spans = [b"00:00:01", b"-838:59:59.000001", b"838:59:59", b"-00:00:00.25"]
    assert numbers(spans, core.TIME, "i8") == [1_000_000, -3020399_000_001, 3020399_000_000, -250_000]


@pytest.mark.parametrize(
    ("format", "text"),
    [
        *((core.SIGNED, text) for text in ("", "-", "+1", " 1", "1 ", "1.0", "a", "9223372036854775808")),
        *((core.SIGNED, text) for text in ("-9223372036854775809", "--1", "1" * 21)),
        *((core.UNSIGNED, text) for text in ("-1", "18446744073709551616", "99999999999999999999", "")),
        *((core.DECIMAL, text) for text in ("1", "1.5", "1.555", ".55", "1000.00", "1,00", "-", "1.-5", "")),
        *((core.DATE, text) for text in ("2024-1-01", "2024/01/01", "2024-01-01 ", "2a24-01-01", "")),
        *((core.DATETIME, text) for text in ("2024-01-01", "2024-01-01 24:00:00", "2024-01-01 10:60:00")),
        *((core.DATETIME, text) for text in ("2024-01-01 10:00:00.", "2024-01-01 10:00:00.1234567")),
        *((core.DATETIME, text) for text in ("2024-01-01T10:00:00", "2024-01-01 10:00:0")),
        *((core.TIME, text) for text in ("", "1:00:00", "10:00", "10:00:60", "1000:00:00")),
        *((core.TIME, text) for text in ("10:00:00,5", "-", "a0:00:00")),
    ],
)  # fmt: skip
def test_a_value_that_is_not_valid_in_its_format(format: int, text: str) -> None:
    precision = {"precision": 5, "scale": 2} if format == core.DECIMAL else {}
    with pytest.raises(ValueError, match="not fit its column's type"):
        one([text.encode()]).column(0, format, **precision)


def test_one_byte_character_sets_become_utf8() -> None:
    for name, sent, wanted in (
        ("latin1", [b"\x80uro", None, b"", b"ascii"], "€uroascii"),
        ("latin1", [b"all ascii"], "all ascii"),
        ("koi8r", [b"\xc1\xc2" * 50], "аб" * 50),
    ):
        table, keeps_ascii = utf8_table(name)
        _, _, offsets, data = one(sent).column(0, core.BYTES, charset=table, keeps_ascii=keeps_ascii)
        assert offsets is not None
        assert data.tobytes().decode() == wanted
        assert offsets[-1] == len(data)
    table, keeps_ascii = utf8_table("hebrew")
    with pytest.raises(ValueError, match="not fit its column's type"):  # 0xA1 is not assigned
        one([b"\xa1"]).column(0, core.BYTES, charset=table, keeps_ascii=keeps_ascii)


def test_wrong_arguments() -> None:
    rows = core.ResultRows()
    buffer = bytearray(result_set([(b"1",)], 1))
    with pytest.raises(ValueError, match="outside"):
        rows.take(buffer, len(buffer) + 1)
    assert rows.take(buffer, len(buffer)) == core.ENDED
    for number, format in ((1, core.BYTES), (-1, core.BYTES), (0, 99)):
        with pytest.raises(ValueError, match="no such column"):
            rows.column(buffer, number, format)
    with pytest.raises(ValueError, match="no such column"):
        rows.column(buffer, 0, core.DECIMAL, precision=39)
    with pytest.raises(ValueError, match="expected the buffer"):
        rows.column(bytearray(3), 0, core.BYTES)
    for charset in (np.zeros(255, np.uint32), np.full(256, 4 << 24 | 0x61, np.uint32)):
        with pytest.raises(ValueError, match="expected 256 entries of at most 3 bytes"):
            rows.column(buffer, 0, core.BYTES, charset=charset)


def test_any_bytes_give_rows_or_an_error() -> None:
    from pymysql.err import MySQLError

    rng = random.Random(16)
    wire = result_set([(b"2024-01-01 10:00:00", b"-12.50"), (None, b"7"), (b"x" * 300, b"")] * 3, 2)
    formats = [core.BYTES, core.SIGNED, core.UNSIGNED, core.DECIMAL, core.DATE, core.DATETIME, core.TIME]
    seen = {"rows": 0, "refused": 0}
    for _ in range(4000):
        data = bytearray(wire)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        exact = np.frombuffer(
            bytes(data[: rng.randint(1, len(data))]), np.uint8
        ).copy()  # the sanitizer sees its end
        rows = core.ResultRows(numbered=rng.random() < 0.5)
        if rows.take(exact, len(exact)) in (core.OUT_OF_ORDER, core.MALFORMED):
            seen["refused"] += 1
        for number in range(rows.columns):
            for format in formats:
                try:
                    rows.column(exact, number, format, precision=4, scale=2)
                    seen["rows"] += rows.rows
                except ValueError:
                    pass
        try:
            read(data.copy(), lambda: rng.randint(1, 99), most=rng.randint(1, 200))
        except (BinlogError, MySQLError, IndexError, struct.error):  # PyMySQL's, which Connection translates
            pass
    assert min(seen.values()) > 100  # most flips are in values, or cut the last row off


@pytest.mark.parametrize("seed", range(3))
def test_the_buffer_of_a_long_row_is_given_up_after_it(seed: int) -> None:
    chance = random.Random(seed)
    short = [(b"%d" % number, None) for number in range(chance.randrange(300_000, 400_000))]
    rows = [*short[:10], (b"x" * chance.randrange(200_000, 900_000), b""), *short]
    source, taken, sizes = io.BytesIO(result_set(rows, 2)), [], []
    for found in result_rows(
        lambda room: source.readinto(room[: chance.randrange(1, 1 << 20)]), most=1 << 12
    ):
        taken += found.tuples()
        sizes.append(found.size)
    assert taken == rows
    assert sum(size > 1 << 12 for size in sizes) == 1


@pytest.mark.parametrize("columns", [1, 240])
def test_rows_of_many_fields_are_handed_out_before_their_buffer_is_full(columns: int) -> None:
    """A field of a byte takes sixteen bytes."""
    count = (3 << 20) // columns
    source = io.BytesIO(result_set([(None,) * columns] * count, columns))
    counts = [rows.count * columns for rows in result_rows(source.readinto, most=64 << 20)]
    assert sum(counts) == count * columns
    assert all(1 << 20 <= fields < (1 << 20) + columns for fields in counts[:-1]) and len(counts) > 2
