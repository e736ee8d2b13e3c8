"""Ranges of a key: equally large whatever the key is, found beside the reading, kept after a kill."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.refused import Sql, mirrored, rows_of

from binlog_core.errors import MirrorError, ServerError
from binlog_core.mirror import chunks, copies, copying
from binlog_core.mirror.chunks import Chunks, Finding, Order, Sizes, chunks_of
from binlog_core.mirror.copies import plan_copy
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import TableState
from binlog_core.mirror.values import SelectList, set_for_reading
from binlog_core.schema.given import parse_create_table
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection

MB = 1 << 20
ROWS = 103
KEYS = {
    "uuid": ("k UUID", "SYS_GUID()"),
    "inet6": ("k INET6", "INET6_NTOA(UNHEX(MD5(seq)))"),
    "binary16": ("k BINARY(16)", "UNHEX(MD5(seq))"),
    "text": ("k VARCHAR(40) CHARACTER SET latin1", "CONCAT('Grüße ', seq)"),
    "time": ("k TIME(6)", "SEC_TO_TIME(seq * 1000.5 - 50000)"),
    "decimal": ("k DECIMAL(20,5)", "seq / 7"),
    "skewed": ("k INT", "IF(seq < 90, seq, seq * 1000000)"),
}


@pytest.mark.parametrize("key", KEYS)
def test_each_row_is_in_one_range_of_equally_many(url: str, sql: Sql, key: str) -> None:
    column, value = KEYS[key]
    sql(f"CREATE TABLE ranged ({column} PRIMARY KEY, v INT)")
    sql(f"INSERT INTO ranged SELECT {value}, seq FROM seq_1_to_{ROWS}")
    definition = parse_create_table(sql("SHOW CREATE TABLE ranged")[0][1], "refused", "ranged")
    table = SelectList.of(definition, mariadb=True).table
    with Connection(Address.of(url)) as connection:
        set_for_reading(connection)
        found = list(chunks_of(connection, Order(table, definition.row_key or (), 10)))
    assert [rest is None for _, rest in found] == [False] * 10 + [True]
    rows = [sql(f"SELECT v FROM ranged WHERE {condition} ORDER BY k") for condition, _ in found]
    assert [len(one) for one in rows] == [10] * 10 + [3]
    assert tuple(row for one in rows for row in one) == sql("SELECT v FROM ranged ORDER BY k")
    for (_, rest), after in zip(found, range(10, ROWS, 10), strict=False):
        assert sql(f"SELECT COUNT(*) FROM ranged WHERE {rest}") == ((ROWS - after,),)


def test_a_key_of_two_columns_most_of_whose_rows_share_the_first(url: str, sql: Sql) -> None:
    sql("CREATE TABLE ranged (a VARCHAR(20), b INT, PRIMARY KEY (a, b))")
    sql("INSERT INTO ranged SELECT IF(seq % 10, 'most', CONCAT('one ', seq)), seq FROM seq_1_to_100")
    definition = parse_create_table(sql("SHOW CREATE TABLE ranged")[0][1], "refused", "ranged")
    table = SelectList.of(definition, mariadb=True).table
    with Connection(Address.of(url)) as connection:
        set_for_reading(connection)
        found = list(chunks_of(connection, Order(table, ("a", "b"), 10)))
    counts = [sql(f"SELECT COUNT(*) FROM ranged WHERE {one}")[0][0] for one, _ in found]
    assert counts == [10] * 10 + [0], "whether there is a row after the last is not known before"


def test_how_many_rows_a_chunk_has() -> None:
    assert Sizes(100, 3840 * MB, False).chunk(384 * MB, 2) == 384 * MB // 100
    assert Sizes(100, 3841 * MB, False).chunk(384 * MB, 2) == 3841 * MB // 1100, "eleven"
    assert Sizes(100, 1280 * MB, False).chunk(128 * MB, 2) == 128 * MB // 100
    assert Sizes(100, 480 * MB, False).chunk(384 * MB, 2) == 120 * MB // 100, "four, for two that read"
    assert Sizes(100, 192 * MB, False).chunk(384 * MB, 2) == 96 * MB // 100, "or files are small ones"
    assert Sizes(MB, 10_000 * MB, False).chunk(128 * MB, 2) == 1000
    assert Sizes(0, 0, False).chunk(128 * MB, 2) == 1 << 22


# ---------------------------------------------------------------- beside the reading


def copy_of(tmp_path: Path, **more: Any) -> Chunks:
    definition = parse_create_table("CREATE TABLE t (id INT PRIMARY KEY)", "refused", "t")
    order = Order(SelectList.of(definition, mariadb=True).table, ("id",), 10)
    return Chunks(
        Lake(str(tmp_path)), "abc", **{"found": ["1"], "rest": "2", "order": order, "server": "1"} | more
    )


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Chunks without a server: each condition is a number, and the last is 9."""
    asked: list[str] = []

    def found(_: Any, order: Order, after: str) -> Iterator[tuple[str, str | None]]:
        for number in range(int(after), 10):
            asked.append(str(number))
            yield str(number), str(number + 1) if number < 9 else None

    class Session:
        def __enter__(self) -> Session:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(chunks, "chunks_of", found)
    monkeypatch.setattr(chunks, "connected", lambda *_: Session())
    monkeypatch.setattr(chunks, "set_for_reading", lambda _: None)
    return asked


