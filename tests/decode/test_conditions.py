"""``where=`` against the same filter in plain Python over ``rows()``: every column of the golden logs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import glob
import io
import operator
import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support import writer
from support.golden import DATA, Golden, golden_logs

import binlog_core
from binlog_core import Column, Condition, ConditionError, Limits, Log, RowChange
from binlog_core._core import _rows
from binlog_core._core._values import RowReader
from binlog_core._decode import compiled_conditions, condition_values, conditions, plans
from binlog_core._decode.compiled_conditions import compile_condition
from binlog_core._pushdown import pushed_condition
from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import image_dtype
from binlog_core.conditions import quoted, quoted_name
from binlog_core.transactions import transactions

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

LOGS = golden_logs()
by_name = pytest.mark.parametrize("golden", LOGS, ids=str)
TELLING = [g for g in LOGS if any(word in g.name for word in ("types", "image", "compress", "partial"))]
by_telling_name = pytest.mark.parametrize("golden", TELLING, ids=str)
WITHOUT_ORDER = (Kind.JSON, Kind.GEOMETRY, Kind.VECTOR, Kind.NULL)
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
State = bool | None
MOST_COLUMNS = {True: 8, False: 2}  # of a table that are asked for: of logs about types, and of others


# ---------------------------------------------------------------- the filter in Python


def comparable(value: Any) -> Any:
    """A value of ``RowChange`` as one that its kind's others can be compared with."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, list):
        return ",".join(value)
    return value


def as_date(text: str, kind: Kind) -> str:
    """A date that no calendar has, as `comparable` gives the others."""
    if kind is Kind.DATE:
        return text
    return text if "." in text else f"{text}.000000"


def value_of(image: dict[str, Any], name: str, kind: Kind) -> Any:
    value = image[name]
    if kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP) and isinstance(value, str):
        whole, _, fraction = value.partition(".")
        return as_date(f"{whole}.{fraction.ljust(6, '0')}" if fraction else whole, kind)
    return comparable(value)


def literal_of(value: Any) -> str:
    if isinstance(value, list):
        return quoted(",".join(value))
    return quoted(value)


def matching(changes: list[RowChange], name: str, test: Callable[[dict[str, Any]], State]) -> list[RowChange]:
    return [
        c
        for c in changes
        if any(image is not None and name in image and test(image) is True for image in (c.before, c.after))
    ]


def like(text: Any, pattern: Any) -> bool:
    """By the book: tries everything."""
    if not pattern:
        return not text
    first, rest = pattern[:1], pattern[1:]
    if first in ("%", b"%"):
        return any(like(text[i:], rest) for i in range(len(text) + 1))
    return bool(text) and (first in ("_", b"_") or text[:1] == first) and like(text[1:], rest)


@cache
def opened(golden: Golden) -> binlog_core.Log:
    return binlog_core.open(golden.path, **golden.open_arguments)


@cache
def decoded(golden: Golden) -> dict[str, list[RowChange]]:
    found: dict[str, list[RowChange]] = {}
    for change in opened(golden).rows():
        found.setdefault(f"{change.database}.{change.table}", []).append(change)
    return found


def columns_of(golden: Golden) -> Iterator[tuple[str, Column, list[RowChange], list[Any]]]:
    """Of each column of one definition its changes, and values of its own that are not NULL."""
    definitions: dict[str, list[binlog_core.Table]] = {}
    for batch in opened(golden).batches():
        known = definitions.setdefault(batch.table.full_name, [])
        if batch.table not in known:
            known.append(batch.table)
    for name, tables in definitions.items():
        if len(tables) > 1 or tables[0].undecodable is not None:
            continue
        changes, columns = decoded(golden)[name], tables[0].columns
        most = min(MOST_COLUMNS["types" in golden.name], len(columns))
        for column in random.Random(name).sample(columns, most):
            images = [i for c in changes for i in (c.before, c.after) if i is not None and column.name in i]
            values = {repr(i[column.name]): i[column.name] for i in images if i[column.name] is not None}
            yield name, column, changes, list(values.values())


def found(golden: Golden, table: str, where: str) -> list[RowChange]:
    return list(opened(golden).rows(glob.escape(table), where=where))


