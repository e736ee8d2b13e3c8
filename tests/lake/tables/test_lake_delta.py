"""A Delta table through deltalake: commits and state."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

import pyarrow.parquet as pq  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core.lake.tables.delta import DeltaLakeTable, delta_filesystem  # noqa: E402
from binlog_core.lake.tables.table import App, DataFile  # noqa: E402


def data_file(folder: Path, name: str, **columns: Any) -> DataFile:
    folder.mkdir(exist_ok=True)
    rows = pa.table(columns)
    pq.write_table(rows, folder / name, store_schema=False)
    ids = rows["id"].to_pylist()
    return DataFile(
        name, rows.num_rows, (folder / name).stat().st_size, {"id": min(ids)}, {"id": max(ids)}, {"id": 0}
    )


def rows_of(place: Path) -> list[dict[str, Any]]:
    found = deltalake.DeltaTable(str(place)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_files_are_committed_with_their_bounds(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = DeltaLakeTable(str(place))
    assert (table.exists, table.applied("app"), table.files(), table.last_commit()) == (False, None, [], {})
    assert table.columns == pa.schema([])
    schema = pa.schema({"id": pa.int64()})
    first = data_file(place, "a.parquet", id=[1, 3])
    table.append([first], schema, App("app", 1))
    assert (table.exists, table.version, table.applied("app"), table.applied("other")) == (True, 0, 1, None)
    wide = pa.schema({"ID": pa.int64(), "at": pa.timestamp("us", "UTC")})
    moment = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    second = data_file(place, "b.parquet", id=[2], at=pa.array([moment], pa.timestamp("us", "UTC")))
    table.append([second], wide, App("app", 2))
    assert table.columns.names == ["id", "at"]  # names are compared without case
    assert rows_of(place) == [{"id": 1, "at": None}, {"id": 2, "at": moment}, {"id": 3, "at": None}]
    files = sorted(table.files(), key=lambda one: one.name)
    assert [(one.name, one.rows, one.least["id"], one.most["id"]) for one in files] == [
        ("a.parquet", 2, 1, 3),
        ("b.parquet", 1, 2, 2),
    ]
    table.exchange([data_file(place, "c.parquet", id=[7])], [first], schema, App("app", 3), {"why": "test"})
    assert [row["id"] for row in rows_of(place)] == [2, 7]
    assert table.last_commit()["why"] == "test"
    assert DeltaLakeTable(str(place)).applied("app") == 3
    table.replace([data_file(place, "d.parquet", id=[9])], schema, App("app", 4))
    assert rows_of(place) == [{"id": 9}]
    table.empty()
    assert rows_of(place) == []


def test_bounds_that_python_lacks_are_not_known(tmp_path: Path) -> None:
    days = pa.array([-719528, 2932897], pa.int32()).cast(pa.date32())  # 0000-01-01, 10000-01-01
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1, 2], "day": days}))
    (file,) = DeltaLakeTable(str(tmp_path)).files()
    assert (file.rows, file.least, file.most) == (2, {"id": 1, "day": None}, {"id": 2, "day": None})


def test_what_only_spark_writes_is_named(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "a": ["x"]})
    deltalake.write_deltalake(str(tmp_path / "parts"), rows, partition_by=["a"])
    assert DeltaLakeTable(str(tmp_path / "parts")).special == ["partitions"]
    settings = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(str(tmp_path / "feed"), rows, configuration=settings)
    assert DeltaLakeTable(str(tmp_path / "feed")).special == ["delta.enableChangeDataFeed"]
    deltalake.write_deltalake(str(tmp_path / "plain"), rows)
    assert DeltaLakeTable(str(tmp_path / "plain")).special == []


def test_columns_stay_as_they_were_declared(tmp_path: Path) -> None:
    fields = [
        deltalake.Field("id", "long", nullable=False),
        deltalake.Field("a", "string", nullable=False, metadata={"comment": "a name"}),
    ]
    deltalake.DeltaTable.create(str(tmp_path), deltalake.Schema(fields))

    def declared() -> list[tuple[str, bool, Any]]:
        found = deltalake.DeltaTable(str(tmp_path)).schema().fields
        return [(one.name, one.nullable, one.metadata) for one in found]

    def of(name: str, *values: str | None) -> DataFile:
        columns = {"id": list(range(len(values))), "a": pa.array(values, pa.string())}
        return replace(data_file(tmp_path, name, **columns), nulls={"id": 0, "a": values.count(None)})

    table, schema = DeltaLakeTable(str(tmp_path)), pa.schema({"id": pa.int64(), "a": pa.string()})
    before = declared()
    with pytest.raises(BinlogError, match="NOT NULL") as failed:
        table.exchange([of("null.parquet", "x", None)], (), schema, App("app", 1))
    assert (failed.value.column, table.applied("app"), rows_of(tmp_path)) == ("a", None, [])
    table.exchange([of("x.parquet", "x")], (), schema, App("app", 1))
    table.replace([of("y.parquet", "y")], schema, App("app", 2))
    assert (declared(), rows_of(tmp_path)) == (before, [{"id": 0, "a": "y"}])
    table.replace([of("z.parquet", "z", None)], schema, App("app", 3))  # as after its column is dropped
    assert declared() == [before[0], ("a", True, {"comment": "a name"})]
    table.replace([], pa.schema({"id": pa.int64(), "a": pa.int64()}), App("app", 4))
    assert declared() == [before[0], ("a", True, {})]  # another column of this name


def test_files_of_a_store_take_buffers_of_arrow(tmp_path: Path) -> None:
    filesystem = delta_filesystem(f"file://{tmp_path}", None)
    with filesystem.open_output_stream("x.arrow") as sink:
        sink.write(b"12")
        sink.write(pa.py_buffer(b"34"))
    assert (tmp_path / "x.arrow").read_bytes() == b"1234"
