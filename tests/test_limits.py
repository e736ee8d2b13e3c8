"""Memory that small hostile inputs may take, measured in a separate process."""

from __future__ import annotations

import functools
import io
import struct
import subprocess
import sys
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from support.hostile import SANITIZED
from support.writer import Log, Table
from support.writer import numbering as n
from support.writer.table import JsonDiffs
from support.writer.wire import lenenc

import binlog_core
from binlog_core import DecodeError, Limits
from binlog_core._core import _rows
from binlog_core.batch.change_batch import INVALID_DATE_DTYPE, JSON_DIFF_DTYPE, ChangeBatch

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

MEGABYTE = 1 << 20
ROW = {"id": 1}
TABLE = Table("shop", "orders", [("id", "INT UNSIGNED")])

# Reads the log named on the command line; prints the outcome and the peak of memory above the start.
PROBE = """
import resource, sys, warnings
import binlog_core
warnings.simplefilter("ignore")
path, way, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
limits = binlog_core.Limits(**options.pop("limits", {}))
with binlog_core.open(sys.argv[4], limits=limits) as log:    # everything imported and warm
    list(log.rows())
    if way == "arrow":                                       # pyarrow takes tens of megabytes
        [batch.to_arrow() for batch in log.batches()]
def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM"))
before = peak()
said = "done"
try:
    with binlog_core.open(path, limits=limits, **options) as log:
        for item in getattr(log, "batches" if way == "arrow" else way)():
            if way == "arrow":
                item.to_arrow()
except binlog_core.BinlogError as error:
    said = f"{type(error).__name__}: {error}"
except MemoryError:
    said = "MemoryError"
print(peak() - before)
print(said)
"""


