"""A server that tests may use, and the logs that it sends to replicas."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COM_BINLOG_DUMP = 0x12
ROTATE = 4
ARTIFICIAL = 0x20  # flag of an event that is not in the log
SERVER = os.environ.get("BINLOG_CORE_TEST_SERVER", "")


def connect(url: str = SERVER, **arguments: Any) -> Any:
    """A PyMySQL connection; tests with the marker ``server`` have one to BINLOG_CORE_TEST_SERVER."""
    import pymysql

    # Without an address, a server that happens to run on this machine would be written to.
    assert url, "pytest.mark.server is missing: the test asks for a server where none is named"

    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        charset="utf8mb4",
        autocommit=True,
        **arguments,
    )


def run(connection: Any, *statements: str) -> list[Any]:
    """The rows of the last of these statements."""
    rows: list[Any] = []
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            rows = list(cursor.fetchall())
    return rows


def logged(connection: Any, work: Callable[[], None], path: Path, url: str = SERVER) -> Path:
    """The log of some work, as the server sends it."""
    name = _rotate(connection)
    work()
    _rotate(connection)
    path.write_bytes(b"\xfebin" + b"".join(dump(name, url)))
    return path


def _rotate(connection: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        name = cursor.fetchall()[-1][0]
    return name.decode() if isinstance(name, bytes) else str(name)


def dump(name: str, url: str = SERVER) -> Iterator[bytes]:
    """The events of a log, as a replica gets them."""
    connection = connect(url)  # the server ends it after the last event
    connection.query("SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, @mariadb_slave_capability = 4")
    do_not_wait, annotations = 1, 2  # MariaDB can leave these out; then the log has gaps
    flags = do_not_wait | (annotations if "MariaDB" in connection.get_server_info() else 0)
    connection._execute_command(COM_BINLOG_DUMP, struct.pack("<IHI", 4, flags, 9_999) + name.encode())
    while not (packet := connection._read_packet()).is_eof_packet():
        event = packet.get_all_data()[1:]
        if not int.from_bytes(event[17:19], "little") & ARTIFICIAL:
            yield event
            if event[4] == ROTATE:  # the rest belongs to the next log
                break
