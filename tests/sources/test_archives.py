"""Archives as logs: one history, in which each transaction comes once."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.archive import (
    OTHER,
    UUID,
    FakeServer,
    altered_over_a_failover,
    archive,
    busy,
    ids,
    replica_of,
    segments,
)
from support.cli import run

import binlog_core
from binlog_core._sources.archives import archived_logs, timeline_among
from binlog_core._sources.log_files import LogFile
from binlog_core._sources.places import LocalFiles
from binlog_core._sources.sources import BufferSource
from binlog_core._sources.timeline import NAME as TIMELINE
from binlog_core._sources.timeline import RESET, ArchiveTimeline, Segment
from binlog_core.errors import BinlogError
from binlog_core.gtids import GtidSet
from binlog_core.inspect.summarize import summarize
from binlog_core.inspect.transactions import transactions
from binlog_core.lake.access import Access
from binlog_core.schema.ddl import DdlTracker
from binlog_core.schema.given import Schema
from binlog_core.splits import check_seams, plan_splits, read_split_groups
from binlog_core.splits.following import follow_definitions


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


def cut_by_a_failover(folder: Path) -> str:
    """An archive; returns the log of the lost server, which ends with a transaction that it had not ended."""
    server = busy(FakeServer(), 9)
    replica = replica_of(server)
    server.transaction()
    del server.logs[server.current]._out[-31:]  # its XID
    archive(server, folder)
    replica.transaction(gtid=(server.uuid, 10), key=10)
    replica.transaction(gtid=(server.uuid, 11), key=11)
    archive(replica, folder)
    return server.current


def test_a_transaction_cut_by_a_failover_comes_once(tmp_path: Path) -> None:
    cut_by_a_failover(tmp_path)
    assert ids(tmp_path) == list(range(1, 12))


@pytest.mark.parametrize("packed", [False, True])
def test_splits_end_where_another_server_took_over(packed: bool, tmp_path: Path) -> None:
    """Also if the log of the lost server is compressed later."""
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / cut_by_a_failover(tmp_path)
    if packed:
        path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()
    for size in (None, 100, 300, 1 << 20):
        found, results = [], []
        for split in plan_splits(tmp_path, size):
            reader = read_split_groups(split)
            for batch in (batch for group in reader for batch in group.batches):
                found += batch.array["row"]["id"].tolist()
            results.append(reader.result)
        assert found == ids(tmp_path) == list(range(1, 12)), size
        assert check_seams(results) == []


def test_reading_continues_after_a_reset_and_reports_it(tmp_path: Path) -> None:
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
    for read in (
        lambda log: [list(one.rows()) for one in log.each_file()],
        lambda log: list(transactions(log)),
        lambda log: list(transactions(log, most=1, by="rows")),
        summarize,
    ):
        with (
            binlog_core.open(tmp_path) as log,
            pytest.raises(binlog_core.BinlogError, match="gap before the logs of"),
        ):
            read(log)
        with binlog_core.open(tmp_path, start=(server.current, 4)) as log:
            read(log)
    # Where a GTID is can be found on either side of a gap.
    found = run("rows", tmp_path, "--start", f"{UUID}:7", "-f", "jsonl")
    assert found.code == 0 and [json.loads(line)["after"]["id"] for line in found.lines] == [7]


def test_each_file_tells_what_is_missing_between_the_files(tmp_path: Path) -> None:
    server = busy(FakeServer(), 12)
    archive(server, tmp_path / "archive")
    server.reset()
    busy(server, 5)
    archive(server, tmp_path / "archive")
    with binlog_core.open(tmp_path / "archive") as log:
        assert len(list(transactions(log))) == 17
        assert log.report.unproved_seams == 1
    with (
        binlog_core.open(tmp_path / "archive", strict=True) as log,
        pytest.raises(binlog_core.StrictError, match="new histories"),
    ):
        list(log.each_file())
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in (1, 3):
        (logs / f"mysql-bin.{number:06}").write_bytes(server.bytes_of("mysql-bin.000001"))
    with binlog_core.open(logs) as log:
        for _ in log.each_file():
            pass
        assert log.report.file_gaps == 1


def test_a_log_that_went_missing_in_the_archive_is_an_error(tmp_path: Path) -> None:
    server = FakeServer()
    for _ in range(4):
        server.transaction()
        server.rotate()
    archive(server, tmp_path)
    (tmp_path / "mysql-bin.000001").unlink()  # retention
    assert ids(tmp_path) == [2, 3, 4]
    (tmp_path / "mysql-bin.000003").unlink()
    with pytest.raises(binlog_core.BinlogError, match=r"logs are missing in the archive: .* 3;"):
        ids(tmp_path)


@pytest.mark.parametrize("lost", ["mysql-bin.000005", "timeline-2"])
def test_the_end_of_a_segment_that_went_missing_is_an_error(lost: str, tmp_path: Path) -> None:
    """A copy without some of the files, say."""
    server = busy(FakeServer(), 20)
    archive(server, tmp_path)
    assert server.current == "mysql-bin.000005"
    replica = replica_of(server)
    replica.transaction()
    archive(replica, tmp_path)
    third = FakeServer(server.version, uuid=OTHER.replace("4e", "5e"), server_id=3, base="third")
    for number in range(1, 21):
        third.transaction(gtid=(server.uuid, number), key=number)
    third.transaction(gtid=(OTHER, 21), key=21)
    third.next_id = 22
    third.transaction()
    archive(third, tmp_path)
    assert ids(tmp_path) == list(range(1, 23))
    if (tmp_path / lost).is_dir():
        shutil.rmtree(tmp_path / lost)
    else:
        (tmp_path / lost).unlink()
    wanted = "timeline-2/replica.000003" if lost == "timeline-2" else lost
    with pytest.raises(binlog_core.BinlogError, match=f"logs are missing in the archive: {wanted};"):
        ids(tmp_path)
    with pytest.raises(binlog_core.BinlogError, match="logs are missing in the archive"):
        plan_splits(tmp_path)
    assert ids(tmp_path, start=("third.000001", 4)) == [22]
    for path in tmp_path.glob("mysql-bin.*"):  # retention
        path.unlink()
    if lost == "timeline-2":
        assert ids(tmp_path) == [22]


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


def altered_before_a_failover(folder: Path) -> dict[str, str]:
    """An archive in which both servers' logs have an ALTER TABLE; returns the definition before it."""

    def alter(server: FakeServer, number: int) -> None:
        log = server.logs[server.current]
        log.gtid(UUID, number)
        log.query("ALTER TABLE shop.other ADD COLUMN extra INT", "shop")
        server.executed = server.executed | GtidSet([((UUID, ""), (number, number))])
        server.next_id = number + 1

    server = FakeServer()
    server.transaction()
    alter(server, 2)
    archive(server, folder)
    replica = FakeServer(uuid=OTHER, server_id=2, base="replica")
    replica.transaction(gtid=(UUID, 1), key=1)
    alter(replica, 2)
    replica.transaction()
    replica.transaction()
    archive(replica, folder)
    assert len(segments(folder)) == 2
    return {"shop.other": "CREATE TABLE other (id INT)"}