def cost(
    folder: Path,
    data: bytes,
    way: str = "groups",
    *,
    limits: dict[str, int] | None = None,
    **options: object,
) -> tuple[float, str]:
    """Megabytes and outcome of reading ``data``."""
    if sys.platform != "linux":
        pytest.skip("peak memory is read from /proc")
    if SANITIZED:
        pytest.skip("a sanitizer takes memory of its own")
    (folder / "log").write_bytes(data)
    small = Log()
    small.begin()
    small.insert(TABLE, [ROW])
    small.commit()
    (folder / "warm").write_bytes(small.getvalue())
    if limits is not None:
        options["limits"] = limits
    command = [sys.executable, "-c", PROBE, str(folder / "log"), way, repr(options), str(folder / "warm")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    kilobytes, said = run.stdout.splitlines()[:2]
    return int(kilobytes) / 1024, said


def with_claim(claimed: int, body: bytes) -> bytes:
    """A log whose last header claims a length, with some bytes of that event."""
    log = Log(checksum=False)
    log.begin()
    log.insert(TABLE, [ROW])
    log.commit()
    return log.getvalue() + struct.pack("<IBIIIH", 0, 30, 1, claimed, 0, 0) + body


# ---------------------------------------------------------------- events


def test_a_header_that_claims_four_gigabytes_does_not_make_a_stream_wait_for_them() -> None:
    class Endless(io.RawIOBase):
        """Zero bytes without end after the log; counts what was taken."""

        taken = 0

        def __init__(self, head: bytes) -> None:
            self.head = io.BytesIO(head)

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            data = self.head.read(size) or bytes(size)
            self.taken += len(data)
            assert self.taken < 16 * MEGABYTE
            return data

    data = with_claim(0xFFFFFFFF, b"")
    for way in ("rows", "events", "headers"):
        with binlog_core.open(Endless(data)) as log:
            with pytest.raises(DecodeError, match=r"Limits\.event_bytes") as caught:
                list(getattr(log, way)())
            assert caught.value.offset == len(data) - 19


@pytest.mark.parametrize("way", ["groups", "events"])
def test_a_claim_beyond_the_end_of_a_file_is_a_cut_tail(way: str, tmp_path: Path) -> None:
    data = with_claim(0xFFFFFFFF, bytes(40 * MEGABYTE))
    for mmap in (True, False):
        memory, said = cost(tmp_path, data, way, mmap=mmap)
        assert said == "done"
        assert memory < 60  # of a mapping, its pages count


def test_the_largest_event_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(with_claim(5000, bytes(5000 - 19)))
    limits = Limits(event_bytes=4999)
    with (
        binlog_core.open(path, mmap=False, limits=limits) as log,
        pytest.raises(DecodeError, match="5000 bytes"),
    ):
        list(log.rows())
    with binlog_core.open(path, limits=limits) as log:  # mapped: nothing is copied
        assert len(list(log.rows())) == 1
        assert log.report.rows_without_table_map == 1


# ---------------------------------------------------------------- records


def wide_and_absent(columns: int, rows: int) -> bytes:
    """Rows of one byte: one column of many is present, and NULL."""
    log = Log(checksum=False)
    log.begin()
    kinds = b"\xf6" * columns  # DECIMAL(65,30)
    body = log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\4shop\0\4wide\0" + lenenc(columns) + kinds
    log.event(
        n.TABLE_MAP, body + lenenc(2 * columns) + b"\x41\x1e" * columns + b"\xff" * ((columns + 7) // 8)
    )
    present = b"\1" + bytes((columns + 7) // 8 - 1)
    log.event(30, log._post_header(30, 10, 7, 1) + lenenc(columns) + present + b"\xff" * rows)
    log.commit()
    return log.getvalue()


def test_rows_of_one_byte_do_not_make_gigabytes(tmp_path: Path) -> None:
    data = wide_and_absent(4096, 60_000)  # a log of 80 KB; its records would take 8 GB
    limits = {"record_bytes": 64 * MEGABYTE}
    memory, said = cost(tmp_path, data, limits=limits)
    assert said.startswith("DecodeError") and "Limits.record_bytes" in said
    assert memory < 300
    memory, said = cost(tmp_path, data, limits=limits, on_error="skip")
    assert said == "done"
    assert memory < 300


def test_rows_within_the_limit_are_all_there() -> None:
    data = wide_and_absent(64, 1000)
    with binlog_core.open(data, limits=Limits(record_bytes=10 * MEGABYTE)) as log:
        assert sum(len(batch) for batch in log.batches()) == 1000


ZERO_DATES = Table("shop", "zeros", [("id", "INT", {"null": False}), *((f"d{i}", "DATE") for i in range(6))])


@functools.cache
def zero_dates(*counts: int, kind: str) -> bytes:
    """Events of so many rows with six zero dates; or with one and NULLs: such rows are decoded singly."""
    log = Log("8.0.36", checksum=False)
    dates = {f"d{i}": None if kind == "with NULLs" and i else "0000-00-00" for i in range(6)}
    for count in counts:
        rows = [{"id": i, **dates} for i in range(count)]
        log.begin()
        if kind == "updates":
            log.update(ZERO_DATES, [(row, row) for row in rows])
        else:
            log.insert(ZERO_DATES, rows)
        log.commit()
    log.rotate()
    return log.getvalue()


def sizes_of(batches: list[ChangeBatch]) -> list[int]:
    """Bytes of each batch's records, and of the entries beside them."""
    return [batch.array.nbytes + batch.invalid.nbytes for batch in batches]


@pytest.mark.parametrize("kind", ["alike", "with NULLs", "updates"])
@pytest.mark.parametrize("options", [{}, {"where": "id >= 0"}, {"where": "d0 is not null"}], ids=str)
@pytest.mark.parametrize("columns_from", [1, 1 << 30], ids=["columns", "records"])
def test_invalid_dates_count_as_their_events_records(
    kind: str, options: dict[str, Any], columns_from: int, tmp_path: Path
) -> None:
    """A zero date is three bytes in the log, eight in its record, and an entry of `invalid_dates`."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(zero_dates(10, 2000, kind=kind))

    def read(most: int) -> list[ChangeBatch]:
        batches = []
        with binlog_core.open(path, limits=Limits(group_rows=10, record_bytes=most)) as log:
            for batch in log.batches(**options):
                batch.to_arrow()
                batches.append(batch)
        return batches

    before = _rows.columns_from(columns_from)
    try:
        whole = sizes_of(read(1 << 30))[-1]
        entries = 2000 * (1 if kind == "with NULLs" else 12 if kind == "updates" else 6)
        assert whole > entries * INVALID_DATE_DTYPE.itemsize
        assert sizes_of(read(whole))[-1] == whole
        for less in (entries * INVALID_DATE_DTYPE.itemsize // 2, whole // 2):
            with pytest.raises(DecodeError, match=r"Limits\.record_bytes"):
                read(whole - less)
    finally:
        _rows.columns_from(before)


def test_invalid_dates_close_their_group_by_memory() -> None:
    data = zero_dates(*[10] * 400, kind="alike")
    with binlog_core.open(data, limits=Limits(group_memory=20_000)) as log:
        sizes = sizes_of([batch for group in log.groups() for batch in group.batches])
    event = sum(sizes) // 400
    assert all(20_000 <= size < 20_000 + event for size in sizes[:-1])


def test_json_diffs_count_as_their_events_records() -> None:
    """A value logged as a list of changes is an entry beside its record, too."""
    names = [f"j{i}" for i in range(30)]
    table = Table("shop", "docs", [(name, "JSON") for name in names])
    before = {name: {"a": 1} for name in names}
    after = {name: JsonDiffs([("replace", "$.a", 2)]) for name in names}
    log = Log("8.0.36", checksum=False)
    log.begin()
    log.update(table, [(before, after)] * 500, partial=True)
    log.commit()

    def read(most: int) -> int:
        with binlog_core.open(log.getvalue(), limits=Limits(record_bytes=most)) as opened:
            (batch,) = opened.batches()
        assert len(batch.json_diffs) == 500 * 30
        return int(batch.array.nbytes + batch.json_diffs.nbytes)

    whole = read(1 << 30)
    assert read(whole) == whole
    with pytest.raises(DecodeError, match=r"Limits\.record_bytes"):
        read(whole - 500 * 30 * JSON_DIFF_DTYPE.itemsize // 2)


def test_an_event_of_invalid_dates_takes_no_more_than_asked(tmp_path: Path) -> None:
    """One and a half million zero dates, a log of five megabytes, which takes seconds to make."""
    data = zero_dates(10, 250_000, kind="alike")
    for way in ("groups", "arrow"):
        memory, said = cost(tmp_path, data, way, limits={"record_bytes": 16 * MEGABYTE})
        assert said.startswith("DecodeError") and "Limits.record_bytes" in said, way
        assert memory < 56, way  # each of the lists may be held twice while it grows


def test_wide_rows_close_their_group_by_memory() -> None:
    """A group holds the records that fit its memory, and the rest of the event that filled it."""
    log = Log(checksum=False)
    data = wide_and_absent(1024, 10)
    log.raw(data[len(log.getvalue()) :] * 20)
    with binlog_core.open(log.getvalue(), limits=Limits(group_memory=MEGABYTE)) as opened:
        sizes = [sum(batch.array.nbytes for batch in group.batches) for group in opened.groups()]
    assert len(sizes) > 1
    record = 25 + 2 * 128 + 1024 * 32
    assert max(sizes) <= MEGABYTE + 10 * record
    assert sum(sizes) == 200 * record


@pytest.mark.parametrize(("tables", "sizes"), [(1, [11, 11, 11, 11, 11, 5]), (3, [32, 28])])
def test_few_tables_make_smaller_groups(tables: int, sizes: list[int]) -> None:
    """A group has a megabyte of rows events for each of its batches, up to group_bytes."""
    some = [Table("shop", f"t{i}", [("id", "INT"), ("note", "MEDIUMTEXT")]) for i in range(tables)]
    log = Log(checksum=False)
    log.begin()
    for number in range(60):
        log.insert(some[number % tables], [{"id": number, "note": "x" * 100_000}])
    log.commit()
    for group_bytes, expected in ((64 * MEGABYTE, sizes), (MEGABYTE // 2, [6] * 10)):
        with binlog_core.open(log.getvalue(), limits=Limits(group_bytes=group_bytes)) as opened:
            assert [sum(map(len, group.batches)) for group in opened.groups() if group.batches] == expected


def test_empty_rows_events_keep_no_transactions(tmp_path: Path) -> None:
    log = Log(checksum=False)
    log.begin()
    log.table_map(TABLE)
    log.rows_event(0, TABLE, b"", [True])
    log.commit()
    one = log.getvalue()[len(Log(checksum=False).getvalue()) :]
    data = Log(checksum=False).getvalue() + one * (24 * MEGABYTE // len(one))
    memory, said = cost(tmp_path, data, mmap=False, limits={"group_bytes": 65536})
    assert said == "done"
    assert memory < 12


# ---------------------------------------------------------------- definitions


def definitions(count: int, columns: int, *, one_transaction: bool, rows: bool) -> bytes:
    log = Log(checksum=False)
    kinds = lenenc(columns) + b"\3" * columns + lenenc(0) + bytes((columns + 7) // 8)
    if one_transaction:
        log.begin()
    for number in range(count):
        if not one_transaction:
            log.begin()
        name = f"t{number}".encode()
        body = log._post_header(n.TABLE_MAP, 8, 7 + number, 1) + b"\4shop\0"
        log.event(n.TABLE_MAP, body + lenenc(len(name)) + name + b"\0" + kinds)
        if rows:
            present = b"\xff" * ((columns + 7) // 8)
            nulls = b"\xff" * ((columns + 7) // 8)
            log.event(30, log._post_header(30, 10, 7 + number, 1) + lenenc(columns) + present + nulls)
        if not one_transaction:
            log.commit()
    log.commit()
    return log.getvalue()


@pytest.mark.parametrize("rows", [False, True])
def test_definitions_of_ended_transactions_are_dropped(rows: bool, tmp_path: Path) -> None:
    """Wide tables, each in its own transaction: as many as a log may have."""
    limits = {"table_definitions": 64, "group_bytes": 65536}
    few, said = cost(tmp_path, definitions(20, 500, one_transaction=False, rows=rows), limits=limits)
    assert said == "done"
    many, said = cost(tmp_path, definitions(200, 500, one_transaction=False, rows=rows), limits=limits)
    assert said == "done"
    assert many < few + 8


def test_a_flood_of_wide_definitions_in_one_transaction_is_refused(tmp_path: Path) -> None:
    """A definition weighs as much as its columns: the limit is one of memory, not only of their number."""
    data = definitions(2000, 2000, one_transaction=True, rows=False)
    memory, said = cost(tmp_path, data, limits={"table_definitions": 64})
    assert said.startswith("DecodeError") and "table_definitions=64" in said
    assert memory < 120


def test_table_ids_without_end_are_forgotten(tmp_path: Path) -> None:
    """The same definition under ever new ids, as of a server that reopens its tables all the time."""
    log = Log(checksum=False)
    head = log.getvalue()
    out = bytearray(head)
    for number in range(1 << 21):
        if number % 1000 == 0:
            body = struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0BEGIN"
            out += struct.pack("<IBIIIH", 0, 2, 1, 19 + len(body), 0, 0) + body
        body = number.to_bytes(6, "little") + b"\1\0" + b"\1s\0\1t\0" + b"\1\3\0\0"
        out += struct.pack("<IBIIIH", 0, 19, 1, 19 + len(body), 0, 0) + body
    (tmp_path / "x").mkdir()
    memory, said = cost(tmp_path / "x", bytes(out), mmap=False)
    assert said == "done"
    assert memory < 80


def test_columns_beyond_the_servers_own_limit_are_refused() -> None:
    log = Log(checksum=False)
    body = log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\4shop\0\4wide\0" + lenenc(4097) + b"\3" * 4097
    log.event(n.TABLE_MAP, body + lenenc(0) + bytes(513))
    with binlog_core.open(log.getvalue()) as opened, pytest.raises(DecodeError, match="4097"):
        list(opened.rows())


# ---------------------------------------------------------------- what is packed


def test_a_bomb_in_a_block_is_refused(tmp_path: Path) -> None:
    """MariaDB's compressed rows event, whose zeros are a thousand times what is in the log."""
    area = zlib.compress(bytes(200 * MEGABYTE), 9)
    log = Log("10.6.5-MariaDB", checksum=False)
    log.begin()
    log.table_map(TABLE)
    body = log._post_header(166, 8, 100, 1) + b"\1\1"
    log.event(166, body + b"\x84" + struct.pack(">I", 200 * MEGABYTE) + area)
    memory, said = cost(tmp_path, log.getvalue(), limits={"decompressed_bytes": MEGABYTE})
    assert said.startswith("DecompressionError")
    assert memory < 40


@pytest.mark.parametrize("size", [3 * MEGABYTE, 40 * MEGABYTE])
def test_an_event_larger_than_what_is_unpacked_at_a_time(size: int) -> None:
    """It is merged, and what lies before and after it in the compressed transaction is there."""
    pytest.importorskip("zstandard")
    table = Table("shop", "orders", [("id", "INT UNSIGNED"), ("note", "LONGBLOB")])
    log = Log()
    log.gtid("00112233-4455-6677-8899-aabbccddeeff", 1)
    with log.compressed_transaction() as inner:
        inner.begin()
        for number, length in enumerate((1, size, 2)):
            inner.insert(table, [{"id": number, "note": bytes([number]) * length}])
        inner.commit()
    data = log.getvalue()
    with binlog_core.open(data) as opened:
        notes = [change.after["note"] for change in opened.rows()]
    assert [len(note) for note in notes] == [1, size, 2]
    assert notes[1] == bytes([1]) * size
    with binlog_core.open(data) as opened:
        lengths = [event.event_length for event in opened.events() if event.type_code == 30]
    assert [length > size for length in lengths] == [False, True, False]
    for way in ("rows", "events") if size > 17 * MEGABYTE else ():  # a step's whole result is in memory
        with (
            binlog_core.open(data, limits=Limits(event_bytes=2 * MEGABYTE)) as opened,
            pytest.raises(DecodeError, match=r"Limits\.event_bytes"),
        ):
            list(getattr(opened, way)())


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_limits_are_looked_at_when_they_are_given(name: str) -> None:
    for value in (0, -1, 10**30):
        with pytest.raises(ValueError, match=f"{name}={value}"):
            Limits(**{name: value})
    for value in (1.5, "1", None, True):
        with pytest.raises(TypeError, match=f"{name}="):
            Limits(**{name: value})
