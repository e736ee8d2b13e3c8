"""Undo on a real server restores its rows."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from support.exported import export
from support.replay import alone
from support.server import SERVER, connect, logged

from binlog_core import BinlogError, UnreachableError
from binlog_core.replay import ServerUndo, UndoPlan, plan_undo, set_by_server
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection

pytestmark = pytest.mark.server

ACCIDENT = (
    "START TRANSACTION",
    "UPDATE undone.t SET price = 0, name = CONCAT('gone ', id), kind = 'a', flags = '', doc = '[]', f = 0.3"
    " WHERE id < 20",
    "UPDATE undone.t SET d = 1, took = NULL WHERE id = 20",
    "DELETE FROM undone.t WHERE id = 3",
    "UPDATE undone.t SET id = id + 100 WHERE id IN (4, 5)",
    "INSERT INTO undone.t (id, name) VALUES (3, 'another'), (30, 'new')",
    "DELETE FROM undone.heap WHERE a = 2",
    "UPDATE undone.heap SET f = 7.7, b = 'ß' WHERE a IS NULL",
    "DELETE FROM undone.child WHERE id = 2",
    "COMMIT",
)


class Shop:
    """Tables of a real server, and the logs of what happens to them."""

    tables = ("t", "heap", "child")

    def __init__(self, folder: Path) -> None:
        self.connection = connect()
        self.folder, self.logs = folder, 0
        self.ask = set_by_server(Connection(Address.of(SERVER)))
        self.run(
            "DROP DATABASE IF EXISTS undone",
            "CREATE DATABASE undone CHARACTER SET utf8mb4",
            """CREATE TABLE undone.t (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(20,6), f FLOAT,
               d DOUBLE, raw VARBINARY(20), day DATE, at DATETIME(3), seen TIMESTAMP(6)
               DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), kind ENUM('a','é'),
               flags SET('x','y','z'),
               bits BIT(10), twice INT GENERATED ALWAYS AS (id * 2) STORED, doc JSON, took TIME(2),
               big BIGINT UNSIGNED, UNIQUE (name))""",
            "CREATE TABLE undone.heap (a INT, b VARCHAR(20), f FLOAT)",
            "CREATE TABLE undone.child (id INT PRIMARY KEY, t_id INT,"
            " FOREIGN KEY (t_id) REFERENCES undone.t (id) ON DELETE CASCADE)",
        )
        rows = ", ".join(
            f"({i}, 'näme {i}\\\\ it''s', {i}.123456, {i}.1, {i}e-5, x'00{i:02x}', '2026-01-{i:02}',"
            f" '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.678901', 'é', 'x,z', {i}, '{{\"a\": 1.50}}',"
            f" '-12:34:56.78', 18446744073709551615)"
            for i in range(1, 9)
        )
        columns = "id, name, price, f, d, raw, day, at, seen, kind, flags, bits, doc, took, big"
        self.run(
            f"INSERT INTO undone.t ({columns}) VALUES {rows}",
            "INSERT INTO undone.t (id) VALUES (20)",  # NULL everywhere
            "INSERT INTO undone.heap VALUES (1, 'a', 0.1), (1, 'A', 0.1), (1, 'a', 0.1)",
            "INSERT INTO undone.heap VALUES (2, 'a', 0.1), (NULL, NULL, NULL)",
            "INSERT INTO undone.child VALUES (1, 1), (2, 2)",
        )

    def run(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def logged(self, *statements: str) -> Path:
        self.logs += 1
        return logged(self.connection, lambda: self.run(*statements), self.folder / f"bin.{self.logs:06}")

    def rows(self, table: str) -> list[str]:
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM undone.{table}")
            return sorted(map(str, cursor.fetchall()))

    def all(self) -> dict[str, list[str]]:
        return {table: self.rows(table) for table in self.tables}

    def undo(self, made: UndoPlan, *, execute: bool = True, by_column: bool = False) -> ServerUndo:
        with Connection(Address.of(SERVER)) as connection:
            found = ServerUndo(made, connection, by_column=by_column)
            if execute:
                found.execute()
            else:
                found.check()
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    found = Shop(tmp_path)
    yield found
    found.run("DROP DATABASE IF EXISTS undone")
    found.connection.close()


@pytest.mark.parametrize("source", ["log", "parquet", "delta"])
def test_back_and_forth_on_a_server(
    shop: Shop, tmp_path: Path, source: Literal["log", "parquet", "delta"]
) -> None:
    before = shop.all()
    accident = shop.logged(*ACCIDENT)
    if source != "log":
        accident = export(accident, tmp_path / "out", format=source)
    after = shop.all()
    assert after != before
    made = plan_undo(accident, tables="undone.*", ask=shop.ask)
    assert len(made.rows) == 13
    shop.undo(made, execute=False)
    assert {one.state for one in made.rows} == {"ready"}, alone(made)
    assert shop.all() == after
    back = logged(shop.connection, lambda: shop.undo(made) and None, shop.folder / "back")
    assert {one.state for one in made.rows} == {"done"}, alone(made)
    assert b"DELETE FROM" not in back.read_bytes()  # MariaDB's default is to log statements beside their rows
    assert shop.all() == before
    again = plan_undo(back, tables="undone.*", ask=shop.ask)
    shop.undo(again)
    assert {one.state for one in again.rows} == {"done"}, alone(again)
    assert shop.all() == after


def test_the_script_does_the_same(shop: Shop) -> None:
    before = shop.all()
    accident = shop.logged(*ACCIDENT)
    made = plan_undo(accident, tables="undone.*", ask=shop.ask)
    out = io.BytesIO()
    made.write(out)
    lines = [line for line in out.getvalue().decode().splitlines() if not line.startswith(("#", "/*M!"))]
    shop.run(*lines)
    assert shop.all() == before


def test_rows_that_were_changed_since_stay_as_they_are(shop: Shop) -> None:
    before = shop.all()
    accident = shop.logged(*ACCIDENT)
    shop.logged(
        "UPDATE undone.t SET price = 99 WHERE id = 1",
        "DELETE FROM undone.t WHERE id = 2",
        "UPDATE undone.t SET id = 200 WHERE id = 6",
        "UPDATE undone.t SET name = 'x' WHERE id = 7",
        "UPDATE undone.t SET name = 'gone 7' WHERE id = 7",  # as the accident left it
        "UPDATE undone.t SET seen = '2026-01-02 03:04:05.678901' WHERE id = 7",
        "INSERT INTO undone.child VALUES (2, 104)",
    )
    seen = shop.rows("t")
    made = plan_undo(
        [accident, shop.folder / "bin.000002"], tables="undone.*", stop=("bin.000001", 1 << 40), ask=shop.ask
    )
    shop.undo(made, execute=False)
    told = {f"{one.table} {one.key}": one.why for one in made.left_alone()}
    assert set(told) == {*(f"undone.t id={i}" for i in (1, 2, 6, 7)), "undone.child id=2"}
    assert "other values in price, seen, changed by" in told["undone.t id=1"]
    assert told["undone.t id=2"].startswith("it is gone, changed by")
    assert "bin.000002" in told["undone.t id=2"]
    assert told["undone.child id=2"].startswith("a row with its key exists, changed by")
    assert shop.rows("t") == seen
    with pytest.raises(BinlogError, match=r"would refer to rows of `undone`\.`t` that do not exist"):
        shop.undo(made)  # 104 becomes 4 again, and a child points to it
    assert shop.rows("t") == seen
    shop.run("DELETE FROM undone.child WHERE id = 2")
    shop.undo(made)
    kept = [line for line in before["t"] if not re.match(r"\((1|2|6|7),", line)]
    assert [line for line in shop.rows("t") if not re.match(r"\((1|2|200|6|7),", line)] == kept
    assert [line for line in shop.rows("t") if re.match(r"\((1|200|7),", line)] == [
        line for line in seen if re.match(r"\((1|200|7),", line)
    ]


def test_by_column_what_others_changed_stays(shop: Shop) -> None:
    before = {line.split(",")[0]: line for line in shop.rows("t")}
    accident = shop.logged(
        "UPDATE undone.t SET price = 0, name = CONCAT('gone ', id) WHERE id IN (1, 2, 3, 4, 5)",
        "UPDATE undone.t SET id = 60 WHERE id = 6",
        "DELETE FROM undone.t WHERE id = 7",
    )
    shop.run(
        "UPDATE undone.t SET kind = 'a' WHERE id IN (1, 2, 3, 60)",  # which sets `seen`, too
        "UPDATE undone.t SET price = 9 WHERE id = 2",
        "UPDATE undone.t SET price = 9 WHERE id = 3",
        "UPDATE undone.t SET price = 0 WHERE id = 3",
        "DELETE FROM undone.t WHERE id = 5",
    )
    seen = shop.rows("t")
    made = plan_undo(accident, tables="undone.t", ask=shop.ask)
    for execute in (False, True):
        shop.undo(made, execute=execute, by_column=True)
        assert {one.key: (one.state, one.columns) for one in made.rows} == {
            "id=1": ("done" if execute else "ready", ("name", "price")),
            "id=2": ("changed since", None),
            "id=3": ("done" if execute else "ready", ("name", "price")),
            "id=4": ("done" if execute else "ready", None),
            "id=5": ("changed since", None),
            "id=60": ("done" if execute else "ready", ("id",)),
            "id=7": ("done" if execute else "ready", None),
        }
        assert execute or shop.rows("t") == seen
        parts = [one.statement() for one in made.rows if one.key == "id=60" and not execute]
        assert parts in ([], ["UPDATE `undone`.`t` SET `id` = 6 WHERE `id` = 60;"])
    with shop.connection.cursor() as cursor:
        cursor.execute("SELECT id, name, price, kind FROM undone.t WHERE id IN (1, 2, 3, 6) ORDER BY id")
        assert [(i, name, str(price), kind) for i, name, price, kind in cursor.fetchall()] == [
            (1, "näme 1\\ it's", "1.123456", "a"),
            (2, "gone 2", "9.000000", "a"),
            (3, "näme 3\\ it's", "3.123456", "a"),
            (6, "näme 6\\ it's", "6.123456", "a"),
        ]
    now = {line.split(",")[0]: line for line in shop.rows("t")}
    assert all(now[key] == before[key] for key in ("(4", "(7", "(8", "(20"))


def test_in_a_database_of_another_name(shop: Shop) -> None:
    """A copy that was restored elsewhere gets back what the log's own database lost."""
    shop.run(
        "DROP DATABASE IF EXISTS undone_copy",
        "CREATE DATABASE undone_copy",
        "CREATE TABLE undone.u (id INT PRIMARY KEY, v INT, twice INT AS (v * 2) STORED)",
        "INSERT INTO undone.u (id, v) VALUES (1, 1), (2, 2), (3, 3)",
        "CREATE TABLE undone_copy.u LIKE undone.u",
        "INSERT INTO undone_copy.u (id, v) VALUES (1, 9), (2, 9), (3, 8)",
    )
    log = shop.logged("UPDATE undone.u SET v = 9")
    made = plan_undo(str(log), tables="undone.u", databases={"undone": "undone_copy"})
    shop.undo(made)
    with shop.connection.cursor() as cursor:
        cursor.execute("SELECT * FROM undone_copy.u ORDER BY id")
        assert [tuple(map(int, row)) for row in cursor.fetchall()] == [(1, 1, 2), (2, 2, 4), (3, 8, 16)]
        cursor.execute("SELECT v FROM undone.u")
        assert {int(row[0]) for row in cursor.fetchall()} == {9}
    assert [row.state for row in made.rows] == ["changed since", "done", "done"]
    shop.run("DROP DATABASE undone_copy")