def test_statements_that_two_segments_have_are_followed_once(tmp_path: Path) -> None:
    schema = altered_before_a_failover(tmp_path)
    with binlog_core.open(tmp_path, schema="ddl", schema_start=schema) as log:
        assert [change.after["id"] for change in log.rows()] == [1, 3, 4]
        assert log.report.ddl_not_followed == 0
    tracker = DdlTracker(Schema.load(schema))
    follow_definitions(plan_splits(tmp_path), Access(), tracker)
    definition = tracker.definition("shop", "other")
    assert definition is not None and [column.name for column in definition.columns] == ["id", "extra"]


def test_statements_that_two_segments_have_are_followed_once_before_a_start(tmp_path: Path) -> None:
    schema = altered_before_a_failover(tmp_path)
    with binlog_core.open(tmp_path, limits=binlog_core.Limits(group_rows=1)) as log:
        _, after_third, _ = (
            group.position for one in log.each_file() for group in one.groups() if group.batches
        )
    with binlog_core.open(tmp_path, schema="ddl", schema_start=schema, start=after_third) as log:
        assert [change.after["id"] for change in log.rows()] == [4]
        assert log.report.ddl_not_followed == 0


def test_statements_that_two_segments_have_are_followed_once_by_readers_of_splits(tmp_path: Path) -> None:
    schema = altered_before_a_failover(tmp_path)
    (_, second) = plan_splits(tmp_path)
    # The definition that the first split has left.
    schema = {"shop.other": "CREATE TABLE other (id INT, extra INT)"}
    reader = read_split_groups(second, schema="ddl", schema_start=schema)
    assert [i for group in reader for batch in group.batches for i in batch.array["row"]["id"]] == [3, 4]
    assert reader.report.ddl_not_followed == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_definitions_are_not_compared_with_rows_from_before_them(threads: int, tmp_path: Path) -> None:
    """Rows that the new server logged before an ALTER TABLE, which the archive has from the lost server."""
    schema = altered_over_a_failover(tmp_path)
    wanted = [{"id": 1}, {"id": 3, "extra": 30}, {"id": 4, "extra": 40}]
    with binlog_core.open(tmp_path, schema="ddl", schema_start=schema, strict=True, threads=threads) as log:
        assert [change.after for change in log.rows()] == wanted


def test_a_timeline_that_is_replaced_while_it_is_read() -> None:
    """A store tells the length of the object before, and then gives so many bytes of the new one."""
    server = {"address": "db1:3306", "version": "9.7.0", "uuid": None, "server_id": 1}
    first = ArchiveTimeline().begin(Segment("", server, "2026-11-27T00:00:00+00:00", None, None), None)
    second = Segment("timeline-2", server, "2026-11-27T00:00:01+00:00", RESET, None)
    after = first.begin(second, ("bin.000001", 4)).to_bytes()
    answers = [after[: len(first.to_bytes())], after]

    store = SimpleNamespace(open=lambda *_: BufferSource(answers.pop(0), TIMELINE))
    found = timeline_among(store, [TIMELINE])  # type: ignore[arg-type]
    assert found is not None and [one.folder for one in found.segments] == ["", "timeline-2"]
    torn = SimpleNamespace(open=lambda *_: BufferSource(after[:-9], TIMELINE))
    with pytest.raises(BinlogError, match="not an archive's timeline"):
        timeline_among(torn, [TIMELINE])  # type: ignore[arg-type]


def test_segments_are_listed_after_the_timeline_and_from_the_last_on(tmp_path: Path) -> None:
    """Otherwise a log that came in between seems to be missing before one of the next segment."""
    server = busy(FakeServer(), 5)
    archive(server, tmp_path)
    stale = [str(tmp_path / TIMELINE)]  # listed before the first log was there
    server.reset()
    server.transaction()
    archive(server, tmp_path)
    asked = []

    class Place(LocalFiles):
        def files(self, path: str) -> list[str] | None:
            asked.append(Path(path).name)
            return super().files(path)

    timeline = timeline_among(LocalFiles(), stale)
    assert timeline is not None
    found = archived_logs(Place(), str(tmp_path), stale, timeline, LogFile)
    assert [one.share.epoch for one in found if one.share is not None] == [0, 0, 1]
    assert asked == ["timeline-2", tmp_path.name]
