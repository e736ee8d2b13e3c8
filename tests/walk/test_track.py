"""The window over a log that is read piece by piece."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.golden import golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core._walk import track

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(3000)")])


def log_of(notes: list[int]) -> bytes:
    log = Log()
    for number, length in enumerate(notes):
        log.begin()
        log.insert(TABLE, [{"id": number, "note": chr(97 + number % 26) * length}])
        log.commit(number)
    return log.getvalue()


def changes(path: Path, *, mmap: bool) -> list[binlog_core.RowChange]:
    with binlog_core.open(path, mmap=mmap) as log:
        return list(log.rows())


@pytest.mark.parametrize("length", [64, 300, 1000, 5000])
def test_reading_is_mapping_whatever_the_pieces(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(track, "_FILL_LEN", length)
    path = tmp_path / "bin.000001"
    # Events that lie over the end of a piece, and those that are longer than some.
    path.write_bytes(log_of([10, 2900, 40, 700, 0, 2999, 2999, 5] * 4))
    assert changes(path, mmap=False) == changes(path, mmap=True)
    for golden in golden_logs("mysql97/dml_mixed"):
        path.write_bytes(golden.data)
        assert changes(path, mmap=False) == changes(path, mmap=True)


def test_batches_outlive_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(track, "_FILL_LEN", 300)
    path = tmp_path / "bin.000001"
    path.write_bytes(log_of([200] * 60))
    with binlog_core.open(path, mmap=False, limits=binlog_core.Limits(group_rows=5)) as log:
        batches = list(log.batches())
    assert len(batches) > 5
    values = [row["note"] for batch in batches for row in batch.to_pylist()]
    assert values == [chr(97 + number % 26) * 200 for number in range(60)]


def test_a_file_that_shrinks_meanwhile_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(track, "_FILL_LEN", 300)
    path = tmp_path / "bin.000001"
    path.write_bytes(log_of([200] * 60))
    with binlog_core.open(path, mmap=False, limits=binlog_core.Limits(group_rows=5)) as log:
        rows = iter(log.rows())
        next(rows)
        os.truncate(path, 900)
        assert len(list(rows)) < 59  # what is gone ends the log early