@by_name
def test_operators(golden: Golden) -> None:
    chance = random.Random(str(golden))
    for table, column, changes, values in columns_of(golden):
        name, kind = quoted_name(column.name), column.kind

        def check(where: str, test: Callable[[Any], bool], only: Column = column) -> None:
            def state(image: dict[str, Any]) -> State:
                own = value_of(image, only.name, only.kind)
                return None if own is None else test(own)

            assert found(golden, table, where) == matching(changes, only.name, state), (table, where)  # noqa: B023

        if kind in WITHOUT_ORDER or not values or not all(usable(v, kind, column) for v in values):
            continue
        two = chance.sample(values, min(2, len(values)))
        wanted = {literal_of(value): value_of({"v": value}, "v", kind) for value in two}
        (first, low), (last, high) = (*wanted.items(), *wanted.items())[:2]
        for op in chance.sample(sorted(OPERATORS), 2):
            check(f"{name} {op} {first}", lambda own, op=op, low=low: OPERATORS[op](own, low))
        check(f"{last} > {name}", lambda own, high=high: own < high)
        check(f"{name} between {first} and {last}", lambda own, low=low, high=high: low <= own <= high)
        check(f"{name} in ({first}, {last})", lambda own, low=low, high=high: own in (low, high))
        check(f"{name} not in ({first}, null)", lambda own: False)


@by_telling_name
def test_null(golden: Golden) -> None:
    for table, column, changes, _ in columns_of(golden):
        where = f"{quoted_name(column.name)} is null"
        expected = matching(changes, column.name, lambda image, name=column.name: image[name] is None)
        assert found(golden, table, where) == expected, (table, where)


def usable(value: Any, kind: Kind, column: Column) -> bool:
    if kind is Kind.ENUM or kind is Kind.SET:
        return column.members is not None and not isinstance(value, int)
    return kind is not Kind.TEXT or isinstance(value, str)


@by_telling_name
def test_like(golden: Golden) -> None:
    chance = random.Random(str(golden))
    for table, column, changes, values in columns_of(golden):
        texts = [v for v in values if isinstance(v, str | bytes) and 0 < len(v) < 60]
        if column.kind not in (Kind.TEXT, Kind.BINARY) or not texts or len(texts) != len(values):
            continue
        text = chance.choice(texts)
        wild = ("%", "_") if isinstance(text, str) else (b"%", b"_")
        cut = chance.randrange(len(text))
        for pattern in (text[:cut] + wild[0], wild[0] + text[cut:], text[:cut] + wild[1] + text[cut + 1 :]):
            if isinstance(pattern, bytes) or "\\" in pattern:
                continue

            def test(image: dict[str, Any], pattern: str = pattern, name: str = column.name) -> State:
                return None if image[name] is None else like(image[name], pattern)

            where = f"{quoted_name(column.name)} like {quoted(pattern)}"
            assert found(golden, table, where) == matching(changes, column.name, test), where


@by_telling_name
def test_changed(golden: Golden) -> None:
    for table, column, changes, _ in columns_of(golden):
        name = column.name

        def differs(change: RowChange, name: str = name) -> bool:
            if change.before is None or change.after is None or name not in change.before:
                return False
            return name in change.after and change.before[name] != change.after[name]

        where = f"changed({quoted_name(name)})"
        assert found(golden, table, where) == [c for c in changes if differs(c)], (table, where)


# ---------------------------------------------------------------- generated conditions


class Question:
    """A condition, and what it says of a change."""

    def __init__(self, chance: random.Random, columns: list[tuple[Column, list[Any]]]) -> None:
        self._chance, self._columns = chance, columns

    def make(self, depth: int = 3) -> tuple[str, Callable[[dict[str, Any]], State]]:
        kind = self._chance.choice(("and", "or", "not", "leaf", "leaf")) if depth else "leaf"
        if kind == "leaf":
            return self._leaf()
        if kind == "not":
            text, part = self.make(depth - 1)

            def negated(images: dict[str, Any]) -> State:
                state = part(images)
                return None if state is None else not state

            return f"not ({text})", negated
        made = [self.make(depth - 1) for _ in range(self._chance.randint(2, 3))]

        def joined(images: dict[str, Any]) -> State:
            states = [part(images) for _, part in made]
            decisive = kind == "or"
            if decisive in states:
                return decisive
            return None if None in states else not decisive

        return f" {kind} ".join(f"({text})" for text, _ in made), joined

    def _leaf(self) -> tuple[str, Callable[[dict[str, Any]], State]]:
        column, values = self._chance.choice(self._columns)
        side = self._chance.choice(("", "", "before", "after"))
        name = f"{side}.{quoted_name(column.name)}" if side else quoted_name(column.name)
        op = self._chance.choice((*OPERATORS, "is null"))
        value = self._chance.choice(values)
        wanted = value_of({"v": value}, "v", column.kind)

        def test(images: dict[str, Any]) -> State:
            image = images[side]
            if image is None or column.name not in image:
                return None
            own = value_of(image, column.name, column.kind)
            if op == "is null":
                return own is None
            return None if own is None else OPERATORS[op](own, wanted)

        return f"{name} is null" if op == "is null" else f"{name} {op} {literal_of(value)}", test


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
                if before is not None and after is not None:  # what was not logged again is what it was
                    after = before | after
                images = [image for image in (before, after) if image is not None]
                return any(test({"": i, "before": before, "after": after}) is True for i in images)

            expected = [c for c in decoded(golden)[table] if matches(c)]
            assert found(golden, table, where) == expected, (table, where)


