"""The owners of the memory of Arrow columns, its lifetime, and what batches of one shape share."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.batches import column, make_batch
from support.writer import Log, Table

import binlog_core
from binlog_core import DecodeError, Limits
from binlog_core._tables.column_types import Kind
from binlog_core.batch import arrow_forms as forms
from binlog_core.batch.change_batch import ChangeBatch

pytestmark = pytest.mark.sanitize_logs

COLUMNS = [
    column("id", Kind.INT, bytes_=8, signed=True),
    column("t", Kind.TEXT, charset="utf8mb4"),
    column("kind", Kind.ENUM, members=("a", "b")),
    column("flags", Kind.SET, members=("x", "y")),
]


def batch_of(count: int, seed: int) -> tuple[ChangeBatch, dict[str, list[Any]]]:
    rows = [
        {"id": i ^ seed, "t": b"%d:%d" % (seed, i), "kind": 1 + i % 2, "flags": i % 4} for i in range(count)
    ]
    expected = {
        "id": [i ^ seed for i in range(count)],
        "t": [f"{seed}:{i}" for i in range(count)],
        "kind": ["ab"[i % 2] for i in range(count)],
        "flags": [[name for bit, name in enumerate("xy") if i >> bit & 1] for i in range(count)],
    }
    return make_batch(COLUMNS, rows), expected


def overwrite(count: int) -> None:
    """Make and drop batches of the same size, which reuse the blocks that are free."""
    other, _ = batch_of(count, 99)
    for _ in range(8):
        other.to_arrow()


@pytest.mark.parametrize("count", [3, 700, 9000])
@pytest.mark.parametrize("name", ["id", "t", "kind", "flags"])
def test_one_column_holds_its_memory(count: int, name: str) -> None:
    """The batch is gone, its other columns too: small ones from malloc, large ones from the pool."""
    batch, expected = batch_of(count, 5)
    kept = batch.to_arrow()[name]
    del batch
    overwrite(count)
    kept.validate(full=True)
    assert kept.to_pylist() == expected[name]


class _Array(ctypes.Structure):
    pass


_Release = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", _Release),
    ("private_data", ctypes.c_void_p),
]


@pytest.mark.parametrize("first", ["parent", "child"])
def test_a_child_moved_out(first: str) -> None:
    """As the interface allows: the struct is copied, its origin marked released; either may go first."""
    count = 9000
    batch, expected = batch_of(count, 6)
    _, capsule = batch.export().__arrow_c_array__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    parent = ctypes.cast(get(capsule, b"arrow_array"), ctypes.POINTER(_Array))[0]
    child = parent.children[1][0]
    moved = _Array()
    ctypes.memmove(ctypes.byref(moved), ctypes.byref(child), ctypes.sizeof(_Array))
    ctypes.memset(ctypes.addressof(child) + _Array.release.offset, 0, ctypes.sizeof(ctypes.c_void_p))
    if first == "parent":
        del parent, child, capsule
        overwrite(count)
        ends = np.ctypeslib.as_array(
            ctypes.cast(moved.buffers[1], ctypes.POINTER(ctypes.c_int32)), (count + 1,)
        )
        text = ctypes.string_at(moved.buffers[2], int(ends[-1])).decode()
        assert [text[a:b] for a, b in pairwise(ends)] == expected["t"]
        moved.release(ctypes.byref(moved))
    else:
        moved.release(ctypes.byref(moved))
        overwrite(count)
        ids = ctypes.cast(parent.children[0][0].buffers[1], ctypes.POINTER(ctypes.c_int64))
        assert ids[:count] == expected["id"]
    assert not moved.release


def test_pyarrow_gets_what_others_get() -> None:
    batch, _ = batch_of(20, 3)
    for options in (
        {},
        {"change_columns": False},
        {"change_columns": ("_file", "_row")},
        {"text_errors": "binary"},
    ):
        mine, theirs = batch.to_arrow(**options), pa.record_batch(batch.export(**options))
        assert mine.schema.equals(theirs.schema, check_metadata=True)
        assert mine.equals(theirs)


def test_batches_of_one_shape_share_it() -> None:
    first, _ = batch_of(2, 0)
    second = ChangeBatch(first.table, first.columns, first.array[:1], first.buffer, first.transactions)
    assert first.export()._form is second.export()._form
    assert first.export()._form is not first.export(change_columns=("_row",))._form
    assert first.export(geometry="ewkb")._form is not first.export()._form


def test_shapes_are_not_kept_without_end() -> None:
    for i in range(600):
        batch = make_batch([column(f"c{i}", Kind.INT, bytes_=4, signed=True)], [{f"c{i}": i}])
        assert batch.to_arrow(change_columns=False).to_pylist() == [{f"c{i}": i}]
    assert 0 < len(forms._forms) <= 256


def test_change_columns_in_the_order_wanted() -> None:
    batch, _ = batch_of(2, 0)
    for names in (("_file", "_row"), ("_row", "_file", "_position"), ("_position",), ("_file",)):
        arrow = batch.to_arrow(change_columns=names)
        assert tuple(arrow.schema.names[4:]) == names
        assert [column.name for column in batch.export(change_columns=names).change_columns] == list(names)
        assert arrow.to_pylist()[1].get("_row", 1) == 1


# ---------------------------------------------------------------- how much memory


def padded_batch(count: int, width: int = 255) -> ChangeBatch:
    """Padding of values that the log leaves out, and Arrow has as zero bytes."""
    columns = [
        column("id", Kind.INT, bytes_=8, signed=True),
        column("digest", Kind.BINARY, charset="binary", pad_to=width),
    ]
    return make_batch(columns, [{"id": i, "digest": b""} for i in range(count)])


def test_columns_larger_than_the_limit_are_refused() -> None:
    batch = padded_batch(4000)
    assert batch.to_arrow()["digest"][3999].as_py() == bytes(255)
    batch.arrow_bytes = 1_000_000
    with pytest.raises(DecodeError, match=r"Limits\.arrow_bytes=1000000") as caught:
        batch.to_arrow()
    assert (caught.value.table, caught.value.column) == (batch.table.full_name, "digest")
    assert caught.value.offset is not None
    with pytest.raises(DecodeError, match="arrow_bytes"):
        batch.column("digest")
    batch.arrow_bytes = 2_000_000
    assert batch.to_arrow().num_rows == 4000


@pytest.mark.parametrize("kind", [Kind.ENUM, Kind.SET])
def test_members_count_too(kind: Kind) -> None:
    members = ("a" * 600_000, "b" * 600_000)
    batch = make_batch([column("c", kind, members=members)], [{"c": 1}])
    assert batch.to_arrow().num_rows == 1
    batch.arrow_bytes = 1_000_000
    with pytest.raises(DecodeError, match="arrow_bytes") as caught:
        batch.to_arrow()
    assert caught.value.column == "c"


def test_change_columns_count_too() -> None:
    batch, _ = batch_of(4000, 1)
    batch.path = "p" * 1000
    batch.arrow_bytes = 1_000_000
    with pytest.raises(DecodeError, match="arrow_bytes") as caught:
        batch.to_arrow(change_columns=("_file",))
    assert caught.value.column == "_file"


def test_the_limit_is_the_logs() -> None:
    log = Log("8.0.36")
    table = Table("shop", "t", [("c", "BINARY(255)")])
    log.insert(table, [{"c": b""}] * 4000)
    with binlog_core.open(log.getvalue(), limits=Limits(arrow_bytes=500_000)) as opened:
        (batch,) = opened.batches()
        with pytest.raises(DecodeError, match="arrow_bytes=500000") as caught:
            batch.to_arrow()
    assert (caught.value.table, caught.value.column) == ("shop.t", "c")


def test_few_rows_take_little() -> None:
    """Room is made for the present rows, not for a whole tile."""
    columns = [column(f"c{i}", Kind.BINARY, charset="binary", pad_to=255) for i in range(1000)]
    batch = make_batch(columns, [{f"c{i}": b"x" for i in range(1000)}])
    batch.arrow_bytes = 4 << 20
    assert batch.to_arrow().num_rows == 1


def test_a_plan_keeps_its_layouts() -> None:
    """Independent of the number of other tables."""
    log = Log("8.0.36")
    tables = [Table("shop", f"t{i}", [(f"c{i}", "INT")]) for i in range(300)]
    for i in [*range(300), 0]:
        log.begin()
        log.insert(tables[i], [{f"c{i}": i}])
        log.commit()
    with binlog_core.open(log.getvalue(), limits=Limits(group_rows=1)) as opened:
        shapes = [batch.export()._form for batch in opened.batches()]
    assert len(shapes) == 301
    assert len({id(shape) for shape in shapes}) == 300
    assert shapes[0] is shapes[-1]
