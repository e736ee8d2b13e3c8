"""xa="committed": rows of XA transactions as of their commit, on servers' logs, over files and batches."""

from __future__ import annotations

import datetime as dt
import struct
from pathlib import Path
from typing import Any

import pytest
from support.archive import OTHER, TABLE, UUID, FakeServer, archive
from support.golden import Golden, golden_logs
from support.writer import Log, Table

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.workers import PicklingRunner

from binlog_core import BinlogError
from binlog_core._walk import typed_events
from binlog_core.gtids import GtidSet
from binlog_core.lake.plan.parts import plan_parts
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.spark.changes import ChangeReader, infer_schema
from binlog_core.spark.schemas import arrow_schema, spark_schema
from binlog_core.spark.streaming import BinlogStreamReader

XA_PREPARE = 38
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
T = Table("shop", "t", [("id", "INT")], primary_key=["id"])


def reader_of(paths: list[str], **options: str) -> ChangeReader:
    parsed = SourceOptions.parse({"xa": "committed", **options})
    return ChangeReader.of(parsed, arrow_schema(spark_schema(infer_schema(paths, parsed))), projected=False)


def read(paths: list[str], **options: str) -> list[dict[str, Any]]:
    reader = reader_of(paths, **options)
    rows = [
        row
        for part in plan_parts(paths, reader.options, PicklingRunner())
        for b in reader.read(part)
        for row in b.to_pylist()
    ]
    return sorted(rows, key=lambda row: (row["_commit_version"], row["_change_ordinal"]))


@pytest.mark.parametrize(("size", "gtids"), [("200", True), ("1m", True), ("1m", False)])
def test_a_transaction_that_ends_with_rollback_is_not_read(tmp_path: Path, size: str, gtids: bool) -> None:
    log = Log("8.4.0")
    for i in range(1, 10):
        if gtids:
            log.gtid(SERVER, i, commit_time=log.timestamp * 1_000_000)
        log.begin("shop")
        log.insert(T, [{"id": i}])
        if i % 3:
            log.commit()
        else:
            log.query("ROLLBACK")
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    rows = read([str(path)], table="shop.t", splitSize=size)
    assert [row["id"] for row in rows] == [1, 2, 4, 5, 7, 8]


XA_LOGS = [golden for golden in golden_logs("*/xa") if golden.path.parent.name != "mysql56"]


@pytest.mark.parametrize("size", ["200", "1m"])
@pytest.mark.parametrize("golden", XA_LOGS, ids=str)
def test_what_a_server_rolled_back_is_not_read(golden: Golden, size: str) -> None:
    by_table: dict[str, list[tuple[str, int]]] = {}
    for truth in golden.truth:
        if truth.get("xa_end") != "rollback":
            row = truth["after"] or truth["before"]
            by_table.setdefault(f"{truth['db']}.{truth['table']}", []).append((truth["op"], row["id"]))
    assert any(truth.get("xa_end") == "rollback" for truth in golden.truth)
    for table, wanted in by_table.items():
        rows = read([str(golden.path)], table=table, splitSize=size, unnamed="positions", images="after")
        id_column = next(iter(rows[0]))
        kinds = {"update_postimage": "update"}
        found = [(kinds.get(row["_change_type"], row["_change_type"]), row[id_column]) for row in rows]
        assert sorted(found) == sorted(wanted)
        json_rows = read([str(golden.path)], splitSize=size, tables=table, unnamed="positions")
        assert [row["_change_type"] for row in json_rows] == [kind for kind, _ in found]
        assert [row["_commit_version"] for row in json_rows] == [row["_commit_version"] for row in rows]


