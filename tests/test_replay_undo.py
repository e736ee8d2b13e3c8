"""Undo: what is folded, what is left alone, and a real server that gets back what it had."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.server import SERVER, connect, logged, needs_server
from support.writer import Log, Table

from binlog_core import BinlogError
from binlog_core.replay import ServerUndo, UndoPlan, plan_undo
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection

UUID = "00112233-4455-6677-8899-aabbccddeeff"
T = Table("shop", "t", [("id", "INT"), ("a", "INT"), ("b", "VARCHAR(20)")], primary_key=["id"])
HEAP = Table("shop", "heap", [("a", "INT"), ("b", "VARCHAR(20)")])

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def row(number: int, a: int = 0, b: str = "x") -> dict[str, Any]:
    return {"id": number, "a": a, "b": b}


def log_of(*transactions: list[tuple[Any, ...]]) -> bytes:
    """Each transaction is a list of (operation, rows) on `T`, (operation, rows, table) or (statement,)."""
    log = Log("8.4.0")
    for number, changes in enumerate(transactions, 1):
        log.gtid(UUID, number)
        log.begin("shop")
        for operation, *rest in changes:
            if not rest:
                log.query(operation, "shop")
                continue
            getattr(log, operation)(rest[1] if len(rest) > 1 else T, rest[0])
        log.commit()
    return log.getvalue()


def plan(data: bytes, gtids: str = "1", **options: Any) -> UndoPlan:
    return plan_undo(data, gtids=f"{UUID}:{gtids}", **options)


def statements(made: UndoPlan) -> list[str]:
    return [one.statement() for one in made.ready()]


def alone(made: UndoPlan) -> list[tuple[str, str]]:
    return [(one.key, one.why) for one in made.left_alone()]


def test_each_operation_is_taken_back_the_last_first() -> None:
    made = plan(
        log_of([("insert", [row(1)]), ("update", [(row(2), row(2, 5))]), ("delete", [row(3, 7, "it's")])])
    )
    assert statements(made) == [
        "INSERT INTO `shop`.`t` (`id`, `a`, `b`) VALUES (3, 7, 'it''s');",
        "UPDATE `shop`.`t` SET `a` = 0 WHERE `id` = 2 AND `a` = 5"
        " AND CAST(CONVERT(`b` USING utf8mb4) AS BINARY) = 'x';",
        "DELETE FROM `shop`.`t` WHERE `id` = 1 AND `a` = 0"
        " AND CAST(CONVERT(`b` USING utf8mb4) AS BINARY) = 'x';",
    ]


def test_changes_of_one_row_are_one() -> None:
    made = plan(
        log_of(
            [("update", [(row(1), row(1, 1))]), ("update", [(row(1, 1), row(1, 2, "y"))])],
            [("update", [(row(1, 2, "y"), row(9, 3, "y"))])],  # another key
        ),
        "1-2",
    )
    assert statements(made) == [
        "UPDATE `shop`.`t` SET `id` = 1, `a` = 0, `b` = 'x' WHERE `id` = 9 AND `a` = 3"
        " AND CAST(CONVERT(`b` USING utf8mb4) AS BINARY) = 'y';"
    ]


def test_what_came_and_went_or_is_as_before_is_nothing() -> None:
    made = plan(
        log_of(
            [
                ("insert", [row(1)]),
                ("update", [(row(1), row(1, 1))]),
                ("delete", [row(1, 1)]),
                ("update", [(row(2), row(2, 1))]),
                ("update", [(row(2, 1), row(2))]),
                ("delete", [row(3)]),
                ("insert", [row(3)]),
            ]
        )
    )
    assert made.rows == []


def test_deleted_and_inserted_again_is_an_update() -> None:
    made = plan(log_of([("delete", [row(1)]), ("insert", [row(1, 4)])]))
    assert [(one.action, one.key) for one in made.rows] == [("update", "id=1")]
    assert statements(made)[0].startswith("UPDATE `shop`.`t` SET `a` = 0 WHERE `id` = 1 AND `a` = 4")


@pytest.mark.parametrize(
    "later",
    [
        ("update", [(row(1, 5), row(1, 5, "z"))]),
        ("update", [(row(1, 5), row(8, 5))]),
        ("delete", [row(1, 5)]),
    ],
)
def test_rows_that_others_changed_since_are_left_alone_and_told_of(later: tuple[Any, ...]) -> None:
    made = plan(log_of([("update", [(row(1), row(1, 5)), (row(2), row(2, 5))])], [later]))
    assert [one.key for one in made.ready()] == ["id=2"]
    [(key, why)] = alone(made)
    assert key == "id=1"
    assert why.startswith("by ")
    assert why.endswith(f"GTID {UUID}:2")


def test_a_deleted_row_that_others_inserted_again() -> None:
    made = plan(log_of([("delete", [row(1), row(2)])], [("insert", [row(2, 9)])]))
    assert [one.key for one in made.ready()] == ["id=1"]
    assert [key for key, _ in alone(made)] == ["id=2"]


def test_changes_of_others_before_do_not_matter() -> None:
    made = plan(log_of([("insert", [row(1)])], [("update", [(row(1), row(1, 5))])]), "2")
    assert [one.state for one in made.rows] == ["ready"]


@pytest.mark.parametrize(
    "between",
    [
        [("update", [(row(1, 1), row(1, 1, "theirs"))])],
        [("delete", [row(1, 1)]), ("insert", [row(1, 1, "theirs")])],
    ],
)
def test_a_change_of_others_between_two_of_ours(between: list[tuple[Any, ...]]) -> None:
    """Taking back the sum would take back theirs."""
    data = log_of(
        [("update", [(row(1), row(1, 1))])],
        between,
        [("update", [(row(1, 1, "theirs"), row(1, 2, "theirs"))])],
    )
    with pytest.raises(BinlogError, match="cannot be taken back"):
        plan(log_of([("DROP TABLE x",)]))
    made = plan(data, "1,3".replace(",", f",{UUID}:"))
    assert [(one.state, one.key) for one in made.rows] == [("changed between", "id=1")]


def test_a_row_that_others_deleted_or_inserted_between() -> None:
    data = log_of([("insert", [row(1)])], [("delete", [row(1)])], [("insert", [row(1, 3)])])
    made = plan(data, f"1,{UUID}:3")
    assert [(one.state, one.action) for one in made.rows] == [
        ("ready", "delete"),
        ("changed between", "delete"),
    ]
    data = log_of([("delete", [row(1)])], [("insert", [row(1, 2)])], [("update", [(row(1, 2), row(1, 3))])])
    made = plan(data, f"1,{UUID}:3")
    assert [(one.state, one.action) for one in made.rows] == [
        ("ready", "update"),
        ("changed between", "insert"),
    ]


def test_keys_that_are_shifted() -> None:
    """UPDATE t SET id = id + 1 ORDER BY id DESC: taken back in the order that the keys allow."""
    made = plan(log_of([("update", [(row(i), row(i + 1)) for i in (3, 2, 1)])]))
    assert [re.findall(r"`id` = (\d)", one) for one in statements(made)] == [
        ["1", "2"],
        ["2", "3"],
        ["3", "4"],
    ]


def test_without_a_key_the_whole_row_says_which() -> None:
    value = {"a": 1, "b": None}
    made = plan(log_of([("insert", [value, value], HEAP), ("delete", [{"a": 2, "b": "z"}], HEAP)]))
    assert statements(made) == [
        "INSERT INTO `shop`.`heap` (`a`, `b`) VALUES (2, 'z');",
        "DELETE FROM `shop`.`heap` WHERE `a` = 1 AND `b` IS NULL LIMIT 1;",
        "DELETE FROM `shop`.`heap` WHERE `a` = 1 AND `b` IS NULL LIMIT 1;",
    ]
    made = plan(log_of([("insert", [value, value], HEAP)], [("delete", [value], HEAP)]))
    assert [one.state for one in made.rows].count("changed since") == 1  # of two that are equal, one


def partial(**absent: Any) -> bytes:
    log = Log("8.4.0")
    log.gtid(UUID, 1)
    log.begin("shop")
    log.update(T, [(row(2), row(2, 5))])
    log.update(T, [(row(1), row(1, 5))], **absent)
    log.commit()
    return log.getvalue()


def test_partial_images_are_refused_by_name() -> None:
    data = partial(before_columns=["id"], after_columns=["a"])
    with pytest.raises(BinlogError, match=r"1 rows .*shop\.t, id=1: .*no old value.*column a"):
        plan(data)
    made = plan(data, partial=True)
    assert [(one.key, one.state) for one in made.rows] == [("id=1", "refused"), ("id=2", "ready")]
    # What the images lack did not change: NOBLOB.
    made = plan(partial(before_columns=["id", "a"], after_columns=["id", "a"]))
    assert statements(made)[0] == "UPDATE `shop`.`t` SET `a` = 0 WHERE `id` = 1 AND `a` = 5;"


@pytest.mark.parametrize("end", ["ROLLBACK", ""])
def test_only_what_was_committed(end: str) -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(T, [row(1)])
    if end:
        log.query(end)
    with pytest.raises(BinlogError, match="1 transactions"):
        plan_undo(log.getvalue(), tables="shop.t")
    assert plan_undo(log.getvalue(), tables="shop.t", partial=True).rows == []


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE t", "DROP TABLE t", "UPDATE t SET a = 1"])
def test_statements_are_named(statement: str) -> None:
    data = log_of([("insert", [row(1)])], [(statement,)])
    with pytest.raises(BinlogError, match=statement):
        plan(data, "1-2")
    made = plan(data, "1-2", partial=True)
    assert statement in made.notes[0]
    out = io.BytesIO()
    made.write(out)
    assert out.getvalue().count(b"DELETE FROM") == 1
    assert f"use shop; {statement}" in out.getvalue().decode()


def test_rows_by_condition_of_a_folder_of_logs(tmp_path: Path) -> None:
    first = log_of([("update", [(row(i), row(i, 5)) for i in range(1, 5)])])
    second = log_of([("delete", [row(2, 5), row(4, 5)])])
    (tmp_path / "bin.000001").write_bytes(first)
    (tmp_path / "bin.000002").write_bytes(second)
    made = plan_undo(tmp_path, where="id >= 3", stop=("bin.000001", len(first)))
    assert [(one.key, one.state) for one in made.rows] == [("id=4", "changed since"), ("id=3", "ready")]
    assert "bin.000002" in made.rows[0].why


def test_ddl_is_named_and_refuses_nothing() -> None:
    made = plan(log_of([("insert", [row(1)])], [("ALTER TABLE t ADD COLUMN z INT",)]), "1-2")
    assert "ALTER TABLE t" in made.notes[0]
    assert len(made.ready()) == 1


def test_a_table_that_was_altered_between_two_changes_of_a_row() -> None:
    wider = Table(
        "shop", "t", [("id", "INT"), ("a", "INT"), ("b", "VARCHAR(20)"), ("c", "INT")], primary_key=["id"]
    )
    data = log_of(
        [("update", [(row(1), row(1, 1)), (row(2), row(2, 1))])],
        [("update", [(row(1, 1) | {"c": 0}, row(1, 2) | {"c": 0})], wider)],
        [("update", [(row(1, 2) | {"c": 0}, row(1, 3) | {"c": 0})], wider)],
    )
    made = plan(data, "1-3", partial=True)
    assert [(one.key, one.state) for one in made.rows] == [("id=1", "refused"), ("id=2", "ready")]
    assert "altered" in made.rows[0].why


def test_a_script_is_one_transaction_of_plain_text(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    odd = Table("shop", "né", [("id", "INT"), ("a", "VARCHAR(20)")], primary_key=["id"])
    data = log_of(
        [("insert", [row(1), row(2)])], [("delete", [{"id": 1, "a": "é\\"}], odd)], [("delete", [row(2)])]
    )
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    ran = run("undo", path, "--include-gtids", f"{UUID}:1-2")
    assert ran.code == 0, ran.err
    assert ran.text.isascii()
    assert "\\" not in ran.text
    assert [line for line in ran.lines if line in ("BEGIN;", "COMMIT;")] == ["BEGIN;", "COMMIT;"]
    assert "left alone: shop.t, id=2: by " in ran.text
    assert "left alone: shop.t, id=2: by " in ran.err
    assert ran.text.count("\nEXECUTE binlog_core_statement;") == 1
    assert ran.text.index("EXECUTE binlog_core_statement;") < ran.text.index("DELETE FROM")


def test_wrong_usage(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    path = tmp_path / "bin.000001"
    path.write_bytes(log_of([("insert", [row(1)])]))
    for wrong, told in (
        ([], "say what to take back"),
        (["-t", "t", "--execute"], "--check"),
        (["-t", "t", "--json"], "--check"),
        (["-t", "t", "--check", "db1"], "mysql://"),
        (["-t", "t", "--columns", "a"], "whole rows"),
    ):
        ran = run("undo", path, *wrong)
        assert ran.code == 2
        assert told in re.sub(r"[│\s]+", " ", ran.err)
    assert run("undo", "-", "-t", "t").code == 2
    ran = run("undo", path, "-t", "t", "-o", tmp_path / "undo.sql", "--json")
    assert json.loads(ran.text)["rows"] == [
        {"table": "shop.t", "key": "id=1", "action": "delete", "state": "ready", "why": ""}
    ]
    assert run("undo", path, "-t", "t", "-o", tmp_path / "undo.sql").code == 1


def test_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    monkeypatch.setattr("binlog_core.cli.output._PIPED_WIDTH", 40)
    monkeypatch.chdir(tmp_path)
    Path("bin.000001").write_bytes(log_of([("insert", [row(1), row(2)])], [("delete", [row(2)])]))
    ran = run("undo", "bin.000001", "--include-gtids", f"{UUID}:1", "-o", "undo.sql")
    assert "can be taken back:\n  shop.t: 1 removed\nleft alone: 1 row\n" in ran.text
    assert max(map(len, ran.lines)) <= 40


# ------------------------------------------------------------ a real server


class Shop:
    """Tables of a real server, and the logs of what happens to them."""

    tables = ("t", "heap", "child")

    def __init__(self, folder: Path) -> None:
        self.connection = connect()
        self.folder, self.logs = folder, 0
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

    def undo(self, made: UndoPlan, *, execute: bool = True) -> ServerUndo:
        with Connection(Address.of(SERVER)) as connection:
            found = ServerUndo(made, connection)
            if execute:
                found.execute()
            else:
                found.check()
        return found


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


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    found = Shop(tmp_path)
    yield found
    found.run("DROP DATABASE IF EXISTS undone")
    found.connection.close()


@pytest.mark.server
@needs_server
def test_back_and_forth_on_a_server(shop: Shop) -> None:
    before = shop.all()
    accident = shop.logged(*ACCIDENT)
    after = shop.all()
    assert after != before
    made = plan_undo(accident, tables="undone.*")
    assert len(made.rows) == 13
    shop.undo(made, execute=False)
    assert {one.state for one in made.rows} == {"ready"}, alone(made)
    assert shop.all() == after
    back = logged(shop.connection, lambda: shop.undo(made) and None, shop.folder / "back")
    assert {one.state for one in made.rows} == {"done"}, alone(made)
    assert shop.all() == before
    again = plan_undo(back, tables="undone.*")
    shop.undo(again)
    assert {one.state for one in again.rows} == {"done"}, alone(again)
    assert shop.all() == after


@pytest.mark.server
@needs_server
def test_the_script_does_the_same(shop: Shop) -> None:
    before = shop.all()
    accident = shop.logged(*ACCIDENT)
    made = plan_undo(accident, tables="undone.*")
    out = io.BytesIO()
    made.write(out)
    lines = [line for line in out.getvalue().decode().splitlines() if not line.startswith(("#", "/*M!"))]
    if (
        not shop.connection.get_server_info().endswith("MariaDB")
        and "MariaDB" not in shop.connection.get_server_info()
    ):
        pytest.skip("MySQL takes no values for generated columns; --check knows them")
    shop.run(*lines)
    assert shop.all() == before


@pytest.mark.server
@needs_server
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
    made = plan_undo([accident, shop.folder / "bin.000002"], tables="undone.*", stop=("bin.000001", 1 << 40))
    shop.undo(made, execute=False)
    told = {f"{one.table} {one.key}": one.why for one in made.left_alone()}
    assert set(told) == {*(f"undone.t id={i}" for i in (1, 2, 6, 7)), "undone.child id=2"}
    assert "other values in price, seen, changed by" in told["undone.t id=1"]
    assert told["undone.t id=2"].startswith("it is gone, changed by")
    assert "bin.000002" in told["undone.t id=2"]
    assert told["undone.child id=2"].startswith("a row with its key is there, changed by")
    assert shop.rows("t") == seen
    with pytest.raises(BinlogError, match=r"would point to rows of `undone`\.`t` that are not there"):
        shop.undo(made)  # 104 becomes 4 again, and a child points to it
    assert shop.rows("t") == seen
    shop.run("DELETE FROM undone.child WHERE id = 2")
    shop.undo(made)
    kept = [line for line in before["t"] if not re.match(r"\((1|2|6|7),", line)]
    assert [line for line in shop.rows("t") if not re.match(r"\((1|2|200|6|7),", line)] == kept
    assert [line for line in shop.rows("t") if re.match(r"\((1|200|7),", line)] == [
        line for line in seen if re.match(r"\((1|200|7),", line)
    ]


@pytest.mark.server
@needs_server
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


@pytest.mark.server
@needs_server
def test_others_write_between_the_look_and_the_undo(shop: Shop) -> None:
    accident = shop.logged("UPDATE undone.t SET price = 0 WHERE id IN (1, 2, 3)")
    made = plan_undo(accident, tables="undone.t")
    shop.undo(made, execute=False)
    shop.run("UPDATE undone.t SET price = 5 WHERE id = 1", "UPDATE undone.t SET name = 'näme 3' WHERE id = 4")
    shop.undo(made)
    assert sorted((one.key, one.state) for one in made.rows) == [
        ("id=1", "changed since"),
        ("id=2", "done"),
        ("id=3", "done"),
    ]
    assert "do not tell by whom" in next(one.why for one in made.rows if one.key == "id=1")


@pytest.mark.server
@needs_server
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


@pytest.mark.server
@needs_server
def test_what_the_server_refuses_is_named_and_the_rest_is_done(shop: Shop) -> None:
    accident = shop.logged("UPDATE undone.t SET name = CONCAT('tmp', id) WHERE id IN (1, 2)")
    shop.run("UPDATE undone.t SET name = 'näme 1\\\\ it''s' WHERE id = 8")  # its name is taken
    made = plan_undo(accident, tables="undone.t")
    shop.undo(made)
    assert sorted((one.key, one.state) for one in made.rows) == [("id=1", "conflict"), ("id=2", "done")]
    assert "Duplicate entry" in next(one.why for one in made.rows if one.state == "conflict")


@pytest.mark.server
@needs_server
def test_tables_that_a_server_cannot_take_back_whole(shop: Shop) -> None:
    shop.run("CREATE TABLE undone.plain (id INT PRIMARY KEY, a INT) ENGINE=MyISAM")
    accident = shop.logged(
        "INSERT INTO undone.plain VALUES (1, 1)",
        "UPDATE undone.t SET price = 1 WHERE id = 1",
        "UPDATE undone.heap SET a = 9 WHERE a IS NULL",
    )
    shop.run("ALTER TABLE undone.t DROP COLUMN raw", "DROP TABLE undone.heap")
    shop.run("CREATE TRIGGER undone.trig BEFORE UPDATE ON undone.child FOR EACH ROW SET NEW.t_id = NULL")
    made = plan_undo(accident, tables="undone.*")
    shop.undo(made)
    assert {one.table: one.why for one in made.rows} == {
        "undone.plain": "its engine, MyISAM, has no transactions",
        "undone.t": "the server's table has no column raw",
        "undone.heap": "the server has no such table",
    }
    accident = shop.logged("DELETE FROM undone.child WHERE id = 1")
    made = plan_undo(accident, tables="undone.*")
    assert "triggers of undone.child run as its rows are taken back: trig" in shop.undo(made).notes


@pytest.mark.server
@needs_server
def test_the_command_looks_first(shop: Shop) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    before = shop.all()
    accident = shop.logged(*ACCIDENT)
    after = shop.all()
    ran = run("undo", accident, "-d", "undone", "--check", SERVER)
    assert ran.code == 0, ran.err
    assert "nothing was changed: --execute does it" in ran.text
    assert re.search(r"undone\.t: \d", ran.text)
    assert shop.all() == after
    ran = run("undo", accident, "-d", "undone", "--check", SERVER, "--execute", "--json")
    assert {one["state"] for one in json.loads(ran.text)["rows"]} == {"done"}
    assert shop.all() == before
    ran = run("undo", accident, "-d", "undone", "--check", SERVER, "--execute")
    assert ran.code == 0
    assert "left alone: 13 rows" in ran.text
    assert shop.all() == before
