"""A mirror with two numbers of tables: CPU time of first copies, of rounds that change all tables or one, and
of its status; and the memory at its highest.

Rounds read an archive that is written here. First copies need a server: BINLOG_CORE_TEST_SERVER, or one that
is started for it; without one they are skipped.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bench_mirror import created
from growth import MOST, cost, growth_of
from measure import LINES
from support.writer import Log, Table

pytest.importorskip("deltalake")

from binlog_core.lake.runner import LocalRunner
from binlog_core.lake.tables.table import App
from binlog_core.mirror import mirror
from binlog_core.mirror.copies import commit_copy
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.mirroring import Mirroring
from binlog_core.mirror.reporting import statuses
from binlog_core.mirror.state import TableState, new_state
from binlog_core.mirror.values import SelectList
from binlog_core.schema.given import parse_create_table
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection

# Where binlog_core is installed, soak is not.
_SERVER = Path(__file__).resolve().parents[2] / "soak" / "server.py"
server = runpy.run_path(str(_SERVER))["server"]

TABLES = (40, 200)
MANY = (100, 1000)
MOST_OF_MANY = 2  # times the cost of a round with ten times as many tables
MOST_MEMORY, TABLES_OF_MEMORY = 1.5, (20, 200)
COPIES = (20, 80)
COLUMNS = [("id", "INT"), ("name", "VARCHAR(20)"), ("n", "BIGINT")]
DATABASE = "mirror_growth"


class Rounds:
    """A mirror of empty tables, and the logs that come to its archive."""

    def __init__(self, folder: Path, count: int) -> None:
        self.archive = folder / f"archive{count}"
        self.archive.mkdir()
        self.tables = [Table("shop", f"t{i:05}", COLUMNS, primary_key=["id"]) for i in range(count)]
        self.logs = 0
        self._write(0)
        self.lake = Lake(str(folder / f"lake{count}"))
        self.state = new_state("mysql://bench", ("*",), str(self.archive))
        found = [parse_create_table(created(one), one.database, one.name) for one in self.tables]
        states = [TableState(one.database, one.name, "following") for one in found]
        self.state.tables = {one.full_name: one for one in states}
        nothing: Any = None  # everything is in the archive
        address, runner = Address.of("mysql://bench"), LocalRunner(1)
        self.work = Mirroring(runner, self.lake, self.state, address, nothing, threading.Event())
        plan = self.work.plan(states)
        begin = plan.begin((0, 4), found, {"shop": "utf8mb4"})
        place = plan.version(begin)
        self.state.offsets[place] = begin
        for one, definition in zip(states, found, strict=True):
            one.place = place
            schema = SelectList.of(definition, mariadb=True).schema
            commit_copy(self.lake.opened(one), schema, [], App(self.state.id, place), {})
        self.round(count)  # imports

    def _write(self, changed: int) -> None:
        log = Log("8.0.36")
        for table in self.tables[:changed]:
            log.begin()
            log.insert(table, [{"id": self.logs, "name": "x", "n": 1}])
            log.commit()
        self.logs += 1
        log.rotate(f"bench.{self.logs + 1:06}")
        (self.archive / f"bench.{self.logs:06}").write_bytes(log.getvalue())

    def round(self, changed: int) -> float:
        """CPU seconds of a round in which so many tables get a row."""
        self._write(changed)
        before = [one.place for one in self.state.tables.values()]
        seconds = cost(lambda: self.work.replay(None, time.time()))
        after = [one.place for one in self.state.tables.values()]
        assert all(now != then for now, then in zip(after, before, strict=True))
        return seconds

    def rows(self) -> list[int | None]:
        return [one.rows for one in statuses(self.lake, self.state)]


def test_rounds_and_status(tmp_path: Path) -> None:
    mirrors = [Rounds(tmp_path, count) for count in TABLES]

    def told(what: str, unit: str, costs: list[Any], sizes: tuple[int, int]) -> None:
        large, growth = growth_of(costs, sizes)
        LINES["mirror"].append(
            f"{what}, {TABLES[1]} tables: {large * 1e3:.2f} ms CPU a {unit}, {growth:.2f} of {TABLES[0]}"
        )
        assert growth <= MOST

    told("a round that changes all", "table", [partial(m.round, len(m.tables)) for m in mirrors], TABLES)
    assert [len(set(one.rows())) for one in mirrors] == [1, 1]
    told("status", "table", [partial(cost, one.rows) for one in mirrors], TABLES)


def test_a_round_costs_by_what_changed(tmp_path: Path) -> None:
    """Tables without a change are almost free."""
    mirrors = [Rounds(tmp_path, count) for count in MANY]
    large, growth = growth_of([partial(one.round, 1) for one in mirrors], (1, 1))
    LINES["mirror"].append(
        f"a round that changes one of {MANY[1]} tables: {large * 1e3:.1f} ms CPU, {growth:.2f} of {MANY[0]}"
    )
    assert growth <= MOST_OF_MANY


_PEAK = """
import resource, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from bench_mirrors import Rounds
Rounds(Path(sys.argv[1]), int(sys.argv[2])).round(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory(tmp_path: Path) -> None:
    """At its highest in a mirror whose tables all change, and then one of them."""

    def peak(count: int) -> int:
        arguments = [str(tmp_path), str(count), *sys.path]
        found = subprocess.run([sys.executable, "-c", _PEAK, *arguments], stdout=subprocess.PIPE, check=True)
        return int(found.stdout)

    small, large = map(peak, TABLES_OF_MEMORY)
    LINES["mirror"].append(
        f"memory with {TABLES_OF_MEMORY[1]} tables: {large >> 10} MB, {large / small:.2f} of"
        f" {TABLES_OF_MEMORY[0]}"
    )
    assert large <= MOST_MEMORY * small


@pytest.fixture
def source() -> Iterator[str]:
    if given := os.environ.get("BINLOG_CORE_TEST_SERVER"):
        yield given
        return
    with server() as running:
        if running is None:
            pytest.skip("no server here")
        yield running.url


def test_first_copies(source: str, tmp_path: Path) -> None:
    with Connection(Address.of(source, {"ssl_mode": "DISABLED"})) as connection:
        for count in COPIES:
            connection.query(f"DROP DATABASE IF EXISTS {DATABASE}_{count}")
            connection.query(f"CREATE DATABASE {DATABASE}_{count}")
            for i in range(count):
                table = f"{DATABASE}_{count}.t{i:05}"
                connection.query(f"CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR(20), n BIGINT)")
                connection.query(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 2)")

    def copy(count: int) -> float:
        with tempfile.TemporaryDirectory(dir=tmp_path) as lake:
            tables, found = f"{DATABASE}_{count}.*", list[Any]()
            seconds = cost(lambda: found.extend(mirror(source, lake, tables=tables, until="now")))
            assert [one.stage for one in found] == ["following"] * count
            return seconds

    copy(COPIES[0])  # imports
    large, growth = growth_of([partial(copy, count) for count in COPIES], COPIES)
    LINES["mirror"].append(
        f"first copies of {COPIES[1]} tables: {large * 1e3:.2f} ms CPU a table, {growth:.2f} of {COPIES[0]}"
    )
    assert growth <= MOST
    with Connection(Address.of(source, {"ssl_mode": "DISABLED"})) as connection:
        for count in COPIES:
            connection.query(f"DROP DATABASE {DATABASE}_{count}")
