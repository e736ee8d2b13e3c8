"""Several threads give what one gives, in its order, with its errors; no thread is left over."""

from __future__ import annotations

import _thread
import datetime as dt
import gzip
import importlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.forged import UUID, log_with_forgery, transactions
from support.golden import Golden, golden_logs
from support.writer import Log, Table

import binlog_core
import binlog_core.batches
import binlog_core.duckdb
from binlog_core import BinlogError, StrictError
from binlog_core.batch.arrow_batch import ArrowBatch
from binlog_core.inspect.summarize import summarize
from binlog_core.log import opening, parts, threaded_pass
from binlog_core.log.passes import Prepared
from binlog_core.log.threaded_pass import ThreadedPass

pytestmark = pytest.mark.filterwarnings(
    "ignore::binlog_core.BinlogWarning", "ignore:.*fork:DeprecationWarning"
)

PART = 400  # bytes: a golden log has dozens
TABLE = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(200)")])


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parts, "PART_BYTES", PART)
    monkeypatch.setattr(parts, "_GROWTH", 1)
    ended: list[bool] = []
    helpers = threaded_pass._Helper._run

    def run(helper: threaded_pass._Helper) -> None:
        ended.append(False)
        number = len(ended) - 1
        try:
            helpers(helper)
        finally:
            ended[number] = True

    monkeypatch.setattr(threaded_pass._Helper, "_run", run)
    yield
    deadline = time.monotonic() + 10
    while not all(ended) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(ended)


def made(count: int = 120) -> bytes:
    log = Log("8.0.36")
    for number in range(count):
        log.gtid(UUID, number + 1)
        log.begin()
        log.insert(TABLE, [{"id": number, "note": "n" * 200}])
        log.commit(number + 1)
    return log.getvalue()


DATA = made()


def report_of(target: Any, threads: int, **options: Any) -> tuple[Any, ...]:
    """Everything that a pass over a log reports."""
    changes: list[Any] = []
    error = None
    with binlog_core.open(target, threads=threads, **options) as log:
        rows = log.rows()
        try:
            changes += rows
        except BinlogError as caught:
            error = type(caught), str(caught)
    report = rows.report
    return changes, error, report.counts, report.first, report.skipped, report.lost_ranges, rows.tail


