"""Threads, processes, signals, and files that change while they are read."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.golden import golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core import BinlogError
from binlog_core._core import _columns, _rows

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

TABLE = Table("shop", "orders", [("id", "INT UNSIGNED"), ("name", "VARCHAR(300)")])


def a_log(transactions: int, rows: int = 1) -> bytes:
    log = Log()
    for number in range(transactions):
        log.begin()
        log.insert(TABLE, [{"id": number * rows + i, "name": "x" * (i % 200)} for i in range(rows)])
        log.commit()
    return log.getvalue()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("logs") / "bin.000001"
    file.write_bytes(a_log(300, 20))
    return file


def ids(log: binlog_core.Log) -> list[int]:
    return [change.after["id"] for change in log.rows() if change.after is not None]


# ---------------------------------------------------------------- closing


@pytest.mark.parametrize("mmap", [True, False])
def test_closed_twice_and_used_after(path: Path, mmap: bool) -> None:
    log = binlog_core.open(path, mmap=mmap)
    log.close()
    log.close()
    for use in (
        log.headers,
        lambda: next(log.events()),
        lambda: next(log.groups()),
        lambda: next(log.rows()),
        lambda: next(log.batches()),
    ):
        with pytest.raises(BinlogError, match="closed"):
            use()
    assert log.format.binlog_version == 4  # what is known stays known
    assert "bin.000001" in repr(log)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("way", ["rows", "groups", "events"])
def test_an_iterator_after_close_ends_or_raises(path: Path, mmap: bool, way: str) -> None:
    """Close during a pass: returned batches stay valid, and later ones are right or an error."""
    log = binlog_core.open(path, mmap=mmap, limits=binlog_core.Limits(group_rows=10))
    passing = iter(getattr(log, way)())
    first = next(passing)
    log.close()
    with pytest.raises(BinlogError, match="closed"):
        for _ in passing:
            pass
    repr(first)


def test_batches_of_a_closed_log_can_be_read(path: Path) -> None:
    log = binlog_core.open(path, mmap=True)
    batch = next(log.batches())
    log.close()
    del log
    assert len(batch.to_pylist()) == len(batch) > 0


# ---------------------------------------------------------------- threads


@pytest.mark.parametrize("mmap", [True, False])
def test_logs_of_their_own_in_threads(path: Path, mmap: bool) -> None:
    def read(_: int) -> list[int]:
        with binlog_core.open(path, mmap=mmap) as log:
            return ids(log)

    with ThreadPoolExecutor(4) as pool:
        assert set(map(tuple, pool.map(read, range(8)))) == {tuple(range(6000))}


def test_one_log_with_a_mapping_in_threads(path: Path) -> None:
    """Passes of one Log are independent: each has its own decoder. The report is that of the last pass."""
    with binlog_core.open(path, mmap=True) as log, ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: ids(log), range(8)):
            assert got == list(range(6000))


def test_one_iterator_in_two_threads_raises_and_does_not_crash(path: Path) -> None:
    """A generator runs in one thread at a time; the other gets an error."""
    with binlog_core.open(path, mmap=True, limits=binlog_core.Limits(group_rows=5)) as log:
        rows = log.rows()
        seen: list[int] = []
        refused: list[BaseException] = []

        def take() -> None:
            try:
                for change in rows:
                    assert change.after is not None
                    seen.append(change.after["id"])
            except ValueError as error:  # Python's own: generator already executing
                refused.append(error)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == sorted(set(seen))
        assert all("already executing" in str(error) for error in refused)


def _in_child(path: str, log: binlog_core.Log | None, out: Any) -> None:
    out.put(ids(log) if log is not None else None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_while_open(path: Path) -> None:
    """A child has the mapping too. A file read piece by piece shares its offset: both cannot use it."""
    with binlog_core.open(path, mmap=True) as log:
        passing = log.rows()
        next(passing)
        context = multiprocessing.get_context("fork")
        out = context.Queue()
        child = context.Process(target=_in_child, args=(str(path), log, out))
        child.start()
        assert out.get(timeout=60) == list(range(6000))
        child.join()
        assert child.exitcode == 0
        assert len(list(passing)) == 5999


# ---------------------------------------------------------------- pickling


def test_a_log_cannot_be_pickled_and_says_why(path: Path) -> None:
    with binlog_core.open(path) as log, pytest.raises(TypeError, match="Log"):
        pickle.dumps(log)


def test_what_a_log_gives_can_be_pickled(path: Path) -> None:
    with binlog_core.open(path) as log:
        batch = next(log.batches())
        change = next(log.rows())
    again = pickle.loads(pickle.dumps(batch))
    assert again.to_pylist() == batch.to_pylist()
    assert pickle.loads(pickle.dumps(batch.table)) == batch.table
    assert pickle.loads(pickle.dumps(batch.columns[0])) == batch.columns[0]
    assert pickle.loads(pickle.dumps(change)) == change
    error = binlog_core.DecodeError("wrong", path="a", offset=4, type_code=30, table="t", column="c")
    again_error = pickle.loads(pickle.dumps(error))
    assert (str(again_error), again_error.offset, again_error.column) == (str(error), 4, "c")
    assert pickle.loads(pickle.dumps(binlog_core.Limits(group_rows=3))).group_rows == 3


# ---------------------------------------------------------------- signals

READ = """
import signal, sys
import binlog_core
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without
print("ready", flush=True)
try:
    while True:
        with binlog_core.open(sys.argv[1]) as log:
            for _ in log.groups(tables=sys.argv[2]):
                pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process there")
