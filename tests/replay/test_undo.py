"""Undo: which changes are combined, which are left alone, and scripts on a real server."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.replay import alone
from support.writer import Log, Table

from binlog_core import BinlogError
from binlog_core.replay import UndoPlan, plan_undo

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


def test_an_invalid_value_in_an_enum_is_not_its_empty_member() -> None:
    listed = Table("shop", "e", [("e", "ENUM('a','')"), ("a", "INT")], primary_key=["e"])
    changes = [({"e": 0, "a": 0}, {"e": 0, "a": 1}), ({"e": 2, "a": 5}, {"e": 2, "a": 6})]
    made = plan(
        log_of([("update", changes, listed)], [("update", [({"e": 2, "a": 6}, {"e": 2, "a": 7})], listed)])
    )
    assert [(one.key, one.state) for one in made.rows] == [("e=''", "changed since"), ("e=0", "ready")]
    assert made.rows[1].statement() == "UPDATE `shop`.`e` SET `a` = 0 WHERE `e` = 0 AND `a` = 1;"
    assert made.rows[0].condition() == "`e` = 2 AND `a` = 6"


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
def test_rows_that_others_changed_since_are_left_alone_and_reported(later: tuple[Any, ...]) -> None:
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
    """Reversing the sum would reverse theirs."""
    data = log_of(
        [("update", [(row(1), row(1, 1))])],
        between,
        [("update", [(row(1, 1, "theirs"), row(1, 2, "theirs"))])],
    )
    with pytest.raises(BinlogError, match="cannot be reversed"):
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
    """UPDATE t SET id = id + 1 ORDER BY id DESC: reversed in the order that the keys allow."""
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
    with pytest.raises(
        BinlogError, match=r"1 row .*shop\.t, id=1: .*no old value.*column a.* rest with partial=$"
    ):
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
    with pytest.raises(BinlogError, match="1 transaction or"):
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


def test_statements_of_other_threads_do_not_matter() -> None:
    log = Log("8.4.0")
    for thread in (7, 8):
        log.query("BEGIN", "shop", thread=thread)
        log.update(T, [(row(thread), row(thread, 5))])
        log.commit()
    log.query("TRUNCATE TABLE x", "shop", thread=8)
    made = plan_undo(log.getvalue(), where="_thread_id in (7)")
    assert [(one.key, one.state) for one in made.rows] == [("id=7", "ready")]
    with pytest.raises(BinlogError, match="TRUNCATE TABLE x"):
        plan_undo(log.getvalue(), where="_thread_id in (8)")


def test_rows_by_condition_of_a_folder_of_logs(tmp_path: Path) -> None:
    first = log_of([("update", [(row(i), row(i, 5)) for i in range(1, 5)])])
    second = log_of([("delete", [row(2, 5), row(4, 5)])])
    (tmp_path / "bin.000001").write_bytes(first)
    (tmp_path / "bin.000002").write_bytes(second)
    made = plan_undo(tmp_path, where="id >= 3", stop=("bin.000001", len(first)))
    assert [(one.key, one.state) for one in made.rows] == [("id=4", "changed since"), ("id=3", "ready")]
    assert "bin.000002" in made.rows[0].why


@pytest.mark.parametrize("tables", ["shop.t", "shop.[t]", "t", "SHOP.T"])
def test_statements_on_other_tables_in_the_range(tables: str) -> None:
    """Whoever chooses tables is not told of others, nor of statements before the first change."""
    others = ["DROP TABLE u", "DROP TABLE v", "TRUNCATE u", "CREATE INDEX i ON u (a)", "CREATE DATABASE y"]
    if tables != "t":  # which may be of any database
        others[1:3] = "DROP DATABASE x", "TRUNCATE other.t"
    log = Log("8.4.0")
    for text in ["CREATE TABLE t (id INT)", *others]:
        log.query(text, "shop")
    log.query("BEGIN", "shop")
    log.insert(T, [row(1)])
    log.commit()
    for text in others:
        log.query(text, "shop")
    log.query("ALTER TABLE t ADD z INT", "shop")
    data = log.getvalue()
    made = plan_undo(data, tables=tables, ops="insert") if tables != "SHOP.T" else None
    if made is not None:
        assert [one.state for one in made.rows] == ["ready"]
        assert [note.rpartition("; ")[2] for note in made.notes] == ["ALTER TABLE t ADD z INT"]
    with pytest.raises(
        BinlogError, match=r"6 transactions or statements .* first: .*: use shop; DROP TABLE u"
    ):
        plan_undo(data, ops="insert")
    for text in (
        "DROP TABLE t",
        "DROP DATABASE shop",
        "UPDATE t, u SET t.a = 1",
        "SELECT f(1)",
        "DROP TABLE T",
        "UPDATE v SET a = 1",  # of a view
        "DELETE FROM parent",  # and of what its foreign keys and triggers change
        "INSERT INTO u VALUES (f(1))",
    ):
        log = Log("8.4.0")
        log.query(text, "shop")
        with pytest.raises(BinlogError, match=re.escape(text)):
            plan_undo(log.getvalue(), tables=tables)


@pytest.mark.parametrize("tables", ["a.b.t", "`a.b`.t", "[a.x]?b.t"])
@pytest.mark.parametrize("statement", ["DROP DATABASE `a.b`", "ALTER TABLE `a.b`.t DROP PARTITION p"])
def test_a_statement_on_a_database_with_a_dot(tables: str, statement: str) -> None:
    log = Log("8.4.0")
    log.query(statement, "shop")
    with pytest.raises(BinlogError, match=re.escape(statement)):
        plan_undo(log.getvalue(), tables=tables)


@pytest.mark.parametrize("statement", ["DROP TABLE {}, t", "UPDATE {}, t SET t.a = 1"])
def test_a_statement_of_which_the_end_is_not_kept_may_concern_any_table(statement: str) -> None:
    log = Log("8.4.0")
    log.query(statement.format(", ".join(f"other_{number:04}" for number in range(500))), "shop")
    with pytest.raises(BinlogError, match="other_0000"):
        plan_undo(log.getvalue(), tables="shop.t")


def test_without_changes_statements_are_told() -> None:
    log = Log("8.4.0")
    log.query("ALTER TABLE t ADD z INT", "shop")
    assert "ALTER TABLE t" in plan_undo(log.getvalue(), tables="shop.t").notes[0]


def test_ddl_is_named_and_refuses_nothing() -> None:
    made = plan(log_of([("insert", [row(1)])], [("ALTER TABLE t ADD COLUMN z INT",)]), "1-2")
    assert "ALTER TABLE t" in made.notes[0]
    assert len(made.ready()) == 1


@pytest.mark.parametrize(
    ("statement", "inserted_again", "others"),
    [
        ("RENAME TABLE t TO t_old, t_new TO t", "refused", "changed since"),
        ("RENAME TABLE shop.t_old TO shop.t", "refused", "changed since"),
        ("ALTER TABLE t RENAME TO u", "refused", "changed since"),
        ("DROP TABLE IF EXISTS u, t", "refused", "changed since"),
        ("CREATE OR REPLACE TABLE t (id INT)", "refused", "changed since"),
        ("DROP DATABASE shop", "refused", "changed since"),
        ("CREATE OR REPLACE DATABASE shop", "refused", "changed since"),
        ("TRUNCATE TABLE t", "changed since", "changed since"),
        ("ALTER TABLE t DROP PARTITION p1", "ready", "ready"),
        ("ALTER TABLE t ADD COLUMN z INT", "ready", "ready"),
    ],
)
def test_statements_on_the_table_after_the_range(statement: str, inserted_again: str, others: str) -> None:
    changes = [("delete", [row(1)]), ("insert", [row(2)]), ("update", [(row(3), row(3, 5))])]
    data = log_of([("RENAME TABLE x TO t",)], changes, [(statement,)], [("CREATE TABLE t (id INT)",)])
    made = plan(data, "2")
    assert [(one.action, one.state) for one in made.rows] == [
        ("update", others),
        ("delete", others),
        ("insert", inserted_again),
    ]
    assert [note.partition(": use ")[2] for note in made.notes] == [f"shop; {statement}"]
    assert made.notes[0].startswith("after the changes: ")
    assert all(statement in why for _, why in alone(made))
    elsewhere = plan(data, "2", databases={"shop": "copy"})
    kept = "changed since" if "TRUNCATE" in statement else "ready"
    assert {one.state for one in elsewhere.rows} == {kept}


def test_a_table_that_was_renamed_in_the_range() -> None:
    swap = "RENAME TABLE t TO t_old, t_new TO t"
    made = plan(log_of([("delete", [row(1)])], [(swap,)], [("delete", [row(2)])]), "1-3")
    assert [(one.key, one.state) for one in made.rows] == [("id=2", "ready"), ("id=1", "refused")]
    assert len([note for note in made.notes if swap in note]) == 1
    # Whoever accepts that the rows of DROP are missing gets the others.
    data = log_of([("delete", [row(1)])], [("DROP TABLE t",)])
    assert [one.state for one in plan(data, "1-2", partial=True).rows] == ["ready"]


def test_statements_on_other_tables_after_the_range() -> None:
    later = [
        "DROP TABLE u",
        "DROP TABLE other.t",
        "DROP VIEW t",
        "UPDATE u SET a = 1",
        "INSERT INTO u VALUES ('t')",
    ]
    made = plan(log_of([("delete", [row(1)])], *([(text,)] for text in later)))
    assert ([one.state for one in made.rows], made.notes) == (["ready"], [])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET a = 1",
        "DELETE u, shop.T FROM u JOIN shop.T USING (id)",
        "SET STATEMENT max_statement_time=1 FOR INSERT INTO `t` VALUES (1, 2, 'x')",
        "LOAD DATA INFILE 'f' INTO TABLE t",
        "SELECT `shop`.`f`(1)",  # a function that changes rows, which may be those of any table
    ],
)
def test_changes_logged_as_statements_after_the_range(statement: str) -> None:
    other = Table("shop", "other", [("id", "INT")], primary_key=["id"])
    changes = [("delete", [row(1)]), ("insert", [row(2)]), ("insert", [{"id": 7}], other)]
    made = plan(log_of([(statement,)], changes, [(statement,)], [(statement,)]), "2")
    states = {(one.table, one.key): one.state for one in made.rows}
    of_other = "changed since" if "SELECT" in statement else "ready"
    assert states == {
        ("shop.t", "id=1"): "changed since",
        ("shop.t", "id=2"): "changed since",
        ("shop.other", "id=7"): of_other,
    }
    # Each row is told of once, by the first of them.
    [note] = made.notes
    assert note.startswith("after the changes: ")
    assert note.endswith(f": use shop; {statement}")
    place = note.removeprefix("after the changes: ")
    why = f"by a statement whose rows are not logged, maybe: {place}"
    assert {text for _, text in alone(made)} == {why}
    with pytest.raises(BinlogError, match="cannot be reversed"):
        plan(log_of([(statement,)], changes), "1-2")


def test_what_is_lost_after_the_range_may_have_changed_any_row() -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(T, [row(1)])
    log.commit()
    stop = len(log.getvalue())
    incident = log.event(26, b"\x01\x00\x00")  # its number: events are missing; no message
    made = plan_undo(log.getvalue(), stop=stop)
    told = f"<bytes>:{incident}: an incident: the server says that events are missing"
    assert [(one.state, one.why) for one in made.rows] == [
        ("changed since", f"by changes that are lost, maybe: {told}")
    ]
    assert made.notes == [f"after the changes: {told}"]


def test_a_statement_between_the_changes_concerns_the_rows_before_it() -> None:
    data = log_of([("insert", [row(1)])], [("UPDATE t SET a = 1",)], [("insert", [row(2)])])
    made = plan(data, f"1,{UUID}:3")
    assert [(one.key, one.state) for one in made.rows] == [("id=2", "ready"), ("id=1", "changed since")]
    assert [one.state for one in plan(data, "1-3", partial=True).rows] == ["ready", "ready"]  # accepted


@pytest.mark.parametrize(("sql_mode", "state"), [(4, "refused"), (0, "ready")])  # 4 is ANSI_QUOTES
def test_names_are_read_by_the_rules_of_their_session(sql_mode: int, state: str) -> None:
    status = b"\x01" + sql_mode.to_bytes(8, "little")
    for sql in ('DROP TABLE "t"', 'DROP TABLE IF EXISTS u, "t"'):
        log = Log("8.4.0")
        log.gtid(UUID, 1)
        log.begin("shop")
        log.delete(T, [row(1)])
        log.commit()
        log.gtid(UUID, 2)
        log.query(sql, "shop", status=status)
        assert [one.state for one in plan(log.getvalue()).rows] == [state]


def test_names_with_dots_are_told_apart() -> None:
    columns = [("id", "INT"), ("a", "INT")]
    one, other = (Table(*name, columns, primary_key=["id"]) for name in (("a.b", "c"), ("a", "b.c")))
    values = {"id": 1, "a": 0}
    data = log_of([("insert", [values], one), ("delete", [values], other)], [("insert", [values], other)])
    assert [(row.table, row.state) for row in plan(data).rows] == [
        ("a.`b.c`", "changed since"),
        ("`a.b`.c", "ready"),
    ]


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


@pytest.mark.parametrize(
    ("statement", "takes"),
    [
        ("TRUNCATE t", True),
        ("DROP TABLE IF EXISTS `t` /* generated by server */", True),
        ("drop /* all of it */ database shop", True),
        ("ALTER TABLE t DROP PARTITION p1", True),
        ("alter table t engine=InnoDB, truncate /* now */ partition p1", True),
        ("ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE u", True),
        ("CREATE OR REPLACE TABLE t (id INT)", True),
        ("CREATE OR REPLACE DATABASE shop", True),
        ("SET STATEMENT max_statement_time=1 FOR TRUNCATE t", True),
        ("SET STATEMENT max_statement_time=1 FOR UPDATE t SET a = 1", True),
        ("SELECT `shop`.`f`(1)", True),
        ("ALTER TABLE t DISCARD TABLESPACE", True),
        ("ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (9))", False),
        ("ALTER TABLE t DROP COLUMN `partition`", False),
        ("ALTER TABLE t COMMENT 'DROP PARTITION p1'", False),
        ("DROP TRIGGER shop.trg", False),
        ("DROP VIEW v", False),
        ("DROP INDEX i ON t", False),
        ("DROP TEMPORARY TABLE t", False),
        ("CREATE TABLE u (id INT)", False),
    ],
)
def test_statements_that_take_rows(statement: str, takes: bool) -> None:
    data = log_of([("CREATE DATABASE IF NOT EXISTS shop",)], [("insert", [row(1)])], [(statement,)])
    if takes:
        with pytest.raises(
            BinlogError,
            match=r"1 transaction or statement in .*: .*" + re.escape(statement),
        ):
            plan_undo(data, tables="shop.t")
    else:
        assert len(plan_undo(data, tables="shop.t").ready()) == 1


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
    assert "1 of shop.t: changed since\nnote:     id=2, by bin.000001:" in ran.err
    assert ran.text.count("\nEXECUTE binlog_core_statement;") == 1
    assert ran.text.index("EXECUTE binlog_core_statement;") < ran.text.index("DELETE FROM")


def test_wrong_usage(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    path = tmp_path / "bin.000001"
    path.write_bytes(log_of([("insert", [row(1)])]))
    for wrong, message in (
        ([], "say what to reverse"),
        (["-t", "t", "--execute"], "--check"),
        (["-t", "t", "--by-column"], "--check"),
        (["-t", "t", "--json"], "--check"),
        (["-t", "t", "--check", "db1"], "mysql://"),
        (["-t", "t", "--columns", "a"], "No such option: --columns"),
    ):
        ran = run("undo", path, *wrong)
        assert ran.code == 2
        assert message in re.sub(r"[│\s]+", " ", ran.err)
    assert run("undo", "-", "-t", "t").code == 2
    ran = run("undo", path, "-t", "t", "-o", tmp_path / "undo.sql", "--json")
    assert json.loads(ran.text)["rows"] == [
        {"table": "shop.t", "key": "id=1", "action": "delete", "state": "ready", "why": "", "columns": None}
    ]
    assert run("undo", path, "-t", "t", "-o", tmp_path / "undo.sql").code == 1


def test_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    monkeypatch.setattr("binlog_core.cli.output._PIPED_WIDTH", 40)
    monkeypatch.chdir(tmp_path)
    Path("bin.000001").write_bytes(log_of([("insert", [row(1), row(2)])], [("delete", [row(2)])]))
    ran = run("undo", "bin.000001", "--include-gtids", f"{UUID}:1", "-o", "undo.sql")
    assert "can be undone:\n  shop.t: 1 removed\nleft alone: 1 row\n" in ran.text
    assert max(map(len, ran.lines)) <= 40
    assert ran.text.endswith("written to undo.sql: 1 row, 1 left alone\n(see above)\n")
