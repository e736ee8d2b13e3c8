"""Cost of the mirror, stage by stage:

    BINLOG_CORE_TEST_SERVER=mysql://root@127.0.0.1 python benchmarks/bench_mirror.py copy [MEGABYTES]
    python benchmarks/bench_mirror.py catch-up [MEGABYTES [MEGABYTES OF A ROUND]]
    python benchmarks/bench_mirror.py tables [MEGABYTES [TABLES]]

copy
    A table's initial copy over one connection, against a loop that only receives the same rows. They
    alternate; the best of five rounds counts.
catch-up
    A mirror brings a table up to date with a log of sysbench: changes a second, CPU by stage, and the
    driver's peak of anonymous memory, beside the JVM. `apply_alone.py` has `apply_changes` on the same log.
tables
    The same rows in ten tables, and in this many; and what deltalake itself takes to append a row to a table.
first [TABLES [TABLES]]
    First copies of so many tables of two rows each, 300 and 1,000, from the server: CPU a table; and then of
    a run after one row was changed in one of them.
round [TABLES [TABLES]]
    A mirror that runs, of so many tables, 300 and 3,000: CPU of each round in which one row of one table was
    changed, and of as many seconds without a change; its peak of anonymous memory.

Threads of this process do the work; with BINLOG_BENCH_SPARK=1 Spark's workers do.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from bench_spark import cpu_seconds, descendants
from support.writer import Table

from binlog_core.errors import BinlogError
from binlog_core.lake.runner import LocalRunner, Runner
from binlog_core.lake.tables.table import App
from binlog_core.mirror.copies import Copier, CopyChunk, batches_of, commit_copy, plan_copy
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.marks import identity
from binlog_core.mirror.mirroring import Mirroring
from binlog_core.mirror.state import TableState, new_state
from binlog_core.mirror.values import SelectList, set_for_reading
from binlog_core.schema.given import parse_create_table
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection
from memory import anonymous, peak

ROUNDS = 5
ROUND_CHANGES = 40  # each a round of its own
DATABASE = "mirror_bench"
_QUERY = 3
_END = 9  # bytes of the packet that ends a result set
_GROUP = ", LPAD(FLOOR(RAND() * 1e11), 11, '0')"
TABLES = {
    "sysbench": (
        "id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL",
        f"NULL, RAND() * 1e6, CONCAT_WS('-'{_GROUP * 10}), CONCAT_WS('-'{_GROUP * 5})",
    ),
    "lineitem": (
        "id BIGINT PRIMARY KEY AUTO_INCREMENT, part BIGINT, supplier INT, number TINYINT,"
        " quantity DECIMAL(15,2), price DECIMAL(15,2), discount DECIMAL(15,2), tax DECIMAL(15,2),"
        " flag CHAR(1), status CHAR(1), ship DATE, commit DATE, receipt DATETIME(3),"
        " instruct ENUM('COLLECT COD', 'NONE', 'TAKE BACK RETURN'), mode VARCHAR(10), comment VARCHAR(44)",
        "NULL, RAND() * 2e5, RAND() * 1e4, 1 + RAND() * 6, RAND() * 50, RAND() * 1e5, RAND() / 10,"
        " RAND() / 12, CHAR(65 + RAND() * 3), 'O', '1992-01-01' + INTERVAL RAND() * 2500 DAY,"
        " '1992-01-01' + INTERVAL RAND() * 2500 DAY, '1992-01-01' + INTERVAL RAND() * 2e8 SECOND,"
        " 1 + RAND() * 2, ELT(1 + RAND() * 4, 'AIR', 'RAIL', 'SHIP', 'TRUCK'), LEFT(SHA2(RAND(), 256), 40)",
    ),
}


def prepare(server: Connection, name: str, size: int) -> None:
    """Fill a table until the server says that it has this many bytes."""
    columns, values = TABLES[name]
    server.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    server.query(f"CREATE TABLE IF NOT EXISTS {DATABASE}.{name} ({columns}) CHARSET utf8mb4")
    server.query(f"INSERT INTO {DATABASE}.{name} SELECT {values} LIMIT 1")
    server.query(f"ANALYZE TABLE {DATABASE}.{name}")
    known = f"SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_NAME = '{name}'"
    while int(server.query(known)[0][0] or 0) < size:
        server.query(f"INSERT INTO {DATABASE}.{name} SELECT {values} FROM {DATABASE}.{name}", patience=600)
        server.query(f"ANALYZE TABLE {DATABASE}.{name}", patience=600)


def receive(address: Address, sql: str) -> int:
    """Receive a result set into one buffer, looking only at its end."""
    buffer, got = memoryview(bytearray(4 << 20)), 0
    with Connection(address) as connection:
        set_for_reading(connection)
        connection.command(_QUERY, sql.encode())
        sock = connection.take_socket()
        sock.setblocking(True)
        last = b""
        while True:
            count = sock.recv_into(buffer)
            got += count
            last = (last + bytes(buffer[max(count - _END, 0) : count]))[-_END:]
            if len(last) == _END and last[:3] == b"\5\0\0" and last[4] == 0xFE:
                return got


class Server:
    """The server's own CPU seconds, where it runs on this machine."""

    def __init__(self, server: Connection) -> None:
        path = Path(server.variables(["pid_file"])["pid_file"])
        if not path.is_absolute():
            path = Path(server.variables(["datadir"])["datadir"]) / path
        self._stat = Path(f"/proc/{path.read_text().strip()}/stat") if path.exists() else None

    def seconds(self) -> float:
        if self._stat is None:
            return float("nan")
        user, system = self._stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def copy(address: Address, size: int) -> None:
    for name in TABLES:
        with Connection(address) as connection:
            prepare(connection, name, size)
            planned = plan_copy(connection, TableState(DATABASE, name), {}, mariadb=True)
            server = Server(connection)
            facts = connection.facts()
            told = identity(facts.uuid, facts.server_id)
        selection = SelectList.of(parse_create_table(planned.definition, DATABASE, name), mariadb=True)
        sql = f"SELECT {', '.join(selection.expressions)} FROM {DATABASE}.{name}"
        with tempfile.TemporaryDirectory() as folder:
            ways: dict[str, Callable[[], int]] = {
                "receive": partial(receive, address, sql),
                "into Arrow": partial(into_arrow, address, sql, selection),
                "copied": partial(copied, address, folder, name, told, selection),
            }
            best: dict[str, tuple[float, float, float]] = {}
            got: dict[str, int] = {}
            for _ in range(ROUNDS):
                for way, run in ways.items():
                    begun, cpu, theirs = time.perf_counter(), time.process_time(), server.seconds()
                    got[way] = run()
                    took = (
                        time.perf_counter() - begun,
                        time.process_time() - cpu,
                        server.seconds() - theirs,
                    )
                    best[way] = tuple(map(min, best.get(way, took), took))  # type: ignore[assignment]
        print(f"{name}: {got['copied']:,} rows, {got['receive'] >> 20} MB as sent")
        for way, (seconds, cpu, theirs) in best.items():
            print(
                f"  {way:12}{got['receive'] / seconds / 1e6:7.0f} MB/s  {best['receive'][0] / seconds:5.2f}"
                f"  CPU ms a MB: {cpu * 1e9 / got['receive']:6.2f} here,"
                f" {theirs * 1e9 / got['receive']:6.2f} the server's"
            )


