"""Each line with a comment is an error to type checkers: see tests/whole/test_typing.py."""

import binlog_core
import binlog_core.history
import binlog_core.replay
import binlog_core.splits
import binlog_core.transactions
from binlog_core.splits import Split

log = binlog_core.open("log.000001")
log.batches().to_arrow(vectors="x")  # type: ignore
log.batches().to_arrow(rows=[0])  # type: ignore
log.batches().stream(new_columns="x")  # type: ignore
next(log.batches()).to_arrow(geometry="x")  # type: ignore
next(log.batches()).to_arrow(nonsense=1)  # type: ignore
next(log.batches()).column("id", decimals="x")  # type: ignore
next(log.batches())[0]  # type: ignore
binlog_core.open("log.000001", gtids=42)  # type: ignore
binlog_core.open("log.000001", nonsense=1)  # type: ignore
binlog_core.open("log.000001", on_error="x")  # type: ignore
binlog_core.open("log.000001", ops="upsert")  # type: ignore
binlog_core.open("log.000001", start="then")  # type: ignore
binlog_core.open(42)  # type: ignore
log.batches().to_pandas(columns=42)  # type: ignore
log.batches().to_polars(nonsense=1)  # type: ignore
binlog_core.read_table(log, "shop.orders", nonsense=1)  # type: ignore
binlog_core.read_table(log, "shop.orders", where=1)  # type: ignore
binlog_core.dataset.changes(log, "shop.orders", vectors="x")  # type: ignore
binlog_core.history.history("a", "shop.orders", {"id": 1}, where="id = 1")  # type: ignore
binlog_core.history.row_as_of("a", "shop.orders", {"id": 1}, "then")  # type: ignore
binlog_core.transactions.transactions("a", nonsense=1)  # type: ignore
binlog_core.replay.plan_undo("a", follow=True)  # type: ignore
binlog_core.splits.read_split_groups(Split("a"), nonsense=1)  # type: ignore
binlog_core.splits.plan_splits(42)  # type: ignore
print(binlog_core.nonsense)  # type: ignore
