"""A separate server for one module of tests, because they change the server's settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from support.lake_forms import form  # noqa: F401
from support.server import connect


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    found = spec_from_file_location("soak_server", Path(__file__).parents[2] / "soak" / "server.py")
    assert found is not None and found.loader is not None
    soak_server = module_from_spec(found)
    sys.modules[found.name] = soak_server  # as its dataclasses ask for
    found.loader.exec_module(soak_server)
    with soak_server.server() as running:
        if running is None:
            pytest.skip("no MariaDB server to start here")
        yield running.url


@pytest.fixture
def sql(url: str) -> Iterator[Callable[[str], Any]]:
    with connect(url) as connection, connection.cursor() as cursor:

        def run(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchall()

        run("DROP DATABASE IF EXISTS refused")
        run("CREATE DATABASE refused")
        run("USE refused")
        run("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        run("INSERT INTO t VALUES (1, 1), (2, 2)")
        yield run


@pytest.fixture
def other(sql: Callable[[str], Any]) -> Iterator[Callable[[], None]]:
    """Turn the server into another one with the same history, like a MariaDB replica that takes over."""

    def take_over() -> None:
        sql(f"SET GLOBAL server_id = {sql('SELECT @@global.server_id')[0][0] + 1}")

    yield take_over
    sql("SET GLOBAL server_id = 1")
