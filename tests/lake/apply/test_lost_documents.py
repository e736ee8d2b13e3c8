"""Partial JSON updates whose images lack the document: the new value is not known, and is not NULL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.lake_forms import Form
from support.server import SERVER, connect, run
from support.source import batch_of, read
from support.writer import JsonDiffs, Log, Table

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import binlog_core
from binlog_core import BinlogWarning
from binlog_core.errors import CopyNeeded, SchemaError, StrictError
from binlog_core.lake.plan.parts import plan_parts
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.mirror import mirror
from binlog_core.spark import apply_changes
from binlog_core.spark.changes import ChangeReader, infer_schema
from binlog_core.spark.schemas import arrow_schema, spark_schema

T = Table("shop", "t", [("id", "INT"), ("doc", "JSON"), ("n", "INT")], primary_key=["id"])
ROW = {"id": 1, "doc": {"a": 1}, "n": 5}
DIFFS = JsonDiffs([("replace", "$.a", 2)])
DOCUMENT = '{"a": 2}'


def logged(*, whole: bool) -> Log:
    """An insert, and an update of the document, with its preimage's document or without."""
    log = Log("8.0.36")
    log.begin()
    log.insert(T, [ROW])
    log.commit()
    log.begin()
    columns = None if whole else ["id"]
    after = None if whole else ["doc"]
    log.update(T, [(ROW, {**ROW, "doc": DIFFS})], before_columns=columns, after_columns=after, partial=True)
    log.commit()
    return log


def test_absent_names_them(tmp_path: Path) -> None:
    (path := tmp_path / "bin.000001").write_bytes(logged(whole=False).getvalue())
    for images, lacking in (("both", ["id", "n"]), ("after", ["n"])):
        given = {"images": images, "table": "shop.t", "absent": "true"}
        row = read(path, **given)[-1]
        assert (row["doc"], row["_absent"]) == (None, [*lacking, "doc", "doc (changed)"])
    path.write_bytes(logged(whole=True).getvalue())
    row = read(path, table="shop.t", absent="true")[-1]
    assert (row["doc"], row["_absent"]) == (DOCUMENT, None)


def test_rows_without_that_column_refuse_them(tmp_path: Path) -> None:
    logs = [tmp_path / "a.000001", tmp_path / "b.000001"]
    options = SourceOptions.parse({"table": "shop.t", "images": "after"})
    for path, whole in zip(logs, (True, False), strict=True):
        path.write_bytes(logged(whole=whole).getvalue())
    schema = arrow_schema(spark_schema(infer_schema([str(logs[0])], options)))
    reader = ChangeReader.of(options, schema, projected=False)
    found = [batch for part in plan_parts([str(logs[0])], options) for batch in reader.read(part)]
    assert found[-1]["doc"].to_pylist()[-1] == DOCUMENT
    with pytest.raises(SchemaError, match="a row image lacks columns"):
        for part in plan_parts([str(logs[1])], options):
            list(reader.read(part))


def test_arrow_and_batches_report_them(tmp_path: Path) -> None:
    (path := tmp_path / "bin.000001").write_bytes(logged(whole=False).getvalue())
    with pytest.warns(BinlogWarning, match="JSON documents of which the log has only changes"):
        log = binlog_core.open(path)
        last = [batch for group in log.groups() for batch in group.batches][-1]
    assert last.lost_documents.tolist() == [(2, 1)]
    assert last.to_arrow()["doc"].to_pylist() == ['{"a": 1}', None, None]
    assert log.report.lost_documents == 1
    with pytest.raises(StrictError):
        list(binlog_core.open(path, strict=True).rows())
    path.write_bytes(logged(whole=True).getvalue())
    log = binlog_core.open(path)
    assert [change.after["doc"] for change in log.rows()][-1] == DOCUMENT
    assert not log.report.lost_documents


def test_an_apply_stops(tmp_path: Path, form: Form) -> None:
    target = form.target(tmp_path / "shop.t")
    with pytest.raises(CopyNeeded, match="JSON documents in doc"):
        apply_changes(batch_of(logged(whole=False), tmp_path / "a.000001"), target)
    apply_changes(batch_of(logged(whole=True), tmp_path / "b.000001"), target)
    assert form.read(tmp_path / "shop.t").to_pylist() == [{"id": 1, "doc": DOCUMENT, "n": 5}]


@pytest.mark.server
@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_a_mirror_copies_the_table(image: str, tmp_path: Path, form: Form) -> None:
    with connect() as connection:
        if "MariaDB" in run(connection, "SELECT VERSION()")[0][0]:
            pytest.skip("MariaDB logs whole documents")
        run(connection, "DROP DATABASE IF EXISTS lost", "CREATE DATABASE lost", "USE lost")
        run(connection, "CREATE TABLE t (id INT PRIMARY KEY, doc JSON)")
        document = f'{{"a": 1, "b": "{"x" * 200}"}}'
        run(connection, f"INSERT INTO t VALUES (1, '{document}'), (2, '{document}')")
        arguments: dict[str, Any] = {"tables": "lost.*", "until": "now", **form.settings}
        try:
            mirror(SERVER, tmp_path, **arguments)
            run(connection, "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
            run(connection, f"SET SESSION binlog_row_image = '{image}'")
            run(connection, "UPDATE t SET doc = JSON_SET(doc, '$.a', 2) WHERE id = 1")
            (one,) = mirror(SERVER, tmp_path, **arguments)
            assert one.stage == "following"
            expected = [tuple(row) for row in run(connection, "SELECT id, doc FROM t ORDER BY id")]
        finally:
            run(connection, "DROP DATABASE lost")
    found = sorted(tuple(row.values()) for row in form.read(tmp_path / "lost.t").to_pylist())
    assert found == expected
