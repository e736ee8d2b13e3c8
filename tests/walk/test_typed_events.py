"""Events of a log as objects: of which range, and which types."""

from __future__ import annotations

import datetime as dt
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.golden import Golden, golden_logs
from support.logs import GTID, MARIA_GTID, all_rows, path_of

import binlog_core
from binlog_core import DecodeError
from binlog_core.gtids import gtid_text

pytestmark = pytest.mark.sanitize_long


@pytest.mark.parametrize(
    ("types", "error"), [("XID", TypeError), (["XID"], TypeError), ([2.5], TypeError), ([999], ValueError)]
)
def test_types_of_events_are_looked_at_when_they_are_given(types: Any, error: type[Exception]) -> None:
    with binlog_core.open(path_of(GTID)) as log, pytest.raises(error, match="types="):
        log.events(types)


@pytest.mark.parametrize("golden", golden_logs("*/gtid") + golden_logs("*/maria_gtid"), ids=str)
def test_headers_and_events_keep_to_the_range(golden: Golden) -> None:
    path = path_of(golden)
    with binlog_core.open(path) as log:
        every = log.headers()
    positions, times = every["position"], every["timestamp"]
    middle, end = int(positions[len(every) // 3]), int(positions[2 * len(every) // 3])
    early, late = (dt.datetime.fromtimestamp(int(t), dt.UTC) for t in np.quantile(times, [0.3, 0.7]))
    cases: list[tuple[dict[str, Any], np.ndarray]] = [
        ({"start": middle}, positions >= middle),
        ({"stop": end}, positions < end),
        ({"stop": end + 1}, positions <= end),
        ({"start": middle, "stop": end}, (positions >= middle) & (positions < end)),
        ({"start": middle, "stop": middle}, positions < 0),
        ({"start": early}, times >= early.timestamp()),
        ({"start": early, "stop": late}, (times >= early.timestamp()) & (times < late.timestamp())),
        ({"server_id": int(every["server_id"][-1])}, every["server_id"] == every["server_id"][-1]),
        ({"server_id": 999}, positions < 0),
    ]
    assert (np.diff(times.astype(np.int64)) >= 0).all()
    for options, mask in cases:
        for mmap in (True, False):
            with binlog_core.open(path, mmap=mmap, **options) as log:
                assert log.headers().tolist() == every[mask].tolist(), options
                assert [e.position for e in log.events()] == positions[mask].tolist(), options


def test_events_of_a_place_in_one_of_several_files(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        shutil.copy(path_of(GTID), tmp_path / f"log.00000{number}")
    with binlog_core.open(path_of(GTID)) as log:
        positions = log.headers()["position"].tolist()
    begin, end = positions[10], positions[20]
    with binlog_core.open(tmp_path, start=("log.000002", begin), stop=("log.000003", end)) as log:
        assert log.headers()["position"].tolist() == positions[10:] + positions[:20]
        assert [e.position for e in log.events()] == positions[10:] + positions[:20]


def test_events_do_not_look_at_what_is_outside_of_the_range() -> None:
    data = bytearray(Path(path_of(GTID)).read_bytes())
    with binlog_core.open(bytes(data)) as log:
        positions = log.headers()["position"].tolist()
    for damaged in (positions[3], positions[-3]):
        data[damaged + 9] ^= 0x55  # its length
    with binlog_core.open(bytes(data), start=positions[5], stop=positions[-3]) as log:
        assert log.headers()["position"].tolist() == positions[5:-3]
        assert len(list(log.events())) == len(positions[5:-3])
    with (
        binlog_core.open(bytes(data), start=positions[5] + 1) as log,
        pytest.raises(DecodeError, match=f"does an event begin at start={positions[5] + 1}"),
    ):
        log.headers()
    with (
        binlog_core.open(bytes(data), start=len(data) + 1) as log,
        pytest.raises(DecodeError, match="is beyond"),
    ):
        log.headers()


def test_events_from_a_descriptor_in_mid_log_follow_it() -> None:
    golden = golden_logs("mysql97/types_ints")[0].data
    without = golden_logs("mysql97/checksum_none")[0].data
    joined = without + golden[4:]
    with binlog_core.open(joined) as log:
        every = log.headers()
        events = list(log.events())
    [at] = [int(h["position"]) for h in every[1:] if h["type_code"] == 15]
    assert at == len(without)
    with binlog_core.open(joined, start=at) as log:
        assert list(log.events()) == [event for event in events if event.position >= at]
        assert log.headers().tolist() == every[every["position"] >= at].tolist()


@pytest.mark.parametrize("golden", [GTID, MARIA_GTID], ids=str)
def test_changes_and_events_tell_their_file_and_commit_time(golden: Golden) -> None:
    path = path_of(golden)
    with binlog_core.open(path) as log:
        changes, events = list(log.rows()), list(log.events())
        told = {}
        for group in log.groups():
            for one in group.transactions:
                told[gtid_text(one)] = int(one["commit_time"]) if one["commit_time"] >= 0 else None
    assert {change.path for change in changes} == {event.path for event in events} == {path}
    for change in changes:
        assert change.commit_time == told[change.gtid]
        assert change.commit_time is None or abs(change.commit_time / 1e6 - change.timestamp) < 60
    assert (golden is GTID) == (changes[0].commit_time is not None)
    again = pickle.loads(pickle.dumps(changes[0]))
    assert (again, again.path, again.commit_time) == (changes[0], path, changes[0].commit_time)
    assert pickle.loads(pickle.dumps(events[-1])).path == path
    elsewhere = all_rows(golden.data)
    assert elsewhere == changes  # the same changes, wherever they were read
    assert elsewhere[0].path == "<bytes>"
