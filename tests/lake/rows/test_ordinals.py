"""`_change_ordinal`: numbers within a transaction, over tables and groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.batches import column, make_batch
from support.writer import Log, Table

from binlog_core._tables.column_types import Kind
from binlog_core.batch.change_batch import ChangeBatch
from binlog_core.lake.rows.ordinals import Ordinals
from binlog_core.spark import plan_splits, read_split

pytest.importorskip("pyarrow")


def test_ordinals_run_over_tables_and_groups(tmp_path: Path) -> None:
    a = Table("shop", "a", [("id", "INT"), ("text", "VARCHAR(20)")])
    b = Table("shop", "b", [("id", "BIGINT UNSIGNED")])
    log = Log("8.0.36")
    log.begin()
    for i in range(30_000):  # more rows than a group has
        log.insert(a, [{"id": 3 * i, "text": "x"}])
        log.insert(b, [{"id": 3 * i + 1}, {"id": 3 * i + 2}])
    log.commit()
    log.begin()
    log.insert(b, [{"id": 1}])
    log.commit()
    path = tmp_path / "bin.000042"
    path.write_bytes(log.getvalue())
    (split,) = plan_splits(path)
    chunks = [(table.name, batch.to_pylist()) for table, batch in read_split(split)]
    assert len(chunks) > 3
    rows = [(row["_commit_version"], row["_change_ordinal"], int(row["id"])) for _, c in chunks for row in c]
    first, second = sorted({version for version, _, _ in rows})
    assert first >> 40 == 42
    assert sorted(row[1:] for row in rows if row[0] == first) == [(i, i) for i in range(90_000)]
    assert [row[1:] for row in rows if row[0] == second] == [(0, 1)]


def batch(begin: int, positions: list[int]) -> ChangeBatch:
    rows = [{"id": 1}] * len(positions)
    made = make_batch([column("id", Kind.INT, bytes_=4)], rows, transactions=[{"begin_position": begin}])
    made.array["image"]["position"] = positions
    return made


def test_a_transaction_is_counted_on_in_the_next_group() -> None:
    ordinals = Ordinals()
    assert ordinals.number([]) == []
    tables = [batch(900, [1000, 1020]), batch(900, [1010, 1030, 1040])]
    assert [one.tolist() for one in ordinals.number(tables)] == [[0, 2], [1, 3, 4]]
    assert ordinals.number_one(900) == 5  # a statement among its rows
    assert [one.tolist() for one in ordinals.number([batch(900, [1050])])] == [[6]]
    assert [one.tolist() for one in ordinals.number([batch(2000, [2010, 2020])])] == [[0, 1]]
    assert ordinals.number_one(3000) == 0
