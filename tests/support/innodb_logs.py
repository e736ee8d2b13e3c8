"""Transactions of one table, as MariaDB's binary log in InnoDB has them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from binlog_core._core import _rows
from binlog_core._walk import track

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


@contextmanager
def fed(at_once: int, length: int = 300) -> Iterator[list[int]]:
    """Blocks of some `length` bytes, of which the loop takes `at_once` by itself; the bytes that it took."""
    names = ("_BLOCK_LEN", "_LONGEST_BLOCK", "_PIECE_LEN", "_SLACK")
    before = [getattr(track, name) for name in names]
    took, taken = track.Track.took, []

    def note(self: track.Track, loop: _rows.Decoder) -> None:
        taken.append(loop.fed)
        took(self, loop)

    most = _rows.feed_at_once(at_once)
    try:
        for name, value in zip(names, (4 * length, 16 * length, length, length // 8), strict=True):
            setattr(track, name, value)
        track.Track.took = note  # type: ignore[method-assign]
        yield taken
    finally:
        track.Track.took = took  # type: ignore[method-assign]
        _rows.feed_at_once(most)
        for name, value in zip(names, before, strict=True):
            setattr(track, name, value)
