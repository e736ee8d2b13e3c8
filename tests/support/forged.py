"""Logs of whole transactions, and one with forged transactions inside a BLOB."""

from __future__ import annotations

import struct
import zlib

from .writer import Log, Table

UUID = "00112233-4455-6677-8899-aabbccddeeff"


def transactions(log: Log, count: int = 12, body: int = 300) -> Table:
    table = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
    for i in range(1, count + 1):
        log.maria_gtid(i) if log.mariadb else log.gtid(UUID, i)
        if not log.mariadb:
            log.begin("shop")
        log.table_map(table)
        log.insert(table, [{"id": i, "note": bytes([i]) * body}], mapped=True)
        log.commit(i)
    return table


def forged_chain(base: int, length: int) -> bytes:
    """GTIDs and their transactions, with checksums and positions as if the log continued at ``base``."""
    fake = Log("8.0.36")
    table = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
    fake._out = bytearray(base)  # the writer takes positions from what is there
    number = 900
    while len(fake._out) - base < length:
        fake.gtid(UUID, number)
        fake.begin("shop")
        fake.table_map(table)
        fake.insert(table, [{"id": number, "note": b"forged"}], mapped=True)
        fake.commit(number)
        number += 1
    return bytes(fake._out[base:])


def log_with_forgery(closing: bool) -> tuple[bytes, range]:
    """A log with a BLOB full of forged transactions; their chain ends there, or leads back into the log."""
    log = Log("8.0.36")
    log.previous_gtids()
    table = transactions(log, count=3)
    log.gtid(UUID, 4)
    log.begin("shop")
    log.table_map(table)
    at = log.insert(table, [{"id": 4, "note": b"?" * 6000}], mapped=True)
    log.commit(4)
    data = bytearray(log.getvalue())
    begin = data.index(b"?" * 6000)
    chain = forged_chain(begin, 4000)
    if closing:
        # A last event that ends where the real one ends, and so has that one's checksum at its end.
        length = struct.unpack_from("<I", data, at + 9)[0]
        end = at + length
        head_at = begin + len(chain)
        chain += struct.pack("<IBIIIH", 1, 28, 1, end - head_at, end, 0x80)
    data[begin : begin + len(chain)] = chain
    length = struct.unpack_from("<I", data, at + 9)[0]
    struct.pack_into("<I", data, at + length - 4, zlib.crc32(data[at : at + length - 4]))
    log._out = data
    for i in range(5, 9):
        log.gtid(UUID, i)
        log.begin("shop")
        log.table_map(table)
        log.insert(table, [{"id": i, "note": b"x" * 300}], mapped=True)
        log.commit(i)
    return log.getvalue(), range(begin, begin + len(chain))
