"""Compressed payloads, events and columns: made by zlib and zstandard, and by real servers."""

from __future__ import annotations

import random
import re
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from support.golden import Golden, golden_logs

from binlog_core._format.compression import (
    inflate_block,
    inflate_columns,
    parse_payload_header,
    payload_chunks,
)
from binlog_core._tables import column_types as ct
from binlog_core._tables.tables import Column, record_dtype
from binlog_core.errors import BinlogError, DecodeError, DecompressionError

pytestmark = pytest.mark.sanitize

zstandard = pytest.importorskip("zstandard")


def lenenc(value: int) -> bytes:
    if value <= 250:
        return bytes([value])
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")


def field(kind: int, value: int) -> bytes:
    packed = lenenc(value)
    return lenenc(kind) + lenenc(len(packed)) + packed


def payload_event(payload: bytes, *, algorithm: int = 0, claimed: int | None = None) -> bytes:
    """As MySQL 9.7 orders it: compression, uncompressed size, payload size, end mark."""
    size = field(3, claimed) if claimed is not None else b""
    return field(2, algorithm) + size + field(1, len(payload)) + b"\0" + payload


PLAIN = b"".join(b"event %d " % i for i in range(50_000))


def frame(data: bytes, **options) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)


# Transaction payloads


def test_payload_header_fields_in_any_order_with_unknown_ones():
    body = (
        field(77, 5)
        + field(1, 3)
        + lenenc(90)
        + lenenc(4)
        + b"\xff\xff\xff\xff"
        + field(2, 255)
        + b"\0abcTRAILING"
    )
    header = parse_payload_header(body)
    assert (header.algorithm, bytes(header.payload), header.uncompressed_size) == (255, b"abc", None)


def test_payload_header_claims_are_kept_as_written():
    header = parse_payload_header(payload_event(b"xy", claimed=1 << 40))
    assert (header.algorithm, bytes(header.payload), header.uncompressed_size) == (0, b"xy", 1 << 40)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01",
        b"\x01\x01",
        b"\x01\x02\x05",  # length past the event
        b"\x01\x02\x05\x05\x00",  # two bytes hold an integer of one
        b"\x01\x01\xfc\x00",  # an integer longer than its field
        b"\x01\x01\xfb\x00",  # 251 is no integer
        b"\x01\x01\xff\x00",
        b"\x00",  # neither size nor compression
        field(2, 0) + b"\0",
        field(1, 0) + b"\0",
        field(2, 0) + field(1, 4) + b"\0abc",  # payload past the event
        b"\xfe\xff\xff",
    ],
)
def test_payload_header_that_cannot_be(body):
    with pytest.raises(DecodeError) as caught:
        parse_payload_header(body, 120, "log")
    assert (caught.value.offset, caught.value.path, caught.value.type_code) == (120, "log", 40)


@pytest.mark.parametrize("cut", range(12))
def test_payload_header_cut_at_every_byte(cut):
    body = payload_event(b"abc", claimed=3)
    assert len(body) > 12
    with pytest.raises(DecodeError):
        parse_payload_header(body[:cut])


@pytest.mark.parametrize(
    "payload",
    [
        frame(PLAIN),
        frame(PLAIN, write_checksum=True),
        frame(PLAIN, write_content_size=False),
        frame(PLAIN[:1000]) + frame(PLAIN[1000:1000]) + frame(PLAIN[1000:], write_content_size=False),
        frame(PLAIN[:7]) + b"\x50\x2a\x4d\x18\x03\0\0\0abc" + frame(PLAIN[7:]),  # a skippable frame between
    ],
    ids=["sized", "checksum", "no size", "three frames", "skippable"],
)
@pytest.mark.parametrize("claimed", [len(PLAIN), None])
def test_zstd_payload(payload, claimed):
    assert b"".join(payload_chunks(payload_event(payload, claimed=claimed))) == PLAIN


def test_zstd_payload_of_a_stream_compressor():
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    payload = (
        b"".join(compressor.compress(PLAIN[i : i + 999]) for i in range(0, len(PLAIN), 999))
        + compressor.flush()
    )
    assert b"".join(payload_chunks(payload_event(payload))) == PLAIN


def test_uncompressed_payload():
    assert b"".join(payload_chunks(payload_event(PLAIN, algorithm=255))) == PLAIN
    assert list(payload_chunks(payload_event(b"", algorithm=255))) == []


