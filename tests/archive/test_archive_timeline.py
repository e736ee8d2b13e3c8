"""Other servers and other histories: how an archive continues, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.archive import OTHER, FakeFeed, FakeServer, archive, assert_same, busy, ids, replica_of, segments

import binlog_core
from binlog_core.errors import DivergedError, PurgedError
from binlog_core.gtids import GtidSet


def test_a_failover_continues_by_gtids(tmp_path: Path) -> None:
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


def test_what_a_crash_left_of_an_event_does_not_stay_in_a_log_that_goes_on_nowhere(tmp_path: Path) -> None:
    server = busy(FakeServer(), 9)
    archive(server, tmp_path)
    replica = replica_of(server)
    path = tmp_path / server.current
    kept = path.read_bytes()
    path.write_bytes(kept + bytes(74))
    archive(replica, tmp_path)
    assert path.read_bytes() == kept
    assert segments(tmp_path)[0]["until"] == [server.current, len(kept)]


def test_a_failover_to_a_server_that_is_behind_waits_for_it(tmp_path: Path) -> None:
    server = busy(FakeServer(), 9)
    archive(server, tmp_path)
    replica = replica_of(server)
    complete, had = replica.executed, replica.bytes_of(replica.current)
    replica.executed = complete - GtidSet.parse(f"{server.uuid}:9")
    tries = 0

    def connect() -> FakeFeed:
        nonlocal tries
        tries += 1
        if tries == 3:
            replica.executed = complete
            replica.transaction()
        return replica.connect()

    archive(replica, tmp_path, connect=connect)
    assert tries == 3
    assert (tmp_path / "timeline-2" / replica.current).read_bytes().startswith(had)
    assert ids(tmp_path) == list(range(1, 11))


def test_a_server_that_lost_what_is_in_the_archive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_core.archive.archiver._LOOKING", 0.2)
    server = busy(FakeServer(), 9)
    archive(server, tmp_path)
    other = busy(FakeServer(uuid=OTHER), 3)  # created again
    with pytest.raises(
        DivergedError, match=f"lacks transactions that are in the archive, for example {server.uuid}"
    ):
        archive(other, tmp_path)
    assert len(segments(tmp_path)) == 1
    assert_same(server, tmp_path)
    archive(other, tmp_path, start=("mysql-bin.000001", 4))
    assert segments(tmp_path)[1]["seam"] == "gap"


def test_a_failover_to_a_server_that_purged_what_is_needed_is_an_error_unless_allowed(tmp_path: Path) -> None:
    server = busy(FakeServer(), 9)
    archive(server, tmp_path)
    replica = replica_of(server)
    for _ in range(3):
        replica.transaction()
        replica.rotate()
    replica.purge_to(replica.current)
    with pytest.raises(PurgedError, match=r"does not have all logs since the archive's end.*--start"):
        archive(replica, tmp_path)
    assert len(segments(tmp_path)) == 1
    archive(replica, tmp_path, start=(replica.current, 4))
    assert segments(tmp_path)[1]["seam"] == "gap"


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


def _as_a_crash_leaves_it(server: FakeServer, folder: Path, compress: bool) -> None:
    """The archive of a server up to the end of a log: of the next one nothing is there to compare."""
    for _ in range(4):
        server.transaction()
    server.rotate()
    archive(server, folder, compress=compress)
    path = folder / server.current
    if compress:
        path.unlink()
    else:
        path.write_bytes(b"")


@pytest.mark.parametrize("transactions", [1, 5])  # of each log: fewer and more than before
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("version", ["8.0.36", "10.11.18-MariaDB"])
def test_a_reset_is_noticed_where_nothing_of_the_next_log_is_there(
    version: str, compress: bool, transactions: int, tmp_path: Path
) -> None:
    """The archive went on with the server's log of that name, and left out those before it."""
    server = FakeServer(version)
    _as_a_crash_leaves_it(server, tmp_path, compress)
    server.reset()
    server.next_id = 1
    for _ in range(3):
        for _ in range(transactions):
            server.transaction()
        server.rotate()
    archive(server, tmp_path)
    _, second = segments(tmp_path)
    assert second["seam"] == "reset"
    assert_same(server, tmp_path / second["folder"])
    assert ids(tmp_path) == [1, 2, 3, 4, *range(1, server.next_id)]


@pytest.mark.parametrize("gtids", [False, True])
@pytest.mark.parametrize("version", ["8.0.36", "10.11.18-MariaDB"])
@pytest.mark.parametrize("left", ["nothing", "a descriptor", "compressed logs"])
def test_a_log_of_which_next_to_nothing_is_there_goes_on(
    left: str, version: str, gtids: bool, tmp_path: Path
) -> None:
    server = FakeServer(version, gtids=gtids)
    _as_a_crash_leaves_it(server, tmp_path, left == "compressed logs")
    if left == "a descriptor":
        head = server.bytes_of(server.current)
        (tmp_path / server.current).write_bytes(head[: 4 + int.from_bytes(head[13:17], "little")])
    server.transaction()
    archive(server, tmp_path)
    assert len(segments(tmp_path)) == 1
    assert ids(tmp_path) == [1, 2, 3, 4, 5]


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


def test_purged_logs_that_are_missing_are_an_error_unless_allowed(tmp_path: Path) -> None:
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
