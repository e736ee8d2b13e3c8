"""Invalid rows events, made by hand: each has its own error, and what is around them is read.

A sweep over every byte (test_damage.py) does not meet these, since the servers' logs lack what they damage.
"""

from __future__ import annotations

import struct

import pytest
from support.writer import Log, Table
from support.writer import numbering as n
from support.writer.wire import lenenc

import binlog_core
from binlog_core.batch.change_batch import OUTCOMES
from binlog_core.errors import DecodeError

pytestmark = [pytest.mark.sanitize, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

PLAIN = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
DATED = Table("shop", "dated", [("id", "INT"), ("born", "DATE"), ("note", "BLOB")])
JSON = Table("shop", "docs", [("id", "INT"), ("doc", "JSON")])
DUMMY_TABLE_ID = 0xFFFFFF  # of an event that only ends a statement


def framed(table: Table, *events: tuple[int, bytes], server: str = "8.0.36") -> tuple[bytes, int]:
    """A good row, events of which the first is about the table, a good row; where the first event begins."""
    log = Log(server, checksum=False)
    log.begin()
    log.insert(PLAIN, [{"id": 1, "note": b"a"}])
    log.commit()
    log.begin()
    log.table_map(table, 77)
    places = [log.event(code, body) for code, body in events]
    log.commit()
    log.begin()
    log.insert(PLAIN, [{"id": 3, "note": b"c"}])
    log.commit()
    return log.getvalue(), places[0]


def head(table_id: int = 77, columns: int = 2) -> bytes:
    """Of a rows event of version 2."""
    return table_id.to_bytes(6, "little") + b"\1\0" + b"\2\0" + lenenc(columns)


def ids(data: bytes, **options: object) -> list[int]:
    with binlog_core.open(data, **options) as log:
        return [(change.after or change.before)["id"] for change in log.rows()]


@pytest.mark.parametrize(
    ("table", "code", "body", "says"),
    [
        pytest.param(PLAIN, 30, head(columns=2), "bitmaps", id="no bitmap"),
        pytest.param(PLAIN, 31, head(columns=2) + b"\3", "bitmaps", id="one bitmap of two"),
        pytest.param(PLAIN, 30, b"\x4d\0\0\0\0\0\1", "too short", id="half a post-header"),
        pytest.param(
            PLAIN, 30, b"\x4d\0\0\0\0\0\1\0\xff\0", "extra row info", id="extra info behind the end"
        ),
        pytest.param(PLAIN, 30, b"\x4d\0\0\0\0\0\1\0\1\0\2\3", "extra row info", id="extra info of one byte"),
        pytest.param(PLAIN, 30, b"\x4d\0\0\0\0\0\1\0\2\0", "no column count", id="no column count"),
        pytest.param(PLAIN, 30, head(columns=3) + b"\7\0", "column count", id="another column count"),
        pytest.param(
            PLAIN,
            30,
            head() + b"\3\0" + struct.pack("<I", 2) + b"\xff\xff",
            "row runs past",
            id="a long BLOB",
        ),
        pytest.param(
            JSON,
            39,
            head() + b"\3\3" + b"\0" + struct.pack("<II", 2, 2) + b"\4\0",
            "row runs past",
            id="no options of a partial update",
        ),
        pytest.param(
            JSON,
            39,
            head() + b"\3\3" + b"\0" + struct.pack("<II", 2, 2) + b"\4\0" + b"\1",
            "row runs past",
            id="no bits of a partial update",
        ),
        pytest.param(
            JSON,
            39,
            head() + b"\3\3" + b"\0" + struct.pack("<II", 2, 2) + b"\4\0" + b"\1\1" + b"\0\2\0",
            "row runs past",
            id="half an image behind a partial update's bits",
        ),
    ],
)
def test_a_malformed_event(table: Table, code: int, body: bytes, says: str) -> None:
    data, at = framed(table, (code, body))
    with binlog_core.open(data) as log:
        rows = log.rows()
        assert next(rows).after == {"id": 1, "note": b"a"}
        with pytest.raises(DecodeError, match=says) as caught:
            next(rows)
    assert (caught.value.offset, caught.value.type_code) == (at, code)
    assert ids(data, on_error="skip") == [1, 3]


def test_rows_of_an_event_up_to_the_malformed_one_keep_no_side_entries() -> None:
    """The invalid date is in the row that is cut off: it must not be reported for another row."""
    row = b"\0" + struct.pack("<I", 2) + b"\0\0\0"
    bad = b"\0" + struct.pack("<I", 2) + b"\xff\xff\xff" + struct.pack("<H", 9999)
    data, at = framed(DATED, (30, head(columns=3) + b"\7" + row + b"\0\0" + bad))
    with binlog_core.open(data, on_error="skip") as log:
        batches = list(log.batches())
        (dated,) = (batch for batch in batches if batch.table.name == "dated")
        assert dated.array["row"]["id"].tolist() == [2]
        assert all(entry["record"] == 0 for entry in dated.invalid)
        assert log.report.skipped_events == 1
    with binlog_core.open(data) as log, pytest.raises(DecodeError, match="row runs past") as caught:
        list(log.rows())
    assert caught.value.offset == at


def test_a_value_of_a_column_that_is_not_wanted_is_checked_too() -> None:
    """It is skipped; its length must not reach beyond the event."""
    data, at = framed(PLAIN, (30, head() + b"\3\0" + struct.pack("<I", 2) + b"\xff\xff"))
    with binlog_core.open(data, columns=["id"]) as log, pytest.raises(DecodeError, match="past") as caught:
        list(log.rows())
    assert caught.value.offset == at
    assert ids(data, columns=["id"], on_error="skip") == [1, 3]


def test_the_event_that_only_ends_a_statement_needs_no_table_map() -> None:
    data, _ = framed(PLAIN, (30, head(DUMMY_TABLE_ID, 0)))
    with binlog_core.open(data, strict=True) as log:
        assert [c.after["id"] for c in log.rows() if c.after] == [1, 3]
        assert log.report.rows_without_table_map == 0


def table_maps(count: int) -> bytes:
    """One transaction with a million ids of one table, and a row of the last."""
    log = Log(checksum=False, next_positions=False)
    log.begin()
    body = b"\1\0\1s\0\1t\0\1\3\0\1"
    length = 19 + 6 + len(body)
    start = struct.pack("<IBIIIH", 0, n.TABLE_MAP, 1, length, 0, 0)
    log.raw(b"".join(start + number.to_bytes(6, "little") + body for number in range(count)))
    log.event(30, head(count - 1, 1) + b"\1\0" + struct.pack("<I", 7))
    log.commit()
    return log.getvalue()


def test_many_table_ids_in_a_transaction() -> None:
    with binlog_core.open(table_maps(100_000)) as log:
        (change,) = log.rows()
    assert list(change.after.values()) == [7]  # type: ignore[union-attr]


def test_more_table_ids_than_a_transaction_can_have() -> None:
    with (
        binlog_core.open(table_maps((1 << 20) + 1)) as log,
        pytest.raises(DecodeError, match="more table ids"),
    ):
        list(log.rows())


@pytest.mark.parametrize(
    ("begin", "end", "outcome"),
    [
        ("BEGIN", "COMMIT", "committed"),
        ("START TRANSACTION", "ROLLBACK", "rolled back"),
        ("BEGIN", "ROLLBACK TO `here`", "unknown"),
        ("XA START X'61',X'',1", "XA PREPARE X'61',X'',1", "XA prepared"),
    ],
)
def test_how_statements_end_a_transaction(begin: str, end: str, outcome: str) -> None:
    log = Log("5.5.62")
    log.query(begin, "shop")
    log.insert(PLAIN, [{"id": 1, "note": b"a"}])
    log.query(end, "shop")
    with binlog_core.open(log.getvalue()) as opened:
        ((one,),) = [group.transactions for group in opened.groups()]
        assert OUTCOMES[one["outcome"]] == outcome
