"""Other servers and other histories: how an archive goes on, and what it refuses."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.archive import UUID, FakeServer

import binlog_core
from binlog_core.errors import DivergedError, PurgedError
from binlog_core.gtids import GtidSet
from binlog_core.position import Position
from binlog_core.schema.ddl import DdlTracker
from binlog_core.schema.given import Schema
from binlog_core.spark.access import Access
from binlog_core.spark.plan.definitions import follow_definitions
from binlog_core.splits import check_seams, plan_splits, read_split_groups

from .test_archiver import archive, assert_same, busy

OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429563"


def segments(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "timeline.json").read_text())["segments"]
    return found


def replica_of(server: FakeServer, **settings: Any) -> FakeServer:
    """Another server with the same transactions, in other logs."""
    replica = FakeServer(server.version, uuid=OTHER, server_id=2, base="replica", **settings)
    for (uuid, _), (first, last) in server.executed.intervals():
        for number in range(first, last + 1):
            replica.transaction(gtid=(uuid, number), key=number)
            if number % 7 == 0:
                replica.rotate()
    replica.next_id = server.next_id
    return replica


def ids(folder: Path, **options: Any) -> list[int]:
    with binlog_core.open(folder, **options) as log:
        return [change.after["id"] for change in log.rows()]


def test_a_failover_goes_on_by_gtids(tmp_path: Path) -> None:
    server = busy(FakeServer(), 20)
    archive(server, tmp_path)
    replica = replica_of(server)
    for _ in range(5):
        replica.transaction()
    archive(replica, tmp_path)
    first, second = segments(tmp_path)
    assert first["until"] == [server.current, len(server.bytes_of(server.current))]
    assert (second["seam"], GtidSet.parse(second["before"])) == ("failover", server.executed)
    folder = tmp_path / second["folder"]
    assert sorted(path.name for path in folder.iterdir()) == [f"replica.00000{n}" for n in (3,)]
    assert (folder / "replica.000003").read_bytes() == replica.bytes_of("replica.000003")
    replica.transaction()
    archive(replica, tmp_path)
    assert (folder / "replica.000003").read_bytes() == replica.bytes_of("replica.000003")
    assert len(segments(tmp_path)) == 2


def test_a_transaction_that_the_lost_server_had_not_ended_is_the_next_ones(tmp_path: Path) -> None:
    server = busy(FakeServer(), 9)
    replica = replica_of(server)
    server.transaction()
    log = server.logs[server.current]
    del log._out[-31:]  # its XID
    archive(server, tmp_path)
    replica.transaction(gtid=(server.uuid, server.next_id - 1), key=server.next_id - 1)
    archive(replica, tmp_path)
    first, second = segments(tmp_path)
    assert first["until"][1] < len(server.bytes_of(server.current))
    assert str(server.next_id - 2) in second["before"].split("-")[-1]


def test_a_failover_without_gtids_is_an_error(tmp_path: Path) -> None:
    server = busy(FakeServer(gtids=False), 5)
    archive(server, tmp_path)
    other = busy(FakeServer(uuid=OTHER, gtids=False), 5)
    with pytest.raises(binlog_core.BinlogError, match="not the server whose logs"):
        archive(other, tmp_path)
    assert_same(server, tmp_path)


def test_a_reset_begins_a_segment(tmp_path: Path) -> None:
    server = busy(FakeServer(), 12)
    archive(server, tmp_path)
    before = {name: server.bytes_of(name) for name in server.logs}
    server.reset()
    busy(server, 12, seed=5)
    archive(server, tmp_path)
    _, second = segments(tmp_path)
    assert second["seam"] == "reset"
    assert_same(server, tmp_path / second["folder"])
    for name, data in before.items():
        assert (tmp_path / name).read_bytes() == data


def test_purged_logs_that_are_in_the_archive_are_not_missed(tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    server.rotate()
    archive(server, tmp_path)
    held = sorted(server.logs)
    server.transaction()
    ended = server.bytes_of(server.current)  # the archive has it up to its last event
    server.rotate()
    archive(server, tmp_path)
    server.purge_to(server.current)
    server.transaction()
    archive(server, tmp_path)
    assert (tmp_path / held[-1]).read_bytes().startswith(ended[:20])
    assert len(segments(tmp_path)) == 1


def test_purged_logs_that_are_missing_are_an_error_unless_told(tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    archive(server, tmp_path)
    for _ in range(3):
        server.transaction()
        server.rotate()
    server.purge_to(server.current)
    with pytest.raises(PurgedError, match=f"archive ends in .*begin with {server.current}.*--start"):
        archive(server, tmp_path)
    archive(server, tmp_path, start=(server.current, 4))
    assert segments(tmp_path)[-1]["seam"] == "gap"
    assert (tmp_path / segments(tmp_path)[-1]["folder"] / server.current).exists()


def test_a_server_that_lost_what_it_had_sent_is_an_error(tmp_path: Path) -> None:
    server = busy(FakeServer(), 10)
    archive(server, tmp_path)
    log = server.logs[server.current]
    length = len(log._out)
    server.transaction()
    archive(server, tmp_path)
    del log._out[length:]
    server.begin_log(int(server.current[-6:]) + 1)
    with pytest.raises(DivergedError, match="the server lost what it had sent"):
        archive(server, tmp_path)
    assert len(segments(tmp_path)) == 1


def test_a_server_that_went_back_is_an_error(tmp_path: Path) -> None:
    server = busy(FakeServer(), 10)
    log = server.logs[server.current]
    length = len(log._out)
    server.transaction("a" * 30)
    archive(server, tmp_path)
    held = (tmp_path / server.current).read_bytes()
    del log._out[length:]
    server.transaction("b" * 300, key=server.next_id - 1)
    with pytest.raises(DivergedError, match="went back"):
        archive(server, tmp_path)
    assert (tmp_path / server.current).read_bytes() == held


def test_a_crash_before_the_first_log_of_a_segment(tmp_path: Path) -> None:
    server = busy(FakeServer(), 8)
    archive(server, tmp_path)
    replica = replica_of(server)
    replica.transaction()
    archive(replica, tmp_path)
    folder = tmp_path / segments(tmp_path)[-1]["folder"]
    for path in folder.iterdir():
        path.unlink()
    archive(replica, tmp_path)
    assert len(segments(tmp_path)) == 2
    assert [path.read_bytes() for path in folder.iterdir()] == [replica.bytes_of(replica.current)]


# ---------------------------------------------------------------- reading


def test_each_transaction_comes_once_over_failovers(tmp_path: Path) -> None:
    server = busy(FakeServer(), 20)
    archive(server, tmp_path)
    replica = replica_of(server)
    busy(replica, 10, seed=4)
    archive(replica, tmp_path)
    assert segments(tmp_path)[1]["settled"] > "replica.000003"
    busy(replica, 5, seed=4)
    archive(replica, tmp_path)
    third = FakeServer(server.version, uuid=OTHER.replace("4e", "5e"), server_id=3)
    for number in range(1, 21):
        third.transaction(gtid=(server.uuid, number), key=number)
    for number in range(21, 36):
        third.transaction(gtid=(OTHER, number), key=number)
    third.next_id = 36
    busy(third, 10, seed=3)
    archive(third, tmp_path)
    assert len(segments(tmp_path)) == 3
    assert ids(tmp_path) == list(range(1, 46))
    with binlog_core.open(tmp_path) as log:
        assert sum(len(batch.array) for batch in log.batches()) == 45
        assert not log.report.file_gaps and not log.report.unproved_seams
    assert ids(tmp_path, exclude_gtids=f"{OTHER}:21-35") == [*range(1, 21), *range(36, 46)]


def test_mariadb_fails_over_by_domain(tmp_path: Path) -> None:
    server = busy(FakeServer("10.11.6-MariaDB-log"), 12)
    archive(server, tmp_path)
    replica = FakeServer("10.11.6-MariaDB-log", server_id=2)
    for name in server.logs:  # a replica's log holds the source's GTIDs
        replica.logs[name], replica.before[name] = server.logs[name], server.before[name]
    replica.executed, replica.next_id, replica.clock = server.executed, server.next_id, server.clock
    replica.rotate()
    busy(replica, 8, seed=2)
    archive(replica, tmp_path)
    assert [one["seam"] for one in segments(tmp_path)] == [None, "failover"]
    assert ids(tmp_path) == list(range(1, 21))


def test_a_transaction_cut_by_a_failover_comes_once(tmp_path: Path) -> None:
    server = busy(FakeServer(), 9)
    replica = replica_of(server)
    server.transaction()
    del server.logs[server.current]._out[-31:]  # its XID
    archive(server, tmp_path)
    replica.transaction(gtid=(server.uuid, 10), key=10)
    replica.transaction(gtid=(server.uuid, 11), key=11)
    archive(replica, tmp_path)
    assert ids(tmp_path) == list(range(1, 12))


def test_a_reset_is_read_on_and_told(tmp_path: Path) -> None:
    server = busy(FakeServer(), 12)
    archive(server, tmp_path)
    server.reset()
    busy(server, 5)
    archive(server, tmp_path)
    assert ids(tmp_path) == list(range(1, 18))
    with binlog_core.open(tmp_path) as log:
        assert sum(1 for _ in log.rows()) == 17
        assert log.report.unproved_seams == 1
    with pytest.raises(binlog_core.StrictError):
        ids(tmp_path, strict=True)


def test_a_gap_is_an_error_where_it_is_met(tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    archive(server, tmp_path)
    for _ in range(3):
        server.transaction()
        server.rotate()
    server.purge_to(server.current)
    server.transaction()
    archive(server, tmp_path, start=(server.current, 4))
    with binlog_core.open(tmp_path) as log:
        rows = log.rows()
        assert [next(rows).after["id"] for _ in range(3)] == [1, 2, 3]
        with pytest.raises(binlog_core.BinlogError, match="gap before the logs of"):
            next(rows)
    assert ids(tmp_path, start=(server.current, 4)) == [7]


def test_a_log_that_went_missing_in_the_archive_is_an_error(tmp_path: Path) -> None:
    server = FakeServer()
    for _ in range(4):
        server.transaction()
        server.rotate()
    archive(server, tmp_path)
    (tmp_path / "mysql-bin.000001").unlink()  # retention
    assert ids(tmp_path) == [2, 3, 4]
    (tmp_path / "mysql-bin.000003").unlink()
    with pytest.raises(binlog_core.BinlogError, match=r"logs are missing in the archive: .* 3 to 3"):
        ids(tmp_path)


def test_a_timeline_that_is_not_one_is_an_error(tmp_path: Path) -> None:
    archive(busy(FakeServer(), 2), tmp_path)
    path = tmp_path / "timeline.json"
    good = json.loads(path.read_text())
    for change in (
        {"version": 2},
        {"segments": 5},
        {"segments": [good["segments"][0] | {"folder": "../x"}]},
        {"segments": [good["segments"][0] | {"seam": "other"}]},
        {"segments": [good["segments"][0] | {"until": [1]}]},
        {"segments": [good["segments"][0] | {"until": ["x", 1 << 63]}]},
        {"segments": [good["segments"][0] | {"until": ["x", float("inf")]}]},
        {"segments": [good["segments"][0] | {"until": [5, 5]}]},
        {"segments": [good["segments"][0] | {"before": 5}]},
        {"segments": [good["segments"][0] | {"before": "x"}]},
        {"segments": [good["segments"][0] | {"folder": "a\0b"}]},
        {"segments": 2 * good["segments"]},  # each row would come twice
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(binlog_core.BinlogError, match="timeline"):
            binlog_core.open(tmp_path)
    for text in ("nothing", "[" * 200_000):
        path.write_text(text)
        with pytest.raises(binlog_core.BinlogError, match="timeline"):
            binlog_core.open(tmp_path)
    with pytest.raises(ValueError, match="position"):
        Position.parse("[" * 200_000)


def test_splits_of_an_archive_give_each_transaction_once(tmp_path: Path) -> None:
    server = busy(FakeServer(), 20)
    archive(server, tmp_path)
    replica = replica_of(server)
    busy(replica, 10, seed=4)
    archive(replica, tmp_path)
    replica.reset()
    replica.next_id = 31
    busy(replica, 10, seed=4)
    archive(replica, tmp_path)
    for size in (None, 300, 1000):
        splits = plan_splits(tmp_path, size)
        results, found = [], []
        for split in splits:
            reader = read_split_groups(split)
            for group in reader:
                for batch in group.batches:
                    found += batch.array["row"]["id"].tolist()
            results.append(reader.result)
        assert found == list(range(1, 41))
        assert check_seams(results) == []
        numbers = [split.file_number for split in splits]
        assert numbers == sorted(numbers) and len(set(numbers)) == len({split.path for split in splits})


class Following:
    """Who reads an archive on while it grows."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.ids: list[int] = []
        self.error: BaseException | None = None
        self.position: str | None = None
        self._log = binlog_core.open(folder, follow=True, **options)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            for group in self._log.groups():
                for batch in group.batches:
                    self.ids += batch.array["row"]["id"].tolist()
                self.position = str(group.position)
        except BaseException as error:
            self.error = error

    def until(self, count: int) -> None:
        end = time.monotonic() + 30
        while len(self.ids) < count and self._thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)

    def stop(self) -> None:
        self._log.stop()
        self._thread.join(30)
        self._log.close()


