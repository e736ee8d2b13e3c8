"""Plans of a log's tables: their number is limited, and dropped ones are made again."""

from __future__ import annotations

import pytest
from support.golden import Golden, golden_logs
from support.logs import all_rows, path_of
from support.writer import Log, Table

import binlog_core
from binlog_core import DecodeError


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
