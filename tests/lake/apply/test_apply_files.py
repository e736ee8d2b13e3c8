"""A Parquet file of a table: rows in a schema's types, and the bounds that may be recorded."""

from __future__ import annotations

import datetime as dt
import errno
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from binlog_core.lake.apply.alterations import From  # noqa: E402
from binlog_core.lake.apply.files import FileWriter, is_bound, shaped, write_files  # noqa: E402
from binlog_core.lake.apply.jobs import Folder  # noqa: E402


def test_columns_come_from_where_they_are() -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "a": ["x", None], "left": [0, 0]})
    schema = pa.schema(
        {"id": pa.int64(), "b": pa.string(), "c": pa.int8(), "a": pa.string(), "new": pa.date32()}
    )
    found = shaped(rows, schema, {"b": From("a"), "a": None, "c": 7})
    assert found.schema == schema
    assert found.to_pylist() == [
        {"id": 1, "b": "x", "c": 7, "a": None, "new": None},
        {"id": 2, "b": None, "c": 7, "a": None, "new": None},
    ]


@pytest.mark.parametrize("days", [-719528, 2932897])  # 0000-01-01, 10000-01-01
def test_dates_that_python_lacks_are_written_without_bounds(days: int, tmp_path: Path) -> None:
    values = pa.array([days, 0], pa.int32())
    rows = pa.table({"id": [1, 2], "day": values.cast(pa.date32())})
    (written,) = write_files(rows, Folder(str(tmp_path)), rows.schema)
    assert written is not None
    assert (written.least, written.most) == ({"id": 1}, {"id": 2})
    assert pq.read_table(tmp_path / written.name)["day"].cast(pa.int32()).combine_chunks().equals(values)


@pytest.mark.parametrize(
    ("values", "kind", "becomes"),
    [
        (pa.array([0, 1, None], pa.int8()), pa.bool_(), [False, True, None]),
        (pa.array([0, 7], pa.int8()), pa.bool_(), None),
        (pa.array([0.25, None]), pa.decimal128(8, 2), [Decimal("0.25"), None]),
        (pa.array([0.125]), pa.decimal128(8, 2), None),
        (pa.array([Decimal("0.125")]), pa.decimal128(8, 2), None),
        (pa.array([1.5]), pa.list_(pa.string()), None),
        (pa.array([dt.datetime(2026, 1, 2)]), pa.date32(), [dt.date(2026, 1, 2)]),
        (pa.array([dt.datetime(2026, 1, 2, 3)]), pa.date32(), None),
        (pa.array(["1.5"]), pa.decimal128(3, 1), [Decimal("1.5")]),
        (pa.array(["01.5"]), pa.decimal128(3, 1), None),
        (pa.array([Decimal("0.1")]), pa.float64(), [0.1]),  # whose values are never exact
    ],
)
def test_no_value_is_changed_by_a_type(values: Any, kind: Any, becomes: list[Any] | None) -> None:
    rows, schema = pa.table({"a": values}), pa.schema({"a": kind})
    if becomes is not None:
        assert shaped(rows, schema)["a"].to_pylist() == becomes
        return
    with pytest.raises(ValueError, match=r"a: .*would change a value"):
        shaped(rows, schema)


def test_bounds_are_those_of_all_row_groups(tmp_path: Path) -> None:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "text": pa.string(),
            "day": pa.date32(),
            "price": pa.decimal128(9, 2),
            "none": pa.int8(),
        }
    )
    writer = FileWriter(Folder(str(tmp_path)), schema)
    for ids, texts in (([5, 9], ["b", None]), ([2, 7], ["a" * 65, "c"])):
        days, prices = [dt.date(2026, 1, one) for one in ids], [Decimal(one) for one in ids]
        writer.write(pa.table([ids, texts, days, prices, [None, None]], schema=schema))
    (told,) = writer.finish()
    assert pq.ParquetFile(tmp_path / told.name).num_row_groups == 2
    assert (told.rows, told.bytes) == (4, (tmp_path / told.name).stat().st_size)
    # The least text is too long, so text gets no bounds; decimals may have been rounded.
    assert told.least == {"id": 2, "day": dt.date(2026, 1, 2)}
    assert told.most == {"id": 9, "day": dt.date(2026, 1, 9)}
    assert told.nulls == {"id": 0, "text": 1, "day": 0, "price": 0, "none": 4}


@pytest.mark.parametrize("delta", [True, False], ids=["delta", "iceberg"])
def test_texts_are_encoded_as_readers_of_the_format_know(
    delta: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_core.lake.tables.parquet_writer._FEW_BYTES", 0)
    count = 100
    rows = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "text": [None if i % 10 == 9 else f"{i:0{i}}" for i in range(count)],
            "data": [bytes(range(i)) for i in range(count)],
            "state": ["new", "paid"] * (count // 2),
            "tags": [["x", "y"]] * count,
            "place": [{"srid": 0, "wkb": b"%d" % i} for i in range(count)],
        }
    )
    writer = FileWriter(Folder(str(tmp_path), delta=delta), rows.schema)
    writer.write(rows)
    (told,) = writer.finish()
    file = pq.ParquetFile(tmp_path / told.name)
    group = file.metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert {one.compression for one in columns} == {"ZSTD"}
    found = {one.path_in_schema.split(".")[0]: {*one.encodings} - {"RLE"} for one in columns}
    texts = {"DELTA_LENGTH_BYTE_ARRAY" if delta else "PLAIN"}
    dictionary = {"PLAIN", "RLE_DICTIONARY"}
    assert (found["text"], found["data"], found["id"], found["place"]) == (texts, texts, {"PLAIN"}, {"PLAIN"})
    assert found["state"] == found["tags"] == dictionary
    assert file.read() == rows


def test_without_rows_no_file_is_written(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64()})
    writer = FileWriter(Folder(str(tmp_path)), schema)
    writer.write(schema.empty_table())
    assert writer.finish() == []
    with pytest.raises(OSError, match="read further"), writer:
        writer.write(pa.table({"id": [1]}))
        raise OSError("what was to be read further")
    assert list(tmp_path.iterdir()) == []


def test_which_values_are_bounds() -> None:
    assert [is_bound(one) for one in (1, "a" * 64, dt.date(2026, 1, 1))] == [True] * 3
    moment = dt.datetime(2026, 1, 1)  # a date, too, for Python
    assert [is_bound(one) for one in ("a" * 65, Decimal(1), 0.5, b"a", moment)] == [False] * 5


class FullDisk:
    """A file that takes some bytes."""

    def __init__(self, path: Path, room: int) -> None:
        self._file, self._room, self.closed = path.open("wb"), room, False

    def write(self, data: bytes) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._file.close()


@pytest.mark.parametrize("room", [0, 10, 400])
def test_a_full_disk_is_reported_as_such_and_nothing_is_left(tmp_path: Path, room: int) -> None:
    schema = pa.schema({"id": pa.int64()})
    writer = FileWriter(Folder(str(tmp_path)), schema)
    real = writer._filesystem

    class Full:
        def open_output_stream(self, name: str) -> Any:
            return pa.PythonFile(FullDisk(tmp_path / name, room), mode="w")

        def delete_file(self, name: str) -> None:
            real.delete_file(name)

    writer._filesystem = Full()
    with pytest.raises(OSError, match="No space left"), writer:
        for _ in range(3):
            writer.write(pa.table({"id": range(100)}, schema=schema))
        writer.finish()
    assert list(tmp_path.iterdir()) == []
