"""What a mirror reports of its tables."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from support.archive import FakeServer, busy  # noqa: E402

from binlog_core._decode.boundaries import last_checkpoint  # noqa: E402
from binlog_core.lake.access import Access  # noqa: E402
from binlog_core.mirror.lake import Lake  # noqa: E402
from binlog_core.mirror.reporting import MirrorStatus, StatusFiles, TableStatus, statuses  # noqa: E402
from binlog_core.mirror.state import MirrorState, TableState  # noqa: E402


@pytest.fixture(autouse=True)
def no_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody ends what these tests begin: its thread would write during tests that watch this process."""
    monkeypatch.setattr("binlog_core.mirror.holder.Held._beat", lambda *_: None)


def test_how_tables_are(tmp_path: Path) -> None:
    lake, place = Lake(str(tmp_path)), (7 << 40) + 120
    state = MirrorState("id", "mysql://root@db1", ("shop.*",), "archive")
    for one in (
        TableState("shop", "t", "following", place, as_of=time.time() - 60),
        TableState("shop", "b", "parked", reason="a row"),
        TableState("shop", "a", "dropped", place),
    ):
        state.tables[one.full_name] = one
    state.offsets[place] = {"gtids": "0-1-9"}
    (tmp_path / "_mirror").mkdir()
    lake.held.begin()
    deltalake.write_deltalake(lake.table(state.tables["shop.t"]), pa.table({"id": [1, 2, 3]}))
    dropped, parked, followed = statuses(lake, state)
    assert (dropped.log, dropped.lag_bytes) == (None, None)
    assert (parked.table, parked.stage, parked.reason, parked.rows) == ("shop.b", "parked", "a row", None)
    assert (parked.lag_seconds, parked.log) == (None, None)
    assert (followed.log, followed.position, followed.gtids) == (7, 120, "0-1-9")
    assert (followed.rows, followed.version, followed.uri) == (3, 0, f"{tmp_path}/shop.t")
    assert followed.lag_seconds is not None and followed.lag_seconds >= 60
    assert followed.committed is not None
    assert [one.rows for one in statuses(lake, state, quick=True)] == [None, None, None]
    assert (followed.lag_bytes, followed.lag_transactions) == (None, None)  # there is no archive


def test_a_status_file_is_kept_up_to_date_by_the_tables_that_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, state, opened = Lake(str(tmp_path)), MirrorState("id", "mysql://db1", ("shop.*",), "archive"), []
    for name in ("a", "b"):
        one = state.begin("shop", name)
        one.stage, one.place, one.committed = "following", 120, 120
        state.offsets[120] = {}
        deltalake.write_deltalake(lake.table(one), pa.table({"id": [1, 2, 3]}))
    real = Lake.opened
    monkeypatch.setattr(Lake, "opened", lambda self, one: opened.append(one.name) or real(self, one))
    files = StatusFiles(lake, [str(tmp_path / "status.json")])

    def rows() -> list[int]:
        monkeypatch.setattr(files, "_next", 0.0)
        files(state)
        return [one["rows"] for one in json.loads((tmp_path / "status.json").read_bytes())["tables"]]

    assert (rows(), opened) == ([3, 3], ["a", "b"])
    assert (rows(), opened) == ([3, 3], ["a", "b"])
    deltalake.write_deltalake(lake.table(one), pa.table({"id": [4]}), mode="append")
    one.place = one.committed = 150
    state.offsets[150] = {}
    assert (rows(), opened) == ([3, 4], ["a", "b", "b"])


def test_what_of_the_archive_is_not_in_a_table(tmp_path: Path) -> None:
    server = busy(FakeServer(), 30)
    folder = tmp_path / "archive"
    folder.mkdir()
    for name in server.logs:
        (folder / name).write_bytes(server.bytes_of(name))
    first, last = sorted(server.logs)[0], server.current
    lake, state = Lake(str(tmp_path)), MirrorState("id", "mysql://root@db1", ("shop.*",), str(folder))
    sizes = {name: len(server.bytes_of(name)) for name in server.logs}
    (tmp_path / "_mirror").mkdir()
    lake.held.begin()
    lake.held.note(time.time(), 1 << 60)

    def lags(name: str, position: int, gtids: str | None) -> tuple[int | None, int | None]:
        place = (int(name.rpartition(".")[2]) << 40) + position
        state.tables["shop.t"] = TableState("shop", "t", "following", place)
        state.offsets[place] = {"gtids": gtids}
        (found,) = statuses(lake, state)
        assert (found.file, found.position) == (name, position)
        return found.lag_bytes, found.lag_transactions

    assert lags(last, sizes[last], None) == (0, 0)
    assert lags(first, 4, None) == (sum(sizes.values()) - 4 * len(sizes), None)
    assert lags(last, sizes[last] - 10, None)[0] == 10
    lake.held.note(time.time() - 100, 1 << 60)  # the server has not answered since
    assert lags(last, sizes[last], None) == (None, None)
    lake.held.note(time.time(), 1 << 60)
    assert lags(last, sizes[last], None) == (0, 0)
    lake.held.end()
    assert lags(last, sizes[last], None) == (None, None)
    (folder / first).rename(folder / f"{first}.zst")  # a position names a log without its compression
    (folder / f"{first}.zst").write_bytes(pytest.importorskip("zstandard").compress(server.bytes_of(first)))
    lags(first, 4, None)
    shutil.rmtree(folder)
    assert [(one.file, one.log) for one in statuses(lake, state)] == [(None, int(first.rpartition(".")[2]))]