def broken(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("payload", "claimed", "says"),
    [
        (b"", None, "cut off after 0"),
        (frame(PLAIN)[:-1], None, "cut"),
        (frame(PLAIN)[:-1], len(PLAIN), "cut"),
        (frame(PLAIN)[:3], None, "cut"),
        (frame(PLAIN) + b"rest", None, "damaged"),
        (broken(frame(PLAIN), 0), None, "damaged"),
        (broken(frame(PLAIN, write_checksum=True), -2), None, "damaged"),
        (frame(PLAIN), len(PLAIN) + 1, f"claims {len(PLAIN) + 1} bytes and has {len(PLAIN)}"),
        (frame(PLAIN), len(PLAIN) - 1, "has more"),
        (frame(PLAIN), 0, "has more"),
    ],
)
def test_broken_zstd_payload(payload, claimed, says):
    with pytest.raises(DecompressionError, match=says) as caught:
        list(payload_chunks(payload_event(payload, claimed=claimed), path="log", offset=5_000_000_000))
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == ("log", 5_000_000_000, 40)


def test_zstd_payload_cut_anywhere_never_passes():
    payload = frame(PLAIN[:5000], write_content_size=False)
    for cut in range(len(payload)):
        with pytest.raises(DecompressionError):
            list(payload_chunks(payload_event(payload[:cut])))


def test_unknown_payload_algorithm_is_named():
    with pytest.raises(DecompressionError, match="algorithm 7"):
        list(payload_chunks(payload_event(b"abc", algorithm=7)))


def test_payload_limit_stops_a_bomb_in_bounded_memory():
    bomb = frame(bytes(512 << 20), level=3)
    assert len(bomb) < 64 << 10
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError, match=str(100 << 20)):
            for chunk in payload_chunks(payload_event(bomb), limit=100 << 20):
                assert len(chunk) <= 17 << 20
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_payload_limit_is_inclusive():
    event = payload_event(frame(PLAIN))
    assert b"".join(payload_chunks(event, limit=len(PLAIN))) == PLAIN
    with pytest.raises(DecompressionError):
        list(payload_chunks(event, limit=len(PLAIN) - 1))


def events(log: Golden, type_code: int) -> list[tuple[dict[str, Any], bytes]]:
    """The server's description of each event of a type, and its body."""
    found = []
    checksum_len = 0 if log.meta["settings"]["binlog_checksum"] == "NONE" else 4
    for event in log.events:
        data = log.data[
            event["pos"] : event["pos"] + int.from_bytes(log.data[event["pos"] + 9 :][:4], "little")
        ]
        if data[4] == type_code:
            found.append((event, data[19 : len(data) - checksum_len]))
    assert found
    return found


@pytest.mark.parametrize("log", golden_logs("mysql97/*trx_compression*"), ids=str)
def test_payloads_of_a_server(log):
    for event, body in events(log, 40):
        told = re.search(r"decompressed_size=(\d+) bytes", event["info"])
        plain = b"".join(payload_chunks(body))
        assert len(plain) == int(told[1]) == parse_payload_header(body).uncompressed_size
        types, at = [], 0
        while at < len(plain):
            types.append(plain[at + 4])
            at += int.from_bytes(plain[at + 9 : at + 13], "little")
        assert at == len(plain)
        assert types[0] == 2 and types[-1] == 16 and 19 in types  # BEGIN, table maps, XID


# MariaDB's compressed events


def block(data: bytes, *, width: int = 4, claimed: int | None = None) -> bytes:
    size = len(data) if claimed is None else claimed
    return bytes([0x80 | width]) + size.to_bytes(width, "big") + zlib.compress(data)


@pytest.mark.parametrize(
    ("data", "width"), [(b"", 1), (b"a", 1), (b"ab" * 100, 1), (PLAIN[:60_000], 2), (PLAIN, 3), (PLAIN, 4)]
)
def test_block(data, width):
    assert inflate_block(block(data, width=width)) == data
    assert inflate_block(memoryview(block(data, width=width))) == data


