"""The writer against bytes and numbers that real servers wrote."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from support.golden import Golden, golden_logs, old_logs
from support.writer import Log, Table, Unsigned, column_spec, encode_json, post_header_lengths
from support.writer.log import _tagged_gtid
from support.writer.types import encode_decimal
from support.writer.wire import lenenc, maria_column, signed_varint, varint

pytestmark = pytest.mark.sanitize_long

UTC = dt.UTC


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (0, "00"),
        (250, "fa"),
        (251, "fcfb00"),
        (65535, "fcffff"),
        (65536, "fd000001"),
        (1 << 24, "fe0000000100000000"),
    ],
)
def test_lenenc(value: int, wire: str) -> None:
    assert lenenc(value).hex() == wire


def test_serialization_library_integers() -> None:
    assert varint(65535).hex() == "fbff07"
    assert [signed_varint(v).hex() for v in (65535, -65535, -65536)] == ["f3ff0f", "ebff0f", "fbff0f"]


def test_tagged_gtid() -> None:
    body = _tagged_gtid(bytes.fromhex("00112233445566778899aabbccddeeff"), 5, "abc", 1_700_000_000_000_000)
    assert body.startswith(
        bytes.fromhex("0272140000020022446688aaccee21026502a902ed0231037503b903fd030414060661626308")
    )
    assert len(body) == body[1] >> 1


@pytest.mark.parametrize(
    ("value", "precision", "scale", "wire"),
    [
        ("-1234.5678", 10, 4, "7ffb2de9d1"),
        ("-12345678901234567890.0123456789", 30, 10, "73eb655bcaf204c72dff439eb1f6"),
    ],
)
def test_decimal(value: str, precision: int, scale: int, wire: str) -> None:
    assert encode_decimal(Decimal(value), precision, scale).hex() == wire


@pytest.mark.parametrize(
    ("declared", "value", "wire"),
    [
        ("TIME(2)", dt.timedelta(microseconds=-10_000), "7fffffff"),
        ("TIME(2)", dt.timedelta(seconds=-1, microseconds=-100_000), "7ffffef6"),
        ("TIME(3)", dt.timedelta(microseconds=-1000), "7ffffffff6"),
        ("TIME(6)", -dt.timedelta(hours=16, minutes=8, seconds=4, microseconds=10123), "7efdfbffd875"),
        ("DATETIME(2)", dt.datetime(2024, 2, 29, 23, 59, 59, 990_000), "99b2bb7efb63"),
        ("TIMESTAMP(6)", dt.datetime(2030, 1, 2, 3, 4, 5, 678_901, UTC), "70dd55250a5bf5"),
        ("BIT(13)", 0b1000000000101, "1005"),
        ("DATE", "2023-05-00", "a0ce0f"),
        ("YEAR", 0, "00"),
        ("SET('a','b','c','d','e','f','g','h','i')", ["a", "c"], "0500"),
        ("ENUM('x','y','z')", "y", "02"),
        ("MEDIUMINT UNSIGNED", 16777215, "ffffff"),
        ("FLOAT", 1.5, "0000c03f"),
        ("BLOB COMPRESSED", b"z" * 300, "0a008a012cabaa1a05c40200"),
    ],
)
def test_values_as_a_server_wrote_them(declared: str, value: object, wire: str) -> None:
    """One row of a MariaDB 10.11 server, column by column."""
    assert column_spec("c", declared).encode(value).hex() == wire


def test_compressed_varchar_as_a_server_wrote_it() -> None:
    spec = column_spec("w", "VARCHAR(200) COMPRESSED", collation=8)
    assert spec.metadata.hex() == "c900"
    assert spec.encode("w" * 150).hex() == "0889962b2f1f8c0000"


def test_types_metadata_of_that_table() -> None:
    declared = [
        "INT UNSIGNED",
        "TIME(2)",
        "TIME(3)",
        "TIME(6)",
        "DATETIME(2)",
        "TIMESTAMP(6)",
        "DECIMAL(10,4)",
        "DECIMAL(30,10)",
        "BIT(13)",
        "SET('a','b','c','d','e','f','g','h','i')",
        "ENUM('x','y','z')",
        "CHAR(10)",
        "CHAR(100)",
        "VARCHAR(300)",
        "YEAR",
        "DATE",
        "TINYINT",
        "BINARY(16)",
        "INET6",
        "UUID",
        "LONGTEXT",
        "BLOB COMPRESSED",
        "VARCHAR(200) COMPRESSED",
        "POINT",
        "MEDIUMINT UNSIGNED",
        "FLOAT",
    ]
    latin1 = {"collation": 8}
    columns = [
        column_spec(
            f"c{i}",
            d,
            null=i > 0,
            **(latin1 if d in ("CHAR(10)", "VARCHAR(300)", "VARCHAR(200) COMPRESSED") else {}),
        )
        for i, d in enumerate(declared)
    ]
    body = Table("d", "t", columns, metadata="MINIMAL").map_body(mariadb=True)
    types = "031313131211f6f610fefefefe0f0d0a01fefefefc8c8dff0904"
    metadata = "02030602060a041e0a0501f802f701fe0aee902c01fe10fe10fe100402c9000404"
    nullability, signedness = "feffff03", "010194"
    assert (
        body[len("..d...t.") - 2 :]
        .hex()
        .startswith("1a" + types + f"{len(metadata) // 2:02x}" + metadata + nullability + signedness)
    )


@pytest.mark.parametrize("golden", golden_logs("*/stop") + golden_logs("*/checksum_none"), ids=str)
def test_descriptor_is_the_servers(golden: Golden) -> None:
    """Everything of the descriptor but its times and checksum."""
    real = golden.data[:512]
    version = real[25:75].rstrip(b"\0").decode()
    log = Log(version, checksum=golden.meta["settings"]["binlog_checksum"] == "CRC32")
    made = log.getvalue()
    length = int.from_bytes(real[13:17], "little")
    assert len(made) == 4 + length
    assert made[8:9] + made[13:71] == real[8:9] + real[13:71]
    assert made[79 : length - 4] == real[79 : length - 4]


@pytest.mark.parametrize("path", [p for p in old_logs() if "aurora" not in p.name], ids=lambda p: p.name)
def test_post_header_lengths_of_old_servers(path: Path) -> None:
    real = path.read_bytes()[:512]
    version = real[25:75].rstrip(b"\0").decode()
    assert real[80 : 80 + len(post_header_lengths(version))] == post_header_lengths(version)


def test_compressed_column_plain_and_deflated() -> None:
    assert maria_column(b"") == b""
    assert maria_column(b"abc") == b"\0abc"
    assert maria_column(b"z" * 300).hex() == "8a012cabaa1a05c40200"


def test_json_documents() -> None:
    """Hand-made from the layout: count, size, entries."""
    assert encode_json(None).hex() == "0400"
    assert encode_json("abc").hex() == "0c03616263"
    assert encode_json([]).hex() == "0200000400"
    assert encode_json({"a": 1}).hex() == "00" + "01000c00" + "0b000100" + "050100" + "61"
    assert encode_json(Unsigned(65535)).hex() == "06ffff"
    assert encode_json(["x" * 70000])[0] == 3
