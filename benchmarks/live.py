"""How fast a server's logs are read, against a bare loop that receives the same bytes:

    BINLOG_CORE_TEST_SERVER=mysql://root@127.0.0.1 python benchmarks/live.py [MEGABYTES]

This many megabytes of each workload are made on the server: rows in bulk with one-row transactions after
them, and one-row transactions alone. The output has MB/s of the best of five alternating runs, and the ratio
to the bare loop's.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

import binlog_core
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection
from binlog_core.server.dump import Begin, Dump
from binlog_core.server.stream import ServerStream

RUNS = 5
ROWS = 2000  # to a bulk statement
DATABASE = "live_bench"


def prepare(address: Address, size: int) -> dict[str, tuple[str, int]]:
    """Write both workloads; return the log that each begins with."""
    found = {}
    with Connection(address) as server:
        server.query(f"DROP DATABASE IF EXISTS {DATABASE}")
        server.query(f"CREATE DATABASE {DATABASE}")
        server.query(
            f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY AUTO_INCREMENT, n BIGINT, v VARCHAR(80))"
        )
        values = ",".join(f"({i * 7919},'{'v' * 60}')" for i in range(ROWS))
        for name, statement in (
            ("both", f"INSERT INTO {DATABASE}.t (n, v) VALUES {values}"),
            ("one row", f"INSERT INTO {DATABASE}.t (n, v) VALUES (1, 'one')"),
        ):
            server.query("FLUSH BINARY LOGS")
            start = _stand(server)
            while (stop := _stand(server))[0] == start[0] and stop[1] < size:
                for _ in range(1 if name == "both" else 500):
                    server.query(statement)
            found[name] = start[0], 4
            server.query("FLUSH BINARY LOGS")
    return found


def _stand(server: Connection) -> tuple[str, int]:
    name, size, *_ = server.query("SHOW BINARY LOGS")[-1]
    return str(name), int(size or 0)


def bare(address: Address, start: tuple[str, int]) -> int:
    """Receive into one buffer until the log is over, without looking at the bytes."""
    connection = Connection(address)
    facts = connection.facts()
    dump = Dump(
        connection, facts, Begin(*start), server_id=77, uuid="", wait=False,
        limits=binlog_core.Limits(), stop=threading.Event(),
    )  # fmt: skip
    buffer, got = bytearray(4 << 20), 0
    sock = dump._socket
    sock.setblocking(True)
    while count := sock.recv_into(buffer):
        got += count
    dump.close()
    return got


def stream(address: Address, start: tuple[str, int]) -> int:
    got = 0
    with ServerStream(address, *start, follow=False) as runs:
        for run in runs:
            got += len(run.events)
    return got


def batches(address: Address, start: tuple[str, int]) -> int:
    got = 0
    with binlog_core.open(f"{address.name}/?ssl_mode=DISABLED&{_login(address)}", start=start) as log:
        for batch in log.batches():
            got += len(batch)
    return got


def _login(address: Address) -> str:
    return f"user={address.user}" + (f"&password={address.password}" if address.password else "")


def main() -> None:
    size = int(sys.argv[1] if len(sys.argv) > 1 else 64) << 20
    address = Address.of(os.environ["BINLOG_CORE_TEST_SERVER"], {"ssl_mode": "DISABLED"})
    for name, start in prepare(address, size).items():
        best: dict[str, float] = {}
        sent = bare(address, start)
        ways: dict[str, Callable[..., int]] = {"bare": bare, "stream": stream, "batches": batches}
        for _ in range(RUNS):
            for way, read in ways.items():
                begun = time.perf_counter()
                assert read(address, start)
                best[way] = min(best.get(way, 1e9), time.perf_counter() - begun)
        for way, seconds in best.items():
            print(f"{name:8} {way:8} {sent / seconds / 1e6:7.0f} MB/s  {best['bare'] / seconds:5.2f}")


if __name__ == "__main__":
    main()
