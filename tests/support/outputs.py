"""Reads back what exports wrote."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlog_core.spark import ReadOptions

from .golden import Golden, golden_logs
from .lake import LakeRow, lake_changes, lake_rows
from .truth import Reader, differences
from .writer import Log, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POSITIONS = ReadOptions(unnamed="positions")


def manifest_of(output: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((output / "_manifest.json").read_text(encoding="ascii"))
    return manifest


def files_named(manifest: dict[str, Any]) -> set[str]:
    """The data files that a manifest names, from its directory."""
    return {f"{table['directory']}/{file['name']}" for table in manifest["tables"] for file in table["files"]}


def files_of(output: Path) -> set[str]:
    return {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}


def leftovers(output: Path) -> list[str]:
    return [name for name in os.listdir(output.parent) if name != output.name]


def write_log(path: Path, *statements: tuple[Table, list[dict[str, Any]]], server: str = "8.0.36") -> Path:
    log = Log(server)
    for table, rows in statements:
        log.begin()
        log.insert(table, rows)
        log.commit()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(log.getvalue())
    return path


def evolving(folder: Path) -> list[Path]:
    """A table that gets a column, then another type; values of kinds that lakes treat differently."""
    columns = [("id", "INT"), ("price", "DECIMAL(12,2)"), ("at", "DATETIME"), ("note", "VARCHAR(20)")]
    old = Table("d", "t", columns)
    more = Table("d", "t", [*columns, ("small", "TINYINT")])
    wide = Table("d", "t", [("id", "BIGINT"), *columns[1:], ("small", "TINYINT")])
    values = {"price": Decimal("12.50"), "at": dt.datetime(2026, 1, 2, 3, 4, 5), "note": "ä"}
    return [
        write_log(folder / "bin.000001", (old, [{"id": i, **values} for i in range(5)])),
        write_log(folder / "bin.000002", (more, [{"id": 5, **values, "small": 7}])),
        write_log(folder / "bin.000003", (wide, [{"id": 1 << 40, **values, "small": 8}])),
    ]


def exportable(server: str) -> list[Golden]:
    """Logs that need no further arguments, in the order in which one export reads them."""
    return [golden for golden in golden_logs(f"{server}/*") if not golden.open_arguments]


def rows_of(database: str, table: str, read: Any) -> list[LakeRow]:
    assert read.column_names[-1] == "_absent"
    rows = lake_rows(database, table, read.drop_columns("_absent").to_pylist())
    for row, absent in zip(rows, read["_absent"].to_pylist(), strict=True):
        columns = [name for name in absent or () if name in row.values]  # also "doc (changed)", beside "doc"
        assert {row.values[name] for name in columns} <= {None}
    return rows


def by_pyarrow(output: Path, manifest: dict[str, Any]) -> list[LakeRow]:
    import pyarrow.parquet as pq

    rows: list[LakeRow] = []
    for table in manifest["tables"]:
        for file in table["files"]:
            read = pq.ParquetFile(output / table["directory"] / file["name"]).read()
            assert read.num_rows == sum(file["rows"].values())
            rows += rows_of(table["database"], table["table"], read)
    return rows


def spark_reads_the_same(spark: SparkSession, output: Path, manifest: dict[str, Any]) -> None:
    """Of each type the first definition that has it: Spark's schema is the manifest's, its values pyarrow's.

    Of the files' other definitions only names differ.
    """
    import pyarrow.parquet as pq

    seen = set[str]()
    for table in manifest["tables"]:
        folder = output / table["directory"]
        for version in table["versions"]:
            told = [(column["name"], column["type"]) for column in version["columns"]]
            if seen >= {kind for _, kind in told}:
                continue
            seen |= {kind for _, kind in told}
            pattern = f"v{version['version']}-*"
            frame = spark.read.option("pathGlobFilter", pattern).parquet(str(folder))
            assert frame.dtypes == told
            found = rows_of(table["database"], table["table"], frame.toArrow())
            read = pq.read_table(sorted(folder.glob(pattern)), partitioning=None)
            key = attrgetter("version", "ordinal", "kind")
            wanted = rows_of(table["database"], table["table"], read)
            assert sorted(found, key=key) == sorted(wanted, key=key)


def hold(rows: list[LakeRow], logs: list[Golden], manifest: dict[str, Any]) -> None:
    statements = {(one["version"], one["ordinal"]) for one in manifest["statements"]}
    by_log: dict[int, list[LakeRow]] = {}
    for row in rows:
        by_log.setdefault(row.version >> 40, []).append(row)
    assert set(by_log) <= set(range(1, len(logs) + 1))
    for number, golden in enumerate(logs, start=1):
        changes = lake_changes(by_log.get(number, []), golden, statements)
        found = differences(changes, golden, None, Reader.ARROW, place=False)
        assert found == [], golden


def ids_of(output: Path, table: str) -> list[int]:
    """The rows in log order."""
    import pyarrow.parquet as pq

    rows = pq.read_table(sorted((output / table).iterdir())).sort_by(
        [("_commit_version", "ascending"), ("_change_ordinal", "ascending")]
    )
    found: list[int] = rows["id"].to_pylist()
    return found
