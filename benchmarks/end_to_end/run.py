"""From a server into a lake, as a user runs it: full load, change stream, latency. README.md here tells more.

    python benchmarks/end_to_end/run.py mysql://root@127.0.0.1:3306 [SERVER…] --json FILE --page FILE.md
    python soak/server.py python benchmarks/end_to_end/run.py     # with a MariaDB server of its own

The user must be allowed to create the database `end_to_end`, which is dropped at the start.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from bench_mirror import TABLES, Server

from binlog_core.server.address import Address
from binlog_core.server.connection import Connection

DATABASE = "end_to_end"
TOUCH = {  # what an update of a row sets
    "sysbench": ("k = k + 1", "c = REVERSE(c)"),
    "lineitem": ("quantity = quantity + 1", "status = 'F'"),
}
IMAGES = 6  # of a transaction: two updates of two images, a delete, an insert
POLL = 0.02  # seconds between looks at the lake
PATIENCE = 120  # seconds until a lake has what was committed


class World:
    """One server, one workload, one number of tables."""

    def __init__(self, server: str, workload: str, tables: int, rows: int) -> None:
        self.server, self.workload = server, workload
        self.address = Address.of(server, {"ssl_mode": "DISABLED"})
        self.tables = [f"{DATABASE}.t{i:03}" for i in range(tables)]
        self.each = max(rows // tables, 1)

    def prepare(self) -> None:
        """Fill the tables anew, and make the one whose rows tell when they were committed."""
        columns, values = TABLES[self.workload]
        with Connection(self.address) as server:
            server.query(f"DROP DATABASE IF EXISTS {DATABASE}")
            server.query(f"CREATE DATABASE {DATABASE} CHARSET utf8mb4")
            first = self.tables[0]
            for table in self.tables:
                server.query(f"CREATE TABLE {table} ({columns})")
                if table != first:
                    names = ", ".join(column.split()[0] for column in _split(columns))
                    server.query(f"INSERT INTO {table} ({names}) SELECT {names} FROM {first}", patience=600)
                    continue
                server.query(f"INSERT INTO {table} SELECT {values} LIMIT 1")
                there = 1
                while there < self.each:
                    more = min(there, self.each - there)
                    server.query(
                        f"INSERT INTO {table} SELECT {values} FROM {table} LIMIT {more}", patience=600
                    )
                    there += more
            server.query(f"CREATE TABLE {DATABASE}.probe (id INT PRIMARY KEY, n INT)")

    def change(
        self, count: int, *, seed: int, rate: float | None = None, probes: bool = False
    ) -> list[float]:
        """Run transactions; the times at which those with a row in the probe were committed."""
        chance, times = random.Random(seed), []
        _, values = TABLES[self.workload]
        one, two = TOUCH[self.workload]
        begun = time.perf_counter()
        with Connection(self.address) as server:
            for i in range(count):
                table = chance.choice(self.tables)
                some = [chance.randint(1, self.each) for _ in range(3)]
                server.query("BEGIN")
                server.query(f"UPDATE {table} SET {one} WHERE id = {some[0]}")
                server.query(f"UPDATE {table} SET {two} WHERE id = {some[1]}")
                server.query(f"DELETE FROM {table} WHERE id = {some[2]}")
                server.query(f"INSERT INTO {table} SELECT {values} LIMIT 1")
                if probes:
                    server.query(f"INSERT INTO {DATABASE}.probe VALUES ({i}, {i})")
                server.query("COMMIT")
                times.append(time.monotonic())
                if rate is not None:
                    time.sleep(max(begun + (i + 1) / rate - time.perf_counter(), 0))
        return times

    def mirror(self, lake: Path, form: str, *more: str) -> subprocess.Popen[bytes]:
        """Start the command that a user would start."""
        catalog = [] if form == "delta" else ["--catalog", "type=sql", "--catalog", _catalog(lake)]
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "binlog_core.cli", "mirror", self.server, str(lake)),
                *("--tables", f"{DATABASE}.*", "--format", form, *catalog, *more),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


def _split(columns: str) -> list[str]:
    """The definitions of columns; commas inside brackets do not divide them."""
    depth, found = 0, [""]
    for sign in columns:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return [one.strip() for one in found]


def ended(process: subprocess.Popen[bytes]) -> float:
    """Wait for a command; its CPU seconds."""
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 130, -signal.SIGINT):
        sys.exit(f"mirror ended with {process.returncode}: {said.decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime


def phase(world: World, server: Server, what: str, rows: int, run: Callable[[], float]) -> dict[str, Any]:
    """A phase with its rows a second and CPU seconds, ours and the server's."""
    begun, theirs = time.perf_counter(), server.seconds()
    cpu = run()
    seconds = time.perf_counter() - begun
    return {
        "phase": what,
        "rows": rows,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds),
        "cpu_seconds": round(cpu, 3),
        "cpu_us_per_row": round(cpu / rows * 1e6, 2),
        "server_cpu_seconds": None if math.isnan(theirs) else round(server.seconds() - theirs, 3),
    }


