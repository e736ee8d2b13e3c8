"""Passes over one log at the same time: each has its own place, report and tail."""

from __future__ import annotations

import gzip
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.golden import golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core import BinlogError

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(200)")])
OTHER = Table("shop", "items", [("id", "INT")])
COUNT = 120
ENCRYPTED = golden_logs("*/encrypted")


def made(*, in_use: bool = False, first: int = 0, count: int = COUNT) -> bytes:
    log = Log("8.0.36", in_use=in_use)
    for number in range(first, first + count):
        log.begin()
        log.insert(TABLE, [{"id": number, "note": "n" * 200}])
        log.insert(OTHER, [{"id": -number}])
        log.commit(number + 1)
    return log.getvalue()


DATA = made()
LIMITS = binlog_core.Limits(group_rows=16)


class Pipe(io.RawIOBase):
    """Cannot seek."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(size)


def plain(folder: Path) -> Any:
    (folder / "bin.000001").write_bytes(DATA)
    return folder / "bin.000001"


def packed(folder: Path) -> Any:
    (folder / "bin.000001.gz").write_bytes(gzip.compress(DATA))
    return folder / "bin.000001.gz"


def in_use(folder: Path) -> Any:
    (folder / "bin.000001").write_bytes(made(in_use=True))
    return folder / "bin.000001"


KINDS: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "mapped": (plain, {}),
    "read": (plain, {"mmap": False}),
    "gzip": (packed, {}),
    "in use": (in_use, {}),
    "URL": (lambda folder: plain(folder).as_uri(), {"mmap": False}),
    "bytes": (lambda _: DATA, {}),
    "file object": (lambda _: io.BytesIO(DATA), {}),
}


def opened(kind: str, folder: Path, **options: Any) -> binlog_core.Log:
    target, more = KINDS[kind]
    return binlog_core.open(target(folder), limits=LIMITS, **more, **options)


def ids(changes: Any) -> list[int]:
    return [change.after["id"] for change in changes if change.table == "orders"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_within_a_pass_loses_nothing(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path) as log:
        headers = log.headers().tolist()
        rows = 0
        for number, batch in enumerate(log.batches()):
            rows += len(batch)
            if number % 5 == 1:
                assert log.headers().tolist() == headers
                assert sum(1 for _ in log.events()) == len(headers)
        assert rows == 2 * COUNT


@pytest.mark.parametrize("kind", KINDS)
def test_two_passes_in_turn(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path) as log:
        pairs = list(zip(log.rows("shop.orders"), log.rows("shop.items"), strict=True))
    assert [(a.after["id"], b.after["id"]) for a, b in pairs] == [(n, -n) for n in range(COUNT)]


@pytest.mark.parametrize("kind", KINDS)
def test_passes_in_threads(kind: str, tmp_path: Path) -> None:
    found: list[list[int]] = []
    with opened(kind, tmp_path) as log:
        threads = [threading.Thread(target=lambda: found.append(ids(log.rows()))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [list(range(COUNT))] * 4


@pytest.mark.parametrize("golden", ENCRYPTED, ids=str)
def test_two_passes_over_an_encrypted_log(golden: Any) -> None:
    with binlog_core.open(golden.path, keys=golden.keys) as log:
        first = list(log.rows())
        assert [a == b for a, b in zip(log.rows(), log.rows(), strict=True)] == [True] * len(first)


@pytest.mark.parametrize(
    "make", [lambda data, _: Pipe(data), lambda data, folder: _fifo(data, folder)], ids=["object", "path"]
)
def test_what_can_be_read_once_says_so_at_the_second_pass(make: Any, tmp_path: Path) -> None:
    with binlog_core.open(make(DATA, tmp_path)) as log:
        assert log.size is None
        assert ids(log.rows()) == list(range(COUNT))
        for again in (log.rows(), log.events(), log.batches(), log.header_chunks()):
            with pytest.raises(BinlogError, match="only once"):
                next(again)


def _fifo(data: bytes, folder: Path) -> Path:
    path = folder / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(data,)).start()
    return path


def test_each_pass_has_its_own_report() -> None:
    log = Log("8.0.36")
    log.begin()
    log.insert(TABLE, [{"id": 1, "note": ""}])
    log.query("INSERT INTO orders VALUES (1)", database="shop")
    log.query("INSERT INTO orders VALUES (2)", database="shop")
    log.commit()
    with binlog_core.open(log.getvalue(), strict=False) as opened_log:
        rows = opened_log.rows()
        assert len(list(rows)) == 1
        events = opened_log.events()
        list(events)
        assert rows.report.statement_changes == 2
        assert events.report.statement_changes == 0
        assert opened_log.report is events.report
        batches = opened_log.batches()
        list(batches)
        assert batches.report.statement_changes == 2 and opened_log.report is batches.report


def passes(log: binlog_core.Log) -> dict[str, Any]:
    return {
        "headers": log.header_chunks(),
        "events": log.events(),
        "groups": log.groups(),
        "batches": log.batches(),
        "rows": log.rows(),
    }


@pytest.mark.parametrize("name", ["headers", "events", "groups", "batches", "rows"])
@pytest.mark.parametrize("kind", ["mapped", "read"])
def test_every_pass_tells_the_tail(kind: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes(DATA[:-20])
    with binlog_core.open(path, mmap=kind == "mapped") as log:
        last = int(log.headers()[-1]["position"]) + int(log.headers()[-1]["event_length"])
        one = passes(log)[name]
        list(one)
        assert one.tail is not None and log.tail == one.tail
        assert (one.tail.offset, one.tail.reason) == (
            last,
            f"the file ends inside an event, after {len(DATA) - 20 - last} bytes of it",
        )
        whole = log.rows("none.of_these")
        list(whole)
        assert whole.tail == one.tail


@pytest.mark.parametrize("name", ["headers", "events", "groups", "batches", "rows"])
@pytest.mark.parametrize("mmap", [True, False])
def test_closing_ends_every_pass_over_every_file(mmap: bool, name: str, tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"bin.00000{number}").write_bytes(DATA)
    log = binlog_core.open(tmp_path, mmap=mmap, limits=LIMITS)
    within_first, within_second = passes(log)[name], passes(log)[name]
    next(within_first)
    second = len(list(passes(log)[name])) // 2 + 1
    for _ in range(second):
        next(within_second)
    log.close()
    for one in (within_first, within_second):
        with pytest.raises(BinlogError, match="closed"):
            list(one)
    with pytest.raises(BinlogError, match="closed"):
        list(passes(log)[name])


def test_closing_ends_the_log_of_each_file(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"bin.00000{number}").write_bytes(DATA)
    log = binlog_core.open(tmp_path)
    each = log.each_file()
    next(each)
    rows = next(each).rows()
    next(rows)
    log.close()
    with pytest.raises(BinlogError, match="closed"):
        list(rows)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="Linux tells which files are open")
def test_a_pass_that_is_left_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes(DATA)

    def open_files() -> int:
        links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
        return sum(os.path.exists(link) and os.path.samefile(link, path) for link in links)

    with binlog_core.open(path, mmap=False) as log:
        list(log.rows())
        assert open_files() == 0
        rows, events = log.rows(), log.events()
        next(rows), next(events)
        assert open_files() == 2
        del rows
        events.close()
        assert open_files() == 0
        with log.rows() as kept:
            next(kept)
        assert open_files() == 0
        left = log.rows()
        next(left)
    assert open_files() == 0