@pytest.mark.parametrize("log", golden_logs("maria*/maria_bincompress"), ids=str)
def test_compressed_queries_of_a_server(log):
    for event, body in events(log, 165):
        # thread_id 4, time 4, length of the database 1, error 2, length of the status variables 2
        text = inflate_block(body[13 + int.from_bytes(body[11:13], "little") + body[8] + 1 :]).decode()
        assert event["info"].removeprefix("use `shop`; ")[:400] in text or text in event["info"]
        assert len(text) > 20


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "nothing"),
        (b"\x01\x01x", "0x01"),
        (b"\xa1\x01" + zlib.compress(b"a"), "0xa1"),
        (b"\x80" + zlib.compress(b"a"), "0 length bytes"),
        (b"\x85\0\0\0\0\x01" + zlib.compress(b"a"), "5 length bytes"),
        (b"\x84\0\0", "4 length bytes"),
        (block(PLAIN)[:-1], "cut"),
        (block(PLAIN)[:100], "cut"),
        (block(PLAIN) + b"\0", "follow"),
        (broken(block(PLAIN), 5), "damaged"),
        (broken(block(PLAIN), -1), "damaged"),
        (block(PLAIN, claimed=len(PLAIN) - 1), "has more"),
        (block(PLAIN, claimed=0), "has more"),
        (block(PLAIN, claimed=len(PLAIN) + 1), f"has {len(PLAIN)}"),
        (block(PLAIN, claimed=0xFFFFFFFF), "are allowed"),
    ],
)
def test_block_that_cannot_be(data, says):
    with pytest.raises(DecompressionError, match=says) as caught:
        inflate_block(data, path="log", offset=99, type_code=166, table="a.b")
    error = caught.value
    assert (error.path, error.offset, error.type_code, error.table) == ("log", 99, 166, "a.b")


def test_block_with_a_small_claim_does_not_inflate_more():
    bomb = block(bytes(256 << 20), claimed=1000)
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError, match="has more"):
            inflate_block(bomb)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_block_limit():
    with pytest.raises(DecompressionError, match="1000 are allowed"):
        inflate_block(block(PLAIN), limit=1000)
    assert inflate_block(block(PLAIN), limit=len(PLAIN)) == PLAIN


# MariaDB's compressed columns

COLUMNS = (
    Column("id", 0, ct.MYSQL_TYPE_LONG, ct.Kind.INT),
    Column("packed", 1, ct.MYSQL_TYPE_BLOB_COMPRESSED, ct.Kind.BINARY, compressed=True),
    Column("text", 2, ct.MYSQL_TYPE_VARCHAR, ct.Kind.TEXT),
    Column("words", 3, ct.MYSQL_TYPE_VARCHAR_COMPRESSED, ct.Kind.TEXT, compressed=True),
)

# From a server: INSERT of 300 × 'z' and 150 × 'w'.
SERVER_Z300 = bytes.fromhex("8a012cabaa1a05c40200")
SERVER_W150 = bytes.fromhex("89962b2f1f8c0000")


def records(rows: list[tuple[int, bytes | None, bytes | None, bytes | None]]) -> tuple[np.ndarray, bytes]:
    """A batch's array and buffer as the decoder leaves them, with bytes of other tables around."""
    array = np.zeros(len(rows), record_dtype(len(COLUMNS), COLUMNS))
    buffer = bytearray(b"other table" * 10)
    for i, values in enumerate(rows):
        for column, value in zip(COLUMNS, values, strict=True):
            if value is None:
                array["image"]["null_bitmap"][i, 0] |= 1 << column.index
            elif isinstance(value, int):
                array["row"][column.name][i] = value
            else:
                array["row"][column.name][i] = (len(buffer), len(value))
                buffer += value
    return array, bytes(buffer + b"other table")


def values(array: np.ndarray, name: str, buffer: bytes) -> list[bytes]:
    return [bytes(buffer[int(o) : int(o) + int(n)]) for o, n in array["row"][name]]


def with_zlib(data: bytes) -> bytes:
    return b"\x82" + len(data).to_bytes(2, "big") + zlib.compress(data)


def test_columns():
    array, buffer = records(
        [
            (1, SERVER_Z300, b"first", SERVER_W150),
            (2, None, b"second", b""),
            (3, b"\0short", None, b"\0"),
            (4, with_zlib(PLAIN[:3000]), b"", b"\0x"),
        ]
    )
    bitmaps = array["image"]["null_bitmap"].copy()
    new = inflate_columns(array, COLUMNS, buffer)
    assert values(array, "packed", new) == [b"z" * 300, b"", b"short", PLAIN[:3000]]
    assert values(array, "words", new) == [b"w" * 150, b"", b"", b"x"]
    assert values(array, "text", new) == [b"first", b"second", b"", b""]
    assert array["row"]["id"].tolist() == [1, 2, 3, 4]
    assert (array["image"]["null_bitmap"] == bitmaps).all()
    assert array["row"]["packed"][1].item() == (0, 0)
    assert array["row"]["text"][2].item() == (0, 0)


