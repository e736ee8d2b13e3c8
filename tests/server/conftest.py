"""Shared by the tests of a running server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.live import DATABASE, TABLE
from support.server import connect, run


@pytest.fixture
def connection() -> Iterator[Any]:
    with connect() as connection:
        run(
            connection,
            f"DROP DATABASE IF EXISTS {DATABASE}",
            f"CREATE DATABASE {DATABASE}",
            f"CREATE TABLE {TABLE} (id INT PRIMARY KEY AUTO_INCREMENT, note VARCHAR(200), large LONGBLOB)",
        )
        yield connection