def test_what_was_found_is_kept(tmp_path: Path, numbered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_MOST", 3)
    address = Address.of("mysql://root@127.0.0.1")
    for known in ("234", "567"):
        with Finding(address, {"t": copy_of(tmp_path)}, None) as finding:
            pass
        assert not finding.errors
        one = copy_of(tmp_path)
        assert (one.found[-1], one.rest) in [(last, str(int(last) + 1)) for last in known]
    while (one := copy_of(tmp_path)).rest is not None:
        with Finding(address, {"t": one}, None):
            pass
    assert one.found == [*"123456789"] == [*"1", *numbered]


def test_a_note_that_was_cut_off_is_found_again(tmp_path: Path, numbered: list[str]) -> None:
    with Finding(Address.of("mysql://root@127.0.0.1"), {"t": copy_of(tmp_path)}, None):
        pass
    (note,) = tmp_path.glob("_mirror/copies/abc/plan-*")
    whole = note.read_text()
    for cut in ("", whole[:-1], "[]", '{"chunks": []}', '{"after": "2", "chunks": [], "rest": "3"}'):
        note.write_text(cut)
        assert (copy_of(tmp_path).found, copy_of(tmp_path).rest) == (["1"], "2")


def test_an_error_is_that_of_its_table(
    tmp_path: Path, numbered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = chunks.chunks_of

    def some(connection: Any, order: Order, after: str) -> Iterator[tuple[str, str | None]]:
        if after == "5":
            raise ServerError("no such column", code=1054)
        return found(connection, order, after)

    monkeypatch.setattr(chunks, "chunks_of", some)
    good, bad = copy_of(tmp_path), copy_of(tmp_path / "other", rest="5")
    with Finding(Address.of("mysql://root@127.0.0.1"), {"good": good, "bad": bad}, None) as finding:
        pass
    assert [*finding.errors] == ["bad"]
    assert len(good.found) > 1 and (bad.found, bad.rest) == (["1"], "5")


def test_ranges_that_do_not_continue_those_before_are_found_again(
    tmp_path: Path, numbered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure lost the first note, and not the second."""
    monkeypatch.setattr(chunks, "_MOST", 3)
    address = Address.of("mysql://root@127.0.0.1")
    for _ in range(2):
        with Finding(address, {"t": copy_of(tmp_path)}, None):
            pass
    first, second = sorted(tmp_path.glob("_mirror/copies/abc/plan-*"))
    first.write_text('{"after": "2", "chunks": ["a", "b", "c"], "rest": "other"}')
    assert second.exists()
    assert (copy_of(tmp_path).found, copy_of(tmp_path).rest) == (["1", "a", "b", "c"], "other")


@pytest.mark.parametrize("where", ["chunks_of", "connected"])
def test_any_error_ends_the_search(
    tmp_path: Path, numbered: list[str], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fails(*_: Any) -> Any:
        raise KeyError("id")

    monkeypatch.setattr(chunks, where, fails)
    with Finding(Address.of("mysql://root@127.0.0.1"), {"t": copy_of(tmp_path)}, None) as finding:
        pass
    assert [(name, str(error)) for name, error in finding.errors.items()] == [
        ("t", "its chunks cannot be found: KeyError: 'id'")
    ]


def test_a_copy_of_another_server_is_the_only_one_that_fails(
    tmp_path: Path, numbered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = chunks.connected

    def only_one(address: Address, server: str) -> Any:
        if server != "1":
            raise MirrorError(f"the server {server} was read, and now it is 1")
        return session(address, server)

    monkeypatch.setattr(chunks, "connected", only_one)
    here, before = copy_of(tmp_path), copy_of(tmp_path / "other", server="2")
    with Finding(Address.of("mysql://root@127.0.0.1"), {"before": before, "here": here}, None) as finding:
        pass
    assert [*finding.errors] == ["before"]
    assert len(here.found) > 1 and before.found == ["1"]


def test_a_stop_ends_it(tmp_path: Path, numbered: list[str]) -> None:
    stop = threading.Event()
    stop.set()
    one = copy_of(tmp_path)
    with Finding(Address.of("mysql://root@127.0.0.1"), {"t": one}, stop):
        pass
    assert (one.found, one.rest, numbered) == (["1"], "2", [])


def test_a_killed_copy_reads_no_chunk_twice_although_writers_moved_their_ends(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "CHUNK_BYTES", 1)
    monkeypatch.setattr(copying, "_FIRST", 1)
    monkeypatch.setattr(chunks, "_LEAST_ROWS", 10)
    monkeypatch.setattr(chunks, "_MOST", 2)
    sql("CREATE TABLE many (id INT PRIMARY KEY, v INT)")
    sql("INSERT INTO many SELECT seq * 2, seq FROM seq_1_to_100")
    read, seen, killing = copies.batches_of, list[str](), [True]

    def reading(connection: Any, statement: str, *these: Any, **named: Any) -> Iterator[Any]:
        if "`many`" in statement:
            if killing[0] and len(seen) == 5:
                raise SystemExit  # whatever is being read is lost
            seen.append(statement)
        return read(connection, statement, *these, **named)

    monkeypatch.setattr(copies, "batches_of", reading)
    with pytest.raises(SystemExit):
        mirrored(url, tmp_path)
    killing[0] = False
    sql("UPDATE many SET id = id + 1 WHERE id > 20")
    sql("INSERT INTO many SELECT seq + 1000, 0 FROM seq_1_to_15")
    mirrored(url, tmp_path)
    assert len(seen) == len(set(seen)) and len(seen) >= 10
    assert rows_of(tmp_path, "many") == list(sql("SELECT * FROM many ORDER BY id"))


def test_a_first_look_at_a_table_finds_few_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of other tables wait for it."""
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY)"
    answers = {"SHOW": [("t", create)], "SELECT": [(MB, "BASE TABLE", 50_000 * MB)]}
    server: Any = SimpleNamespace(query=lambda text, *_, **__: answers[text.partition(" ")[0]])
    asked: list[str] = []

    def found(_: Any, order: Order, after: str = "") -> Iterator[tuple[str, str | None]]:
        for number in range(50):
            asked.append(str(number))
            yield str(number), "rest" if number < 49 else None

    monkeypatch.setattr(copies, "chunks_of", found)
    copy = plan_copy(server, TableState("shop", "t"), {}, mariadb=True, chunks=4)
    assert (len(copy.chunks), copy.rest, copy.rows, copy.expected, len(asked)) == (4, "rest", 1000, 54, 4)
    copy = plan_copy(server, TableState("shop", "t"), {}, mariadb=True)
    assert (len(copy.chunks), copy.rest, copy.expected) == (50, None, 50)
    copy = plan_copy(server, TableState("shop", "t"), {}, mariadb=True, chunks=0)
    assert (copy.chunks, copy.rest) == ((), "")
