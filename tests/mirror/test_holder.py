"""Who works on a mirror, and since when: for whoever asks the lake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

from binlog_core import MirrorError
from binlog_core.mirror import holder as holders
from binlog_core.mirror.holder import Holder
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.reporting import statuses
from binlog_core.mirror.state import MirrorState, TableState

_WORKING = """
import sys, time
from binlog_core.mirror.lake import Lake
with Lake(sys.argv[1]).locked():
    print("locked", flush=True)
    sys.stdin.readline()
"""


def working(lake: Path) -> subprocess.Popen[str]:
    """Another process that works on a mirror."""
    there = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command, pipe = [sys.executable, "-c", _WORKING, str(lake)], subprocess.PIPE
    found = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=there)
    assert found.stdout is not None
    assert found.stdout.readline() == "locked\n"
    return found


def followed() -> MirrorState:
    state = MirrorState("id", "mysql://root@db1", ("shop.*",), "archive")
    for one in (TableState("shop", "a", "following", 7), TableState("shop", "b", "parked", 7)):
        state.tables[one.full_name] = one
    return state


@pytest.mark.parametrize("killed", [True, False])
def test_a_mirror_that_ended_is_stopped_since_then(killed: bool, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert lake.worker() == (None, False)
    other = working(tmp_path)
    holder, at_work = lake.worker()
    assert holder is not None and at_work and holder.pid == other.pid
    assert [(one.stage, one.stopped) for one in statuses(lake, followed())] == [
        ("following", None),
        ("parked", None),
    ]
    if killed:
        other.send_signal(signal.SIGKILL)
    other.communicate("\n")
    a, b = statuses(lake, followed())
    assert (a.stage, b.stage, a.lag_bytes, b.lag_bytes) == ("stopped", "parked", None, None)
    assert a.stopped is not None
    assert a.stopped == b.stopped
    assert holder.since <= a.stopped <= time.time()
    with lake.locked():
        assert [one.stage for one in statuses(lake, followed())] == ["following", "parked"]


def test_a_process_on_another_machine_works_while_it_is_heard_of(tmp_path: Path) -> None:
    """Its lock may not reach here, and a store has none."""
    lake, now = Lake(str(tmp_path)), time.time()
    with lake.locked():
        pass
    found: dict[str, Any] = {"host": "elsewhere", "pid": os.getpid(), "since": now - 500}
    for ago, ended, works in ((5, False, True), (300, False, False), (5, True, False)):
        there = {**found, "seen": now - ago, "ended": ended, "asked": None, "place": None}
        (tmp_path / "_mirror" / "holder.json").write_text(json.dumps(there))
        holder, at_work = lake.worker()
        assert holder == Holder(**there)
        assert at_work is works
    (tmp_path / "_mirror" / "holder.json").write_text("{")
    assert lake.worker() == (None, False)


def test_a_table_is_as_of_the_last_answer_if_it_stands_where_that_was(tmp_path: Path) -> None:
    lake, state = Lake(str(tmp_path)), followed()
    state.tables["shop.a"].as_of = time.time() - 1000
    with lake.locked():
        lake.held.note(time.time() - 10, 8)
        assert (statuses(lake, state)[0].lag_seconds or 0) >= 1000
        lake.held.note(time.time() - 10, 7)
        assert 10 <= (statuses(lake, state)[0].lag_seconds or 0) < 900
        lake.held.note(None, None)
        assert (statuses(lake, state)[0].lag_seconds or 0) < 900


def test_a_long_step_is_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store, which has no lock, a copy of hours would look as if nobody worked on it."""
    monkeypatch.setattr(holders, "_BEAT", 0.01)
    monkeypatch.setattr(holders, "_EVERY", 0.0)
    lake, elsewhere = Lake(str(tmp_path)), Lake(str(tmp_path))
    with lake.locked():
        first = elsewhere.held.read()
        assert first is not None
        until = time.monotonic() + 60
        while (now := elsewhere.held.read()) is None or now.seen == first.seen:
            assert time.monotonic() < until
            time.sleep(0.01)
    ended = elsewhere.held.read()
    assert ended is not None and ended.ended
    time.sleep(0.1)
    assert elsewhere.held.read() == ended


@pytest.mark.parametrize(
    "wrong",
    [
        {"since": 1e300},
        {"since": float("nan")},
        {"since": "now"},
        {"seen": None},
        {"asked": "then"},
        {"place": "7"},
        {"host": ["db1"]},
        {"host": "\x1b[2Jdb1"},
        {"pid": "1"},
        {"ended": 0},
    ],
)
def test_a_note_of_others_is_nobodys(wrong: dict[str, Any], tmp_path: Path) -> None:
    lake, now = Lake(str(tmp_path)), time.time()
    with lake.locked():
        pass
    found = {"host": "db1", "pid": 1, "since": now, "seen": now, "ended": False, "asked": now, "place": 7}
    assert Holder.of_json(found) == Holder(**found)
    (tmp_path / "_mirror" / "holder.json").write_text(json.dumps({**found, **wrong}))
    assert lake.held.read() is None
    assert [one.table for one in statuses(lake, followed())] == ["shop.a", "shop.b"]
    refused = pytest.raises(MirrorError, match="another process is working on this mirror")
    with Lake(str(tmp_path))._lock(), refused, lake.locked():  # as another process does
        pass


def test_who_only_asks_does_not_keep_a_mirror_from_its_lake(tmp_path: Path) -> None:
    """`status` takes the lock for a moment, shared, to see whether it is free."""
    fcntl = pytest.importorskip("fcntl")
    lake = Lake(str(tmp_path))
    with lake.locked():
        pass
    with (tmp_path / "_mirror" / "lock").open("rb") as asked:
        fcntl.flock(asked, fcntl.LOCK_SH | fcntl.LOCK_NB)
        released = threading.Timer(0.05, fcntl.flock, (asked, fcntl.LOCK_UN))
        released.start()
        with lake.locked():
            assert lake.worker()[1]
        released.join()


def test_a_lock_that_is_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    with lake.locked():
        pass
    (tmp_path / "_mirror" / "lock").unlink()
    os.mkfifo(tmp_path / "_mirror" / "lock")
    holder, at_work = lake.worker()
    assert holder is not None and not at_work


def test_a_note_that_cannot_be_written_is_the_mirrors_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    lake = Lake(str(tmp_path))
    with lake.locked():
        monkeypatch.setattr(holders.own_files, "create", full)
        monkeypatch.setattr(holders, "_EVERY", 0.0)
        lake.held._next = 0.0
        with pytest.raises(MirrorError, match="No space left"):
            lake.note(time.time(), 7)