def test_others_write_between_the_look_and_the_undo(shop: Shop) -> None:
    accident = shop.logged("UPDATE undone.t SET price = 0 WHERE id IN (1, 2, 3)")
    made = plan_undo(accident, tables="undone.t", ask=shop.ask)
    shop.undo(made, execute=False)
    shop.run("UPDATE undone.t SET price = 5 WHERE id = 1", "UPDATE undone.t SET name = 'näme 3' WHERE id = 4")
    shop.undo(made)
    assert sorted((one.key, one.state) for one in made.rows) == [
        ("id=1", "changed since"),
        ("id=2", "done"),
        ("id=3", "done"),
    ]
    assert "do not show by whom" in next(one.why for one in made.rows if one.key == "id=1")


def test_equal_rows_of_a_table_without_a_key(shop: Shop) -> None:
    before = shop.rows("heap")
    accident = shop.logged("INSERT INTO undone.heap VALUES (1, 'a', 0.1), (5, 'q', 5)")
    made = plan_undo(accident, tables="undone.heap")
    shop.undo(made)
    assert shop.rows("heap") == before  # one of three that are equal went
    accident = shop.logged("DELETE FROM undone.heap WHERE BINARY b = 'a' AND a = 1 LIMIT 1")
    made = plan_undo(accident, tables="undone.heap")
    shop.undo(made)
    assert [(one.state, "an equal row" in one.why) for one in made.rows] == [("conflict", True)]


