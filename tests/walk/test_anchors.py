"""Anchors: the first place after an offset where a transaction begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.forged import log_with_forgery
from support.golden import Golden, golden_logs
from support.splits import cut, read, read_all

from binlog_core.splits import Split, check_seams, read_split_groups

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


# What SHOW BINLOG EVENTS calls an anchor, by server.
GTID_NAMES = ("Gtid", "Anonymous_Gtid", "Gtid_tagged_log_event")


@pytest.mark.parametrize(
    "golden",
    golden_logs("*/xa")
    + golden_logs("*/ddl")
    + golden_logs("*/trx_compression")
    + golden_logs("mysql56/gtid"),
    ids=str,
)
def test_anchors_are_the_servers_transactions(golden: Golden) -> None:
    """A split of one byte owns a transaction exactly where the server lists its beginning."""
    gtids = any(e["type"] in GTID_NAMES for e in golden.events)

    def begins(event: dict[str, Any]) -> bool:
        if gtids:
            return event["type"] in GTID_NAMES
        return event["type"] == "Query" and (event["info"] or "").startswith(("BEGIN", "XA START"))

    anchors = {e["pos"] for e in golden.events if begins(e)}
    assert len(anchors) > 2
    for event in golden.events[1:]:
        at = event["pos"]
        with read_split_groups(Split(str(golden.path), at, at + 1)) as reader:
            assert reader.first_anchor == (at if at in anchors else None)
    after = sorted(anchors)[2]
    _, result = read(Split(str(golden.path), after, after + 1))
    assert result.next_anchor == min((p for p in anchors if p > after), default=None)


@pytest.mark.parametrize("closing", [False, True])
def test_forged_events_in_a_blob(closing: bool, tmp_path: Path) -> None:
    data, forged = log_with_forgery(closing)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    deceived = 0
    for size in (500, 1000, 1500, 3000):
        splits = cut(path, size)
        for split in splits:
            with read_split_groups(split) as reader:
                deceived += reader.first_anchor is not None and reader.first_anchor in forged
        changes, results = read_all(splits)
        assert [c.after["id"] for c in changes] == list(range(1, 9))
        assert check_seams(results) == []
    assert deceived, "no split began inside the forgery: the test shows nothing"
