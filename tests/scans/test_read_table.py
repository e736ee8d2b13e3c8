"""Reading all changes of a table at once."""

from __future__ import annotations

import pytest
from support.logs import MIXED, path_of
from support.writer import Log, Table

import binlog_core
from binlog_core import SchemaError

pytestmark = pytest.mark.sanitize_long


def test_read_table() -> None:
    pytest.importorskip("pyarrow")
    path = path_of(MIXED)
    whole = binlog_core.read_table(path, "shop.sensor_a")
    with binlog_core.open(path) as log:
        assert whole.to_pylist() == log.batches("shop.sensor_a").to_arrow().to_pylist()
        assert whole.equals(binlog_core.read_table(log, "sensor_a"))
        with pytest.raises(TypeError, match="already open: strict"):
            binlog_core.read_table(log, "sensor_a", strict=True)
    part = binlog_core.read_table(path, "shop.sensor_a", columns=["n"], change_columns="_gtid", ops="delete")
    assert part.schema.names == ["n", "_gtid"]
    assert part.num_rows == whole["_change_type"].to_pylist().count("delete")
    with pytest.raises(SchemaError, match=r"near: shop\.sensor_a"):
        binlog_core.read_table(path, "shop.sensor_b")
    with pytest.raises(SchemaError, match="no such column; the table has id, n, s, d"):
        binlog_core.read_table(path, "shop.sensor_a", columns=["x"])


def test_read_table_gives_the_wider_type() -> None:
    pytest.importorskip("pyarrow")
    log = Log("8.0.36")
    log.begin()
    log.insert(Table("shop", "t", [("id", "INT")]), [{"id": -1}])
    log.commit()
    log.begin()
    log.insert(Table("shop", "t", [("id", "BIGINT")]), [{"id": 2**40}])
    log.commit()
    found = binlog_core.read_table(log.getvalue(), "t", change_columns=False)
    assert sorted(found["id"].to_pylist()) == [-1, 2**40]
