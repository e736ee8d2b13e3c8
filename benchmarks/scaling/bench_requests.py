"""Requests to an object store with two numbers of logs: of planning, of an export, and of its second stage.

The store is a local one that speaks S3, and counts what comes to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from growth import MOST
from measure import LINES
from support.s3 import CREDENTIALS, client_of, store
from support.source import orders
from support.writer import Log, Table

from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.lake.runner import HERE, LocalRunner
from binlog_core.lake.tables.merging import TableWriter
from binlog_core.lake.tables.parquet import ParquetDirectory
from binlog_core.lake.tables.split_writer import SplitWriter
from binlog_core.lake.tables.staged import StagedWriter
from binlog_core.lake.tables.writer import WriteLimits
from binlog_core.spark import export_logs
from binlog_core.splits import plan_splits

LOGS = (10, 40)
TABLES, TABLES_OF_TASK = 12, 3


class Store:
    """A bucket with two folders of logs, and the requests that it has got."""

    def __init__(self, endpoint: str, told: Path, folder: Path) -> None:
        self._told, self._seen = told, 0
        self.options = {**CREDENTIALS, "endpoint_override": endpoint}
        client = client_of(endpoint)
        log = orders(folder, "one.000001", 200).read_bytes()
        for count in LOGS:
            for number in range(1, count + 1):
                client.put_object(Bucket="logs", Key=f"{count}/bin.{number:06}", Body=log)
        self.new()

    def new(self) -> Counter[str]:
        """The requests since the last call, by method."""
        lines = self._told.read_text().splitlines()
        found, self._seen = lines[self._seen :], len(lines)
        return Counter(line.split('"')[1].split()[0] for line in found if '"' in line)


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Store]:
    pytest.importorskip("pyarrow")
    told = tmp_path / "requests"
    with store("logs", told) as endpoint:
        yield Store(endpoint, told, tmp_path)


def test_requests(counted: Store) -> None:
    reading = ReadOptions(storage_options=counted.options)
    for what in ("planning", "export"):
        each = []
        for count in LOGS:
            logs = f"s3://logs/{count}"
            if what == "planning":
                assert len(plan_splits(logs, 1 << 20, storage_options=counted.options)) == count
            else:
                output = f"s3://logs/out{count}"
                done = export_logs(
                    logs,
                    output,
                    options=reading,
                    output_options=counted.options,
                    split_size=0,
                    runner=LocalRunner(),
                )
                assert len(done.splits) == count
            each.append({method: number / count for method, number in counted.new().items()})
        small, large = each
        said = ", ".join(f"{number:.1f} {method}" for method, number in sorted(large.items()))
        LINES["requests"].append(f"{what} of {LOGS[1]} logs of one table: {said} a log")
        assert sum(large.values()) <= MOST * sum(small.values())


def tables_log() -> bytes:
    log = Log("8.0.36")
    for i in range(TABLES):
        log.begin()
        log.insert(Table("shop", f"t{i}", [("id", "INT")], primary_key=["id"]), [{"id": 1}, {"id": 2}])
        log.commit()
    return log.getvalue()


def test_requests_of_the_second_stage(counted: Store, tmp_path: Path) -> None:
    reads, log = [], tables_log()
    for count in LOGS:
        (folder := tmp_path / f"in{count}").mkdir()
        for number in range(1, count + 1):
            (folder / f"bin.{number:06}").write_bytes(log)
        into = ParquetDirectory(f"s3://logs/two{count}", "run", storage_options=counted.options)
        into.begin()
        common = {"storage_options": counted.options}
        staging = SplitWriter(into.staging, ReadOptions(absent=True), parts=StagedWriter, **common)
        staged = [staging.write(split, "a0") for split in plan_splits(folder)]
        limits = WriteLimits(open_files=TABLES_OF_TASK)
        counted.new()
        assert (
            len(list(TableWriter(into.staging, limits=limits, **common).merged(staged, HERE, HERE) or ()))
            == TABLES
        )
        found = counted.new()
        reads.append(found["GET"] + found["HEAD"])
        into.abort()
    each = (reads[1] - reads[0]) / (LOGS[1] - LOGS[0])
    tasks = TABLES // TABLES_OF_TASK
    LINES["requests"].append(
        f"second stage, {tasks} tasks of {LOGS[1]} splits: {each:.1f} GET and HEAD a split"
    )
    assert each <= 3 + 2 * tasks  # its index once; of each task, HEAD and GET
