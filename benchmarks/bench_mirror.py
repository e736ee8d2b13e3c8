"""What the mirror takes, piece by piece:

    BINLOG_CORE_TEST_SERVER=mysql://root@127.0.0.1 python benchmarks/bench_mirror.py copy [MEGABYTES]

copy
    A table's initial copy on one connection, against a loop that only receives the same rows. In turns, the
    best of five rounds.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from binlog_core.schema.given import parse_create_table
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection
from binlog_core.spark.mirror.copies import Copier, CopyChunk, batches_of, plan_copy
from binlog_core.spark.mirror.marks import identity
from binlog_core.spark.mirror.state import TableState
from binlog_core.spark.mirror.values import SESSION, SelectList

ROUNDS = 5
DATABASE = "mirror_bench"
_QUERY = 3
_END = 9  # bytes of the packet that ends a result set
_GROUP = ", LPAD(FLOOR(RAND() * 1e11), 11, '0')"
TABLES = {
    "sysbench": (
        "id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL",
        f"NULL, RAND() * 1e6, CONCAT_WS('-'{_GROUP * 10}), CONCAT_WS('-'{_GROUP * 5})",
    ),
    "lineitem": (
        "id BIGINT PRIMARY KEY AUTO_INCREMENT, part BIGINT, supplier INT, number TINYINT,"
        " quantity DECIMAL(15,2), price DECIMAL(15,2), discount DECIMAL(15,2), tax DECIMAL(15,2),"
        " flag CHAR(1), status CHAR(1), ship DATE, commit DATE, receipt DATETIME(3),"
        " instruct ENUM('COLLECT COD', 'NONE', 'TAKE BACK RETURN'), mode VARCHAR(10), comment VARCHAR(44)",
        "NULL, RAND() * 2e5, RAND() * 1e4, 1 + RAND() * 6, RAND() * 50, RAND() * 1e5, RAND() / 10,"
        " RAND() / 12, CHAR(65 + RAND() * 3), 'O', '1992-01-01' + INTERVAL RAND() * 2500 DAY,"
        " '1992-01-01' + INTERVAL RAND() * 2500 DAY, '1992-01-01' + INTERVAL RAND() * 2e8 SECOND,"
        " 1 + RAND() * 2, ELT(1 + RAND() * 4, 'AIR', 'RAIL', 'SHIP', 'TRUCK'), SHA1(RAND())",
    ),
}


def prepare(server: Connection, name: str, size: int) -> None:
    """Fill a table until the server says that it has so many bytes."""
    columns, values = TABLES[name]
    server.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    server.query(f"CREATE TABLE IF NOT EXISTS {DATABASE}.{name} ({columns}) CHARSET utf8mb4")
    server.query(f"INSERT INTO {DATABASE}.{name} SELECT {values} LIMIT 1")
    server.query(f"ANALYZE TABLE {DATABASE}.{name}")
    known = f"SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_NAME = '{name}'"
    while int(server.query(known)[0][0] or 0) < size:
        server.query(f"INSERT INTO {DATABASE}.{name} SELECT {values} FROM {DATABASE}.{name}", patience=600)
        server.query(f"ANALYZE TABLE {DATABASE}.{name}", patience=600)


def receive(address: Address, sql: str) -> int:
    """Receive a result set into one buffer, and look at nothing but its end."""
    buffer, got = memoryview(bytearray(4 << 20)), 0
    with Connection(address) as connection:
        connection.query(SESSION)
        connection.command(_QUERY, sql.encode())
        sock = connection.take_socket()
        sock.setblocking(True)
        last = b""
        while True:
            count = sock.recv_into(buffer)
            got += count
            last = (last + bytes(buffer[max(count - _END, 0) : count]))[-_END:]
            if len(last) == _END and last[:3] == b"\5\0\0" and last[4] == 0xFE:
                return got


class Server:
    """The server's own CPU seconds, where it runs on this machine."""

    def __init__(self, server: Connection) -> None:
        path = Path(server.variables(["pid_file"])["pid_file"])
        if not path.is_absolute():
            path = Path(server.variables(["datadir"])["datadir"]) / path
        self._stat = Path(f"/proc/{path.read_text().strip()}/stat") if path.exists() else None

    def seconds(self) -> float:
        if self._stat is None:
            return float("nan")
        user, system = self._stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def copy(address: Address, size: int) -> None:
    for name in TABLES:
        with Connection(address) as connection:
            prepare(connection, name, size)
            planned = plan_copy(connection, TableState(DATABASE, name), {}, mariadb=True)
            server = Server(connection)
            facts = connection.facts()
            told = identity(facts.uuid, facts.server_id)
        selection = SelectList.of(parse_create_table(planned.definition, DATABASE, name), mariadb=True)
        sql = f"SELECT {', '.join(selection.expressions)} FROM {DATABASE}.{name}"
        with tempfile.TemporaryDirectory() as folder:
            ways: dict[str, Callable[[], int]] = {
                "receive": partial(receive, address, sql),
                "into Arrow": partial(into_arrow, address, sql, selection),
                "copied": partial(copied, address, folder, name, told, selection),
            }
            best: dict[str, tuple[float, float, float]] = {}
            got: dict[str, int] = {}
            for _ in range(ROUNDS):
                for way, run in ways.items():
                    begun, cpu, theirs = time.perf_counter(), time.process_time(), server.seconds()
                    got[way] = run()
                    took = (
                        time.perf_counter() - begun,
                        time.process_time() - cpu,
                        server.seconds() - theirs,
                    )
                    best[way] = tuple(map(min, best.get(way, took), took))  # type: ignore[assignment]
        print(f"{name}: {got['copied']:,} rows, {got['receive'] >> 20} MB as sent")
        for way, (seconds, cpu, theirs) in best.items():
            print(
                f"  {way:12}{got['receive'] / seconds / 1e6:7.0f} MB/s  {best['receive'][0] / seconds:5.2f}"
                f"  CPU ms a MB: {cpu * 1e9 / got['receive']:6.2f} here,"
                f" {theirs * 1e9 / got['receive']:6.2f} the server's"
            )


def into_arrow(address: Address, sql: str, selection: SelectList) -> int:
    with Connection(address) as connection:
        connection.query(SESSION)
        return sum(batch.num_rows for batch in batches_of(connection, sql, selection))


def copied(address: Address, folder: str, name: str, server: str, selection: SelectList) -> int:
    chunk = CopyChunk(name, name, 0, "bench", server, selection, "")
    (done,) = Copier(address, address.password, folder)([chunk])
    assert done.error is None, done.error
    return done.rows


def main() -> None:
    address = Address.of(os.environ["BINLOG_CORE_TEST_SERVER"], {"ssl_mode": "DISABLED"})
    copy(address, int(sys.argv[2] if len(sys.argv) > 2 else 64) << 20)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")


if __name__ == "__main__":
    main()
