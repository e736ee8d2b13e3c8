"""Choosing ranges: how little of a log is read for a query."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.indexed import Read, folder, found_by, keys_in

from binlog_core.index.making import index
from binlog_core.inspect.history import history
from binlog_core.inspect.transactions import transactions

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def test_history_reads_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = folder(tmp_path, 20, transactions=300)
    keys = keys_in(logs)
    without = {key: history(logs, "shop.t", {"id": key}) for key in keys[:4]}
    index(logs)
    size = sum(path.stat().st_size for path in logs.glob("bin.*"))
    read = Read(monkeypatch)
    for key, told in without.items():
        read.bytes = 0
        assert history(logs, "shop.t", {"id": key}) == told
        # Ranges in which keys change are read too: here it is one change in fifty.
        assert read.bytes < size // 5
    read.bytes = 0
    assert len(found_by(logs, tables="shop.t", where=f"id = {keys[0]}"))
    assert read.bytes < size // 50


def test_threads_thin_out_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Statements of the writer are all of thread 7.
    logs = folder(tmp_path, 1)
    index(logs)
    read = Read(monkeypatch)
    assert len(list(transactions(logs, where="_thread_id = 7"))) == 200
    read.bytes = 0
    assert list(transactions(logs, where="_thread_id = 8")) == []
    assert not read.bytes
