"""Types of a lake: what each column type is in Spark, written here by hand."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from support.batches import INT_CODES, TYPE_CODES

from binlog_core import DecodeError
from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import Column, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from binlog_core.lake.rows.types import lake_schema, lake_type, to_lake, type_name  # noqa: E402
from binlog_core.spark.schemas import spark_schema  # noqa: E402

pytestmark = pytest.mark.oldest_spark


def integer(bytes_: int, signed: bool | None) -> Column:
    return Column("c", 0, INT_CODES[bytes_], Kind.INT, signed=signed)


def of(kind: Kind, **attributes: object) -> Column:
    return Column("c", 0, TYPE_CODES[kind], kind, **attributes)  # type: ignore[arg-type]


TYPES = [
    (integer(1, True), "tinyint"),
    (integer(1, False), "smallint"),
    (integer(2, True), "smallint"),
    (integer(2, False), "int"),
    (integer(3, True), "int"),
    (integer(3, False), "bigint"),
    (integer(4, True), "int"),
    (integer(4, False), "bigint"),
    (integer(8, True), "bigint"),
    (integer(8, False), "decimal(20,0)"),
    (integer(4, None), "int"),
    (of(Kind.FLOAT), "float"),
    (of(Kind.DOUBLE), "double"),
    (of(Kind.DECIMAL, precision=10, scale=2), "decimal(10,2)"),
    (of(Kind.DECIMAL, precision=38, scale=30), "decimal(38,30)"),
    (of(Kind.DECIMAL, precision=39, scale=0), "string"),
    (of(Kind.DECIMAL, precision=65, scale=30), "string"),
    (of(Kind.BIT, length=1), "boolean"),
    (of(Kind.BIT, length=2), "bigint"),
    (of(Kind.BIT, length=63), "bigint"),
    (of(Kind.BIT, length=64), "decimal(20,0)"),
    (of(Kind.YEAR), "int"),
    (of(Kind.DATE), "date"),
    (of(Kind.DATETIME, fsp=6), "timestamp_ntz"),
    (of(Kind.TIMESTAMP), "timestamp"),
    (of(Kind.TIME), "bigint"),
    (of(Kind.TEXT, charset="utf8mb4"), "string"),
    (of(Kind.BINARY), "binary"),
    (of(Kind.BINARY, declared_type="uuid", pad_to=16), "binary"),
    (of(Kind.BINARY, declared_type="inet6", pad_to=16), "binary"),
    (of(Kind.ENUM, members=("a", "b"), length=1), "string"),
    (of(Kind.ENUM, length=2), "int"),
    (of(Kind.SET, members=("a", "b"), length=1), "array<string>"),
    (of(Kind.SET, length=1), "bigint"),
    (of(Kind.SET, length=8), "decimal(20,0)"),
    (of(Kind.JSON), "string"),
    (of(Kind.GEOMETRY), "struct<srid:int,wkb:binary>"),
    (of(Kind.VECTOR, dimensions=3), "array<float>"),
    (of(Kind.NULL), "void"),
]


@pytest.mark.parametrize(("column", "wanted"), TYPES, ids=lambda value: getattr(value, "kind", value))
def test_spark_type(column: Column, wanted: str) -> None:
    schema = spark_schema(lake_schema([column]))
    assert schema["c"].dataType.simpleString() == type_name(lake_type(column)) == wanted
    assert schema["c"].nullable


def test_every_kind_has_a_type() -> None:
    assert {column.kind for column, _ in TYPES} == set(Kind)


def test_change_columns() -> None:
    schema = spark_schema(lake_schema([integer(4, True)]))
    assert [(field.name, field.dataType.simpleString()) for field in schema] == [
        ("c", "int"),
        ("_change_type", "string"),
        ("_commit_version", "bigint"),
        ("_commit_timestamp", "timestamp"),
        ("_change_ordinal", "bigint"),
    ]


def convert(column: Column, values: pa.Array) -> pa.Array:
    wanted = pa.schema([("c", lake_type(column))])
    batch = to_lake(pa.record_batch([values], names=["c"]), wanted, Table("d", "t", (column,)), (column,))
    batch.validate(full=True)
    return batch["c"]


def test_extremes_survive() -> None:
    largest = pa.array([2**64 - 1, 0, None], pa.uint64())
    assert [int(v) if v is not None else None for v in convert(integer(8, False), largest).to_pylist()] == [
        2**64 - 1,
        0,
        None,
    ]
    assert convert(integer(4, False), pa.array([2**32 - 1], pa.uint32())).to_pylist() == [2**32 - 1]
    assert convert(of(Kind.BIT, length=63), pa.array([2**63 - 1], pa.uint64())).to_pylist() == [2**63 - 1]
    longest = -((838 * 60 + 59) * 60 + 59) * 1_000_000
    assert convert(of(Kind.TIME), pa.array([longest], pa.duration("us"))).to_pylist() == [longest]


def test_dictionaries_and_extension_types_become_plain() -> None:
    names = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int16()), pa.array(["", "b"]))
    enum = of(Kind.ENUM, members=("b",), length=1)
    assert convert(enum, names).to_pylist() == ["b", None, ""]
    items = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int8()), pa.array(["a", "b"]))
    sets = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), items)
    members = of(Kind.SET, members=("a", "b"), length=1)
    assert convert(members, sets).to_pylist() == [["b", "a"], [], ["b"]]
    key = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([key.bytes, None], pa.binary(16)))
    uuids = of(Kind.BINARY, declared_type="uuid", pad_to=16)
    assert convert(uuids, ids).to_pylist() == [key.bytes, None]


def test_a_value_that_does_not_fit_names_its_column() -> None:
    shape = pa.struct([("srid", pa.uint32()), ("wkb", pa.binary())])
    with pytest.raises(DecodeError) as caught:
        convert(of(Kind.GEOMETRY), pa.array([{"srid": 2**31, "wkb": b""}], shape))
    assert (caught.value.table, caught.value.column) == ("d.t", "c")


def test_members_written_out_are_bounded() -> None:
    """Each row refers to a member; a lake has its text in each row."""
    codes = pa.array([0, 1, None, 1] * 100, pa.int16())
    enum = pa.DictionaryArray.from_arrays(codes, pa.array(["", "x" * 1000]))
    both = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 100, pa.int8()), pa.array(["a" * 500, "b" * 500]))
    sets = pa.ListArray.from_arrays(
        pa.array([0, *[2 * i for i in range(1, 101)], *[200] * 300], pa.int32()), both
    )
    columns = (of(Kind.ENUM, members=("x" * 1000,)), of(Kind.SET, members=("a" * 500, "b" * 500)))
    named = tuple(replace(column, name=name) for column, name in zip(columns, "es", strict=True))
    batch = pa.record_batch([enum, sets], names=["e", "s"])
    table = Table("d", "t", named)
    wanted = pa.schema([(column.name, lake_type(column)) for column in named])
    taken = 200 * 1000 + 200 * 500
    made = to_lake(batch, wanted, table, named, most=taken)
    assert len("".join(made.column(0).fill_null("").to_pylist())) == 200 * 1000
    assert sum(map(len, made.column(1).flatten().to_pylist())) == 200 * 500
    for most in (taken - 1, 200 * 1000 - 1):
        with pytest.raises(DecodeError, match=f"Limits.arrow_bytes={most}") as caught:
            to_lake(batch, wanted, table, named, most=most)
        assert caught.value.column == ("s" if most > 200 * 1000 else "e")
