"""`each_file`: definitions go from one log to the next, also where logs appear while they are read."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.archive import FakeServer
from support.log_server import log_server
from support.writer import Log, Table

import binlog_core

SILENT = Table("shop", "t", [("id", "INT"), ("b", "VARCHAR(200)")], metadata=None)
CREATE = "CREATE TABLE shop.t (id INT PRIMARY KEY, b0 VARCHAR(200) CHARACTER SET utf8mb4)"

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def written(log: Log, number: int, statements: list[str]) -> None:
    for sql in statements:
        log.query(sql)
    log.begin("shop")
    log.insert(SILENT, [{"id": number, "b": "x"}])
    log.commit()


def renamed(seed: int, count: int) -> Iterator[tuple[list[str], str]]:
    """For each log its statements, and the name of the second column in its rows."""
    chance, name = random.Random(seed), "b0"
    for number in range(count):
        statements = [CREATE] if not number else []
        if number and chance.random() < 0.6:
            statements.append(f"ALTER TABLE shop.t RENAME COLUMN {name} TO b{number}")
            name = f"b{number}"
        yield statements, name


def names_in(log: Any, chance: random.Random) -> set[str]:
    """The names of a log's columns, in one or two passes, or in none that reads to the end."""
    if chance.random() < 0.3:
        return {name for name in next(iter(log.rows())).after if name != "id"}
    for _ in range(chance.randint(0, 1)):
        list(log.events())
    return {name for change in log.rows() for name in change.after if name != "id"}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("follow", [False, True])
def test_names_come_from_the_statements_of_logs_before(follow: bool, seed: int, tmp_path: Path) -> None:
    chance, made = random.Random(seed), list(renamed(seed, 6))
    there = chance.randint(1, 3) if follow else len(made)
    paths = [tmp_path / f"bin.{number:06}" for number in range(1, len(made) + 1)]

    def write(number: int) -> None:
        log = Log("10.11.6-MariaDB")
        written(log, number, made[number][0])
        if number + 1 < len(made):
            log.rotate(paths[number + 1].name)
        paths[number].write_bytes(log.getvalue())

    for number in range(there):
        write(number)
    seen = []
    with binlog_core.open(tmp_path, schema="ddl", follow=follow) as log:
        watch = threading.Timer(60, log.stop)
        watch.start()
        for one in log.each_file():
            if len(seen) + 1 == there < len(made):
                write(there)
                there += 1
            elif len(seen) + 1 == len(made):
                log.stop()
            seen.append(names_in(one, chance))
        watch.cancel()
    assert seen == [{name} for _, name in made]


@pytest.mark.parametrize("version", ["8.0.36", "10.11.6-MariaDB-log"])
@pytest.mark.parametrize("seed", range(3))
def test_names_come_from_the_statements_of_a_servers_logs(seed: int, version: str) -> None:
    fake, made = FakeServer(version), list(renamed(seed, 5))
    for number, (statements, _) in enumerate(made):
        written(fake.logs[fake.current], number, statements)
        if number + 1 < len(made):
            fake.rotate()
    with (
        log_server(fake) as url,
        binlog_core.open(url, schema="ddl", server={"ssl_mode": "DISABLED"}) as log,
    ):
        seen = [
            {name for change in one.rows() for name in change.after if name != "id"}
            for one in log.each_file()
        ]
    assert seen == [{name} for _, name in made]