@pytest.mark.parametrize("tables", ["shop.*", "none.*"])
def test_ctrl_c_stops_a_long_decode(tmp_path: Path, tables: str) -> None:
    """Also where no table is wanted and no group ever comes."""
    data = a_log(50, 200)
    head = len(Log().getvalue())
    (tmp_path / "long").write_bytes(data + data[head:] * (200_000_000 // (len(data) - head)))
    child = subprocess.Popen(
        [sys.executable, "-c", READ, str(tmp_path / "long"), tables], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    asked = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=30)[0] == "interrupted\n"
    assert time.monotonic() - asked < 5


# ---------------------------------------------------------------- files that change


def test_a_file_that_shrinks_while_it_is_read_ends_there(tmp_path: Path) -> None:
    file = tmp_path / "bin.000001"
    data = a_log(60_000)
    file.write_bytes(data)
    with binlog_core.open(file, mmap=False, limits=binlog_core.Limits(group_rows=100)) as log:
        groups = log.groups()
        first = next(groups)
        os.truncate(file, len(data) // 2)
        rest = list(groups)
        seen = sum(len(batch) for group in [first, *rest] for batch in group.batches)
        assert 0 < seen < 60_000
        assert log.tail is None or log.tail.offset <= len(data) // 2


def test_a_mapped_file_that_shrinks_is_noticed_before_the_next_group(tmp_path: Path) -> None:
    """Between two groups the size is looked at again; only within one can the system's SIGBUS come first."""
    file = tmp_path / "bin.000001"
    data = a_log(60_000)
    file.write_bytes(data)
    with binlog_core.open(file, mmap=True, limits=binlog_core.Limits(group_rows=100)) as log:
        groups = log.groups()
        next(groups)
        os.truncate(file, 4096)
        with pytest.raises(BinlogError, match="shrank"):
            list(groups)


def test_golden_logs_read_the_same_in_threads() -> None:
    goldens = golden_logs("mysql97/types_*", max_bytes=30_000)

    def read(golden: Any) -> list[Any]:
        with binlog_core.open(golden.path, **golden.open_arguments) as log:
            return [(c.op, c.before, c.after) for c in log.rows()]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, goldens)) == [read(golden) for golden in goldens]


# ---------------------------------------------------------------- the pool of blocks


@pytest.fixture
def held_pools() -> Iterator[None]:
    """Both pools, as if another thread held their locks."""
    for module in (_rows, _columns):
        module.hold_pool(True)
    try:
        yield
    finally:
        for module in (_rows, _columns):
            module.hold_pool(False)


def test_no_reader_waits_for_the_pool(path: Path, held_pools: None) -> None:
    with binlog_core.open(path) as log:
        assert ids(log) == list(range(6000))
        assert sum(batch.to_arrow().num_rows for batch in log.batches()) == 6000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_while_another_thread_is_in_the_pool(path: Path, held_pools: None) -> None:
    """In the child nothing would release the lock: it does not have that thread."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with binlog_core.open(path) as log:
                code = ids(log) != list(range(6000)) or sum(len(batch) for batch in log.batches()) != 6000
        finally:
            os._exit(code)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
