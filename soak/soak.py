# ruff: noqa: E501
"""A server under write load; a reader follows its logs and is killed at random. Nothing may be lost or doubled.

    python soak/soak.py --seconds 60                                # starts the machine's mariadbd, if it has one
    python soak/soak.py --seconds 60 --port 3306 --logs DIR/bin.index     # a server that runs, root has no password

The reader writes changes and its checkpoint in one SQLite transaction; after SIGKILL it continues from there. At
the end the changes, applied one by one to an empty table, must give the server's own table: each insert finds no
row, each update and delete the very row that its before image holds. Ends by itself; loopback only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

from server import server

WRITERS = 2


# ---------------------------------------------------------------- the reader


def read(logs: str, store: str) -> None:
    """Follow the logs forever; the checkpoint is in the store."""
    import binlog_core
    from binlog_core._decode.merge import ChangeReader

    warnings.simplefilter("ignore", binlog_core.BinlogWarning)
    db = sqlite3.connect(store, timeout=60)
    found = db.execute("SELECT file, position FROM checkpoint").fetchone()
    if found:
        # From a transaction that was still open when its group was written.
        db.execute("DELETE FROM changes WHERE file = ? AND position >= ?", found)
        db.commit()
    with binlog_core.open(logs, follow=True, start=found, tables="soak.*") as log:
        reader = ChangeReader(log.report, skip_errors=False)
        for group in log.groups():
            for change in reader.changes([group]):
                row = (group.path, change.position, change.op, change.table)
                images = json.dumps(change.before), json.dumps(change.after)
                db.execute(
                    "INSERT INTO changes (file, position, op, tbl, old, new) VALUES (?,?,?,?,?,?)",
                    row + images,
                )
            db.execute("DELETE FROM checkpoint")
            db.execute("INSERT INTO checkpoint VALUES (?, ?)", (group.path, group.resume_position))
            db.commit()


# ---------------------------------------------------------------- the load


def connect(port: int) -> Any:
    import pymysql

    return pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=False)


def write(port: int, number: int, stop: threading.Event, done: list[int], pause: float) -> None:
    """Transactions of inserts, updates and deletes, with a pause after each; one in ten is rolled back."""
    chance = random.Random(number)
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        mine: list[int] = []
        while not stop.is_set():
            added, removed = [], []
            for _ in range(chance.randrange(1, 20)):
                text = "x" * chance.randrange(200) + "ü𝒳"
                cursor.execute("INSERT INTO soak.t (writer, value, text) VALUES (%s, 0, %s)", (number, text))
                added.append(cursor.lastrowid)
            for key in chance.sample(mine, min(len(mine), chance.randrange(10))):
                cursor.execute("UPDATE soak.t SET value = value + 1 WHERE id = %s", (key,))
            for key in chance.sample(mine, min(len(mine), chance.randrange(6))):
                cursor.execute("DELETE FROM soak.t WHERE id = %s", (key,))
                removed.append(key)
            if chance.random() < 0.1:
                connection.rollback()
                continue
            connection.commit()
            done[number] += 1
            mine = [key for key in mine if key not in set(removed)][-500:] + added
            stop.wait(pause)


# ---------------------------------------------------------------- the judge


def judge(store: str, rows: dict[int, tuple[Any, ...]]) -> dict[str, int]:
    """Apply the changes, count what does not fit, and compare with the server's table."""
    table: dict[int, tuple[Any, ...]] = {}
    figures = {"changes": 0, "doubled": 0, "lost": 0}
    with closing(sqlite3.connect(store)) as db:
        for op, old, new in db.execute("SELECT op, old, new FROM changes WHERE tbl = 't' ORDER BY number"):
            before, after = (
                tuple(image.values()) if image else None for image in (json.loads(old), json.loads(new))
            )
            figures["changes"] += 1
            if op == "insert":
                figures["doubled"] += after[0] in table
                table[after[0]] = after
                continue
            if table.pop(before[0], None) != before:
                figures["lost"] += 1
            if after is not None:
                table[after[0]] = after
    figures["lost"] += sum(table.get(key) != row for key, row in rows.items())
    figures["doubled"] += len(table.keys() - rows.keys())
    return figures


