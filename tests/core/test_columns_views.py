"""text="view": string views and binary views, which refer to the log instead of copying its text."""

from __future__ import annotations

import gc
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.batches import ABSENT, batch_with_null_spans, column, letters, make_batch
from support.golden import Golden, golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core import Limits
from binlog_core._core import _columns, _rows
from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import Column
from binlog_core.batch.arrow_batch import ArrowBatch
from binlog_core.batch.arrow_types import ChangeColumn
from binlog_core.batch.change_batch import ChangeBatch
from binlog_core.errors import DecodeError

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

TEXT = [column("t", Kind.TEXT, charset="utf8mb4")]
INLINED = 12  # bytes of the longest value that lies in its view
NOTES = Table(
    "shop", "notes", [("id", "INT"), ("note", "VARCHAR(300)"), ("data", "BLOB"), ("code", "CHAR(4)")]
)
# What a value may be as long as: around what lies in a view, and the steps of the loop that looks at text
LENGTHS = [0, 1, 3, 4, 5, 11, 12, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 200, 255]


@pytest.fixture(params=[True, False], ids=["wide", "plain"], autouse=True)
def compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    before = _columns.use_wide(request.param), _rows.use_wide(request.param), _rows.columns_from(1)
    yield
    _columns.use_wide(before[0])
    _rows.use_wide(before[1])
    _rows.columns_from(before[2])


def note(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "note": None if i % 11 == 7 else letters(LENGTHS[i % len(LENGTHS)], i).decode(),
        "data": None if i % 13 == 5 else letters(LENGTHS[(i * 7) % len(LENGTHS)], i + 1),
        "code": "abcd"[: i % 5],
    }


def written(count: int, to_event: int = 40, changed: dict[int, dict[str, Any]] | None = None) -> bytes:
    rows = [note(i) | (changed or {}).get(i, {}) for i in range(count)]
    log = Log("8.0.36", checksum=False)
    log.start()
    for at in range(0, count, to_event):
        log.begin()
        log.insert(NOTES, rows[at : at + to_event])
        log.commit()
    log.rotate()
    return log.getvalue()


def saved(folder: Path, data: bytes) -> Path:
    path = folder / "binlog.000001"
    path.write_bytes(data)
    return path


def address(array: pa.Array) -> list[tuple[int, int]]:
    """Where the buffers that views refer to lie, and how long they are."""
    return [(buffer.address, buffer.size) for buffer in array.buffers()[2:] if buffer is not None]


def lies_in(array: pa.Array, buffer: Any) -> bool:
    """Whether all that views refer to is part of a buffer."""
    whole = np.frombuffer(buffer, np.uint8)
    begin = whole.ctypes.data
    return all(begin <= at and at + size <= begin + len(whole) for at, size in address(array))


# --- Values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 24, 511, 512, 513, 1025])
@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.BINARY])
def test_values_of_every_length(count: int, kind: Kind) -> None:
    """The last values end with the buffer."""
    values = [letters(LENGTHS[(i * 3 + count) % len(LENGTHS)], i) for i in range(count)]
    batch = make_batch([column("v", kind, charset="utf8mb4")], [{"v": value} for value in values])
    found = batch.to_arrow(change_columns=False, text="view")["v"]
    found.validate(full=True)
    assert found.type == (pa.string_view() if kind is Kind.TEXT else pa.binary_view())
    assert found.to_pylist() == ([value.decode() for value in values] if kind is Kind.TEXT else values)


@pytest.mark.parametrize("length", [0, 4, INLINED, INLINED + 1, 63, 64])
def test_a_buffer_of_one_short_value(length: int) -> None:
    """No byte is read after it: the sanitizer would see that."""
    batch = make_batch(TEXT, [{"t": letters(length)}])
    assert batch.to_arrow(text="view")["t"].to_pylist() == [letters(length).decode()]


def test_null_among_lengths() -> None:
    """A NULL is an empty view, whatever its span says."""
    batch, values = batch_with_null_spans()
    found = batch.to_arrow(text="view")["t"]
    found.validate(full=True)
    assert found.to_pylist() == [None if v is None else v.decode() for v in values]
    views = np.frombuffer(found.buffers()[1], "<u8").reshape(-1, 2)
    assert not views[[i for i, v in enumerate(values) if v is None]].any()


