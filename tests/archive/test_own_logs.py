"""Archives of a server whose log has no files: a scripted one, as MariaDB 12.3's documentation says."""

from __future__ import annotations

import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.archive import DroppingFiles, PowerCut, segments
from support.gtid_server import GtidServer, gtid_of, gtid_server
from support.writer import Log, Table
from support.writer.fragments import events_in

import binlog_core
from binlog_core import (
    ArchiveError,
    BinlogError,
    DecodeError,
    DivergedError,
    MariadbGtidSet,
    Position,
    ProtocolError,
    PurgedError,
    ServerError,
)
from binlog_core.archive import archive, archiver_of, own_logs
from binlog_core.archive.status import Status
from binlog_core.index.files import NAME
from binlog_core.inspect.verify import Verdict, verify
from binlog_core.server.address import Address
from binlog_core.server.world import World

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "TEXT")])
SERVER = {"ssl_mode": "DISABLED", "reconnect": 20}
FORMAT_DESCRIPTION, GTID, GTID_LIST, ROTATE, STOP = 15, 162, 163, 4, 3
PREVIOUS_GTIDS, START_ENCRYPTION = 35, 164


def workload(seed: int, *, between: bool = False) -> tuple[bytes, list[list[int]]]:
    """A log, and the ids that each of its transactions inserts: several domains, servers, kinds and sizes."""
    pick = random.Random(seed)
    log = Log("12.3.1-MariaDB-log", checksum=False)
    ids, rows, numbers = iter(range(100_000)), [], dict.fromkeys(range(3), 0)
    domains = pick.choice([[0], [0], [0, 1], [0, 1, 2]])
    gtids: set[tuple[int, int, int]] = set()
    for _ in range(pick.randint(8, 40)):
        domain = pick.choice(domains)
        log.server_id = pick.choice([1, 1, 1, 2])
        # Without gtid_strict_mode a number may also be lower than the one before.
        step = pick.choice([1, 1, 1, 5, -3] if seed % 3 == 0 else [1, 1, 7])
        numbers[domain] = max(1, numbers[domain] + step)
        while (domain, log.server_id, numbers[domain]) in gtids:
            numbers[domain] += 1
        gtids.add((domain, log.server_id, numbers[domain]))
        log.timestamp += pick.choice([0, 0, 1, 100])
        here: list[int] = []
        kind = pick.random()
        if kind < 0.1:
            log.maria_gtid(numbers[domain], domain, standalone=True)
            log.query("CREATE TABLE other (a INT)", "shop")
        else:
            log.maria_gtid(numbers[domain], domain)
            for _ in range(pick.choice([1, 1, 2, 7, 40])):
                here.append(next(ids))
                log.insert(TABLE, [{"id": here[-1], "note": "x" * pick.choice([0, 40, 500])}])
            if kind < 0.3:
                log.query("COMMIT", "shop")
            else:
                log.commit()
        if between and pick.random() < 0.3:
            log.stop() if pick.random() < 0.5 else log.checkpoint("binlog-000003.ibb")
        rows.append(here)
    return log.getvalue(), rows


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have logs of at most about so many bytes."""
    return lambda size: monkeypatch.setattr(own_logs, "LOG_BYTES", size)


def logs_of(folder: Path) -> dict[str, list[bytes]]:
    """The events of each log, by hand; all of it is whole events, with the checksums that it says."""
    found = {}
    for path in sorted(folder.glob("stream.*")):
        data = path.read_bytes()
        assert data[:4] == b"\xfebin"
        events, at = [], 4
        while at < len(data):
            length = int.from_bytes(data[at + 9 : at + 13], "little")
            assert at + length <= len(data)
            events.append(data[at : at + length])
            at += length
        head = bytearray(events[0])
        assert head[4] == FORMAT_DESCRIPTION
        head[17] &= ~1  # in use
        checked = [bytes(head), *(events[1:] if head[-5] == 1 else [])]
        assert all(zlib.crc32(one[:-4]) == int.from_bytes(one[-4:], "little") for one in checked)
        found[path.name] = events
    return found


def list_of(event: bytes) -> dict[int, tuple[int, int, int]]:
    (count,) = struct.unpack_from("<I", event, 19)
    listed = [struct.unpack_from("<IIQ", event, 23 + 16 * i) for i in range(count)]
    return {gtid[0]: gtid for gtid in listed}


def assert_same(server: GtidServer, folder: Path, *, first: int = 0) -> None:
    """The logs have what the server sends, byte for byte, and their heads are true."""
    before = {gtid[0]: gtid for gtid in map(gtid_of, server.transactions[:first])}
    got: list[bytes] = []
    found = logs_of(folder)
    for number, (name, events) in enumerate(found.items(), start=1):
        assert name == f"stream.{number:06}"
        assert events[1][4] == GTID_LIST
        assert list_of(events[1]) == before
        assert int.from_bytes(events[1][13:17], "little") == 4 + len(events[0]) + len(events[1])
        body = events[2:]
        if number < len(found):
            *body, rotate = body
            assert rotate[4] == ROTATE
            assert rotate[27:].startswith(f"stream.{number + 1:06}".encode())
            assert int.from_bytes(rotate[13:17], "little") == 4 + sum(map(len, events))
            assert not events[0][17] & 1
        assert body or number == len(found)
        assert not body or body[0][4] == GTID  # of a transaction, which is whole
        got += body
        before |= {gtid[0]: gtid for event in body if event[4] == GTID for gtid in [gtid_of([event])]}
    assert got == [event for number in range(first, server.known) for event in server.sent(number)]


def ids_in(folder: Path, **options: Any) -> list[int]:
    with binlog_core.open(folder, **options) as log:
        return [change.after["id"] for change in log.rows()]


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("seed", range(20))
def test_cuts_and_restarts_lose_and_double_nothing(
    seed: int, tmp_path: Path, small: Callable[[int], None]
) -> None:
    pick = random.Random(seed)
    small(pick.choice([400, 700, 3000, 20_000, 1 << 28]))
    log, rows = workload(seed)
    with gtid_server(log, seed=seed, cuts=pick.randint(0, 6)) as (server, url):
        everything = server.known
        server.known = pick.randint(0, everything)
        while True:
            if pick.random() < 0.7:
                status = archive(url, tmp_path, options=SERVER, until="now")
                assert (status.state, status.damaged_logs) == ("stopped", [])
            else:
                follow(url, tmp_path, pick)
            if server.known == everything and server.cuts == 0:
                break
            server.known = pick.randint(server.known, everything)
        archive(url, tmp_path, options=SERVER, until="now")
        assert_same(server, tmp_path)
        assert len(segments(tmp_path)) == 1
    assert ids_in(tmp_path) == [i for one in rows for i in one]
    assert all(isinstance(one, Verdict) and not one.damages for one in verify(tmp_path))


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize(
    "seed", [*range(4), 142, 183]
)  # of which the last lose a line before a segment begins
def test_events_between_transactions(seed: int, tmp_path: Path, small: Callable[[int], None]) -> None:
    """After a cut a server may send them again, or not: no transaction is lost or doubled by that."""
    small(random.Random(seed).choice([700, 3000, 1 << 28]))
    log, rows = workload(seed, between=True)
    with gtid_server(log, seed=seed, cuts=5) as (_, url):
        archive(url, tmp_path, options=SERVER, until="now")
    assert ids_in(tmp_path) == [i for one in rows for i in one]
    assert all(isinstance(one, Verdict) and not one.damages for one in verify(tmp_path))


def _on(files: DroppingFiles) -> World:
    world = World()
    world.files = files
    return world


def follow(url: str, folder: Path, pick: random.Random) -> None:
    """Archive until a moment by chance."""
    stop, left = threading.Event(), pick.randint(0, 3)

    def on_status(status: Status) -> None:
        nonlocal left
        left -= 1
        if left < 0 or status.state == "waiting":
            stop.set()

    archiver_of(Address.of(url, SERVER), str(folder), stop=stop, on_status=on_status).run()


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("seed", range(4))
def test_cuts_of_power(seed: int, tmp_path: Path, small: Callable[[int], None]) -> None:
    """At every n-th change on the disk, with what was not synced lost, torn or zeros."""
    pick = random.Random(seed)
    small(pick.choice([700, 3000]))
    log, rows = workload(seed)
    calls = 0
    with gtid_server(log, seed=seed) as (server, url):
        while True:
            calls += pick.randint(1, 9)
            folder, dropped = tmp_path / f"{calls}", tmp_path / f"{calls}-dropped"
            folder.mkdir()
            dropped.mkdir()
            files = DroppingFiles(calls, ragged=pick.choice([None, pick]))
            files.watch(str(folder), str(dropped))
            server.cuts = pick.choice([0, 0, 2])
            try:
                address = replace(Address.of(url, SERVER), world=_on(files))
                archiver_of(address, str(folder), until_now=True).run()
                break
            except PowerCut:
                files.cut(str(folder))
            (folder / ".lock").unlink(missing_ok=True)
            server.cuts = 0
            archive(url, folder, options=SERVER, until="now")
            assert_same(server, folder)
            assert ids_in(folder) == [i for one in rows for i in one]
            shutil.rmtree(folder)
    assert calls > 10


KILLED = """
import os, signal, sys
from dataclasses import replace
from binlog_core.archive import archiver_of, own_logs
from binlog_core.archive.files import Files
from binlog_core.archive.keeper import Keeper
from binlog_core.server.address import Address
from binlog_core.server.world import World

