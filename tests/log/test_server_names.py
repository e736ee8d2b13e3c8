"""Names that a server's logs lack: taken from its tables, where it does not log them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.server import SERVER, connect

from binlog_core.errors import ServerError
from binlog_core.log import server_names as module
from binlog_core.log.server_names import server_names


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


@pytest.mark.server
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


class Refusing:
    """A connection whose user may see that another table exists, and not its definition."""

    def __init__(self, address: Any) -> None:
        self.address = address

    def __enter__(self) -> Refusing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def variables(self, names: list[str]) -> dict[str, str]:
        return dict.fromkeys(names, "MINIMAL")

    def query(self, sql: str, *columns: Any, **bounds: Any) -> list[tuple[str, ...]]:
        if sql.startswith("SELECT"):
            return [("shop", "t"), ("other", "secret")]
        if sql.startswith("SHOW CREATE TABLE `other`"):
            raise ServerError("SHOW command denied", code=1142)
        return [("t", "CREATE TABLE `t` (`id` int)")] if sql.startswith("SHOW") else []


def test_only_wanted_tables_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unrelated table that the user may not read, or that has what is not known, is no reason to fail."""
    monkeypatch.setattr(module, "Connection", Refusing)
    found = server_names("mysql://u@db1", "shop.t".__eq__, password_file=None, defaults_file=None)
    assert found is not None and [table.full_name for table in found] == ["shop.t"]
    with pytest.raises(ServerError, match="denied"):
        server_names("mysql://u@db1", lambda name: True, password_file=None, defaults_file=None)
