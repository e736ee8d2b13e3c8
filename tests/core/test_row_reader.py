"""Records of a batch to rows and RowChange objects: images, GTIDs, wrong arguments, values that are kept."""

from __future__ import annotations

import copy
import datetime as dt
import gc
import pickle
import random
from decimal import Decimal, localcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.filled import (
    ABSENT,
    DELETE,
    INSERT,
    POSTIMAGE,
    PREIMAGE,
    Batch,
    column,
    integer,
    make_batch,
    value_of,
)

import binlog_core
from binlog_core._core._values import (
    ChangeIterator,
    Changes,
    RowChange,
    RowReader,
    ValuePlan,
    column_texts,
    shortcuts,
)
from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import Column
from binlog_core.batch.change_batch import TRANSACTION_DTYPE, ChangeBatch
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize

# -- Rows ------------------------------------------------------------------------------------


def wide(count: int) -> list[Column]:
    return [integer(4, name=f"c{i}", index=i) for i in range(count)]


def test_null_and_absent_are_two_things() -> None:
    columns = wide(19)
    row: list[Any] = list(range(19))
    row[0] = row[8] = None
    row[7] = row[18] = ABSENT
    reader = RowReader(make_batch(columns, [row, list(range(19))]))
    want: dict[str, Any] = {f"c{i}": i for i in range(19) if i not in (7, 18)}
    assert reader.values(0) == want | {"c0": None, "c8": None}
    assert list(reader.values(0)) == list(want)
    assert reader.values(1) == {f"c{i}": i for i in range(19)}
    assert reader.column_values("c18") == [None, 18]


def test_a_projection_reads_the_bits_by_the_columns_of_the_table() -> None:
    columns = wide(12)
    reader = RowReader(make_batch([columns[3], columns[9]], [[None, 9], [3, None]], all_columns=columns))
    assert [reader.values(r) for r in range(2)] == [
        {"c3": None, "c9": 9},
        {"c3": 3, "c9": None},
    ]


def test_no_columns_at_all() -> None:
    reader = RowReader(make_batch([], [[], []], all_columns=wide(3)))
    assert [c.after for c in reader] == [{}, {}]


def test_an_empty_batch() -> None:
    reader = RowReader(make_batch(wide(2), []))
    assert len(reader) == 0
    assert list(reader) == []
    assert reader.column_values("c0") == []


def test_a_strided_array() -> None:
    batch = make_batch(wide(1), [[1], [2], [3]])
    batch.array = batch.array[::2]
    assert RowReader(batch).column_values("c0") == [1, 3]


def test_changes() -> None:
    ops = [INSERT, PREIMAGE, POSTIMAGE, DELETE, PREIMAGE, POSTIMAGE]
    reader = RowReader(make_batch(wide(1), [[i] for i in range(6)], ops))
    assert list(reader) == [
        RowChange("insert", "shop", "orders", None, {"c0": 0}, 1000, 1700000000, None, 0),
        RowChange("update", "shop", "orders", {"c0": 1}, {"c0": 2}, 1001, 1700000001, None, 0),
        RowChange("delete", "shop", "orders", {"c0": 3}, None, 1003, 1700000003, None, 0),
        RowChange("update", "shop", "orders", {"c0": 4}, {"c0": 5}, 1004, 1700000004, None, 0),
    ]
    assert reader.change(3).op == "delete"


@pytest.mark.parametrize("ops", [[PREIMAGE], [POSTIMAGE], [PREIMAGE, INSERT], [INSERT, POSTIMAGE], [0], [5],
                                 [PREIMAGE, POSTIMAGE, POSTIMAGE]])  # fmt: skip
def test_images_that_make_no_change(ops: list[int]) -> None:
    with pytest.raises(DecodeError):
        list(RowReader(make_batch(wide(1), [[i] for i in range(len(ops))], ops)))


def test_indexes_out_of_range() -> None:
    reader = RowReader(make_batch(wide(1), [[1]]))
    for record in (-1, 1, 10**12):
        with pytest.raises(IndexError):
            reader.values(record)
        with pytest.raises(IndexError):
            reader.change(record)
    with pytest.raises(KeyError):
        reader.column_values("other")


