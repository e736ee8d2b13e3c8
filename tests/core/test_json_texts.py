"""Records as JSON, made without Python values: the same bytes as JSON of the Python values."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from support import debezium_events
from support.filled import ABSENT, DELETE, INSERT, POSTIMAGE, PREIMAGE, Batch, column, integer, make_batch
from support.golden import golden_logs
from support.hostile import SANITIZED
from support.jsonb_encoder import encode

import binlog_core
from binlog_core._base.json_text import encode_plain
from binlog_core._core._values import JsonTexts, RowReader
from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import Column
from binlog_core.errors import DecodeError
from binlog_core.lake.rows import debezium
from binlog_core.lake.rows.fit import encode_compact

pytestmark = pytest.mark.sanitize

Style = Literal["readable", "compact", "debezium"]
ENCODERS: dict[Style, Callable[[Any], bytes]] = {
    "readable": encode_plain,
    "compact": encode_compact,
    "debezium": debezium_events.encode,
}
STYLES = list(ENCODERS)


def made_of_values(style: Style, batch: Batch, values: dict[str, Any]) -> bytes:
    """JSON of a record's Python values."""
    if style == "debezium":
        encoders = {column.name: debezium_events.encoder(column) for column in batch.columns}
        values = debezium_events.encoded(values, encoders)
    return ENCODERS[style](values)


def texts_in(style: Style) -> JsonTexts:
    encoder_of = debezium._encoder if style == "debezium" else None
    return JsonTexts(style, ENCODERS[style], encoder_of)


DAY = 86_400_000_000


def texts_of(texts: JsonTexts) -> list[bytes]:
    data, offsets = texts.joined(), texts.offsets().tolist()
    assert len(texts) == len(offsets) - 1
    assert (offsets[0], offsets[-1]) == (0, len(data))
    return [data[i:j] for i, j in pairwise(offsets)]


def objects(style: Style, batch: Batch, records: Sequence[int] | None = None, **more: Any) -> list[bytes]:
    texts = texts_in(style)
    chosen = range(len(batch.array)) if records is None else records
    texts.add_objects(RowReader(batch, on_error="skip"), np.array(chosen, np.int64), **more)
    return texts_of(texts)


def one(style: Style, c: Column, stored: Any, **more: Any) -> bytes:
    (text,) = objects(style, make_batch([c], [[stored]], **more))
    beginning = b'{"c": ' if style == "readable" else b'{"c":'
    assert text.startswith(beginning)
    assert text.endswith(b"}")
    return text[len(beginning) : -1]


# -- Values of every kind, by a seed -----------------------------------------------------------

NASTY = [
    "",
    "plain text",
    'quote " and \\',
    "\b\f\n\r\t\0\x1f\x7f",
    "é",
    "漢字",
    "\U0001f600 face",
    "x" * 300,
]
TEXTS = [text.encode() for text in NASTY] + [b"\xff", b"ab\xc3", b"\xed\xa0\x80", b"long " * 20 + b"\x80"]
DOUBLES = [0.0, -0.0, 1.0, 0.1, -2.5, 1e15, 1e16, 1e17, 9.999e22, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308,
           float("nan"), float("inf"), float("-inf"), 123456789012345680.0, 2.0**53, 1 / 3]  # fmt: skip
DOCUMENTS = [encode(one, large) for one in ({}, [1, "é\n", None, 1.5], {"a": {"b": [True]}}, "text", 7)
             for large in (False, True)]  # fmt: skip


def whole(random_: random.Random, bits: int, *, signed: bool) -> int:
    least = -(1 << bits - 1) if signed else 0
    most = least + (1 << bits) - 1
    return random_.choice([least, most, 0, 9, 10, 99, random_.randint(least, most), random_.randint(0, 120)])


def limbs(number: int, precision: int) -> Any:
    words = number & (1 << 256) - 1
    if precision <= 18:
        return number
    count = 2 if precision <= 38 else 4
    stored = [words >> 64 * i & 2**64 - 1 for i in range(count)]
    stored[-1] -= stored[-1] >> 63 << 64
    return tuple(stored)


def decimal(random_: random.Random, precision: int) -> Any:
    digits = random_.randint(0, precision)
    return limbs(random_.randint(-(10**digits) + 1, 10**digits - 1), precision)


