"""Rows of all tables in one DataFrame, as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.golden import golden_logs  # noqa: E402
from support.source import orders, partial, read  # noqa: E402

import binlog_core  # noqa: E402
from binlog_core._base.change_columns import LAKE_COLUMNS  # noqa: E402
from binlog_core.errors import DecodeError  # noqa: E402
from binlog_core.lake.rows import json_rows  # noqa: E402
from binlog_core.lake.rows.fit import to_json  # noqa: E402
from binlog_core.lake.rows.json_rows import all_tables_schema  # noqa: E402
from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.spark.changes import infer_schema  # noqa: E402
from binlog_core.spark.schemas import spark_schema  # noqa: E402

pytestmark = pytest.mark.oldest_spark


def test_documents_as_variant(tmp_path: Path) -> None:
    from pyspark.sql.types import VariantType, VariantVal

    path = orders(tmp_path, count=3)
    options = SourceOptions.parse({"documents": "variant"})
    schema = spark_schema(infer_schema([str(path)], options))
    assert schema["after"].dataType == VariantType()
    rows = read(path, documents="variant")
    as_json = read(path)
    assert [VariantVal(**row["after"]).toJson() for row in rows] == [row["after"] for row in as_json]
    assert [row["before"] for row in rows] == [None] * 9
    with pytest.raises(ValueError, match=r"documents=variant"):
        SourceOptions.parse({"documents": "variant", "table": "shop.orders"})


def test_all_tables_as_json(tmp_path: Path) -> None:
    path = partial(tmp_path)
    rows = read(path)
    got = [
        (row["_change_type"], json.loads(row["before"] or "null"), json.loads(row["after"] or "null"))
        for row in rows
    ]
    assert got == [
        ("insert", None, {"id": 1, "text": "a"}),
        ("insert", None, {"id": 2, "text": "b"}),
        ("update", {"id": 1}, {"text": "c"}),
        ("update", {"id": 2}, {"id": 9}),
        ("delete", {"id": 9}, None),
    ]
    assert {(row["_database"], row["_table"]) for row in rows} == {("shop", "orders")}
    assert [row["_change_ordinal"] for row in rows] == [0, 1, 2, 4, 6]
    after = [json.loads(row["after"] or "null") for row in read(path, images="after")]
    assert after[2] == {"id": 1, "text": "c"}
    both = orders(tmp_path, "bin.000002", 3)
    assert len(read(both, tables="shop.ot*")) == 3
    assert len(read([path, both])) == 14


@pytest.mark.parametrize("server", ["mysql97", "maria118"])
def test_documents_are_those_of_the_changes(server: str) -> None:
    checked = 0
    for golden in golden_logs(f"{server}/types_*"):
        if golden.needs_schema or golden.open_arguments:
            continue
        with binlog_core.open(golden.path) as log:
            changes = list(log.rows())
        wanted = [[None if one is None else to_json(one) for one in (c.before, c.after)] for c in changes]
        rows = read(golden.path)
        assert [[row["before"], row["after"]] for row in rows] == wanted
        assert [(row["_database"], row["_table"], row["_change_type"]) for row in rows] == [
            (c.database, c.table, c.op) for c in changes
        ]
        whole = [{**(c.before or {}), **c.after} if c.after else None for c in changes]
        assert [row["after"] and json.loads(row["after"]) for row in read(golden.path, images="after")] == [
            one and json.loads(to_json(one)) for one in whole
        ]
        checked += len(changes)
    assert checked > 100


def test_columns_by_what_is_asked_for() -> None:
    schema = all_tables_schema(())
    assert schema.names == ["_database", "_table", "before", "after", *LAKE_COLUMNS, "_corrupt"]
    events = all_tables_schema(("_gtid",), corrupt=False, documents="debezium")
    assert events.names == ["_database", "_table", "key", "value", *LAKE_COLUMNS, "_gtid"]
    assert {schema.field(name).type for name in ("before", "after", "_corrupt")} == {pa.string()}
    assert schema.field("_commit_version").type == pa.int64()


def test_more_text_than_offsets_of_32_bits_reach() -> None:
    class Huge:
        def offsets(self) -> np.ndarray:
            return np.array([0, 5, 2**31])

    with pytest.raises(DecodeError, match="2147483648 bytes of JSON in one batch: at most 2147483647"):
        json_rows._json_array(Huge())  # type: ignore[arg-type]