def test_a_span_outside_the_buffer_is_an_error() -> None:
    batch = make_batch(TEXT, [{"t": b"a"}, {"t": b"b" * 20}])
    batch.array["row"]["t"][1] = (10, 2**31 + 5)
    with pytest.raises(DecodeError, match="record 1: the value's span reaches outside"):
        batch.to_arrow(text="view")


@pytest.mark.parametrize("place", [0, 3, 8, 10, 11, 12, 13, 30, 31, 32, 62, 63, 64, 95, 127, 128, 139])
def test_beyond_ascii_at_every_place(place: int) -> None:
    for character in ("é", "€", "\U0001f40b"):
        text = "a" * place + character + "b" * (140 - place)
        batch = make_batch(TEXT, [{"t": b"before"}, {"t": text.encode()}, {"t": b"after"}])
        assert batch.to_arrow(text="view")["t"].to_pylist() == ["before", text, "after"]


@pytest.mark.parametrize("total", [1, 4, INLINED, INLINED + 1, 32, 64, 140])
@pytest.mark.parametrize("bad", [b"\xff", b"\x80", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
def test_invalid_utf8_at_every_place(total: int, bad: bytes) -> None:
    for place in sorted({0, max(total - len(bad), 0) // 2, max(total - len(bad), 0)}):
        value = b"a" * place + bad + b"b" * (total - place - len(bad))
        rows = [*[{"t": b"good"}] * 513, {"t": value}, {"t": b"after" * 5}]
        batch = make_batch(TEXT, rows)
        with pytest.raises(DecodeError, match="record 513: invalid utf8mb4 text"):
            batch.to_arrow(text="view")
        replaced = batch.to_arrow(text="view", text_errors="replace")["t"]
        assert replaced.type == pa.string_view()
        assert replaced.to_pylist() == [row["t"].decode(errors="replace") for row in rows]
        binary = batch.to_arrow(text="view", text_errors="binary")["t"]
        assert binary.type == pa.binary_view()
        assert binary.to_pylist() == [row["t"] for row in rows]


@pytest.mark.parametrize("count", [1, 40, 512, 700])
@pytest.mark.parametrize("seed", range(6))
def test_text_that_is_not_valid_leaves_other_columns_as_they_are(count: int, seed: int) -> None:
    """Wherever the value lies: also at the end of the buffer, where each is looked at by itself."""
    generator = np.random.default_rng(seed)
    columns = [column(name, Kind.TEXT, charset="utf8mb4") for name in ("a", "b", "c")]
    rows = [
        {
            name: None if generator.random() < 0.3 else letters(int(generator.integers(30)), i)
            for name in "abc"
        }
        for i in range(count)
    ]
    places = {0: (count - 1, "c"), 1: (count - 1, "a"), 2: (max(count - 3, 0), "b")}
    row, name = places.get(seed, (int(generator.integers(count)), "abc"[int(generator.integers(3))]))
    rows[row][name] = letters(int(generator.integers(20))) + b"\xff"
    batch = make_batch(columns, rows)
    with pytest.raises(DecodeError, match=f"record {row}: invalid"):
        batch.to_arrow(text="view")
    replaced = batch.to_arrow(text="view", text_errors="replace", change_columns=False)
    replaced.validate(full=True)
    assert replaced.to_pylist() == [
        {name: None if v is None else v.decode(errors="replace") for name, v in row.items()} for row in rows
    ]


def test_what_does_not_lie_in_the_log_as_it_is() -> None:
    """Transcoded and printed text, and BINARY(n), whose zero bytes at the end the log leaves out."""
    columns = [
        column("latin", Kind.TEXT, charset="latin1"),
        column("wide", Kind.TEXT, charset="utf16le"),
        column("gbk", Kind.TEXT, charset="gbk"),
        column("padded", Kind.BINARY, charset="binary", pad_to=16),
        column("total", Kind.DECIMAL, precision=50, scale=2),
    ]
    latin, wide = "é" * 9, "Ã€\U0001f40b" * 3
    row = {
        "latin": latin.encode("latin1"),
        "wide": wide.encode("utf-16-le"),
        "gbk": "中文".encode("gbk") * 5,
        "padded": b"abc",
        "total": tuple((10**41 + 7) >> 64 * i & 2**64 - 1 for i in range(4)),
    }
    batch = make_batch(columns, [row, dict.fromkeys(row), {**row, "latin": b"", "padded": b"x" * 16}])
    found = batch.to_arrow(text="view", wide_decimals="text", change_columns=False)
    found.validate(full=True)
    text, data = pa.string_view(), pa.binary_view()
    assert found.schema.types == [text, text, text, data, text]
    first = [latin, wide, "中文" * 5, b"abc" + bytes(13), "1" + "0" * 39 + ".07"]
    assert [found[name].to_pylist() for name in found.column_names] == [
        [first[0], None, ""],
        [first[1], None, first[1]],
        [first[2], None, first[2]],
        [first[3], None, b"x" * 16],
        [first[4], None, first[4]],
    ]


def test_columns_about_the_changes() -> None:
    rows = [{"t": b"x"}, {"t": b"y"}, {"t": b"z" * 30}]
    batch = make_batch(TEXT, rows)
    batch.array["image"]["op"] = [2, 3, 4]
    extra = ChangeColumn("origin", np.array([1, 0, 1]), labels=("a", "a rather long label"))
    found = batch.to_arrow(text="view", extras=(extra,), change_columns=["_change_type", "_row", "_gtid"])
    found.validate(full=True)
    assert found["_change_type"].to_pylist() == ["update_preimage", "update_postimage", "delete"]
    assert found["origin"].to_pylist() == ["a rather long label", "a", "a rather long label"]
    views = {field.name for field in found.schema if field.type == pa.string_view()}
    assert views == {"t", "_change_type", "_gtid", "origin"}


# --- Against strings --------------------------------------------------------------------------------

CHARSETS = {"utf8mb4": "utf-8", "latin1": "cp1252", "utf16le": "utf-16-le", "gbk": "gbk"}
VIEW_OF = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
NOT_TEXT = [b"\xff", b"\x80", b"\xc3", b"\xed\xa0\x80"]


def any_column(chance: random.Random, i: int) -> Column:
    kind = chance.choice([Kind.TEXT] * 5 + [Kind.BINARY] * 2 + [Kind.INT, Kind.DATE, Kind.JSON])
    if kind is Kind.INT:
        return column(f"c{i}", kind, bytes_=4, signed=True)
    if kind is Kind.TEXT:
        return column(f"c{i}", kind, charset=chance.choice(["utf8mb4"] * 3 + [*CHARSETS]))
    return column(f"c{i}", kind, pad_to=chance.choice([0, 0, 40]) if kind is Kind.BINARY else 0)


def any_value(chance: random.Random, one: Column, invalid: float) -> Any:
    length = chance.choice(LENGTHS)
    if one.kind is Kind.INT:
        return length
    if one.kind is Kind.DATE:  # the first becomes null in Arrow
        return np.iinfo(np.int64).min if length < 4 else length
    if one.kind is Kind.JSON:  # a string, and one that is longer than what is there
        return b"\x0c\x07" + (b"x" if chance.random() < invalid else b"printed")
    if one.kind is Kind.BINARY:
        return letters(min(length, one.pad_to or length), length)
    text = "".join(chance.choices("é€中" if chance.random() < 0.3 else "abc", k=length // 3 + length % 3))
    value = text.encode(CHARSETS[one.charset or ""], "replace")
    at = chance.randrange(len(value) + 1)
    return value[:at] + chance.choice(NOT_TEXT) + value[at:] if chance.random() < invalid else value


@pytest.mark.parametrize("seed", range(60))
def test_views_are_what_strings_are(seed: int) -> None:
    """Whatever the columns, NULLs, damage and options are: the same values, nulls and errors."""
    chance = random.Random(seed)
    columns = [any_column(chance, i) for i in range(chance.randrange(1, 10))]
    null, absent = chance.choice([0, 0.01, 0.3, 1]), chance.choice([0, 0, 0.3])
    invalid = chance.choice([0, 0.002, 0.05])

    def any_row() -> dict[str, Any]:
        return {
            one.name: None
            if chance.random() < null
            else ABSENT
            if chance.random() < absent
            else any_value(chance, one, invalid)
            for one in columns
        }

    count = chance.choice([1, 8, 100, 511, 513])
    batch = make_batch(columns, [any_row() for _ in range(count)], ops=chance.choices([2, 3], k=count))
    options: dict[str, Any] = {
        "text_errors": chance.choice(["raise", "replace", "binary"]),
        "fill_absent": chance.random() < 0.5,
        "rows": chance.choices(range(count), k=chance.randrange(2 * count))
        if chance.random() < 0.5
        else None,
        "change_columns": chance.choice([True, False, ("_gtid", "_change_type")]),
    }
    names = frozenset(chance.sample([*(one.name for one in columns), "_change_type"], len(columns)))
    try:
        strings = batch.to_arrow(**options)
    except DecodeError as error:
        with pytest.raises(DecodeError, match=f"^{re.escape(str(error))}$"):
            batch.to_arrow(text="view", **options)
        return
    for text in ("view", names):
        views = batch.to_arrow(text=text, **options)
        views.validate(full=True)
        assert views.to_pylist() == strings.to_pylist()
        for found, expected in zip(views.columns, strings.columns, strict=True):
            assert found.null_count == expected.null_count
        for field in strings.schema:
            kind = getattr(field.type, "storage_type", field.type)
            found = views.schema.field(field.name).type
            is_view = text == "view" or field.name in names
            assert getattr(found, "storage_type", found) == (VIEW_OF.get(kind, kind) if is_view else kind)


# --- Out of the loop --------------------------------------------------------------------------------


def read(path: Any, **options: Any) -> tuple[list[pa.RecordBatch], list[ChangeBatch]]:
    with binlog_core.open(path, limits=Limits(group_rows=100), **options) as log:
        batches = list(log.batches())
        return [batch.to_arrow(text="view") for batch in batches], batches


def in_turn(path: Any, **options: Any) -> tuple[list[pa.RecordBatch], int]:
    """The columns of one batch after the other, and how many of them came straight from the loop."""
    out, at_once = [], 0
    with binlog_core.open(path, limits=Limits(group_rows=100), **options) as log:
        for batch in log.batches():
            out.append(batch.to_arrow(text="view"))
            out[-1].validate(full=True)
            at_once += batch.run_list is not None
    return out, at_once


@pytest.mark.parametrize("count", [1, 127, 128, 129, 1000])
@pytest.mark.parametrize("to_event", [1, 7, 40, 300])
def test_straight_from_the_loop(tmp_path: Path, count: int, to_event: int) -> None:
    path = saved(tmp_path, written(count, to_event))
    for found, at_once in (in_turn(path), (read(path)[0], 0), in_turn(path, threads=2)):
        rows = pa.Table.from_batches(found)
        assert rows.select(["id", "note", "data", "code"]).to_pylist() == [note(i) for i in range(count)]
        assert set(rows["_change_type"].to_pylist()) == {"insert"}
        assert rows.schema.field("note").type == pa.string_view()
        assert count < 1000 or to_event > 100 or not at_once or at_once > 5


def test_both_images_of_an_update() -> None:
    log = Log("8.0.36", checksum=False)
    log.start()
    for _ in range(6):
        log.begin()
        log.update(NOTES, [(note(i), note(i + 1)) for i in range(60)])
        log.commit()
    log.rotate()
    found, at_once = in_turn(log.getvalue())
    assert at_once > 1
    rows = pa.Table.from_batches(found)
    assert rows["note"].to_pylist() == [note(i + k)["note"] for i in range(60) for k in (0, 1)] * 6
    assert rows["_change_type"].to_pylist() == ["update_preimage", "update_postimage"] * 360


def test_text_that_is_not_valid_in_the_middle_of_a_log(tmp_path: Path) -> None:
    """The loop has begun with views, and the batch goes back to records."""
    data = written(500, changed={390: {"note": "#" * 64}}).replace(b"#" * 64, b"\xff" + b"#" * 63)
    with binlog_core.open(saved(tmp_path, data), limits=Limits(group_rows=100)) as log:
        found = [batch.to_arrow(text="view", text_errors="replace") for batch in log.batches()]
    expected = [note(i)["note"] if i != 390 else "\ufffd" + "#" * 63 for i in range(500)]
    assert pa.Table.from_batches(found)["note"].to_pylist() == expected
    with (
        binlog_core.open(tmp_path / "binlog.000001", limits=Limits(group_rows=100)) as log,
        pytest.raises(DecodeError, match="invalid utf8mb4 text") as raised,
    ):
        for batch in log.batches():
            batch.to_arrow(text="view")
    assert raised.value.column == "note"


@pytest.mark.parametrize("golden", golden_logs("*/*compress*"), ids=str)
def test_compressed_logs(golden: Golden) -> None:
    """Values that no buffer of the log holds lie in the batch's own memory."""
    with binlog_core.open(golden.path, **golden.open_arguments) as log:
        for batch in log.batches():
            views = batch.to_arrow(text="view")
            views.validate(full=True)
            assert views.to_pylist() == batch.to_arrow().to_pylist()


# --- Where views point ------------------------------------------------------------------------------


def test_nothing_is_copied(tmp_path: Path) -> None:
    found, batches = read(saved(tmp_path, written(1000)))
    for arrow, batch in zip(found, batches, strict=True):
        assert lies_in(arrow["note"], batch.buffer)
        assert lies_in(arrow["data"], batch.buffer)
        # Not the whole file: what is written as Arrow IPC is all that is referred to.
        assert sum(size for _, size in address(arrow["note"])) < len(batch.buffer) / 4


@pytest.mark.parametrize("bits", [4, 6, 9])
def test_more_than_one_buffer(tmp_path: Path, bits: int) -> None:
    """As beyond 1 GiB: values may begin in one part and end in the next."""
    before = _columns.view_parts(bits)
    try:
        path = saved(tmp_path, written(400))
        found, at_once = in_turn(path)
        assert at_once
        for rows in (found, read(path)[0]):
            for one in rows:
                one.validate(full=True)
            assert pa.Table.from_batches(rows)["note"].to_pylist() == [note(i)["note"] for i in range(400)]
        assert len(address(found[-1]["note"])) > 5
        values = [{"t": letters(length)} for length in (*LENGTHS, 700, 5)]
        views = make_batch(TEXT, values).to_arrow(text="view")["t"]
        views.validate(full=True)
        assert views.to_pylist() == [value["t"].decode() for value in values]
    finally:
        _columns.view_parts(before)


def test_few_values_of_a_large_buffer_are_copied() -> None:
    """Views of them would keep the buffer, and Arrow IPC would write it."""
    batch = make_batch(TEXT, [{"t": letters(40)}, {"t": letters(50)}])
    buffer = bytearray(b"-" * 100_000)
    buffer[10:50], buffer[90_000:90_050] = letters(40), letters(50)
    batch.array["row"]["t"] = [(10, 40), (90_000, 50)]
    batch.buffer = buffer
    found = batch.to_arrow(text="view")["t"]
    assert sum(size for _, size in address(found)) == 90
    buffer.clear()  # nothing holds it
    assert found.to_pylist() == [letters(40).decode(), letters(50).decode()]


def test_values_at_the_end_of_a_large_buffer() -> None:
    batch = make_batch(TEXT, [{"t": letters(40)}, {"t": b"short"}, {"t": letters(50)}])
    buffer = bytearray(b"-" * 100_000 + letters(50) + letters(40))
    batch.array["row"]["t"] = [(100_050, 40), (5, 0), (100_000, 50)]
    batch.buffer = buffer
    found = batch.to_arrow(text="view")["t"]
    found.validate(full=True)
    assert found.to_pylist() == [letters(40).decode(), "", letters(50).decode()]
    assert [size for _, size in address(found)] == [90]
    assert lies_in(found, buffer)


def test_a_table_that_a_group_hardly_has(tmp_path: Path) -> None:
    """With mmap=False its group's block is not kept for it."""
    log = Log("8.0.36", checksum=False)
    log.start()
    other = Table("shop", "other", [("id", "INT"), ("blob", "BLOB")])
    for i in range(40):
        log.begin()
        log.insert(other, [{"id": i, "blob": bytes(20_000)}])
        log.insert(NOTES, [note(11 * i + 1)])
        log.commit()
    log.rotate()
    path = saved(tmp_path, log.getvalue())
    with binlog_core.open(path, mmap=False, limits=Limits(group_rows=8)) as opened:
        found = [batch.to_arrow(text="view") for batch in opened.batches("shop.notes")]
    assert all(size < 4096 for one in found for _, size in address(one["note"]))
    expected = [note(11 * i + 1)["note"] for i in range(40)]
    assert pa.Table.from_batches(found)["note"].to_pylist() == expected


# --- Lifetimes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mmap", [True, False])
def test_views_outlive_batch_and_log(tmp_path: Path, mmap: bool) -> None:
    path = saved(tmp_path, written(1000))
    with binlog_core.open(path, mmap=mmap, limits=Limits(group_rows=100)) as log:
        kept = [batch.to_arrow(text="view").slice(3, 50) for batch in log.batches()]
        for _ in log.batches():
            pass  # reuses the blocks that are free
    path.unlink()
    gc.collect()
    assert sum(map(len, kept)) > 300
    for rows in kept:
        rows.validate(full=True)
        assert rows["note"].to_pylist() == [note(i)["note"] for i in rows["id"].to_pylist()]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc to look at mappings in")
def test_the_mapping_goes_with_the_last_view(tmp_path: Path) -> None:
    path = saved(tmp_path, written(1000))
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        kept = [batch.to_arrow(text="view")["note"][-30:] for batch in log.batches()][-1]
    gc.collect()
    assert str(path) in Path("/proc/self/maps").read_text()
    assert kept.to_pylist()
    del kept
    gc.collect()
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_the_last_view_may_go_in_another_thread() -> None:
    held = [[batch.to_arrow(text="view") for batch in read(written(500))[1]] for _ in range(4)]
    threads = [threading.Thread(target=held.pop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not held


# --- Consumers --------------------------------------------------------------------------------------


def viewed(schema: pa.Schema, *names: str) -> pa.Schema:
    kinds = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
    return pa.schema(
        [
            field.with_type(kinds.get(field.type, field.type)) if not names or field.name in names else field
            for field in schema
        ]
    )


@pytest.mark.parametrize("names", [(), ("note",), ("data", "_change_type")])
def test_a_consumer_that_asks_for_views(names: tuple[str, ...]) -> None:
    with binlog_core.open(written(300), limits=Limits(group_rows=100)) as log:
        plain = log.batches("shop.notes").to_arrow()
        wanted = viewed(plain.schema, *names)
        stream = log.batches("shop.notes")
        assert pa.table(stream, schema=wanted).schema == wanted
        assert pa.table(stream, schema=wanted).cast(plain.schema).equals(plain)
        for batch in log.batches():
            found = pa.record_batch(batch, schema=wanted)
            assert found.schema == wanted
            schema, array = batch.__arrow_c_array__(wanted.__arrow_c_schema__())
            assert pa.Schema._import_from_c_capsule(schema) == wanted
            assert array is not None


def test_a_consumer_that_asks_for_strings_gets_them() -> None:
    with binlog_core.open(written(100)) as log:
        plain = log.batches("shop.notes").to_arrow()
        stream = log.batches("shop.notes").stream(text="view")
        assert pa.table(stream).schema == viewed(plain.schema)
        assert pa.RecordBatchReader.from_stream(stream, schema=plain.schema).schema == plain.schema
        assert pa.table(stream, schema=plain.schema).equals(plain)


def test_a_request_that_cannot_be_followed_is_not() -> None:
    batch = make_batch([*TEXT, column("n", Kind.INT, bytes_=4, signed=True)], [{"t": b"x" * 20, "n": 1}])
    asked = pa.schema([("t", pa.binary_view()), ("n", pa.string_view()), ("z", pa.int8())])
    schema, _ = batch.__arrow_c_array__(asked.__arrow_c_schema__())
    assert pa.Schema._import_from_c_capsule(schema).field("t").type == pa.string()


def test_other_libraries_take_views() -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    with binlog_core.open(written(300), limits=Limits(group_rows=100)) as log:
        frame = log.batches("shop.notes").to_polars(text="view")
        notes = log.batches("shop.notes").to_arrow(text="view")
    expected = [note(i)["note"] for i in range(300)]
    assert frame["note"].to_list() == expected
    assert frame.schema["note"] == polars.String
    found = duckdb.from_arrow(notes).filter("length(note) > 100").order("id").project("note").fetchall()
    assert [value for (value,) in found] == [value for value in expected if value and len(value) > 100]


def test_conditions() -> None:
    with binlog_core.open(written(300)) as log:
        found = [batch.to_arrow(text="view") for batch in log.batches(where="id >= 290")]
    assert pa.Table.from_batches(found)["note"].to_pylist() == [note(i)["note"] for i in range(290, 300)]


def test_a_column_that_the_records_lack_is_null() -> None:
    batch = make_batch(TEXT, [{"t": b"x"}, {"t": b"y"}])
    more = [*batch.columns, column("u", Kind.TEXT, charset="utf8mb4", index=1)]
    found = pa.record_batch(ArrowBatch(batch, columns=more, text="view"))
    found.validate(full=True)
    assert found["u"].to_pylist() == [None, None]
    assert found.schema.field("u").type == pa.string_view()


def test_an_unknown_way_is_refused() -> None:
    batch = make_batch(TEXT, [{"t": b"x"}])
    with pytest.raises(ValueError, match="text='copy': expected string, view"):
        batch.to_arrow(text="copy")
    assert batch.to_arrow(text=frozenset({"t"})).schema.field("t").type == pa.string_view()
