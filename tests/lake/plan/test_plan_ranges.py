"""Ranges of growing logs: their places and parts, and what of Spark they need."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import orders

import binlog_core.spark
from binlog_core.lake.plan.ranges import LogRanges, offset_of, place_of
from binlog_core.lake.rows.source_options import SourceOptions


@pytest.mark.parametrize("most", [1, 700, 5000, None])
def test_steps_lead_over_all_logs_and_their_parts_are_one_after_another(
    tmp_path: Path, most: int | None
) -> None:
    sizes = [orders(tmp_path, f"bin.{i:06}", count=i).stat().st_size for i in (1, 2, 3)]
    ranges = LogRanges(SourceOptions(schema="ddl", xa="committed"), [str(tmp_path)])
    logs = ranges._logs()
    offsets = [offset_of(logs, (0, 0), ranges._follow(logs, None, (0, 0)).kept)]
    while (later := ranges._later(offsets[-1], most)) != offsets[-1]:
        offsets.append(later)
    assert most != 1 or len(offsets) > 6  # transactions
    assert most is not None or len(offsets) == 2
    assert place_of(logs, offsets[-1]) == (2, sizes[2])
    ends: dict[int, int] = {}
    for start, end in pairwise(offsets):
        for part in ranges._parts(start, end):
            number, split = part.split.file_number, part.split
            assert split.start == ends.get(number, 0) and split.end is not None
            ends[number] = split.end
    assert ends == dict(enumerate(sizes, 1))


_ALL_BUT_STREAMS = """
import importlib, pkgutil, sys
import binlog_core.spark
sys.modules["binlog_core.spark.streaming"] = None
for module in pkgutil.walk_packages(binlog_core.spark.__path__, "binlog_core.spark."):
    if not module.name.endswith(".streaming"):
        importlib.import_module(module.name)
"""


def test_only_streams_need_more_of_spark_than_4_0_has() -> None:
    """Spark 4.2 has brought this module; mirrors, among others, run on 4.0."""
    sources = Path(binlog_core.spark.__path__[0]).rglob("*.py")
    having = [path.name for path in sources if "pyspark.sql.streaming.datasource" in path.read_text("utf-8")]
    assert having == ["streaming.py"]
    subprocess.run([sys.executable, "-c", _ALL_BUT_STREAMS], check=True)
