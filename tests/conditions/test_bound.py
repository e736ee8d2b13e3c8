"""``where=`` against the same filter in plain Python over ``rows()``: conditions of several parts."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable
from typing import Any

import pytest
from support.conditions import ORDERS, WITHOUT_ORDER, Question, by_name, columns_of, decoded, found, usable
from support.golden import DATA, Golden
from support.writer import Log, Table

import binlog_core
from binlog_core import Column, ConditionError, Limits, RowChange
from binlog_core.conditions import compiled as compiled_conditions
from binlog_core.inspect.transactions import transactions

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


@by_name
def test_generated_conditions(golden: Golden) -> None:
    chance = random.Random(str(golden))
    tables: dict[str, list[tuple[Column, list[Any]]]] = {}
    for table, column, _, values in columns_of(golden):
        if (
            column.kind not in WITHOUT_ORDER
            and values
            and all(usable(v, column.kind, column) for v in values)
        ):
            tables.setdefault(table, []).append((column, values))
    for table, columns in tables.items():
        for _ in range(3):
            where, test = Question(chance, columns).make()

            def matches(change: RowChange, test: Any = test) -> bool:
                before, after = change.before, change.after
                if before is not None and after is not None:  # others keep their values
                    after = before | after
                images = [image for image in (before, after) if image is not None]
                return any(test({"": i, "before": before, "after": after}) is True for i in images)

            expected = [c for c in decoded(golden)[table] if matches(c)]
            assert found(golden, table, where) == expected, (table, where)


# ---------------------------------------------------------------- about the change


def test_about_the_change() -> None:
    with binlog_core.open(str(DATA / "mysql97/gtid.binlog")) as log:
        changes = list(log.rows())

        def found(where: str) -> list[RowChange]:
            return list(log.rows(where=where))

        assert found("_change_type = 'update'") == [c for c in changes if c.op == "update"] != []
        assert found("_change_type in ('delete', 'update_preimage')") == [
            c for c in changes if c.op != "insert"
        ]
        assert found("_change_type like 'up%'") == [c for c in changes if c.op == "update"]
        gtid = next(c.gtid for c in reversed(changes) if c.gtid)
        assert found(f"_gtid = '{gtid}'") == [c for c in changes if c.gtid == gtid] != []
        assert found("_gtid is null") == [c for c in changes if c.gtid is None]
        times = sorted(c.commit_time for c in changes if c.commit_time)
        middle = times[len(times) // 2]
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=middle)
        late = [c for c in changes if c.commit_time >= middle]
        assert found(f"_commit_timestamp >= '{moment}'") == late != []
        there = moment.astimezone(dt.timezone(dt.timedelta(hours=-5)))
        assert found(f"_commit_timestamp < '{there}'") == [c for c in changes if c not in late]
        server = int(log.headers()["server_id"][1])
        assert found(f"_server_id = {server}") == changes
        assert found(f"_server_id <> {server}") == []


@pytest.mark.parametrize("by_numpy", [False, True])
def test_about_the_thread(by_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each transaction of MySQL has one; MariaDB does not log it before 11.8: it is unknown, like NULL."""
    if by_numpy:
        monkeypatch.setattr(compiled_conditions, "compile_condition", lambda *_: None)
    with binlog_core.open(str(DATA / "mysql97/gtid.binlog")) as log:
        changes = list(log.rows())
        threads = {one.thread_id for one in transactions(log)}
        thread = max(filter(None, threads))
        assert len(list(log.rows(where=f"_thread_id = {thread}"))) == sum(
            one.changes for one in transactions(log) if one.thread_id == thread
        )
        assert list(log.rows(where=f"_thread_id in ({thread}, 0, 1000000)")) != []
        assert list(log.rows(where="_thread_id is not null")) == changes
        assert list(log.rows(where=f"_thread_id > {thread} or _thread_id is null")) == []
        assert list(log.rows(where=f"not _thread_id > {thread}")) == changes
    with binlog_core.open(str(DATA / "maria1011/annotate_off.binlog")) as log:
        changes = list(log.rows())
        assert list(log.rows(where="_thread_id is null")) == changes != []
        for where in ("_thread_id >= 0", "not _thread_id = 5", "_thread_id < 5", "_thread_id = 0"):
            assert list(log.rows(where=where)) == []
    with pytest.raises(ConditionError, match="_thread_id: expected a number"):
        list(binlog_core.open(ORDERS).rows(where="_thread_id = 'x'"))


