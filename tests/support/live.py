"""A table on a running server, whose rows tests write and read."""

from __future__ import annotations

from typing import Any

import binlog_core

from .server import run

DATABASE = "live"
TABLE = f"{DATABASE}.orders"


def status(connection: Any) -> tuple[str, int]:
    """The server's last log, and its length."""
    names = run(connection, "SHOW BINARY LOGS")
    return names[-1][0], int(names[-1][1])


def write(connection: Any, first: int, count: int, *, rows: int = 1) -> list[int]:
    """Write one transaction after the other; return the notes that they leave."""
    for i in range(first, first + count):
        values = ",".join(f"('{i}.{j}')" for j in range(rows))
        run(connection, f"INSERT INTO {TABLE} (note) VALUES {values}")
    return list(range(first, first + count))


def notes(changes: Any) -> list[str]:
    """The notes of the rows that were written."""
    return [note(change) for change in changes if change.after is not None]


def note(change: Any) -> str:
    """The note of a row after its change."""
    after = change.after
    text = after["note"] if "note" in after else after["c1"]  # old servers log no names and character sets
    return text.decode() if isinstance(text, bytes) else str(text)


def rows_of(log: binlog_core.Log) -> Any:
    """The changes of the table."""
    return log.rows(TABLE)


def is_mariadb(connection: Any) -> bool:
    """Whether the server is MariaDB."""
    return "MariaDB" in connection.get_server_info()