# ---------------------------------------------------------------- about the change; what is not a condition


ORDERS = str(DATA / "mysql97/image_full.binlog")


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
    """Each transaction of MySQL has one; MariaDB does not tell it before 11.8: unknown, as NULL is."""
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


def test_a_column_may_have_the_name_of_what_is_about_the_change() -> None:
    with pytest.raises(ConditionError, match=r"does not have the column '_gtid'.*shop\.uq"):
        list(binlog_core.open(ORDERS).rows("shop.uq", where="`_gtid` = 'x'"))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            "id =",
            "expected a number, a text in quotes, or NULL at character 5 of the condition, found the end",
        ),
        ("= 5", "expected the name of a column at character 1"),
        ("id = 5 5", "expected and, or, or the end at character 8 of the condition, found 5"),
        ("id == 5", "expected a number, a text in quotes, or NULL at character 5"),
        ("id in ()", "at character 8"),
        ("id in (1, 2", r"expected '\)' at character 12"),
        ("(id = 5", r"expected '\)' at character 8"),
        ("id between 1", "expected and at character 13"),
        ("id like 5", "expected a text in quotes at character 9"),
        ("id like 'a' escape 'xy'", "expected one character in quotes"),
        ("id is 5", "expected null at character 7"),
        ("id not = 5", "expected in, between or like at character 8"),
        ("id = 'a", "the quote ' is not closed at character 6"),
        ("`id = 5", "the quote ` is not closed at character 1"),
        ("id = 5; drop table x", "unexpected ';' at character 7"),
        ("id = \x00", r"unexpected '\\x00' at character 6"),
        ("before. = 5", "expected the name of a column at character 9"),
        ("shop.id = 5", "expected a comparison, in, between, like or is null at character 5"),
        ("changed(before.id)", r"changed\(\) at character 9 takes the name of a column"),
        ("changed id", "expected a comparison"),
        ("id = - 'a'", "expected a number at character 8"),
        ("id = 1e999999", "the number at character 6 of the condition is too long"),
        ("id = " + "9" * 200, "the number at character 6 of the condition is too long"),
        ("(" * 65 + "id = 1" + ")" * 65, "more than Limits.condition_depth=64 parentheses"),
        ("not " * 3, "expected the name of a column at character 13"),
        ("a = 1 or " * 200_000, "Limits.condition_length=1048576"),
    ],
)
def test_what_is_not_a_condition(where: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        Condition(where)
    with pytest.raises(ValueError, match=message):
        binlog_core.open(ORDERS, where=where)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("k = 'abc'", "INT: expected a number at character 5"),
        ("k like '1%'", "like is for text"),
        ("v = 5", "TEXT: expected a text in quotes at character 5"),
        ("w = 5 and nothing = 1", "does not have the column 'nothing'"),
        ("_server_id = 'a'", "_server_id: expected a number at character 14"),
        (
            "_change_type = 'upsert'",
            "expected one of insert, update_preimage, .*, update at character 16",
        ),
        ("_commit_timestamp > 5", "_commit_timestamp: expected a text such as"),
    ],
)
def test_what_does_not_fit_the_table(where: str, message: str) -> None:
    with binlog_core.open(ORDERS) as log, pytest.raises(ConditionError, match=message):
        list(log.rows("shop.uq", where=where))


def test_a_table_without_the_column_does_not_match() -> None:
    with binlog_core.open(ORDERS) as log:
        assert {c.table for c in log.rows(where="w > 0")} == {"uq", "nk", "uqn"}
        with pytest.raises(ConditionError, match="'nothing'"):
            list(log.rows(where="nothing = 1"))


