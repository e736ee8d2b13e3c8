"""The window over a log that is read piece by piece."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from support.golden import golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core._core import _rows
from binlog_core._walk import track

pytestmark = pytest.mark.sanitize_long

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


def use_small_blocks(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    monkeypatch.setattr(track, "_BLOCK_LEN", length)
    monkeypatch.setattr(track, "_LONGEST_BLOCK", 4 * length)
    monkeypatch.setattr(track, "_PIECE_LEN", length // 4)
    monkeypatch.setattr(track, "_SLACK", length // 8)


@pytest.mark.parametrize("length", [64, 300, 1000, 5000, 20000])
def test_reading_is_mapping_whatever_the_pieces(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_blocks(monkeypatch, length)
    path = tmp_path / "bin.000001"
    # Events that cross the end of a piece, and events that are longer than some pieces.
    path.write_bytes(log_of([10, 2900, 40, 700, 0, 2999, 2999, 5] * 4))
    assert changes(path, mmap=False) == changes(path, mmap=True)
    for golden in golden_logs("mysql97/dml_mixed"):
        path.write_bytes(golden.data)
        assert changes(path, mmap=False) == changes(path, mmap=True)


@pytest.mark.parametrize("group_rows", [3, 40, 65536])
@pytest.mark.parametrize("length", [1000, 20000])
def test_columns_of_a_log_that_is_read_are_those_of_a_mapped_one(
    length: int, group_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that become columns at once, too: from the second group on, or none if there is one group."""
    pa = pytest.importorskip("pyarrow")
    use_small_blocks(monkeypatch, length)
    path = tmp_path / "bin.000001"
    data = log_of([10, 300, 40, 700, 0, 2999, 5, 64] * 40)
    path.write_bytes(data)

    def tables(source: object, **options: bool) -> list[object]:
        limits = binlog_core.Limits(group_rows=group_rows)
        with binlog_core.open(source, limits=limits, **options) as log:  # type: ignore[arg-type]
            batches = [(batch, batch.to_arrow()) for batch in log.batches()]
        # Their records are made of bytes that were read long ago.
        assert [len(batch.array) for batch, _ in batches] == [arrow.num_rows for _, arrow in batches]
        return [pa.Table.from_batches([arrow for _, arrow in batches]).combine_chunks()]

    least = _rows.columns_from(1)
    try:
        assert tables(path, mmap=False) == tables(path, mmap=True) == tables(io.BytesIO(data))
    finally:
        _rows.columns_from(least)


def test_damage_in_a_log_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows on damage lies in another buffer: the values of what came before it are copied."""
    use_small_blocks(monkeypatch, 3000)
    data = log_of([10, 300, 40, 700, 0, 2999, 5, 64] * 10)
    path = tmp_path / "bin.000001"
    for at in range(300, len(data), 397):
        path.write_bytes(data[:at] + b"\xff" * 4 + data[at + 4 :])
        with (
            binlog_core.open(path, mmap=False, on_error="skip") as read,
            binlog_core.open(path, mmap=True, on_error="skip") as mapped,
        ):
            assert list(read.rows()) == list(mapped.rows())


def test_a_batch_of_little_does_not_keep_a_block(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes(log_of([10, 200] + [900] * 3000))
    with binlog_core.open(path, mmap=False) as log:
        kept = [len(batch.buffer) for batch in log.batches()]
    assert len(kept) > 2 and min(kept) > 500_000  # most of a block: its values stay where they are
    with binlog_core.open(path, mmap=False, where="id < 2 or id in (1000, 2500)") as log:
        assert sum(len(batch.buffer) for batch in log.batches()) == 210 + 2 * 900


def test_batches_outlive_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_blocks(monkeypatch, 300)
    path = tmp_path / "bin.000001"
    path.write_bytes(log_of([200] * 60))
    with binlog_core.open(path, mmap=False, limits=binlog_core.Limits(group_rows=5)) as log:
        batches = list(log.batches())
    assert len(batches) > 5
    values = [row["note"] for batch in batches for row in batch.to_pylist()]
    assert values == [chr(97 + number % 26) * 200 for number in range(60)]


def test_a_file_that_shrinks_meanwhile_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_blocks(monkeypatch, 300)
    path = tmp_path / "bin.000001"
    path.write_bytes(log_of([200] * 60))
    with binlog_core.open(path, mmap=False, limits=binlog_core.Limits(group_rows=5)) as log:
        rows = iter(log.rows())
        next(rows)
        os.truncate(path, 900)
        assert len(list(rows)) < 59  # what is gone ends the log early
