"""GTIDs that select transactions, or leave them out."""

from __future__ import annotations

from collections import Counter

import pytest
from support.golden import Golden
from support.logs import GTID, MARIA_GTID, all_rows, path_of

import binlog_core
from binlog_core.gtids import parse_gtid, parse_gtid_set

pytestmark = pytest.mark.sanitize


@pytest.mark.parametrize("golden", [GTID, MARIA_GTID], ids=str)
def test_gtid_sets_select_transactions(golden: Golden) -> None:
    whole = all_rows(path_of(golden))
    gtids = list(dict.fromkeys(c.gtid for c in whole if c.gtid))
    chosen = set(gtids[1::2])
    text = ",".join(sorted(chosen))
    assert all_rows(path_of(golden), gtids=text) == [c for c in whole if c.gtid in chosen]
    assert all_rows(path_of(golden), exclude_gtids=text) == [c for c in whole if c.gtid not in chosen]


def test_gtids_in_any_form_select_and_leave_out() -> None:
    path = path_of(GTID)
    with binlog_core.open(path) as log:
        by_gtid = Counter(change.gtid for change in log.rows())
    (one, count), (other, more) = by_gtid.most_common(2)
    assert one is not None and other is not None
    for form in (one, [one], parse_gtid(one), {parse_gtid(one)}, parse_gtid_set(one), iter([one])):
        with binlog_core.open(path, gtids=form) as log:
            assert sum(1 for _ in log.rows()) == count, form
    with binlog_core.open(path, gtids=[one, parse_gtid(other)]) as log:
        assert sum(1 for _ in log.rows()) == count + more
    with binlog_core.open(path, exclude_gtids=[one, other]) as log:
        assert sum(1 for _ in log.rows()) == by_gtid.total() - count - more
    with binlog_core.open(path_of(MARIA_GTID), exclude_gtids="") as log:
        assert sum(1 for _ in log.rows()) > 0  # an empty set has no vendor
