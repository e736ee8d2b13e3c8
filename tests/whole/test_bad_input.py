"""Broken input: each kind its own error with path and offset, and with on_error="skip" the event after it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.writer import Log, Table
from support.writer.wire import lenenc, lenenc_text

import binlog_core
from binlog_core.errors import (
    DecodeError,
    DecompressionError,
    EncryptionError,
    FormatError,
    GtidError,
)
from binlog_core.events import OpaqueEvent, XidEvent

pytestmark = pytest.mark.sanitize

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(20)")])
WAYS: list[Any] = [
    pytest.param(lambda log: list(log.rows()), id="rows"),
    pytest.param(lambda log: list(log.batches()), id="batches"),
    pytest.param(lambda log: list(log.events()), id="events"),
]
Reader = Callable[[binlog_core.Log], object]


def insert(log: Log, number: int) -> None:
    """One transaction that inserts one row."""
    log.begin()
    log.insert(TABLE, [{"id": number, "note": "x" * 20}])
    log.commit(number)


def written(tmp_path: Path, log: Log) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.getvalue())
    return path


def ids(path: Path) -> tuple[list[int], binlog_core.Report]:
    """The rows that on_error="skip" leaves, and the report."""
    with binlog_core.open(path, on_error="skip") as log, pytest.warns(binlog_core.BinlogWarning):
        return [change.after["id"] for change in log.rows() if change.after], log.report


def assert_passed_over(path: Path, offset: int) -> None:
    """Rows 1 and 3 come although the event at `offset`, between them, is broken."""
    found, report = ids(path)
    assert found == [1, 3]
    assert report.skipped_events == 1
    assert [(place.path, place.offset) for place in report.skipped] == [(str(path), offset)]
    with binlog_core.open(path, on_error="skip") as log, pytest.warns(binlog_core.BinlogWarning):
        assert [event.position for event in log.events()][-1] > offset


# --- Compressed transactions -------------------------------------------------------------------


def with_payload(tmp_path: Path, change: Callable[[bytes, int], tuple[bytes, int]]) -> tuple[Path, int]:
    """A log whose second transaction is compressed, with frame and claimed size as `change` makes them."""
    zstandard = pytest.importorskip("zstandard")
    log = Log("8.0.36")
    insert(log, 1)
    inner = Log("8.0.36", checksum=False, next_positions=False, _headless=True)
    insert(inner, 2)
    plain = inner.getvalue()
    frame, claimed = change(zstandard.ZstdCompressor().compress(plain), len(plain))
    fields = [(2, lenenc(0)), (3, lenenc(claimed)), (1, lenenc(len(frame)))]
    head = b"".join(lenenc(kind) + lenenc_text(value) for kind, value in fields) + b"\0"
    offset = log.event(40, head + frame)
    insert(log, 3)
    return written(tmp_path, log), offset


PAYLOADS = [
    pytest.param(lambda frame, size: (b"\0" + frame[1:], size), "broken", id="magic"),
    pytest.param(lambda frame, size: (frame[:-3], size), "cut", id="cut"),
    pytest.param(lambda frame, size: (frame, size + 1), r"claims \d+ bytes and has \d+", id="claims more"),
    pytest.param(lambda frame, size: (frame, size - 1), "has more", id="claims less"),
    pytest.param(lambda frame, size: (frame, 1 << 62), "claims|limit", id="claims more than memory"),
]


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize(("change", "says"), PAYLOADS)
def test_broken_payload(tmp_path: Path, change: Any, says: str, read: Reader) -> None:
    path, offset = with_payload(tmp_path, change)
    with binlog_core.open(path) as log, pytest.raises(DecompressionError, match=says) as caught:
        read(log)
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == (str(path), offset, 40)


@pytest.mark.parametrize(("change", "says"), PAYLOADS)
def test_broken_payload_is_passed_over(tmp_path: Path, change: Any, says: str) -> None:
    path, offset = with_payload(tmp_path, change)
    with binlog_core.open(path, on_error="skip") as log, pytest.warns(binlog_core.BinlogWarning, match=says):
        # The part inflated before the break is there, once: no good event is lost.
        found = [change.after["id"] for change in log.rows() if change.after]
        assert [number for number in found if number != 2] == [1, 3]
        assert [(place.path, place.offset) for place in log.report.skipped] == [(str(path), offset)]


# --- Descriptors -------------------------------------------------------------------------------


def with_second_descriptor(tmp_path: Path, break_body: Callable[[bytearray], None]) -> tuple[Path, int]:
    """A log with a broken descriptor between its two transactions; of 5.5, without checksums."""
    log = Log("5.5.62")
    insert(log, 1)
    body = bytearray(log.getvalue()[4 + 19 : 4 + struct.unpack_from("<I", log.getvalue(), 4 + 9)[0]])
    break_body(body)
    offset = log.event(15, bytes(body))
    insert(log, 3)
    return written(tmp_path, log), offset


def short_header(body: bytearray) -> None:
    body[56] = 18


def unknown_version(body: bytearray) -> None:
    body[0:2] = struct.pack("<H", 5)


DESCRIPTORS = [
    pytest.param(short_header, "header_length .* found 18", id="header_length"),
    pytest.param(unknown_version, "binlog_version .* found 5", id="binlog_version"),
]


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize(("break_body", "says"), DESCRIPTORS)
def test_broken_descriptor(tmp_path: Path, break_body: Any, says: str, read: Reader) -> None:
    path, offset = with_second_descriptor(tmp_path, break_body)
    with binlog_core.open(path) as log, pytest.raises(FormatError, match=says) as caught:
        read(log)
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == (str(path), offset, 15)


@pytest.mark.parametrize(("break_body", "says"), DESCRIPTORS)
def test_broken_descriptor_is_passed_over(tmp_path: Path, break_body: Any, says: str) -> None:
    path, offset = with_second_descriptor(tmp_path, break_body)
    assert_passed_over(path, offset)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize(("break_body", "says"), DESCRIPTORS)
def test_broken_first_descriptor(tmp_path: Path, break_body: Any, says: str, on_error: Any) -> None:
    """Without it the rest cannot be read: there is no next event."""
    data = bytearray(Log("5.5.62").getvalue())
    body = data[23:]
    break_body(body)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data[:23] + body)
    with pytest.raises(FormatError, match=says) as caught, binlog_core.open(path, on_error=on_error) as log:
        list(log.rows())
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == (str(path), 4, 15)


@pytest.mark.parametrize("read", WAYS)
def test_array_too_short_for_an_event(tmp_path: Path, read: Reader) -> None:
    """The array ends before QUERY: the layout of its body is not known."""
    whole = Log("5.5.62").post_headers
    log = Log("5.5.62", post_headers=whole[:1])
    offset = log.begin()
    path = written(tmp_path, log)
    with (
        binlog_core.open(path) as opened,
        pytest.raises(DecodeError, match="format description lists") as caught,
    ):
        read(opened)
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == (str(path), offset, 2)


def test_array_too_short_for_an_event_that_is_passed_over(tmp_path: Path) -> None:
    """Types up to DELETE_ROWS_V1 (25) are listed, TRANSACTION_CONTEXT (36) is not; rows do not need it."""
    log = Log("5.5.62")
    log.post_headers = log.post_headers[:25]
    log._out = log._out[:4]
    log.start()
    insert(log, 1)
    offset = log.event(36, bytes(20))
    insert(log, 3)
    path = written(tmp_path, log)
    with binlog_core.open(path) as opened, pytest.raises(DecodeError, match="25 event types") as caught:
        list(opened.events())
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == (str(path), offset, 36)
    with binlog_core.open(path) as opened:
        assert [change.after["id"] for change in opened.rows() if change.after] == [1, 3]
    with binlog_core.open(path, on_error="skip") as opened, pytest.warns(binlog_core.BinlogWarning):
        events = list(opened.events())
    [skipped] = [event for event in events if event.position == offset]
    assert isinstance(skipped, OpaqueEvent)
    assert events[-1].position > offset
    assert [(place.path, place.offset) for place in opened.report.skipped] == [(str(path), offset)]


def test_types_without_a_post_header_need_not_be_listed() -> None:
    """XID (16) lies beyond the list: rows and events read it alike."""
    log = Log("5.5.62")
    log.post_headers = log.post_headers[:15]
    log._out = log._out[:4]
    log.start()
    log.event(16, (77).to_bytes(8, "little"))
    with binlog_core.open(log.getvalue()) as opened:
        assert list(opened.rows()) == []
        last = list(opened.events())[-1]
    assert isinstance(last, XidEvent) and last.xid == 77


# --- GTIDs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["gtids", "exclude_gtids"])
@pytest.mark.parametrize(
    "text", ["no-gtid", "3e11fa47-71ca-11e1-9e33-c80aa9429562", "0-1-x", "0-1-2-3", ":1"]
)
def test_text_that_is_not_a_gtid(tmp_path: Path, option: str, text: str) -> None:
    log = Log("8.0.36")
    insert(log, 1)
    arguments: dict[str, Any] = {option: text}
    with pytest.raises(GtidError) as caught:
        binlog_core.open(written(tmp_path, log), **arguments)
    assert text in str(caught.value)


# --- Keys --------------------------------------------------------------------------------------

ENCRYPTED = golden_logs("*/encrypted")


def first_encrypted(log: Golden) -> int:
    """Where encryption begins: with the file, or (MariaDB) with the event after the descriptor."""
    return 0 if "mysql" in log.name else 4 + struct.unpack_from("<I", log.data, 4 + 9)[0]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize("log", ENCRYPTED, ids=str)
def test_missing_key(log: Golden, read: Reader, on_error: Any) -> None:
    pytest.importorskip("cryptography")
    with (
        pytest.raises(EncryptionError, match="key") as caught,
        binlog_core.open(log.path, on_error=on_error) as opened,
    ):
        read(opened)
    assert (caught.value.path, caught.value.offset) == (str(log.path), first_encrypted(log))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("log", ENCRYPTED, ids=str)
def test_wrong_key(log: Golden, on_error: Any) -> None:
    pytest.importorskip("cryptography")
    from binlog_core._sources.encryption_keys import read_key_file, read_keyring

    assert log.keys is not None
    keys: Any = read_keyring(log.keys) if "mysql" in log.name else read_key_file(log.keys)
    wrong = {name: key[::-1] for name, key in keys.items()}
    with (
        pytest.raises(EncryptionError, match="wrong") as caught,
        binlog_core.open(log.path, keys=wrong, on_error=on_error) as opened,
    ):
        list(opened.rows())
    assert caught.value.path == str(log.path)
    # MariaDB's descriptor and START_ENCRYPTION are not encrypted: the event after them shows it.
    assert caught.value.offset == 0 if "mysql" in log.name else caught.value.offset > first_encrypted(log)


# --- Definitions -------------------------------------------------------------------------------


def test_names_that_no_server_writes(tmp_path: Path) -> None:
    """The name that we give to a column without one differs from those of all other columns."""
    table = Table("shop", "odd", [("c1", "INT"), ("", "INT"), ("c1", "INT")])
    log = Log("8.0.36")
    log.begin()
    log.insert(table, [{"c1": 7, "": 8}])
    log.commit()
    with binlog_core.open(written(tmp_path, log)) as opened:
        [batch] = opened.batches()
        assert opened.report.unnamed_columns == 1
    assert [c.name for c in batch.columns] == ["c1", "c1_", "c2"]
    assert [c.named for c in batch.columns] == [True, False, False]


def test_tables_of_one_shape_share_their_columns(tmp_path: Path) -> None:
    log = Log("8.0.36")
    tables = [Table("shop", f"orders{i}", [("id", "INT"), ("note", "VARCHAR(20)")]) for i in range(3)]
    tables.append(Table("shop", "other", [("id", "INT UNSIGNED"), ("note", "VARCHAR(20)")]))
    for i, table in enumerate(tables):
        log.begin()
        log.insert(table, [{"id": i, "note": "x"}])
        log.commit()
    with binlog_core.open(written(tmp_path, log)) as opened:
        batches = list(opened.batches(columns={"shop.orders1": ["id"]}))
    assert [b.table.full_name for b in batches] == [
        "shop.orders0",
        "shop.orders1",
        "shop.orders2",
        "shop.other",
    ]
    assert [len(b.columns) for b in batches] == [2, 1, 2, 2]
    assert batches[0].columns is batches[2].columns
    assert [b.columns[0].signed for b in batches] == [True, True, True, False]
    assert [int(b.array["row"]["id"][0]) for b in batches] == [0, 1, 2, 3]