url, folder, own_logs.LOG_BYTES, left, compress = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])

class Killing(Files):
    def __getattribute__(self, name):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getattribute__(name)

files = Killing()
world = World()
world.files = files
address = replace(Address.of(url, {"ssl_mode": "DISABLED", "reconnect": 20}), world=world)
archiver_of(address, folder, Keeper(files, compress=bool(compress)), until_now=True).run()
"""


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("seed", range(3))
def test_kills(seed: int, tmp_path: Path) -> None:
    """A process, before some operation on the disk, again and again."""
    pick = random.Random(seed)
    compress, size = seed == 2, pick.choice([400, 700, 3000])
    log, rows = workload(seed)
    killed = 0
    with gtid_server(log, seed=seed, known=2) as (server, url):
        while killed < 5:
            server.known = pick.randint(server.known, min(len(rows), server.known + 3))
            server.cuts = pick.choice([0, 0, 1])
            moment = pick.choice([pick.randint(0, 25), pick.randint(0, 80)])
            command = [sys.executable, "-c", KILLED, url, tmp_path, size, moment, int(compress)]
            ended = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
            killed += ended.returncode != 0
        server.known, server.cuts = len(rows), 0
        archive(url, tmp_path, options=SERVER, until="now", compress="zstd" if compress else None)
        if not compress:
            assert_same(server, tmp_path)
    assert ids_in(tmp_path) == [i for one in rows for i in one]
    assert len(segments(tmp_path)) == 1


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("compress", [None, "zstd"])
@pytest.mark.parametrize("torn", ["nothing", "empty", "magic", "descriptor", "half a list", "no next log"])
def test_a_log_whose_head_is_not_complete(
    torn: str, compress: Any, tmp_path: Path, small: Callable[[int], None]
) -> None:
    """The log before it has the GTIDs, also compressed."""
    small(700)
    log, rows = workload(3)
    with gtid_server(log, seed=3, known=len(rows) // 2) as (server, url):
        archive(url, tmp_path, options=SERVER, until="now", compress=compress)
        *before, last = sorted(tmp_path.glob("stream.*"))
        assert before
        assert all((path.suffix == ".zst") == bool(compress) for path in before)
        data = last.read_bytes()
        descriptor = 4 + int.from_bytes(data[13:17], "little")
        sizes = {"empty": 0, "magic": 4, "descriptor": descriptor, "half a list": descriptor + 20}
        if torn == "no next log":
            last.unlink()
        else:
            last.write_bytes(data[: sizes.get(torn, len(data))])
        server.known = len(rows)
        archive(url, tmp_path, options=SERVER, until="now")
        if compress is None:
            assert_same(server, tmp_path)
    assert ids_in(tmp_path) == [i for one in rows for i in one]


@pytest.mark.parametrize("seed", range(4))
def test_where_it_starts(seed: int, tmp_path: Path, small: Callable[[int], None]) -> None:
    small(3000)
    log, rows = workload(seed)
    first = random.Random(seed).randint(1, len(rows) - 1)
    with gtid_server(log, seed=seed, known=first, purged=1) as (server, url):
        with pytest.raises(PurgedError):
            archive(url, tmp_path / "all", options=SERVER, until="now")
        start = server.state() if seed % 2 else "now"
        archive(url, tmp_path / "some", options=SERVER, until="now", start=start)
        server.known = len(rows)
        archive(url, tmp_path / "some", options=SERVER, until="now")
        assert_same(server, tmp_path / "some", first=first)
        with pytest.raises(BinlogError, match="by GTIDs alone"):
            archive(url, tmp_path / "file", options=SERVER, until="now", start="binlog-000000.ibb")
    assert ids_in(tmp_path / "some") == [i for one in rows[first:] for i in one]


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("seed", range(10))
def test_events_of_another_form_begin_a_segment(seed: int, tmp_path: Path) -> None:
    """After ``SET GLOBAL binlog_checksum``, between transactions or inside one."""
    log, rows = workload(seed)
    with gtid_server(log, seed=seed, known=len(rows) // 2, cuts=seed % 2) as (server, url):
        archive(url, tmp_path, options=SERVER | {"reconnect": 20}, until="now")
        last = tmp_path / "stream.000001"
        if seed > 2:  # killed inside a transaction
            last.write_bytes(last.read_bytes()[: -random.Random(seed).randint(30, 60)])
        server.checksum = not server.checksum
        server.known, server.cuts = len(rows), 3  # also before the segment has begun
        archive(url, tmp_path, options=SERVER, until="now")
        archive(url, tmp_path, options=SERVER, until="now")
    assert [one["seam"] for one in segments(tmp_path)] == [None, "continued"]
    assert ids_in(tmp_path, strict=True) == [i for one in rows for i in one]
    assert all(isinstance(one, Verdict) and not one.damages for one in verify(tmp_path))


def test_semi_synchronous_replication_is_refused(tmp_path: Path) -> None:
    with (
        gtid_server(workload(1)[0], seed=1) as (_, url),
        pytest.raises(ServerError, match="leave out semi_sync"),
    ):
        archive(url, tmp_path, options=SERVER, until="now", semi_sync=True)


def test_a_server_with_another_history_is_refused(tmp_path: Path) -> None:
    log, rows = workload(1)
    with gtid_server(log, seed=1) as (server, url):
        archive(url, tmp_path, options=SERVER, until="now")
        held = {path: path.read_bytes() for path in tmp_path.glob("stream.*")}
        server.transactions = server.transactions[: len(rows) // 2]
        server.known = len(server.transactions)
        with pytest.raises(DivergedError, match="not in the master's binlog"):
            archive(url, tmp_path, options=SERVER, until="now")
        assert {path: path.read_bytes() for path in tmp_path.glob("stream.*")} == held


@pytest.mark.parametrize("seed", [4, 5, 7])
def test_positions_of_the_archive(seed: int, tmp_path: Path, small: Callable[[int], None]) -> None:
    """They have one of its logs as file, and their GTIDs are a place on the server and in the archive."""
    small(3000)
    log, rows = workload(seed)
    wanted = [i for one in rows for i in one]
    with gtid_server(log, seed=seed) as (_, url):
        archive(url, tmp_path, options=SERVER, until="now")
        with binlog_core.open(tmp_path, limits=binlog_core.Limits(group_rows=3)) as opened:
            read, places = 0, list[tuple[int, Position]]()
            for group in opened.groups():
                read += sum(map(len, group.batches))
                places.append((read, group.position))
        for read, place in random.Random(seed).sample(places, 8):
            assert place.file.startswith("stream.0000")
            assert ids_in(tmp_path, start=place) == wanted[read:]
            assert place.gtids is not None
            with binlog_core.open(url, start=place, server=SERVER) as there:
                assert [change.after["id"] for change in there.rows()] == wanted[read:]
            if not place.records:
                assert ids_in(tmp_path, start=Position("", 0, place.gtids)) == wanted[read:]


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("seed", range(6))
def test_another_server_takes_over(seed: int, tmp_path: Path, small: Callable[[int], None]) -> None:
    pick = random.Random(seed)
    small(pick.choice([700, 3000, 1 << 28]))
    log, rows = workload(3 * seed + 1)  # with gtid_strict_mode
    with gtid_server(log, seed=seed, known=len(rows) // 3) as (server, url):
        archive(url, tmp_path, options=SERVER, until="now")
        server.known, server.cuts = len(rows), 1
        with pytest.raises(BinlogError):  # ends inside a transaction, perhaps
            archive(url, tmp_path, options=SERVER | {"reconnect": 0}, until="now")
        server.server_id, server.checksum = 7, pick.random() < 0.5
        archive(url, tmp_path, options=SERVER, until="now")
    assert [one["seam"] for one in segments(tmp_path)] == [None, "failover"]
    assert ids_in(tmp_path, strict=True) == [i for one in rows for i in one]


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("seed", range(4))
def test_in_a_store(
    seed: int, target: tuple[str, dict[str, Any] | None], tmp_path: Path, small: Callable[[int], None]
) -> None:
    """Also from another machine, which has none of the logs."""
    folder, storage_options = target
    small(random.Random(seed).choice([700, 3000]))
    log, rows = workload(seed)
    with gtid_server(log, seed=seed, cuts=3) as (server, url):
        everything = server.known
        for number in range(3):
            server.known = everything * (number + 1) // 3
            archive(
                url,
                folder,
                options=SERVER,
                until="now",
                spool=tmp_path / f"spool-{seed % 2 and number}",
                storage_options=storage_options,
                compress="zstd" if seed > 1 else None,
            )
    with binlog_core.open(folder, storage_options=storage_options, strict=True) as opened:
        assert [change.after["id"] for change in opened.rows()] == [i for one in rows for i in one]


def test_an_index_of_them(tmp_path: Path, small: Callable[[int], None]) -> None:
    small(3000)
    log, rows = workload(2)
    with gtid_server(log, seed=2) as (_, url):
        archive(url, tmp_path, options=SERVER, until="now", index=True)
    assert (tmp_path / NAME).exists()
    wanted = [i for one in rows for i in one][-3]
    assert ids_in(tmp_path, where=f"id = {wanted}") == [wanted]


@pytest.mark.skipif(shutil.which("mariadb-binlog") is None, reason="no mariadb-binlog here")
@pytest.mark.parametrize("seed", [1, 2, 4, 5])  # with gtid_strict_mode, as it expects
def test_mariadb_binlog_reads_them(seed: int, tmp_path: Path, small: Callable[[int], None]) -> None:
    small(3000)
    log, rows = workload(seed)
    with gtid_server(log, seed=seed) as (_, url):
        archive(url, tmp_path, options=SERVER, until="now")
    command = ["mariadb-binlog", "--no-defaults", "-v", "--verify-binlog-checksum"]
    said = subprocess.run(
        [*command, *sorted(tmp_path.glob("stream.*"))], capture_output=True, text=True, check=True
    )
    assert re.findall(r"^###   @1=(\d+)", said.stdout, re.MULTILINE) == [str(i) for one in rows for i in one]


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("seed", range(4))
def test_a_reader_follows_them(seed: int, tmp_path: Path, small: Callable[[int], None]) -> None:
    """From log to log, and from a segment to the next."""
    pick = random.Random(seed)
    small(pick.choice([700, 3000]))
    log, rows = workload(3 * seed + 2)
    wanted, got = [i for one in rows for i in one], list[int]()
    with gtid_server(log, seed=seed, known=1) as (server, url):
        archive(url, tmp_path, options=SERVER, until="now")

        def read() -> None:
            with binlog_core.open(tmp_path, follow=True) as opened:
                for change in opened.rows():
                    got.append(change.after["id"])
                    if len(got) == len(wanted):
                        opened.stop()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        while server.known < len(rows):
            server.known += 1
            server.cuts = pick.choice([0, 0, 1])
            server.checksum ^= pick.random() < 0.1
            archive(url, tmp_path, options=SERVER, until="now")
        reader.join(60)
        assert not reader.is_alive()
    assert got == wanted


def gtid_event(body: bytes) -> bytes:
    return event_of(GTID, body)


def event_of(kind: int, body: bytes, position: int = 0) -> bytes:
    return struct.pack("<IBIIIH", 1, kind, 1, 19 + len(body), position, 0) + body


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("body", "kind", "position", "error"),
    [
        (struct.pack("<Q", 4) + b"stream.000002", ROTATE, 777, "type 4 inside its stream"),
        (struct.pack("<IIIQ", 1, 0, 1, 1), GTID_LIST, 0, "type 163 inside its stream"),
        (struct.pack("<I", 1000), GTID_LIST, 888, "type 163 inside its stream"),
        (bytes(4), PREVIOUS_GTIDS, 0, "type 35 inside its stream"),
        (b"\1\1\0\0\0" + bytes(12), START_ENCRYPTION, 0, "type 164 inside its stream"),
        (b"\1\1\0\0\0" + bytes(12), START_ENCRYPTION, 999, "type 164 inside its stream"),
        (bytes(8), GTID, 0, "too short"),
    ],
)
def test_nothing_of_a_hostile_stream_stays(
    body: bytes, kind: int, position: int, error: str, seed: int, tmp_path: Path, small: Callable[[int], None]
) -> None:
    """An archive with such an event could neither go on nor be read."""
    small(random.Random(seed).choice([700, 1 << 28]))
    log, rows = workload(seed)
    with gtid_server(log, seed=seed, known=len(rows) // 2) as (server, url):
        archive(url, tmp_path, options=SERVER, until="now")
        server.known = len(rows)
        bad = event_of(kind, body, position)
        if server.checksum:
            bad = bad[:9] + struct.pack("<I", len(bad) + 4) + bad[13:]
            bad += struct.pack("<I", zlib.crc32(bad))
        sent, number = server.sent, random.Random(seed).randrange(len(rows) // 2, len(rows))
        server.sent = lambda which: [bad] * (which == number) + sent(which)  # type: ignore[method-assign]
        for _ in range(2):
            with pytest.raises(ProtocolError, match=error):
                archive(url, tmp_path, options=SERVER, until="now")
        server.sent = sent  # type: ignore[method-assign]
        archive(url, tmp_path, options=SERVER, until="now")
        assert_same(server, tmp_path)
    assert all(isinstance(one, Verdict) and not one.damages for one in verify(tmp_path))


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("seed", range(4))
def test_what_was_damaged_on_its_way_is_sent_again(
    seed: int, tmp_path: Path, small: Callable[[int], None]
) -> None:
    """Also a descriptor, and a GTID event, whose number the next log's list would have."""
    pick = random.Random(seed)
    small(pick.choice([700, 1 << 28]))
    log, _ = workload(seed)
    with gtid_server(log, seed=seed) as (server, url):
        server.checksum = True
        payloads, damages = server._payloads, 4

        def damaged(state: str) -> Any:
            nonlocal damages
            damages -= 1
            left = -1 if damages < 0 else pick.choice([0, 0, 1, 5])
            for payload in payloads(state):
                if payload[:1] == b"\0" and payload[5] in (FORMAT_DESCRIPTION, GTID):
                    if left == 0:
                        payload = payload[:25] + bytes([payload[25] ^ 4]) + payload[26:]
                    left -= 1
                yield payload

        server._payloads = damaged  # type: ignore[method-assign]
        archive(url, tmp_path, options=SERVER, until="now")
        assert damages <= 0
        assert_same(server, tmp_path)