def check(target: Any, threads: int = 3, **options: Any) -> tuple[Any, ...]:
    one, several = report_of(target, 1, **options), report_of(target, threads, **options)
    if one[1] is not None and one[1][0] is StrictError:
        # Strict mode ends before the group in question, and the groups of parts are smaller.
        (rows, *_), (more, *others) = one, several
        assert more[: len(rows)] == rows
        several = (rows, *others)
    assert several == one
    return one


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each part that is returned or left out: whether it owned something."""
    seen: list[bool] = []
    leave = ThreadedPass._leave

    def noted(self: ThreadedPass, part: Any, **how: Any) -> None:
        seen.append(part.start is None or part.anchor is not None)
        leave(self, part, **how)

    monkeypatch.setattr(ThreadedPass, "_leave", noted)
    return seen


@pytest.mark.parametrize("golden", golden_logs(), ids=str)
def test_same_as_one_thread(golden: Golden) -> None:
    for options in ({}, {"strict": True}):
        check(golden.path, **{**golden.open_arguments, **options})


def test_parts_are_read(left: list[bool]) -> None:
    check(DATA)
    assert sum(left) > 50


def test_order_of_groups_and_where_they_end() -> None:
    """The GTIDs of a position are those of all earlier groups, whichever thread read them."""
    [golden] = golden_logs("mysql97/gtid")

    def places(threads: int) -> list[tuple[int, str]]:
        limits = binlog_core.Limits(group_rows=1)
        with binlog_core.open(golden.path, threads=threads, limits=limits) as log:
            return [(group.resume_position, str(group.position.gtids)) for group in log.groups()]

    one, several = places(1), places(3)
    assert several == sorted(several) and len(several) > 10
    assert set(one) <= set(several) and one[-1] == several[-1] != (0, "None")


@pytest.mark.parametrize("seed", range(8))
def test_damaged_logs(seed: int) -> None:
    rnd = random.Random(seed)
    for golden in rnd.sample(golden_logs("*/dml_*") + golden_logs("*/gtid*") + golden_logs("*/types_*"), 6):
        data = bytearray(Path(golden.path).read_bytes())
        at = rnd.randrange(200, len(data))
        kind = rnd.randrange(4)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] ^= 1 << rnd.randrange(8)
        elif kind == 2:
            del data[at : at + rnd.randrange(1, 300)]
        else:
            data[at:at] = rnd.randbytes(rnd.randrange(1, 100))
        for on_error in ("raise", "skip"):
            check(bytes(data), **{**golden.open_arguments, "on_error": on_error})
        check(bytes(data), **{**golden.open_arguments, "on_error": "skip", "strict": True})


def test_an_error_comes_behind_what_is_good() -> None:
    data = bytearray(DATA)
    data[len(data) // 2] ^= 0xFF
    changes, error, *_ = check(bytes(data))
    assert error is not None and "checksum" in error[1] and 40 < len(changes) < 80


def test_a_cut_tail() -> None:
    *_, tail = check(DATA[:-10])
    assert tail is not None and "ends inside an event" in tail.reason


@pytest.mark.parametrize("strict", [True, False])
def test_a_file_that_is_cut_in_its_descriptor(strict: bool, tmp_path: Path) -> None:
    for number, data in enumerate((DATA, DATA[:60], DATA), 1):
        (tmp_path / f"binlog.{number:06}").write_bytes(data)
    changes, error, *_, tail = check(tmp_path, strict=strict)
    assert tail is not None and tail.offset == 4 and tail.path.endswith("000002")
    assert (error is not None, len(changes)) == ((True, 120) if strict else (False, 240))


@pytest.mark.parametrize("closing", [True, False])
def test_forged_transactions_in_a_blob(closing: bool, left: list[bool]) -> None:
    data, _ = log_with_forgery(closing)
    changes, error, *_ = check(data)
    assert error is None and [change.after["id"] for change in changes] == list(range(1, 9))
    assert len(left) > 10


def test_a_transaction_longer_than_parts() -> None:
    log = Log("8.0.36")
    transactions(log, count=3)
    log.gtid(UUID, 4)
    log.begin()
    for number in range(60):
        log.insert(TABLE, [{"id": number, "note": "n" * 200}])
    log.commit(99)
    log.gtid(UUID, 5)
    log.begin()
    log.insert(TABLE, [{"id": 99, "note": ""}])
    log.commit(100)
    changes, *_ = check(log.getvalue(), limits=binlog_core.Limits(group_rows=2))
    assert len(changes) == 64


def test_a_transaction_that_never_ends() -> None:
    """The next part depends on the one before it: the same thread continues."""
    log = Log("8.0.36")
    for number in range(30):
        log.gtid(UUID, number + 1)
        log.begin()
        log.insert(TABLE, [{"id": number, "note": "n" * 200}])
        if number % 7:
            log.commit(number + 1)
    assert len(check(log.getvalue())[0]) == 30


@pytest.mark.parametrize(
    "options",
    [
        {"start": 10_000, "on_error": "skip"},
        {"stop": 20_000},
        {"tables": "shop.nothing"},
        {"columns": ["id"]},
        {"ops": "delete"},
        {"server_id": 2},
        {"where": "id > 50"},
        {"schema": {"shop.orders": "CREATE TABLE orders (id INT UNSIGNED, note VARCHAR(200))"}},
        {"schema": "ddl"},
        {"verify_checksum": False},
        {"mmap": False},
    ],
    ids=str,
)
def test_options(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes(DATA)
    check(path, **options)


def test_times_and_gtids() -> None:
    [golden] = golden_logs("mysql97/gtid")
    with binlog_core.open(golden.path) as log:
        headers = log.headers()
        stamps = sorted({int(stamp) for stamp in headers["timestamp"] if stamp})
        gtids = [change.gtid for change in log.rows()]
    for stamp in stamps:
        moment = dt.datetime.fromtimestamp(stamp, dt.UTC)
        check(golden.path, start=moment)
        check(golden.path, stop=moment)
    check(golden.path, gtids=str(gtids[len(gtids) // 2]))
    check(golden.path, exclude_gtids=str(gtids[0]))


def test_several_files_of_any_kind(tmp_path: Path) -> None:
    for i in range(1, 6):
        data = made(10 * i)
        name = f"bin.{i:06}"
        if i == 3:
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (tmp_path / name).write_bytes(data)
    assert len(check(tmp_path)[0]) == 150
    assert len(check(tmp_path, start=("bin.000002", 4), stop=("bin.000004", 5000))[0]) > 50
    (tmp_path / "bin.000004").write_bytes(b"\xfebin" + b"?" * 100)
    changes, error, *_ = check(tmp_path)
    assert len(changes) == 60 and error is not None


def test_a_warning_about_a_table_is_given_once() -> None:
    """Although every thread meets its cause."""
    [golden] = golden_logs("mysql56/image_full")
    _, _, counts, *_ = check(golden.path)
    assert counts["unnamed_columns"] > 0


@pytest.mark.parametrize("threads", [0, 1, 2, 7, 40])
def test_numbers_of_threads(threads: int) -> None:
    assert report_of(DATA, threads) == report_of(DATA, 1)


@pytest.mark.parametrize(("threads", "error"), [(-1, ValueError), ("2", TypeError), (True, TypeError)])
def test_wrong_numbers(threads: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="threads="):
        binlog_core.open(DATA, threads=threads)


def test_two_passes_at_once_and_one_ended_early() -> None:
    with binlog_core.open(DATA, threads=2) as log:
        first, second, third = log.rows(), log.rows(), log.rows()
        pairs = list(zip(first, second, strict=True))
        assert len(pairs) == 120 and all(a == b for a, b in pairs)
        assert next(third).after == {"id": 0, "note": "n" * 200}
        third.close()
        assert not threaded_pass._running
        del third


def test_a_pass_that_is_dropped_leaves_no_thread() -> None:
    with binlog_core.open(DATA, threads=2) as log:
        batches = log.batches()
        assert len(next(batches))
        assert len(threaded_pass._running) == 1
        del batches
        assert not threaded_pass._running


def test_numbers_of_threads_are_reused() -> None:
    """A thread that has ended must not be taken for one that has its number now."""
    helper = threaded_pass._Helper(lambda: None)
    helper.start()
    helper.join()
    deadline = time.monotonic() + 10
    while helper.ident is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert helper.ident is None


def test_closing_the_log_ends_its_threads() -> None:
    log = binlog_core.open(DATA, threads=2)
    rows = log.rows()
    next(rows)
    log.close()
    with pytest.raises(BinlogError, match="closed while it was read"):
        list(rows)


@pytest.mark.parametrize("at", range(1, 14))
def test_closing_the_log_while_its_threads_are_awaited(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread closes it. Parts that were not read to their end must not be taken for whole ones."""
    log = binlog_core.open(DATA, threads=2)
    until = ThreadedPass._until
    calls = 0

    def closed(self: ThreadedPass, ready: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            closing = threading.Thread(target=log.close)
            closing.start()
            closing.join()
        until(self, ready)

    monkeypatch.setattr(ThreadedPass, "_until", closed)
    with pytest.raises(BinlogError, match="closed while it was read"):
        list(log.rows())


def test_names_behind_the_stop_are_not_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that are ahead read a new definition there; one thread does not."""
    hand_over = ThreadedPass._hand_over

    def late(self: ThreadedPass, item: Any) -> Any:
        time.sleep(0.01)
        return hand_over(self, item)

    monkeypatch.setattr(ThreadedPass, "_hand_over", late)
    log = Log("8.0.36")
    altered = Table("shop", "orders", [("id", "INT"), ("added", "INT")])
    other = Table("shop", "orderz", [("id", "INT")])
    for number in range(60):
        log.timestamp = 1_700_000_000 + (500 if number == 25 else number)  # a clock that was set back
        log.gtid(UUID, number + 1)
        log.begin()
        if number <= 25:
            log.insert(TABLE, [{"id": number, "note": "n" * 200}])
        else:
            log.insert(altered, [{"id": number, "added": 1}] * 20)
            log.insert(other, [{"id": number}])
        log.commit(number + 1)
    stop = dt.datetime.fromtimestamp(1_700_000_500, dt.UTC)
    changes, error, *_ = check(log.getvalue(), stop=stop, columns={"shop.orders": ["added"]})
    assert len(changes) == 25 and error is not None and "has the columns ['added']" in error[1]
    _, error, counts, first, *_ = check(log.getvalue(), stop=stop, tables=["shop.orderz", "shop.orders"])
    assert error is None and counts == {"unmatched_names": 1}
    assert first["unmatched_names"].detail == "tables='shop.orderz'; near: shop.orders"


def test_who_takes_nothing_fills_no_memory() -> None:
    with binlog_core.open(DATA, threads=2, limits=binlog_core.Limits(group_rows=1)) as log:
        groups = log.groups()
        next(groups)
        [running] = threaded_pass._running
        before = -1
        while before != (before := sum(len(part.items) for part in running._parts)):
            time.sleep(0.1)
        assert len(running._parts) <= 3 and before <= 3 * threaded_pass._WAITING
        groups.close()


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the threads are busy and have nothing to return."""
    busy = threading.Event()
    read = ThreadedPass._read

    def slow(self: ThreadedPass, part: Any, reader: Any) -> Iterator[Any]:
        busy.wait()
        return read(self, part, reader)

    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        busy.set()

    monkeypatch.setattr(ThreadedPass, "_read", slow)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, interrupt)
    try:
        with binlog_core.open(DATA, threads=2) as log:
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                list(log.rows())
    finally:
        signal.signal(signal.SIGINT, before)
        timer.join()