def test_types_of_where() -> None:
    with binlog_core.open(ORDERS, where=Condition("k = 1")) as log:
        one = list(log.rows())
        assert one == list(log.rows(where="K = 1")) == [c for c in log.rows(where="") if c in one] != []
        assert list(log.rows(where="k = 1 and k = 2")) == []
    with pytest.raises(TypeError, match="a condition is a text, not int"):
        binlog_core.open(ORDERS, where=5)
    both = Condition("k = 1") & Condition("w = 2")
    assert pickle.loads(pickle.dumps(both)) == both == Condition("(k = 1) and (w = 2)")
    with pytest.raises(ConditionError):
        binlog_core.open(ORDERS, where="(k = 1)", limits=Limits(condition_length=6))


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


def test_like_takes_no_time() -> None:
    """Not every way to divide a text among the % is tried."""
    test = condition_values._like_regex(tuple(condition_values.like_tokens("%a" * 40 + "b", "\\")))
    assert test.fullmatch("a" * 5000) is None
    assert test.fullmatch("a" * 5000 + "b") is not None


def test_rows_that_go_on_after_a_stop() -> None:
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


# ---------------------------------------------------------------- in the loop, and behind it


@pytest.mark.parametrize(
    ("kind", "most"), [(kind, 0) for kind in Kind if kind not in WITHOUT_ORDER] + [(Kind.GEOMETRY, 0)]
)
def test_the_loop_runs_conditions_on_columns_of_every_kind(kind: Kind, most: int) -> None:
    """The golden logs ask it; but what it cannot run, NumPy would answer as well."""
    column = Column("a", 0, 0, kind, members=("x", "y"), charset="utf8mb4", precision=9, length=8)
    column = dataclasses.replace(column, type_code=8 if kind is Kind.INT else 0)
    table = binlog_core.Table("d", "t", (column,))
    texts = ["changed(a)", "a is not null"]
    if kind not in WITHOUT_ORDER:
        literal = {Kind.DATE: "'2026-01-01'", Kind.TIME: "'08:00:00'"}.get(kind, "5")
        if kind in (Kind.DATETIME, Kind.TIMESTAMP):
            literal = "'2026-01-01 08:00:00'"
        if kind in (Kind.TEXT, Kind.BINARY, Kind.ENUM):
            texts += ["a like 'x%_'", "a between 'x' and 'y'"]
            literal = "'x'"
        texts += [f"a = {literal}", f"before.a in ({literal}, null)", f"not a >= {literal}"]
    for text in texts:
        compiled = compile_condition(conditions.bind(Condition(text), table), table)
        assert compiled is not None, text