@pytest.mark.parametrize(
    ("collation", "declared", "version"),
    [
        (45, "VARCHAR(20)", "8.0.36"),
        (28, "VARCHAR(20)", "8.0.36"),  # gbk: the loop cannot compare it
        (45, "VARCHAR(20) COMPRESSED", "10.11.6-MariaDB"),
    ],
)
@pytest.mark.parametrize("by_numpy", [False, True])
def test_bytes_that_are_not_text(
    collation: int, declared: str, version: str, by_numpy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are equal to no text, but they are not NULL."""
    if by_numpy:
        monkeypatch.setattr(compiled_conditions, "compile_condition", lambda *_: None)
    table = Table("shop", "t", [("id", "INT"), ("v", declared, {"collation": collation})])
    log = Log(version)
    log.begin()
    log.insert(table, [{"id": i, "v": v} for i, v in enumerate(("x", b"\xff", None, "zz"))])
    log.commit()
    with binlog_core.open(log.getvalue()) as opened:
        for where, ids in {
            "v = 'x'": [0],
            "v <> 'x'": [1, 3],
            "not v in ('x', 'zz')": [1],
            "v like '_'": [0, 1],
            "v not like 'x%'": [1, 3],
            "v > 'y'": [1, 3],
            "v < 'y'": [0],
            "v is null": [2],
        }.items():
            assert [c.after and c.after["id"] for c in opened.rows(where=where)] == ids, where


@pytest.mark.parametrize("by_numpy", [False, True])
def test_numbers_that_are_no_member(by_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a schema= older than the rows, say. They are equal to no member, but they are not NULL."""
    if by_numpy:
        monkeypatch.setattr(compiled_conditions, "compile_condition", lambda *_: None)
    columns = [("id", "INT"), ("e", "ENUM('a','b','c','d')"), ("s", "SET('a','b','c','d')")]
    table = Table("shop", "t", columns, metadata="MINIMAL")
    log = Log("8.0.36")
    log.begin()
    values: list[tuple[Any, Any]] = [("a", ["a"]), ("c", ["a", "c"]), (None, None), ("", []), ("d", ["d"])]
    log.insert(table, [{"id": i, "e": e, "s": s} for i, (e, s) in enumerate(values)])
    log.commit()
    schema = {"shop.t": "CREATE TABLE t (id INT, e ENUM('a','b'), s SET('a','b'))"}
    with binlog_core.open(log.getvalue(), schema=schema) as opened:
        assert [(c.after and c.after["e"], c.after and c.after["s"]) for c in opened.rows()] == [
            ("a", ["a"]), (3, 5), (None, None), ("", []), (4, 8)
        ]  # fmt: skip
        for where, ids in {
            "e <> 'a'": [1, 3, 4],
            "not e in ('a', 'b')": [1, 3, 4],
            "e = 'a'": [0],
            "e like '%'": [0, 3],
            "not e > ''": [1, 3, 4],
            "e = 3": [1],
            "e > 2": [1, 4],
            "e < 3 and e > -1": [0, 3],
            "e > 70000 or e < -1": [],
            "e in (4, 1, null)": [0, 4],
            "e not between 1 and 3": [3, 4],
            "s <> 'a'": [1, 3, 4],
            "s not like 'a%'": [1, 3, 4],
            "s = 5": [1],
        }.items():
            assert [c.after and c.after["id"] for c in opened.rows(where=where)] == ids, where


def test_a_column_may_have_the_name_of_what_is_about_the_change() -> None:
    with pytest.raises(ConditionError, match=r"does not have the column '_gtid'.*shop\.uq"):
        list(binlog_core.open(ORDERS).rows("shop.uq", where="`_gtid` = 'x'"))


def test_a_table_without_the_column_does_not_match() -> None:
    with binlog_core.open(ORDERS) as log:
        assert {c.table for c in log.rows(where="w > 0")} == {"uq", "nk", "uqn"}
        with pytest.raises(ConditionError, match="'nothing'"):
            list(log.rows(where="nothing = 1"))


def test_only_the_wanted_columns_are_handed_over() -> None:
    with binlog_core.open(ORDERS) as log:

        def both(changes: Iterable[RowChange]) -> list[tuple[object, object]]:
            return [(c.before and c.before["w"], c.after and c.after["w"]) for c in changes]

        narrow = list(log.rows("shop.uq", columns={"shop.uq": ["w"]}, where="k = 2"))
        assert both(narrow) == both(log.rows("shop.uq", where="k = 2")) != []
        assert all(set(image) == {"w"} for c in narrow for image in (c.before, c.after) if image)
        table = log.batches("shop.uq", columns=["w"], where="k = 2").to_arrow()
        assert table.schema.names[0] == "w"
        empty = log.batches("shop.uq", where="k = 1234567").to_arrow()
        assert empty.num_rows == 0
        assert empty.schema == log.batches("shop.uq").to_arrow().schema


def test_a_dataset_and_a_table_of_changes_that_match() -> None:
    pytest.importorskip("pyarrow")
    with binlog_core.open(ORDERS) as log:
        images = sum(1 + (c.op == "update") for c in log.rows("shop.uq", where="k = 2"))
        assert binlog_core.dataset.changes(log, "uq", where="k = 2").count_rows() == images > 0
        assert binlog_core.dataset.changes(log, "uq", where="k = 99").count_rows() == 0
    assert binlog_core.read_table(ORDERS, "uq", where="k = 2").num_rows == images
    splits = binlog_core.splits.plan_splits(ORDERS)
    (groups,) = [list(binlog_core.splits.read_split_groups(split, where="k = 2")) for split in splits]
    found = sum(len(b) for g in groups for b in g.batches if b.table.name == "uq")
    assert found == images


def test_rows_that_continue_after_a_stop() -> None:
    """A position inside a transaction counts what was read, whether it matched or not."""
    with binlog_core.open(ORDERS, where="k > 1", limits=Limits(group_rows=1)) as log:
        every = list(log.rows())
        groups = list(log.groups())
        assert len(groups) > 2
        for group in groups:
            before = sum(len(b) for g in groups[: groups.index(group) + 1] for b in g.batches)
            with binlog_core.open(ORDERS, where="k > 1", start=group.position) as rest:
                assert list(rest.rows()) == every[len(every) - len(list(rest.rows())) :]
                assert before + sum(map(len, rest.batches())) == sum(map(len, log.batches()))


@pytest.mark.parametrize("by_numpy", [False, True])
def test_a_thread_that_is_known_after_rows(by_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """MariaDB's GTID event has no thread: that of a statement counts only if it comes before the rows."""
    if by_numpy:
        monkeypatch.setattr(compiled_conditions, "compile_condition", lambda *_: None)
    table = Table("shop", "t", [("id", "INT")])
    log = Log("10.11.6-MariaDB")
    log.maria_gtid(1)
    log.insert(table, [{"id": 1}])
    log.query("CREATE TEMPORARY TABLE x (a INT)", "shop", thread=9)
    log.insert(table, [{"id": 2}])
    log.commit()
    log.maria_gtid(2)
    log.query("CREATE TEMPORARY TABLE y (a INT)", "shop", thread=9)
    log.insert(table, [{"id": 3}])
    log.commit()
    with binlog_core.open(log.getvalue()) as opened:
        threads = [one for group in opened.groups() for one in group.transactions["thread_id"].tolist()]
        assert threads == [0, 9]
        ids = [
            [c.after["id"] for c in opened.rows(where=f"_thread_id {test}")] for test in ("= 9", "is null")
        ]
        assert ids == [[3], [1, 2]]
