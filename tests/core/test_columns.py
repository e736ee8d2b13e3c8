"""Arrow columns: every kind by hand-made batches, against values worked out by hand."""

from __future__ import annotations

import datetime as dt
import resource
import struct
from decimal import Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from support.batches import ABSENT, column, make_batch

from binlog_core._tables.column_types import Kind
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize

NAT = np.datetime64("NaT")
UTC = dt.UTC


def day(text: str) -> np.datetime64:
    return np.datetime64(text, "D")


def moment(text: str) -> np.datetime64:
    return np.datetime64(text, "us")


# kind, attributes, Arrow type, [(value in the record, Python value expected)]
CASES = {
    "tinyint": (Kind.INT, {"bytes_": 1, "signed": True}, pa.int8(), [(-128, -128), (127, 127), (0, 0)]),
    "tinyint unsigned": (Kind.INT, {"bytes_": 1, "signed": False}, pa.uint8(), [(255, 255)]),
    "sign unknown": (Kind.INT, {"bytes_": 1}, pa.int8(), [(-1, -1)]),
    "smallint": (Kind.INT, {"bytes_": 2}, pa.int16(), [(-32768, -32768)]),
    "smallint unsigned": (Kind.INT, {"bytes_": 2, "signed": False}, pa.uint16(), [(65535, 65535)]),
    "mediumint": (Kind.INT, {"bytes_": 3}, pa.int32(), [(-8388608, -8388608)]),
    "mediumint unsigned": (Kind.INT, {"bytes_": 3, "signed": False}, pa.uint32(), [(16777215, 16777215)]),
    "int": (Kind.INT, {"bytes_": 4}, pa.int32(), [(-(2**31), -(2**31))]),
    "int unsigned": (Kind.INT, {"bytes_": 4, "signed": False}, pa.uint32(), [(2**32 - 1, 2**32 - 1)]),
    "bigint": (Kind.INT, {"bytes_": 8}, pa.int64(), [(-(2**63), -(2**63)), (2**63 - 1, 2**63 - 1)]),
    "bigint unsigned": (Kind.INT, {"bytes_": 8, "signed": False}, pa.uint64(), [(2**64 - 1, 2**64 - 1)]),
    "float": (Kind.FLOAT, {}, pa.float32(), [(0.1, 0.10000000149011612), (-1.5, -1.5)]),
    "double": (Kind.DOUBLE, {}, pa.float64(), [(0.1, 0.1), (-1e300, -1e300)]),
    "decimal 18": (
        Kind.DECIMAL,
        {"precision": 18, "scale": 4},
        pa.decimal128(18, 4),
        [
            (123, Decimal("0.0123")),
            (-999999999999999999, Decimal("-99999999999999.9999")),
            (0, Decimal("0.0000")),
        ],
    ),
    "decimal 38": (
        Kind.DECIMAL,
        {"precision": 38, "scale": 10},
        pa.decimal128(38, 10),
        [((2**64 - 1, -1), Decimal("-0.0000000001")), ((5, 1), Decimal("1844674407.3709551621"))],
    ),
    "decimal 65": (
        Kind.DECIMAL,
        {"precision": 65, "scale": 30},
        pa.decimal256(65, 30),
        [
            ((2**64 - 1, 2**64 - 1, 2**64 - 1, -1), Decimal("-0.000000000000000000000000000001")),
            ((0, 0, 1, 0), Decimal("340282366.920938463463374607431768211456")),
        ],
    ),
    "bit 1": (Kind.BIT, {"length": 1}, pa.uint8(), [(1, 1)]),
    "bit 9": (Kind.BIT, {"length": 9}, pa.uint16(), [(511, 511)]),
    "bit 17": (Kind.BIT, {"length": 17}, pa.uint32(), [(65536, 65536)]),
    "bit 64": (Kind.BIT, {"length": 64}, pa.uint64(), [(2**64 - 1, 2**64 - 1)]),
    "year": (Kind.YEAR, {}, pa.uint16(), [(0, 0), (2155, 2155)]),
    "date": (
        Kind.DATE,
        {},
        pa.date32(),
        [(day("1969-12-31"), dt.date(1969, 12, 31)), (day("9999-12-31"), dt.date(9999, 12, 31)), (NAT, None)],
    ),
    "datetime": (
        Kind.DATETIME,
        {"fsp": 6},
        pa.timestamp("us"),
        [(moment("1000-01-01T00:00:00.000001"), dt.datetime(1000, 1, 1, 0, 0, 0, 1)), (NAT, None)],
    ),
    "timestamp": (
        Kind.TIMESTAMP,
        {},
        pa.timestamp("us", "UTC"),
        [(moment("2038-01-19T03:14:07"), dt.datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)), (NAT, None)],
    ),
    "time": (
        Kind.TIME,
        {},
        pa.duration("us"),
        [(np.timedelta64(-3020399_000000, "us"), -dt.timedelta(hours=838, minutes=59, seconds=59))],
    ),
    "utf8mb4": (
        Kind.TEXT,
        {"charset": "utf8mb4"},
        pa.string(),
        [(b"", ""), ("añ€😀".encode(), "añ€😀"), (b"x" * 300, "x" * 300)],
    ),
    "latin1": (
        Kind.TEXT,
        {"charset": "latin1"},
        pa.string(),
        [
            (b"plain ascii, longer than a word \x80", "plain ascii, longer than a word €"),
            (b"\x81", "\x81"),
            (b"", ""),
        ],
    ),
    "utf16": (Kind.TEXT, {"charset": "utf16"}, pa.string(), [(b"\x00a\xd8\x3d\xde\x00\x20\xac", "a😀€")]),
    "utf16le": (Kind.TEXT, {"charset": "utf16le"}, pa.string(), [(b"a\x00\x3d\xd8\x00\xde", "a😀")]),
    "ucs2": (Kind.TEXT, {"charset": "ucs2"}, pa.string(), [(b"\x00\xe9", "é")]),
    "utf32": (Kind.TEXT, {"charset": "utf32"}, pa.string(), [(b"\x00\x01\xf6\x00\x00\x00\x00a", "😀a")]),
    "sjis": (Kind.TEXT, {"charset": "sjis"}, pa.string(), [(b"\x93\xfa\x96\x7b", "日本")]),
    "varbinary": (Kind.BINARY, {}, pa.binary(), [(b"", b""), (b"\x00\xff", b"\x00\xff")]),
    "binary(4)": (
        Kind.BINARY,
        {"pad_to": 4},
        pa.binary(),
        [(b"", b"\0\0\0\0"), (b"ab", b"ab\0\0"), (b"abcd", b"abcd")],
    ),
    "inet4": (Kind.BINARY, {"pad_to": 4, "declared_type": "inet4"}, pa.binary(), [(b"\x0a", b"\x0a\0\0\0")]),
    "uuid": (
        Kind.BINARY,
        {"pad_to": 16, "declared_type": "uuid"},
        pa.uuid(),
        [(bytes(range(1, 15)), UUID("01020304-0506-0708-090a-0b0c0d0e0000"))],
    ),
    "enum": (
        Kind.ENUM,
        {"members": ("b", "a")},
        pa.dictionary(pa.int16(), pa.string()),
        [(1, "b"), (2, "a"), (0, "")],
    ),
    "enum with the member ''": (
        Kind.ENUM,
        {"members": ("x", "", "y")},
        pa.dictionary(pa.int16(), pa.string()),
        [(0, ""), (1, "x"), (2, ""), (3, "y")],
    ),
    "enum without names": (Kind.ENUM, {}, pa.uint16(), [(65535, 65535)]),
    "set": (
        Kind.SET,
        {"members": ("x", "y", "z")},
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        [(0, []), (5, ["x", "z"]), (7, ["x", "y", "z"])],
    ),
    "set of 64": (
        Kind.SET,
        {"members": tuple(f"m{i}" for i in range(64))},
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        [(2**63 + 1, ["m0", "m63"])],
    ),
    "set without names": (Kind.SET, {}, pa.uint64(), [(2**63, 2**63)]),
    "geometry": (
        Kind.GEOMETRY,
        {},
        pa.struct([("srid", pa.uint32()), ("wkb", pa.binary())]),
        [(b"\xe6\x10\x00\x00\x01WKB", {"srid": 4326, "wkb": b"\x01WKB"}), (b"", {"srid": 0, "wkb": b""})],
    ),
    "vector(2)": (
        Kind.VECTOR,
        {"dimensions": 2},
        pa.list_(pa.field("item", pa.float32()), 2),
        [(struct.pack("<2f", 1, -2.5), [1, -2.5])],
    ),
    "vector": (
        Kind.VECTOR,
        {},
        pa.list_(pa.field("item", pa.float32())),
        [(struct.pack("<f", 0.5), [0.5]), (b"", [])],
    ),
    "null": (Kind.NULL, {}, pa.null(), [(None, None)]),
}