Maker = Callable[[random.Random], Any]


def every_kind() -> list[tuple[dict[str, Any], Maker]]:
    """Arguments of a column, and a maker of what its records hold."""
    found: list[tuple[dict[str, Any], Maker]] = []

    def add(maker: Maker, kind: Kind, **more: Any) -> None:
        found.append(({"kind": kind, **more}, maker))

    for width, code in ((1, 1), (2, 2), (3, 9), (4, 3), (8, 8)):
        for signed in (True, False):
            add(
                lambda r, width=width, signed=signed: whole(r, 8 * width, signed=signed),
                Kind.INT, type_code=code, signed=signed,
            )  # fmt: skip
    add(lambda _: 0, Kind.NULL)
    for bits in (1, 7, 16, 33, 64):
        add(lambda r, bits=bits: whole(r, bits, signed=False), Kind.BIT, length=bits)
    for precision, scale in ((9, 0), (9, 2), (18, 18), (38, 10), (38, 30), (65, 0), (65, 30)):
        add(
            lambda r, precision=precision: decimal(r, precision),
            Kind.DECIMAL, precision=precision, scale=scale,
        )  # fmt: skip
    add(lambda r: r.choice([*DOUBLES, struct.unpack("<d", r.randbytes(8))[0]]), Kind.DOUBLE)
    add(lambda r: np.frombuffer(r.randbytes(4), "<f4")[0] if r.random() < 0.5 else r.choice((0.1, 1e10, 3.0)),
        Kind.FLOAT)  # fmt: skip
    add(lambda r: r.choice([0, 1901, 2155, 65535]), Kind.YEAR)
    add(lambda r: np.datetime64(r.randint(-800_000, 3_100_000), "D"), Kind.DATE)
    for fsp in (0, 3, 6):
        add(lambda r: r.randint(-63_000 * DAY * 12, 2_940_000 * DAY), Kind.DATETIME, fsp=fsp)
        add(lambda r: r.randint(0, 2**31) * 1_000_000 + r.choice([0, 1, 500_000]), Kind.TIMESTAMP, fsp=fsp)
        add(lambda r: r.choice([0, -1, 838 * 3_600_000_000, r.randint(-DAY, DAY), -1_000_000]),
            Kind.TIME, fsp=fsp)  # fmt: skip
    for charset in (
        "utf8mb4",
        "utf8mb3",
        "ascii",
        "latin1",
        "cp1251",
        "gbk",
        "sjis",
        "utf16",
        "ucs2",
        "utf16le",
        "utf32",
        "geostd8",
        None,
    ):
        add(lambda r: r.choice([*TEXTS, r.randbytes(r.randint(0, 40))]), Kind.TEXT, charset=charset)
    for pad_to in (0, 10):
        add(lambda r: r.choice([b"", b"\0\xff", r.randbytes(r.randint(0, 10))]), Kind.BINARY, pad_to=pad_to)
    add(lambda r: struct.pack("<I", 4326) + r.randbytes(21), Kind.GEOMETRY)
    add(lambda r: r.randbytes(r.choice([0, 4, 12, 12, 13])), Kind.VECTOR)
    add(lambda r: r.choice([*DOCUMENTS, b"", b"\x0f\xff", b"\x00\x01"]), Kind.JSON)
    for members in (("a", 'b"c', "", "é\n"), ("caf\udce9",), None, ()):
        add(lambda r: r.randint(0, 6), Kind.ENUM, length=2, members=members)
        add(lambda r: r.choice([0, 1, 5, 15, 16, 2**63]), Kind.SET, length=8, members=members)
    add(lambda r: r.randint(0, 2**64 - 1), Kind.SET, length=8, members=tuple(f"m{i}" for i in range(64)))
    return found


def filled(seed: int) -> Batch:
    """Some columns of some kinds, with NULL, absent columns and invalid dates."""
    random_ = random.Random(seed)
    kinds = every_kind()
    random_.shuffle(kinds)
    chosen = kinds[: random_.choice([1, 5, 9, 30])]
    columns = [column(name=f"c{i}", index=i, **arguments) for i, (arguments, _) in enumerate(chosen)]
    rows: list[list[Any]] = []
    invalid: list[tuple[int, ...]] = []
    for r in range(random_.choice([1, 3, 40])):
        row: list[Any] = []
        for c, (_, maker) in zip(columns, chosen, strict=True):
            dice = random_.random()
            value = None if dice < 0.1 else ABSENT if dice < 0.2 else maker(random_)
            if dice > 0.9 and c.kind in (Kind.DATE, Kind.DATETIME):
                value = np.datetime64("NaT")
                invalid.append((r, c.index, 2024, 2, 30, 1, 2, 3, 456_000))
            row.append(value)
        rows.append(row)
    return make_batch(columns, rows, invalid=invalid)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(60))
