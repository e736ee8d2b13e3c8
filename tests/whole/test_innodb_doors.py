"""MariaDB's .ibb files through the doors that a classic log has: stores, starts, commands, splits."""

from __future__ import annotations

import datetime as dt
import http.server
import json
import random
import re
import struct
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import run
from support.innodb_logs import TABLE, made_of
from support.logs import all_rows
from support.splits import read_all
from support.writer import Log
from support.writer import innodb_binlog as ibb

import binlog_core
from binlog_core._sources import innodb_places
from binlog_core._sources.innodb_binlog import InnodbBinlogSource
from binlog_core.gtids import MariadbGtidSet
from binlog_core.lake.rows.reader import read_split
from binlog_core.log import parts
from binlog_core.splits import plan_splits

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

BEGIN = 1_700_000_000


def made_later(rows: list[list[dict[str, Any]]]) -> list[bytes]:
    """Transactions, each a minute after the one before it."""
    transactions = []
    for number, (events, _) in enumerate(zip(made_of(rows), rows, strict=True)):
        data, at = bytearray(events), 0
        while at < len(data):
            struct.pack_into("<I", data, at, BEGIN + 60 * number)
            at += struct.unpack_from("<I", data, at + 9)[0]
        transactions.append(bytes(data))
    return transactions


def written(folder: Path, seed: int) -> tuple[list[Path], list[list[int]]]:
    """Some files of random shape; the ids of each transaction."""
    pick = random.Random(seed)
    ids = iter(range(1 << 20))
    rows = [
        [{"id": next(ids), "note": "n" * pick.randrange(300)} for _ in range(pick.choice([1, 3, 40]))]
        for _ in range(20)
    ]
    paths = ibb.write_files(folder, ibb.engine_files(made_later(rows), seed=seed))
    return paths, [[row["id"] for row in one] for one in rows]


def flat(transactions: list[list[int]]) -> list[int]:
    return [one for ids in transactions for one in ids]


def ids_of(target: Any, **options: Any) -> list[int]:
    return [change.after["id"] for change in all_rows(target, **options)]


