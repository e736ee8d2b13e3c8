"""A table of an Iceberg catalog through pyiceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from binlog_core import BinlogError  # noqa: E402
from binlog_core.spark.lake.iceberg import IcebergLakeTable, load_iceberg_catalog, promoted  # noqa: E402
from binlog_core.spark.lake.table import DataFile  # noqa: E402


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
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    import pyarrow.parquet as pq

    catalog = load_iceberg_catalog(
        {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"file://{tmp_path}/warehouse",
        }
    )
    table = IcebergLakeTable(catalog, ("shop", "t"))
    assert (table.columns, table.applied("app")) == (pa.schema([]), None)
    for batch, kind in enumerate((pa.int32(), pa.int64()), 1):
        rows = pa.table({"id": pa.array([batch], kind)})
        pq.write_table(rows, tmp_path / f"{batch}.parquet", store_schema=False)
        table.append([DataFile(f"{tmp_path}/{batch}.parquet", 1, 0)], rows.schema, ("app", batch))
    again = IcebergLakeTable(catalog, ("shop", "t"))
    assert again.columns == pa.schema({"id": pa.int64()})
    assert (again.applied("app"), again.applied("other")) == (2, None)
    assert sorted(catalog.load_table("shop.t").scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_catalog_that_cannot_be_opened() -> None:
    pytest.importorskip("pyiceberg")
    with pytest.raises(BinlogError, match="the catalog cannot be opened"):
        load_iceberg_catalog({"type": "none"})
