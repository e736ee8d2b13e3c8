"""A table of an Iceberg catalog through pyiceberg."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from support.lake_forms import IcebergForm

pa = pytest.importorskip("pyarrow")

from binlog_core import BinlogError  # noqa: E402
from binlog_core.lake.tables.iceberg import (  # noqa: E402
    IcebergLakeTable,
    load_iceberg_catalog,
    promoted,
    without_secrets,
)
from binlog_core.lake.tables.table import App, DataFile  # noqa: E402


@pytest.mark.parametrize(
    ("here", "wanted", "is_promoted"),
    [
        (pa.int32(), pa.int64(), True),  # the promotions of Iceberg's specification, format version 2
        (pa.float32(), pa.float64(), True),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), True),
        (pa.decimal128(10, 2), pa.decimal128(12, 3), False),
        (pa.decimal128(12, 2), pa.decimal128(10, 2), False),
        (pa.int64(), pa.int32(), False),
        (pa.int32(), pa.float64(), False),
        (pa.int32(), pa.string(), False),
        (pa.date32(), pa.timestamp("us"), False),
    ],
    ids=str,
)
def test_what_iceberg_promotes(here: Any, wanted: Any, is_promoted: bool) -> None:
    assert promoted(here, wanted) is is_promoted


def test_files_are_appended_and_batches_known(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    catalog = load_iceberg_catalog({**IcebergForm(tmp_path).catalog, "warehouse": f"file://{tmp_path}/w"})
    table = IcebergLakeTable(catalog, ("shop", "t"))
    assert (table.columns, table.applied("app")) == (pa.schema([]), None)
    for batch, kind in enumerate((pa.int32(), pa.int64()), 1):
        rows = pa.table({"id": pa.array([batch], kind)})
        pq.write_table(rows, tmp_path / f"{batch}.parquet", store_schema=False)
        table.append([DataFile(f"{tmp_path}/{batch}.parquet", 1, 0)], rows.schema, App("app", batch))
    again = IcebergLakeTable(catalog, ("shop", "t"))
    assert again.columns == pa.schema({"id": pa.int64()})
    assert (again.applied("app"), again.applied("other")) == (2, None)
    assert sorted(catalog.load_table("shop.t").scan().to_arrow()["id"].to_pylist()) == [1, 2]


def opened(tmp_path: Path) -> IcebergLakeTable:
    catalog = load_iceberg_catalog(IcebergForm(tmp_path).catalog)
    return IcebergLakeTable(catalog, ("shop", "t"), str(tmp_path / "t"))


def data_file(tmp_path: Path, name: str, **columns: Any) -> tuple[DataFile, Any]:
    import pyarrow.parquet as pq

    (tmp_path / "t").mkdir(exist_ok=True)
    rows = pa.table(columns)
    pq.write_table(rows, tmp_path / "t" / name, store_schema=False, store_decimal_as_integer=True)
    return DataFile(name, rows.num_rows, 0), rows.schema


def read(tmp_path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = IcebergForm(tmp_path).read(tmp_path / "t").to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


def test_files_are_exchanged_and_types_promoted_in_place(tmp_path: Path) -> None:
    table = opened(tmp_path)
    assert (table.exists, table.columns, table.files(), table.last_commit()) == (False, pa.schema([]), [], {})
    day = dt.date(2026, 1, 2)
    kinds = {"id": pa.int32(), "n": pa.int8(), "f": pa.float32(), "d": pa.decimal128(5, 2), "at": pa.date32()}
    values = {"id": [1, 3], "n": [5, None], "f": [0.5, 1.5], "d": ["1.25", None], "at": [day, None]}
    arrays = {name: pa.array(values[name]).cast(kind) for name, kind in kinds.items()}
    first, schema = data_file(tmp_path, "a.parquet", **arrays)
    table.replace([first], schema, App("app", 1), {"why": "test"})
    assert table.columns.types == [pa.int32(), pa.int32(), *schema.types[2:]]
    (file,) = table.files()
    assert (file.name, file.rows, file.least["id"], file.most["id"]) == ("a.parquet", 2, 1, 3)
    assert (file.least["at"], "d" in file.least) == (day, False)
    wide = {"id": pa.array([2], pa.int64()), "d": pa.array(["7"]).cast(pa.decimal128(9, 2)), "s": ["x" * 99]}
    second, wider = data_file(tmp_path, "b.parquet", **wide, f=pa.array([2.5], pa.float64()))
    assert table.takes(wider)
    table.exchange([second], [], wider, App("app", 2))
    assert [(row["id"], row["f"], row["s"]) for row in read(tmp_path)] == [
        (1, 0.5, None),
        (2, 2.5, "x" * 99),
        (3, 1.5, None),
    ]
    bounds = {one.name: (one.least.get("id"), one.most.get("s")) for one in table.files()}
    assert bounds == {"a.parquet": (1, None), "b.parquet": (2, "x" * 15 + "y")}  # cut, and above all values
    assert (table.applied("app"), table.last_commit().get("why"), table.rows) == (2, None, 3)
    third, _ = data_file(tmp_path, "c.parquet", id=pa.array([9], pa.int64()))
    table.exchange([third], [one for one in table.files() if one.name == "a.parquet"], wider, None)
    assert [row["id"] for row in read(tmp_path)] == [2, 9]
    table.empty()
    assert (read(tmp_path), opened(tmp_path).rows, table.applied("app")) == ([], 0, 2)


def test_a_table_made_anew_has_these_columns_and_types_alone(tmp_path: Path) -> None:
    table = opened(tmp_path)
    first, schema = data_file(tmp_path, "a.parquet", id=pa.array([1], pa.int64()), a=["x"], b=[b"y"])
    table.replace([first], schema, App("app", 1))
    for number, columns in enumerate(({"b": ["z"], "id": [2]}, {"id": ["k"], "b": [1.5]})):
        file, schema = data_file(tmp_path, f"{number}.parquet", **columns)
        assert not table.takes(schema)
        table.replace([file], schema, None)
        assert (table.columns, read(tmp_path)) == (schema, [{name: v[0] for name, v in columns.items()}])
    form = IcebergForm(tmp_path).table(tmp_path / "t")
    assert form.scan(row_filter="id = 'k'").to_arrow().num_rows == 1


def test_what_others_commit_meanwhile_is_not_lost(tmp_path: Path) -> None:
    table, other = opened(tmp_path), opened(tmp_path)
    first, schema = data_file(tmp_path, "a.parquet", id=[1])
    late, _ = data_file(tmp_path, "b.parquet", id=[1])
    table.replace([first], schema, App("app", 1))
    with pytest.raises(BinlogError, match="another table"):
        other.replace([late], schema, App("app", 2))
    other = opened(tmp_path)
    table.exchange([data_file(tmp_path, "c.parquet", id=[2])[0]], table.files(), schema, None)
    for commit in (other.exchange, lambda *given: other.replace(given[0], *given[2:])):
        with pytest.raises(BinlogError, match="another writer has committed"):
            commit([late], other.files(), schema, App("app", 3))
    assert read(tmp_path) == [{"id": 2}]


def test_a_batch_is_appended_once_whoever_commits_meanwhile(tmp_path: Path) -> None:
    files = [data_file(tmp_path, f"{number}.parquet", id=[number]) for number in range(4)]
    (first, schema), *more = files
    opened(tmp_path).append([first], schema, App("first", 1))
    tables = [opened(tmp_path) for _ in more]
    for table, (file, _), app in zip(tables[:2], more, ("run", "other"), strict=False):
        table.append([file], schema, App(app, 1))
    with pytest.raises(BinlogError, match="another writer has committed"):
        tables[2].append([more[2][0]], schema, App("run", 1))
    assert read(tmp_path) == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_the_last_batch_is_that_of_the_last_commit(tmp_path: Path) -> None:
    table = opened(tmp_path)
    first, schema = data_file(tmp_path, "a.parquet", id=[1])
    table.replace([first], schema, App("app", 5))
    table.exchange([data_file(tmp_path, "b.parquet", id=[2])[0]], [], schema, App("other", 9))
    assert (table.applied("app"), table.applied("other")) == (5, 9)
    table.replace([data_file(tmp_path, "c.parquet", id=[3])[0]], schema, App("app", 3))  # a new copy
    assert (opened(tmp_path).applied("app"), table.applied("other")) == (3, 9)


def test_of_many_apps_the_last_are_known(tmp_path: Path) -> None:
    table = opened(tmp_path)
    schema = pa.schema({"id": pa.int64()})
    for number in (*range(40), 8, 40):
        table.exchange([], [], schema, App(f"run {number}", 1))
    table = opened(tmp_path)
    assert [number for number in range(41) if table.applied(f"run {number}")] == [8, *range(10, 41)]


def test_a_table_elsewhere_is_another_one(tmp_path: Path) -> None:
    table = opened(tmp_path)
    file, schema = data_file(tmp_path, "a.parquet", id=[1])
    table.replace([file], schema, None)
    catalog = load_iceberg_catalog(IcebergForm(tmp_path).catalog)
    other = IcebergLakeTable(catalog, ("shop", "t"), str(tmp_path / "other"))
    assert not other.exists
    with pytest.raises(BinlogError, match=f"another table shop.t, in {tmp_path}/t"):
        other.replace([], schema, None)


def test_manifests_are_put_together_and_old_snapshots_are_not_needed(tmp_path: Path) -> None:
    table = opened(tmp_path)
    schema = pa.schema({"id": pa.int64()})
    counts = []
    for number in range(20):
        file, _ = data_file(tmp_path, f"{number}.parquet", id=[number])
        table.exchange(
            [file], [one for one in table.files() if one.least["id"] == number - 1], schema, App("a", number)
        )
        form = IcebergForm(tmp_path).table(tmp_path / "t")
        counts.append(len(form.current_snapshot().manifests(form.io)))
    assert max(counts) <= 16
    form.append(pa.table({"id": [20]}))  # of another writer, which does not mention ours
    form.refresh()
    for one in form.snapshots():
        if one.snapshot_id != form.current_snapshot().snapshot_id:
            form.maintenance.expire_snapshots().by_id(one.snapshot_id).commit()
    assert (len(form.snapshots()), opened(tmp_path).applied("a"), read(tmp_path)) == (
        1,
        19,
        [{"id": 19}, {"id": 20}],
    )


def test_what_only_spark_writes_is_named(tmp_path: Path) -> None:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField

    catalog = load_iceberg_catalog({**IcebergForm(tmp_path).catalog, "warehouse": f"file://{tmp_path}/w"})
    catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType(), required=True))
    by_id = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    catalog.create_table("shop.t", schema, partition_spec=by_id)
    assert IcebergLakeTable(catalog, ("shop", "t")).special == ["partitions", "columns that take no null"]
    plain = catalog.create_table("shop.u", pa.schema({"id": pa.int64()}))
    data_file(tmp_path, "a.parquet", id=[1])
    plain.add_files([f"{tmp_path}/t/a.parquet"])
    assert IcebergLakeTable(catalog, ("shop", "u")).special == ["files outside of its directory"]


def test_which_properties_of_a_catalog_are_secrets() -> None:
    plain = {"name": "a", "type": "sql", "uri": "postgresql+psycopg2://user@db/lake", "warehouse": "s3://b/w"}
    secret = {"credential": "id:x", "token": "x", "header.Authorization": "x", "s3.access-key-id": "x"}
    assert without_secrets({**plain, **secret}) == plain
    login = (
        "postgresql://user:x/y@db/lake",
        "postgresql://user:x#y@db/lake",
        "postgresql://user:x@y@db/lake",
    )
    for uri in (*login, "postgresql://user:x@db/lake", "postgresql://db/lake?password=x", "http://["):
        assert without_secrets({"uri": uri, "type": "sql"}) == {"type": "sql"}


def test_a_catalog_that_cannot_be_opened() -> None:
    pytest.importorskip("pyiceberg")
    with pytest.raises(BinlogError, match="the catalog cannot be opened"):
        load_iceberg_catalog({"type": "none"})
