"""From a part of a log to rows of a DataFrame's schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import damaged, orders, partial, read  # noqa: E402

from binlog_core import BinlogError, SchemaError  # noqa: E402
from binlog_core._change_columns import LAKE_COLUMNS  # noqa: E402
from binlog_core.spark.doors.changes import ChangeReader, check_types, infer_schema  # noqa: E402
from binlog_core.spark.options import SourceOptions  # noqa: E402
from binlog_core.spark.plan.parts import plan_parts  # noqa: E402


def test_damage_by_mode(tmp_path: Path) -> None:
    path, position = damaged(tmp_path)
    with pytest.raises(BinlogError) as caught:
        read(path, table="shop.orders")
    assert (caught.value.path, caught.value.offset) == (str(path), position)
    dropped = read(path, table="shop.orders", onError="skip")
    assert [row["id"] for row in dropped] == [i for i in range(80) if i not in (20, 21)]
    permissive = read(path, table="shop.orders", onError="rows", metadata="_position")
    (corrupt,) = (row for row in permissive if row["_corrupt"])
    told = json.loads(corrupt["_corrupt"])
    assert (told["file"], told["offset"], corrupt["_position"]) == (str(path), position, position)
    assert corrupt["id"] is None
    assert len(permissive) == 79
    everything = read(path, onError="rows")
    assert [row["_corrupt"] is None for row in everything].count(False) == 1


def test_columns_by_what_is_asked_for(tmp_path: Path) -> None:
    def names(**options: str) -> list[str]:
        parsed = SourceOptions.parse({"table": "shop.orders", **options})
        return list(infer_schema([str(partial(tmp_path))], parsed).names)

    own = ["id", "text", *LAKE_COLUMNS]
    assert names() == [*own, "_absent"]  # the first images need it
    assert names(absent="false") == own
    every = names(metadata="_xid,_gtid", onSchemaChange="rescue", onError="rows", ddl="rows")
    assert every == [*own, "_absent", "_xid", "_gtid", "_rescued", "_corrupt", "_statement"]


def test_columns_that_nobody_wants_are_not_decoded(tmp_path: Path) -> None:
    options = SourceOptions.parse({"table": "shop.orders"})
    schema = pa.schema({"text": pa.string(), "_file": pa.string()})
    reader = ChangeReader.of(options, schema, projected=True)
    assert reader.reading.columns == {"shop.orders": ("text",)}
    assert reader.reading.metadata == ("_file",)
    assert ChangeReader.of(options, schema, projected=False).reading.columns is None
    rescued = pa.schema([*schema, ("_rescued", pa.string())])  # has what no other column has
    assert ChangeReader.of(options, rescued, projected=True).reading.columns is None
    moved = SourceOptions.parse({"table": "shop.orders", "images": "keychange"})
    assert ChangeReader.of(moved, schema, projected=True).reading.columns is None  # the key may be any
    keyed = SourceOptions.parse({"table": "shop.orders", "images": "keychange", "keyColumns": "id"})
    assert ChangeReader.of(keyed, schema, projected=True).reading.columns == {"shop.orders": ("text", "id")}
    (part,) = plan_parts([str(orders(tmp_path, count=2))], options)
    rows = [row for batch in reader.read(part) for row in batch.to_pylist()]
    path = str(tmp_path / "bin.000007")
    assert rows == [{"text": text, "_file": path} for text in ("t0", None, "t1", None)]


def test_a_schema_whose_columns_of_ours_have_other_types() -> None:
    one = SourceOptions.parse({"table": "shop.orders"})
    check_types(pa.schema({"id": pa.string(), "_xid": pa.int64()}), one)
    with pytest.raises(SchemaError, match="the column is int64, the schema has int32") as caught:
        check_types(pa.schema({"_Xid": pa.int32()}), one)
    assert caught.value.column == "_Xid"
    everything = SourceOptions.parse({})
    check_types(pa.schema({"after": pa.string()}), everything)
    with pytest.raises(SchemaError, match="without option table the columns are _database, _table, before"):
        check_types(pa.schema({"id": pa.int64()}), everything)
