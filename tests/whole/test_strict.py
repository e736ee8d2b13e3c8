"""Nothing is silent: a small log for each kind of report, which is counted, and raised in strict mode.

The expected kind and place follow from how the log was written, see ``support.writer``.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.golden import golden_logs
from support.writer import JsonDiffs, Log, Table
from support.writer import numbering as n

import binlog_core
from binlog_core._sources.timeline import RESET, ArchiveTimeline, Segment
from binlog_core.report import KINDS

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

# Facts about the data that are complete in the log: counted, but not a reason to stop.
FACTS = {
    "invalid_dates",
    "invalid_text",
    "format_notes",
    "wrong_in_use_checksum",
    "unmatched_names",
    "files_left_out",
}

Case = tuple[Any, dict[str, Any]]  # what to open, and how
PLAIN = Table("shop", "orders", [("id", "INT UNSIGNED"), ("total", "DECIMAL(10,2)")])
ROW = {"id": 1, "total": Decimal("9.90")}


def whole(log: Log) -> bytes:
    log.begin()
    log.insert(PLAIN, [ROW])
    log.commit()
    return log.getvalue()


def with_table(table: Table, row: dict[str, Any], server: str = "8.0.36") -> bytes:
    log = Log(server)
    log.begin()
    log.insert(table, [row])
    log.commit()
    return log.getvalue()


def with_event(code: int, body: bytes, server: str = "8.0.36", flags: int = 0) -> bytes:
    log = Log(server)
    log.event(code, body, flags=flags)
    return whole(log)


def skipped_events() -> Case:
    data = bytearray(whole(Log()))
    at = data.index(b"orders") + 1  # inside a table map: its checksum fails
    data[at] ^= 0xFF
    return bytes(data), {"on_error": "skip"}


def rows_without_table_map() -> Case:
    log = Log()
    log.begin()
    log.insert(PLAIN, [ROW])
    start = log.position
    log.insert(PLAIN, [ROW], mapped=True)
    log.commit()
    return log.getvalue(), {"start": start}


def undecodable_tables() -> Case:
    log = Log()
    log.begin()
    body = log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\4shop\0\3odd\0" + b"\1\x14\1\3\1"
    log.event(n.TABLE_MAP, body)  # a TYPED_ARRAY column
    log.commit()
    return log.getvalue(), {}


def statement_changes() -> Case:
    log = Log()
    log.query("BEGIN")
    log.query("UPDATE orders SET total = 0")
    log.query("COMMIT")
    return log.getvalue(), {}


def unnamed_columns() -> Case:
    table = Table("shop", "orders", [("id", "VARBINARY(10)")], metadata=None)
    return with_table(table, {"id": b"1"}), {}


def named_only(type_and_metadata: bytes) -> Case:
    """A column of which the log has only the name."""
    log = Log()
    log.begin()
    body = log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\4shop\0\3odd\0" + type_and_metadata + b"\0"
    log.event(n.TABLE_MAP, body + b"\4\3\2id")
    log.commit()
    return log.getvalue(), {}


def unknown_signs() -> Case:
    return named_only(b"\1\3\0")  # INT


def unknown_charsets() -> Case:
    return named_only(b"\1\x0f\2\x0a\0")  # VARCHAR of 10 bytes


def metadata_misfits() -> Case:
    log = Log()
    log.begin()
    # One signedness byte too many for an INT column.
    body = log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\4shop\0\3odd\0" + b"\1\3\0\1" + b"\1\2\0\0"
    log.event(n.TABLE_MAP, body)
    log.commit()
    return log.getvalue(), {}


def invalid_dates() -> Case:
    golden = next(
        g for g in golden_logs("mysql97/types_*") if '"0000-00-00"' in str(g.truth).replace("'", '"')
    )
    return golden.data, {}


def invalid_text() -> Case:
    return with_table(Table("shop", "orders", [("id", "VARCHAR(10)")]), {"id": b"\xff\xfe"}), {}


def skipped_changes() -> Case:
    table = Table("shop", "orders", [("id", "VARCHAR(300) COMPRESSED")])
    log = Log("10.11.6-MariaDB", checksum=False)
    log.begin()
    log.insert(table, [{"id": "x" * 200}])
    log.commit()
    data = log.getvalue()
    at = data.index(b"\x89\xc8") + 1  # the length that the value claims
    return data[:at] + b"\xc7" + data[at + 1 :], {"on_error": "skip"}


def damaged_values() -> Case:
    table = Table("shop", "orders", [("id", "JSON")])
    log = Log(checksum=False)
    log.begin()
    log.table_map(table)
    log.rows_event(0, table, b"\0" + struct.pack("<I", 2) + b"\x00\xff", [True])
    log.commit()
    return log.getvalue(), {"on_error": "skip"}


def lost_documents() -> Case:
    table = Table("shop", "orders", [("id", "INT"), ("doc", "JSON")])
    log = Log("8.0.36", checksum=False)
    log.begin()
    after = {"id": 1, "doc": JsonDiffs([("replace", "$.a", 2)])}
    log.update(table, [({"id": 1}, after)], before_columns=["id"], after_columns=["doc"], partial=True)
    log.commit()
    return log.getvalue(), {}


def incidents() -> Case:
    return with_event(26, struct.pack("<H", 1) + b"\4lost"), {}


def format_notes() -> Case:
    return Log("8.0.36", post_headers=n.post_header_lengths("8.0.36")[:20]).getvalue(), {}


def rows_v0() -> Case:
    log = Log("5.1.15", rows_version=0)
    log.begin()
    log.insert(PLAIN, [ROW])
    log.commit()
    return log.getvalue(), {}


def schema_misfits() -> Case:
    created = {"shop.orders": "CREATE TABLE orders (id VARCHAR(20), total INT, third INT)"}
    return whole(Log()), {"schema": "ddl", "schema_start": created}


def ddl_not_followed() -> Case:
    log = Log()
    log.query("ALTER TABLE orders DROP COLUMN never_there", database="shop")
    created = {"shop.orders": "CREATE TABLE orders (id INT UNSIGNED, total DECIMAL(10,2))"}
    return whole(log), {"schema": "ddl", "schema_start": created}


def missing_bytes() -> Case:
    log = Log()
    log.query("CREATE TABLE s (a INT)", database="shop")
    at = log.query("CREATE TABLE t (a INT)", database="shop")
    data = whole(log)
    length = int.from_bytes(data[at + 9 : at + 13], "little")
    return data[:at] + data[at + length :], {"on_error": "skip"}


def wrong_in_use_checksum() -> Case:
    data = bytearray(whole(Log(in_use=True)))
    data[-1] ^= 0xFF
    return bytes(data), {}


def files_left_out(folder: Path) -> Case:
    for name in ("bin.000001", "bin.0000001"):
        (folder / name).write_bytes(whole(Log()))
    return folder, {}


def unmatched_names() -> Case:
    return whole(Log()), {"tables": "shop.nope"}


def file_gaps(folder: Path) -> Case:
    for number in (1, 2, 5):
        (folder / f"bin.{number:06}").write_bytes(whole(Log()))
    return folder, {}


def unproved_seams(folder: Path) -> Case:
    server = {"address": "db1:3306", "version": "8.0.36", "uuid": None, "server_id": 1}
    timeline = ArchiveTimeline((Segment("", server, "2026-01-01T00:00:00+00:00"),))
    timeline = timeline.begin(
        Segment("timeline-2", server, "2026-01-02T00:00:00+00:00", RESET), ("bin.000001", 4)
    )
    (folder / "timeline.json").write_bytes(timeline.to_bytes())
    (folder / "timeline-2").mkdir()
    for name in ("bin.000001", "timeline-2/bin.000001"):
        (folder / name).write_bytes(whole(Log()))
    return folder, {}


CASES: dict[str, Callable[..., Case]] = {
    case.__name__: case
    for case in (
        skipped_events, rows_without_table_map, undecodable_tables, statement_changes,
        unnamed_columns, unknown_signs, unknown_charsets, metadata_misfits, invalid_dates, invalid_text,
        skipped_changes, damaged_values, lost_documents, incidents, format_notes, rows_v0,
        schema_misfits, ddl_not_followed,
        wrong_in_use_checksum, file_gaps, files_left_out, missing_bytes,
        unmatched_names, unproved_seams,
    )
}  # fmt: skip


def case_of(kind: str, folder: Path) -> Case:
    return CASES[kind](folder) if kind in ("file_gaps", "files_left_out", "unproved_seams") else CASES[kind]()


def test_every_kind_has_its_log() -> None:
    assert set(CASES) == set(KINDS) - {
        "reconnects",
        "hidden_definitions",
        "unproved_definitions",
        "unknown_sources",  # these four come from servers: see tests/server
        "unusable_indexes",  # strict passes use no index: see tests/index/test_files.py
    }


@pytest.mark.parametrize("kind", CASES)
def test_counted(kind: str, tmp_path: Path) -> None:
    target, options = case_of(kind, tmp_path)
    with binlog_core.open(target, **options) as log:
        list(log.rows())
        assert log.report.counts.get(kind, 0) >= 1
        assert getattr(log.report, kind) == log.report.counts[kind]
        assert KINDS[kind] in str(log.report)
        assert log.report.first[kind].path is not None


@pytest.mark.parametrize("kind", CASES)
def test_strict(kind: str, tmp_path: Path) -> None:
    target, options = case_of(kind, tmp_path)

    def read() -> None:
        with binlog_core.open(target, strict=True, **options) as log:
            list(log.rows())

    if kind == "wrong_in_use_checksum":
        with pytest.raises(binlog_core.TruncatedError):  # a cut tail, as strict mode sees it
            read()
    elif kind in FACTS:
        read()
    else:
        with pytest.raises(binlog_core.StrictError, match=KINDS[kind]):
            read()


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_tail_raises_in_strict_mode(stream: bool) -> None:
    data = whole(Log())[:-3]
    with binlog_core.open(io.BytesIO(data) if stream else data) as log:
        assert len(list(log.rows())) == 1
        assert log.tail is not None and "inside an event" in log.tail.reason
    with (
        binlog_core.open(io.BytesIO(data) if stream else data, strict=True) as log,
        pytest.raises(binlog_core.TruncatedError),
    ):
        list(log.rows())


def test_an_event_marked_as_ignorable_is_not_an_unknown_one() -> None:
    with binlog_core.open(with_event(150, b"for others", flags=0x80), strict=True) as log:
        assert len(list(log.rows())) == 1


def test_two_columns_of_one_name_stay_two_columns() -> None:
    """A name that cannot be a field is replaced, and by no other column's name (found by fuzzing)."""
    log = Log()
    log.begin()
    names = b"\2c1" + b"\0" + b"\2c1"  # the second has none, and its stand-in c1 is taken twice
    body = log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\4shop\0\3odd\0" + b"\3\3\3\3\0\7"
    log.event(n.TABLE_MAP, body + b"\4" + bytes((len(names),)) + names)
    rows = log._post_header(30, 10, 7, 1) + b"\3\7\0" + struct.pack("<iii", 1, 2, 3)
    log.event(30, rows)
    log.commit()
    with binlog_core.open(log.getvalue()) as opened:
        (change,) = opened.rows()
    assert change.after is not None
    assert list(change.after.values()) == [1, 2, 3]
    assert next(iter(change.after)) == "c1"


