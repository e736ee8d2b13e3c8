"""Names that a server's logs lack: taken from its tables, where it does not log them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.server import SERVER, connect, needs_server

from binlog_core.log.server_names import server_names

pytestmark = needs_server


@pytest.fixture
def sql() -> Iterator[Callable[[str], Any]]:
    with connect() as connection, connection.cursor() as cursor:

        def run(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchall()

        [(_, before)] = run("SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")
        run("DROP DATABASE IF EXISTS server_names")
        run("CREATE DATABASE server_names")
        run("CREATE TABLE server_names.t (id INT PRIMARY KEY, n INT UNSIGNED)")
        run("CREATE TABLE server_names.u (k INT PRIMARY KEY)")
        yield run
        run("DROP DATABASE server_names")
        run(f"SET GLOBAL binlog_row_metadata = {before}")


def test_definitions_of_the_wanted_tables_unless_the_log_has_the_names(sql: Callable[[str], Any]) -> None:
    def ask() -> Any:
        return server_names(SERVER, "server_names.t".__eq__, password_file=None, defaults_file=None)

    sql("SET GLOBAL binlog_row_metadata = FULL")
    assert ask() is None
    sql("SET GLOBAL binlog_row_metadata = MINIMAL")
    found = ask()
    assert [table.name for table in found] == ["t"]
    table = found.definition("server_names", "t")
    assert [(column.name, column.unsigned) for column in table.columns] == [("id", False), ("n", True)]