class Xa:
    """Logs of a server whose clock ticks with every transaction."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = self.count = 0
        self.rotate()

    def rotate(self) -> None:
        self.number += 1
        self.log = Log("8.0.36")
        self.log.previous_gtids()

    def transaction(self, number: int) -> None:
        self._gtid()
        self.log.begin()
        self.log.insert(T, [{"id": number}])
        self.log.commit()
        self.write()

    def prepare(
        self, name: str, numbers: list[int], *, packed: bool = False, one_phase: bool = False
    ) -> None:
        self._gtid()
        if packed:
            with self.log.compressed_transaction(zstd=False) as inner:
                self._prepare(inner, name, numbers, one_phase)
        else:
            self._prepare(self.log, name, numbers, one_phase)
        self.write()

    def _prepare(self, log: Log, name: str, numbers: list[int], one_phase: bool) -> None:
        xid = f"X'{name.encode().hex()}',X'',1"
        log.query(f"XA START {xid}")
        log.insert(T, [{"id": number} for number in numbers])
        log.query(f"XA END {xid}")
        log.event(XA_PREPARE, struct.pack("<BIII", one_phase, 1, len(name), 0) + name.encode())

    def end(self, how: str, name: str) -> int:
        position = self._gtid()
        self.log.query(f"XA {how} X'{name.encode().hex()}',X'',1")
        self.write()
        return (self.number << 40) + position

    def _gtid(self) -> int:
        self.count += 1
        self.log.timestamp += 1
        return self.log.gtid(SERVER, self.count, commit_time=1_700_000_000_000_000 + self.count)

    def write(self) -> None:
        (self.folder / f"bin.{self.number:06}").write_bytes(self.log.getvalue())

    @property
    def paths(self) -> list[str]:
        return sorted(str(path) for path in self.folder.iterdir())


def history(folder: Path) -> tuple[Xa, dict[str, int]]:
    """1, a and b and d prepared, 2, a committed, b rolled back; 3, d committed; c stays prepared."""
    server = Xa(folder)
    server.transaction(1)
    server.prepare("a", [10, 11])
    server.prepare("b", [20])
    server.prepare("d", [40], packed=True)
    server.transaction(2)
    ends = {"a": server.end("COMMIT", "a")}
    server.end("ROLLBACK", "b")
    server.prepare("e", [50], one_phase=True)
    server.rotate()
    server.prepare("c", [30])
    server.transaction(3)
    ends["d"] = server.end("COMMIT", "d")
    server.transaction(4)
    return server, ends


@pytest.mark.parametrize("size", ["100", "1k", "1m"])
def test_rows_come_as_of_their_commit(tmp_path: Path, size: str) -> None:
    server, ends = history(tmp_path)
    rows = read(server.paths, table="shop.t", splitSize=size, metadata="_position")
    assert [row["id"] for row in rows] == [1, 2, 10, 11, 50, 3, 40, 4]
    by_id = {row["id"]: row for row in rows}
    assert by_id[10]["_commit_version"] == by_id[11]["_commit_version"] == ends["a"]
    assert by_id[40]["_commit_version"] == ends["d"]
    assert [by_id[10]["_change_ordinal"], by_id[11]["_change_ordinal"]] == [0, 1]
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert by_id[10]["_commit_timestamp"] - epoch == dt.timedelta(microseconds=1_700_000_000_000_006)
    assert by_id[10]["_position"] < by_id[2]["_position"]  # where it is logged
    logged = read(server.paths, table="shop.t", splitSize=size, xa="prepared")
    assert [row["id"] for row in logged] == [1, 10, 11, 20, 40, 2, 50, 30, 3, 4]
    as_json = read(server.paths, splitSize=size)
    assert [row["after"] for row in as_json] == [f'{{"id":{row["id"]}}}' for row in rows]
    assert [row["_commit_version"] for row in as_json] == [row["_commit_version"] for row in rows]


def test_what_begins_transactions_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log("8.0.36")
    for number in range(1, 51):
        log.gtid(SERVER, number)
        log.begin("shop")
        log.insert(T, [{"id": number}])
        log.commit()
    (tmp_path / "bin.000001").write_bytes(log.getvalue())
    parsed, parse = list[Any](), typed_events.parse_event
    monkeypatch.setattr(typed_events, "parse_event", lambda *args: parsed.append(args[0]) or parse(*args))
    rows = read([str(tmp_path / "bin.000001")], table="shop.t")
    assert [row["id"] for row in rows] == list(range(1, 51))
    assert len(parsed) < 10


def test_the_longest_xid_in_the_database_with_the_longest_name(tmp_path: Path) -> None:
    """64 bytes and 64 bytes; 64 characters of three bytes."""
    gtrid, bqual, status = b"g" * 64, b"b" * 64, bytes(60)
    xid = f"X'{gtrid.hex()}',X'{bqual.hex()}',{0x7FFFFFFF}"
    log = Log("8.0.36")
    log.gtid(SERVER, 1)
    log.query(f"XA START {xid}")
    log.insert(T, [{"id": 1}])
    log.query(f"XA END {xid}")
    log.event(XA_PREPARE, struct.pack("<BIII", 0, 0x7FFFFFFF, 64, 64) + gtrid + bqual)
    log.gtid(SERVER, 2)
    log.query(f"XA COMMIT {xid}", "店" * 64, status=status)
    (tmp_path / "bin.000001").write_bytes(log.getvalue())
    assert [row["id"] for row in read([str(tmp_path / "bin.000001")], table="shop.t")] == [1]


def test_a_start_between_prepare_and_commit(tmp_path: Path) -> None:
    server, _ = history(tmp_path)
    rows = read(server.paths, table="shop.t", startOffset="bin.000002:4")
    assert [row["id"] for row in rows] == [3, 40, 4]
    later = server.paths[1:]
    with pytest.raises(BinlogError, match=r"prepared before the first log"):
        read(later, table="shop.t")
    assert [row["id"] for row in read(later, table="shop.t", xa="prepared")] == [30, 3, 4]
    with pytest.raises(ValueError, match=r"xa=committed cannot be combined with startTime"):
        SourceOptions.parse({"xa": "committed", "startTime": "1"})


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stream_hands_each_over_once_with_its_commit(tmp_path: Path, restarts: bool) -> None:
    server, ends = history(tmp_path)
    changes = reader_of(server.paths, table="shop.t", maxBytesPerTrigger="1")
    stream = BinlogStreamReader(changes, [str(tmp_path)])
    offset, seen = stream.initialOffset(), []
    while (end := stream.latestOffset(offset, stream.getDefaultReadLimit())) != offset:
        if restarts:
            stream = BinlogStreamReader(changes, [str(tmp_path)])
        batch = [
            (row["id"], row["_commit_version"])
            for partition in stream.partitions(offset, end)
            for records in stream.read(partition)
            for row in records.to_pylist()
        ]
        seen.append(sorted(batch, key=lambda pair: pair[1]))
        offset = end
    assert [number for batch in seen for number, _ in batch] == [1, 2, 10, 11, 50, 3, 40, 4]
    assert len(seen) > 3
    versions = [version for batch in seen for _, version in batch]
    assert versions == sorted(versions)
    assert dict(pair for batch in seen for pair in batch)[40] == ends["d"]


@pytest.mark.parametrize("size", ["100", "1m"])
@pytest.mark.parametrize("rotated", [False, True])
def test_a_transaction_that_the_server_that_took_over_commits(
    tmp_path: Path, rotated: bool, size: str
) -> None:
    """It has XA PREPARE again, of which the archive has the rows in the log of the lost server."""
    server = FakeServer()
    server.transaction()
    xa(server, 2, "PREPARE")
    xa(server, 3, "PREPARE", "b", 30)
    xa(server, 4, "COMMIT", "b")
    archive(server, tmp_path)
    replica = FakeServer(uuid=OTHER, server_id=2, base="replica")
    replica.transaction(gtid=(UUID, 1), key=1)
    xa(replica, 2, "PREPARE")
    if rotated:
        replica.rotate()
    xa(replica, 3, "PREPARE", "b", 30)
    xa(replica, 4, "COMMIT", "b")
    xa(replica, 5, "COMMIT")
    replica.transaction(gtid=(UUID, 6), key=6)
    archive(replica, tmp_path)
    rows = read([str(tmp_path)], table="shop.orders", splitSize=size)
    assert [row["id"] for row in rows] == [1, 30, 2, 6]


def test_an_end_that_the_lost_server_had_logged_needs_no_beginning(tmp_path: Path) -> None:
    """Both servers' logs begin after XA PREPARE, but the archive only begins after XA COMMIT."""
    server = FakeServer()
    server.transaction()
    xa(server, 2, "PREPARE")
    xa(server, 3, "COMMIT")
    server.rotate()
    server.transaction(gtid=(UUID, 4), key=4)
    archive(server, tmp_path, start=(server.current, 4))
    replica = FakeServer(uuid=OTHER, server_id=2, base="replica")
    replica.transaction(gtid=(UUID, 1), key=1)
    xa(replica, 2, "PREPARE")
    replica.rotate()
    xa(replica, 3, "COMMIT")
    replica.transaction(gtid=(UUID, 4), key=4)
    replica.transaction(gtid=(UUID, 5), key=5)
    replica.purge_to(replica.current)
    archive(replica, tmp_path)
    assert [row["id"] for row in read([str(tmp_path)], table="shop.orders")] == [4, 5]


def xa(server: FakeServer, number: int, how: str, name: str = "a", row: int = 2) -> None:
    """XA PREPARE of a row, or the end of its transaction."""
    log, xid = server.logs[server.current], f"X'{name.encode().hex()}',X'',1"
    server.clock += 1
    log.timestamp = server.clock
    log.gtid(UUID, number)
    server.executed = server.executed | GtidSet([((UUID, ""), (number, number))])
    if how != "PREPARE":
        log.query(f"XA {how} {xid}")
        return
    log.query(f"XA START {xid}")
    log.insert(TABLE, [{"id": row, "note": "xa"}])
    log.query(f"XA END {xid}")
    log.event(XA_PREPARE, struct.pack("<BIII", 0, 1, len(name), 0) + name.encode())