@pytest.mark.parametrize("name", CASES)
def test_kind(name):
    kind, attributes, arrow_type, values = CASES[name]
    # Around every value a NULL and an absent one, over more than one tile of 512 records.
    pattern = [*values, (None, None), (ABSENT, None)]
    pattern *= 1100 // len(pattern) + 1
    batch = make_batch(
        [column("k", Kind.INT, bytes_=1), column("v", kind, **attributes)],
        [{"k": i % 100, "v": stored} for i, (stored, _) in enumerate(pattern)],
    )
    arrow = batch.to_arrow(change_columns=False)
    arrow.validate(full=True)
    assert arrow.schema.field("v").type == arrow_type
    assert arrow["v"].to_pylist() == [expected for _, expected in pattern]
    assert arrow["v"].null_count == sum(expected is None for _, expected in pattern)
    assert arrow["k"].to_pylist() == [i % 100 for i in range(len(pattern))]
    assert arrow["k"].null_count == 0


@pytest.mark.parametrize("name", CASES)
def test_no_records(name):
    kind, attributes, arrow_type, _ = CASES[name]
    arrow = make_batch([column("v", kind, **attributes)], []).to_arrow()
    arrow.validate(full=True)
    assert arrow.num_rows == 0
    assert arrow.schema.field("v").type == arrow_type


