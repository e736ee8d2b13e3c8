"""Undo while others write: changes that they made since the accident must never be overwritten.

    python soak/server.py python soak/undo.py [ROUNDS]
    BINLOG_CORE_TEST_SERVER=mysql://root@127.0.0.1:3306 python soak/undo.py [ROUNDS]

Any server that logs rows will do, MySQL from 5.6 on; the second line is for one that already runs. The user
needs all privileges; the database soak_undo is dropped and made again.

In each round several connections insert, update, move and delete rows of a table at random, while one runs an
UPDATE without WHERE, or a DELETE of half of the rows. While they continue, the accident is found among the
server's transactions and reversed, every second time by column. Then the server's logs are followed from the
empty table on. Each row that the undo changed must have been as the accident left it, must now be as it was
before, and must be in the report; no other row may be in it. If a row is restored by column, that applies to
these columns, and the others must stay. The result must be the server's table.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql

import binlog_core
from binlog_core.inspect.transactions import transactions
from binlog_core.replay import ServerUndo, plan_undo
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection

WRITERS = 4
KEYS = 400
TABLE = "soak_undo.t"
COLUMNS = ("id", "v", "note", "seen")


def connect(url: str) -> Any:
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname or "",
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        autocommit=True,
    )


def place(connection: Any) -> tuple[str, int]:
    """The server's current position."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        name, size = cursor.fetchall()[-1][:2]
    return name, int(size)


def write(url: str, seed: int, stop: threading.Event, done: Counter[str]) -> None:
    """Change rows at random until stopped."""
    rng = random.Random(seed)
    connection = connect(url)
    with connection.cursor() as cursor:
        while not stop.is_set():
            key, value = rng.randrange(KEYS), rng.randrange(1 << 30)
            kind = rng.choices(("update", "see", "insert", "delete", "move"), (3, 3, 2, 1, 1))[0]
            statement = {
                "update": f"UPDATE {TABLE} SET v = {value} WHERE id = {key}",
                "see": f"UPDATE {TABLE} SET seen = seen + 1 WHERE id = {key}",
                "insert": f"INSERT IGNORE INTO {TABLE} VALUES ({key}, {value}, 'new', 0)",
                "delete": f"DELETE FROM {TABLE} WHERE id = {key}",
                "move": f"UPDATE IGNORE {TABLE} SET id = {rng.randrange(KEYS)} WHERE id = {key}",
            }[kind]
            try:
                done[kind] += cursor.execute(statement)
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (1205, 1213):  # lock wait, deadlock
                    raise
                done["refused"] += 1
            time.sleep(rng.random() / 200)
    connection.close()


def accident(url: str, number: int) -> int:
    """Cause the accident; return the thread that did."""
    connection = connect(url)
    statement = (
        f"UPDATE {TABLE} SET v = -1, note = 'oops {number}'"
        if number % 2 == 0
        else f"DELETE FROM {TABLE} WHERE id % 2 = 0"
    )
    with connection.cursor() as cursor:
        for _ in range(50):
            try:
                cursor.execute(statement)
                break
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (1205, 1213):
                    raise
    thread = int(connection.thread_id())
    connection.close()
    return thread


def table_of(url: str) -> dict[int, tuple[Any, ...]]:
    connection = connect(url)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {TABLE}")
        found = {row[0]: tuple(row) for row in cursor.fetchall()}
    connection.close()
    return found