# ------------------------------------------------------------------ stores


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves a folder by ranges."""

    folder: Path

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.folder / Path(self.path).name
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        self.send_response(206 if (asked := self.headers.get("Range")) else 200)
        if asked:
            first, last = asked.removeprefix("bytes=").split("-")
            begin, end = int(first), min(int(last) + 1 if last else len(data), len(data))
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
            data = data[begin:end]
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    handler = type("H", (Handler,), {"folder": tmp_path})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("seed", range(3))
def test_a_web_server(seed: int, web: str, tmp_path: Path) -> None:
    """Records that go on in the next file, or lie in an earlier one, are found beside it."""
    paths, transactions = written(tmp_path, seed)
    urls = [f"{web}/logs/{path.name}" for path in paths]
    assert ids_of(urls) == flat(transactions)
    assert [one for url in urls for one in ids_of(url, threads=2)] == flat(transactions)
    splits = plan_splits(urls, 2000)
    assert [change.after["id"] for change in read_all(splits)[0]] == flat(transactions)
    check_starts(urls, transactions, seed)
    with binlog_core.open(urls) as remote, binlog_core.open(paths) as local:
        assert remote.headers().tolist() == local.headers().tolist()
        assert [event.position for event in remote.events()] == [event.position for event in local.events()]


def check_starts(target: Any, transactions: list[list[int]], seed: int) -> None:
    """By time, GTIDs, and as a position of a server, which has no file."""
    k = random.Random(seed).randrange(1, len(transactions))
    rest, gtids = flat(transactions[k:]), MariadbGtidSet.parse(f"0-1-{k}")
    assert ids_of(target, start=dt.datetime.fromtimestamp(BEGIN + 60 * k, dt.UTC)) == rest
    assert ids_of(target, start=gtids) == ids_of(target, start=gtids, threads=2) == rest
    assert ids_of(target, start=binlog_core.Position("", 0, gtids)) == rest


@pytest.mark.parametrize("seed", range(3))
def test_a_store(seed: int, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    paths, transactions = written(tmp_path, seed)
    url, store = f"memory://{uuid.uuid4().hex}", fsspec.filesystem("memory")
    for path in paths:
        store.pipe_file(f"{url}/{path.name}", path.read_bytes())
    for options in ({}, {"threads": 2}, {"limits": binlog_core.Limits(group_rows=7)}):
        assert ids_of(url, **options) == flat(transactions)
    assert versions(url, 0) == versions(url, 2000) == versions(str(tmp_path), 2000)
    check_starts(url, transactions, seed)
    with binlog_core.open(url) as log:
        *_, middle, _ = log.groups()
        rest = ids_of(url, start=middle.position)
    assert rest == flat(transactions)[len(flat(transactions)) - len(rest) :]
    store.rm(url, recursive=True)


def versions(target: Any, size: int) -> list[tuple[int, int]]:
    return [
        key
        for split in plan_splits(target, size)
        for _, batch in read_split(split, unnamed="positions")
        for key in zip(
            batch["_commit_version"].to_pylist(), batch["_change_ordinal"].to_pylist(), strict=True
        )
    ]


# ------------------------------------------------------------------ starts


@pytest.mark.parametrize("seed", range(4))
def test_starts(seed: int, tmp_path: Path) -> None:
    """By time, position and GTIDs, also with threads, and up to a stop."""
    paths, transactions = written(tmp_path, seed)
    pick = random.Random(seed)
    with binlog_core.open(tmp_path) as log:
        first_of = {change.gtid: change for change in reversed(list(log.rows()))}
    begins: dict[int, tuple[str, int]] = {}  # of each transaction, its GTID event
    number = 0
    for path in paths:
        with binlog_core.open(path) as log:
            headers = log.headers()
        for position in headers["position"][headers["type_code"] == 162].tolist():
            begins[number] = path.name, position
            number += 1
    assert number == len(transactions) == len(first_of)
    for k in pick.sample(range(len(transactions)), 3):
        rest = flat(transactions[k:])
        threads = pick.choice([1, 2])
        when = dt.datetime.fromtimestamp(BEGIN + 60 * k - pick.randrange(60), dt.UTC)
        assert ids_of(tmp_path, start=when, threads=threads) == rest
        assert ids_of(tmp_path, stop=when, threads=threads) == flat(transactions[:k])
        assert ids_of(tmp_path, start=begins[k], threads=threads) == rest
        assert ids_of(tmp_path, stop=begins[k], threads=threads) == flat(transactions[:k])
        if k:
            assert ids_of(tmp_path, exclude_gtids=f"0-1-1:{k}", threads=threads) == rest
        assert ids_of(tmp_path, gtids=f"0-1-{k + 1}", threads=threads) == transactions[k]


# ------------------------------------------------------------------ commands


@pytest.mark.parametrize("seed", range(3))
def test_commands(seed: int, tmp_path: Path) -> None:
    paths, transactions = written(tmp_path, seed)
    logs, count = tmp_path, len(flat(transactions))
    told = run("info", logs)
    assert told.code == 0
    assert sum(int(n) for n in re.findall(r"Gtid +(\d+) ", told.text)) == len(transactions)
    told = run("verify", logs)
    assert told.code == 0
    assert sum(int(n) for n in re.findall(r"(\d+) changed rows?\n", told.text)) == count
    assert sum(int(n) for n in re.findall(r"changes: (\d+) committed", told.text)) == len(transactions)
    assert [one.rows for one in binlog_core.transactions.transactions(logs)] == list(map(len, transactions))
    assert len(run("events", logs).lines) >= 4 * len(transactions)
    last = len(transactions)
    told = run("rows", logs, "--where", f"_gtid = '0-1-{last}'")
    assert [json.loads(line)["after"]["id"] for line in told.lines] == transactions[-1]
    page = tmp_path / "page.html"
    assert run("report", logs, "-o", page).code == 0
    assert "orders" in page.read_text("utf-8")
    cut = tmp_path / "cut" / paths[0].name
    cut.parent.mkdir()
    data = paths[0].read_bytes()
    page_len = 1 << data[4]
    inside = [at for at in range(2 * page_len, len(data), page_len) if data[at] & 0xC0 == 0x80]
    for at in inside[:3]:  # whole pages, of which the last one ends inside a record
        cut.write_bytes(data[:at])
        with binlog_core.open(cut) as log:
            got = [change.after["id"] for change in log.rows()]
            assert got == flat(transactions)[: len(got)]
            assert log.tail is not None and log.tail.offset > 0


@pytest.mark.parametrize("seed", range(3))
def test_an_index_of_a_file_that_grows_within_its_size(seed: int, tmp_path: Path) -> None:
    """Its size and both its ends stay the same: what was written later is found all the same."""
    pytest.importorskip("pyarrow")
    pick = random.Random(seed)
    transactions = made_of([[{"id": i, "note": "n" * pick.randrange(90)}] for i in range(200)])
    whole = file_of(transactions) + bytes(64 << 10)
    path = tmp_path / "binlog-000000.ibb"
    for count in sorted(pick.sample(range(30, 200), 3)):
        path.write_bytes(file_of(transactions[:count]).ljust(len(whole), b"\0"))
        assert ": indexed" in run("index", tmp_path).text
        path.write_bytes(whole)
        for i in (count, *pick.sample(range(200), 4)):
            assert ids_of(tmp_path, where=f"id = {i}") == [i]
            assert ids_of(tmp_path, gtids=f"0-1-{i + 1}") == [i]
        assert ids_of(tmp_path, where="id >= 0") == list(range(200))
    path.write_bytes(file_of(transactions))
    assert [": indexed" in run("index", tmp_path).text for _ in range(2)] == [True, False]


def file_of(transactions: list[bytes]) -> bytes:
    writer = ibb.Writer(shift=9, pages=1000)
    for events in transactions:
        writer.record(ibb.COMMIT, ibb.packed(0) + events)
    return writer.contents()[0]


def test_an_index_leaves_out_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading begins far inside the log."""
    pytest.importorskip("pyarrow")
    rows = [[{"id": 100 * i + k, "note": "n" * 900} for k in range(30)] for i in range(120)]
    writer = ibb.Writer(shift=14, pages=1000)
    for events in made_of(rows):
        writer.record(ibb.COMMIT, ibb.packed(0) + events)
    (tmp_path / "binlog-000000.ibb").write_bytes(writer.contents()[0])
    assert run("index", tmp_path).code == 0
    begins: list[int] = []
    seek = InnodbBinlogSource.seek

    def noted(self: InnodbBinlogSource, position: int) -> None:
        begins.append(position)
        seek(self, position)

    monkeypatch.setattr(InnodbBinlogSource, "seek", noted)
    assert ids_of(tmp_path, gtids="0-1-111") == list(range(11_000, 11_030))
    assert max(begins) > 1_000_000


