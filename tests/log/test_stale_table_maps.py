"""A table map holds until the next transaction begins: the same with one thread, several, and in splits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.forged import UUID
from support.splits import cut, read_all
from support.writer import Log, Table

import binlog_core
from binlog_core import Limits
from binlog_core.log import parts

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

TABLES = [Table("shop", name, [("id", "INT"), ("note", "VARCHAR(200)")]) for name in ("a", "b", "c")]
KINDS = ["8.0.36 with GTIDs", "8.0.36", "10.11.6-MariaDB", "5.5.60"]


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parts, "PART_BYTES", 400)
    monkeypatch.setattr(parts, "_GROWTH", 1)


def made(kind: str, seed: int) -> tuple[bytes, list[int], int]:
    """Transactions, of which some use a table map that came before they began.

    Returns
    -------
    The log, the ids of the other rows, and how many rows events lack their table map.
    """
    chance = random.Random(seed)
    version, _, gtids = kind.partition(" ")
    log = Log(version)
    ids, lost = [], 0
    mapped = [
        False,
        *(chance.random() < 0.3 for _ in range(120)),
    ]  # whether the map comes before the transaction
    for number in range(120):
        table, other = TABLES[number % 3], TABLES[(number + 1) % 3]
        if log.mariadb:
            log.maria_gtid(number + 1)
        elif gtids:
            log.gtid(UUID, number + 1)
        if not log.mariadb:
            log.begin()
        row = [{"id": number, "note": "n" * 150}]
        if not mapped[number]:
            log.table_map(table, number % 3 + 10)
        area = table.image(row[0], [True, True], unused=0)
        log.rows_event(0, table, area, [True, True])
        log.rows_event(0, table, area, [True, True])
        if mapped[number]:
            lost += 2
        else:
            ids += [number, number]
        if mapped[number + 1]:
            log.table_map(other, (number + 1) % 3 + 10)
        log.commit(number + 1)
    return log.getvalue(), ids, lost


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_a_table_map_from_before_the_transaction(kind: str, seed: int, tmp_path: Path) -> None:
    data, expected, lost = made(kind, seed)
    assert lost > 20
    for threads in (1, 2, 3):
        for options in ({}, {"where": "id >= 0"}):
            with binlog_core.open(data, threads=threads, limits=Limits(group_rows=7), **options) as log:
                found: Any = [change.after["id"] for change in log.rows() if change.after]
                assert found == expected, threads
                assert log.report.rows_without_table_map == lost
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    changes, _ = read_all(cut(path, 700))
    assert [change.after["id"] for change in changes] == expected
