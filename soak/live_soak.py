"""A server is archived and read for an hour, directly and from the archive: only the logs may grow.

    python soak/live_soak.py --seconds 3600                # starts the machine's mariadbd
    python soak/live_soak.py --seconds 3600 --port 3306    # a server that runs, root has no password

Three processes: the archiver, a reader of the server's changes, and a reader of the archive as it grows. At
the end both readers must have read every change once and have the server's own table, and the logs of the
archive must equal the server's. Anonymous memory, descriptors and threads of each are printed: the values
after the first tenth of the time, and the highest values after that.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from archive_kills import connect, difference, held, sent
from server import port_of

KEYS = 2000
_ARCHIVER = """
import signal, sys, threading
from binlog_core.archive import archive
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
archive(sys.argv[1], sys.argv[2], start=sys.argv[3], stop=stop)
"""
_READER = """
import json, signal, sys, binlog_core
start = {"start": (sys.argv[2], 4)} if "://" in sys.argv[1] else {}
log = binlog_core.open(sys.argv[1], follow=True, **start)
signal.signal(signal.SIGTERM, lambda *_: log.stop())
count, table = 0, {}
for change in log.rows("soaked.t"):
    count += 1
    if change.before is not None:
        del table[change.before["id"]]
    if change.after is not None:
        table[change.after["id"]] = change.after["note"]
print(json.dumps([count, sorted(table.items())]))
"""


def process(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)


def measure(pid: int) -> tuple[int, int, int]:
    """Anonymous memory in KiB, descriptors, threads."""
    told = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.partition(":")[0]: line.split()[1] for line in told if len(line.split()) > 1}
    return int(found["RssAnon"]), len(os.listdir(f"/proc/{pid}/fd")), int(found["Threads"])


def write(cursor: Any, chance: Random, present: set[int]) -> int:
    """Run one transaction; return how many rows it changed."""
    keys = sorted({chance.randrange(KEYS) for _ in range(chance.choice((1, 1, 1, 30)))})
    note = "x" * chance.randrange(chance.choice((10, 100, 2000))) + str(chance.random())
    changed = 0
    cursor.execute("BEGIN")
    for key in keys:
        if key not in present:
            cursor.execute("INSERT INTO soaked.t VALUES (%s, %s)", (key, note))
            present.add(key)
        elif chance.random() < 0.3:
            cursor.execute("DELETE FROM soaked.t WHERE id = %s", (key,))
            present.remove(key)
        else:
            cursor.execute("UPDATE soaked.t SET note = %s WHERE id = %s", (note, key))
        changed += cursor.rowcount
    cursor.execute("COMMIT")
    return changed


def soak(port: int, seconds: float, seed: int) -> int:
    chance, url = Random(seed), f"mysql://root@127.0.0.1:{port}"
    with (
        closing(connect(port)) as connection,
        connection.cursor() as cursor,
        tempfile.TemporaryDirectory(prefix="soaked") as name,
    ):
        for statement in (
            "DROP DATABASE IF EXISTS soaked",
            "CREATE DATABASE soaked",
            "FLUSH BINARY LOGS",
            "SHOW BINARY LOGS",
        ):
            cursor.execute(statement)
        first = cursor.fetchall()[-1][0]
        cursor.execute("CREATE TABLE soaked.t (id INT PRIMARY KEY, note VARCHAR(4000))")
        folder = Path(name) / "archive"
        running = {"archiver": process(_ARCHIVER, url, str(folder), first)}
        while not (folder / first).exists():
            time.sleep(0.1)
        running["reader of the server"] = process(_READER, url, first)
        running["reader of the archive"] = process(_READER, str(folder), first)
        present: set[int] = set()
        began, looked, transactions, changes = time.monotonic(), 0.0, 0, 0
        at_first: dict[str, tuple[int, ...]] = {}
        highest: dict[str, tuple[int, ...]] = {}
        while (now := time.monotonic() - began) < seconds:
            changes += write(cursor, chance, present)
            transactions += 1
            time.sleep(0.005)
            if now > seconds / 10 and now - looked > 5:
                looked = now
                for who, one in running.items():
                    figures = measure(one.pid)
                    at_first.setdefault(who, figures)
                    highest[who] = tuple(map(max, highest.get(who, figures), figures))
        cursor.execute("SELECT id, note FROM soaked.t ORDER BY id")
        table = [list(row) for row in cursor.fetchall()]
        time.sleep(15)  # the last comes through; MariaDB writes a late checkpoint
        right = True
        for who in reversed(running):
            running[who].send_signal(signal.SIGTERM)
            out, _ = running[who].communicate(timeout=120)
            if who != "archiver":
                count, theirs = json.loads(out)
                right &= count == changes and theirs == table
                print(f"{who}: {count:,} of {changes:,} changes, the server's table: {theirs == table}")
            right &= running[who].returncode == 0
        for who in running:
            told = [
                f"{a:,} {what}, at most {b:,}"
                for a, b, what in zip(
                    at_first[who], highest[who], ("KiB", "descriptors", "threads"), strict=True
                )
            ]
            print(f"{who}: {'; '.join(told)}")
        mine, logs = held(folder), sent(port, first)
        wrong = {log: told for log in logs if (told := difference(mine.get(log), logs[log]))}
        size = sum(map(len, logs.values()))
        print(
            f"{seconds:.0f} s, {transactions:,} transactions; {len(logs)} logs, {size:,} bytes,"
            f" not the server's: {wrong or 'none'}"
        )
        return 0 if right and not wrong else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parent.parent))
    with port_of(arguments.port) as port:
        return soak(port, arguments.seconds, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
