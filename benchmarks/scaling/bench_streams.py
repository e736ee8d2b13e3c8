"""A stream's offsets at two sizes: CPU time a log of planning a micro-batch, and bytes a table.

Each micro-batch lists the logs; with ``schema=ddl`` its offset has the definitions of all tables, which Spark
writes with each.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bench_plans import folder_of
from growth import MOST, cost, growth_of
from measure import LINES
from support.writer import Log

from binlog_core.lake.plan.ranges import LogRanges, offset_of
from binlog_core.lake.rows.source_options import SourceOptions

LOGS = (500, 5_000)
TABLES = (200, 2_000)
OFFSET_BYTES = 500  # of a table


def latest(folder: Path, **options: str) -> Any:
    """The first offset of a stream, and the latest after it."""
    ranges = LogRanges(SourceOptions.parse(options), [str(folder)])
    logs = ranges._logs()
    start = offset_of(logs, (0, 0), ranges._follow(logs, None, (0, 0)).kept)
    return ranges._later(start, None)


def test_offsets_in_many_logs(tmp_path: Path) -> None:
    folders = [folder_of(tmp_path, logs) for logs in LOGS]
    for folder, logs in zip(folders, LOGS, strict=True):
        assert latest(folder)["file"] == f"bin.{logs:06}"
    plans = [partial(cost, partial(latest, folder)) for folder in folders]
    large, growth = growth_of(plans, LOGS)
    LINES["streams"].append(
        f"the latest offset of {LOGS[1]:,} logs: {large * 1e6:.0f} us CPU a log, {growth:.2f} of {LOGS[0]:,}"
    )
    assert growth <= MOST


def definitions_log(folder: Path, tables: int) -> Path:
    (folder := folder / f"t{tables}").mkdir()
    log = Log("8.0.36")
    for i in range(tables):
        columns = "id INT PRIMARY KEY, name VARCHAR(20), n BIGINT, at DATETIME, d DECIMAL(9,2)"
        log.query(f"CREATE TABLE orders_{i:05} ({columns}) CHARSET utf8mb4", "shop")
    (folder / "bin.000001").write_bytes(log.getvalue())
    return folder


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_offsets_with_many_tables(tmp_path: Path) -> None:
    sizes = []
    for tables in TABLES:
        offset = latest(definitions_log(tmp_path, tables), schema="ddl")
        sizes.append(len(json.dumps(offset)) / tables)
    LINES["streams"].append(
        f"an offset with {TABLES[1]:,} definitions: {sizes[1]:.0f} bytes a table,"
        f" {sizes[1] / sizes[0]:.2f} of {TABLES[0]:,}"
    )
    assert sizes[1] <= MOST * sizes[0]
    assert sizes[1] < OFFSET_BYTES