def test_columns_take_only_the_part_of_the_buffer_that_is_in_use():
    array, buffer = records([(1, b"\0plain", b"t", b"\0w")])
    array["row"]["packed"]["offset"] += 1 << 20
    array["row"]["text"]["offset"] += 1 << 20
    array["row"]["words"]["offset"] += 1 << 20
    new = inflate_columns(array, COLUMNS, bytes(1 << 20) + buffer + bytes(1 << 20))
    assert len(new) < 100
    assert values(array, "packed", new) + values(array, "text", new) == [b"plain", b"t"]


def test_no_rows_and_no_compressed_columns():
    array, buffer = records([])
    assert inflate_columns(array, COLUMNS, buffer) == b""
    plain = (COLUMNS[0], COLUMNS[2])
    assert inflate_columns(np.zeros(1, record_dtype(2, plain)), plain, buffer) is buffer


def test_a_projection_without_the_compressed_column():
    columns = COLUMNS[2:]
    array = np.zeros(1, record_dtype(4, columns))
    array["row"]["text"] = (0, 4)
    array["row"]["words"] = (4, len(SERVER_W150))
    new = inflate_columns(array, columns, b"text" + SERVER_W150)
    assert values(array, "words", new) == [b"w" * 150]
    assert values(array, "text", new) == [b"text"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"\x10abc", "0x10"),
        (b"\xf9\x01abc", "0xf9"),
        (b"\x80" + zlib.compress(b"a"), "0 length bytes"),
        (b"\x8d\0\0\0\0\x01abc", "5 length bytes"),
        (b"\x8c\0", "4 length bytes"),
        (SERVER_Z300[:-2], "cut"),
        (SERVER_Z300[:4], "cut"),
        (SERVER_Z300 + b"\0", "follow"),
        (b"\x8a\x01\x2b" + SERVER_Z300[3:], "has more"),
        (b"\x8a\x01\x2d" + SERVER_Z300[3:], "has 300"),
        (b"\x82" + SERVER_Z300[1:], "damaged"),  # raw deflate announced as zlib
        (b"\x8c\xff\xff\xff\xff" + SERVER_Z300[3:], "are allowed"),
    ],
)
def test_column_value_that_cannot_be(value, says):
    array, buffer = records([(1, value, b"t", None)])
    with pytest.raises(DecompressionError, match=says) as caught:
        inflate_columns(array, COLUMNS, buffer, path="log", table="a.b")
    error = caught.value
    assert (error.path, error.table, error.column) == ("log", "a.b", "packed")


def test_columns_limit_counts_all_values():
    array, buffer = records([(i, SERVER_Z300, None, SERVER_W150) for i in range(10)])
    with pytest.raises(DecompressionError, match="are allowed"):
        inflate_columns(array.copy(), COLUMNS, buffer, limit=4499)
    assert values(array, "words", inflate_columns(array, COLUMNS, buffer, limit=4500)) == [b"w" * 150] * 10


@pytest.mark.parametrize("span", [(1 << 63, 1), (10, 0xFFFFFFFF), (0xFFFFFFFFFFFFFFFF, 2)])
def test_span_outside_of_the_buffer(span):
    array, buffer = records([(1, SERVER_Z300, b"t", None)])
    array["row"]["text"] = span
    with pytest.raises(BinlogError):
        inflate_columns(array, COLUMNS, buffer)


def test_flipped_bytes_never_give_anything_but_our_errors():
    rng = random.Random(9)
    good = [payload_event(frame(PLAIN[:2000], write_checksum=True), claimed=2000), block(PLAIN[:2000])]
    for _ in range(2000):
        kind = rng.randrange(2)
        data = bytearray(good[kind])
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data) if rng.random() < 0.5 else 20)] = rng.randrange(256)
        try:
            found = inflate_block(data) if kind else b"".join(payload_chunks(data))
        except BinlogError:
            continue
        assert found == PLAIN[:2000] or kind == 0
