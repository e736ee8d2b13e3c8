"""Parts of logs: however logs are divided, the rows, their order and their numbers are the same."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import GTIDS, orders, read  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core.lake.plan.parts import (  # noqa: E402
    TaskPart,
    check_numbers,
    index_of,
    plan_parts,
    tasks_of_parts,
)
from binlog_core.lake.rows.prepared import Prepared  # noqa: E402
from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.splits import Split  # noqa: E402
from binlog_core.splits.split import whole_logs  # noqa: E402

pytestmark = pytest.mark.oldest_spark


def test_every_plan_gives_the_same_rows_in_a_total_order(tmp_path: Path) -> None:
    path = orders(tmp_path)
    whole = read(path, table="shop.orders", metadata="full")
    assert len(whole) == 80
    assert [row["id"] for row in whole] == list(range(80))
    places = [(row["_commit_version"], row["_change_ordinal"]) for row in whole]
    assert len(set(places)) == 80
    assert {version >> 40 for version, _ in places} == {7}
    assert [row["_gtid"] for row in whole[::2]] == [f"{GTIDS}:{i + 1}" for i in range(40)]
    assert [row["_xid"] for row in whole[::2]] == [100 + i for i in range(40)]
    assert {row["_file"] for row in whole} == {str(path)}
    assert {row["_server_id"] for row in whole} == {1}
    for size in ("97", "777", "5k", "1m", "0"):
        assert read(path, table="shop.orders", metadata="full", splitSize=size) == whole
        walked = read(path, table="shop.orders", metadata="full", splitSize=size, verifySplits="true")
        assert walked == whole
    parts = plan_parts([str(path)], SourceOptions(split_size=777))
    assert len(parts) > 5
    assert all(a.split.end == b.split.start for a, b in pairwise(parts))


MB = 1 << 20


def part_of(number: int, length: int | None, *, end: bool = False) -> TaskPart:
    size, stop = (None, length) if end else (length, None)
    return TaskPart(Split(f"bin.{number:06}", end=stop, file_number=number, size=size))


def numbers_of(tasks: list[tuple[TaskPart, ...]]) -> list[list[int]]:
    return [[part.split.file_number for part in task] for task in tasks]


def test_small_logs_share_a_task() -> None:
    # Opening counts as 4 MiB: 500 of these are 2,009 MiB, of which a 32nd is 62.8 MiB, or 15 logs.
    parts = [part_of(i, 18_000) for i in range(500)]
    tasks = tasks_of_parts(parts, 128 * MB)
    assert [part for task in tasks for part in task] == parts
    assert {len(task) for task in tasks[:-1]} == {15}
    assert len(tasks) == 34
    assert [len(task) for task in tasks_of_parts(parts, 13 * MB)][:2] == [3, 3]
    for size in (None, 4 * MB):  # a log for each task was asked for; nothing fits in beside the opening
        assert numbers_of(tasks_of_parts(parts, size)) == [[i] for i in range(500)]
    many = [part_of(i, 18_000) for i in range(10_000)]
    assert len(tasks_of_parts(many, 128 * MB)) == 10_000 // 31 + 1
    # Few logs, or large ones, have a task each.
    few = [part_of(i, 10 * MB) for i in range(8)]
    assert numbers_of(tasks_of_parts(few, 128 * MB)) == [[i] for i in range(8)]
    assert tasks_of_parts([], 128 * MB) == []


def test_large_parts_and_those_of_unknown_length_have_their_own_task() -> None:
    parts = [part_of(i, 128 * MB, end=i % 2 == 0) for i in range(40)]
    parts[7:7] = [part_of(100 + i, 0) for i in range(10)]
    parts[20:20] = [part_of(200, None)]
    found = numbers_of(tasks_of_parts(parts, 128 * MB))
    assert [100 + i for i in range(10)] in found
    assert [200] in found
    assert [number for task in found for number in task] == [part.split.file_number for part in parts]
    assert sum(len(task) > 1 for task in found) == 1


def test_a_plan_has_the_lengths_of_logs(tmp_path: Path) -> None:
    paths = [orders(tmp_path, f"bin.{number:06}", number) for number in (1, 30)]
    sizes = [path.stat().st_size for path in paths]
    parts = plan_parts([str(tmp_path)], SourceOptions(split_size=sizes[1] - 1))
    assert [part.split.length for part in parts] == [sizes[0], sizes[1] // 2, sizes[1] - sizes[1] // 2]
    assert parts[0].split.whole
    (packed := tmp_path / "packed").mkdir()
    (packed / "bin.000001.gz").write_bytes(gzip.compress(paths[1].read_bytes()))
    (one,) = plan_parts([str(packed)], SourceOptions(split_size=100))
    assert one.split.whole
    assert one.split.length == (packed / "bin.000001.gz").stat().st_size
    (one,) = plan_parts([str(packed)], SourceOptions(split_size=None))
    assert one.split.length is None


def test_file_numbers_and_epochs_order_logs(tmp_path: Path) -> None:
    path = orders(tmp_path, "plain.log", 1)
    assert read(path, table="shop.orders")[0]["_commit_version"] >> 40 == 1
    assert read(path, table="shop.orders", fileNumber="9")[0]["_commit_version"] >> 40 == 9
    assert (
        read(path, table="shop.orders", fileNumber="9", epoch="3")[0]["_commit_version"] >> 40
        == (3 << 16) + 9
    )
    with pytest.raises(BinlogError, match=r"with an epoch"):
        read(path, table="shop.orders", fileNumber="65536", epoch="1")


def test_times_and_offsets_cut(tmp_path: Path) -> None:
    path = orders(tmp_path)
    whole = read(path, table="shop.orders", metadata="_position")
    late = read(path, table="shop.orders", startTime="1700000011", endTime="2023-11-14T22:13:41")
    assert [row["id"] for row in late] == list(range(20, 40))
    offset = whole[30]["_commit_version"] & (1 << 40) - 1
    rest = read(path, table="shop.orders", startOffset=f"bin.000007:{offset}", metadata="_position")
    assert rest == whole[30:]
    as_json = json.dumps({"file": "bin.000007", "position": offset})
    assert read(path, table="shop.orders", startOffset=as_json, metadata="_position") == rest
    with pytest.raises(BinlogError, match=r"no log 'bin.000009'"):
        read(path, table="shop.orders", startOffset="bin.000009:4")


def test_versions_of_a_part_reach_to_the_commits_of_its_xa_transactions() -> None:
    log = 7 << 40
    assert TaskPart(Split("bin.000007", 100, 200, 7)).versions == (log + 100, log + 200)
    assert TaskPart(Split("bin.000007", 100, None, 7)).versions == (log + 100, 8 << 40)
    ends = (Prepared(100, log + 900, 0), Prepared(110, None, 0), Prepared(120, 5, 0))
    assert TaskPart(Split("bin.000007", 100, 200, 7), prepared=ends).versions == (5, log + 901)


def test_logs_of_splits() -> None:
    splits = [Split("a", 0, 10, 1, 0), Split("a", 10, None, 1, 1), Split("b", 0, None, 2, 2)]
    assert whole_logs(splits) == [Split("a", 0, None, 1, 0), Split("b", 0, None, 2, 1)]
    check_numbers(whole_logs(splits), "an export")
    check_numbers([Split("s1/bin.000009", file_number=9), Split("s2/bin.000001", file_number=65537)], "x")
    gap = [Split("in/bin.000001", file_number=1), Split("in/bin.000003", file_number=3)]
    with pytest.raises(BinlogError, match=r"missing between this one and bin.000003: an export would lose"):
        check_numbers(gap, "an export")


def test_a_log_is_found_by_its_path_or_name() -> None:
    splits = [Split("/in/bin.000001"), Split("/in/bin.000002.zst"), Split("/in/bin.000003")]
    names = ("bin.000001", "bin.000002", "/in/bin.000003")
    assert [index_of(splits, name) for name in names] == [0, 1, 2]
    with pytest.raises(BinlogError, match=r"no log 'bin.000004'.*purged"):
        index_of(splits, "bin.000004")