def test_what_the_server_refuses_is_named_and_the_rest_is_done(shop: Shop) -> None:
    accident = shop.logged("UPDATE undone.t SET name = CONCAT('tmp', id) WHERE id IN (1, 2)")
    shop.run("UPDATE undone.t SET name = 'näme 1\\\\ it''s' WHERE id = 8")  # its name is taken
    made = plan_undo(accident, tables="undone.t", ask=shop.ask)
    shop.undo(made)
    assert sorted((one.key, one.state) for one in made.rows) == [("id=1", "conflict"), ("id=2", "done")]
    assert "error 1062" in next(one.why for one in made.rows if one.state == "conflict")


def test_tables_that_a_server_cannot_take_back_whole(shop: Shop) -> None:
    shop.run("CREATE TABLE undone.plain (id INT PRIMARY KEY, a INT) ENGINE=MyISAM")
    accident = shop.logged(
        "INSERT INTO undone.plain VALUES (1, 1)",
        "UPDATE undone.t SET price = 1 WHERE id = 1",
        "UPDATE undone.heap SET a = 9 WHERE a IS NULL",
    )
    shop.run("ALTER TABLE undone.t DROP COLUMN raw", "DROP TABLE undone.heap")
    shop.run("CREATE TRIGGER undone.trig BEFORE UPDATE ON undone.child FOR EACH ROW SET NEW.t_id = NULL")
    made = plan_undo(accident, tables="undone.*", ask=shop.ask)
    shop.undo(made)
    assert {one.table: one.why for one in made.rows} == {
        "undone.plain": "its engine, MyISAM, has no transactions",
        "undone.t": "the server's table has no column raw",
        "undone.heap": "the server does not have the table",
    }
    accident = shop.logged("DELETE FROM undone.child WHERE id = 1")
    made = plan_undo(accident, tables="undone.*", ask=shop.ask)
    assert "triggers of undone.child run when its rows are reversed: trig" in shop.undo(made).notes