@pytest.mark.parametrize("stream", [False, True])
def test_rows_that_cannot_be_decoded_come_as_bytes(stream: bool) -> None:
    """A record is an event, its value the bytes of all its rows."""
    log = Log()
    log.begin()
    body = log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\4shop\0\3odd\0" + b"\1\x14\1\3\1"
    log.event(n.TABLE_MAP, body)  # a TYPED_ARRAY column
    rows = [b"\0\1\2\3", b"\0" + bytes(range(40))]
    places = [log.event(30, log._post_header(30, 10, 7, 1) + b"\1\1" + row) for row in rows]
    log.commit()
    data = log.getvalue()
    with binlog_core.open(io.BytesIO(data) if stream else data) as opened:
        (batch,) = opened.batches()
    heap = memoryview(batch.buffer)
    spans = batch.array["row"]["raw"]
    found = [bytes(heap[int(s["offset"]) : int(s["offset"]) + int(s["length"])]) for s in spans]
    assert found == rows
    assert batch.array["image"]["position"].tolist() == places


@pytest.mark.parametrize("threads", [1, 2])
def test_what_was_raised_was_not_passed_over(threads: int) -> None:
    [golden] = golden_logs("mysql97/types_ints")
    data = bytearray(golden.data)
    data[len(data) // 2] ^= 1
    options: dict[str, Any] = {"on_error": "skip", "strict": True, "threads": threads}
    with binlog_core.open(bytes(data), **options) as log:
        with pytest.raises(binlog_core.StrictError):
            list(log.rows())
        assert log.report.skipped == []
