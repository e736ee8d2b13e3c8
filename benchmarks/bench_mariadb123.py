"""MariaDB 12.3's fragments and its binary log in InnoDB beside the same transactions in a classic log.

By CPU time, in turns; the closing table has the rates divided by that of the classic log: of one without
checksums, as these logs are, and of one with a CRC32 in each event, as the server writes it by default.
Checksums of pages and events are verified.

Why .ibb stays below 0.9, in ms of CPU time for 64 MB in transactions of 20,000 rows, in one run: 22.3 for
the classic log, 30.0 for the .ibb file (0.74). A loop in C that only checks each mapped page and copies
its payload once took 6.2 into a window of 64 KiB, and 8.1 into one of 4 MiB. Classic log and that loop
together are 28.5 to 30.4: 0.73 to 0.78 is the bound of a reader that first checks and then decodes. Pages
of out-of-band records are passed over by their chunks' heads, and come from memory when the references to
them are followed; before, all were checked first. Trees are begun and left without Python, which took
some 30 us a transaction: in transactions of 500 rows 0.36 became 0.71 to 0.76.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from bench_scaling import best, decode
from logs import megabytes
from measure import LINES
from support.writer import Log, Table, innodb_binlog
from support.writer.fragments import event_of, fragments_of

import binlog_core

TABLE = Table("bench", "orders", [("id", "BIGINT"), ("amount", "DECIMAL(12,2)"), ("note", "VARCHAR(200)")])
TITLE = "MariaDB 12.3, rate divided by that of a classic log: without checksums, with CRC32"
PAGE_SHIFT, PIECE = 14, 32768  # pages and binlog_cache_size as the server has them
FRAGMENT_LEN = 1 << 20


@dataclass(frozen=True)
class Shape:
    """Rows of a transaction, and of each of its rows events."""

    name: str
    rows: int
    of_event: int


SHAPES = (
    Shape("one row", 1, 1),
    Shape("100 rows", 100, 100),
    Shape("500 rows", 500, 500),  # two out-of-band records
    Shape("20,000 rows", 20_000, 500),
)


@cache
def transaction(shape: Shape, checksum: bool = False) -> tuple[bytes, list[bytes]]:
    """The head of a log, and the events of a transaction."""
    log = Log("11.8.1-MariaDB-log", checksum=checksum, next_positions=False)
    head = log.getvalue()
    log.event(162, struct.pack("<QIB6x", 1, 0, 0))
    rows = [
        {"id": i, "amount": Decimal("12345.67"), "note": "a note of an order " * (1 + i % 5)}
        for i in range(500)
    ]
    for begin in range(0, shape.rows, shape.of_event):
        log.insert(TABLE, [rows[i % 500] for i in range(begin, begin + shape.of_event)])
    log.commit()
    data, events, at = log.getvalue()[len(head) :], [], 0
    while at < len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        events.append(data[at : at + length])
        at += length
    return head, events


def count_of(shape: Shape) -> int:
    return max(1, megabytes() * 10**6 // sum(map(len, transaction(shape)[1])))


def numbered(events: list[bytes], number: int, *, checksum: bool = False) -> bytes:
    """A transaction with a sequence number of its own, as each has."""
    gtid = events[0][:19] + struct.pack("<Q", number) + events[0][27:]
    if checksum:
        gtid = gtid[:-4] + struct.pack("<I", zlib.crc32(gtid[:-4]))
    return gtid + b"".join(events[1:])


def classic(shape: Shape, folder: Path, *, checksum: bool = False) -> Path:
    """Begins with a GTID list, as every log of MariaDB."""
    _, events = transaction(shape, checksum)
    listed = Log("11.8.1-MariaDB-log", checksum=checksum, next_positions=False)
    listed.event(163, bytes(4))
    path = folder / f"bin.00000{1 + checksum}"
    write(
        path,
        listed.getvalue(),
        [numbered(events, number, checksum=checksum) for number in range(1, count_of(shape) + 1)],
    )
    return path


def write(path: Path, head: bytes, transactions: list[bytes]) -> None:
    """Write a log at once, as the .ibb files are: one written in pieces is mapped in smaller ones."""
    path.write_bytes(head + b"".join(transactions))


def in_innodb(shape: Shape, folder: Path) -> Path:
    """Transactions of more than one piece are in out-of-band records, as the server writes them."""
    _, events = transaction(shape)
    gtid_len = len(events[0])
    writer = innodb_binlog.Writer(PAGE_SHIFT, pages=1 << 20, interval=64)
    for number in range(1, count_of(shape) + 1):
        whole = numbered(events, number)
        tree = innodb_binlog.OutOfBand(writer)
        if len(whole) > PIECE:
            for at in range(gtid_len, len(whole), PIECE):
                tree.append(whole[at : at + PIECE])
            writer.record(innodb_binlog.COMMIT, tree.reference() + innodb_binlog.packed(0) + whole[:gtid_len])
        else:
            writer.record(innodb_binlog.COMMIT, innodb_binlog.packed(0) + whole)
    (path,) = innodb_binlog.write_files(folder, writer.contents())
    return path


def rows_in(path: Path) -> int:
    with binlog_core.open(path) as log:
        return sum(len(batch) for batch in log.batches())


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_innodb(shape: Shape, tmp_path: Path) -> None:
    plain, pages = classic(shape, tmp_path), in_innodb(shape, tmp_path)
    usual = classic(shape, tmp_path, checksum=True)
    assert rows_in(plain) == rows_in(usual) == rows_in(pages) == shape.rows * count_of(shape)
    first, second, third = best(
        [lambda path=path: decode(path, verify_checksum=True) for path in (plain, usual, pages)]  # type: ignore[misc]
    )
    LINES[TITLE].append(f".ibb, transactions of {shape.name:<12}{first / third:14.2f}{second / third:14.2f}")


def test_fragments(tmp_path: Path) -> None:
    """Rows events of 8 MB, in fragments of 1 MB."""
    shape = Shape("fragments", 80_000, 80_000)
    head, events = transaction(shape)
    cut: list[bytes] = []
    for event in events:
        if len(event) > FRAGMENT_LEN:
            fields = struct.unpack_from("<IBIIIH", event)
            bodies = fragments_of(event, False, list(range(FRAGMENT_LEN, len(event), FRAGMENT_LEN)))
            cut += [event_of((fields[0], 172, *fields[2:]), body, 0, False) for body in bodies]
        else:
            cut.append(event)
    plain, path = classic(shape, tmp_path), tmp_path / "fragments.000001"
    write(path, head, [numbered(cut, number) for number in range(1, count_of(shape) + 1)])
    assert len(cut) > len(events)
    assert rows_in(plain) == rows_in(path) == shape.rows * count_of(shape)
    first, second = best([lambda: decode(plain), lambda: decode(path)])
    LINES[TITLE].append(f"rows events in fragments        {first / second:14.2f}")