def prepare(port: int, folder: str, *stores: str) -> None:
    """The server's table, and a checkpoint where it begins: in a log of this folder."""
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS soak")
        cursor.execute("CREATE DATABASE soak")
        cursor.execute(
            "CREATE TABLE soak.t"
            " (id INT PRIMARY KEY AUTO_INCREMENT, writer INT, value INT, text VARCHAR(300)) CHARACTER SET utf8mb4"
        )
        connection.commit()
        file, position = end_of_logs(cursor)
    for store in stores:
        with closing(sqlite3.connect(store)) as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute(
                "CREATE TABLE changes"
                " (number INTEGER PRIMARY KEY, file TEXT, position INT, op TEXT, tbl TEXT, old, new)"
            )
            db.execute("CREATE TABLE checkpoint (file TEXT, position INT)")
            # Earlier rows in the logs belong to another table that had the same keys.
            db.execute("INSERT INTO checkpoint VALUES (?, ?)", (os.path.join(folder, file), position))
            db.commit()


def rows_of(port: int) -> tuple[str, int, dict[int, tuple[Any, ...]]]:
    """Where the logs end, and the server's table."""
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        file, position = end_of_logs(cursor)
        cursor.execute("SELECT id, writer, value, text FROM soak.t")
        return file, position, {row[0]: row for row in cursor.fetchall()}


def soak(port: int, logs: str, seconds: float, pause: float, folder: Path) -> int:
    store = str(folder / "changes.sqlite")
    prepare(port, logs if os.path.isdir(logs) else os.path.dirname(logs), store)
    stop = threading.Event()
    done = [0] * WRITERS
    writers = [threading.Thread(target=write, args=(port, n, stop, done, pause)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    command = [sys.executable, __file__, "--read", logs, store]
    chance = random.Random(1)
    kills = 0
    end = time.monotonic() + seconds
    reader = subprocess.Popen(command)
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.4, 3.0))
        if reader.poll() is not None:
            stop.set()
            sys.exit(f"the reader ended by itself: {reader.returncode}")
        reader.send_signal(signal.SIGKILL)
        reader.wait()
        kills += 1
        reader = subprocess.Popen(command)
    stop.set()
    for writer in writers:
        writer.join()

    file, position, rows = rows_of(port)
    patience = time.monotonic() + 120
    while reader.poll() is None and time.monotonic() < patience and not reached(store, file, position):
        time.sleep(0.2)
    reader.kill()
    reader.wait()
    figures = judge(store, rows)
    last = int(file.rsplit(".", 1)[1])
    print(
        f"{seconds:.0f} s, {sum(done)} transactions, {figures['changes']} row changes, {last} logs, {kills} kills: "
        f"{figures['lost']} lost, {figures['doubled']} doubled; caught up: {reached(store, file, position)}"
    )
    fine = (
        reached(store, file, position)
        and figures["lost"] == figures["doubled"] == 0
        and figures["changes"] > 0
    )
    return 0 if fine else 1


def end_of_logs(cursor: Any) -> tuple[str, int]:
    import pymysql

    try:
        cursor.execute("SHOW BINARY LOG STATUS")  # MySQL 8.2 and later
    except pymysql.MySQLError:
        cursor.execute("SHOW MASTER STATUS")
    file, position = cursor.fetchone()[:2]
    return file, position


def reached(store: str, file: str, position: int) -> bool:
    with closing(sqlite3.connect(store, timeout=60)) as db:
        found = db.execute("SELECT file, position FROM checkpoint").fetchone()
    return found is not None and (os.path.basename(found[0]), found[1]) >= (file, position)


def main() -> int:
    parser = argparse.ArgumentParser(description="Follow a server's logs under load, with kills.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0, help="seconds after each transaction of a writer")
    parser.add_argument("--port", type=int)
    parser.add_argument("--logs", help="index file or directory of a running server's logs")
    parser.add_argument("--read", nargs=2, metavar=("LOGS", "STORE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(*options.read)
        return 0
    with tempfile.TemporaryDirectory(prefix="soak") as name:
        if options.port and options.logs:
            return soak(options.port, options.logs, options.seconds, options.pause, Path(name))
        with server() as running:
            if running is None:
                print("skipped: no MariaDB server here (mariadb-server-core), and neither --port nor --logs")
                return 0
            return soak(running.port, running.logs, options.seconds, options.pause, Path(name))


if __name__ == "__main__":
    sys.exit(main())
