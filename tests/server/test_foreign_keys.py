"""Which servers log the rows that a foreign key changes; and that a real one does as it says."""

from __future__ import annotations

from typing import Any

import pytest
from support.live import DATABASE, is_mariadb
from support.server import SERVER, run

import binlog_core
from binlog_core.server import doctor
from binlog_core.server.connection import Facts
from binlog_core.server.foreign_keys import tables_changed_unlogged


class Server:
    """A connection to a server with some cascades."""

    def __init__(self, native: str | None) -> None:
        self.native = native

    def variables(self, names: list[str]) -> dict[str, str]:
        return {} if self.native is None else dict.fromkeys(names, self.native)

    def query(self, sql: str, *_: Any, **__: Any) -> list[tuple[str, ...]]:
        assert "CASCADE" in sql
        keys = [("shop", f"t{i}", "parent", "CASCADE", "NO ACTION") for i in range(7)]
        keys += keys[:1]  # a table has two
        return [(db, f"fk{n}", table, db, *rest) for n, (db, table, *rest) in enumerate(keys)]


@pytest.mark.parametrize(
    ("version", "native", "unlogged"),
    [
        ("11.8.6-MariaDB", None, True),
        ("8.4.3", None, True),
        ("9.5.0", None, True),
        ("9.6.0", "OFF", False),
        ("9.7.4", "ON", True),
    ],
)
def test_which_servers_log_cascades(version: str, native: str | None, unlogged: bool) -> None:
    server: Any = Server(native)
    facts = Facts(version, "MariaDB" in version, 1, None, "CRC32", True, "")
    assert bool(tables_changed_unlogged(server, facts)) == unlogged
    found = doctor._cascades(server, facts)
    assert [one.state for one in found] == ["note"] * unlogged
    assert all("shop.t0, shop.t1" in one.found and "and 2 more" in one.found for one in found)


@pytest.mark.server
def test_the_log_has_cascades_where_it_is_said_to(connection: Any) -> None:
    run(
        connection,
        f"CREATE TABLE {DATABASE}.parent (id INT PRIMARY KEY)",
        f"CREATE TABLE {DATABASE}.child (id INT PRIMARY KEY, p INT,"
        f" FOREIGN KEY (p) REFERENCES {DATABASE}.parent (id) ON DELETE CASCADE)",
        f"INSERT INTO {DATABASE}.parent VALUES (1)",
        f"INSERT INTO {DATABASE}.child VALUES (2, 1)",
    )
    with binlog_core.open(SERVER, start="now", follow=True) as log:
        changes = log.rows(f"{DATABASE}.*")
        run(connection, f"DELETE FROM {DATABASE}.parent")
        logged = next(changes).table == "child"
        log.stop()
    version = run(connection, "SELECT VERSION()")[0][0]
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
    assert logged == (not is_mariadb(connection) and numbers >= (9, 6))