def test_every_kind(style: Style, seed: int) -> None:
    batch = filled(seed)
    python = RowReader(batch, on_error="skip")
    want = [made_of_values(style, batch, python.values(record)) for record in range(len(batch.array))]
    reader = RowReader(batch, on_error="skip")
    texts = texts_in(style)
    texts.add_objects(reader, np.arange(len(batch.array)))
    assert texts_of(texts) == want
    for text in want:
        json.loads(text)
    assert (reader.invalid_text, reader.damaged_values) == (python.invalid_text, python.damaged_values)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(20))
def test_columns_that_another_record_has(style: Style, seed: int) -> None:
    """An image after the change whose absent columns come from the image before it."""
    batch = filled(1000 + seed)
    reader = RowReader(batch, on_error="skip")
    count = len(batch.array)
    records = np.array([r for r in range(count) for _ in range(3)], np.int64)
    bases = np.array([random.Random(seed + i).randrange(-1, count) for i in range(len(records))], np.int64)
    want = [
        made_of_values(style, batch, (reader.values(base) if base >= 0 else {}) | reader.values(record))
        for record, base in zip(records.tolist(), bases.tolist(), strict=True)
    ]
    assert objects(style, batch, records.tolist(), bases=bases) == want


@pytest.mark.parametrize("style", STYLES)
def test_golden_logs(style: Style) -> None:
    """Every record of the servers' logs."""
    checked = 0
    for golden in golden_logs(max_bytes=1_000_000):
        if golden.open_arguments:
            continue
        with binlog_core.open(golden.path) as log:
            for batch in log.batches():
                if batch.table.undecodable is None:
                    reader = RowReader(batch)
                    every = [reader.values(record) for record in range(len(batch.array))]
                    want = [made_of_values(style, batch, values) for values in every]  # type: ignore[arg-type]
                    assert objects(style, batch) == want  # type: ignore[arg-type]
                    checked += len(want)
    assert checked > 5_000


# -- Stated by hand ----------------------------------------------------------------------------


def test_values_by_hand() -> None:
    noon = np.datetime64("2024-02-29T12:00:00.000001")
    for c, stored, readable, compact in (
        (integer(8, signed=False), 2**64 - 1, b"18446744073709551615", b"18446744073709551615"),
        (column(Kind.DECIMAL, precision=9, scale=2), -5, b'"-0.05"', b'"-0.05"'),
        (column(Kind.DOUBLE), 1e16, b"1e+16", b"1e+16"),
        (column(Kind.DOUBLE), -1e-5, b"-1e-05", b"-1e-05"),
        (column(Kind.DOUBLE), float("-inf"), b'"-Infinity"', b'"-Infinity"'),
        (column(Kind.DATETIME), noon, b'"2024-02-29 12:00:00.000001"', b'"2024-02-29T12:00:00.000001"'),
        (column(Kind.TIMESTAMP), 1_000_001, b'"1970-01-01 00:00:01.000001+00:00"',
         b'"1970-01-01T00:00:01.000001+00:00"'),
        (column(Kind.TIME), -1, b'"-00:00:00.000001"', b"-1"),
        (column(Kind.BINARY, pad_to=3), b"\xfe", b'{"hex": "fe0000"}', b'"/gAA"'),
        (column(Kind.TEXT, charset="latin1"), b"caf\xe9", '"café"'.encode(), '"café"'.encode()),
        (column(Kind.TEXT, charset="utf8mb4"), b'\x01"\\', b'"\\u0001\\"\\\\"', b'"\\u0001\\"\\\\"'),
        (column(Kind.SET, length=1, members=("a", "b")), 3, b'["a", "b"]', b'["a","b"]'),
        (column(Kind.JSON), encode({"k": "v"}), b'"{\\"k\\": \\"v\\"}"', b'"{\\"k\\": \\"v\\"}"'),
    ):  # fmt: skip
        assert (one("readable", c, stored), one("compact", c, stored)) == (readable, compact)


