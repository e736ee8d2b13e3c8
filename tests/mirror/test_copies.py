"""The first copy of a table: together the chunks of its key have each row once."""

from __future__ import annotations

import io
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from support.talk import result_set  # noqa: E402

from binlog_core.lake.runner import LocalRunner  # noqa: E402
from binlog_core.mirror import copies  # noqa: E402
from binlog_core.mirror.copies import Copier, CopyChunk, batches_of, plan_copy  # noqa: E402
from binlog_core.mirror.state import TableState  # noqa: E402
from binlog_core.mirror.values import SelectList  # noqa: E402
from binlog_core.server.address import Address  # noqa: E402
from binlog_core.server.result_set import Rows, result_rows  # noqa: E402

ROW_LEN = 10  # of three digits, with the packet's header
CREATE = "CREATE TABLE `t` (`a` INT, `b` INT, `c` {}, PRIMARY KEY (`a`, `b`, `c`))"


class Server:
    """A server whose tables are in SQLite, which has the same quotes and comparisons."""

    def __init__(self, rows: list[tuple[Any, ...]], kind: str = "INT", row_length: int | None = 100) -> None:
        self.create, self.row_length = CREATE.format(kind), row_length
        self.tables = sqlite3.connect(":memory:")
        self.tables.execute("ATTACH ':memory:' AS shop")
        self.tables.execute("CREATE TABLE shop.t (a, b, c, PRIMARY KEY (a, b, c))")
        self.tables.executemany("INSERT INTO shop.t VALUES (?, ?, ?)", rows)

    def query(self, sql: str, *_: Any, **__: Any) -> list[Any]:
        if sql.startswith("SHOW CREATE TABLE `shop`.`t`"):
            return [("t", self.create)]
        assert "AVG_ROW_LENGTH" in sql
        return [(self.row_length, "BASE TABLE", 0)]

    def stream(self, sql: str, *, most: int = 1 << 20) -> Iterator[Rows]:
        found = self.tables.execute(sql)
        rows = [tuple(None if value is None else str(value).encode() for value in row) for row in found]
        yield from result_rows(io.BytesIO(result_set(rows, len(found.description))).readinto, most=most)


def test_each_row_is_in_one_chunk() -> None:
    rows = [(a, b, c) for a in range(-3, 20) for b in range(15) for c in range(10)]
    server: Any = Server(rows, row_length=1 << 20)  # a thousand rows at least, however long they are
    copy = plan_copy(server, TableState("shop", "t"), {"file": "bin.000001"}, mariadb=True)
    assert len(copy.chunks) == 4  # of 3450 rows
    found: list[tuple[Any, ...]] = []
    for condition in copy.chunks:
        chunk = list(server.tables.execute(f"SELECT * FROM shop.t WHERE {condition}"))
        assert len(chunk) <= 1000
        found += chunk
    assert found == rows


def test_small_tables_and_keys_without_an_order_of_ours_are_one_chunk() -> None:
    server: Any = Server([(1, 2, 3)])
    assert plan_copy(server, TableState("shop", "t"), {}, mariadb=True).chunks == ("",)
    server = Server([(1, i, "a") for i in range(3000)], kind="ENUM('a','b')", row_length=1 << 20)
    assert plan_copy(server, TableState("shop", "t"), {}, mariadb=True).chunks == ("",)


def test_rows_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    from binlog_core.schema.given import parse_create_table

    server: Any = Server([(1, 2, i) for i in range(5)])
    selection = SelectList.of(parse_create_table(server.create, "shop", "t"), mariadb=True)
    monkeypatch.setattr("binlog_core.mirror.copies.RECEIVED", 2 * ROW_LEN)
    found = list(batches_of(server, "SELECT * FROM shop.t", selection))
    assert max(batch.num_rows for batch in found) == 2
    assert [row["c"] for batch in found for row in batch.to_pylist()] == list(range(5))


def test_an_error_in_what_is_made_of_rows_does_not_wait_for_a_silent_server() -> None:
    from binlog_core.mirror.copies import _ahead

    given_up = threading.Event()

    def batches() -> Iterator[Any]:
        yield 1
        assert given_up.wait(60), "the server's next word was waited for"

    found = _ahead(batches(), given_up.set)
    assert next(found) == 1
    found.close()  # type: ignore[attr-defined]
    assert given_up.is_set()


def test_rows_come_no_faster_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    import binlog_core.mirror.copies as copies
    from binlog_core.schema.given import parse_create_table

    class Clock:
        now = 100.0

        def monotonic(self) -> float:
            return self.now

        def sleep(self, seconds: float) -> None:
            self.now += seconds

    clock = Clock()
    monkeypatch.setattr(copies, "time", clock)
    server: Any = Server([(1, i, 7) for i in range(9)])
    selection = SelectList.of(parse_create_table(server.create, "shop", "t"), mariadb=True)
    found = list(batches_of(server, "SELECT * FROM shop.t", selection, rate=2.0 * ROW_LEN))
    assert max(len(one) for one in found) == 2  # what comes in a second
    assert 104.5 <= clock.now <= 105  # nine rows, two a second, and the packet that ends them


def test_a_copy_that_is_stopped_reads_neither_its_chunk_nor_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task has as many chunks as there are for a thread: they may take hours."""
    schema, stop, asked, closed = pa.schema([("id", pa.int64())]), threading.Event(), list[str](), list[str]()

    def batches(connection: Any, sql: str, *_: Any, **__: Any) -> Iterator[Any]:
        asked.append(sql)
        for number in range(5):
            if len(asked) == 2 and number == 3:
                stop.set()
            yield pa.record_batch({"id": [number]}, schema)

    monkeypatch.setattr(copies, "connected", lambda *_: SimpleNamespace(close=lambda: closed.append("")))
    monkeypatch.setattr(copies, "set_for_reading", lambda connection: None)
    monkeypatch.setattr(copies, "batches_of", batches)
    selection: Any = SimpleNamespace(
        table=SimpleNamespace(database="shop", name="t"), expressions=("id",), lake_schema=schema
    )
    folder = tmp_path / "shop.t"
    chunks = [
        CopyChunk("shop.t", str(folder), number, "c", "server", selection, f"id = {number}")
        for number in range(9)
    ]
    copier = Copier(Address.of("mysql://root@db1"), None, str(tmp_path))
    (done,) = LocalRunner(1).each(copier, [chunks], stop)
    assert [(one.number, one.result.rows) for one in done] == [(0, 5)]  # an error has no rows
    assert len(asked) == 2
    assert closed
    assert [one.name for one in folder.iterdir()] == [done[0].result.name]
    assert len(list(tmp_path.glob("_mirror/copies/c/*"))) == 1