# ------------------------------------------------------------------ threads, splits


@pytest.mark.parametrize("seed", range(4))
def test_versions_under_every_plan(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(innodb_places, "_STEP", 2000)
    monkeypatch.setattr(parts, "PART_BYTES", 3000)
    paths, transactions = written(tmp_path, seed)
    whole = versions(str(tmp_path), 0)
    assert whole == sorted(set(whole)) and len(whole) == len(flat(transactions))
    pick = random.Random(seed)
    for size in (300, pick.randrange(301, 5000), 20_000):
        assert versions(str(tmp_path), size) == whole
        assert versions([str(path) for path in paths], size) == whole
    for threads in (1, 2, 3):
        limits = binlog_core.Limits(group_rows=pick.choice([5, 100]))
        assert ids_of(tmp_path, threads=threads, limits=limits) == flat(transactions)


# ------------------------------------------------------------------ unknown events


@pytest.mark.parametrize("out_of_band", [False, True])
@pytest.mark.parametrize("ignorable", [False, True])
def test_an_event_of_an_unknown_type(ignorable: bool, out_of_band: bool, tmp_path: Path) -> None:
    """It may hold rows: an error unless it is marked, and with skip it is counted."""
    log = Log("11.8.1-MariaDB-log", checksum=False)
    for number in range(1, 6):
        log.event(162, struct.pack("<QIB6x", number, 0, 0))
        if number == 3:
            log.event(201, b"of a later version", flags=0x80 if ignorable else 0)
        log.insert(TABLE, [{"id": number, "note": "x" * 200}])
        log.commit()
    writer = ibb.Writer(shift=9, pages=1000)
    for events in ibb.transactions_of(log.getvalue()):
        trees = ibb.packed(0)
        if out_of_band:
            gtid, tree = int.from_bytes(events[9:13], "little"), ibb.OutOfBand(writer)
            for at in range(gtid, len(events), 90):
                tree.append(events[at : at + 90])
            trees, events = tree.reference() + trees, events[:gtid]
        writer.record(ibb.COMMIT, trees + events)
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(writer.contents()[0])
    if not ignorable:
        for threads in (1, 2):
            with pytest.raises(binlog_core.BinlogError, match="201"):
                ids_of(path, threads=threads)
    for options in ({}, {"threads": 2}) if ignorable else ({"on_error": "skip"},):
        with binlog_core.open(path, **options) as opened:
            assert [change.after["id"] for change in opened.rows()] == [1, 2, 3, 4, 5]
            assert opened.report.skipped_events == (0 if ignorable else 1)


# ------------------------------------------------------------------ a transaction larger than memory's bounds


def with_checksums(pages: np.ndarray) -> None:
    """CRC-32C of each row but its last four bytes, all rows side by side, byte by byte."""
    table = np.array(ibb._TABLE, np.uint32)
    crc = np.full(len(pages), 0xFFFFFFFF, np.uint32)
    for column in np.ascontiguousarray(pages[:, :-4].T):
        crc = table[(crc ^ column) & 0xFF] ^ (crc >> 8)
    pages[:, -4:] = (crc ^ 0xFFFFFFFF).astype("<u4").view(np.uint8).reshape(-1, 4)


class Wide:
    """Files of 64 KiB pages, for one transaction whose out-of-band records have a fixed length."""

    page_len = 1 << 16
    room = page_len - 4

    def __init__(self) -> None:
        self.data = bytearray(self.page_len)

    def record(self, kind: int, data: bytes) -> tuple[int, int]:
        left = self.room - len(self.data) % self.page_len
        if left < 4 or left > self.room:
            self.data += bytes(-len(self.data) % self.page_len)
        place, at, first = (0, len(self.data)), 0, True
        while first or at < len(data):
            left = self.room - len(self.data) % self.page_len
            if left < 4:
                self.data += b"\xff" * left + bytes(4)
                left = self.room
                place = (0, len(self.data)) if first else place
            piece = data[at : at + left - 3]
            at += len(piece)
            kinds = kind | (0 if first else 0x80) | (0x40 if at == len(data) else 0)
            self.data += struct.pack("<BH", kinds, len(piece)) + piece
            first = False
        return place

    def contents(self) -> bytearray:
        used = len(self.data) % self.page_len
        if 0 < used < self.room:
            self.data += b"\xff" * (self.room - used) + bytes(4)
        numbers = (16, 1, 0, 0, len(self.data) >> 16, 1, 1 << 40, ibb.NONE, ibb.NONE)
        head = struct.pack("<4sIIIQQQQQQ", b"\xfe\xfe\x0d\x01", *numbers)
        head = head.ljust(508, b"\0")
        self.data[:512] = head + struct.pack("<I", ibb.page_crc(head))
        pages = np.frombuffer(self.data, np.uint8).reshape(-1, self.page_len)
        for begin in range(0, len(pages), 512):
            with_checksums(pages[begin : begin + 512])
        return self.data


def large(path: Path, megabytes: int) -> tuple[int, int]:
    """Two transactions of half so many rows events of a megabyte, in records of 700,000 bytes; a short one.

    A third one as large is rolled back; the records of all three lie between each other.

    Returns
    -------
    rows, total : int
        How many, and the sum of their ids.
    """
    many = [{"id": 7, "note": "n" * 2000}] * 500
    *some, after = made_of([many, many, [{"id": 8, "note": "end"}]])
    writer = Wide()
    trees = [ibb.OutOfBand(writer) for _ in range(3)]  # type: ignore[arg-type]
    heads, bodies, commits = [], [], []
    for one in some:
        gtid = int.from_bytes(one[9:13], "little")
        assert one[-27 + 4] == 16
        heads.append(one[:gtid])
        bodies.append(one[gtid:-27])  # a table map and a rows event
        commits.append(one[-27:])
    rest = [b"", b"", b""]
    for _ in range(megabytes // 2):
        for i in range(3):
            rest[i] += bodies[i % 2]
            while len(rest[i]) >= 700_000:
                trees[i].append(rest[i][:700_000])
                rest[i] = rest[i][700_000:]
    for i in range(2):
        trees[i].append(rest[i] + commits[i])
    for i in range(2):
        writer.record(ibb.COMMIT, trees[i].reference() + ibb.packed(0) + heads[i])
    writer.record(ibb.COMMIT, ibb.packed(0) + after)
    path.write_bytes(writer.contents())
    rows = 1000 * (megabytes // 2)
    return rows + 1, 7 * rows + 8


PEAK = """
import re, sys, warnings, binlog_core
from binlog_core.lake.rows.reader import read_split
from binlog_core.splits import plan_splits
warnings.simplefilter("ignore")
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
path, way = sys.argv[1:]

def ids():
    if way == "splits":
        for split in plan_splits(path, 8 << 20):
            for _, batch in read_split(split):
                yield batch["id"].to_pylist()
        return
    options = {"threads": {"threads": 2}, "where": {"where": "id >= 7"}}.get(way, {})
    with binlog_core.open(path, mmap=False, **options) as log:
        for group in log.groups():
            for batch in group.batches:
                yield batch.array["row"]["id"].tolist()

next(ids())
before = peak()
rows = total = 0
for some in ids():
    rows += len(some)
    total += sum(some)
print(rows, total, (peak() - before) / 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has the peak of a process's memory")
def test_memory_of_large_transactions(tmp_path: Path) -> None:
    """The peak after the first rows does not grow with the transactions, whatever reads them."""
    pytest.importorskip("pyarrow")
    peaks: dict[str, list[float]] = {}
    for megabytes in (20, 100):
        path = tmp_path / "binlog-000000.ibb"
        expected = large(path, megabytes)
        assert path.stat().st_size > 1_400_000 * megabytes
        for way in ("groups", "threads", "where", "splits"):
            told = subprocess.run(
                [sys.executable, "-c", PEAK, str(path), way], capture_output=True, text=True, check=True
            )
            rows, total, peak = told.stdout.split()
            assert (int(rows), int(total)) == expected
            peaks.setdefault(way, []).append(float(peak))
    assert {way: some for way, some in peaks.items() if some[1] >= some[0] + 16} == {}  # MB
