"""Groups: how rows are divided, and where reading continues after them."""

from __future__ import annotations

import numpy as np
import pytest
from support.logs import GTID, META_FULL, all_rows, path_of

import binlog_core

pytestmark = pytest.mark.sanitize


def test_small_groups_lose_nothing_and_keep_the_order() -> None:
    whole = all_rows(path_of(META_FULL))
    for rows in (1, 2, 7):
        limits = binlog_core.Limits(group_rows=rows)
        assert all_rows(path_of(META_FULL), limits=limits) == whole
        assert all_rows(path_of(META_FULL), limits=limits, mmap=False) == whole


def test_groups_resume_at_any_checkpoint() -> None:
    whole = all_rows(path_of(GTID))
    with binlog_core.open(path_of(GTID), limits=binlog_core.Limits(group_rows=1)) as log:
        checkpoints = [(g.end_position, g.resume_position) for g in log.groups()]
    assert len(checkpoints) > 3
    for end, resume in checkpoints:
        before = [c for c in whole if c.position < resume]
        assert before + all_rows(path_of(GTID), start=resume) == whole
        assert resume <= end


def test_transactions_have_their_ends_and_gtids() -> None:
    ends = {e["end"] for e in GTID.events}
    with binlog_core.open(path_of(GTID)) as log:
        seen = [(g.transactions, g.batches) for g in log.groups()]
    transactions = np.concatenate([t for t, _ in seen])
    begins = {e["pos"] for e in GTID.events if e["type"].lower().startswith(("gtid", "anonymous"))}
    assert len(transactions)
    assert {int(t) for t in transactions["begin_position"]} <= begins
    assert {int(t) for t in transactions["end_position"]} <= ends
    assert set(transactions["outcome"]) == {1}
    assert (transactions["commit_time"] > 1_500_000_000_000_000).all()