@pytest.mark.parametrize("name", CASES)
def test_rows_and_strides(name):
    kind, attributes, _, values = CASES[name]
    batch = make_batch([column("v", kind, **attributes)], [{"v": stored} for stored, _ in values] * 700)
    expected = [value for _, value in values] * 700
    rows = np.arange(len(expected))[::-3]
    assert batch.to_arrow(rows=rows)["v"].to_pylist() == expected[::-3]
    batch.array = batch.array[::-2]
    assert batch.to_arrow()["v"].to_pylist() == expected[::-2]


def test_nullable_in_the_ninth_column():
    columns = [column(f"c{i}", Kind.INT, bytes_=1) for i in range(20)]
    rows = [{f"c{i}": None if i == 8 else ABSENT if i == 17 else i for i in range(20)}]
    values = make_batch(columns, rows).to_arrow(change_columns=False).to_pylist()
    assert values == [{f"c{i}": None if i in (8, 17) else i for i in range(20)}]


def test_projection_keeps_the_bitmaps():
    columns = [
        column("a", Kind.INT, bytes_=4),
        column("b", Kind.INT, bytes_=4),
        column("c", Kind.INT, bytes_=4),
    ]
    batch = make_batch(columns, [{"a": None, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": None}], projection=["c"])
    assert batch.to_arrow(change_columns=False).to_pylist() == [{"c": 3}, {"c": None}]


@pytest.mark.parametrize(
    "bad",
    [
        b"\xff",
        b"\x80",
        b"\xc0\x80",
        b"\xc3",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf0\x9f\x98",
        b"\xf5\x80\x80\x80",
        b"twelve bytes" * 4 + b"\xe2\x82",
        b"\xe2\x28\xa1",
        b"\xf0\x9f\x28\x80",
    ],
)
def test_invalid_utf8(bad):
    with pytest.raises(UnicodeDecodeError):
        bad.decode()
    rows = [{"t": b"good"}] * 600 + [{"t": bad}, {"t": b"\xc2\xa9"}]
    batch = make_batch([column("t", Kind.TEXT, charset="utf8mb4")], rows)
    with pytest.raises(DecodeError, match="utf8mb4") as info:
        batch.to_arrow()
    error = info.value
    assert (error.table, error.column, error.path, error.offset) == ("shop.orders", "t", "log.000001", 7000)
    replaced = batch.to_arrow(text_errors="replace")
    replaced.validate(full=True)
    assert replaced["t"].to_pylist()[599:] == ["good", bad.decode(errors="replace"), "©"]
    binary = batch.to_arrow(text_errors="binary")
    assert binary.schema.field("t").type == pa.binary()
    assert binary["t"].to_pylist()[599:] == [b"good", bad, b"\xc2\xa9"]


def test_character_cut_between_values():
    # Valid when joined, wrong one by one.
    batch = make_batch([column("t", Kind.TEXT, charset="utf8mb4")], [{"t": b"a\xe2\x82"}, {"t": b"\xac"}])
    with pytest.raises(DecodeError):
        batch.to_arrow()
    assert batch.to_arrow(text_errors="replace")["t"].to_pylist() == ["a\ufffd", "\ufffd"]


@pytest.mark.parametrize(
    ("charset", "bad", "replaced"),
    [
        ("ascii", b"ab\x80c", "ab\ufffdc"),
        ("utf16", b"\x00a\xd8\x00", "a\ufffd"),
        ("utf16", b"\xdc\x00\x00a", "\ufffda"),
        ("utf16", b"\x00a\x00", "a\ufffd"),
        ("utf32", b"\x00\x00\x00a\x00\x11\x00\x00", "a\ufffd"),
        ("sjis", b"a\x81", "a\ufffd"),
    ],
)
def test_invalid_text_of_other_character_sets(charset, bad, replaced):
    batch = make_batch([column("t", Kind.TEXT, charset=charset)], [{"t": bad}])
    with pytest.raises(DecodeError, match=charset):
        batch.to_arrow()
    assert batch.to_arrow(text_errors="replace")["t"].to_pylist() == [replaced]
    assert batch.to_arrow(text_errors="binary")["t"].to_pylist() == [bad]


def test_invalid_text_under_null_is_nothing():
    batch = make_batch([column("t", Kind.TEXT, charset="utf8mb4")], [{"t": None}, {"t": b"x"}])
    batch.array["row"]["t"][0] = (0, 3)  # the builder's three bytes FE
    assert batch.to_arrow()["t"].to_pylist() == [None, "x"]


SPANS = [
    name for name, case in CASES.items() if case[0] in (Kind.TEXT, Kind.BINARY, Kind.GEOMETRY, Kind.VECTOR)
]


@pytest.mark.parametrize("span", [(2**64 - 1, 4), (0, 2**32 - 1), (2**63, 2**31), (30, 4)])
@pytest.mark.parametrize("name", SPANS)
def test_span_outside_the_buffer(name, span):
    kind, attributes, _, _ = CASES[name]
    batch = make_batch([column("v", kind, **attributes)], [{"v": b""}])
    batch.buffer = b"0123456789" * 3 + b"012"
    batch.array["row"]["v"][0] = span
    with pytest.raises(DecodeError, match="outside"):
        batch.to_arrow()
    with pytest.raises(DecodeError, match="outside"):
        batch.__reduce__()


@pytest.mark.parametrize(
    ("kind", "attributes", "value"),
    [
        (Kind.ENUM, {"members": ("a",)}, 2),
        (Kind.SET, {"members": ("a",)}, 2),
        (Kind.SET, {"members": ("a",)}, 2**63),
        (Kind.GEOMETRY, {}, b"\x00\x00\x00"),
        (Kind.VECTOR, {"dimensions": 2}, b"\x00" * 4),
        (Kind.VECTOR, {"dimensions": 2}, b"\x00" * 12),
        (Kind.VECTOR, {}, b"\x00" * 5),
        (Kind.BINARY, {"declared_type": "uuid"}, b"\x00" * 17),
        (Kind.DATE, {}, np.datetime64(2**31, "D")),
    ],
)
def test_values_that_cannot_be(kind, attributes, value):
    batch = make_batch([column("v", kind, **attributes)], [{"v": value}])
    with pytest.raises(DecodeError) as info:
        batch.to_arrow()
    assert (info.value.column, info.value.offset) == ("v", 1000)


POINT = bytes.fromhex("0101000000 000000000000f03f 0000000000000040")  # POINT(1 2), little-endian WKB
BIG_ENDIAN_POINT = bytes.fromhex("0000000001 3ff0000000000000 4000000000000000")
MULTIPOINT = bytes.fromhex("0104000000 01000000") + POINT


@pytest.mark.parametrize(
    ("logged", "ewkb"),
    [
        pytest.param(
            bytes.fromhex("e6100000") + POINT,
            bytes.fromhex("0101000020 e6100000 000000000000f03f 0000000000000040"),
            id="SRID 4326",
        ),
        pytest.param(bytes(4) + POINT, POINT, id="SRID 0"),
        pytest.param(
            bytes.fromhex("110f0000") + MULTIPOINT,
            bytes.fromhex("0104000020 110f0000 01000000") + POINT,
            id="only the outer geometry has the SRID",
        ),
        pytest.param(
            bytes.fromhex("e6100000") + BIG_ENDIAN_POINT,
            bytes.fromhex("0020000001 000010e6 3ff0000000000000 4000000000000000"),
            id="big-endian",
        ),
        pytest.param(b"", b"", id="empty"),
        pytest.param(None, None, id="NULL"),
    ],
)
def test_geometry_as_ewkb(logged, ewkb):
    """Expected bytes by hand, from the EWKB form of PostGIS: type | 0x20000000, then the SRID."""
    batch = make_batch([column("g", Kind.GEOMETRY)], [{"g": b"\x01\x00\x00\x00" + POINT}, {"g": logged}])
    values = batch.to_arrow(geometry="ewkb").column("g")
    assert values.type == pa.binary()
    assert values.to_pylist() == [bytes.fromhex("0101000020 01000000") + POINT[5:], ewkb]


@pytest.mark.parametrize(
    "logged", [b"\xe6\x10\x00\x00\x01\x01\x00\x00", b"\xe6\x10\x00\x00\x02\x01\x00\x00\x00"]
)
def test_no_ewkb_is_made_of_what_is_not_wkb(logged):
    batch = make_batch([column("g", Kind.GEOMETRY)], [{"g": logged}])
    with pytest.raises(DecodeError, match="GEOMETRY") as raised:
        batch.to_arrow(geometry="ewkb")
    assert raised.value.column == "g"


def test_geometry_takes_known_forms():
    with pytest.raises(ValueError, match="struct or ewkb"):
        make_batch([column("g", Kind.GEOMETRY)], [{"g": b""}]).to_arrow(geometry="wkt")


@pytest.mark.parametrize(
    ("unscaled", "scale", "text"),
    [
        (0, 0, "0"),
        (0, 30, "0.000000000000000000000000000000"),
        (-1, 30, "-0.000000000000000000000000000001"),
        (10**65 - 1, 0, "9" * 65),
        (-(10**65) + 1, 30, "-" + "9" * 35 + "." + "9" * 30),
        (10**19, 0, "10000000000000000000"),
        (-(10**38), 38, "-1.00000000000000000000000000000000000000"),
        (2**128, 2, "3402823669209384634633746074317682114.56"),
        (-(2**64), 0, "-18446744073709551616"),
        (5 * 10**57 + 7, 1, "5" + "0" * 56 + ".7"),
    ],
)
def test_wide_decimals_as_text(unscaled, scale, text):
    limbs = [unscaled >> shift & 2**64 - 1 for shift in (0, 64, 128)] + [unscaled >> 192]
    columns = [column("d", Kind.DECIMAL, precision=65, scale=scale), column("n", Kind.DECIMAL, precision=38)]
    row = {"d": tuple(limbs), "n": (7, 0)}
    batch = make_batch(columns, [row, dict.fromkeys(row)] * 600)
    arrow = batch.to_arrow(wide_decimals="text")
    arrow.validate(full=True)
    assert arrow["d"].to_pylist() == [text, None] * 600
    assert arrow.schema.field("n").type == pa.decimal128(38, 0)
    assert arrow["d"].cast(pa.decimal256(65, scale)).equals(batch.to_arrow()["d"])


def test_shorter_vectors_fit_a_list():
    # MySQL's VECTOR(n) takes up to n values.
    batch = make_batch([column("v", Kind.VECTOR, dimensions=3)], [{"v": struct.pack("<2f", 1, 2)}])
    with pytest.raises(DecodeError, match="vectors='list'"):
        batch.to_arrow()
    assert batch.to_arrow(vectors="list")["v"].to_pylist() == [[1.0, 2.0]]


def test_absurd_dimensions_size_no_memory():
    batch = make_batch([column("v", Kind.VECTOR, dimensions=2**60)], [{"v": None}])
    assert batch.to_arrow()["v"].to_pylist() == [None]


def test_fill_absent():
    columns = [
        column("id", Kind.INT, bytes_=4),
        column("t", Kind.TEXT, charset="utf8mb4"),
        column("d", Kind.DATE),
    ]
    rows = [
        {"id": 1, "t": b"old", "d": day("2020-01-01")},
        {"id": ABSENT, "t": b"new", "d": ABSENT},
        {"id": 2, "t": ABSENT, "d": None},  # the preimage lacks t too
        {"id": 3, "t": ABSENT, "d": ABSENT},
        {"id": 4, "t": ABSENT, "d": ABSENT},  # an insert has no preimage
    ]
    batch = make_batch(columns, rows, ops=[2, 3, 2, 3, 1])
    after = batch.to_arrow(rows=np.array([1, 3, 4]), fill_absent=True, change_columns=False).to_pylist()
    assert after == [
        {"id": 1, "t": "new", "d": dt.date(2020, 1, 1)},
        {"id": 3, "t": None, "d": None},
        {"id": 4, "t": None, "d": None},
    ]
    assert batch.to_arrow()["id"].to_pylist() == [1, None, 2, 3, 4]


def test_rows_outside_are_refused():
    batch = make_batch([column("v", Kind.INT, bytes_=1)], [{"v": 1}])
    for rows in ([1], [-1]):
        with pytest.raises(IndexError):
            batch.to_arrow(rows=np.array(rows), change_columns=False)


def test_records_of_another_type_are_refused():
    batch = make_batch([column("v", Kind.INT, bytes_=1)], [{"v": 1}])
    batch.columns = (column("v", Kind.INT, bytes_=8),)
    with pytest.raises(ValueError, match="column 'v'"):
        batch.to_arrow()


def test_arrow_outlives_the_batch():
    batch = make_batch([column("t", Kind.TEXT, charset="utf8mb4")], [{"t": b"still here, and long enough"}])
    arrow = batch.to_arrow()
    del batch
    assert arrow["t"].to_pylist() == ["still here, and long enough"]


def test_capsules_that_are_never_consumed_are_freed():
    batch = make_batch([column("t", Kind.TEXT, charset="utf8mb4")], [{"t": b"x" * 1000}] * 1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200):  # 400 MB if they were not
        batch.__arrow_c_array__()
        batch.__arrow_c_stream__()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