def into_arrow(address: Address, sql: str, selection: SelectList) -> int:
    with Connection(address) as connection:
        set_for_reading(connection)
        return sum(batch.num_rows for batch in batches_of(connection, sql, selection))


def copied(address: Address, folder: str, name: str, server: str, selection: SelectList) -> int:
    chunk = CopyChunk(name, f"{folder}/{name}", 0, "bench", server, selection, "")
    (done,) = Copier(address, address.password, folder)([chunk])
    assert not isinstance(done.result, BinlogError), done.result
    return done.result.rows


# ---------------------------------------------------------------- catching up


class Stages:
    """CPU seconds by stage: of all processes, and of the driver alone."""

    def __init__(self) -> None:
        self.spent: dict[str, tuple[float, float]] = {}

    def timed(self, owner: Any, name: str, what: str) -> None:
        """Count the time that a function takes; the reader subtracts inner functions."""
        real = getattr(owner, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            before = cpu_seconds(), time.process_time()
            try:
                return real(*args, **kwargs)
            finally:
                known = self.spent.get(what, (0.0, 0.0))
                self.spent[what] = (
                    known[0] + cpu_seconds() - before[0],
                    known[1] + time.process_time() - before[1],
                )

        setattr(owner, name, run)


def created(table: Table) -> str:
    """The CREATE TABLE statement of a table in the log."""
    columns = ", ".join(f"`{one.name}` {one.declared}" for one in table.columns)
    return f"CREATE TABLE `{table.name}` ({columns}, PRIMARY KEY ({', '.join(table.primary_key)}))"


def mirrored(
    runner: Runner, log: Path, tables: Sequence[Table], folder: Path, *, watched: bool = True
) -> dict[str, Any]:
    """Catch up with a log from empty tables; `watched`: look at the memory, which takes time of its own."""
    archive = folder / "archive"
    archive.mkdir()
    (archive / "bench.000001").symlink_to(log)
    lake, state = Lake(str(folder / "lake")), new_state("mysql://bench", ("*",), str(archive))
    found = [parse_create_table(created(one), one.database, one.name) for one in tables]
    states = [TableState(one.database, one.name, "following") for one in tables]
    state.tables = {one.full_name: one for one in states}
    stages = Stages()
    nothing: Any = None  # everything is in the archive
    work = Mirroring(runner, lake, state, Address.of("mysql://bench"), nothing, threading.Event())
    plan = work.plan(states)
    begin = plan.begin((0, 4), found, {one.database: "utf8mb4" for one in tables})
    place = plan.version(begin)
    state.offsets[place] = begin
    for one, definition in zip(states, found, strict=True):
        one.place = place
        schema = SelectList.of(definition, mariadb=True).schema
        commit_copy(lake.opened(one), schema, [], App(state.id, place), {})
    runner.map(str, range(2))  # the workers are there
    with monkeypatched(stages):
        base, begun, cpu = anonymous(), time.perf_counter(), cpu_seconds()
        most = workers = [0]
        with ExitStack() as watching:
            if watched:
                most = watching.enter_context(peak(0.01))
                workers = watching.enter_context(peak(0.5, largest_worker))
            work.replay(None, time.time())
        seconds, cpu = time.perf_counter() - begun, cpu_seconds() - cpu
    assert all(one.stage == "following" and one.place != place for one in states), states[0]
    return {
        "seconds": seconds,
        "cpu": cpu,
        "stages": stages.spent,
        "before": base,
        "peak": most[0],
        "workers": workers[0],
    }


def largest_worker() -> int:
    """Bytes of anonymous memory of the largest Python process that Spark has started."""
    found = [0]
    for pid, name, _ in descendants():
        if pid != os.getpid() and name != "java":
            with suppress(OSError, IndexError):  # it has ended
                found.append(anonymous(pid))
    return max(found)


@contextmanager
def monkeypatched(stages: Stages) -> Iterator[None]:
    kept = Mirroring._decoded, Mirroring._apply_each
    stages.timed(Mirroring, "_decoded", "decode")
    stages.timed(Mirroring, "_apply_each", "apply")
    try:
        yield
    finally:
        Mirroring._decoded, Mirroring._apply_each = kept  # type: ignore[method-assign]


def told(name: str, images: int, found: dict[str, Any]) -> None:
    stages = ", ".join(
        f"{what} {cpu:.1f} ({own:.1f} the driver's)" for what, (cpu, own) in found["stages"].items()
    )
    print(
        f"{name}: {images:,} images, {images / found['seconds']:,.0f} a second; CPU {found['cpu']:.1f} s,"
        f" {found['cpu'] / images * 1e6:.2f} us an image: {stages}",
        f"; driver {found['peak'] >> 20} MB, before {found['before'] >> 20} MB; the largest worker"
        f" {found['workers'] >> 20} MB"
        if found["peak"]
        else "",
        sep="",
        flush=True,
    )


def catch_up(size: int, round_mb: int) -> None:
    from logs import bench_log
    from workloads import SBTEST

    from binlog_core.mirror import mirroring

    mirroring._ROUND_BYTES = round_mb << 20
    log = bench_log("sysbench", size)
    with workers() as runner:
        for name in ("cold", "warm", "warm", "warm"):  # the JVM, which compiles all the time
            with tempfile.TemporaryDirectory() as folder:
                found = mirrored(runner, log.path, [SBTEST], Path(folder), watched=name == "cold")
                told(name, log.answer.images, found)


def tables(size: int, count: int) -> None:
    from many_tables import _SHAPES, _Pool, _table
    from workloads import WRITE, Maker

    with workers() as runner:
        for number in (10, 10, count):  # the first warms the JVM
            defs = [_table("bench", f"t{i:05d}", _SHAPES[1]) for i in range(number)]
            make = Maker(size * 10**6)
            pool = _Pool(defs[0], random.Random(16), 1000)
            i = 0
            while not make.full:
                make.begin()
                make.statement(
                    "INSERT", defs[i % number], WRITE, [pool.images[(i * 7 + k) % 1000] for k in range(50)]
                )
                make.commit()
                i += 1
            make.log.rotate("bench.000002")
            with tempfile.TemporaryDirectory() as folder:
                log = Path(folder) / "log"
                log.write_bytes(make.log.getvalue())
                told(f"{number} tables", make.answer.images, mirrored(runner, log, defs, Path(folder)))
    alone, together = (cpu * 1e3 for cpu in appended(min(count, 200)))
    print(f"deltalake appends a row: {alone:.1f} ms CPU a table, eight at a time {together:.1f}")


def appended(count: int) -> tuple[float, float]:
    """CPU seconds per table in which deltalake appends one row: one after another, and eight at a time."""
    import pyarrow as pa
    from deltalake import write_deltalake

    row = pa.table({"id": [1], "note": ["x" * 20], "amount": [1.5]})
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(8) as pool:
        names = [f"{folder}/t{i}" for i in range(count)]
        took = []
        for run in (map, map, pool.map):  # the first makes them
            cpu = time.process_time()
            list(run(partial(write_deltalake, data=row, mode="append"), names))
            took.append((time.process_time() - cpu) / count)
    return took[1], took[2]


def first(server: str, *counts: int) -> None:
    from binlog_core.mirror import mirror

    took: list[float] = []
    with Connection(Address.of(server, {"ssl_mode": "DISABLED"})) as connection, workers() as runner:
        for count in made(connection, counts):
            with tempfile.TemporaryDirectory() as folder:
                for what in ("first copy", "one row"):
                    begun, cpu = time.perf_counter(), cpu_seconds()
                    found = mirror(server, folder, tables=f"{DATABASE}_first.*", until="now", runner=runner)
                    assert len(found) == count
                    assert {one.stage for one in found} == {"following"}
                    seconds, cpu = time.perf_counter() - begun, cpu_seconds() - cpu
                    each = cpu / count * 1e3
                    print(
                        f"{what}, {count:,} tables: {cpu:.2f} s CPU, {each:.1f} ms a table, {seconds:.1f} s"
                    )
                    took.append(cpu / count)
                    connection.query(f"UPDATE {DATABASE}_first.t00000 SET k = k + 1 WHERE id = 1")
    print(f"a table of the most costs {took[-2] / took[0]:.2f} times one of the fewest")


def made(connection: Connection, counts: Sequence[int]) -> Iterator[int]:
    """Make so many tables of two rows, and more for the next number."""
    connection.query(f"DROP DATABASE IF EXISTS {DATABASE}_first")
    connection.query(f"CREATE DATABASE {DATABASE}_first")
    for before, count in pairwise((0, *counts)):
        for i in range(before, count):
            table = f"{DATABASE}_first.t{i:05}"
            connection.query(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, note VARCHAR(40), amount DECIMAL(10,2),"
                " at DATETIME(3), k INT, v VARCHAR(10), w DOUBLE)"
            )
            rows = "(1, 'a', 1, NOW(3), 1, 'x', 2), (2, 'b', 2, NULL, 2, '', 3)"
            connection.query(f"INSERT INTO {table} VALUES {rows}")
        yield count


def rounds(server: str, *counts: int) -> None:
    from binlog_core.mirror import mirror

    spent: list[float] = []
    highest: list[int] = []
    with Connection(Address.of(server, {"ssl_mode": "DISABLED"})) as connection:
        for count in made(connection, counts):
            with tempfile.TemporaryDirectory() as folder:
                stop, tables = threading.Event(), f"{DATABASE}_first.*"
                with peak(0.1) as most:
                    mirror(server, folder, tables=tables, until="now", runner=LocalRunner())
                    work = threading.Thread(
                        target=mirror,
                        args=(server, folder),
                        kwargs={"tables": tables, "runner": LocalRunner(), "stop": stop},
                    )
                    work.start()
                    log = Path(folder) / f"{DATABASE}_first.t00000" / "_delta_log"
                    changed(connection, log, 5)  # it is up to date, and warm
                    begun, cpu = time.perf_counter(), time.process_time()
                    changed(connection, log, ROUND_CHANGES)
                    took, cpu = time.perf_counter() - begun, time.process_time() - cpu
                    idle = time.process_time()
                    time.sleep(took)
                    idle = time.process_time() - idle
                    stop.set()
                    work.join()
            each = (cpu - idle) / ROUND_CHANGES * 1e3
            print(
                f"one row of one among {count:,} tables: {each:.1f} ms CPU,"
                f" {took / ROUND_CHANGES * 1e3:.0f} ms until it is there; idle {idle / took:.1%} of a"
                f" processor; peak {most[0] >> 20} MB"
            )
            spent.append(each)
            highest.append(most[0])
    print(
        f"among the most tables {spent[-1] / spent[0]:.2f} times the CPU, and"
        f" {highest[-1] / highest[0]:.2f} times the memory"
    )


def changed(connection: Connection, log: Path, times: int) -> None:
    """Change a row of a table, and wait until it is in the lake, so many times."""
    for _ in range(times):
        known = len(list(log.glob("*.json")))
        connection.query(f"UPDATE {DATABASE}_first.t00000 SET k = k + 1 WHERE id = 1")
        while len(list(log.glob("*.json"))) == known:
            time.sleep(0.005)


@contextmanager
def workers() -> Iterator[Runner]:
    """Threads of this process, or Spark's workers."""
    if not os.environ.get("BINLOG_BENCH_SPARK"):
        yield LocalRunner()
        return
    from pyspark.sql import SparkSession

    from binlog_core.spark.workers import SparkRunner

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield SparkRunner(session)
    finally:
        session.stop()


def main() -> None:
    what, *numbers = sys.argv[1:]
    if what == "copy":
        address = Address.of(os.environ["BINLOG_CORE_TEST_SERVER"], {"ssl_mode": "DISABLED"})
        copy(address, int(numbers[0] if numbers else 64) << 20)
        print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")
    elif what == "catch-up":
        catch_up(*map(int, [*numbers, *(200, 256)[len(numbers) :]]))
    elif what == "tables":
        tables(*map(int, [*numbers, *(100, 2000)[len(numbers) :]]))
    elif what == "first":
        first(os.environ["BINLOG_CORE_TEST_SERVER"], *map(int, numbers or (300, 1000)))
    elif what == "round":
        rounds(os.environ["BINLOG_CORE_TEST_SERVER"], *map(int, numbers or (300, 3000)))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
