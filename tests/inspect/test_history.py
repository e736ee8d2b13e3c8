"""History: the changes of one row, across changes of its key, and the row at a time."""

from __future__ import annotations

import datetime as dt
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

import binlog_core.inspect.history as history_module
from binlog_core import ConditionError, Limits, SchemaError
from binlog_core.index.making import index
from binlog_core.inspect.history import history, row_as_of

UUID = "00112233-4455-6677-8899-aabbccddeeff"
COLUMNS: list[Any] = [("id", "INT"), ("a", "INT"), ("b", "VARCHAR(20)")]
T = Table("shop", "t", COLUMNS, primary_key=["id"])
WIDE = Table("shop", "t", [*COLUMNS, ("c", "INT")], primary_key=["id"])

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def row(number: int, a: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": number, "a": a, "b": "x"} | more


CHANGES = [
    ("insert", [row(i) for i in range(1, 6)]),
    ("update", [(row(2), row(2, 1))]),
    ("update", [(row(2, 1), row(20, 1))]),  # another key
    ("insert", [row(2, 7)]),  # and another row under the old one
    ("update", [(row(20, 1, c=0), row(20, 2, c=5))]),  # altered
    ("delete", [row(2, 7, c=0)]),
    ("update", [(row(20, 2, c=5), row(21, 2, c=5)), (row(3, c=0), row(3, 9, c=0))]),
    ("delete", [row(21, 2, c=5)]),
]


def folder(tmp_path: Path) -> Path:
    """Two logs, of which the second has another definition."""
    for part, changes in enumerate((CHANGES[:4], CHANGES[4:])):
        log = Log("8.4.0")
        for i, (operation, rows) in enumerate(changes, 1 + 4 * part):
            log.timestamp = 1_700_000_000 + 10 * i
            log.gtid(UUID, i, commit_time=log.timestamp * 1_000_000)
            log.begin("shop")
            log.rows_query(f"statement {i}")
            getattr(log, operation)(WIDE if part else T, rows)
            log.rows_query("another one")
            log.insert(WIDE if part else T, [row(1000 + i, **({"c": 0} if part else {}))])
            log.commit()
        (tmp_path / f"bin.00000{part + 1}").write_bytes(log.getvalue())
    return tmp_path


def facts_of(found: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (one.change.op, one.change.gtid.rpartition(":")[2], one.changed, one.transaction.statement)
        for one in found
    ]


def test_a_row_is_followed_over_its_keys_and_an_alter(tmp_path: Path) -> None:
    logs = folder(tmp_path)
    of_20 = [
        ("insert", "1", {"id": (None, 2), "a": (None, 0), "b": (None, "x")}, "statement 1"),
        ("update", "2", {"a": (0, 1)}, "statement 2"),
        ("update", "3", {"id": (2, 20)}, "statement 3"),
        ("update", "5", {"a": (1, 2), "c": (0, 5)}, "statement 5"),
        ("update", "7", {"id": (20, 21)}, "statement 7"),
        ("delete", "8", {"id": (21, None), "a": (2, None), "b": ("x", None), "c": (5, None)}, "statement 8"),
    ]
    assert facts_of(history(logs, "shop.t", {"id": 20})) == of_20
    assert facts_of(history(logs, "shop.t", {"id": "21"})) == of_20
    both = facts_of(history(logs, "shop.t", {"id": 2}))
    assert [(op, number) for op, number, _, _ in both] == [
        ("insert", "1"),
        ("update", "2"),
        ("update", "3"),
        ("insert", "4"),
        ("update", "5"),
        ("delete", "6"),
        ("update", "7"),
        ("delete", "8"),
    ]
    assert [one[:2] for one in facts_of(history(logs, "shop.t", {"id": 3}))] == [
        ("insert", "1"),
        ("update", "7"),
    ]
    assert {one.transaction.thread_id for one in history(logs, "shop.t", {"id": 20})} == {7}
    assert history(logs, "shop.t", {"id": 99}) == []


def test_the_time_across_changed_keys_is_in_proportion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change of a key leads to the one before it in the log."""
    calls = 0
    same = history_module._same

    def counting(a: Any, b: Any) -> bool:
        nonlocal calls
        calls += 1
        return same(a, b)

    monkeypatch.setattr(history_module, "_same", counting)
    log = Log("8.4.0")
    log.begin("shop")
    log.update(T, [(row(i), row(i + 1)) for i in range(200, 0, -1)])
    log.commit()
    (tmp_path / "bin.000001").write_bytes(log.getvalue())
    found = history(tmp_path, "shop.t", {"id": "1"})
    assert [one.change.after["id"] for one in found] == [2]
    assert calls < 10 * 200


@pytest.mark.parametrize("name", ["id", "order_id", "number"])
def test_a_row_is_followed_across_new_names_of_its_key(name: str) -> None:
    """ALTER TABLE … CHANGE id order_id INT, then … number BIGINT: any of the names finds all changes."""
    log = Log("8.4.0")
    names = {"id": "INT", "order_id": "INT", "number": "BIGINT"}
    tables = [Table("shop", "t", [(n, kind), ("a", "INT")], primary_key=[n]) for n, kind in names.items()]
    log.begin()
    log.insert(tables[0], [{"id": i, "a": 0} for i in (5, 6)])
    log.commit()
    log.begin()
    log.update(tables[1], [({"order_id": 5, "a": 0}, {"order_id": 7, "a": 1})])
    log.commit()
    log.begin()
    log.update(tables[2], [({"number": n, "a": 0}, {"number": n, "a": 2}) for n in (5, 6, 7)])
    log.commit()
    data = log.getvalue()
    of_7 = [{"id": 5, "a": 0}, {"order_id": 7, "a": 1}, {"number": 7, "a": 2}]
    assert [one.change.after for one in history(data, "shop.t", {name: 7})] == of_7
    assert [one.change.after for one in history(data, "shop.t", {name: 6})] == [
        {"id": 6, "a": 0}, {"number": 6, "a": 2},
    ]  # fmt: skip
    assert row_as_of(data, "shop.t", {name: 7}, 1 << 40) == {"number": 7, "a": 2}
    assert row_as_of(data, "shop.t", {name: 6}, 1 << 40) == {"number": 6, "a": 2}


def test_another_table_of_the_same_name_is_not_the_row(tmp_path: Path) -> None:
    log = Log("8.4.0")
    log.begin()
    log.insert(Table("shop", "t", [("id", "INT")], primary_key=["id"]), [{"id": 5}])
    log.insert(Table("shop", "t", [("sku", "VARCHAR(9)")], primary_key=["sku"]), [{"sku": "5"}])
    log.commit()
    found = history(log.getvalue(), "shop.t", {"id": 5})
    assert [one.change.after for one in found] == [{"id": 5}]


def test_each_change_has_its_own_statement(tmp_path: Path) -> None:
    [one] = history(folder(tmp_path), "shop.t", {"id": 1003})
    assert one.transaction.statement == "another one"


def test_a_key_of_several_columns_and_what_is_not_the_key(tmp_path: Path) -> None:
    table = Table("shop", "lines", [("o", "INT"), ("n", "VARCHAR(9)"), ("v", "INT")], primary_key=["o", "n"])
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(table, [{"o": o, "n": n, "v": 0} for o in (1, 2) for n in "ab"])
    log.update(table, [({"o": 1, "n": "a", "v": 0}, {"o": 1, "n": "it's", "v": 1})])
    log.commit()
    data = log.getvalue()
    assert [one.change.op for one in history(data, "shop.lines", {"o": 1, "n": "it's"})] == [
        "insert",
        "update",
    ]
    assert [one.change.op for one in history(data, "shop.lines", {"n": "b", "o": "2"})] == ["insert"]
    with pytest.raises(SchemaError, match="not the primary key: expected o, n"):
        history(data, "shop.lines", {"v": 0})
    with pytest.raises(ConditionError, match="nope"):
        history(data, "shop.lines", {"nope": 0})


def test_a_name_that_no_definition_has_is_not_another_name_of_the_key(tmp_path: Path) -> None:
    logs = folder(tmp_path)
    with pytest.raises(ConditionError, match=r"no definition of the table has the column 'nope'; .* is id "):
        history(logs, "shop.t", {"nope": 20})
    with pytest.raises(ConditionError, match="nope"):
        row_as_of(logs, "shop.t", {"nope": 20}, 1 << 40)
    index(logs)
    with pytest.raises(ConditionError, match="nope"):
        history(logs, "shop.t", {"nope": 20})


@pytest.mark.parametrize("indexed", [False, True])
def test_a_key_may_have_a_name_that_only_rows_outside_the_range_have(tmp_path: Path, indexed: bool) -> None:
    for number, name in enumerate(("id", "order_id"), 1):
        log = Log("8.4.0")
        log.begin()
        log.insert(Table("shop", "t", [(name, "INT")], primary_key=[name]), [{name: number}])
        log.commit()
        (tmp_path / f"bin.{number:06}").write_bytes(log.getvalue())
    if indexed:
        index(tmp_path)
    assert [one.change.after for one in history(tmp_path, "shop.t", {"order_id": 1})] == [{"id": 1}]
    range_ = {"start": ("bin.000001", 4), "stop": ("bin.000002", 4)}
    found = history(tmp_path, "shop.t", {"order_id": 1}, **range_)
    assert [one.change.after for one in found] == [{"id": 1}]
    assert row_as_of(tmp_path, "shop.t", {"order_id": 1}, ("bin.000002", 4)) == {"id": 1}


def test_the_row_as_it_was(tmp_path: Path) -> None:
    logs = folder(tmp_path)

    def at(number: int, key: int = 20) -> Any:
        return row_as_of(
            logs, "shop.t", {"id": key}, dt.datetime.fromtimestamp(1_700_000_000 + number, dt.UTC)
        )

    assert at(15) is None
    assert at(35) == row(20, 1)
    assert at(55) == row(20, 2, c=5)
    assert at(75) is None
    assert at(75, 21) == row(21, 2, c=5)
    assert at(35, 2) is None
    assert at(45, 2) == row(2, 7)
    with pytest.raises(SchemaError, match="no change of this row"):
        at(50, 99)


def test_before_the_first_change_it_was_what_that_found() -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.update(T, [(row(1, 3), row(1, 4))])
    log.commit()
    moment = dt.datetime(2001, 1, 1)
    assert row_as_of(log.getvalue(), "shop.t", {"id": 1}, moment) == row(1, 3)


@pytest.mark.parametrize(
    ("statement", "here"),
    [
        ("TRUNCATE TABLE t", False),
        ("DROP TABLE `t` /* generated by server */", False),
        ("DROP DATABASE shop", False),
        ("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY)", False),
        ("TRUNCATE TABLE other", True),
        ("ALTER TABLE t ADD z INT", True),
        ("RENAME TABLE t TO old, new TO t", None),
        ("ALTER TABLE t TRUNCATE PARTITION p", None),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", None),
    ],
)
@pytest.mark.parametrize("logs", [1, 2])
def test_a_row_is_gone_when_its_table_is_emptied(
    statement: str, here: bool | None, logs: int, tmp_path: Path
) -> None:
    def write(number: int) -> int:
        (tmp_path / f"bin.00000{number}").write_bytes(log.getvalue())
        return len(log.getvalue())

    log = Log("8.4.0")
    log.query(statement, "shop")  # does not concern rows after it
    log.begin("shop")
    log.insert(T, [row(1), row(2)])
    log.commit()
    before = len(log.getvalue())
    if logs == 2:
        write(1)
        log = Log("8.4.0")
    log.query(statement, "shop")
    behind = write(logs)
    log.begin("shop")
    log.insert(T, [row(2, 5)])
    log.commit()
    write(logs)

    def at(key: int, number: int, position: int) -> dict[str, Any] | None:
        return row_as_of(tmp_path, "shop.t", {"id": key}, (f"bin.00000{number}", position))

    assert at(1, 1, before) == row(1)
    assert at(2, logs, 1 << 40) == row(2, 5)
    if here is None:
        with pytest.raises(SchemaError, match="not known after this statement"):
            at(1, logs, behind)
    else:
        assert at(1, logs, behind) == at(1, logs, 1 << 40) == (row(1) if here else None)


def test_later_rows_without_names_leave_a_row_unknown() -> None:
    log = Log("8.4.0")
    log.query("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))", "shop")
    log.begin("shop")
    log.insert(Table("shop", "t", COLUMNS, metadata="MINIMAL"), [row(1)])
    log.commit()
    stop = len(log.getvalue())
    log.query("ALTER TABLE t OF_A_LATER_SERVER", "shop")
    log.begin("shop")
    log.update(Table("shop", "t", COLUMNS, metadata="MINIMAL"), [(row(1), row(1, 5))])
    log.commit()
    data, key = log.getvalue(), {"id": 1}
    assert row_as_of(data, "shop.t", key, stop, schema="ddl") == row(1)
    with pytest.raises(SchemaError, match="have no column names"):
        row_as_of(data, "shop.t", key, 1 << 40, schema="ddl")


def test_a_truncate_may_be_of_a_temporary_table() -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(T, [row(1)])
    log.commit()
    log.query("TRUNCATE TABLE t", "shop", flags=4)  # as MIXED logs it, too
    with pytest.raises(SchemaError, match="not known after this statement"):
        row_as_of(log.getvalue(), "shop.t", {"id": 1}, 1 << 40)


def _prepared(log: Log, change: tuple[dict[str, Any], dict[str, Any]], xid: str) -> None:
    log.query(f"XA START {xid}")
    log.update(T, [change])
    log.query(f"XA END {xid}")
    log.event(38, struct.pack("<BIII", False, 1, 1, 0) + b"a")  # XA PREPARE


def test_a_row_never_was_what_was_not_committed() -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(T, [row(1)])
    log.commit()
    log.begin("shop")
    log.update(T, [(row(1), row(1, 5))])
    log.query("ROLLBACK")
    _prepared(log, (row(1), row(1, 6)), "X'61',X'',1")
    log.query("XA ROLLBACK X'61',X'',1")
    _prepared(log, (row(1), row(1, 7)), "X'61',X'',1")
    prepared = len(log.getvalue())
    log.query("XA COMMIT X'61',X'',1")

    def at(stop: int) -> dict[str, Any] | None:
        return row_as_of(log.getvalue(), "shop.t", {"id": 1}, stop)

    assert at(prepared) == row(1)
    assert at(1 << 40) == row(1, 7)
    found = history(log.getvalue(), "shop.t", {"id": 1})
    outcomes = ["committed", "rolled back", "XA prepared", "XA prepared"]
    assert [one.transaction.outcome for one in found] == outcomes


def test_a_transaction_counts_from_its_commit_on() -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(T, [row(1)])
    log.commit()
    places = [len(log.getvalue())]
    log.begin("shop")
    log.update(T, [(row(1), row(1, 5))])
    places.append(len(log.getvalue()))
    log.insert(T, [row(2)])
    places.append(len(log.getvalue()))
    log.commit()
    places.append(len(log.getvalue()))

    def at(key: int) -> list[dict[str, Any] | None]:
        return [row_as_of(log.getvalue(), "shop.t", {"id": key}, stop) for stop in places]

    assert at(1) == [row(1), row(1), row(1), row(1, 5)]
    assert at(2) == [None, None, None, row(2)]


@pytest.mark.parametrize(
    ("end", "outcome", "found"),
    [("COMMIT", "committed", row(1, 5)), ("ROLLBACK", "rolled back", row(1)), ("", "unknown", row(1))],
)
def test_a_transaction_may_be_longer_than_a_group(end: str, outcome: str, found: dict[str, Any]) -> None:
    """A table's new definition begins another group."""
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(T, [row(1)])
    log.commit()
    log.begin("shop")
    log.update(T, [(row(1), row(1, 5))])
    log.query("ALTER TABLE shop.x ADD a INT")
    log.insert(WIDE, [row(3, c=0)])
    if end:
        log.query(end)
    options = {"schema": "ddl", "ops": "update"}
    [version] = history(log.getvalue(), "shop.t", {"id": 1}, **options)
    assert version.transaction.outcome == outcome
    assert row_as_of(log.getvalue(), "shop.t", {"id": 1}, 1 << 40, schema="ddl") == found


@pytest.mark.parametrize("rows", [1, 1 << 16])  # of a group
def test_a_row_never_was_what_a_savepoint_undid(rows: int) -> None:
    log = Log("11.8.6-MariaDB")
    log.begin("shop")
    log.insert(T, [row(1), row(2)])
    log.commit()
    log.begin("shop")
    log.update(T, [(row(1), row(1, 1))])
    log.query("SAVEPOINT `a b`")
    log.update(T, [(row(1, 1), row(1, 2))])
    log.query("SAVEPOINT `b`")
    log.delete(T, [row(1, 2)])
    log.query("ROLLBACK TO `b`")
    log.query("ROLLBACK TO `A b`")
    log.update(T, [(row(2), row(2, 3))])
    log.commit()

    def at(number: int) -> dict[str, Any] | None:
        return row_as_of(log.getvalue(), "shop.t", {"id": number}, 1 << 40, limits=Limits(group_rows=rows))

    assert at(1) == row(1, 1)
    assert at(2) == row(2, 3)
    found = history(log.getvalue(), "shop.t", {"id": 1})
    outcomes = ["committed", "committed", "rolled back", "rolled back"]
    assert [(one.change.op, one.transaction.outcome) for one in found] == list(
        zip(["insert", "update", "update", "delete"], outcomes, strict=True)
    )


@pytest.mark.parametrize("name", ['"A"', "a", "`á`"])
def test_a_savepoint_may_be_named_in_another_way(name: str) -> None:
    log = Log("10.11.6-MariaDB")
    log.begin("shop")
    log.insert(T, [row(1)])
    log.query("SAVEPOINT `a`")
    log.update(T, [(row(1), row(1, 2))])
    log.query(f"ROLLBACK TO {name}")
    log.commit()
    assert row_as_of(log.getvalue(), "shop.t", {"id": 1}, 1 << 40) == row(1)


def test_a_savepoint_before_what_is_read() -> None:
    """Reading begins inside a transaction, so all that is read of it comes after its savepoint."""
    log = Log("10.11.6-MariaDB")
    log.begin("shop")
    log.insert(T, [row(1)])
    log.query("SAVEPOINT `a`")
    start = log.position
    log.update(T, [(row(1), row(1, 2))])
    log.query("ROLLBACK TO `a`")
    log.update(T, [(row(1), row(1, 3))])
    log.commit()
    log.begin("shop")
    log.update(T, [(row(1, 3), row(1, 4))])
    log.query("SAVEPOINT `b`")
    log.update(T, [(row(1, 4), row(1, 5))])
    log.query("ROLLBACK TO `b`")
    log.commit()
    found = history(log.getvalue(), "shop.t", {"id": 1}, start=start)
    outcomes = [(one.change.after or {})["a"] for one in found if one.transaction.outcome == "rolled back"]
    assert outcomes == [2, 5]


@pytest.mark.parametrize(("ended", "outcome"), [(True, "committed"), (False, "unknown")])
@pytest.mark.parametrize("gtids", [True, False])
def test_the_next_transaction_neither_undoes_nor_commits_what_is_before_it(
    ended: bool, outcome: str, gtids: bool
) -> None:
    """The end of the first transaction is in another group than its change; the savepoint itself is lost."""
    log = Log("8.4.0")
    if gtids:
        log.gtid(UUID, 1)
    log.begin("shop")
    log.insert(T, [row(1)])
    log.query("ALTER TABLE shop.x ADD a INT")
    log.insert(WIDE, [row(3, c=0)])
    if ended:
        log.commit()
    if gtids:
        log.gtid(UUID, 2)
    log.begin("shop")
    log.query("ROLLBACK TO `a`")
    log.insert(WIDE, [row(4, c=0)])
    log.commit()
    [version] = history(log.getvalue(), "shop.t", {"id": 1}, schema="ddl")
    assert version.transaction.outcome == outcome


def test_partial_images_are_completed() -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(T, [row(1)])
    log.update(T, [(row(1), row(1, 4))], before_columns=["id"], after_columns=["a"])
    log.commit()
    assert row_as_of(log.getvalue(), "shop.t", {"id": 1}, 1 << 40) == row(1, 4)
    assert [one.changed for one in history(log.getvalue(), "shop.t", {"id": 1})][1] == {"a": (None, 4)}


@pytest.mark.parametrize("primary_key", [["id"], None])
def test_generated_columns_are_unknown_after_an_update(primary_key: list[str] | None) -> None:
    """As MariaDB 11.8 logs g INT AS (a * 2) STORED and t TEXT AS (…): in inserts, not in updates."""
    more: list[Any] = [("g", "INT"), ("t", "TEXT"), ("u", "TEXT")]
    table = Table("shop", "t", [*COLUMNS, *more], primary_key=primary_key)
    logged = ["id", "a", "b", "u"]
    log = Log("11.8.6-MariaDB")
    log.begin("shop")
    log.insert(table, [row(1, 4, g=8, t="8", u="u"), row(2, 5, g=10, t="10", u="v")])
    new = row(1, 6, u="u")
    log.update(table, [(row(1, 4, u="u"), new)], before_columns=logged, after_columns=logged)
    log.commit()

    def at(number: int) -> dict[str, Any] | None:
        return row_as_of(log.getvalue(), "shop.t", {"id": number}, 1 << 40)

    assert at(1) == new
    assert at(2) == row(2, 5, g=10, t="10", u="v")


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_images_by_a_key_that_the_log_does_not_have_are_completed(image: str) -> None:
    """The row's key, a UNIQUE one or a primary key, has more columns than the key that was asked for."""
    key: list[Any] = [("k", "VARCHAR(9)", {"null": False}), ("n", "TEXT", {"null": False})]
    table = Table("shop", "t", [("id", "INT", {"null": False}), *key, ("a", "INT"), ("t", "TEXT")])
    was = {"id": 1, "k": "k", "n": "n", "a": 4, "t": "t"}
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(table, [was])
    before = ["id", "k", "n"] + ["a"] * (image == "NOBLOB")
    log.update(table, [(was, was | {"a": 5})], before_columns=before, after_columns=["id", "a"])
    log.update(table, [(was | {"a": 5}, was | {"n": "m"})], before_columns=before, after_columns=["n"])
    log.commit()
    found = row_as_of(log.getvalue(), "shop.t", {"id": 1}, 1 << 40)
    assert found == was | {"a": 5, "n": "m"}


def test_blobs_that_noblob_leaves_out_are_completed() -> None:
    table = Table("shop", "t", [*COLUMNS, ("t", "TEXT"), ("u", "TEXT")], primary_key=["id"])
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(table, [row(1, t="x", u="y")])
    logged = ["id", "a", "b"]
    log.update(table, [(row(1), row(1, 4))], before_columns=logged, after_columns=logged)
    log.update(table, [(row(1, 4), row(1, 5, u="z"))], before_columns=logged, after_columns=[*logged, "u"])
    log.commit()
    assert row_as_of(log.getvalue(), "shop.t", {"id": 1}, 1 << 40) == row(1, 5, t="x", u="z")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    logs = folder(tmp_path)
    ran = run("history", "shop.t", "id=20", logs)
    assert ran.code == 0, ran.err
    assert ran.lines[5] == (
        f"update shop.t  2023-11-14 22:13:40  {UUID}:2  server 1  thread 7  bin.000001:"
        + ran.lines[5].rpartition(":")[2]
    )
    assert ran.lines[6:10] == ["  statement 2", "  id: 2", "  b: 'x'", "  a: 0 → 1"]
    lines = [json.loads(line) for line in run("history", "shop.t", "id=20", logs, "-f", "jsonl").lines]
    assert [line["op"] for line in lines] == ["insert", "update", "update", "update", "update", "delete"]
    assert lines[1]["changed"] == {"a": [0, 1]}
    assert lines[1]["statement"] == "statement 2"
    assert lines[1]["outcome"] == "committed"
    pyarrow = pytest.importorskip("pyarrow")
    last = run("history", "shop.t", "id=20", logs, "-f", "jsonl", "--limit", "1")
    assert [json.loads(line) for line in last.lines] == lines[-1:]
    assert last.err == f"note: earlier changes that are not shown (--limit): {len(lines) - 1}\n"
    all_of_them = run("history", "shop.t", "id=20", logs, "-f", "jsonl", "-n", len(lines))
    assert [json.loads(line) for line in all_of_them.lines] == lines and "--limit" not in all_of_them.err
    assert run("history", "shop.t", "id=20", logs, "--limit", "0").code == 2
    made = pyarrow.ipc.open_stream(run("history", "shop.t", "id=20", logs, "-f", "arrow").out).read_all()
    assert made.column("op").to_pylist() == [line["op"] for line in lines]
    then = run("history", "shop.t", "id=20", logs, "--as-of", f"{UUID}:3").lines
    assert then == ["id: 20", "a: 1", "b: 'x'"]
    assert run("history", "shop.t", "id=20", logs, "--as-of", f"{UUID}:2").lines == [
        "no row id=20 at that time"
    ]
    ran = run("history", "shop.t", "id=99", logs)
    assert (ran.code, "no change of id=99" in ran.err) == (1, True)
    for wrong in (("shop.t", logs), ("shop.t", "id=1"), ("t", "id=1", logs), ("shop.t", "id=1", "-")):
        assert run("history", *wrong).code == 2
    monkeypatch.setenv("COLUMNS", "40")
    assert run("history", "shop.t", "id=20", logs).code == 0


def test_numbers_are_not_in_quotes() -> None:
    pytest.importorskip("typer")
    from binlog_core.cli.readable import value_text

    assert value_text(Decimal("9.00")) == "9.00"
    assert value_text(Decimal("-1E+3")) == "-1000"
    assert value_text("9.00") == "'9.00'"


def test_rows_as_text(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    logs = folder(tmp_path)
    ran = run("rows", logs, "-v", "--where", "id = 20 or id = 3", "--op", "update")
    assert [line for line in ran.lines if line.startswith("  ")] == [
        *("  a: 1", "  b: 'x'", "  id: 2 → 20"),
        *("  id: 20", "  b: 'x'", "  a: 1 → 2", "  c: 0 → 5"),
        *("  a: 2", "  b: 'x'", "  c: 5", "  id: 20 → 21"),
        *("  id: 3", "  b: 'x'", "  c: 0", "  a: 0 → 9"),
    ]
    assert run("rows", logs, "-f", "text").lines[1:4] == ["  id: 1", "  a: 0", "  b: 'x'"]
    assert run("rows", logs, "-v", "-f", "csv").code == 2
    assert run("rows", logs, "-n", "1").out.startswith(b'{"op"')  # in a pipe