def test_a_plan_serves_many_batches() -> None:
    one = make_batch(wide(2), [[1, 2]])
    plan = ValuePlan(one.table, one.columns)
    assert plan.columns == one.columns
    assert plan.dtype == one.array.dtype
    assert RowReader(one, plan).values(0) == {"c0": 1, "c1": 2}
    assert RowReader(make_batch(wide(2), [[3, 4]]), plan).values(0) == {
        "c0": 3,
        "c1": 4,
    }
    with pytest.raises(ValueError, match="dtype"):
        RowReader(make_batch(wide(3), [[3, 4, 5]]), plan)
    with pytest.raises(ValueError, match="on_error"):
        RowReader(one, on_error="ignore")  # type: ignore[arg-type]


def test_changes_of_many_tables_in_log_order() -> None:
    first = make_batch(wide(1), [[1], [2], [3], [4]], [INSERT, PREIMAGE, POSTIMAGE, INSERT])
    first.array["image"]["position"] = [100, 300, 300, 500]
    first.array["image"]["row"] = [0, 1, 1, 0]
    second = make_batch(wide(1), [[5], [6], [7]], [DELETE, INSERT, INSERT])
    second.array["image"]["position"] = [200, 300, 300]
    second.array["image"]["row"] = [0, 0, 2]
    third = make_batch(wide(1), [])
    readers = [RowReader(b) for b in (first, second, third)]
    assert [next(iter((c.after or c.before or {}).values())) for c in ChangeIterator(readers)] == [
        1,
        5,
        6,
        3,
        7,
        4,
    ]
    assert list(ChangeIterator([])) == []


# -- GTIDs -----------------------------------------------------------------------------------


def test_gtids() -> None:
    transactions = np.zeros(5, TRANSACTION_DTYPE)
    uuid = bytes.fromhex("3E11FA4771CA11E19E33C80AA9429562")
    for i, (kind, tag, number) in enumerate(
        [
            (1, b"", 23),
            (1, b"blue", 2**63 - 2),
            (2, b"", 2**64 - 1),
            (0, b"", 9),
            (1, b"t" * 32, 1),
        ]
    ):
        transactions[i]["gtid_kind"] = kind
        transactions[i]["uuid"] = np.frombuffer(uuid, "u1")
        transactions[i]["tag"] = tag
        transactions[i]["sequence_number"] = number
        transactions[i]["domain_id"] = 4294967295
        transactions[i]["server_id"] = 7
    batch = make_batch(wide(1), [[i] for i in range(6)], transactions=transactions)
    batch.array["image"]["transaction"] = [0, 1, 2, 3, 4, 0]
    source = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    assert [c.gtid for c in RowReader(batch)] == [
        f"{source}:23",
        f"{source}:blue:9223372036854775806",
        "4294967295-7-18446744073709551615",
        None,
        f"{source}:{'t' * 32}:1",
        f"{source}:23",
    ]


def test_a_transaction_that_is_not_there() -> None:
    batch = make_batch(wide(1), [[1]])
    batch.array["image"]["transaction"] = 1
    with pytest.raises(DecodeError):
        RowReader(batch).change(0)


# -- RowChange -------------------------------------------------------------------------------


def test_row_change_behaves_as_a_value() -> None:
    change = RowChange("update", "shop", "orders", {"id": 1}, {"id": 2}, 4, 1700000000, "0-1-2")
    assert repr(change) == "<RowChange update shop.orders, position:4, 0-1-2: {'id': 1} → {'id': 2}>"
    assert pickle.loads(pickle.dumps(change)) == copy.copy(change) == change
    assert change != RowChange("update", "shop", "orders", {"id": 1}, {"id": 3}, 4, 1700000000, "0-1-2")
    assert change != "change"
    match change:
        case RowChange("update", _, table, {"id": before}, {"id": after}):
            assert (table, before, after) == ("orders", 1, 2)
        case _:
            raise AssertionError
    with pytest.raises(AttributeError):
        change.op = "insert"
    with pytest.raises(TypeError):
        hash(change)


# -- Arguments that are refused ------------------------------------------------------------------


def public(batch: Batch) -> ChangeBatch:
    return ChangeBatch(batch.table, batch.columns, batch.array, batch.buffer, batch.transactions)


