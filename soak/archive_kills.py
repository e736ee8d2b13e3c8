"""An archiver is killed at random moments while its server is written to; its logs are the server's own.

    python soak/archive_kills.py --kills 200                # starts the machine's mariadbd
    python soak/archive_kills.py --kills 200 --port 3306    # a server that runs, root has no password

Every round starts the archiver, lets two writers continue, and ends it by SIGKILL after a random time.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from server import port_of


def connect(port: int) -> Any:
    import pymysql

    return pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)


def write(port: int, number: int, stop: threading.Event) -> None:
    """Write transactions of all sizes, and begin a new log now and then."""
    chance = random.Random(number)
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        while not stop.is_set():
            size = chance.choice((10, 100, 3000, 100_000))
            cursor.execute("INSERT INTO killed.t (note) VALUES (%s)", ("x" * chance.randrange(size),))
            if chance.random() < 0.02:
                cursor.execute("FLUSH BINARY LOGS")
            stop.wait(0.002)


def sent(port: int, first: str = "") -> dict[str, bytes]:
    """The server's logs from one on, as a replica gets them, by code that the archiver does not use."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from support.server import dump

    with closing(connect(port)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        names = [row[0] for row in cursor.fetchall() if row[0] >= first]
    url = f"mysql://root@127.0.0.1:{port}"
    return {name: b"\xfebin" + b"".join(dump(name, url)) for name in names}


def held(folder: Path) -> dict[str, bytes]:
    """The archive's logs, none of them marked as in use."""
    logs = {path.name: bytearray(path.read_bytes()) for path in sorted(folder.glob("*.[0-9]*"))}
    for data in logs.values():
        if len(data) > 21:
            data[21] &= ~1
    return {name: bytes(data) for name, data in logs.items()}


def size_of(folder: Path) -> int:
    """Bytes of the archive's logs."""
    return sum(path.stat().st_size for path in folder.glob("*.[0-9]*"))


def difference(mine: bytes | None, theirs: bytes) -> str | None:
    """Where two copies of a log begin to differ; None: nowhere."""
    if mine == theirs:
        return None
    if mine is None:
        return "missing"
    differ = (at for at, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1])
    return f"{len(mine):,} of {len(theirs):,} bytes, the same up to {next(differ, len(mine)):,}"


def archiver(port: int, folder: Path) -> subprocess.Popen[str]:
    """A process that archives when told to."""
    program = (
        "import sys; from binlog_core.archive import archive; import binlog_core.archive.live_feed, pymysql\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"archive('mysql://root@127.0.0.1:{port}', {str(folder)!r})"
    )
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def soak(port: int, kills: int, seed: int) -> int:
    chance = random.Random(seed)
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS killed")
        cursor.execute("CREATE DATABASE killed")
        cursor.execute("CREATE TABLE killed.t (id INT PRIMARY KEY AUTO_INCREMENT, note LONGTEXT)")
    stop = threading.Event()
    writers = [threading.Thread(target=write, args=(port, seed + n, stop), daemon=True) for n in range(2)]
    for writer in writers:
        writer.start()
    grown = 0
    with tempfile.TemporaryDirectory(prefix="killed") as name:
        folder = Path(name) / "archive"
        following = archiver(port, folder)
        for kill in range(kills):
            running, following = following, archiver(port, folder)  # it is made ready in the meantime
            before = size_of(folder)
            assert running.stdin is not None and running.stdout is not None
            running.stdout.readline()
            running.stdin.write("go\n")
            running.stdin.flush()
            time.sleep(chance.random() ** 2)
            running.send_signal(signal.SIGKILL)
            _, err = running.communicate()
            if running.returncode != -signal.SIGKILL:
                print(f"kill {kill}: exit {running.returncode}: {err}")
                return 1
            grown += size_of(folder) > before
            if kill % 20 == 19:
                print(f"{kill + 1} kills, the archive grew in {grown} rounds", flush=True)
        following.kill()
        following.communicate()
        from binlog_core.archive import archive

        stop.set()
        for writer in writers:
            writer.join()
        time.sleep(5)  # MariaDB writes a checkpoint into a new log a while after it began
        archive(f"mysql://root@127.0.0.1:{port}", folder, until="now")
        mine, theirs = held(folder), sent(port)
        wrong = {log: told for log in theirs if (told := difference(mine.get(log), theirs[log]))}
        size = sum(map(len, theirs.values()))
        print(f"{kills} kills; {len(theirs)} logs, {size:,} bytes; not the server's: {wrong or 'none'}")
        return 1 if wrong or not grown or mine.keys() != theirs.keys() else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parent.parent))
    with port_of(arguments.port) as port:
        return soak(port, arguments.kills, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