@by_telling_name
def test_the_loop_and_numpy_agree(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(f"{golden} again")
    asked: list[tuple[str, str]] = []
    for table, column, _, values in columns_of(golden):
        if (
            column.kind not in WITHOUT_ORDER
            and values
            and all(usable(v, column.kind, column) for v in values)
        ):
            where, _ = Question(chance, [(column, values)]).make(2)
            asked.append((table, where))
    quick = [found(golden, *one) for one in asked]
    monkeypatch.setattr(compiled_conditions, "compile_condition", lambda *_: None)
    assert [found(golden, *one) for one in asked] == quick


CONSTANT = _rows.CONDITION_CODES["CONSTANT"]  # the last test


@pytest.mark.parametrize(
    "condition",
    [
        (b"\0", b"\3", b""),
        (b"", b"\3", b""),
        (b"", b"", b""),
        (bytes(56), b"\0", b""),
        (bytes(56), b"\3\3", b""),
        (bytes(56), b"\3\1", b""),
        (bytes(56), b"\3" * 25 + b"\1" * 24, b""),
        (bytes([CONSTANT + 1]) + bytes(55), b"\3", b""),  # no such test
        (bytes([0, 0, 4]) + bytes(53), b"\3", b""),  # a value inside of the image part
        (bytes([0, 3, 0]) + bytes(53), b"\3", b""),  # no such side
        (bytes([9]) + bytes(55), b"\3", bytes(4)),  # no state of the last op
        (bytes([CONSTANT]) + bytes(23) + b"\3" + bytes(31), b"\3", b""),  # no such state
    ],
)
def test_a_condition_that_would_read_elsewhere_is_refused(condition: tuple[bytes, bytes, bytes]) -> None:
    loop = _rows.Decoder()
    image = image_dtype(1).itemsize
    ops = plans.plan_of(binlog_core.Table("d", "t", (Column("a", 0, 3, Kind.INT, signed=True),))).ops
    scan = loop.add_plan(ops, image_len=image, record_len=image + 4)
    with pytest.raises(ValueError, match=r"condition|tests|states"):
        loop.add_plan(ops, image_len=image, record_len=image + 4, scan=scan, condition=condition)
    with pytest.raises(ValueError, match="no plan 7"):
        loop.add_plan(ops, image_len=image, record_len=image + 4, scan=7, condition=(b"", b"", b""))


def test_of_rows_that_do_not_match_nothing_is_kept() -> None:
    """A log that is read once: its values are copied, those of rows that match only."""
    data = Path(ORDERS).read_bytes()
    with binlog_core.open(io.BytesIO(data), where="k = 2") as log:
        (batch,) = log.batches("shop.uq")
        assert len(bytes(batch.buffer)) == len(b"b" + b"b" + b"zz" + b"changed")
        assert [c.after["v"] for c in log_rows(batch)] == ["b", "zz"]


def log_rows(batch: binlog_core.ChangeBatch) -> list[Any]:
    return list(RowReader(batch))


# ---------------------------------------------------------------- filters of others


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        ("(k == 2)", "`k` = 2"),
        ('((k == 2) and (v == "zz"))', "`k` = 2 and `v` = 'zz'"),
        ("((k != 2) and is_null(v, {nan_is_null=false}))", "`k` <> 2"),
        ("((w > 5) or (k == -1))", "(`w` > 5 or `k` = -1)"),
        ("((w > 5) or is_valid(k))", None),
        ("(((w > 5) or (k <= 1)) and (_server_id == 7))", "(`w` > 5 or `k` <= 1) and _server_id = 7"),
        ('(_change_type == "delete")', "_change_type = 'delete'"),
        ('(_change_type == "deleted")', None),
        ("invert((k == 2))", None),
        ("is_in(k, {value_set=int64:[\n  1\n]})", None),
        ('(v == "a\\"b")', None),
        ('(v == ") or (k")', "`v` = ') or (k'"),
        ('(bl == "78")', None),
        ("(k == 2.5)", None),
        ("(cast(k, {to_type=double}) == 2)", None),
        ("(k == w)", None),
        ("(nothing == 2)", None),
        ("k", None),
        ("((k == 2)", None),
    ],
)
def test_filters_that_become_conditions(expression: str, condition: str | None) -> None:
    with binlog_core.open(ORDERS) as log:
        columns = log.tables()["shop.uq"].columns
    assert pushed_condition(expression, columns) == condition
    assert pushed_condition(expression, [Column("k == 2) or (k", 0, 3, Kind.INT), *columns]) is None


@pytest.mark.parametrize(
    "sql",
    [
        "k = 2",
        "k = 2 and v = 'zz'",
        "k <> 2",
        "w > 5 or k = 1",
        "v = 'b' and w is not null and _change_type = 'update_preimage'",
        "w > 1 and v is not null",
        "v >= 'b'",
        "k = 99",
    ],
)
def test_a_query_asks_the_loop(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    asked: list[Any] = []
    batches = Log.batches

    def watched(self: Log, *given: Any, **options: Any) -> Any:
        asked.append(options.get("where"))
        return batches(self, *given, **options)

    monkeypatch.setattr(Log, "batches", watched)
    with binlog_core.open(ORDERS) as log:
        every = binlog_core.read_table(log, "uq", change_columns="_change_type")
        pushed = binlog_core.dataset.changes(log, "uq")
        asked.clear()
        query = "select k, v, w, _change_type from {} where " + sql
        con = duckdb.connect()
        con.register("pushed", pushed)
        con.register("every", every)
        assert con.sql(query.format("pushed")).fetchall() == con.sql(query.format("every")).fetchall()
        assert all(asked)
        # What chooses changes by one of their images may choose rows by the other.
        con.register("chosen", binlog_core.dataset.changes(log, "uq", where="w = 10"))
        assert con.sql("select w from chosen where w = 1").fetchall() == [(1,)]


def test_an_enum_without_members_beside_what_python_decides() -> None:
    table = writer.Table("shop", "t", [("id", "INT"), ("e", "ENUM('a','b')")], metadata=False)
    log = writer.Log("8.4.0")
    log.begin("shop")
    log.insert(table, [{"id": 1, "e": "a"}, {"id": 2, "e": "b"}])
    log.commit()
    with binlog_core.open(log.getvalue(), where="c1 = 2 and _gtid is null") as opened:
        assert [change.after["c0"] for change in opened.rows() if change.after] == [2]
