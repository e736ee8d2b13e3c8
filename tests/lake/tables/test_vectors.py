"""Deletion vectors: bytes that others read, and damaged ones that are refused with the file's name."""

from __future__ import annotations

import random
import re
import struct
import uuid
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from binlog_core import BinlogError
from binlog_core.lake.tables import vectors
from binlog_core.lake.tables.local_files import LocalFolder
from binlog_core.lake.tables.vectors import (
    Vector,
    bytes_of,
    deleted_rows,
    packed,
    stored,
    text_of,
    unpacked,
)

MAGIC = bytes.fromhex("d1d33964")
ONE = "d1d339640100000000000000000000003a3000000100000000000000100000000100"  # row 1 alone, by another writer
SHAPES: list[Iterable[int]] = [
    [],
    [0],
    [65535, 65536],
    range(4096),  # the most that an array has
    range(4097),
    range(150_000),
    range(0, 200_000, 2),
    sorted(random.Random(1).sample(range(10**7), 20_000)),
    [5, (1 << 32) + 7, 1 << 40],
]
ids = [str(number) for number in range(len(SHAPES))]


def positions(rows: Iterable[int]) -> Any:
    return np.array(list(rows), np.uint64)


def test_the_bytes_of_another_writer() -> None:
    assert packed(positions([1])).hex() == ONE
    assert unpacked(bytes.fromhex(ONE), 1).tolist() == [1]


@pytest.mark.parametrize("rows", SHAPES, ids=ids)
def test_another_library_reads_what_is_written(rows: Iterable[int]) -> None:
    bitmaps = pytest.importorskip("pyroaring")
    found = packed(positions(rows))
    assert found[:4] == MAGIC
    assert list(bitmaps.BitMap64.deserialize(found[4:])) == list(rows)


@pytest.mark.parametrize("rows", SHAPES, ids=ids)
@pytest.mark.parametrize("runs", [False, True])
def test_what_another_library_writes_is_read(rows: Iterable[int], *, runs: bool) -> None:
    bitmaps = pytest.importorskip("pyroaring")
    parts: dict[int, Any] = {}
    for row in rows:
        parts.setdefault(row >> 32, bitmaps.BitMap()).add(row & 0xFFFFFFFF)
    payload = MAGIC + struct.pack("<Q", len(parts))
    for key, bitmap in parts.items():
        if runs:
            bitmap.run_optimize()
        payload += struct.pack("<I", key) + bitmap.serialize()
    assert unpacked(payload, 200_000).tolist() == list(rows)


def test_z85() -> None:
    name = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")  # of Delta's protocol, in a folder "ab"
    assert text_of(name.bytes) == "^-aqEH.-t@S}K{vb[*k^"
    assert Vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 1, 1).file() == f"ab/deletion_vector_{name}.bin"
    assert (text_of(b"\x86\x4f\xd2\x6f\xb5\x59\xf7\x5b"), bytes_of("HelloWorld")[:2]) == (
        "HelloWorld",
        b"\x86\x4f",
    )  # of the format's own page


def test_small_vectors_are_in_the_log_and_large_ones_share_a_file(tmp_path: Path) -> None:
    rows = [[3], range(0, 30_000, 3), range(100_000)]
    kept, name, content = stored([Vector.new(positions(one)) for one in rows])
    assert [one.storage for one in kept] == ["i", "u", "u"]
    assert content[0] == 1
    (tmp_path / name).write_bytes(content)
    for one, expected in zip(kept, rows, strict=True):
        told = Vector.of_json(one.to_json(), "t")
        found = deleted_rows(told, 100_000, LocalFolder(str(tmp_path)), "/t")
        assert found.tolist() == list(expected)
    second = kept[2]
    assert second.offset is not None
    size, *_ = struct.unpack_from(">I", content, second.offset)
    payload = content[second.offset + 4 : second.offset + 4 + size]
    assert struct.unpack_from(">I", content, second.offset + 4 + size) == (zlib.crc32(payload),)
    assert stored([Vector.new(positions([3]))])[1] == ""