@pytest.mark.parametrize("event", ["INSERT", "UPDATE"])
@pytest.mark.parametrize("changes", [True, False])
def test_a_trigger_must_not_give_restored_rows_other_values(shop: Shop, event: str, changes: bool) -> None:
    before = shop.all()
    accident = shop.logged(
        "DELETE FROM undone.child WHERE id = 1" if event == "INSERT" else "UPDATE undone.t SET price = -1"
    )
    table, value = ("child", "t_id = NULL") if event == "INSERT" else ("t", "price = 5")
    body = f"SET NEW.{value}" if changes else "SET @seen = 1"
    shop.run(f"CREATE TRIGGER undone.trig BEFORE {event} ON undone.{table} FOR EACH ROW {body}")
    made = plan_undo(accident, tables="undone.*", ask=shop.ask)
    left = shop.all()
    if changes:
        with pytest.raises(BinlogError, match=r"a trigger gave the row id=(1|20) other values"):
            shop.undo(made)
        assert shop.all() == left
        assert {one.state for one in made.rows} == {"ready"}
    else:
        shop.undo(made)
        assert shop.all() == before


def test_vectors_come_back(shop: Shop) -> None:
    pymysql = pytest.importorskip("pymysql")

    def rows() -> list[tuple[int, str | None]]:
        with shop.connection.cursor() as cursor:
            cursor.execute("SELECT id, HEX(e) FROM undone.vectors ORDER BY id")
            return list(cursor.fetchall())

    try:
        shop.run("CREATE TABLE undone.vectors (id INT PRIMARY KEY, e VECTOR(2))")
    except (pymysql.err.OperationalError, pymysql.err.ProgrammingError):
        pytest.skip("the server has no VECTOR")
    first, other = "x'0000803f000000c0'", "x'0000000000000040'"
    shop.run(f"INSERT INTO undone.vectors VALUES (1, {first}), (2, {first}), (3, NULL)")
    before = rows()
    accident = shop.logged(
        f"UPDATE undone.vectors SET e = {other} WHERE id IN (1, 3)",
        "DELETE FROM undone.vectors WHERE id = 2",
        f"INSERT INTO undone.vectors VALUES (4, {other})",
    )
    made = plan_undo(accident, tables="undone.*", ask=shop.ask)
    shop.undo(made)
    assert {one.state for one in made.rows} == {"done"}, alone(made)
    assert rows() == before


ZEROS = (
    "CREATE TABLE undone.zeros (e ENUM('a','','0'), n INT, PRIMARY KEY (e))",
    "CREATE TABLE undone.zeros_heap (e ENUM('a','b'), n INT)",
    "SET SESSION sql_mode = ''",
    "INSERT INTO undone.zeros VALUES (0, 10), ('', 12), ('0', 13)",
    "INSERT INTO undone.zeros_heap VALUES (0, 10), ('b', 12)",
)


