"""Transactions of one table, as MariaDB's binary log in InnoDB has them."""

from __future__ import annotations

import struct
from typing import Any

from .writer import Log, Table
from .writer import innodb_binlog as ibb

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "TEXT")])


def made_of(rows: list[list[dict[str, Any]]]) -> list[bytes]:
    log = Log("11.8.1-MariaDB-log", checksum=False)
    for number, some in enumerate(rows, start=1):
        log.event(162, struct.pack("<QIB6x", number, 0, 0))
        log.insert(TABLE, some)
        log.commit()
    return ibb.transactions_of(log.getvalue())


def one_file(count: int = 20, **shape: Any) -> bytes:
    writer = ibb.Writer(**{"shift": 9, "pages": 1000, **shape})
    for events in made_of([[{"id": i, "note": "x" * 40}] for i in range(count)]):
        writer.record(ibb.COMMIT, ibb.packed(0) + events)
    (data,) = writer.contents()
    return data