def hostile() -> dict[str, tuple[dict[str, Any], bytes, str]]:
    """Descriptors and files that are not right: what of the good one is different, and what is said."""
    payload = packed(positions(range(0, 200_000, 2)))
    good = b"\x01" + struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))

    def file(changed: bytes) -> bytes:
        return b"\x01" + struct.pack(">I", len(changed)) + changed + struct.pack(">I", zlib.crc32(changed))

    def sized(changed: bytes) -> tuple[dict[str, Any], bytes]:
        return {"size": len(changed)}, file(changed)

    flipped = bytearray(good)
    flipped[1000] ^= 1
    many_runs = struct.pack("<IH", 0x303B | 0xFFFF << 16, 0)
    header = struct.pack("<I", 0)
    return {
        "another version": ({}, b"\x02" + good[1:], "not one of deletion vectors"),
        "a checksum": ({}, bytes(flipped), "its checksum is wrong"),
        "too short": ({}, good[:-5], f"{len(payload)} bytes at 1 in a file of {len(good) - 5}"),
        "empty": ({}, b"", "the file is not one"),
        "a size": ({"size": len(payload) - 1}, good, f"{len(payload)} bytes at 1, expected"),
        "a huge size": ({"size": 1 << 62}, good, f"{1 << 62} bytes for 100000 rows"),
        "a size that only a hole in the file has": (
            {"size": 7 << 20, "cardinality": 1 << 40},
            b"\x01" + struct.pack(">I", 7 << 20) + bytes((7 << 20) + 4),
            f"{7 << 20} bytes for 200000 rows",
        ),
        "a size beyond the file": ({"size": 1 << 20}, good, f"{1 << 20} bytes at 1"),
        "an offset": ({"offset": 7}, good, " at 7"),
        "the offset 0": ({"offset": 0}, good, " at 0"),
        "more rows than it says": ({"cardinality": 99_999}, good, "rows, expected at most 99999"),
        "fewer rows than it says": (
            {"cardinality": 100_001},
            good,
            "100000 rows are deleted, expected 100001",
        ),
        "a row that the file lacks": ({"rows": 199_998}, good, "row 199998 is deleted"),
        "a magic": (*sized(b"abcd" + payload[4:]), "it begins with"),
        "the older form": (*sized(b"\xd0" + payload[1:]), "the older form"),
        "a huge number of bitmaps": (*sized(MAGIC + b"\xff" * 8 + payload[12:]), "unpack_from requires"),
        "bitmaps out of order": (*sized(MAGIC + struct.pack("<Q", 2) + payload[12:] * 2), "not in order"),
        "a cookie": (*sized(payload[:16] + b"\x01\x02\x03\x04" + payload[20:]), "a bitmap that begins with"),
        "too many containers": (*sized(payload[:20] + b"\xff\xff\xff\xff" + payload[24:]), "containers"),
        "cut": (*sized(payload[:-1]), "within a bitmap"),
        "more bytes": (*sized(payload + b"\0"), "it ends at byte"),
        "few bytes that say many rows": (
            *sized(MAGIC + struct.pack("<Q", 1) + header + many_runs + b"\xff" * 400_000),
            "rows, expected at most",
        ),
    }


@pytest.mark.parametrize("what", hostile())
def test_damaged_vectors_are_refused(what: str, tmp_path: Path) -> None:
    changed, content, message = hostile()[what]
    name = uuid.uuid4()
    inner = f"deletion_vector_{name}.bin"
    (tmp_path / inner).write_bytes(content)
    size = len(packed(positions(range(0, 200_000, 2))))
    given = {"size": size, "cardinality": 100_000, "offset": 1} | changed
    rows = given.pop("rows", 200_000)
    vector = Vector("u", text_of(name.bytes), **given)
    with pytest.raises(BinlogError, match=re.escape(message)) as caught:
        deleted_rows(vector, rows, LocalFolder(str(tmp_path)), "/lake/t")
    assert caught.value.path == f"/lake/t/{inner}"


@pytest.mark.parametrize(
    "one",
    [
        Vector("p", "file:///elsewhere/deletion_vector.bin", 34, 1, 1),
        Vector("u", "../^-aqEH.-t@S}K{vb[*k^", 34, 1, 1),
        Vector("u", "..^-aqEH.-t@S}K{vb[*k^", 34, 1, 1),
        Vector("u", "short", 34, 1, 1),
        Vector("i", '"""""', 34, 1),
        Vector("i", "%nSc0", 34, 1),  # beyond 32 bits
        Vector("i", text_of(bytes.fromhex(ONE)), 40, 1),
        Vector("i", "", 0, 0),
    ],
    ids=range(8),
)
def test_vectors_that_are_nowhere_are_refused(one: Vector, tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match="the deletion vector cannot be used"):
        deleted_rows(one, 10, LocalFolder(str(tmp_path)), "/lake/t")


@pytest.mark.parametrize(
    "changed",
    [{"sizeInBytes": -1}, {"cardinality": "1"}, {"storageType": "x"}, {"pathOrInlineDv": 5}, {"offset": -1}],
    ids=lambda one: next(iter(one)),
)
def test_descriptors_that_are_none_are_refused(changed: dict[str, Any]) -> None:
    good = Vector("u", "^-aqEH.-t@S}K{vb[*k^", 34, 1, 1)
    assert Vector.of_json(good.to_json(), "t") == good
    with pytest.raises(BinlogError, match="deletion vector"):
        Vector.of_json(good.to_json() | changed, "t")


def test_a_file_of_vectors_has_the_format_s_name() -> None:
    name = uuid.uuid4()
    assert vectors.file_name(name) == f"deletion_vector_{name}.bin"
