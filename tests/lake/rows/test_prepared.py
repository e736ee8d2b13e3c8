"""Rows of prepared XA transactions, by where they begin."""

from __future__ import annotations

import numpy as np

from binlog_core.lake.rows.prepared import Prepared, XaRows

BEGINS = np.array([50, 100, 100, 300, 400], np.uint64)  # of transactions: one is committed, one is not


def test_rows_come_as_of_their_commit_or_not_at_all() -> None:
    rows = XaRows([Prepared(100, 7, 5_000_000), Prepared(300, None, 0)])
    kept = rows.kept(BEGINS)
    assert kept is not None
    assert kept.tolist() == [True, True, True, False, True]
    times = np.array([1, 1, 1, 1, 2], "M8[s]").astype("M8[us]")
    versions, moments = rows.change(BEGINS[kept], np.array([1, 2, 2, 4]), times[kept])
    assert versions.tolist() == [1, 7, 7, 4]
    assert moments.astype(np.int64).tolist() == [1_000_000, 5_000_000, 5_000_000, 2_000_000]


def test_without_any_all_rows_are_as_they_are_logged() -> None:
    versions, times = np.arange(5), np.zeros(5, "M8[us]")
    rows = XaRows([])
    assert rows.kept(BEGINS) is None
    assert rows.change(BEGINS, versions, times)[0] is versions
    assert XaRows([Prepared(60, None, 0)]).kept(BEGINS) is None  # which has no rows here
