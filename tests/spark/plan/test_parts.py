"""Parts of logs: in whatever parts they are read, the rows, their order and their numbers are the same."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import GTIDS, orders, read  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core.spark.options import SourceOptions  # noqa: E402
from binlog_core.spark.plan.parts import plan_parts  # noqa: E402


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