@pytest.mark.parametrize("compress", [None, "zstd"])
def test_following_goes_on_in_the_next_segment(tmp_path: Path, compress: str | None) -> None:
    server = busy(FakeServer(base="replica"), 20)
    archive(server, tmp_path)
    reading = Following(tmp_path)
    try:
        reading.until(20)
        # The lost server had not ended its last transaction, whose row was read already.
        last, replica = server.next_id, replica_of(server)
        server.transaction()
        del server.logs[server.current]._out[-31:]
        archive(server, tmp_path, compress=compress)
        reading.until(21)
        replica.transaction(gtid=(server.uuid, last), key=last)
        replica.next_id = server.next_id
        for _ in range(5):
            replica.transaction()
        archive(replica, tmp_path, compress=compress)
        reading.until(26)
        position = reading.position
        replica.rotate()
        replica.transaction()
        archive(replica, tmp_path, compress=compress)
        reading.until(27)
    finally:
        reading.stop()
    assert reading.error is None
    assert reading.ids == list(range(1, 28)) == ids(tmp_path)
    assert position is not None and "timeline-2/replica.000003" in position
    assert ids(tmp_path, start=Position.parse(position)) == [27]


def test_a_position_finds_its_segment_by_what_it_knows(tmp_path: Path) -> None:
    """The logs of both servers have the same names."""
    server = busy(FakeServer(base="replica"), 20)
    archive(server, tmp_path)
    replica = replica_of(server)
    replica.transaction()
    replica.transaction()
    archive(replica, tmp_path)
    with binlog_core.open(tmp_path) as log:
        groups = [group.position for one in log.each_file() for group in one.groups()]
    ends = [position for position in groups if position.file.endswith("replica.000003")]
    assert [position.file for position in ends] == ["replica.000003", "timeline-2/replica.000003"]
    assert ids(tmp_path, start=ends[1]) == []
    # As servers give them: without the segment, with the UUID or with GTIDs.
    second = replace(ends[1], file="replica.000003")
    assert ids(tmp_path, start=replace(second, server=OTHER)) == []
    assert ids(tmp_path, start=replace(second, gtids=replica.executed)) == []
    assert ids(tmp_path, start=replace(ends[0], server=server.uuid)) == list(range(10, 23))


