"""Bytes that the decoding loop takes by itself: the same rows, wherever these bytes end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.innodb_logs import fed, made_of
from support.writer import innodb_binlog as ibb

import binlog_core
from binlog_core._core import _rows
from binlog_core._core._innodb_binlog import Feed, Pages, TreeWalk
from binlog_core._walk import track

pytestmark = [pytest.mark.sanitize, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


def random_rows(pick: random.Random) -> list[list[dict[str, Any]]]:
    """Of some transactions; a few large ones have trees of out-of-band records."""
    numbers = iter(range(1 << 20))
    return [
        [{"id": next(numbers), "note": "n" * pick.randrange(200)} for _ in range(pick.choice([1, 2, 30, 90]))]
        for _ in range(30)
    ]


@pytest.mark.parametrize("into_columns", [1, 1 << 30])
@pytest.mark.parametrize("at_once", [1, 30, 700, 1 << 16])
def test_events_end_anywhere(at_once: int, into_columns: int, tmp_path: Path) -> None:
    """A byte at a time, each event is cut everywhere; groups, batches, Arrow and positions are as ever."""
    pick = random.Random(at_once)
    rows = random_rows(pick)
    ibb.write_files(tmp_path, ibb.engine_files(made_of(rows), seed=at_once))
    expected = [row for one in rows for row in one]
    before = _rows.columns_from(into_columns)
    try:
        took = 0
        for length in (300, 3000, 40_000):
            limits = binlog_core.Limits(group_rows=pick.choice([7, 200, 65536]))
            with fed(at_once, length) as taken, binlog_core.open(tmp_path, limits=limits) as log:
                groups = list(log.groups())
                found = [row for group in groups for batch in group.batches for row in batch.to_pylist()]
                assert [{"id": row["id"], "note": row["note"]} for row in found] == expected
                tables = [batch.to_arrow() for batch in log.batches()]
                assert [note for one in tables for note in one.column("note").to_pylist()] == [
                    row["note"] for row in expected
                ]
                middle = groups[len(groups) // 2]
                done = sum(len(batch) for group in groups[: len(groups) // 2 + 1] for batch in group.batches)
                with binlog_core.open(tmp_path, start=middle.position) as rest:
                    assert [c.after for c in rest.rows()] == expected[done:]
            took += sum(taken)
        assert took > 10_000
    finally:
        _rows.columns_from(before)


def outcome(path: Path, **options: Any) -> tuple[list[Any], Any, Any]:
    """Rows, the error, and what the report says."""
    found: list[Any] = []
    with binlog_core.open(path, **options) as log:
        try:
            found.extend((c.after, c.position) for c in log.rows())
        except binlog_core.BinlogError as error:
            return found, (type(error), str(error), error.offset), log.report.lost_ranges
        return found, None, (log.report.lost_ranges, log.report.skipped_events, log.tail)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_damage_is_met_where_it_is(
    seed: int, mmap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows, the same error and the same report as when Python takes each piece."""
    pick = random.Random(seed)
    files = ibb.engine_files(made_of(random_rows(pick)), seed=seed)
    number = pick.randrange(len(files))
    broken, page_len = bytearray(files[number]), 1 << files[number][4]
    at = pick.randrange(page_len, len(broken))
    broken[at] ^= 1 << pick.randrange(8)
    if seed % 2:  # the page's checksum holds, and the event or the chunk is wrong
        end = at // page_len * page_len + page_len - 4
        broken[end : end + 4] = ibb.page_crc(bytes(broken[end + 4 - page_len : end])).to_bytes(4, "little")
    files[number] = bytes(broken)
    ibb.write_files(tmp_path, files)
    for on_error in ("raise", "skip"):
        with fed(pick.choice([1, 50, 999]), pick.choice([1500, 4000])) as taken:
            found = outcome(tmp_path, on_error=on_error, mmap=mmap)
        assert taken or on_error == "raise"  # the damage may be near the beginning
        with monkeypatch.context() as patch:
            patch.setattr(track.Track, "feed", lambda self: (None, 0))
            assert found == outcome(tmp_path, on_error=on_error, mmap=mmap)


def test_pages_that_are_not_there() -> None:
    pages = Pages(bytes(1024), 512, 512)
    assert Feed(pages, 1535).offset == 1535
    for offset in (0, 511, 1536, 1 << 60):
        with pytest.raises(IndexError):
            Feed(pages, offset)
    walk = TreeWalk(1, (0, 600), (0, 600))
    assert Feed(pages, 600, walk).walk is walk


def test_a_window_cannot_grow_out_of_its_block() -> None:
    loop = _rows.Decoder()
    block = memoryview(loop.block(1000))
    feed = Feed(Pages(bytes(1024), 512), 512)
    loop.feed(block[:100], 0, keep=True, feed=feed, to_come=len(block) - 100)
    for window, room in ((block[:100], len(block)), (bytes(100), 1), (bytearray(100), 1)):
        with pytest.raises(ValueError, match="room"):
            loop.feed(window, 0, keep=True, feed=feed, to_come=room)
    loop.feed(block[:100], 0, keep=True)
    with pytest.raises(ValueError, match="another length"):
        loop.hold(block[:101])