def test_numbers_of_every_length() -> None:
    """Also decimals at the ends of a word, whose digits a division by the scale could lose."""
    ends = [10**n + more for n in range(20) for more in (-1, 0, 1)] + [2**63 - 1, 2**64 - 1]
    for number in ends:
        assert one("readable", integer(8, signed=False), number) == b"%d" % number
        if number < 2**63:
            assert one("readable", integer(8), -number) == b"%d" % -number
    for scale in (0, 1, 9, 18, 19, 20, 30):
        c = column(Kind.DECIMAL, precision=38, scale=scale)
        for number in (*ends, 2**63, 2**64, 2**64 + 1, 10**38 - 1):
            digits = f"{number:0{scale + 1}}"
            text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
            assert one("readable", c, limbs(number, 38)) == f'"{text}"'.encode()
            assert one("readable", c, limbs(-number, 38)) == f'"{"-" * (number > 0)}{text}"'.encode()


@pytest.mark.parametrize("length", [*range(70), 255, 4096, 1_000_000])
def test_strings_of_any_length(length: int) -> None:
    c = column(Kind.TEXT, charset="utf8mb4")
    for special in ("", '"', "\n", "\x02", "é"):
        text = "a" * length + special + "b" * (length % 11)
        assert one("compact", c, text.encode()) == json.dumps(text, ensure_ascii=False).encode()


def test_names_need_escapes_too() -> None:
    names = ['a"b', "\n", "caf\udce9\udcff", "x" * 200, "é"]
    batch = make_batch(
        [integer(4, name=name, index=i) for i, name in enumerate(names)], [[1] * 5, [None] * 5]
    )
    for style in STYLES:
        want = [made_of_values(style, batch, dict.fromkeys(names, value)) for value in (1, None)]
        assert objects(style, batch) == want


def test_partial_documents() -> None:
    c = column(Kind.JSON)
    changes = b"\x00\x03$.a" + bytes([len(encode(2))]) + encode(2)
    rows = [[encode({"a": 1})], [changes], [changes]]
    ops = [PREIMAGE, POSTIMAGE, INSERT]
    batch = make_batch([c], rows, ops, json_diffs=[(1, 0), (2, 0)])
    assert objects("compact", batch) == [
        b'{"c":"{\\"a\\": 1}"}',
        b'{"c":"{\\"a\\": 2}"}',
        b'{"c":[["replace","$.a","2"]]}',
    ]


def test_a_damaged_value_adds_nothing() -> None:
    c = column(Kind.VECTOR)
    texts = JsonTexts("compact", encode_compact)
    good, bad = make_batch([c], [[b""]]), make_batch([c], [[b""], [b"abc"]])
    records = np.arange(2)
    texts.add_objects(RowReader(good), records[:1])
    with pytest.raises(DecodeError, match="VECTOR"):
        texts.add_objects(RowReader(bad), records)
    assert texts_of(texts) == [b'{"c":[]}']
    with pytest.raises(DecodeError, match="VECTOR"):
        texts.add_changes(RowReader(bad), b"null")
    assert texts_of(texts) == [b'{"c":[]}']
    texts.clear()
    assert texts_of(texts) == []


# -- Lines, order, arguments -------------------------------------------------------------------


def test_changes() -> None:
    ops = [INSERT, PREIMAGE, POSTIMAGE, DELETE]
    batch = make_batch([integer(4, name="id")], [[1], [1], [2], [2]], ops)
    texts = JsonTexts("readable", encode_plain)
    texts.add_changes(RowReader(batch), b'"log"')
    about = '"timestamp": %d, "gtid": null, "file": "log", "position": %d}\n'
    lines = [
        '{"op": "insert", "database": "shop", "table": "orders", "before": null, "after": {"id": 1}, ',
        '{"op": "update", "database": "shop", "table": "orders", "before": {"id": 1}, "after": {"id": 2}, ',
        '{"op": "delete", "database": "shop", "table": "orders", "before": {"id": 2}, "after": null, ',
    ]
    places = [(1700000000, 1000), (1700000001, 1001), (1700000003, 1003)]
    want = [(line + about % place).encode() for line, place in zip(lines, places, strict=True)]
    assert texts_of(texts) == want
    assert texts.joined(np.array([2, 0, 0])) == want[2] + want[0] + want[0]
    assert texts.joined(np.array([], np.int64)) == b""