def zeros(shop: Shop) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Index and `n` of each row."""
    found = []
    with shop.connection.cursor() as cursor:
        for name in ("zeros", "zeros_heap"):
            cursor.execute(f"SELECT CAST(e AS UNSIGNED), n FROM undone.{name} ORDER BY n")
            found.append([(int(e), int(n)) for e, n in cursor.fetchall()])
    return found[0], found[1]


@pytest.mark.parametrize("script", [False, True])
def test_rows_with_an_invalid_value_in_an_enum(shop: Shop, script: bool) -> None:
    """Index 0, which the server prints like a member ''."""
    shop.run(*ZEROS)
    accident = shop.logged(
        "UPDATE undone.zeros SET n = n + 10",
        "UPDATE undone.zeros_heap SET n = n + 10",
        "INSERT INTO undone.zeros_heap VALUES (0, 99)",
    )
    made = plan_undo(accident, tables="undone.*", ask=shop.ask)
    if script:
        out = io.BytesIO()
        made.write(out)
        shop.run(*(line for line in out.getvalue().decode().splitlines() if line[0] not in "#/"))
    else:
        shop.undo(made)
        assert {one.state for one in made.rows} == {"done"}, alone(made)
    assert zeros(shop) == ([(0, 10), (2, 12), (3, 13)], [(0, 10), (2, 12)])


def test_an_invalid_value_of_an_enum_comes_back_by_a_script_only(shop: Shop) -> None:
    shop.run(*ZEROS)
    accident = shop.logged("DELETE FROM undone.zeros", "UPDATE undone.zeros_heap SET e = 'a'")
    made = plan_undo(accident, tables="undone.*", ask=shop.ask)
    out = io.BytesIO()
    made.write(out)
    for execute in (False, True):
        shop.undo(made, execute=execute)
        assert {one.state for one in made.rows} == {"refused", "done" if execute else "ready"}
        assert len(alone(made)) == 2
        assert all("invalid value (index 0) in the ENUM column e" in why for _, why in alone(made))
    assert zeros(shop) == ([(2, 12), (3, 13)], [(1, 10), (2, 12)])
    shop.run("DELETE FROM undone.zeros", "UPDATE undone.zeros_heap SET e = 'a'")
    shop.run(*(line for line in out.getvalue().decode().splitlines() if line[0] not in "#/"))
    assert zeros(shop) == ([(0, 10), (2, 12), (3, 13)], [(0, 10), (2, 12)])


def test_a_table_that_was_replaced_since(shop: Shop) -> None:
    """The server's new table has no row with the key of the deleted one."""
    shop.run(
        "CREATE TABLE undone.u (id INT PRIMARY KEY, v INT)", "INSERT INTO undone.u VALUES (1, 1), (2, 2)"
    )
    accident = shop.logged("DELETE FROM undone.u WHERE id = 1", "UPDATE undone.u SET v = 9 WHERE id = 2")
    later = shop.logged(
        "CREATE TABLE undone.u_new LIKE undone.u",
        "INSERT INTO undone.u_new SELECT * FROM undone.u",
        "RENAME TABLE undone.u TO undone.u_old, undone.u_new TO undone.u",
    )
    made = plan_undo([accident, later], tables="undone.u", stop=("bin.000001", 1 << 40))
    assert [one.state for one in made.rows] == ["changed since", "refused"]
    assert all("RENAME TABLE undone.u TO undone.u_old" in text for text in [made.notes[0], alone(made)[1][1]])
    shop.undo(made)
    # The updated row is still as it was left, as after an online change of the table.
    assert [one.state for one in made.rows] == ["done", "refused"]
    with shop.connection.cursor() as cursor:
        cursor.execute("SELECT id, v FROM undone.u")
        assert [tuple(map(int, one)) for one in cursor.fetchall()] == [(2, 2)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE v SET v = 5 WHERE id = 2",
        'UPDATE "v" SET v = 5 WHERE id = 2',
        "SELECT f(5, 2)",
    ],
)
def test_changes_logged_as_statements_since(shop: Shop, statement: str) -> None:
    """The log does not show which rows they changed; the server does."""
    shop.run(
        "CREATE TABLE undone.v (id INT PRIMARY KEY, v INT)",
        "INSERT INTO undone.v VALUES (1, 1), (2, 2), (3, 3)",
        "CREATE FUNCTION undone.f(x INT, y INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
        " BEGIN UPDATE undone.v SET v = x WHERE id = y; RETURN y; END",
    )
    accident = shop.logged("UPDATE undone.v SET v = 9 WHERE id <= 2", "DELETE FROM undone.v WHERE id = 3")
    later = shop.logged(
        "USE undone",
        "SET SESSION binlog_format = 'STATEMENT', sql_mode = 'ANSI_QUOTES'",
        statement,
        "SET SESSION binlog_format = DEFAULT, sql_mode = DEFAULT",
    )
    with pytest.raises(BinlogError, match="cannot be reversed"):
        plan_undo(later, tables="undone.v")
    made = plan_undo([accident, later], tables="undone.v", stop=("bin.000001", 1 << 40))
    assert [one.state for one in made.rows] == ["changed since"] * 3
    assert len(made.notes) == 1
    shop.undo(made)
    assert {one.key: one.state for one in made.rows} == {
        "id=1": "done",
        "id=2": "changed since",
        "id=3": "done",
    }
    assert ["other values in v" in why for _, why in alone(made)] == [True]
    with shop.connection.cursor() as cursor:
        cursor.execute("SELECT id, v FROM undone.v ORDER BY id")
        assert [tuple(map(int, one)) for one in cursor.fetchall()] == [(1, 1), (2, 5), (3, 3)]


