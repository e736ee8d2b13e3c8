"""Trusted splits: begun where a walk from the log's start says that a transaction begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.forged import log_with_forgery
from support.golden import golden_logs
from support.splits import cut, read, read_all, without_an_annotation
from support.truth import differences

from binlog_core.errors import DecodeError
from binlog_core.splits import Split, check_seams, plan_splits, trust_split, trust_splits

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


def test_a_gap_behind_the_head_is_an_error(tmp_path: Path) -> None:
    """The head does not show it, and later splits own nothing: the split that reaches it reports it."""
    [golden] = golden_logs("maria118/dml_mixed")
    path = without_an_annotation(golden, tmp_path / "bin.000001", behind=70)
    splits = plan_splits(path, 500)
    assert len(splits) > 3
    with pytest.raises(DecodeError, match="split_size 0"):
        read_all(splits)
    with pytest.raises(DecodeError, match="split_size 0"):
        trust_splits(splits)
    changes, _ = read_all([Split(str(path))])
    assert differences(changes, golden, golden.known, place=False) == []


def test_trusted_splits_need_no_second_round(tmp_path: Path) -> None:
    data, forged = log_with_forgery(True)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    trusted = trust_splits(cut(path, 700))
    results = [read(split)[1] for split in trusted]
    assert check_seams(results) == []
    assert not any(r.first_anchor in forged for r in results if r.first_anchor is not None)
    ids = [c.after["id"] for split in trusted for c in read(split)[0]]
    assert ids == list(range(1, 9))
    assert [trust_split(split).anchor or 4 for split in cut(path, 700)] == [s.anchor or 4 for s in trusted]
    # From a place in the log where a transaction is known to begin
    begun = next(s for s in trusted[1:] if s.anchor is not None)
    assert trust_splits([begun, *cut(path, 700)[begun.index + 1 :]]) == trusted[begun.index :]
