"""A reader's first connection is cut after every number of bytes, for each kind of start.

    python soak/first_cuts.py --step 7                                # starts the machine's mariadbd
    python soak/first_cuts.py --port 3306 --step 1                    # a server whose logs may be reset
    python soak/first_cuts.py --port 3306 --replica 3307 --step 29    # which then takes over each time

Root has no password. The rows must be those of a reader whose line is good, which must be those that were
written. With a replica the first host lives only until the cut. Without GTIDs another host can only take over
before the first event; so the reader may also end with a `DivergedError` then, and these are counted.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from archive_kills import connect
from failover import replicate, run, until
from server import port_of

CUTS = 6000  # bytes
TABLE = "cuts.t"


def prepare(port: int, seed: int) -> list[tuple[int, str]]:
    """New logs with transactions of one and more rows; the rows."""
    chance = random.Random(seed)
    mysql = "MariaDB" not in run(port, "SELECT VERSION()")[0][0]
    reset = "RESET BINARY LOGS AND GTIDS" if mysql else "RESET MASTER"
    run(port, "DROP DATABASE IF EXISTS cuts", reset, "CREATE DATABASE cuts")
    run(port, f"CREATE TABLE {TABLE} (id INT PRIMARY KEY AUTO_INCREMENT, note VARCHAR(300))")
    for number in range(16):
        with closing(connect(port)) as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for _ in range(chance.choice((1, 1, 2, 5))):
                cursor.execute(f"INSERT INTO {TABLE} (note) VALUES (%s)", ("n" * chance.randrange(150),))
            cursor.execute("COMMIT")
            if number % 5 == 4:
                cursor.execute("FLUSH BINARY LOGS")
                if number == 9:
                    time.sleep(1.1)
    return [(int(key), str(note)) for key, note in run(port, f"SELECT id, note FROM {TABLE} ORDER BY id")]


def opened(url: str, start: Any, **options: Any) -> Any:
    import binlog_core

    server = {"ssl_mode": "DISABLED", "reconnect": 20}
    return binlog_core.open(url, start=start, tables=TABLE, server=server, **options)


def read(url: str, start: Any) -> list[tuple[int, str]]:
    with opened(url, start) as log:
        return [row(change) for change in log.rows()]


def row(change: Any) -> tuple[int, str]:
    """Key and note; old servers log no names and character sets."""
    key, note = change.after.values()
    return key, note.decode() if isinstance(note, bytes) else note


def starts(url: str, port: int, rows: list[tuple[int, str]], seed: int) -> Iterator[tuple[str, Any]]:
    """Each kind of start, and the number of rows before it."""
    import binlog_core

    chance = random.Random(seed)
    yield "none", None
    names = [name for name, *_ in run(port, "SHOW BINARY LOGS")]
    yield "place", (names[1], 4)
    with opened(url, None, limits=binlog_core.Limits(group_rows=1)) as log:
        positions = [group.position for group in log.groups()]
        gtids = next((change.gtid for change in islice(log.rows(), 10, None)), None)
    for inside in (False, True):
        some = [one for one in positions if bool(one.records) == inside and one.file == names[1]]
        for position in chance.sample(some, min(2, len(some))):
            yield f"position {'inside' if inside else 'between'} {position.offset}", position
    if gtids is not None:
        yield "gtids", next(one.gtids for one in positions[5:] if one.gtids is not None)
    with opened(url, (names[2], 4)) as log:
        second = min(change.timestamp for change in log.rows())
    yield "time", second if isinstance(second, dt.datetime) else dt.datetime.fromtimestamp(second, dt.UTC)


def soak(port: int, replica: int | None, step: int, seed: int, only: str) -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from support.line import Line

    from binlog_core.errors import DivergedError

    rows = prepare(port, seed)
    url, began, wrong, cuts, diverged = f"mysql://root@127.0.0.1:{port}", time.monotonic(), 0, 0, 0
    if replica is not None:
        replicate(port, replica)
        until(lambda: run(replica, f"SELECT COUNT(*) FROM {TABLE}")[0][0] == len(rows))
    gtids = "MariaDB" in run(port, "SELECT VERSION()")[0][0] or run(port, "SELECT @@gtid_mode")[0][0] == "ON"
    for name, start in starts(url, port, rows, seed):
        if not name.startswith(only) or (replica is not None and name == "place"):
            continue  # which means nothing on another host
        expected = read(url, start)
        if not expected or expected != rows[-len(expected) :]:
            print(f"{name}: a good line gives other rows than were written")
            wrong += 1
        for cut in range(seed % step, CUTS + 1, step):
            with Line(url, seed=cut, cuts=1 if replica is None else 10**9, least=cut, most=1) as line:
                target = line.url if replica is None else f"{line.url},127.0.0.1:{replica}"
                cuts += 1
                try:
                    if read(target, start) != expected:
                        raise AssertionError("other rows")
                except DivergedError as error:
                    diverged += 1
                    if replica is None or gtids:
                        wrong += 1
                        print(f"{name}, cut after {cut}: {error!r}", flush=True)
                except Exception as error:
                    wrong += 1
                    print(f"{name}, cut after {cut}: {error!r}", flush=True)
        print(f"{name}: {len(expected)} rows, {time.monotonic() - began:.0f} s", flush=True)
    if replica is None and "now".startswith(only):
        for cut in range(seed % step, CUTS + 1, 5 * step):
            cuts += 1
            with (
                Line(url, seed=cut, cuts=1, least=cut, most=1) as line,
                opened(line.url, "now", follow=True) as log,
            ):
                run(port, f"INSERT INTO {TABLE} (note) VALUES ('now {cut}')")
                [change] = islice(log.rows(), 1)
                if row(change)[1] != f"now {cut}":
                    wrong += 1
                    print(f"now, cut after {cut}: {change.after}", flush=True)
    version = run(port, "SELECT VERSION()")[0][0]
    print(
        f"{version}: {cuts} cuts in {time.monotonic() - began:.0f} s, wrong: {wrong},"
        f" refused without GTIDs: {diverged}"
    )
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int)
    parser.add_argument("--replica", type=int)
    parser.add_argument("--step", type=int, default=7)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--only", default="", help="kinds of start: how their names begin")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with port_of(arguments.port) as port:
        return soak(port, arguments.replica, arguments.step, arguments.seed, arguments.only)


if __name__ == "__main__":
    sys.exit(main())