def test_following_stops_at_a_gap(tmp_path: Path) -> None:
    server = busy(FakeServer(), 5)
    archive(server, tmp_path)
    reading = Following(tmp_path)
    try:
        reading.until(5)
        for _ in range(3):
            server.rotate()
            server.transaction()
        for name in list(server.logs)[:-1]:
            del server.logs[name]
        archive(server, tmp_path, start=(server.current, 4))
        reading._thread.join(30)
    finally:
        reading.stop()
    assert reading.ids == [1, 2, 3, 4, 5]
    assert "gap" in str(reading.error)


def test_statements_that_two_segments_have_are_followed_once(tmp_path: Path) -> None:
    def alter(server: FakeServer, number: int) -> None:
        log = server.logs[server.current]
        log.gtid(UUID, number)
        log.query("ALTER TABLE shop.other ADD COLUMN extra INT", "shop")
        server.executed = server.executed | GtidSet([((UUID, ""), (number, number))])
        server.next_id = number + 1

    server = FakeServer()
    server.transaction()
    alter(server, 2)
    archive(server, tmp_path)
    replica = FakeServer(uuid=OTHER, server_id=2, base="replica")
    replica.transaction(gtid=(UUID, 1), key=1)
    alter(replica, 2)
    replica.transaction()
    archive(replica, tmp_path)
    assert len(segments(tmp_path)) == 2
    schema = {"shop.other": "CREATE TABLE other (id INT)"}
    with binlog_core.open(tmp_path, schema="ddl", schema_start=schema) as log:
        found = [change.after["id"] for change in log.rows()]
        assert found == [1, 3]
        assert log.report.ddl_not_followed == 0
    tracker = DdlTracker(Schema.load(schema))
    follow_definitions(plan_splits(tmp_path), Access(), tracker)
    definition = tracker.definition("shop", "other")
    assert definition is not None and [column.name for column in definition.columns] == ["id", "extra"]
