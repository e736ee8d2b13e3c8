"""Plans of a log's tables: their number is limited, and dropped ones are made again."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import Golden, golden_logs
from support.logs import all_rows, path_of
from support.writer import Log, Table

import binlog_core
from binlog_core import DecodeError
from binlog_core.index.making import index

pytestmark = pytest.mark.sanitize

TABLE_MAP, WRITE_ROWS = 19, 30


@pytest.mark.parametrize("golden", golden_logs("*/dml_*", max_bytes=60_000), ids=str)
def test_few_plans_are_enough(golden: Golden) -> None:
    """Plans are dropped between transactions only: a statement over several tables keeps its maps."""
    limits = binlog_core.Limits(table_definitions=1)
    assert all_rows(path_of(golden), limits=limits) == all_rows(path_of(golden))


def test_a_flood_of_table_definitions_in_one_transaction_is_refused() -> None:
    log = Log("8.0.36")
    log.begin()
    for i in range(20):
        table = Table("shop", f"t{i}", [("id", "INT")])
        log.insert(table, [{"id": i}])
    log.commit()
    limits = binlog_core.Limits(table_definitions=1)
    with binlog_core.open(log.getvalue(), limits=limits) as opened:
        changes = opened.rows()
        assert [next(changes).after for _ in range(16)] == [{"id": i} for i in range(16)]
        with pytest.raises(DecodeError, match="more than 16 table definitions"):
            next(changes)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_table_that_a_condition_cannot_look_into_is_reported(indexed: bool, tmp_path: Path) -> None:
    """Its rows may match, and are lost."""
    orders = Table("shop", "orders", [("id", "INT")], primary_key=["id"])
    log = Log("8.0.36")
    log.gtid("3e11fa47-71ca-11e1-9e33-c80aa9429562", 1)
    log.begin()
    body = log._post_header(TABLE_MAP, 8, 7, 1) + b"\4shop\0\3odd\0" + b"\1\x14\1\3\1"  # a TYPED_ARRAY column
    log.event(TABLE_MAP, body + b"\4\3\2id")
    log.event(WRITE_ROWS, log._post_header(WRITE_ROWS, 10, 7, 1) + b"\1\xff\0abc")
    log.insert(orders, [{"id": 1}])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    if indexed:
        pytest.importorskip("pyarrow")
        index([path])
    with binlog_core.open(path) as opened:
        for where in (None, "id = 1", "id = 2"):
            with pytest.warns(binlog_core.BinlogWarning, match="cannot be decoded"):
                assert len(list(opened.rows(where=where))) == (where != "id = 2")
            assert opened.report.undecodable_tables == 1
    with binlog_core.open(path, strict=True) as opened, pytest.raises(binlog_core.StrictError):
        list(opened.rows(where="id = 1"))