def test_the_command_looks_first(shop: Shop) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    before = shop.all()
    accident = shop.logged(*ACCIDENT)
    after = shop.all()
    ran = run("undo", accident, "-d", "undone", "--check", SERVER)
    assert ran.code == 0, ran.err
    assert "nothing was changed: add --execute to do it" in ran.text
    assert re.search(r"undone\.t: \d", ran.text)
    assert shop.all() == after
    shop.run("UPDATE undone.t SET raw = x'99' WHERE id = 1")
    ran = run("undo", accident, "-d", "undone", "--check", SERVER)
    assert "--by-column restores rows in which others changed only other columns" in ran.text
    ran = run("undo", accident, "-d", "undone", "--check", SERVER, "--by-column")
    assert "of 1 only name, price, f, kind, flags, doc, since others changed other columns" in ran.text
    shop.run("UPDATE undone.t SET raw = x'0001' WHERE id = 1")
    ran = run("undo", accident, "-d", "undone", "--check", SERVER, "--by-column", "--execute", "--json")
    assert {one["state"] for one in json.loads(ran.text)["rows"]} == {"done"}
    shop.run("UPDATE undone.t SET seen = '2026-01-02 03:04:05.678901' WHERE id = 1")
    assert shop.all() == before
    accident = shop.logged(*ACCIDENT)
    ran = run("undo", accident, "-d", "undone", "--check", SERVER, "--execute", "--json")
    assert {one["state"] for one in json.loads(ran.text)["rows"]} == {"done"}
    assert shop.all() == before
    ran = run("undo", accident, "-d", "undone", "--check", SERVER, "--execute")
    assert ran.code == 0
    assert "left alone: 13 rows" in ran.text
    assert shop.all() == before


# ------------------------------------------------------------ many rows in a statement


class Watched(Connection):
    """Keeps what it asks; after some statements something happens."""

    def __init__(self, after: Callable[[str], None] | None = None) -> None:
        super().__init__(Address.of(SERVER))
        self.asked: list[str] = []
        self._after = after

    def query(self, sql: str, *columns: Any, **options: Any) -> Any:
        self.asked.append(sql)
        rows = super().query(sql, *columns, **options)
        if self._after is not None:
            self._after(sql)
        return rows

    def count(self, word: str) -> int:
        return sum(sql.startswith(word) for sql in self.asked)


MANY = """CREATE TABLE undone.many (id INT PRIMARY KEY, big BIGINT UNSIGNED, price DECIMAL(30,10), f FLOAT,
    d DOUBLE, name VARCHAR(40) CHARACTER SET utf8mb4, old VARCHAR(20) CHARACTER SET latin1, raw VARBINARY(9),
    day DATE, at DATETIME(3), seen TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
    kind ENUM('a','é','') CHARACTER SET utf8mb4, flags SET('x','y'), bits BIT(60), took TIME(2), y YEAR,
    doc JSON, note TEXT CHARACTER SET utf8mb4, twice INT GENERATED ALWAYS AS (id * 2) STORED)"""


def fill(shop: Shop, count: int) -> None:
    """Rows with all kinds of values, by a seed: NULL, the smallest, the largest, and what is not ASCII."""
    rng = random.Random(36)
    pick = rng.choice
    shop.run("SET time_zone = '+00:00'", "DROP TABLE IF EXISTS undone.many", MANY)
    columns = "id, big, price, f, d, name, old, raw, day, at, seen, kind, flags, bits, took, y, doc, note"
    for i in range(count):
        values = [
            str(i),
            pick(("NULL", "0", "7", "18446744073709551615")),
            pick(("NULL", "0", "-1.5", "12345678901234567890.0123456789")),
            pick(("NULL", "0.1", "-3.5e30")),
            pick(("NULL", "0.1", "1e-300", "3")),
            pick(("NULL", "''", "'it''s'", "'é'", "'😀 '", "'A'", "'a'")),
            pick(("NULL", "'x'", "'é'")),
            pick(("NULL", "x'00ff'", "x''")),
            pick(("NULL", "'2026-01-02'")),
            pick(("NULL", "'2026-01-02 03:04:05.678'")),
            pick(("'2026-01-02 03:04:05.678901'", "'2026-01-02 03:04:05'")),
            pick(("NULL", "'a'", "'é'", "''")),
            pick(("NULL", "''", "'x'", "'x,y'")),
            pick(("NULL", "0", "1152921504606846975")),
            pick(("NULL", "'-12:34:56.78'", "'838:59:58'")),
            pick(("NULL", "2026", "0")),
            pick(("NULL", "'{\"a\": 1.50}'", "'[]'")),
            pick(("NULL", "''", "'é\\\\'")),
        ]
        shop.run(f"INSERT INTO undone.many ({columns}) VALUES ({', '.join(values)})")


