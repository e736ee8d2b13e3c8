"""apply_changes: a Delta table follows its source, compared with a model and with written logs."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import random
import tracemalloc
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.golden import DATA
from support.lake_forms import DeltaForm, Form
from support.lake_tables import plain
from support.named import partial_images
from support.server import connect, logged
from support.source import batch_of
from support.workload import Workload
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

import deltalake  # noqa: E402
from deltalake import DeltaTable  # noqa: E402
from pyspark import cloudpickle  # noqa: E402

from binlog_core.errors import (  # noqa: E402
    ApplyStopped,
    BinlogError,
    CopyNeeded,
)
from binlog_core.lake.apply.jobs import Here  # noqa: E402
from binlog_core.lake.plan.parts import plan_parts, timeline_of  # noqa: E402
from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.lake.tables.delta import DeltaLakeTable  # noqa: E402
from binlog_core.lake.tables.iceberg import IcebergLakeTable  # noqa: E402
from binlog_core.spark import Applied, apply_changes  # noqa: E402
from binlog_core.spark.changes import ChangeReader, infer_schema  # noqa: E402
from binlog_core.spark.dataframe import primary_key  # noqa: E402
from binlog_core.spark.schemas import arrow_schema, spark_schema  # noqa: E402

STRICT = b"\x01" + (1 << 21).to_bytes(8, "little")  # status variable: sql_mode
COLUMNS = [("id", "INT"), ("a", "VARCHAR(20)"), ("b", "BIGINT")]
T = Table("shop", "t", COLUMNS, primary_key=["id"])
WIDER = Table("shop", "t", [*COLUMNS, ("c", "DECIMAL(10,2)")], primary_key=["id"])


def rows_of(target: Path, form: Form | None = None) -> list[dict[str, Any]]:
    rows = (form or DeltaForm(target)).read(target).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def defined(folder: Path, columns: list[tuple[str, str]] = COLUMNS) -> dict[str, str]:
    """Options with the definition of ``shop.t`` before the log."""
    listed = ", ".join(" ".join(one) for one in columns)
    (folder / "start.sql").write_text(f"CREATE TABLE shop.t ({listed}, PRIMARY KEY (id)) CHARSET=utf8mb4")
    return {"schema": "ddl", "schemaStart": str(folder / "start.sql")}


def test_columns_of_any_names_are_completed(tmp_path: Path, form: Form) -> None:
    """Also of those by which files beside the table might say what a row lacks."""
    target = tmp_path / "target"
    batches, row = partial_images()
    for batch in batches:
        apply_changes(batch, form.target(target), key_columns=["id"], without_statements=True)
    assert rows_of(target, form) == [row]


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

    def log(self, number: int, count: int) -> Log:
        """A log of one row that no other log has, and of so many steps of work."""
        log = Log("8.0.36")
        log.begin()
        row = {"id": 1000 + number, "a": "first", "b": number}
        log.insert(T, [row])
        log.commit()
        self.rows[row["id"]] = row
        self.work(log, count)
        return log

    @property
    def state(self) -> list[dict[str, Any]]:
        return [self.rows[key] for key in sorted(self.rows)]


@pytest.mark.parametrize("minimal", [False, True], ids=["full", "minimal"])
@pytest.mark.parametrize("seed", range(4))
def test_the_target_equals_the_source_after_each_batch(
    tmp_path: Path, form: Form, seed: int, minimal: bool
) -> None:
    source = Source(seed, minimal)
    target = tmp_path / "target"
    for number in range(5):
        log = source.log(number, 25)
        batch = batch_of(log, tmp_path / f"bin.{number:06}")
        told: dict[str, Any] = {"key_columns": ["id"], "app_id": "test", "batch_id": number}
        assert not apply_changes(batch, form.target(target), **told).skipped
        assert rows_of(target, form) == source.state
        assert apply_changes(batch, form.target(target), **told) == Applied(skipped=True)
        assert rows_of(target, form) == source.state


@pytest.mark.parametrize("seed", range(6))
def test_batches_of_a_new_checkpoint_under_an_old_app_id_are_not_lost(
    tmp_path: Path, form: Form, seed: int
) -> None:
    """They begin at 0 again, in other parts: each is one that the table has, or an error."""
    choose = random.Random(seed)
    source, target = Source(seed, minimal=bool(seed % 2)), tmp_path / "target"
    first = batch_of(source.log(0, choose.randrange(5, 30)), tmp_path / "bin.000001")
    before = rows_before = None
    told: dict[str, Any] = {"key_columns": ["id"], "app_id": "test"}

    def parts(batch: Any, most: int) -> list[Any]:
        """The batch in parts of whole transactions."""
        places = batch["_commit_version"].to_pylist()
        ends = [i for i in range(1, len(places)) if places[i] != places[i - 1]]
        chosen = sorted(choose.sample(ends, min(len(ends), choose.randrange(1, most))))
        return [batch.slice(a, b - a) for a, b in pairwise([0, *chosen, batch.num_rows])]

    for number, part in enumerate(parts(first, 8)):
        assert not apply_changes(part, form.target(target), batch_id=number, **told).skipped
    assert rows_of(target, form) == source.state
    more = Source(seed, minimal=False)
    more.rows = source.rows
    second = batch_of(more.log(2, 5), tmp_path / "bin.000002")
    assert min(second["_commit_version"].to_pylist()) > max(first["_commit_version"].to_pylist())
    empty = second.slice(0, 0)
    assert apply_changes(empty, form.target(target), batch_id=0, **told) == Applied(skipped=True)
    with pytest.raises(BinlogError, match="give another app_id"):
        for number, part in enumerate([*parts(first, 3), second] if seed % 3 else [second]):
            before, rows_before = number, rows_of(target, form)
            apply_changes(part, form.target(target), batch_id=number, **told)
    assert before is not None and rows_of(target, form) == rows_before
    told["app_id"] = "another"
    assert not apply_changes(second, form.target(target), batch_id=0, **told).skipped
    assert rows_of(target, form) == more.state


def test_the_logs_of_another_server_are_not_taken_for_a_repeated_batch(tmp_path: Path, form: Form) -> None:
    target = tmp_path / "target"
    told: dict[str, Any] = {"key_columns": ["id"], "app_id": "test", "batch_id": 3}
    source = Source(1, minimal=False)
    apply_changes(batch_of(source.log(0, 9), tmp_path / "bin.000009"), form.target(target), **told)
    lower = batch_of(source.log(1, 2), tmp_path / "bin.000001")  # the logs were numbered anew
    with pytest.raises(BinlogError, match="batch 3 has other changes"):
        apply_changes(lower, form.target(target), **told)


def test_a_column_that_is_added(tmp_path: Path) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [{"id": 1, "a": "x", "b": 1}])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000001"), str(target), key_columns=["id"])
    log = Log("8.0.36")
    log.query("ALTER TABLE t ADD c DECIMAL(10,2)", "shop")
    log.begin()
    log.insert(WIDER, [{"id": 2, "a": "y", "b": 2, "c": Decimal("1.50")}])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000002"), target)  # the key is in the log
    assert [(row["id"], str(row["c"])) for row in rows_of(target)] == [(1, "None"), (2, "1.50")]


ROW = {"id": 1, "a": "x", "b": 5}


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("ALTER TABLE t ADD c DECIMAL(10,2)", {**ROW, "c": None}),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT -7 FIRST, ADD INDEX (c)", {**ROW, "c": -7}),
        ("ALTER TABLE t ADD (c VARCHAR(9) DEFAULT 'it''s', KEY (c))", {**ROW, "c": "it's"}),
        ("ALTER TABLE t ADD c DECIMAL(10,2) NOT NULL DEFAULT 1.5", {**ROW, "c": Decimal("1.50")}),
        ("ALTER TABLE t ADD c INT NOT NULL AFTER a", {**ROW, "c": 0}),
        ("ALTER TABLE t ADD c TEXT NOT NULL", {**ROW, "c": ""}),
        ("ALTER TABLE t ADD c ENUM('p','q') NOT NULL", {**ROW, "c": "p"}),
        ("ALTER TABLE t ADD c DATE DEFAULT '2026-01-02'", {**ROW, "c": dt.date(2026, 1, 2)}),
        ("ALTER TABLE t DROP a", {**ROW, "a": None}),
        ("ALTER TABLE t DROP COLUMN a, ADD a VARCHAR(20) DEFAULT 'new'", {**ROW, "a": "new"}),
        ("ALTER TABLE t RENAME COLUMN b TO c", {"id": 1, "a": "x", "b": None, "c": 5}),
        ("ALTER TABLE t CHANGE COLUMN b c BIGINT NULL", {"id": 1, "a": "x", "b": None, "c": 5}),
        ("ALTER TABLE t MODIFY b INT, MODIFY a CHAR(3) NOT NULL", ROW),
        ("ALTER TABLE t MODIFY a ENUM('x','y')", ROW),
        ("ALTER TABLE t MODIFY b DECIMAL(30,0)", {**ROW, "b": Decimal(5)}),
        ("ALTER TABLE t ALTER a SET DEFAULT 'z', ENGINE=InnoDB, COMMENT 'x', ALGORITHM=COPY", ROW),
        ("ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4", ROW),
        ("CREATE TABLE IF NOT EXISTS t (id INT)", ROW),
    ],
)
@pytest.mark.parametrize("later", [False, True], ids=["in the batch", "in the target"])
def test_what_an_alter_does_to_rows_that_are_there(
    tmp_path: Path, sql: str, wanted: dict[str, Any], later: bool
) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    if later:
        apply_changes(batch_of(log, tmp_path / "bin.000001"), target)
        log = Log("8.0.36")
        log.begin()
        log.insert(T, [{**ROW, "id": 2}])
        log.delete(T, [{**ROW, "id": 2}])
        log.commit()
    log.query(sql, "shop", status=STRICT)
    apply_changes(batch_of(log, tmp_path / "bin.000002", **defined(tmp_path)), target)
    assert rows_of(target) == [wanted]


def test_names_are_exchanged_and_checks_see_where_a_value_came_from(tmp_path: Path, form: Form) -> None:
    text = [("id", "INT"), ("a", "VARCHAR(20)"), ("b", "VARCHAR(20)")]
    table, target = Table("shop", "t", text, primary_key=["id"]), tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(table, [{"id": 1, "a": "x", "b": "trailing "}])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000001"), form.target(target))
    log = Log("8.0.36")
    log.begin()
    log.update(
        table,
        [({"id": 1}, {"a": "y"})],
        before_columns=["id"],
        after_columns=["a"],
    )
    log.commit()
    log.query("ALTER TABLE t CHANGE a b VARCHAR(20), CHANGE b a VARCHAR(20)", "shop", status=STRICT)
    options = defined(tmp_path, text)
    batch = batch_of(log, tmp_path / "bin.000002", **options)
    log.query("ALTER TABLE t MODIFY a CHAR(20)", "shop", status=STRICT)
    with pytest.raises(ApplyStopped, match=r"char changes its values"):
        apply_changes(batch_of(log, tmp_path / "bin.000002", **options), form.target(target))
    assert rows_of(target, form) == [{"id": 1, "a": "x", "b": "trailing "}]
    apply_changes(batch, form.target(target))
    assert rows_of(target, form) == [{"id": 1, "a": "trailing ", "b": "y"}]


def test_a_drop_stops_where_there_are_rows_to_lose(tmp_path: Path, form: Form) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.query("DROP TABLE IF EXISTS t", "shop")  # loses nothing: dumps begin like this
    log.query("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b BIGINT)", "shop")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000001"), form.target(target))
    assert rows_of(target, form) == [ROW]
    log = Log("8.0.36")
    log.query("DROP TABLE t", "shop")
    log.query("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b BIGINT)", "shop")
    log.begin()
    log.insert(T, [{**ROW, "id": 2}])
    log.commit()
    batch = batch_of(log, tmp_path / "bin.000002")
    with pytest.raises(ApplyStopped, match=r"on_drop='empty'"):
        apply_changes(batch, form.target(target))
    assert apply_changes(batch, form.target(target), on_drop="empty").truncated
    assert rows_of(target, form) == [{**ROW, "id": 2}]


def test_create_select_is_followed_by_its_rows(tmp_path: Path) -> None:
    target = tmp_path / "target"
    for number, mariadb in enumerate((False, True), 1):
        log = Log("10.11.6-MariaDB" if mariadb else "8.0.36")
        statement = "CREATE OR REPLACE TABLE t (id INT, a VARCHAR(20), b BIGINT)"
        log.begin()
        log.insert(T, [{**ROW, "id": 7}])
        log.commit()
        if mariadb:
            log.maria_gtid(number)
        else:
            log.gtid("3e11fa47-71ca-11e1-9e33-c80aa9429562", number)
            log.begin()
        start = log.query(statement, "shop")
        log.insert(T, [ROW, {**ROW, "id": 2}])
        log.commit()
        path = tmp_path / f"bin.{number:06}"
        batch = batch_of(log, path)
        assert batch.sort_by([("_commit_version", "ascending"), ("_change_ordinal", "ascending")]).column(
            "_change_type"
        ).to_pylist() == ["insert", "create", "insert", "insert"]
        rows = batch.slice(1).to_pylist()
        assert [row["_change_ordinal"] for row in rows] == [0, 1, 2]
        assert len({row["_commit_version"] for row in rows}) == 1
        assert rows[0]["_commit_version"] & ((1 << 40) - 1) < start
        for size in ("97", "300"):
            assert batch_of(log, path, splitSize=size).sort_by("_commit_version").num_rows == 4
            assert batch_of(log, path, splitSize=size).to_pylist() == batch.to_pylist()
        apply_changes(batch, target, on_drop="empty")
        assert [row["id"] for row in rows_of(target)] == [1, 2]


def test_a_type_that_is_widened_rewrites_the_target(tmp_path: Path, form: Form) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000001"), form.target(target))
    log.query("ALTER TABLE t MODIFY b DECIMAL(30,0)", "shop", status=STRICT)
    log.begin()
    columns = [("id", "INT"), ("a", "VARCHAR(20)"), ("b", "DECIMAL(30,0)")]
    changed = Table("shop", "t", columns, primary_key=["id"])
    log.insert(changed, [{"id": 2, "a": "y", "b": Decimal(6)}])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000001", **defined(tmp_path)), form.target(target))
    assert rows_of(target, form) == [{**ROW, "b": Decimal(5)}, {"id": 2, "a": "y", "b": Decimal(6)}]


def test_an_insert_that_lacks_columns(tmp_path: Path, form: Form) -> None:
    target = tmp_path / "target"
    log = Log("10.11.6-MariaDB")
    log.begin()
    log.insert(T, [{"id": 1, "b": 3}], columns=["id", "b"])
    log.commit()
    batch = batch_of(log, tmp_path / "bin.000001")
    with pytest.raises(ApplyStopped, match=r"lacks the columns a.*defaults="):
        apply_changes(batch, form.target(target))
    apply_changes(batch, form.target(target), defaults={"a": "none"})
    assert rows_of(target, form) == [{"id": 1, "a": "none", "b": 3}]


def test_a_lax_server_may_have_cut_values(tmp_path: Path) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    log.query("ALTER TABLE t ADD INDEX (a)", "shop")
    log.query("ALTER TABLE t MODIFY b BIGINT", "shop")
    batch = batch_of(log, tmp_path / "bin.000001")
    with pytest.raises(ApplyStopped, match=r"^a statement is not applied .*MODIFY"):
        apply_changes(batch, target)
    apply_changes(batch, target, on_alter="ignore")
    assert rows_of(target) == [ROW]


def test_a_change_of_a_column_needs_the_definition_before(tmp_path: Path) -> None:
    """Without it the log does not show whether other columns are computed from this one."""
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    log.query("ALTER TABLE t CHANGE b c BIGINT", "shop", status=STRICT)
    with pytest.raises(CopyNeeded, match=r"schema=ddl.*CHANGE b c BIGINT"):
        apply_changes(batch_of(log, tmp_path / "bin.000001"), target)
    apply_changes(batch_of(log, tmp_path / "bin.000001", **defined(tmp_path)), target)
    assert rows_of(target) == [{"id": 1, "a": ROW["a"], "b": None, "c": ROW["b"]}]


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE t",
        "drop database shop",
        "RENAME TABLE t TO u",
        "RENAME TABLE u TO t",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t RENAME u, ADD c INT",
        "ALTER TABLE t ADD c INT AUTO_INCREMENT UNIQUE",
        "ALTER TABLE t ADD c TIMESTAMP NOT NULL",
        "ALTER TABLE t ADD c DATETIME DEFAULT CURRENT_TIMESTAMP",
        "ALTER TABLE t ADD c INT AS (b + 1)",
        "ALTER TABLE t ADD c INT DEFAULT (1 + 1)",
        "ALTER TABLE t DROP id",
        "ALTER TABLE t RENAME COLUMN id TO number",
        "ALTER TABLE t CONVERT TO CHARACTER SET latin1",
        "ALTER TABLE t MODIFY b DATE",
        "ALTER TABLE t MODIFY b TIME",
        "ALTER TABLE t MODIFY b VARCHAR(20)",  # it may be ZEROFILL, TIME or BIT
        "ALTER TABLE t MODIFY a ENUM('y')",
        "ALTER TABLE t MODIFY a JSON",
        "ALTER IGNORE TABLE t ADD UNIQUE (a)",
        "ALTER TABLE t TRUNCATE PARTITION p0",
        "ALTER TABLE t DROP PARTITION p0",
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u",
        "ALTER TABLE t IMPORT TABLESPACE",
        "CREATE OR REPLACE TABLE t (id INT)",
        "UPDATE shop.t SET a = 'logged as a statement'",
        "INSERT INTO `T` SELECT * FROM u",
    ],
)
def test_statements_that_stop_the_apply(tmp_path: Path, sql: str) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [{"id": 1, "a": "x", "b": 1}])
    log.commit()
    log.query(sql, "shop", status=STRICT)
    with pytest.raises(ApplyStopped, match=r"is not applied") as caught:
        given = batch_of(log, tmp_path / "bin.000001", **defined(tmp_path))
        apply_changes(given, str(target), key_columns=["id"])
    assert sql in str(caught.value)
    assert not target.exists()


def test_statements_about_other_tables_do_not_stop_it(tmp_path: Path) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    for sql in (
        "UPDATE u SET t1 = 1",
        "DROP TABLE u",
        "CREATE TEMPORARY TABLE t (id INT)",
        "CREATE VIEW t AS SELECT 1",
    ):
        log.query(sql, "shop")
    apply_changes(batch_of(log, tmp_path / "bin.000001"), target)
    assert rows_of(target) == [ROW]


def test_what_a_batch_must_have(tmp_path: Path) -> None:
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [{"id": 1, "a": "x", "b": 1}])
    log.update(T, [({"id": 1, "a": "x", "b": 1}, {"id": 2, "a": "x", "b": 1})])
    log.commit()
    path, target = tmp_path / "bin.000001", str(tmp_path / "target")
    with pytest.raises(ValueError, match=r"ddl=rows"):
        apply_changes(batch_of(log, path, ddl="ignore"), target, key_columns=["id"])
    with pytest.raises(ValueError, match=r"images=both"):
        apply_changes(batch_of(log, path, images="after"), target, key_columns=["id"])
    with pytest.raises(ValueError, match=r"no column nothing"):
        apply_changes(batch_of(log, path), target, key_columns=["nothing"])
    with pytest.raises(ValueError, match=r"both or neither"):
        apply_changes(batch_of(log, path), target, key_columns=["id"], batch_id=1)
    assert primary_key(path, "shop.t") == ("id",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on_drop": "Stop"}, r"on_drop='Stop': expected stop or empty"),
        ({"on_alter": "skip"}, r"on_alter='skip': expected apply or ignore or stop"),
        ({"key_columns": "id"}, r"key_columns='id': expected the names"),
        ({"key_columns": []}, r"key_columns=\[\]: expected the names"),
        ({"key_columns": ["id", "id"]}, r"of different columns"),
        ({"key_columns": ["id", "_commit_version"]}, r"of the table"),
    ],
)
def test_arguments_with_other_values(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    batch, target = batch_of(log, tmp_path / "bin.000001"), tmp_path / "target"
    with pytest.raises(ValueError, match=message):
        apply_changes(batch, target, **{"key_columns": ["id"], **given})
    assert not target.exists()


def test_a_partial_image_of_a_row_that_the_target_lacks(tmp_path: Path) -> None:
    log = Log("8.0.36")
    log.begin()
    log.update(T, [({"id": 1}, {"a": "z"})], before_columns=["id"], after_columns=["a"])
    log.commit()
    with pytest.raises(ValueError, match=r"start with a copy"):
        apply_changes(batch_of(log, tmp_path / "bin.000001"), str(tmp_path / "target"), key_columns=["id"])


# ------------------------------------------------------------------ against servers


LOGGED = sorted((DATA / "apply").iterdir())


def follow(logs: list[Path], splits: str) -> Any:
    """The batch that a stream gives of the last log, in the schema of all logs."""
    everything = [str(path) for path in logs]
    given = {"table": "w.t", "ddl": "rows", "absent": "true", "mergeSchema": "true", "splitSize": splits}
    parsed = SourceOptions.parse({**given, "schema": "ddl"})
    schema = arrow_schema(spark_schema(infer_schema(everything, parsed)))
    reader = ChangeReader.of(parsed, schema, projected=False).following(timeline_of(everything, parsed))
    parts = [part for part in plan_parts(everything, parsed) if part.split.path == everything[-1]]
    return pa.Table.from_batches([batch for part in parts for batch in reader.read(part)], schema)


def state_of(target: Path, columns: list[str]) -> list[dict[str, Any]]:
    rows = DeltaTable(str(target)).to_pyarrow_table().to_pylist()
    rows.sort(key=lambda row: (row["id"], row["k"]))
    for row in rows:
        assert all(value is None for name, value in row.items() if name not in columns)  # dropped
    return [plain({name: row[name] for name in columns}) for row in rows]


@pytest.mark.parametrize("splits", ["700", "3k", "1m"])
@pytest.mark.parametrize("folder", LOGGED, ids=lambda path: path.name)
def test_the_target_is_what_the_server_had_after_each_log(tmp_path: Path, folder: Path, splits: str) -> None:
    told = json.loads((folder / "truth.json").read_text())
    target = tmp_path / "target"
    logs: list[Path] = []
    for number, (name, state) in enumerate(told["states"].items()):
        logs.append(folder / name)
        batch = follow(logs, splits)
        arguments: dict[str, Any] = {"on_drop": "empty", "defaults": values_of(told["defaults"], batch)}
        apply_changes(batch, target, app_id="w", batch_id=number, **arguments)
        assert state_of(target, list(state[0])) == state
        assert apply_changes(batch, target, app_id="w", batch_id=number, **arguments).skipped
        assert state_of(target, list(state[0])) == state


def values_of(defaults: dict[str, Any], batch: Any) -> dict[str, Any]:
    """Values read from JSON, in the types of a batch."""
    found = dict(defaults)
    for name in set(found) & set(batch.column_names):
        kind, value = batch.schema.field(name).type, found[name]
        if value is not None and pa.types.is_timestamp(kind):
            found[name] = dt.datetime.fromisoformat(value)
        if value is not None and pa.types.is_decimal(kind):
            found[name] = Decimal(str(value))
    return found


@pytest.mark.server
@pytest.mark.parametrize("row_image", ["FULL", "MINIMAL", "NOBLOB"])
@pytest.mark.parametrize("seed", range(3))
def test_the_target_follows_a_server(tmp_path: Path, seed: int, row_image: str) -> None:
    connection = connect()
    source = Workload(connection, seed, row_image)
    target = tmp_path / "target"
    logs: list[Path] = []
    try:
        for number in range(3):
            first = number == 0

            def work(first: bool = first) -> None:
                if first:
                    source.begin()
                source.work(40)

            logs.append(logged(connection, work, tmp_path / f"bin.{number + 1:06}"))
            state = [plain(row) for row in source.state()]
            batch = follow(logs, "3k")
            apply_changes(batch, target, on_drop="empty", defaults=source.defaults)
            columns = list(state[0]) if state else ["id", "k"]
            assert state_of(target, columns) == state
    finally:
        source.end()
        connection.close()


def test_rows_of_one_key_are_not_made_python_objects(tmp_path: Path) -> None:
    count, target = 200_000, tmp_path / "t"
    table = Table("shop", "t", [("a", "INT"), ("b", "INT"), ("v", "VARCHAR(20)")], primary_key=["a", "b"])
    numbers = pa.array(range(count), pa.int32())
    ones = pa.repeat(pa.scalar(1, pa.int32()), count)
    deltalake.write_deltalake(
        str(target), pa.table({"a": ones, "b": numbers, "v": pa.repeat("x" * 20, count)})
    )
    log = Log("8.0.36")
    log.begin()
    for number, changed in ((77, {"v": "new"}), (78, {"b": count})):
        row = {"a": 1, "b": number}
        log.update(table, [(row, changed)], before_columns=["a", "b"], after_columns=list(changed))
    log.delete(table, [{"a": 1, "b": 123_456}], columns=["a", "b"])
    log.commit()
    batch = batch_of(log, tmp_path / "bin.000001")
    tracemalloc.start()
    try:
        apply_changes(batch, target)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    rows = DeltaTable(str(target)).to_pyarrow_table().sort_by("b")
    assert rows.num_rows == count - 1
    assert rows.slice(76, 2).to_pylist() == [{"a": 1, "b": 76, "v": "x" * 20}, {"a": 1, "b": 77, "v": "new"}]
    assert rows.slice(count - 2).to_pylist() == [{"a": 1, "b": count, "v": "x" * 20}]
    assert peak < 24 << 20  # all of them as Python rows take some 80 MB


# ------------------------------------------------------------------ in pieces, as workers do it


class Pieces(Here):
    """Jobs run as by workers: functions, arguments and results are pickled."""

    def stage(self, function: Any, *, together: bool = False) -> list[Any]:
        order = [("_commit_version", "ascending"), ("_change_ordinal", "ascending")]
        table = self.changes.sort_by(order)
        versions = table.column("_commit_version").to_pylist()
        cuts = [i for i in range(1, len(versions)) if versions[i] != versions[i - 1]][::7]
        found = []
        for start, end in pairwise([0, *cuts, len(versions)]):
            batches = table.slice(start, end - start).to_batches(max_chunksize=3)
            found.append(self.remote(function, batches))
        return found

    def run(self, function: Any, tasks: Any) -> list[Any]:
        return [self.remote(function, task) for task in tasks]

    @staticmethod
    def remote(function: Any, task: Any) -> Any:
        function, task = pickle.loads(cloudpickle.dumps((function, task)))
        return pickle.loads(cloudpickle.dumps(function(task)))


@pytest.mark.parametrize("minimal", [False, True], ids=["full", "minimal"])
@pytest.mark.parametrize("seed", range(3))
def test_many_workers_fold_what_one_does(
    tmp_path: Path, seed: int, minimal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_core.lake.apply.batch.Here", Pieces)
    monkeypatch.setattr("binlog_core.lake.apply.batch._IN_MEMORY", 0)
    monkeypatch.setattr("binlog_core.lake.apply.changes._TASK_BYTES", 1)
    monkeypatch.setattr("binlog_core.lake.apply.changes._SMALL_BYTES", 0)
    monkeypatch.setattr("binlog_core.lake.apply.staging._CHUNK_ROWS", 10)
    source, target = Source(seed, minimal), tmp_path / "target"
    for number in range(4):
        log = source.log(number, 40)
        batch = batch_of(log, tmp_path / f"bin.{number:06}")
        told = apply_changes(batch, target, key_columns=["id"])
        assert told.changes == batch.num_rows
        assert rows_of(target) == source.state
        assert told.puts + told.deletes <= len(set(batch.column("id").to_pylist()))
    assert not [path for path in target.iterdir() if path.name.startswith("_binlog")]


def test_events_that_are_not_row_images(tmp_path: Path) -> None:
    columns = {"id": pa.array([1, 1], pa.int32()), "_commit_version": [1, 2], "_change_ordinal": [0, 0]}
    told: Any = {"key_columns": ["id"], "without_statements": True}
    unreadable = pa.table({**columns, "_change_type": ["insert", None]})
    with pytest.raises(ApplyStopped, match=r"cannot be read"):
        apply_changes(unreadable, tmp_path / "t", **told)
    emptied = pa.table({**columns, "_change_type": ["insert", "truncate"]})
    assert apply_changes(emptied, tmp_path / "t", **told) == Applied(2, 0, 0, True)
    assert rows_of(tmp_path / "t") == []


def test_files_of_a_failed_apply_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    batch = batch_of(log, tmp_path / "bin.000001")
    apply_changes(batch, target)
    files = sorted(target.rglob("*"))

    def refuse(*_: Any, **__: Any) -> None:
        raise deltalake.exceptions.CommitFailedError("another writer was first")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", refuse)
    with pytest.raises(BinlogError, match=r"another writer was first"):
        apply_changes(batch, target)
    assert sorted(target.rglob("*")) == files


def test_a_table_that_only_spark_writes(tmp_path: Path) -> None:
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    rows = pa.table({"id": pa.array([1], pa.int32()), "a": ["x"], "b": [1]})
    deltalake.write_deltalake(str(tmp_path / "t"), rows, partition_by=["a"])
    with pytest.raises(BinlogError, match=r"has partitions.*SparkTarget"):
        apply_changes(batch_of(log, tmp_path / "bin.000001"), tmp_path / "t")


def two_inserts() -> Log:
    """A transaction for each of two rows."""
    log = Log("8.0.36")
    for key in (1, 2):
        log.begin()
        log.insert(T, [{"id": key, "a": "x", "b": key}])
        log.commit()
    return log


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
def test_a_commit_that_says_nothing_may_have_been_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: Form,
    error: type[BaseException],
    made: bool,
) -> None:
    """Its files stay; those of a commit that was not made go. Either way the batch is applied once."""
    log = two_inserts()
    batch = batch_of(log, tmp_path / "log")
    target = tmp_path / "table"
    apply_changes(batch.slice(0, 1), form.target(target), app_id="a", batch_id=1)
    owner = {"delta": DeltaLakeTable, "iceberg": IcebergLakeTable}[form.name]
    commit = owner._commit  # type: ignore[attr-defined]

    def unheard(*arguments: Any, **settings: Any) -> None:
        if made:
            commit(*arguments, **settings)
        raise error

    with monkeypatch.context() as patch, pytest.raises((BinlogError, KeyboardInterrupt)):
        patch.setattr(owner, "_commit", unheard)
        apply_changes(batch.slice(1), form.target(target), app_id="a", batch_id=2)
    assert [row["id"] for row in rows_of(target, form)] == ([1, 2] if made else [1])
    assert apply_changes(batch.slice(1), form.target(target), app_id="a", batch_id=2).skipped is made
    assert [row["id"] for row in rows_of(target, form)] == [1, 2]
    assert len(list(target.glob("*.parquet"))) == 2


@pytest.mark.parametrize("what", ["compact", "delete", "add a column"])
def test_another_writer_in_between_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """deltalake itself sees no conflict in a compaction: the rows would come twice."""
    log = two_inserts()
    log.begin()
    log.update(T, [({"id": key, "a": "x", "b": key}, {"id": key, "a": "y", "b": key}) for key in (1, 2)])
    log.commit()
    batch = batch_of(log, tmp_path / "log")
    target = tmp_path / "table"
    for i in range(2):
        apply_changes(batch.slice(i, 1), target, app_id="a", batch_id=i)
    commit = DeltaLakeTable._commit

    def late(*arguments: Any, **settings: Any) -> None:
        table = DeltaTable(str(target))
        if what == "compact":
            table.optimize.compact()
        elif what == "delete":
            table.delete("id = 2")
        else:
            table.alter.add_columns([deltalake.Field("other", "string")])
        commit(*arguments, **settings)

    with monkeypatch.context() as patch, pytest.raises(BinlogError, match="another writer has committed"):
        patch.setattr(DeltaLakeTable, "_commit", late)
        apply_changes(batch.slice(2), target, app_id="a", batch_id=2)
    assert {row["a"] for row in rows_of(target)} == {"x"}
    apply_changes(batch.slice(2), target, app_id="a", batch_id=2)
    assert [row["a"] for row in rows_of(target)] == ["y", "y"]


def test_a_set_is_not_a_key(tmp_path: Path) -> None:
    kinds = {"_change_type": pa.string(), "_commit_version": pa.int64(), "_change_ordinal": pa.int64()}
    schema = pa.schema({"s": pa.list_(pa.string()), **kinds, "_statement": pa.string()})
    rows = [{"s": ["a"], "_change_type": "insert", "_commit_version": 1, "_change_ordinal": 0}]
    with pytest.raises(ValueError, match="cannot be a key"):
        apply_changes(pa.Table.from_pylist(rows, schema), tmp_path / "target", key_columns=["s"])
