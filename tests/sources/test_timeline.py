"""The file that records which servers' logs an archive has, and how they continue."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.archive import FakeServer, archive, busy

import binlog_core
from binlog_core._sources.timeline import FAILOVER, ArchiveTimeline, Segment
from binlog_core.position import Position

SERVER = {"address": "db1:3306", "version": "8.0.36", "uuid": "a", "server_id": 1}


def test_a_timeline_that_is_not_one_is_an_error(tmp_path: Path) -> None:
    archive(busy(FakeServer(), 2), tmp_path)
    path = tmp_path / "timeline.json"
    good = json.loads(path.read_text())
    for change in (
        {"version": 2},
        {"segments": 5},
        {"segments": [good["segments"][0] | {"folder": "../x"}]},
        {"segments": [good["segments"][0] | {"seam": "other"}]},
        {"segments": [good["segments"][0] | {"until": [1]}]},
        {"segments": [good["segments"][0] | {"until": ["x", 1 << 63]}]},
        {"segments": [good["segments"][0] | {"until": ["x", float("inf")]}]},
        {"segments": [good["segments"][0] | {"until": [5, 5]}]},
        {"segments": [good["segments"][0] | {"before": 5}]},
        {"segments": [good["segments"][0] | {"before": "x"}]},
        {"segments": [good["segments"][0] | {"server": {}}]},
        {"segments": [good["segments"][0] | {"server": good["segments"][0]["server"] | {"server_id": "1"}}]},
        {"segments": [good["segments"][0] | {"folder": "a\0b"}]},
        {"segments": 2 * good["segments"]},  # each row would come twice
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(binlog_core.BinlogError, match="timeline"):
            binlog_core.open(tmp_path)
    for text in ("nothing", "[" * 200_000):
        path.write_text(text)
        with pytest.raises(binlog_core.BinlogError, match="timeline"):
            binlog_core.open(tmp_path)
    with pytest.raises(ValueError, match="position"):
        Position.parse("[" * 200_000)


def test_segments_follow_on_each_other() -> None:
    first = Segment("", SERVER, "2026-01-02T03:04:05Z")
    second = Segment(
        "timeline-2",
        SERVER | {"uuid": "b"},
        "2026-01-03T00:00:00Z",
        FAILOVER,
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
    )
    timeline = ArchiveTimeline().begin(first)
    assert ArchiveTimeline().last is None and timeline.last == first
    timeline = timeline.begin(second, until=("bin.000003", 157)).settle("bin.000002")
    assert timeline.segments == (
        replace(first, until=("bin.000003", 157)),
        replace(second, settled="bin.000002"),
    )
    assert ArchiveTimeline.parse(timeline.to_bytes(), "x") == timeline
    with pytest.raises(binlog_core.BinlogError, match="version 2: expected 1"):
        ArchiveTimeline.parse(b'{"version": 2, "segments": []}', "x")
