"""A table's definition, known before its rows are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.archive import altered_over_a_failover
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import orders, read  # noqa: E402

from binlog_core import SchemaError  # noqa: E402
from binlog_core._decode.log_decoder import LogDecoder  # noqa: E402
from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.spark import inference  # noqa: E402


def test_a_table_that_no_log_has(tmp_path: Path) -> None:
    with pytest.raises(
        SchemaError, match=r"no rows of this table in 1 logs; they have rows of shop.orders, shop.other"
    ):
        read(orders(tmp_path), table="shop.missing")


@pytest.mark.parametrize("every", [True, False])
def test_a_schema_is_found_without_decoding_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    log = Log("8.0.36", in_use=True)
    log.begin()
    table = Table("shop", "t", [("id", "INT"), ("text", "VARCHAR(20)")], primary_key=["id"])
    log.insert(table, [{"id": i, "text": f"row {i}"} for i in range(5000)])
    log.commit()
    (tmp_path / "bin.000001").write_bytes(log.getvalue())
    groups = []

    class Counting(LogDecoder):
        def groups(self) -> Any:
            for group in super().groups():
                groups.append(sum(batch.array.nbytes for batch in group.batches))
                yield group

    monkeypatch.setattr(inference, "LogDecoder", Counting)
    options = SourceOptions.parse({"table": "shop.t", "mergeSchema": str(every)})
    found = inference.find_definitions([str(tmp_path)], options, every=every)
    assert [column.name for column in found.definitions[0].columns] == ["id", "text"]
    # One insert's image says nothing about later ones, so some more are read.
    assert len(groups) == 1 if every else 1 < len(groups) <= 256


def test_definitions_of_an_archive_are_not_followed_again_after_a_failover(tmp_path: Path) -> None:
    (tmp_path / "start.sql").write_text(
        f"USE shop; {altered_over_a_failover(tmp_path / 'archive')['shop.t']}"
    )
    options = SourceOptions.parse(
        {"table": "shop.t", "schema": "ddl", "schemaStart": str(tmp_path / "start.sql")}
    )
    found = inference.find_definitions([str(tmp_path / "archive")], options, every=True)
    names = [[column.name for column in definition.columns] for definition in found.definitions]
    assert names == [["id"], ["id", "extra"]]
