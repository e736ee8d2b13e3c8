"""Transaction boundaries, where the server lists the ends of transactions."""

from __future__ import annotations

import pytest
from support.logs import GTID

from binlog_core._decode import boundaries
from binlog_core._sources.sources import BufferSource
from binlog_core.gtids import GtidSet

pytestmark = pytest.mark.sanitize

ENDS = [e["end"] for e in GTID.events if e["type"] == "Xid" or (e["info"] or "").startswith("COMMIT")]
BEGINS = [e["pos"] for e in GTID.events if e["type"] in ("Gtid", "Gtid_tagged_log_event", "Anonymous_Gtid")]


def source() -> BufferSource:
    return BufferSource(GTID.data, "log")


@pytest.mark.parametrize("first_step", [1, 256])
def test_a_boundary_at_or_behind_a_place(first_step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundaries, "_FIRST_STEP", first_step)
    assert len(ENDS) > 3
    for least in (ENDS[1], ENDS[1] + 1, ENDS[2] - 1):
        found = boundaries.boundary_behind(source(), 4, least)
        assert found is not None and found >= least
        assert found in BEGINS or found == len(GTID.data)
    assert boundaries.boundary_behind(source(), 4, len(GTID.data) + 1) == len(GTID.data)


def test_the_last_boundary() -> None:
    begin, end = BEGINS[3:5]
    commit = next(e["pos"] for e in GTID.events if e["end"] == end)
    assert boundaries.last_boundary(source(), 4, begin) == begin
    assert boundaries.last_boundary(source(), 4, commit) == begin
    assert boundaries.last_boundary(source(), 4, end) == end
    cut = BufferSource(GTID.data[: end - 1], "log")  # it is still growing
    assert boundaries.last_boundary(cut, 4) == begin


def test_the_gtids_up_to_the_last_boundary() -> None:
    """Those before the log, and for each transaction up to there what SHOW BINLOG EVENTS shows."""
    [before] = [e["info"] or "" for e in GTID.events if e["type"] == "Previous_gtids"]
    named = [e for e in GTID.events if e["type"] in ("Gtid", "Gtid_tagged_log_event")]
    stop = named[3]["pos"]
    want = GtidSet.parse(before.replace("\n", ""))
    for event in named[:3]:
        want = want | GtidSet.parse(event["info"].split("'")[1])
    assert boundaries.last_checkpoint(source(), 0, None, stop) == (stop, want)