def test_an_archive_is_looked_at_from_the_known_places_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer()
    places: list[tuple[int, str]] = []
    for number in range(1, 5):
        for _ in range(3):
            server.transaction()
            position = len(server.bytes_of(server.current))
            places.append(((number << 40) + position, str(server.executed)))
        if number < 4:
            server.rotate()
    folder = tmp_path / "archive"
    folder.mkdir()
    for name in server.logs:
        (folder / name).write_bytes(server.bytes_of(name))
    sizes = [len(server.bytes_of(name)) for name in server.logs]
    starts: list[int] = []
    opened: list[int] = []
    real = Access.file

    def checkpoint(source: Any, start: int, *before: Any) -> Any:
        starts.append(start)
        return last_checkpoint(source, start, *before)

    def file(access: Access, path: str) -> Any:
        opened.append(int(path.rpartition(".")[2]))
        return real(access, path)

    monkeypatch.setattr("binlog_core.mirror.reporting.last_checkpoint", checkpoint)
    monkeypatch.setattr(Access, "file", file)
    lake = Lake(str(tmp_path))
    (tmp_path / "_mirror").mkdir()
    lake.held.begin()
    lake.held.note(time.time(), 1 << 60)
    later, told = places[-2]  # where another table is
    for i, (place, gtids) in enumerate(places):
        state = MirrorState("id", "mysql://root@db1", ("shop.*",), str(folder))
        for name, at in (("a", place), ("b", max(place, later))):
            state.tables[f"shop.{name}"] = TableState("shop", name, "following", at)
        state.offsets = {later: {"gtids": told}, place: {"gtids": gtids}}
        starts.clear()
        opened.clear()
        found = statuses(lake, state)[0]
        log, position = place >> 40, place & (1 << 40) - 1
        size = sizes[log - 1] - position + sum(one - 4 for one in sizes[log:])
        assert (found.lag_bytes, found.lag_transactions) == (size, len(places) - 1 - i)
        assert opened == list(range(4, log - 1, -1))
        assert starts == [max(place, later) & (1 << 40) - 1]


def test_metrics() -> None:
    tables = [
        TableStatus("shop.t", "following", None, "uri", 2.5, 7, 120, None, 3, 0, 9.0, 1000, 4, proved=8.0),
        TableStatus("shop.b", "parked", "a row", "uri"),
    ]
    text = MirrorStatus("/lake", tables, 1.5).to_prometheus().decode().splitlines()
    values = [line for line in text if not line.startswith("#")]
    assert values == [
        'binlog_core_mirror_seconds_behind{lake="/lake",table="shop.t"} 2.5',
        'binlog_core_mirror_bytes_behind{lake="/lake",table="shop.t"} 1000',
        'binlog_core_mirror_transactions_behind{lake="/lake",table="shop.t"} 4',
        'binlog_core_mirror_rows{lake="/lake",table="shop.t"} 3',
        'binlog_core_mirror_position_bytes{lake="/lake",table="shop.t"} 120',
        'binlog_core_mirror_log_number{lake="/lake",table="shop.t"} 7',
        'binlog_core_mirror_proved_seconds{lake="/lake",table="shop.t"} 8.0',
        'binlog_core_mirror_committed_seconds{lake="/lake",table="shop.t"} 9.0',
        'binlog_core_mirror_running{lake="/lake"} 1.0',
        'binlog_core_mirror_table_state{lake="/lake",table="shop.t",state="following"} 1.0',
        'binlog_core_mirror_table_state{lake="/lake",table="shop.b",state="parked"} 1.0',
        'binlog_core_mirror_updated_seconds{lake="/lake"} 1.5',
    ]
    stopped = MirrorStatus("/lake", [replace(tables[0], stopped=1.0)]).to_prometheus().decode()
    assert 'binlog_core_mirror_running{lake="/lake"} 0.0\n' in stopped
    told = json.loads(MirrorStatus("/lake", tables, 1.5).to_json())
    assert [one["lag_bytes"] for one in told["tables"]] == [1000, None]
