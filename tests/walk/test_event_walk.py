"""Events as the walk hands them over: each knows its log, and when its transaction was committed."""

from __future__ import annotations

import pytest
from support.golden import Golden, golden_logs
from support.plain_walk import iterate

import binlog_core
from binlog_core import EventType
from binlog_core._sources.sources import BufferSource
from binlog_core._walk import event_walk
from binlog_core._walk.track import Rules, Track
from binlog_core.report import Report

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

ROWS = (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS)
GTIDS = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)
BETWEEN = (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.ROTATE, EventType.STOP)


def commit_times(golden: Golden) -> dict[int, int | None]:
    """By position, as the bytes of the GTID events have them."""
    found: dict[int, int | None] = {}
    now = None
    for event, _ in iterate(golden.data):
        if event.type_code in BETWEEN:
            now = None
        elif event.type_code in GTIDS[:2]:
            # The header, flags, UUID, number, and two numbers of the logical clock.
            at = event.position + 19 + 1 + 16 + 8 + 1 + 8 + 8
            now = int.from_bytes(golden.data[at : at + 7], "little") & ((1 << 55) - 1)
        elif event.type_code in GTIDS:
            now = event.immediate_commit_timestamp
        found[event.position] = now
    return found


@pytest.mark.parametrize("chunk", [65536, 7])
@pytest.mark.parametrize(
    "golden", [one for one in golden_logs("mysql97/*", max_bytes=40_000) if not one.keys], ids=str
)
def test_commit_time(golden: Golden, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a transaction continues in the next run, and if its GTID event was not requested."""
    monkeypatch.setattr(event_walk, "_CHUNK", chunk)
    expected = commit_times(golden)
    assert len({*expected.values()} - {None}) or not golden.truth
    with binlog_core.open(golden.path, **golden.open_arguments) as log:
        every = list(log.events())
        assert {event.position: event.commit_time for event in every} == expected
        assert {event.path for event in every} == {str(golden.path)}
        some = list(log.events(ROWS))
        assert [event.commit_time for event in some] == [expected[event.position] for event in some]
        late = list(log.events(where=lambda headers: headers["position"] > golden.path.stat().st_size // 2))
        assert late and all(event.commit_time == expected[event.position] for event in late)
        changes = {change.position: change.commit_time for change in log.rows()}
    assert changes == {position: expected[position] for position in changes}


@pytest.mark.parametrize("chunk", [65536, 7])
@pytest.mark.parametrize("golden", golden_logs("*/dml_mixed") + golden_logs("*/gtid"), ids=str)
def test_which_events_are_begin(golden: Golden, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_walk, "_CHUNK", chunk)
    expected = [one["pos"] for one in golden.events if one["type"] == "Query" and one["info"] == "BEGIN"]
    found = []
    for run in event_walk.runs_of(Track(BufferSource(golden.data, "log"), Rules(Report()))):
        found += run.headers["position"][event_walk.begins_in(run)].tolist()
    assert found == expected


def test_without_gtids_it_is_not_known() -> None:
    for golden in golden_logs("mysql56/dml_*") + golden_logs("maria118/dml_mixed"):
        with binlog_core.open(golden.path, **golden.open_arguments) as log:
            assert {event.commit_time for event in log.events()} == {None}
