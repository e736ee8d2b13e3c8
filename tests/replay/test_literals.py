"""Values and names as SQL, by hand."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal

import pytest
from support.replay import FLOAT, ID, TEXT, change, maker, table

from binlog_core import Column, RowChange, SchemaError
from binlog_core._tables.column_types import Kind


@pytest.mark.parametrize(
    ("kind", "value", "want"),
    [
        (Kind.INT, 18446744073709551615, "18446744073709551615"),
        (Kind.DOUBLE, 1e300, "1e+300"),
        (Kind.FLOAT, 0.10000000149011612, "0.10000000149011612e0"),
        (Kind.DECIMAL, Decimal("-1.20"), "-1.20"),
        (Kind.DECIMAL, Decimal("1E-9").quantize(Decimal("1E-10")), "0.0000000010"),
        (Kind.BIT, 5, "5"),
        (Kind.YEAR, 0, "0"),
        (Kind.DATE, "2012-05-00", "'2012-05-00'"),
        (Kind.DATE, dt.date(2026, 1, 2), "'2026-01-02'"),
        (Kind.TIMESTAMP, dt.datetime(2026, 1, 2, 3, 4, 5, 600, dt.UTC), "'2026-01-02 03:04:05.000600'"),
        (Kind.TIME, -dt.timedelta(hours=26, microseconds=1), "'-26:00:00.000001'"),
        (Kind.TEXT, "a'b", "'a''b'"),
        (Kind.TEXT, "a'b\\", "_utf8mb4 0x6127625c"),
        (Kind.TEXT, "\n", "_utf8mb4 0x0a"),
        (Kind.TEXT, "中".encode(), "_utf8mb4 0xe4b8ad"),
        (Kind.TEXT, b"", "''"),
        (Kind.BINARY, b"\xff\x00", "x'ff00'"),
        (Kind.BINARY, b"", "x''"),
        (Kind.ENUM, "it's", "'it''s'"),
        (Kind.ENUM, 3, "3"),
        (Kind.SET, ["a", "b"], "'a,b'"),
        (Kind.SET, [], "''"),
        (Kind.VECTOR, [1.0, -2.0], "x'0000803f000000c0'"),
        (Kind.GEOMETRY, b"\x00\x00\x00\x00\x01\x02", "ST_GeomFromWKB(x'0102', 0)"),
        (Kind.JSON, '{"a": "\'"}', "CAST('{\"a\": \"''\"}' AS JSON)"),
        (Kind.JSON, '"\\n"', "CAST(_utf8mb4 0x225c6e22 AS JSON)"),
        (Kind.TEXT, None, "NULL"),
    ],
)
def test_literals(kind: Kind, value: object, want: str) -> None:
    charset = "utf8mb4" if kind is Kind.TEXT else None
    assert maker().literal(Column("c", 0, 0, kind, signed=False, charset=charset), value) == want


@pytest.mark.parametrize(
    ("members", "value", "want"),
    [
        (("a", ""), 0, "0"),  # the '' of an invalid value
        (("a", ""), 2, "''"),
        (("a", ""), "", "''"),
        (("a", "0"), "", "0"),
        (("a", "0"), 2, "'0'"),
        (("a", "0"), "0", "'0'"),
        (("a",), 2, "2"),
        (("a",), None, "NULL"),
    ],
)
def test_members_of_an_enum(members: tuple[str, ...], value: object, want: str) -> None:
    assert maker().literal(Column("e", 0, 0, Kind.ENUM, members=members), value) == want


@pytest.mark.parametrize(
    ("charset", "value", "want"),
    [
        ("gbk", b"\xd6\x5c", "_gbk 0xd65c"),
        ("sjis", b"\x83\x5c", "_sjis 0x835c"),
        ("utf8mb3", "é".encode(), "_utf8mb4 0xc3a9"),
        ("latin1", b"\xe9", "_latin1 0xe9"),
        ("ucs2", b"\0a", "_ucs2 0x0061"),
        ("swe7", b"]", "_swe7 0x5d"),
    ],
)
def test_text_keeps_its_bytes(charset: str, value: bytes, want: str) -> None:
    text = replace(TEXT, charset=charset)
    assert maker().literal(text, value) == want
    found = maker().statement(table(ID, text, key=None), change({"id": 1, "text": value}, None))
    using = "utf8mb4" if charset == "utf8mb3" else charset
    assert f"CAST(CONVERT(`text` USING {using}) AS BINARY) = 0x{value.hex()} LIMIT 1;" in found


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        (FLOAT, math.nan, "nan is not a number"),
        (FLOAT, math.inf, "inf is not a number"),
        (TEXT, b"\xff", "not valid in its character set, utf8mb4"),
        (replace(TEXT, charset="utf8mb3"), "😀".encode(), "not valid in its character set, utf8mb3"),
        (Column("doc", 1, 245, Kind.JSON), '{"a": NaN}', "expression"),
        (Column("doc", 1, 245, Kind.JSON), "\ud800", "not valid Unicode"),
    ],
)
def test_values_that_no_server_takes_are_refused_with_the_place(
    column: Column, value: object, why: str
) -> None:
    wrong = RowChange("insert", "shop", "or`ders", None, {"id": 1, column.name: value}, 4711)
    with pytest.raises(SchemaError, match=why) as error:
        maker().statement(table(ID, column), wrong)
    assert (error.value.table, error.value.offset) == ("shop.or`ders", 4711)


@pytest.mark.parametrize("name", ["a\0b", "a\udcff"])
def test_names_that_no_server_has_are_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="no server has such names"):
        maker().statement(table(ID, replace(TEXT, name=name)), change(None, {"id": 1}))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"a": 3.14, "b": 1e20}', 'CAST(\'{"a": 3.14, "b": 1e20}\' AS JSON)'),
        ("12.50", "CAST(12.50 AS JSON)"),
        ("18446744073709551615", "CAST('18446744073709551615' AS JSON)"),
        ("18446744073709551616", "CAST(18446744073709551616 AS JSON)"),
        (
            '{"it\'s": {"p": [0.00, "1.10"]}, "q": true}',
            "JSON_OBJECT('it''s', JSON_OBJECT('p', JSON_ARRAY(0.00, CAST('\"1.10\"' AS JSON))),"
            " 'q', CAST('true' AS JSON))",
        ),
    ],
)
def test_decimals_in_json_keep_their_digits(text: str, want: str) -> None:
    assert maker("mysql97/types_json").literal(Column("c", 0, 245, Kind.JSON), text) == want


@pytest.mark.parametrize(
    ("charset", "text", "want"),
    [
        ("latin1", "\x81", "_latin1 0x81"),  # Python's cp1252 does not have it
        ("latin1", "é", "_latin1 0xe9"),
        ("swe7", "]", None),
        ("swe7", "Å", "_swe7 0x5d"),
        ("hp8", "é", "_hp8 0xc5"),
        ("gbk", "中", "_gbk 0xd6d0"),
        ("latin1", "中", None),
        ("utf8mb4", "\udcff", None),
    ],
)
def test_text_is_written_in_its_character_set_or_refused(charset: str, text: str, want: str | None) -> None:
    column = Column("c", 0, 0, Kind.TEXT, charset=charset)
    if want is not None:
        assert maker().literal(column, text) == want
        return
    with pytest.raises(SchemaError, match=f"the text cannot be written in its character set, {charset}"):
        maker().literal(column, text)
