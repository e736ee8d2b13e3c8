"""`apply_changes` with two numbers of changes: CPU time a change."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import pytest
from growth import MOST, cost, growth_of
from logs import bench_log
from measure import LINES

pytest.importorskip("deltalake")

from binlog_core.spark import apply_changes, read_changes

MEGABYTES = (4, 20)


def test_applying_many_changes(tmp_path: Path) -> None:
    logs = [bench_log("sysbench", megabytes) for megabytes in MEGABYTES]
    changes = [read_changes(log.path, table="bench.sbtest1", ddl="rows").read_all() for log in logs]
    sizes = [table.num_rows for table in changes]

    def apply(place: int) -> float:
        with tempfile.TemporaryDirectory(dir=tmp_path) as target:
            return cost(lambda: apply_changes(changes[place], f"{target}/table"))

    apply(0)  # imports
    large, growth = growth_of([partial(apply, place) for place in (0, 1)], sizes)
    LINES["apply"].append(
        f"applying {sizes[1]:,} changes: {large * 1e6:.2f} us CPU a change, {growth:.2f} of {sizes[0]:,}"
    )
    assert growth <= MOST
