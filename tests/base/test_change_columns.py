"""The columns about a change: one name means the same in batches and in lakes."""

from __future__ import annotations

import pytest
from support.golden import golden_logs

import binlog_core
from binlog_core._base.change_columns import (
    CHANGE_COLUMNS,
    CONDITION_COLUMNS,
    DEFAULT_CHANGE_COLUMNS,
    LAKE_METADATA,
)

pa = pytest.importorskip("pyarrow")


def test_one_list() -> None:
    for part in (DEFAULT_CHANGE_COLUMNS, CONDITION_COLUMNS, LAKE_METADATA):
        assert set(part) <= set(CHANGE_COLUMNS)


def test_lakes_have_the_same_values() -> None:
    from binlog_core.lake.rows.images import metadata_column

    xids: set[int] = set()
    with binlog_core.open(golden_logs("mysql97/dml_engines")[0].path) as log:
        for batch in log.batches():
            ours = batch.to_arrow(change_columns=["_gtid", "_file", "_xid"])
            for name in ("_gtid", "_file", "_xid"):
                lakes = metadata_column(batch, name, batch.array["image"]["transaction"])
                assert [value or None for value in ours[name].to_pylist()] == lakes.to_pylist()
            xids |= set(ours["_xid"].to_pylist())
    assert len(xids) > 1 and 0 in xids  # of a transaction of InnoDB, and of MyISAM's