@pytest.mark.parametrize("kind", [Kind.ENUM, Kind.SET])
def test_members_may_be_any_sequence(kind: Kind) -> None:
    names: Any = ["a", "b"]
    c = column(kind, length=1, members=names)
    assert value_of(c, 2) == ("b" if kind == Kind.ENUM else ["b"])
    assert public(make_batch([c], [[0]])).to_pylist(change_columns=False) == [
        {"c": "" if kind == Kind.ENUM else []}
    ]


def test_a_set_of_more_members_than_bits() -> None:
    c = column(Kind.SET, length=8, members=tuple(f"m{i}" for i in range(70)))
    assert value_of(c, 1 | 1 << 63) == ["m0", "m63"]


@pytest.mark.parametrize("index", [-1, 1, 8, 300, 65535])
def test_a_column_outside_of_its_table_is_refused(index: int) -> None:
    batch = make_batch([integer(4, name="c")], [[1]])
    batch.columns = (integer(4, name="c", index=index),)
    with pytest.raises(ValueError, match="index"):
        RowReader(batch)


@pytest.mark.parametrize(
    "kind", [Kind.TEXT, Kind.DATE, Kind.DECIMAL, Kind.ENUM, Kind.SET, Kind.DOUBLE, Kind.YEAR, Kind.TIME]
)
def test_a_dtype_that_is_not_the_kinds_is_refused(kind: Kind) -> None:
    class Narrow(Column):
        @property
        def dtype(self) -> np.dtype:
            return np.dtype("i1")

    batch = make_batch([Narrow("c", 0, 3, kind, charset="utf8mb4", members=("a",))], [[1]])
    with pytest.raises(ValueError, match="stored"):
        RowReader(batch)
    if kind not in (Kind.DOUBLE, Kind.YEAR, Kind.DECIMAL):  # copied, or refused already
        with pytest.raises(ValueError, match="stored"):
            public(batch).to_arrow()


def test_what_was_not_made_cannot_be_used() -> None:
    for kind in (RowReader, ValuePlan, ChangeIterator):
        with pytest.raises(TypeError):
            kind.__new__(kind)
    with pytest.raises(TypeError):
        ChangeIterator([1])
    with pytest.raises(TypeError):
        ChangeIterator([None])
    with pytest.raises(TypeError, match="expected a flag"):
        Changes(iter([]), SimpleNamespace(flag=None))
    with pytest.raises(TypeError):
        RowReader(make_batch([integer(4)], [[1]]), "no plan")


def test_a_flag_is_read_where_it_is() -> None:
    """When the bytes are moved or grow, the flag is not read from the old ones."""
    flag = bytearray(10)
    flag[0] = 1
    changes = Changes((readers for readers in [[]]), SimpleNamespace(flag=flag))
    del flag[0]
    assert next(changes, None) is None


def test_texts_of_columns_are_those_of_values() -> None:
    """Every golden log: a column converted as a whole equals its values converted one by one."""
    from support.golden import golden_logs

    from binlog_core.cli.text import csv_field

    checked = 0
    for golden in golden_logs():
        if golden.open_arguments:
            continue
        with binlog_core.open(golden.path) as log:
            for batch in log.batches():
                if batch.table.undecodable is not None:
                    continue
                reader = RowReader(batch)
                for column in batch.columns:
                    values = reader.column_values(column.name)
                    assert column_texts(reader, column.name, "csv", csv_field) == list(map(csv_field, values))
                    checked += len(values)
    assert checked > 10_000


def test_values_that_come_again_in_a_long_batch() -> None:
    # Of 256 records and more, dates and short decimals are kept: the same values, whatever came before.
    price = column(Kind.DECIMAL, "price", 0, precision=9, scale=2)
    day = column(Kind.DATE, "day", 1)
    rows = []
    for i in range(2000):
        number = [0, -5, 10**8 - i, i % 300][i % 4]
        rows.append([number, None if i % 7 == 0 else np.datetime64("2024-02-29") + i % 700 - i % 3 * 10**5])
    rows[1500][1] = np.datetime64("NaT")
    batch = make_batch([price, day], rows, invalid=[(1500, 1, 2024, 2, 30, 0, 0, 0, 0)])
    reader = RowReader(batch)
    for i, change in enumerate(reader):
        number, date = rows[i]
        assert str(change.after["price"]) == f"{Decimal(number).scaleb(-2):.2f}"
        wanted = None if date is None else "2024-02-30" if i == 1500 else date.item()
        assert change.after["day"] == wanted
    assert reader.column_values("price")[:4] == [
        change.after["price"]
        for change in list(RowReader(make_batch([price], [[row[0]] for row in rows[:4]])))
    ]


