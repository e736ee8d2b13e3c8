"""A primary is killed while it is read and archived; its replica takes over, and every row must arrive once.

    python soak/failover.py --primary 3306 --replica 3307 --kill 'kill -9 PID' [--lost] [--mirror 60]

Needs two servers of one vendor on 127.0.0.1 with new logs, GTIDs and log_slave_updates, where root has no
password. The command kills the primary: while it has a transaction open, and in the middle of another that it
sends to the readers. The replica has that one; or, with --lost, it does not, and a reader that has rows of it
gets an error.

With --mirror a mirror follows instead, eight writers change its tables, and the primary is killed this many
seconds after the start. At the end the lake equals the replica, and ``verify`` agrees; or, with --lost, each
run of the mirror gets an error, and no table of the lake changes any more.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from archive_kills import connect, size_of

_PATIENCE = 120
_SPARKS = 600  # a mirror's
_LARGE = 40, 1 << 20  # rows of the transaction that is cut, bytes of each


def run(port: int, *statements: str) -> list[Any]:
    rows: list[Any] = []
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            rows = list(cursor.fetchall())
    return rows


def until(done: Any, patience: float = _PATIENCE) -> None:
    end = time.monotonic() + patience
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("it does not come")
        time.sleep(0.1)


def replicate(primary: int, replica: int) -> None:
    if "MariaDB" in run(replica, "SELECT VERSION()")[0][0]:
        run(
            replica,
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary}, MASTER_USER='root',"
            " MASTER_USE_GTID=slave_pos, MASTER_SSL=0",
            "START SLAVE",
        )
    else:
        run(
            replica,
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={primary},"
            " SOURCE_USER='root', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
            "START REPLICA",
        )


def soak(primary: int, replica: int, kill: str, lost: bool) -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from support.line import Line

    import binlog_core
    from binlog_core.archive import archive

    replicate(primary, replica)
    run(
        primary,
        "CREATE DATABASE fo",
        "CREATE TABLE fo.t (id INT PRIMARY KEY AUTO_INCREMENT, n INT, note LONGTEXT)",
    )
    line = Line(f"mysql://root@127.0.0.1:{primary}", seed=0, cuts=0)
    url = f"{line.url},127.0.0.1:{replica}"
    reconnect = {"reconnect": 20} if lost else None
    ids: list[int] = []
    failed: list[Exception] = []
    told: dict[str, binlog_core.BinlogError] = {}
    stop = threading.Event()

    def write(port: int, count: int) -> None:
        for i in range(count):
            run(port, f"INSERT INTO fo.t (n) VALUES ({i}), ({-i})")
            if i % 50 == 49:
                run(port, "FLUSH BINARY LOGS")

    def count(port: int) -> int:
        try:
            return int(run(port, "SELECT COUNT(*) FROM fo.t")[0][0])
        except Exception:
            return -1

    def write_large() -> None:
        rows, size = _LARGE
        with closing(connect(primary)) as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for _ in range(rows):
                cursor.execute("INSERT INTO fo.t (note) VALUES (REPEAT('x', %s))", (size,))
            cursor.execute("COMMIT")

    with (
        tempfile.TemporaryDirectory() as name,
        line,
        binlog_core.open(url, follow=True, server=reconnect) as log,
    ):
        folder = Path(name) / "archive"

        def read(who: str, target: Any, into: list[int]) -> None:
            try:
                for change in target.rows("fo.t"):
                    into.append(next(iter(change.after.values())))
            except binlog_core.DivergedError as error:
                told[who] = error
            except Exception as error:
                failed.append(error)

        def keep() -> None:
            try:
                archive(url, folder, stop=stop)
            except Exception as error:
                failed.append(error)

        threads = [
            threading.Thread(target=read, args=("rows", log, ids), daemon=True),
            threading.Thread(target=keep, daemon=True),
        ]
        for thread in threads:
            thread.start()
        write(primary, 200)
        until(lambda: count(replica) == 400 and len(ids) == 400)
        followed: list[int] = []
        followers = binlog_core.open(folder, follow=True)
        threads.append(
            threading.Thread(target=read, args=("archive, followed", followers, followed), daemon=True)
        )
        threads[-1].start()
        until(lambda: len(followed) == 400 or failed)
        stop_replica = "STOP SLAVE" if "MariaDB" in run(replica, "SELECT VERSION()")[0][0] else "STOP REPLICA"
        if lost:
            run(replica, stop_replica)
        begun = size_of(folder)
        with closing(connect(primary)) as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO fo.t (n) VALUES (0)")
            threading.Thread(target=write_large, daemon=True).start()
            end = time.monotonic() + _PATIENCE
            while size_of(folder) - begun < _LARGE[1] and time.monotonic() < end:
                time.sleep(0.0001)
            line.dead.set()
            if not lost:
                until(lambda: count(replica) == 400 + _LARGE[0])
            cut = size_of(folder) - begun
            subprocess.run(kill, shell=True, check=True)
            line.dead.clear()
        if not lost:
            run(replica, stop_replica)
        write(replica, 200)
        most = count(replica)
        readers = {"rows": ids, "archive, followed": followed}
        until(lambda: all(len(seen) >= most or who in told for who, seen in readers.items()) or failed)
        stop.set()
        log.stop()
        followers.stop()
        for thread in threads:
            thread.join(_PATIENCE)
        followers.close()
        with binlog_core.open(folder) as whole:
            archived = [next(iter(change.after.values())) for change in whole.rows("fo.t")]
    wanted = [row[0] for row in run(replica, "SELECT id FROM fo.t ORDER BY id")]
    for who, error in told.items():
        print(f"{who}: {error.message}")
    if lost:  # those rows may come before an error, or (of an archive that is followed) without one
        for who, seen in readers.items():
            seen[:] = seen[:400] + (wanted[400:] if who in told else seen[400 - len(wanted) :])
    found = {"rows": ids == wanted, "archive": archived == wanted, "archive, followed": followed == wanted}
    for error in failed:
        print(f"failed: {error!r}")
    print(f"killed {cut:,} bytes into a transaction of {_LARGE[0] * _LARGE[1]:,}")
    print(f"{len(wanted)} rows; each once and in order: {found}")
    as_meant = not failed and ("rows" in told) == lost
    return 0 if all(found.values()) and as_meant and cut < _LARGE[0] * _LARGE[1] else 1


def mirrored(primary: int, replica: int, kill: str, lost: bool, seconds: float) -> int:
    import mirror_kills as kills

    replicate(primary, replica)
    mariadb = "MariaDB" in run(replica, "SELECT VERSION()")[0][0]
    state = "@@gtid_binlog_pos" if mariadb else "@@gtid_executed"
    kills.prepare(primary)
    stop, moved = threading.Event(), threading.Event()

    def write(number: int) -> None:
        for port, end in ((primary, moved), (replica, stop)):
            with suppress(Exception):  # its server is killed
                kills.write(port, number, end)
            moved.wait()

    def equal() -> bool:
        return bool(run(primary, f"SELECT {state}") == run(replica, f"SELECT {state}"))

    with tempfile.TemporaryDirectory() as name, ExitStack() as ended:
        lake = Path(name) / "lake"
        hosts = f"mysql://root@127.0.0.1:{primary},127.0.0.1:{replica}?reconnect={10 if lost else 60}"
        arguments = [hosts, str(lake), "--tables", kills.PATTERN]

        def mirror(*more: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "binlog_core.cli", "mirror", *arguments, *more]
            return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

        def versions() -> dict[str, int]:
            return {path.parent.name: len(list(path.glob("*.json"))) for path in lake.glob("*/_delta_log")}

        writers = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(8)]
        for writer in writers:
            writer.start()
        following = mirror()
        ended.callback(following.kill)
        until(lambda: list(lake.glob("_mirror/state.json")), _SPARKS)
        time.sleep(seconds)
        print(f"killed: {kills.stages(lake)}", flush=True)
        if lost:
            run(replica, "STOP SLAVE" if mariadb else "STOP REPLICA")
            logs = lake / "_mirror" / "archive"
            before = size_of(logs)
            until(lambda: size_of(logs) > before + 10_000, _SPARKS)
            subprocess.run(kill, shell=True, check=True)
        else:
            with closing(connect(primary)) as connection, connection.cursor() as cursor:
                cursor.execute("FLUSH TABLES WITH READ LOCK")
                until(equal)
                subprocess.run(kill, shell=True, check=True)
            run(replica, "STOP SLAVE" if mariadb else "STOP REPLICA")
        moved.set()
        if lost:
            told = [following.communicate()[1]]
            had = versions()
            told += [mirror("--until", "now").communicate()[1]]
            stop.set()
            print(*(one.splitlines()[-1] for one in told), sep="\n")
            return 0 if had == versions() and all("diverged" in one or "lacks" in one for one in told) else 1
        time.sleep(seconds)
        stop.set()
        for writer in writers:
            writer.join()
        following.send_signal(signal.SIGINT)
        print(following.communicate()[1], end="")
        if mirror("--until", "now").wait():
            return 1
        wrong = kills.differences(replica, lake)
        print(f"failover; not as SELECT has them: {', '.join(wrong) or 'none'}", flush=True)
        return 1 if wrong else kills.command(replica, lake, "verify")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--primary", type=int, required=True)
    parser.add_argument("--replica", type=int, required=True)
    parser.add_argument("--kill", required=True)
    parser.add_argument(
        "--lost", action="store_true", help="the transaction that is cut is not on the replica"
    )
    parser.add_argument(
        "--mirror", type=float, help="a mirror, and seconds after which the primary is killed"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parent.parent))
    servers = arguments.primary, arguments.replica, arguments.kill, arguments.lost
    if arguments.mirror is not None:
        return mirrored(*servers, arguments.mirror)
    return soak(*servers)


if __name__ == "__main__":
    sys.exit(main())
