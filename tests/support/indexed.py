"""Logs with indexes, small ranges in them, and how much of them is read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import binlog_core
from binlog_core._decode.log_decoder import LogDecoder
from binlog_core.index import ranges
from support.questions import answer
from support.writer import Log, Table

UUID = "00112233-4455-6677-8899-aabbccddeeff"
T = Table("shop", "t", [("id", "INT"), ("b", "VARCHAR(200)")], primary_key=["id"])
TWO = Table(
    "shop",
    "lines",
    [("code", "VARCHAR(40)"), ("line", "INT UNSIGNED"), ("at", "DATETIME"), ("n", "INT")],
    primary_key=["code", "line"],
)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "RANGE_BYTES", 2000)


class Read:
    """Bytes of logs that are decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        part, groups = LogDecoder.part, LogDecoder.groups

        def counted_part(decoder: LogDecoder, start: int | None, *more: Any) -> Iterator[Any]:
            yield from part(decoder, start, *more)
            self.bytes += decoder.position - (start or decoder.selection.start_position or 4)

        def counted_groups(decoder: LogDecoder) -> Iterator[Any]:
            yield from groups(decoder)
            self.bytes += decoder.position - (decoder.selection.start_position or 4)

        monkeypatch.setattr(LogDecoder, "part", counted_part)
        monkeypatch.setattr(LogDecoder, "groups", counted_groups)


def write_log(path: Path, number: int, *, transactions: int = 200, closed: bool = True) -> Path:
    """One log of a set: random keys, some of them also in other logs; now and then a key changes."""
    pick = random.Random(number)
    log = Log("8.4.0", server_id=1 + number % 3)
    for i in range(transactions):
        log.timestamp = 1_700_000_000 + 1000 * number + i
        log.gtid(UUID, number * transactions + i + 1, commit_time=log.timestamp * 1_000_000 + i)
        log.begin("shop")
        key = pick.randrange(1, 1 << 30)
        old = {"id": key, "b": "x" * pick.randrange(100)}
        line = {
            "code": f"ü{pick.randrange(400)}",
            "line": pick.randrange(1 << 32),
            "at": "2026-01-01",
            "n": i,
        }
        if i % 3 == 0:
            log.insert(T, [old])
        elif i % 3 == 1:
            log.update(T, [(old, old | {"b": "y"}), *[(old, old | {"id": key + 1})] * (i % 50 == 1)])
        else:
            log.insert(TWO, [line | {"at": None}])
        log.commit()
    if closed:
        log.rotate("next.000001")
    path.write_bytes(log.getvalue())
    return path


def folder(tmp_path: Path, count: int = 3, **more: Any) -> Path:
    for i in range(count):
        write_log(tmp_path / f"bin.{i + 1:06}", i, **more)
    return tmp_path


def found_by(logs: Path, **question: Any) -> list[Any]:
    return answer(logs, question)[0]


def keys_in(logs: Path) -> list[int]:
    with binlog_core.open(logs) as log:
        return [c.after["id"] for c in log.rows("shop.t") if c.after is not None]
