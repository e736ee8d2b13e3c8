"""Marks while XA transactions are committed: MariaDB logs an XA COMMIT before others see its rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.refused import Sql, mirrored, rows_of
from support.server import connect, run

from binlog_core.lake.access import Access
from binlog_core.mirror import copying, verify, viewing
from binlog_core.mirror.marks import Mark, place_mark, place_of, take_mark, unseen
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection
from binlog_core.splits import Split

_PATIENCE = 60.0  # seconds until it has been seen


_WRITE = """
BEGIN NOT ATOMIC
  DECLARE n INT DEFAULT 0;
  WHILE NOT EXISTS (SELECT * FROM refused.ended) DO
    SET n = n + 1;
    EXECUTE IMMEDIATE CONCAT("XA START '{writer}-", n, "'");
    INSERT INTO refused.x VALUES ({writer}, n);
    EXECUTE IMMEDIATE CONCAT("XA END '{writer}-", n, "'");
    EXECUTE IMMEDIATE CONCAT("XA PREPARE '{writer}-", n, "'");
    EXECUTE IMMEDIATE CONCAT("XA COMMIT '{writer}-", n, "'");
  END WHILE;
END"""


@contextmanager
def writers(url: str, sql: Sql, count: int = 2) -> Iterator[None]:
    """Sessions that insert rows 1, 2, … of their own, each in an XA transaction."""
    sql("CREATE TABLE x (writer INT, n INT, PRIMARY KEY (writer, n))")
    sql("CREATE TABLE ended (n INT)")

    def write(writer: int) -> None:
        with connect(url) as connection:
            run(connection, _WRITE.format(writer=writer))

    threads = [threading.Thread(target=write, args=(one,)) for one in range(count)]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        sql("INSERT INTO ended VALUES (1)")
        for one in threads:
            one.join()


def seen_by(connection: Any) -> dict[int, int]:
    """The last row of each writer."""
    each = "SELECT {0}, MAX(n) FROM refused.x WHERE writer = {0}".format
    return {writer: n or 0 for writer, n in run(connection, f"{each(0)} UNION ALL {each(1)}")}


def lacking(connection: Any, marks: list[tuple[Mark, dict[int, int]]]) -> list[tuple[Mark, int]]:
    """The marks after which a row was not seen, and where the first XA COMMIT of such a row ends."""
    ends = {}
    for file in {mark.file for mark, _ in marks}:
        events = [event[4:6] for event in run(connection, f"SHOW BINLOG EVENTS IN '{file}'")]
        xa = [(end, sql.split("'")[1]) for end, sql in events if sql.startswith("XA COMMIT")]
        ends[file] = [(end, *map(int, bytes.fromhex(name).split(b"-"))) for end, name in xa]
    found = []
    for mark, seen in marks:
        assert mark.file is not None and mark.offset is not None
        its = (end for end, writer, n in ends[mark.file] if end <= mark.offset and n > seen.get(writer, 0))
        found += [(mark, end) for end in its][:1]
    return found


def test_what_a_mark_has_and_selects_do_not_see_is_found(url: str, sql: Sql) -> None:
    """With one mark in a thousand it happens; then the log is read from before it."""
    found: list[tuple[Mark, int]] = []
    with connect(url) as other, Connection(Address.of(url)) as asking, writers(url, sql):
        facts, until = asking.facts(), time.monotonic() + _PATIENCE
        while not found:
            if time.monotonic() > until:
                pytest.skip("it was not seen")
            marks = [(take_mark(asking, facts), seen_by(other)) for _ in range(300)]
            found = lacking(other, marks)
        folder = run(other, "SELECT @@log_bin_basename")[0][0].rpartition("/")[0]
        names = [name for name, *_ in run(other, "SHOW BINARY LOGS")]
    logs = [Split(f"{folder}/{name}", file_number=i) for i, name in enumerate(names)]
    for mark, end in found:
        at, position = place_of(mark, logs, Access())
        assert (first := unseen(mark, (at, position), logs, Access())) is not None
        assert first < (at, end)


def test_a_row_is_not_lost_whose_transaction_is_committed_at_the_mark(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it took that long: the mark is behind the XA COMMIT, and the copy is without its row."""
    sql("CREATE TABLE keyless (v INT)")
    with connect(url) as other:
        run(other, "XA START 'y'", "INSERT INTO refused.t VALUES (8, 8)", "XA END 'y'", "XA PREPARE 'y'")
    with connect(url) as other:
        rows = "INSERT INTO refused.t VALUES (9, 9)", "INSERT INTO refused.keyless VALUES (9)"
        run(other, "XA START 'x'", *rows, "XA END 'x'", "XA PREPARE 'x'")
    copy = copying.run_copies

    def run_copies(runner: Any, lake: Any, address: Any, copies: Any, **named: Any) -> Any:
        found = [*copy(runner, lake, address, copies, **named)]
        if sql("XA RECOVER")[0][3] != b"x" and len(sql("XA RECOVER")) == 1:
            return found
        sql("XA COMMIT 'x'")
        sql("INSERT INTO t VALUES (3, 3)")
        with Connection(Address.of(url)) as asking:
            place = place_mark(asking, "1", by_gtids=False)
        for one in copies.values():
            one.copy.mark.update(file=place.file, offset=place.offset)
        sql("UPDATE t SET v = 7 WHERE id = 2")
        return found

    monkeypatch.setattr(copying, "run_copies", run_copies)
    mirrored(url, tmp_path)
    assert rows_of(tmp_path) == [(1, 1), (2, 7), (3, 3), (9, 9)]
    assert rows_of(tmp_path, "keyless") == [(9,)]
    assert all(one.agrees for one in verify(tmp_path, "refused.t"))
    sql("XA COMMIT 'y'")
    mirrored(url, tmp_path)
    assert rows_of(tmp_path) == [(1, 1), (2, 7), (3, 3), (8, 8), (9, 9)]


def test_xa_transactions_of_other_tables_do_not_keep_verify_from_an_answer(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come so fast that snapshots are never without one: the table is locked, and one is listed then."""
    mirrored(url, tmp_path)
    sql("CREATE TABLE x (n INT PRIMARY KEY)")
    listing, numbers = viewing.prepared, count(1)

    def prepared(connection: Connection) -> str:
        n = next(numbers)
        insert = f"INSERT INTO refused.x VALUES ({n})"
        with connect(url) as other:
            run(other, f"XA START '{n}'", insert, f"XA END '{n}'", f"XA PREPARE '{n}'")
            found = listing(connection)
            run(other, f"XA COMMIT '{n}'")
        return found

    monkeypatch.setattr(viewing, "_ALIGNED", 1)
    monkeypatch.setattr(viewing, "prepared", prepared)
    (found,) = verify(tmp_path, "refused.t")
    assert found.agrees, found.reason
    assert next(numbers) > 1
