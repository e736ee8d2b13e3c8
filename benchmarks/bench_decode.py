"""Decoding the seeded logs into arrays, Arrow, pandas, Python rows and JSON; each answer is checked first.

The generators' docstrings describe sizes and shapes; the closing table has the ratio to zlib.crc32.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logs import MEMORY_WORKLOADS, WORKLOADS, BenchLog, bench_log, megabytes
from measure import FLOORS, measure, measure_memory
from reference import read_log

import binlog_core

ROWS_MB = 8  # Python objects and DataFrames take long: a smaller log shows as much
MOST_MEMORY = 64e6  # of a group of batches and what it takes to decode it, whatever the log's size
UPDATE_PREIMAGE = 2


def check_answer(log: BenchLog) -> None:
    """Rows, images, tables, and sums over whole columns are those that the generator counted."""
    answer = log.answer
    rows = images = 0
    tables = set()
    sums: Counter[str] = Counter()
    lengths: Counter[str] = Counter()
    with binlog_core.open(log.path) as source:
        for batch in source.batches():
            image, row = batch.array["image"], batch.array["row"]
            tables.add(batch.table.full_name)
            images += len(image)
            rows += len(image) - int(np.count_nonzero(image["op"] == UPDATE_PREIMAGE))
            for column in batch.columns:
                name = f"{batch.table.full_name}.{column.name}"
                if name in answer.sums:
                    sums[name] += int(row[column.name].sum())
                if name in answer.bytes:
                    lengths[name] += int(row[column.name]["length"].sum())
    assert (rows, images, len(tables)) == (answer.rows, answer.images, answer.tables)
    assert dict(sums) == answer.sums
    assert dict(lengths) == answer.bytes


@pytest.fixture(scope="module", params=list(WORKLOADS))
def log(request: pytest.FixtureRequest) -> BenchLog:
    made = bench_log(request.param)
    check_answer(made)
    return made


@pytest.fixture(scope="module", params=list(WORKLOADS))
def small_log(request: pytest.FixtureRequest) -> BenchLog:
    made = bench_log(request.param, min(megabytes(), ROWS_MB))
    check_answer(made)
    return made


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_generator(name: str) -> None:
    """What a generator counts is what the reference decoder finds in a log of 1 MB."""
    log = bench_log(name, 1)
    images = [
        i for change in read_log(log.path.read_bytes()).changes for i in (change.before, change.after) if i
    ]
    assert len(images) == log.answer.images
    for full_name, total in log.answer.sums.items():
        column = full_name.rpartition(".")[2]
        values = [image[column] for image in images if column in image]
        scale = 100 if column == "l_extendedprice" else 1  # sums of decimals are unscaled
        if log.answer.tables == 1:
            assert sum(values) * scale == total


@pytest.mark.parametrize("checksum", [False, True], ids=["no-checksum", "checksum"])
def test_arrays(benchmark: Any, log: BenchLog, checksum: bool) -> None:
    def decode() -> None:
        with binlog_core.open(log.path, verify_checksum=checksum) as source:
            for _ in source.batches():
                pass

    what = "arrays, checksum" if checksum else "arrays"
    result = measure(benchmark, log, what, decode)
    floor = FLOORS.get((log.name, what))
    if result and floor:
        # Machines differ: only a loop of the wrong shape fails here; the closing table shows the rest.
        assert result.ratio >= floor / 4


def test_arrow(benchmark: Any, log: BenchLog) -> None:
    pytest.importorskip("pyarrow")

    def decode() -> None:
        with binlog_core.open(log.path, verify_checksum=False) as source:
            for batch in source.batches():
                batch.to_arrow()

    measure(benchmark, log, "arrow", decode)


def test_rows(benchmark: Any, small_log: BenchLog) -> None:
    def decode() -> None:
        with binlog_core.open(small_log.path, verify_checksum=False) as source:
            for _ in source.rows():
                pass

    measure(benchmark, small_log, "rows()", decode, most_rounds=3)


@pytest.mark.parametrize("form", ["jsonl", "debezium"])
def test_json(benchmark: Any, small_log: BenchLog, form: str) -> None:
    """Lines as `binlog-core rows` writes them, into nothing."""
    pytest.importorskip("typer")
    from binlog_core.cli.writers import DebeziumWriter, JsonWriter, Writer

    def decode() -> None:
        with (
            binlog_core.open(small_log.path, verify_checksum=False) as source,
            open(os.devnull, "wb", buffering=0) as nothing,
        ):
            writer: Writer = (
                JsonWriter(nothing, source.report, skip_errors=False)
                if form == "jsonl"
                else DebeziumWriter(nothing, source.report, skip_errors=False, mariadb=True)
            )
            for group in source.groups():
                writer.write(group)

    measure(benchmark, small_log, form, decode, most_rounds=9)


def test_pandas(benchmark: Any, small_log: BenchLog) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")

    def decode() -> None:
        with binlog_core.open(small_log.path, verify_checksum=False) as source:
            for batch in source.batches():
                batch.to_pandas()

    measure(benchmark, small_log, "pandas", decode, most_rounds=1)  # pandas takes nearly all of it


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read RssAnon from")
@pytest.mark.parametrize("name", list(MEMORY_WORKLOADS))
def test_memory(name: str) -> None:
    """Peak anonymous memory of decoding into arrays is bounded, even if the log is one transaction."""
    assert measure_memory(bench_log(name)).taken < MOST_MEMORY


def test_headers(benchmark: Any, log: BenchLog) -> None:
    """The header walk alone."""

    def walk() -> None:
        with binlog_core.open(log.path, verify_checksum=False) as source:
            source.headers()

    measure(benchmark, log, "headers()", walk)