# ---------------------------------------------------------------- what the lake shows, read without our code


def _catalog(lake: Path) -> str:
    return f"uri=sqlite:///{lake}.db"


def _delta_versions(lake: Path) -> Callable[[], int]:
    folder = lake / f"{DATABASE}.probe" / "_delta_log"

    def now() -> int:
        with suppress(FileNotFoundError):
            return max(
                (int(one.stem) for one in folder.glob("[0-9]*.json") if one.stem.isdecimal()), default=-1
            )
        return -1

    return now


def _iceberg_versions(lake: Path) -> Callable[[], str]:
    def now() -> str:
        with sqlite3.connect(f"file:{lake}.db?mode=ro", uri=True) as catalog:
            sql = "SELECT metadata_location FROM iceberg_tables WHERE table_name = 'probe'"
            return str(next(iter(catalog.execute(sql)), ("",))[0])

    return now


def _ids(lake: Path, form: str, which: Any) -> set[int]:
    """The rows of the probe in a version of its table."""
    if form == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(lake / f"{DATABASE}.probe", version=which).to_pyarrow_table(columns=["id"])
    else:
        from pyiceberg.table import StaticTable

        table = StaticTable.from_metadata(which).scan(selected_fields=("id",)).to_arrow()
    return set(table.column("id").to_pylist())


