"""apply_changes: a Delta table follows its source, held against a model and against written logs."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

from deltalake import DeltaTable  # noqa: E402

from binlog_core.spark.apply import Applied, ApplyStopped, apply_changes, fold  # noqa: E402
from binlog_core.spark.changes import ChangeReader, infer_schema  # noqa: E402
from binlog_core.spark.dataframe import primary_key  # noqa: E402
from binlog_core.spark.datasource import arrow_schema  # noqa: E402
from binlog_core.spark.options import SourceOptions  # noqa: E402
from binlog_core.spark.planning import plan_parts  # noqa: E402
from binlog_core.spark.schema import spark_schema  # noqa: E402

COLUMNS = [("id", "INT"), ("a", "VARCHAR(20)"), ("b", "BIGINT")]
T = Table("shop", "t", COLUMNS, primary_key=["id"])
WIDER = Table("shop", "t", [*COLUMNS, ("c", "DECIMAL(10,2)")], primary_key=["id"])


def batch_of(log: Log, path: Path, **options: str) -> Any:
    path.write_bytes(log.getvalue())
    given = {"table": "shop.t", "ddl": "rows", "absent": "true", "mergeSchema": "true", **options}
    parsed = SourceOptions.parse(given)
    schema = arrow_schema(spark_schema(infer_schema([str(path)], parsed)))
    reader = ChangeReader.of(parsed, schema, projected=False)
    batches = [batch for part in plan_parts([str(path)], parsed) for batch in reader.read(part)]
    return pa.Table.from_batches(batches, schema)


def rows_of(target: Path) -> list[dict[str, Any]]:
    rows = DeltaTable(str(target)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


class Source:
    """A table as its server holds it; random statements with full or minimal images."""

    def __init__(self, seed: int, minimal: bool) -> None:
        self.random = random.Random(seed)
        self.minimal = minimal
        self.rows: dict[int, dict[str, Any]] = {}

    def work(self, log: Log, count: int) -> None:
        for _ in range(count):
            log.begin()
            for _ in range(self.random.randrange(1, 4)):
                self.change(log)
            log.commit()
            if self.random.random() < 0.03:
                log.query("TRUNCATE TABLE t", "shop")
                self.rows.clear()

    def change(self, log: Log) -> None:
        what = self.random.choice(("insert", "insert", "update", "update", "move", "delete"))
        free = [i for i in range(400) if i not in self.rows]
        if what == "insert" or not self.rows:
            row = {"id": self.random.choice(free), "a": self.text(), "b": self.random.randrange(1 << 40)}
            log.insert(T, [row])
            self.rows[row["id"]] = row
            return
        old = self.rows.pop(self.random.choice(list(self.rows)))
        if what == "delete":
            log.delete(T, [old], columns=["id"] if self.minimal else None)
            return
        new = {
            **old,
            self.random.choice("ab"): None if self.random.random() < 0.2 else self.random.randrange(99),
        }
        new["a"] = None if new["a"] is None else str(new["a"])
        if what == "move":
            new["id"] = self.random.choice(free)
        changed = [name for name in new if new[name] != old[name]] or ["b"]
        if self.minimal:
            log.update(T, [(old, new)], before_columns=["id"], after_columns=changed)
        else:
            log.update(T, [(old, new)])
        self.rows[new["id"]] = new

    def text(self) -> str:
        return self.random.choice("xyz") * self.random.randrange(5)

    @property
    def state(self) -> list[dict[str, Any]]:
        return [self.rows[key] for key in sorted(self.rows)]


@pytest.mark.parametrize("minimal", [False, True], ids=["full", "minimal"])
@pytest.mark.parametrize("seed", range(4))
def test_the_target_equals_the_source_after_each_batch(tmp_path: Path, seed: int, minimal: bool) -> None:
    source = Source(seed, minimal)
    target = tmp_path / "target"
    for number in range(5):
        log = Log("8.0.36")
        log.begin()
        row = {"id": 1000 + number, "a": "first", "b": number}
        log.insert(T, [row])
        log.commit()
        source.rows[row["id"]] = row
        source.work(log, 25)
        batch = batch_of(log, tmp_path / f"bin.{number:06}")
        told = apply_changes(batch, str(target), keys=["id"], app_id="test", batch_id=number)
        assert not told.skipped
        assert rows_of(target) == source.state
        again = apply_changes(batch, str(target), keys=["id"], app_id="test", batch_id=number)
        assert again == Applied(skipped=True)
        assert rows_of(target) == source.state


def test_a_column_that_is_added(tmp_path: Path) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [{"id": 1, "a": "x", "b": 1}])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000001"), str(target), keys=["id"])
    log = Log("8.0.36")
    log.query("ALTER TABLE t ADD c DECIMAL(10,2)", "shop")
    log.begin()
    log.insert(WIDER, [{"id": 2, "a": "y", "b": 2, "c": Decimal("1.50")}])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000002"), str(target), keys=["id"])
    assert [(row["id"], str(row["c"])) for row in rows_of(target)] == [(1, "None"), (2, "1.50")]


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE t",
        "drop database shop",
        "RENAME TABLE t TO u",
        "RENAME TABLE u TO t",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7",
        "ALTER TABLE t DROP a",
        "ALTER TABLE t TRUNCATE PARTITION p0",
        "CREATE OR REPLACE TABLE t (id INT)",
    ],
)
def test_statements_that_stop_the_apply(tmp_path: Path, sql: str) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [{"id": 1, "a": "x", "b": 1}])
    log.commit()
    log.query(sql, "shop")
    with pytest.raises(ApplyStopped, match=r"is not applied") as caught:
        apply_changes(batch_of(log, tmp_path / "bin.000001"), str(target), keys=["id"])
    assert sql in str(caught.value)
    assert not target.exists()


def test_what_a_batch_must_have(tmp_path: Path) -> None:
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [{"id": 1, "a": "x", "b": 1}])
    log.update(T, [({"id": 1, "a": "x", "b": 1}, {"id": 2, "a": "x", "b": 1})])
    log.commit()
    path, target = tmp_path / "bin.000001", str(tmp_path / "target")
    with pytest.raises(ValueError, match=r"ddl=rows"):
        apply_changes(batch_of(log, path, ddl="ignore"), target, keys=["id"])
    with pytest.raises(ValueError, match=r"images=both"):
        apply_changes(batch_of(log, path, images="after"), target, keys=["id"])
    with pytest.raises(ValueError, match=r"no column nothing"):
        apply_changes(batch_of(log, path), target, keys=["nothing"])
    with pytest.raises(ValueError, match=r"both or none"):
        apply_changes(batch_of(log, path), target, keys=["id"], batch_id=1)
    assert primary_key(path, "shop.t") == ("id",)


def test_a_partial_image_of_a_row_that_the_target_lacks(tmp_path: Path) -> None:
    log = Log("8.0.36")
    log.begin()
    log.update(T, [({"id": 1}, {"a": "z"})], before_columns=["id"], after_columns=["a"])
    log.commit()
    with pytest.raises(ValueError, match=r"begin with a copy"):
        apply_changes(batch_of(log, tmp_path / "bin.000001"), str(tmp_path / "target"), keys=["id"])


def test_fold_keeps_what_a_moved_row_has() -> None:
    changes = [
        {"_change_type": "update_preimage", "id": 1, "a": None, "_absent": ["a"]},
        {"_change_type": "update_postimage", "id": 2, "a": None, "_absent": ["a"]},
        {"_change_type": "update_preimage", "id": 2, "a": None, "_absent": ["a"]},
        {"_change_type": "update_postimage", "id": None, "a": "x", "_absent": ["id"]},
        {"_change_type": "delete", "id": 3, "a": None, "_absent": None},
    ]
    folded = fold(changes, ["id"])
    assert folded.rows == {(1,): None, (2,): {"id": 2, "a": "x"}, (3,): None}
    assert folded.bases[(2,)] == (1,)