def run_round(url: str, number: int, totals: Counter[str]) -> None:
    """One accident, reversed while the writers continue."""
    connection = connect(url)
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS soak_undo")
        cursor.execute("CREATE DATABASE soak_undo")
        cursor.execute(
            f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, v INT, note VARCHAR(20), seen INT) ENGINE=InnoDB"
        )
        cursor.execute("FLUSH BINARY LOGS")
        first = place(connection)[0]
        rows = ", ".join(f"({i}, {i}, 'old', 0)" for i in range(0, KEYS, 2))
        cursor.execute(f"INSERT INTO {TABLE} VALUES {rows}")
    stop, done = threading.Event(), Counter[str]()
    writers = [
        threading.Thread(target=write, args=(url, number * 100 + i, stop, done)) for i in range(WRITERS)
    ]
    for one in writers:
        one.start()
    time.sleep(0.5)
    before = place(connection)
    thread = accident(url, number)
    behind = place(connection)
    time.sleep(0.5)
    # MariaDB 10.11 does not log the thread: the accident is the transaction with most rows between two
    # places. Names and character sets come from the server, since old ones do not log them.
    span = {"start": before, "stop": behind, "tables": TABLE, "schema": url}
    [worst] = transactions(url, by="rows", most=1, **span)
    assert worst.thread_id in (None, thread)
    harm = {
        "start": (worst.path.rpartition("/")[2], worst.begin_position),
        "stop": (worst.path.rpartition("/")[2], worst.end_position),
        "tables": TABLE,
        "schema": url,
    }
    plan = plan_undo(url, **harm)
    with Connection(Address.of(url)) as own:
        ServerUndo(plan, own, by_column=number % 4 > 1).execute()
    time.sleep(0.3)
    stop.set()
    for one in writers:
        one.join()
    states = Counter(row.state for row in plan.rows)
    check(url, first, worst.begin_position, worst.path, plan, totals)
    totals.update({f"rows {state}": count for state, count in states.items()})
    totals.update({f"others: {kind}": count for kind, count in done.items()})
    totals["rounds"] += 1
    print(f"round {number}: {dict(states)}, others {sum(done.values())} changes", flush=True)


def check(url: str, first: str, begin: int, path: str, plan: Any, totals: Counter[str]) -> None:
    """Check that each change of the undo found what the accident had left, and restored what was before."""
    rows: dict[int, tuple[Any, ...]] = {}
    left: dict[int, tuple[Any, ...] | None] = {}
    was: dict[int, tuple[Any, ...] | None] = {}
    undone = 0
    with binlog_core.open(url, start=(first, 4), tables=TABLE, schema=url) as log:
        events = list(log.rows())
    by_transaction: dict[tuple[str, int], list[Any]] = {}
    with binlog_core.open(url, start=(first, 4), tables=TABLE, schema=url) as log:
        for group in log.groups():
            for one in group.transactions:
                by_transaction.setdefault((group.path, int(one["begin_position"])), [])
    places = sorted(by_transaction)
    ours = {int(row.key.removeprefix("id=")): row.columns for row in plan.rows if row.state == "done"}
    totals["rows set back by column"] += sum(columns is not None for columns in ours.values())

    def image(values: dict[str, Any] | None) -> tuple[Any, ...] | None:
        return None if values is None else tuple(values[name] for name in COLUMNS)

    largest: Counter[tuple[str, int]] = Counter()
    of: list[tuple[str, int]] = []
    for change in events:
        name = change.path or ""
        at = max(p for p in places if p[0] == name and p[1] <= change.position)
        of.append(at)
        largest[at] += 1
    # Each transaction of the others changes one row.
    last = max((p for p in largest if largest[p] > 1 and p[1] != begin), default=None)
    for change, at in zip(events, of, strict=True):
        before, after = image(change.before), image(change.after)
        if before is not None:
            assert rows.pop(before[0]) == before, "the log does not hold together"
        if after is not None:
            rows[after[0]] = after
        if at[0] == path and at[1] == begin:
            key = (before or after or (0,))[0]
            was[key], left[key] = before, after
        elif at == last:
            undone += 1
            key = (after or before or (0,))[0]
            assert key in ours, f"the report does not name {key}"
            columns = ours[key]
            if columns is None:
                assert before == left[key], f"{key} was not as the accident left it: {before}"
                assert after == was[key], f"{key} is not as it was before: {after}"
                continue
            own = [name in columns for name in COLUMNS]
            wanted = zip(own, before, after, left[key], was[key], strict=True)
            assert before != left[key], f"{key} could have been set back whole"
            for is_own, old, new, harm, good in wanted:
                assert (old, new) == (harm, good) if is_own else old == new, f"{key}: {before} {after}"
    assert undone == len(ours), f"{undone} rows in the log, {len(ours)} in the report"
    assert rows == table_of(url)
    totals["rows reversed, checked in the log"] += undone


def main() -> None:
    url = os.environ["BINLOG_CORE_TEST_SERVER"]
    totals: Counter[str] = Counter()
    for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
        run_round(url, number, totals)
    for name, count in sorted(totals.items()):
        print(f"{count:>8} {name}")


if __name__ == "__main__":
    main()