HARM = (
    "big = 1, price = 2, f = 3, d = 4, name = 'gone', old = NULL, raw = x'11', day = '2000-01-01', at = NULL"
)
HARM += ", kind = 'a', flags = 'y', bits = 5, took = '1', y = 2000, doc = '{}', note = 'gone'"


@pytest.mark.parametrize("batch", [1, 7, 100])
@pytest.mark.parametrize("accident", ["update", "delete", "insert"])
def test_many_rows_in_a_statement_come_back_as_they_were(shop: Shop, accident: str, batch: int) -> None:
    fill(shop, 150)
    before = shop.rows("many")
    others = "big, price, f, d, name, old, raw, day, at, seen, kind, flags, bits, took, y, doc, note"
    harm = {
        "update": f"UPDATE undone.many SET {HARM}",
        "delete": "DELETE FROM undone.many",
        "insert": f"INSERT INTO undone.many (id, {others}) SELECT id + 1000, {others} FROM undone.many",
    }[accident]
    log = shop.logged(harm)
    since = ["UPDATE undone.many SET name = 'other' WHERE id IN (33, 1033)"]
    since += ["INSERT INTO undone.many (id, name) VALUES (33, 'other')"] * (accident == "delete")
    shop.run(*since)
    with Watched() as connection:
        made = plan_undo(log, tables="undone.*", ask=shop.ask)
        assert len(made.rows) == 150
        checked = ServerUndo(made, connection, batch=batch)
        checked.check()
        assert [row.state for row in made.rows].count("ready") == 149, alone(made)[:3]
    with Watched() as connection:
        done = ServerUndo(made, connection, batch=batch)
        done.execute()
        verb = {"update": "UPDATE", "delete": "INSERT", "insert": "DELETE"}[accident]
        assert done.outcome == "committed"
        count = connection.count(verb)
        assert count >= 150 if batch == 1 else count < 50
    assert [row.state for row in made.rows].count("done") == 149, alone(made)[:3]
    rest = [
        [row for row in rows if "(33," not in row and "(1033," not in row]
        for rows in (before, shop.rows("many"))
    ]
    assert rest[0] == rest[1]


def test_values_that_were_exchanged_in_a_unique_key(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE undone.u (id INT PRIMARY KEY, n INT, UNIQUE (n))",
        "INSERT INTO undone.u VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, NULL)",
    )
    before = shop.rows("u")
    shift = [f"UPDATE undone.u SET n = {i + 1} WHERE id = {i}" for i in (4, 3, 2, 1)]
    log = shop.logged("START TRANSACTION", *shift, "UPDATE undone.u SET n = 1 WHERE id = 5", "COMMIT")
    made = plan_undo(log, tables="undone.*")
    shop.undo(made)
    assert {row.state for row in made.rows} == {"done"}, alone(made)
    assert shop.rows("u") == before


def test_others_write_while_rows_are_undone(shop: Shop) -> None:
    """What they change after the transaction began is seen: also by MariaDB 11.8, which has snapshots."""
    shop.run("CREATE TABLE undone.w (id INT PRIMARY KEY, v INT)")
    shop.run("INSERT INTO undone.w VALUES " + ", ".join(f"({i}, {i})" for i in range(40)))
    log = shop.logged("UPDATE undone.w SET v = -1")
    shop.run("UPDATE undone.w SET v = 99 WHERE id = 39")  # so that a row is looked at alone
    made = plan_undo(log, tables="undone.*")
    seen: list[int] = []

    def write(done: int, count: int) -> None:
        if done >= 10 > max(seen, default=0):
            shop.run("UPDATE undone.w SET v = 77 WHERE id = 1")
        seen.append(done)

    with Connection(Address.of(SERVER)) as connection:
        ServerUndo(made, connection, batch=8, progress=write).execute()
    assert seen[-1] == 40
    assert sorted(row.key for row in made.left_alone()) == ["id=1", "id=39"]
    with shop.connection.cursor() as cursor:
        cursor.execute("SELECT id, v FROM undone.w WHERE id <> v")
        assert sorted(cursor.fetchall()) == [(1, 77), (39, 99)]


def test_a_connection_that_is_lost_during_commit(shop: Shop) -> None:
    accident = shop.logged("UPDATE undone.t SET price = 0")
    for word, outcome in (("SAVEPOINT", "unchanged"), ("COMMIT", "unknown")):
        made = plan_undo(accident, tables="undone.*", ask=shop.ask)

        def lose(sql: str, word: str = word) -> None:
            if sql.startswith(word):
                raise UnreachableError("the connection was lost")

        with Watched(lose) as connection:
            undo = ServerUndo(made, connection)
            with pytest.raises(UnreachableError):
                undo.execute()
        assert undo.outcome == outcome
        assert {row.state for row in made.rows} == {"ready"}