class Watch:
    """When each version of the probe's table was there first."""

    def __init__(self, lake: Path, form: str) -> None:
        self._lake, self._form = lake, form
        self._now: Callable[[], Any] = (_delta_versions if form == "delta" else _iceberg_versions)(lake)
        self.seen: dict[Any, float] = {self._now(): time.monotonic()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for(self, row: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until a row is there, or the mirror has ended."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and process.poll() is None:
            newest = max(self.seen, key=self.seen.__getitem__)
            if newest not in (-1, "") and row in _ids(self._lake, self._form, newest):
                return
            time.sleep(0.2)

    def _run(self) -> None:
        while not self._stop.wait(POLL):
            with suppress(sqlite3.OperationalError):  # the catalog is being written
                self.seen.setdefault(self._now(), time.monotonic())


def latencies(lake: Path, form: str, seen: dict[Any, float], committed: list[float]) -> list[float]:
    """Milliseconds from each commit on the server until its row was first in the lake."""
    first: dict[int, float] = {}
    for which, at in seen.items():
        if which not in (-1, ""):
            for one in _ids(lake, form, which):
                first.setdefault(one, at)
    missing = set(range(len(committed))) - set(first)
    if missing:
        sys.exit(f"{len(missing)} of {len(committed)} rows did not reach the lake")
    return sorted((first[i] - at) * 1e3 for i, at in enumerate(committed))


def stream(world: World, lake: Path, form: str, count: int, rate: float) -> dict[str, Any]:
    """Changes at a steady rate while the mirror runs; how long each took."""
    with Connection(world.address) as server:
        server.query(f"INSERT INTO {DATABASE}.probe VALUES (-1, 0)")
    process = world.mirror(lake, form)
    with Watch(lake, form) as watch:
        watch.wait_for(-1, process)  # it has started
        begun = time.perf_counter()
        committed = world.change(count, seed=2, rate=rate, probes=True)
        seconds = time.perf_counter() - begun
        watch.wait_for(count - 1, process)
    process.send_signal(signal.SIGINT)
    cpu = ended(process)
    found = latencies(lake, form, watch.seen, committed)
    at = {f"p{part}": found[min(len(found) * part // 100, len(found) - 1)] for part in (50, 95, 99)}
    rows = count * IMAGES
    return {
        "phase": "stream",
        "rows": rows,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds),
        "cpu_seconds": round(cpu, 3),
        "latency_ms": {name: round(value) for name, value in (at | {"max": found[-1]}).items()},
    }


def agrees(lake: Path) -> bool:
    """Whether every row of every table is as on the server: `mirror verify` asks both."""
    done = subprocess.run(
        [sys.executable, "-m", "binlog_core.cli", "mirror", "verify", str(lake)],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def measured(world: World, form: str, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    world.prepare()
    with Connection(world.address) as connection, tempfile.TemporaryDirectory() as folder:
        server, lake = Server(connection), Path(folder) / "lake"
        once = ("--until", "now")
        rows = world.each * len(world.tables)
        yield phase(world, server, "full load", rows, lambda: ended(world.mirror(lake, form, *once)))
        world.change(given.changes, seed=1)
        images = given.changes * IMAGES
        yield phase(world, server, "catch up", images, lambda: ended(world.mirror(lake, form, *once)))
        yield stream(world, lake, form, given.stream, given.rate) | {"agrees": agrees(lake)}


def page(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    machine = results["machine"]
    lines = [
        "# From a server into a lake\n",
        f"binlog_core {results['version']}, Python {machine['python']}, {machine['processors']} processors,"
        f" load {machine['load']} at the start.\n",
        "| server | to | workload | tables | phase | rows | rows/s | CPU s | µs CPU/row |"
        " latency ms p50, p95, p99 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in results["runs"]:
        late = (
            ", ".join(str(one["latency_ms"][part]) for part in ("p50", "p95", "p99"))
            if "latency_ms" in one
            else ""
        )
        cells = [
            one["server"],
            one["format"],
            one["workload"],
            one["tables"],
            one["phase"],
            f"{one['rows']:,}",
        ]
        cells += [f"{one['rows_per_second']:,}", one["cpu_seconds"], one.get("cpu_us_per_row", ""), late]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own = [os.environ["BINLOG_CORE_TEST_SERVER"]] if "BINLOG_CORE_TEST_SERVER" in os.environ else []
    parser.add_argument("servers", nargs="*", default=own, help="mysql://user@host:port")
    parser.add_argument("--formats", nargs="+", choices=("delta", "iceberg"), default=["delta", "iceberg"])
    parser.add_argument("--workloads", nargs="+", choices=tuple(TABLES), default=list(TABLES))
    parser.add_argument("--tables", nargs="+", type=int, default=[1, 10, 100])
    parser.add_argument("--rows", type=int, default=100_000, help="of all tables together")
    parser.add_argument("--changes", type=int, default=2_000, help="transactions to catch up with")
    parser.add_argument("--stream", type=int, default=200, help="transactions while the mirror runs")
    parser.add_argument("--rate", type=float, default=20, help="of these a second")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--page", type=Path, help="file for the same as a page of Markdown")
    given = parser.parse_args()
    if not given.servers:
        parser.error("name a server: mysql://user@host:port")
    return given


def main() -> None:
    given = arguments()
    machine = {
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    results: dict[str, Any] = {
        "tool": "binlog_core",
        "version": version("binlog_core"),
        "machine": machine,
        "runs": [],
    }
    every = itertools.product(given.servers, given.formats, given.workloads, given.tables)
    for server, form, workload, tables in every:
        world = World(server, workload, tables, given.rows)
        with Connection(world.address) as connection:
            name = connection.query("SELECT VERSION()")[0][0]
        named = {"server": str(name), "format": form, "workload": workload, "tables": tables}
        for one in measured(world, form, given):
            results["runs"].append(named | one)
            print(json.dumps(results["runs"][-1]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    if given.page is not None:
        given.page.write_text(page(results), "utf-8")
    if not all(one.get("agrees", True) for one in results["runs"]):
        sys.exit("a lake differs from its server")


if __name__ == "__main__":
    main()
