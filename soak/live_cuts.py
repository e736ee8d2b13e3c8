"""A server is read and archived while connections are cut, split, stalled and reset at seeded random places.

    python soak/live_cuts.py --cuts 1000                # starts the machine's mariadbd
    python soak/live_cuts.py --cuts 1000 --port 3306    # a server that runs, root has no password

Half of the cuts hit the reader of rows, half the archiver. At the end every row must have arrived once and in
order, and the archive's logs must equal those that the server sends.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from archive_kills import connect, difference, held, sent
from server import port_of


def write(port: int, stop: threading.Event, written: list[int], chance: Random) -> None:
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        cursor.execute("USE cuts")
        while not stop.is_set():
            # Events must be shorter than a connection lives, or none would ever arrive complete.
            size = chance.randrange(chance.choice((10, 100, 1000, 1000, 6000)))
            notes = ["x" * size] * chance.randrange(1, 4)
            cursor.execute("INSERT INTO t (note) VALUES " + ",".join(["(%s)"] * len(notes)), notes)
            written[0] += len(notes)
            if chance.random() < 0.01:
                cursor.execute("FLUSH BINARY LOGS")
            stop.wait(0.01)


def soak(port: int, cuts: int, seed: int, options: dict[str, str]) -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from support.line import Line

    import binlog_core
    from binlog_core.archive import archive, archiver
    from binlog_core.server import stream

    # Many cuts in a row show nothing new, and would double the pauses up to their maximum.
    archiver._LONGEST_PAUSE = stream._LONGEST_PAUSE = 0.2
    url = f"mysql://root@127.0.0.1:{port}"
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        for statement in (
            "DROP DATABASE IF EXISTS cuts",
            "CREATE DATABASE cuts",
            "CREATE TABLE cuts.t (id INT PRIMARY KEY AUTO_INCREMENT, note LONGTEXT)",
            "FLUSH BINARY LOGS",
            "SHOW BINARY LOGS",
        ):
            cursor.execute(statement)
        first = cursor.fetchall()[-1][0]
    stop, written, ids, failed = threading.Event(), [0], [], []
    most = {"seed": seed, "cuts": cuts // 2, "least": 20_000}
    began = time.monotonic()
    with (
        Line(url, most=40_000, **most) as rows_line,
        Line(url, most=150_000, **most) as archive_line,
        tempfile.TemporaryDirectory() as name,
    ):
        folder = Path(name) / "archive"
        log = binlog_core.open(rows_line.url, start=(first, 4), follow=True, server=options)

        def read() -> None:
            try:
                for change in log.rows("cuts.t"):
                    ids.append(next(iter(change.after.values())))
            except Exception as error:
                failed.append(error)

        def keep() -> None:
            try:
                archive(archive_line.url, folder, start=first, stop=stop, options=options)
            except Exception as error:
                failed.append(error)

        def wait(done: Any) -> None:
            while not done() and not failed:
                time.sleep(0.1)

        write_on = threading.Event()
        threads = [threading.Thread(target=work, daemon=True) for work in (read, keep)]
        writer = threading.Thread(target=write, args=(port, write_on, written, Random(seed)), daemon=True)
        for thread in (writer, *threads):
            thread.start()
        wait(lambda: rows_line.left <= 0 and archive_line.left <= 0)
        write_on.set()
        writer.join()
        wait(lambda: len(ids) >= written[0])
        time.sleep(5)  # MariaDB writes a checkpoint into a new log a while after it began
        stop.set()
        log.stop()
        for thread in threads:
            thread.join(60)
        for error in failed:
            print(f"failed: {error!r}")
        if failed:
            return 1
        archive(url, folder, until="now")
        mine, theirs = held(folder), sent(port, first)
        wrong = {one: told for one in theirs if (told := difference(mine.get(one), theirs[one]))}
        right = ids == list(range(1, written[0] + 1))
        made = 2 * (cuts // 2) - rows_line.left - archive_line.left
        size = sum(map(len, theirs.values()))
        print(
            f"{made} cuts in {time.monotonic() - began:.0f} s;"
            f" {written[0]} rows, each once and in order: {right};"
            f" {len(theirs)} logs, {size:,} bytes, not the server's: {wrong or 'none'};"
            f" reconnects told: {log.report.reconnects}"
        )
        return 0 if right and not wrong and mine.keys() == theirs.keys() else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cuts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--port", type=int)
    parser.add_argument("--compression", default="none", help="of the lines: none or zstd")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parent.parent))
    with port_of(arguments.port) as port:
        return soak(port, arguments.cuts, arguments.seed, {"compression": arguments.compression})


if __name__ == "__main__":
    sys.exit(main())