def test_the_last_line_says_what_was_done(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    before = shop.all()
    accident = shop.logged("UPDATE undone.t SET price = 0 WHERE id < 9")
    shop.run("UPDATE undone.t SET raw = x'99' WHERE id IN (2, 3)")
    named = ("undo", accident, "-d", "undone", "--check", SERVER)
    ran = run(*named)
    assert ran.lines[-1] == "nothing was changed: add --execute to do it"
    assert "left alone: 2 rows" in ran.lines
    assert "  2 of undone.t: other values in raw, seen" in ran.lines
    with monkeypatch.context() as patch:

        def refuse(self: ServerUndo) -> None:
            raise BinlogError("it is no use")

        patch.setattr(ServerUndo, "_check_triggers", refuse)
        ran = run(*named, "--execute")
        assert (ran.code, ran.err) == (1, "nothing was changed\nerror: it is no use\n")
    ran = run(*named, "--execute")
    assert ran.lines[-1] == "committed: 6 rows restored, 2 left alone (see above)"
    ran = run(*named, "--execute")
    assert ran.lines[-1] == "nothing was changed"
    script = shop.folder / "undo.sql"
    assert run("undo", accident, "-d", "undone", "--check", SERVER, "-o", script, "--overwrite").code == 0
    assert [row for row in shop.rows("t") if row.startswith("(1,")] == [
        row for row in before["t"] if row.startswith("(1,")
    ]


@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL", "NO_LOG"])
def test_a_server_with_default_settings(shop: Shop, metadata: str) -> None:
    """The names come from CREATE TABLE in the log, or from the server that is asked anyway."""
    pytest.importorskip("typer")
    from support.cli import run

    with shop.connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.binlog_row_metadata, VERSION()")
        usual, version = cursor.fetchone()
        if metadata == "NO_LOG" and "MariaDB" not in version:
            pytest.skip("MySQL always logs something")
    shop.run(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        created = shop.logged(
            "CREATE TABLE undone.c (id INT PRIMARY KEY, name VARCHAR(20) CHARACTER SET utf8mb4)",
            "INSERT INTO undone.c VALUES (1, 'é'), (2, 'b')",
        )
        before = shop.all() | {"c": shop.rows("c")}
        accident = shop.logged(
            "UPDATE undone.c SET name = 'gone'", "UPDATE undone.t SET price = 0, name = CONCAT('gone ', id)"
        )
        for logs in ([created, accident], [accident]):
            ran = run("undo", *logs, "-d", "undone", "--op", "update", "--check", SERVER)
            assert ran.code == 0, ran.err
            assert ran.lines[-1] == "nothing was changed: add --execute to do it"
            assert "column names" not in ran.err
        ran = run("undo", accident, "-d", "undone", "--op", "update", "--check", SERVER, "--execute")
        assert re.match(r"committed: \d+ rows restored, none left alone", ran.lines[-1]), ran.text
        assert shop.all() | {"c": shop.rows("c")} == before
        named = [json.loads(line) for line in run("rows", created, accident, "-t", "undone.c").lines]
        assert [row["after"] for row in named][:2] == [{"id": 1, "name": "é"}, {"id": 2, "name": "b"}]
        if metadata != "FULL":
            ran = run("undo", accident, "-t", "undone.c", "--op", "update")
            assert ran.code == 1
            assert ran.err.count("\n") <= 2, ran.err
            assert (
                "the logs do not have their CREATE TABLE either; --schema mysql://… takes them from a server"
                in ran.err
            )
            altered = shop.logged("ALTER TABLE undone.c CHANGE name other VARCHAR(20), ADD z INT")
            ran = run("undo", accident, altered, "-t", "undone.c", "--op", "update", "--check", SERVER)
            assert ran.code == 1
            assert "the logs read do not have the table's CREATE TABLE: read earlier logs" in ran.err
            assert "--schema-start" in ran.err
            logs = (created, accident, altered)
            ran = run("undo", *logs, "-t", "undone.c", "--op", "update", "--check", SERVER)
            assert ran.code == 0, ran.err
            assert "  2 of undone.c: the server's table has no column name" in ran.lines
            named = ("undo", SERVER, "-t", "undone.c", "--op", "update", "--partial")  # the server's own logs
            for ran in (run(*named), run(*named, "--check", SERVER)):
                assert (ran.code, "column names" in ran.err) == (0, False), ran.err
    finally:
        shop.run(f"SET GLOBAL binlog_row_metadata = {usual}")