def test_ctrl_c_while_threads_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_thread, "start_new_thread", interrupted)
    with binlog_core.open(DATA, threads=2) as log, pytest.raises(KeyboardInterrupt):
        list(log.groups())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_has_no_part_in_a_pass_but_in_new_ones() -> None:
    with binlog_core.open(DATA, threads=2) as log:
        rows = log.rows()
        first = next(rows)
        if not (child := os.fork()):
            code = 1
            try:
                assert len(list(log.rows())) == 120
                list(rows)
            except BinlogError as error:
                code = 0 if "before this process was forked" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len([first, *rows]) == 120


def test_the_interpreter_ends_with_a_pass_that_was_not_read(tmp_path: Path) -> None:
    (tmp_path / "bin.000001").write_bytes(DATA)
    program = (
        "import binlog_core; from binlog_core.log import parts, threaded_pass;"
        f"parts.PART_BYTES = {PART};"
        "rows = binlog_core.open('bin.000001', threads=2).rows(); next(rows);"
        "print(len(threaded_pass._running))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1\n" and "Error" not in done.stderr


@pytest.mark.parametrize("columns", [None, ["id"]])
def test_arrow_is_made_by_the_threads(columns: list[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all tables, also those whose definition changes in the middle."""
    pytest.importorskip("pyarrow")
    makers = set()
    hold = ArrowBatch.hold

    def noted(self: ArrowBatch) -> None:
        makers.add(threading.get_ident())
        hold(self)

    monkeypatch.setattr(ArrowBatch, "hold", noted)
    limits = binlog_core.Limits(group_rows=3)
    with binlog_core.open(DATA, threads=3, limits=limits) as several, binlog_core.open(DATA) as one:
        found = several.batches("shop.orders", columns).to_arrow()
        assert makers - {threading.get_ident()}
        assert found.equals(one.batches("shop.orders", columns).to_arrow()) and len(found) == 120


def test_arrow_of_a_definition_that_widens() -> None:
    pytest.importorskip("pyarrow")
    log = Log("8.0.36")
    kinds = ["INT", "INT", "TINYINT", "INT", "SMALLINT"]
    for number in range(60):
        log.gtid(UUID, number + 1)
        log.begin()
        log.insert(Table("shop", "orders", [("id", kinds[number // 12])]), [{"id": number}])
        log.commit(number + 1)
    data = log.getvalue()
    with binlog_core.open(data, threads=3) as several, binlog_core.open(data) as one:
        # A group has its rows definition by definition, and threads make other groups.
        found, expected = (log.batches().to_arrow().sort_by("_position") for log in (several, one))
        assert found.equals(expected) and found["id"].to_pylist() == list(range(60))


def test_an_error_of_arrow_comes_at_its_place() -> None:
    pytest.importorskip("pyarrow")
    log = Log("8.0.36")
    table = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(9)", {"collation": 255})])
    for number in range(60):
        log.gtid(UUID, number + 1)
        log.begin()
        log.insert(table, [{"id": number, "note": b"\xff" if number == 30 else "a"}])
        log.commit(number + 1)
    errors = []
    for threads in (1, 3):
        with binlog_core.open(log.getvalue(), threads=threads) as opened:
            stream = opened.batches().stream()
            _, found = stream.parts()
            rows = 0
            with pytest.raises(BinlogError) as caught:
                for part in found:
                    rows += part.to_pyarrow().num_rows
            errors.append((threads == 1 or rows >= 25, caught.value.offset, caught.value.column))
    assert errors[0] == errors[1]


def test_who_takes_the_groups_is_one_of_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    taker = threading.get_ident()
    readers: set[bool] = set()  # whether it is the one
    items = parts.PartReader.items

    def noted(self: Any, part: Any) -> Iterator[Any]:
        readers.add(threading.get_ident() == taker)
        return items(self, part)

    monkeypatch.setattr(parts.PartReader, "items", noted)
    for _ in range(50):  # now and then one of them is done before the other has begun
        check(DATA, threads=2)
        if len(readers) == 2:
            break
    assert readers == {True, False}


def test_threads_share_plans_and_what_batches_are_asked_for() -> None:
    pytest.importorskip("pyarrow")
    log = Log("8.0.36")
    for number in range(200):
        log.gtid(UUID, number + 1)
        log.begin()
        log.insert(TABLE, [{"id": number, "note": "n" * 9}] * 300)
        log.commit(number + 1)
    with binlog_core.open(log.getvalue(), threads=3, limits=binlog_core.Limits(group_rows=600)) as opened:
        batches = []
        for batch in opened.batches():
            assert batch.to_arrow().num_rows == len(batch)
            batches.append(batch)
    assert len({id(batch.plan) for batch in batches}) == 1
    assert sum(batch.run_list is not None for batch in batches) > len(batches) // 2


@pytest.mark.parametrize("door", ["summarize", "duckdb", "info", "rows"])
def test_all_processors_by_default(door: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    used = []
    groups = ThreadedPass.groups

    def noted(self: ThreadedPass) -> Iterator[Any]:
        used.append(self._settings.threads)
        return groups(self)

    monkeypatch.setattr(ThreadedPass, "groups", noted)
    monkeypatch.setattr(opening, "processors", lambda: 3)
    path = tmp_path / "bin.000001"
    path.write_bytes(DATA)
    if door == "summarize":
        assert summarize(path).files[0].path == str(path)
        with binlog_core.open(path) as log:  # which was opened for one thread
            summarize(log)
    elif door == "duckdb":
        connection = pytest.importorskip("duckdb").connect()
        binlog_core.duckdb.register(connection, path)
        assert connection.execute("SELECT count(*) FROM changes('shop.orders')").fetchall() == [(120,)]
    else:
        cli = pytest.importorskip("typer.testing").CliRunner()
        assert (
            cli.invoke(importlib.import_module("binlog_core.cli.app").app, [door, str(path)]).exit_code == 0
        )
    assert used and set(used) == {3}


def test_a_log_of_many_tables_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups would be shorter, and each of their batches has a fixed cost."""
    log = Log("8.0.36")
    for number in range(1000):
        log.gtid(UUID, number + 1)
        log.begin()
        log.insert(Table("shop", f"orders_{number % 150}", [("id", "INT")]), [{"id": number}])
        log.commit(number + 1)
    data = log.getvalue()
    monkeypatch.setattr(parts, "PART_BYTES", len(data) // 5)
    check(data)
    with binlog_core.open(data, threads=2) as opened:
        assert sum(1 for _ in opened.batches()) == 150 + 150  # of the first part, and of the rest


def test_a_stream_of_a_table_that_is_altered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads fit its later batches to the stream's columns, each once, and none is kept."""
    seen: list[Any] = []

    class Noted(Prepared[Any]):
        def __init__(self, make: Any) -> None:
            super().__init__(lambda batch: (asked.append(batch), make(batch))[1])
            seen.append(self)

    asked: list[Any] = []
    monkeypatch.setattr("binlog_core.log.batches.Prepared", Noted)
    altered = Table("shop", "orders", [("id", "INT")])
    log = Log("8.0.36")
    for number in range(120):
        log.gtid(UUID, number + 1)
        log.begin()
        if number < 60:
            log.insert(TABLE, [{"id": number, "note": "n" * 200}])
        else:
            for _ in range(6):
                log.insert(altered, [{"id": number}])
        log.commit(number + 1)
    with binlog_core.open(log.getvalue(), threads=3) as opened:
        table = opened.batches("shop.orders").to_arrow(change_columns=False)
    assert table.column("id").to_pylist() == [*range(60), *(n for n in range(60, 120) for _ in range(6))]
    assert table.column("note").null_count == 360
    [prepared] = seen
    assert not prepared._made
    assert len({id(batch) for batch in asked}) == len(asked) > 100
