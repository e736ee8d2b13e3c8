"""Right use of the public API, which type checkers pass: see tests/whole/test_typing.py."""

import datetime as dt
from pathlib import Path
from typing import Any, assert_type

import binlog_core
import binlog_core.history
import binlog_core.replay
import binlog_core.splits
import binlog_core.transactions
from binlog_core import BinlogError, GtidSet, Limits, RowChange
from binlog_core.inspect.summarize import summarize
from binlog_core.inspect.verify import verify

with binlog_core.open("log.000001", tables="shop.*", gtids=["0-1-1"], limits=Limits(group_rows=10)) as log:
    for change in log.rows():
        assert_type(change, RowChange)
        assert_type(change.commit_time, int | None)
        assert_type(change.after, dict[str, Any] | None)
    batches = log.batches("shop.orders")
    assert_type(next(batches), binlog_core.ChangeBatch)
    assert_type(next(batches)[1:], binlog_core.ChangeBatch)
    batches.to_arrow(change_columns="_gtid", wide_decimals="text", new_columns="drop")
    next(batches).to_arrow(rows=[True, False])
    assert_type(log.tables(), dict[str, binlog_core.Table])
    for event in log.events():
        assert_type(event.path, str | None)
        assert_type(event.commit_time, int | None)
    binlog_core.splits.plan_splits(log)
    verify(log)
    summarize(log)
binlog_core.open([Path("a.000001"), "a.000002"], start=("a.000001", 4), stop=dt.datetime(2026, 1, 1))
binlog_core.open(b"", on_error="skip", ops=["insert", "delete"], keys={1: b""}, schema={"a.b": "…"})
binlog_core.open(open("log.000001", "rb"))  # noqa: SIM115
binlog_core.open("mysql://user@host", start="now", follow=True, server={"semi_sync": True})
for split in binlog_core.splits.plan_splits([Path("a"), "b*"], 1 << 20):
    binlog_core.splits.read_split_groups(split, tables="shop.*", where="id = 1")
binlog_core.history.history("a", "shop.orders", {"id": 1}, stop=dt.datetime(2026, 1, 1), strict=True)
binlog_core.history.row_as_of("a", "shop.orders", {"id": 1}, 4, limits=Limits())
next(binlog_core.transactions.transactions("a", by="rows", tables="shop.*"))
binlog_core.replay.plan_undo("a", partial=True, gtids="0-1-1")
gtids = "0-1-1" | GtidSet.parse("")
assert_type(gtids, GtidSet)
assert_type(binlog_core.__version__, str)
binlog_core.dataset.changes(log, "shop.orders")
try:
    binlog_core.read_table("log.000001", "shop.orders", text_errors="replace")
except BinlogError as error:
    assert_type(error.offset, int | None)