@pytest.mark.parametrize(("at", "value"), [(19, 3), (75, 30), (-5, 7)])
def test_a_descriptor_that_is_not_valid(at: int, value: int, tmp_path: Path) -> None:
    """Its version, the length of headers, the kind of checksum."""
    log, rows = workload(1)
    with gtid_server(log, seed=1, known=len(rows) // 2) as (server, url):
        archive(url, tmp_path, options=SERVER, until="now")
        server.known, payloads = len(rows), server._payloads

        def changed(state: str) -> Any:
            for payload in payloads(state):
                event = bytearray(payload[1:])
                if event[4] == FORMAT_DESCRIPTION:
                    event[at] = value
                    event[-4:] = struct.pack("<I", zlib.crc32(event[:-4]))
                yield payload[:1] + event

        server._payloads = changed  # type: ignore[method-assign]
        with pytest.raises(BinlogError, match=f"found {value}|{value} bytes"):
            archive(url, tmp_path, options=SERVER, until="now")
        server._payloads = payloads  # type: ignore[method-assign]
        archive(url, tmp_path, options=SERVER, until="now")
        assert_same(server, tmp_path)
    assert len(segments(tmp_path)) == 1


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("size", [0, 4, 100])
def test_a_power_cut_where_a_gap_ends(size: int, tmp_path: Path) -> None:
    """Without its head the log does not say where it begins: the oldest transactions are in the archive."""
    log, rows = workload(1)
    half = len(rows) // 2
    with gtid_server(log, seed=1, known=half) as (server, url):
        archive(url, tmp_path, options=SERVER, until="now")
        server.server_id, server.known = 7, half - 1  # another one, which lacks a transaction
        archive(url, tmp_path, options=SERVER, until="now", start="now")
        first = tmp_path / "timeline-2" / "stream.000001"
        first.write_bytes(first.read_bytes()[:size])
        server.known = len(rows)
        with pytest.raises(ArchiveError, match="start"):
            archive(url, tmp_path, options=SERVER, until="now")
        archive(url, tmp_path, options=SERVER, until="now", start="now")
    assert [one["seam"] for one in segments(tmp_path)] == [None, "gap"]
    begun = list_of(logs_of(tmp_path / "timeline-2")["stream.000001"][1])
    assert begun == {gtid[0]: gtid for gtid in map(gtid_of, server.transactions)}


def test_an_event_that_is_too_large_is_no_reason_for_a_gap(tmp_path: Path) -> None:
    """The first one of a dump: with `start` the archive would begin again behind it."""
    log, rows = workload(1)
    with gtid_server(log, seed=1, known=len(rows) // 2) as (server, url):
        archive(url, tmp_path, options=SERVER, until="now")
        server.known, sent = len(rows), server.sent
        large = event_of(GTID, bytes(19))
        large = large[:9] + struct.pack("<I", 2**31 - 1) + large[13:]
        server.again = False
        server.sent = lambda which: [large]  # type: ignore[method-assign]
        with pytest.raises(DecodeError, match="larger than"):
            archive(url, tmp_path, options=SERVER, until="now", start="now")
        server.sent = sent  # type: ignore[method-assign]
        archive(url, tmp_path, options=SERVER, until="now", start="now")
        assert_same(server, tmp_path)
    assert len(segments(tmp_path)) == 1


@pytest.mark.parametrize("size", [0, 11, 12])
def test_what_is_not_an_event(size: int, small: Callable[[int], None]) -> None:
    small(1)
    with pytest.raises(ProtocolError, match="too short"):
        own_logs.OwnLogs("stream.000001", 4, MariadbGtidSet(), None, MariadbGtidSet()).describe(
            memoryview(bytes(80))
        )
    logs = own_logs.OwnLogs("stream.000001", 4, MariadbGtidSet(), None, MariadbGtidSet())
    with pytest.raises(ProtocolError, match="before their descriptor"):
        list(logs.runs(memoryview(gtid_event(bytes(19))), b""))
    logs.describe(memoryview(next(events_in(Log("12.3.1-MariaDB", checksum=False).getvalue()))))
    with pytest.raises(ProtocolError, match="too short"):
        list(logs.runs(memoryview(gtid_event(bytes(size))), b""))