def test_the_interpreter_has_what_it_is_expected_to_have() -> None:
    # Otherwise rows are made key by key and decimals from text: the same result, more slowly.
    assert shortcuts() == {"decimal": True, "dict": True}


@pytest.mark.parametrize("count", [1, 2, 5, 6, 10, 11, 85, 86, 300])
def test_rows_of_any_width(count: int) -> None:
    # Dicts keep their values at other places from 6, 11, … keys on.
    rows: list[list[Any]] = [[1000 * r + i if (r + i) % 3 else None for i in range(count)] for r in range(4)]
    names = [f"c{i}" for i in range(count)]
    changes = list(RowReader(make_batch(wide(count), rows)))
    assert [c.after for c in changes] == [dict(zip(names, row, strict=True)) for row in rows]
    row = changes[0].after
    assert row is not None
    del row["c0"]  # they are dicts like any other
    row["c0"], row["more"] = "new", 1
    assert list(row) == [*names[1:], "c0", "more"]
    assert changes[1].after == dict(zip(names, rows[1], strict=True))


@pytest.mark.parametrize("whole", [0, 1, 9, 10, 10**17, 10**18, 2**63 - 1, 10**19, 2**64, 10**37, 10**38 - 1])
@pytest.mark.parametrize(("precision", "scale"), [(18, 0), (18, 7), (38, 0), (38, 10), (65, 30)])
def test_decimals_are_those_that_python_makes(whole: int, precision: int, scale: int) -> None:
    bits = 63 if precision == 18 else 127
    if whole >> bits:
        return
    c = column(Kind.DECIMAL, precision=precision, scale=scale)
    for number in (whole, -whole):
        words = number & (1 << 256) - 1
        stored: Any = [words >> 64 * i & 2**64 - 1 for i in range(4)]
        stored[3] -= stored[3] >> 63 << 64
        if precision == 18:
            stored = number
        elif precision == 38:
            stored = (words & 2**64 - 1, number >> 64)
        else:
            stored = tuple(stored)
        got = value_of(c, stored)
        with localcontext(prec=80):
            want = Decimal(number).scaleb(-scale)
        if not number:
            want = abs(want)
        assert got.as_tuple() == want.as_tuple()
        assert (str(got), hash(got), repr(got * 3 / 7)) == (str(want), hash(want), repr(want * 3 / 7))
        assert pickle.loads(pickle.dumps(got)).as_tuple() == copy.deepcopy(got).as_tuple() == want.as_tuple()


def test_values_that_an_update_leaves() -> None:
    columns = [
        integer(4, name="number"),
        column(Kind.DOUBLE, "double", 1),
        column(Kind.TEXT, "text", 2, charset="utf8mb4"),
        column(Kind.DATETIME, "moment", 3),
        column(Kind.SET, "set", 4, length=8, members=("a", "b")),
        column(Kind.DECIMAL, "price", 5, precision=30, scale=2),
        column(Kind.BINARY, "bytes", 6, pad_to=3),
    ]
    noon = np.datetime64("2024-02-29T12:00:00")
    nat = np.datetime64("NaT")
    one: list[Any] = [7, 0.5, b"text", noon, 3, (12345, 0), b"a"]
    none = [None] * 7
    bad: list[Any] = [7, 0.5, b"\xff", nat, 3, (12345, 0), b""]
    rows = [one, one, none, one, one, none, bad, bad, one, [8, *one[1:]]]
    batch = make_batch(
        columns,
        rows,
        [PREIMAGE, POSTIMAGE] * 5,
        invalid=[(6, 3, 2024, 2, 30, 0, 0, 0, 0), (7, 3, 2024, 2, 31, 0, 0, 0, 0)],
    )
    reader = RowReader(batch)
    names = [c.name for c in columns]

    def row(*values: Any) -> dict[str, Any]:
        return dict(zip(names, values, strict=True))

    value = row(7, 0.5, "text", dt.datetime(2024, 2, 29, 12), ["a", "b"], Decimal("123.45"), b"a\0\0")
    nothing = row(*none)
    wrong = row(7, 0.5, b"\xff", "2024-02-30 00:00:00", ["a", "b"], Decimal("123.45"), bytes(3))
    assert [(c.before, c.after) for c in reader] == [
        (value, value),
        (nothing, value),
        (value, nothing),
        (wrong, {**wrong, "moment": "2024-02-31 00:00:00"}),
        (value, {**value, "number": 8}),
    ]
    assert reader.invalid_text == 2  # each is counted, though they are the same
    change = next(iter(RowReader(batch)))
    change.before["set"].append("c")
    assert change.after["set"] == ["a", "b"]