@pytest.mark.parametrize("ops", [[PREIMAGE], [POSTIMAGE], [PREIMAGE, INSERT], [INSERT, POSTIMAGE], [0], [5]])
def test_images_that_make_no_change(ops: list[int]) -> None:
    texts = JsonTexts("readable", encode_plain)
    batch = make_batch([integer(4)], [[i] for i in range(len(ops))], ops)
    with pytest.raises(DecodeError, match="does not begin a change"):
        texts.add_changes(RowReader(batch), b"null")
    assert len(texts) == 0


def test_a_transaction_that_the_batch_lacks() -> None:
    batch = make_batch([integer(4)], [[1]])
    batch.array["image"]["transaction"] = 7
    with pytest.raises(DecodeError, match="transaction 7 of 1"):
        JsonTexts("readable", encode_plain).add_changes(RowReader(batch), b"null")


def test_wrong_arguments() -> None:
    reader = RowReader(make_batch([integer(4)], [[1], [2]]))
    texts = JsonTexts("compact", encode_compact)
    for wrong in ([2], [-2], [0, 1, 99]):
        with pytest.raises(IndexError):
            texts.add_objects(reader, np.array(wrong))
        with pytest.raises(IndexError):
            texts.add_objects(reader, np.zeros(len(wrong), np.int64), np.array(wrong))
    with pytest.raises(ValueError, match="bases"):
        texts.add_objects(reader, np.zeros(2, np.int64), np.zeros(1, np.int64))
    assert len(texts) == 0
    texts.add_objects(reader, np.array([-1, 0, -1]))
    assert texts_of(texts) == [b"", b'{"c":1}', b""]
    for wrong in ([3], [-1]):
        with pytest.raises(IndexError):
            texts.joined(np.array(wrong))
    with pytest.raises(ValueError, match="style"):
        JsonTexts("pretty", encode_plain)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        texts.add_objects(None, np.arange(1))  # type: ignore[arg-type]


def test_a_span_outside_the_buffer() -> None:
    batch = make_batch([column(Kind.TEXT, charset="utf8mb4")], [[b"abc"]])
    batch.array["row"]["c"]["length"] = 2**32 - 1
    with pytest.raises(DecodeError, match="of a buffer of"):
        objects("compact", batch)


def test_memory_of_a_large_batch_is_given_back() -> None:
    """A long-lived writer does not hold what one large value needed."""

    def held() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not Path("/proc/self/statm").exists() or SANITIZED:
        pytest.skip("needs Linux, and no memory of a sanitizer's own")
    blob, text = column(Kind.BINARY), column(Kind.TEXT, charset="latin1")
    large = [make_batch([c], [[byte * (32 << 20)]]) for c, byte in ((blob, b"x"), (text, b"\xe9"))]
    small = make_batch([blob], [[b"x"]])
    texts = JsonTexts("readable", encode_plain)
    before = held()
    for batch in (*large, small, small):
        texts.clear()
        texts.add_changes(RowReader(batch), b"null")
    assert held() - before < 24 << 20
    assert len(texts) == 1


def test_a_value_that_clears_the_texts() -> None:
    """What `encode` does to the texts in the middle of one leaves them sound."""
    columns = [integer(4, name="id"), column(Kind.TEXT, "c", 1, charset="utf8mb4")]
    batch = make_batch(columns, [[1, b"a" * (20 << 20)], [2, b"\xff"], [3, b"b"]])

    def encode(value: Any) -> bytes:
        if isinstance(value, bytes):
            texts.clear()
            texts.clear()
            raise KeyboardInterrupt
        return encode_plain(value)

    texts = JsonTexts("readable", encode)
    with pytest.raises(KeyboardInterrupt):
        texts.add_objects(RowReader(batch), np.arange(3))
    assert texts_of(texts) == []
    texts.add_objects(RowReader(batch), np.array([2]))
    with pytest.raises(KeyboardInterrupt):
        texts.add_changes(RowReader(batch), b"null")
    assert texts_of(texts) == []
