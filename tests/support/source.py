"""Rows of the data source, made in this process like by its workers; and logs of a small shop."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from binlog_core.conditions.pushed import Predicate
from binlog_core.lake.plan.parts import plan_parts, timeline_of
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.spark.changes import ChangeReader, infer_schema
from binlog_core.spark.schemas import arrow_schema, spark_schema
from support.writer import Log, Table

GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
ORDERS = Table("shop", "orders", [("id", "INT"), ("text", "VARCHAR(20)")], primary_key=["id"])
OTHER = Table("shop", "other", [("id", "INT")])


def read(paths: Any, pushed: Iterable[Predicate] = (), **options: str) -> list[dict[str, Any]]:
    """Rows as the workers make them, in log order."""
    given = [str(path) for path in (paths if isinstance(paths, list) else [paths])]
    parsed = SourceOptions.parse(options)
    schema = arrow_schema(spark_schema(infer_schema(given, parsed)))
    reader = ChangeReader.of(parsed, schema, projected=False)
    rows: list[dict[str, Any]] = []
    reader, parts = reader.pushed(pushed).planned(given)
    for part in reader.wanted(parts):
        for batch in reader.read(part):
            batch.validate(full=True)
            assert batch.schema == schema
            rows += batch.to_pylist()
    return sorted(rows, key=lambda row: (row["_commit_version"], row["_change_ordinal"] or 0))


def batch_of(log: Log, path: Path, **options: str) -> Any:
    """The changes of ``shop.t`` in a written log, as `apply_changes` takes them."""
    import pyarrow as pa

    path.write_bytes(log.getvalue())
    given = {"table": "shop.t", "ddl": "rows", "absent": "true", "mergeSchema": "true", **options}
    parsed = SourceOptions.parse(given)
    schema = arrow_schema(spark_schema(infer_schema([str(path)], parsed)))
    reader = ChangeReader.of(parsed, schema, projected=False).following(timeline_of([str(path)], parsed))
    batches = [batch for part in plan_parts([str(path)], parsed) for batch in reader.read(part)]
    return pa.Table.from_batches(batches, schema)


def orders(tmp_path: Path, name: str = "bin.000007", count: int = 40) -> Path:
    log = Log("8.0.36")
    log.previous_gtids()
    for i in range(count):
        log.timestamp += 1
        log.gtid(GTIDS, i + 1)
        log.begin()
        log.insert(ORDERS, [{"id": 2 * i, "text": f"t{i}"}, {"id": 2 * i + 1, "text": None}])
        log.insert(OTHER, [{"id": i}])
        log.commit(xid=100 + i)
    path = tmp_path / name
    path.write_bytes(log.getvalue())
    return path


def partial(tmp_path: Path) -> Path:
    log = Log("8.0.36")
    log.begin()
    log.insert(ORDERS, [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}])
    log.update(ORDERS, [({"id": 1}, {"text": "c"})], before_columns=["id"], after_columns=["text"])
    log.update(ORDERS, [({"id": 2}, {"id": 9})], before_columns=["id"], after_columns=["id"])
    log.delete(ORDERS, [{"id": 9}], columns=["id"])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    return path


WIDER = Table(
    "shop", "orders", [("id", "INT"), ("text", "VARCHAR(20)"), ("extra", "DATE")], primary_key=["id"]
)


def changed(tmp_path: Path) -> Path:
    log = Log("8.0.36")
    log.begin()
    log.insert(ORDERS, [{"id": 1, "text": "a"}])
    log.commit()
    log.query("ALTER TABLE orders ADD extra DATE", "shop")
    log.begin()
    log.insert(
        WIDER, [{"id": 2, "text": "b", "extra": "2024-02-29"}, {"id": 3, "text": "c", "extra": "0000-00-00"}]
    )
    log.commit()
    log.query("TRUNCATE TABLE other", "shop")
    log.query("truncate orders", "shop")
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    return path


def damaged(tmp_path: Path) -> tuple[Path, int]:
    path = orders(tmp_path)
    position = read(path, table="shop.orders", metadata="_position")[20]["_position"]
    data = bytearray(path.read_bytes())
    data[position + 25] ^= 0xFF
    path.write_bytes(data)
    return path, position