def test_rows_that_hold_lists_are_known_to_the_garbage_collector() -> None:
    class Seen:
        pass

    c = column(Kind.SET, length=8, members=("a",))
    change = next(iter(RowReader(make_batch([c], [[1]]))))
    assert gc.is_tracked(change.after)
    change.after["c"] += [change.after, Seen()]
    del change
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Seen)]


def test_values_that_come_again_once_and_then_no_more() -> None:
    columns = [
        column(Kind.TEXT, "text", 0, charset="utf8mb4"),
        column(Kind.DATE, "day", 1),
        column(Kind.DECIMAL, "price", 2, precision=9, scale=2),
        column(Kind.TEXT, "latin", 3, charset="latin1"),
    ]
    rows: list[list[Any]] = []
    for i in range(6000):
        n = i % 5 if i < 1000 or i >= 5000 else i
        text = b"%d" % n * (1 + n % 9)
        rows.append([text, np.datetime64("2000-01-01") + n, n - 3, text + b"\xe9" * (i % 2)])
    reader = RowReader(make_batch(columns, rows))
    for change, (text, day, price, latin) in zip(reader, rows, strict=True):
        assert list(change.after.values()) == [
            text.decode(), day.item(), Decimal(price).scaleb(-2), latin.decode("latin1")
        ]  # fmt: skip
    assert reader.column_values("text") == [row[0].decode() for row in rows]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
def test_changes_are_merged_by_position_and_row(count: int) -> None:
    draw = random.Random(count)
    places = [
        [(draw.randrange(6), draw.randrange(6)) for _ in range(draw.randrange(9))] for _ in range(count)
    ]
    readers = []
    wanted = []
    for number, each in enumerate(places):
        batch = make_batch(wide(2), [[number, i] for i in range(len(each))])
        batch.array["image"]["position"] = [position for position, _ in sorted(each)]
        batch.array["image"]["row"] = [row for _, row in sorted(each)]
        readers.append(RowReader(batch))
        wanted += [(position, row, number, i) for i, (position, row) in enumerate(sorted(each))]
    found = [(change.position, *change.after.values()) for change in ChangeIterator(readers)]
    assert found == [(position, number, i) for position, _, number, i in sorted(wanted)]


def test_a_change_is_shown_shortly() -> None:
    before = {"id": 1, "text": "x" * 1000, "same": None, "<b>": 1}
    change = RowChange("update", "shop", "orders", before, before | {"text": "y"}, 4, path="/logs/bin.000001")
    assert repr(change).startswith("<RowChange update shop.orders, bin.000001:4: {'id': 1, 'text': 'xxx")
    assert len(repr(change)) < 500
    page = change._repr_html_()
    assert "<p>update shop.orders, bin.000001:4</p>" in page
    assert "<tr><th>id</th><td>1</td><td>1</td></tr>" in page
    assert "<td><b>&#x27;y&#x27;</b></td>" in page
    assert "<th>&lt;b&gt;</th>" in page and len(page) < 1000
    insert = RowChange("insert", "shop", "orders", None, {"id": 2})
    assert "<tr><th>id</th><td></td><td>2</td></tr>" in insert._repr_html_()


def test_a_change_without_arguments_is_empty() -> None:
    change = RowChange.__new__(RowChange)
    assert (change.op, change.database, change.table, change.gtid, change.path) == (None,) * 5
    assert repr(change) == "<RowChange None None.None, position:0: no images>"


@pytest.mark.parametrize("bits", [-1, 65, 2040])
def test_a_bit_of_more_bits_than_its_record_holds(bits: int) -> None:
    with pytest.raises(ValueError, match=f"column 'c': a BIT of {bits} bits"):
        RowReader(make_batch([column(Kind.BIT, length=bits)], [[5]]))
