"""Streams over a growing directory: offsets at transactions, limits, restarts, every change exactly once."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.archive import FakeServer
from support.golden import DATA
from support.lake_tables import plain
from support.writer import Log, Table

from binlog_core.archive.archiver import Archiver
from binlog_core.archive.keeper import Keeper

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from binlog_core import BinlogError, SchemaError
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.spark.changes import ChangeReader, infer_schema
from binlog_core.spark.schemas import arrow_schema, spark_schema
from binlog_core.spark.streaming import BinlogStreamReader

T = Table("shop", "t", [("id", "INT"), ("text", "VARCHAR(20)")], primary_key=["id"])


class Server:
    """Writes numbered logs as a server does: byte by byte, then the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        self.rows = 0
        self.rotate()

    def rotate(self) -> None:
        self.number += 1
        self.log = Log("8.0.36", in_use=True)
        self.boundaries = [self.log.position]
        self.flush()

    def transactions(self, count: int, rows: int = 1) -> None:
        for _ in range(count):
            self.log.begin()
            self.log.insert(T, [{"id": self.rows + i, "text": f"row {self.rows + i}"} for i in range(rows)])
            self.log.commit()
            self.rows += rows
            self.boundaries.append(self.log.position)
        self.flush()

    def flush(self, cut: int = 0) -> None:
        data = self.log.getvalue()
        self.path.write_bytes(data[: len(data) - cut])

    @property
    def path(self) -> Path:
        return self.folder / f"bin.{self.number:06}"

    @property
    def name(self) -> str:
        return self.path.name


@pytest.fixture
def server(tmp_path: Path) -> Server:
    folder = tmp_path / "logs"
    folder.mkdir()
    return Server(folder)


# ------------------------------------------------------------------ without Spark


def stream(server: Server, **options: str) -> BinlogStreamReader:
    paths = [str(server.folder)]
    parsed = SourceOptions.parse({"table": "shop.t", **options})
    schema = arrow_schema(spark_schema(infer_schema(paths, parsed)))
    return BinlogStreamReader(ChangeReader.of(parsed, schema, projected=False), paths)


def ids(reader: BinlogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [
        row["id"]
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_a_log_that_was_compressed_since_the_last_offset(server: Server) -> None:
    zstandard = pytest.importorskip("zstandard")
    server.transactions(3)
    reader = stream(server)
    begin = reader.initialOffset()
    start = reader.latestOffset(begin, ReadMaxBytes(1))
    first, path = server.log.getvalue(), server.path
    server.rotate()
    server.transactions(1)
    Path(f"{path}.zst").write_bytes(zstandard.compress(first))
    path.unlink()
    reader = stream(server)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert ids(reader, begin, start) + ids(reader, start, end) == [0, 1, 2, 3]


def test_offsets_are_the_ends_of_whole_transactions(server: Server) -> None:
    server.transactions(3)
    reader = stream(server)
    start = reader.initialOffset()
    assert start == {"file": "bin.000001", "position": 0}
    size = len(server.log.getvalue())
    for cut in range(0, size - server.boundaries[0], 7):  # the server is still writing
        server.flush(cut)
        end = reader.latestOffset(start, ReadAllAvailable())
        whole = [b for b in server.boundaries[1:] if b <= size - cut]
        assert end == (
            {"file": "bin.000001", "position": whole[-1]}
            if whole
            else {**start, "position": server.boundaries[0]}
        )
        assert ids(reader, start, end) == list(range(len(whole)))


def test_limits_rotation_and_the_same_rows_again(server: Server) -> None:
    server.transactions(20)
    server.rotate()
    server.transactions(10)
    server.rotate()  # it is still empty
    reader = stream(server, maxBytesPerTrigger="500", splitSize="300")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxBytes(500)
    offset, seen, batches = reader.initialOffset(), [], []
    while (end := reader.latestOffset(offset, limit)) != offset:
        rows = ids(reader, offset, end)
        assert ids(stream(server, splitSize="1m"), offset, end) == rows  # a restart, with another plan
        batches.append(len(rows))
        seen += rows
        offset = end
    assert seen == list(range(30))
    assert len(batches) > 5
    assert reader.reportLatestOffset() == offset
    assert ids(reader, reader.initialOffset(), offset) == seen


def test_a_transaction_above_the_limit_comes_whole(server: Server) -> None:
    server.transactions(1, rows=500)
    server.transactions(1)
    reader = stream(server)
    start = {"file": server.name, "position": server.boundaries[0]}
    end = reader.latestOffset(start, ReadMaxBytes(100))
    assert end["position"] in server.boundaries[1:]
    assert ids(reader, start, end)[:500] == list(range(500))


def test_available_now_ends(server: Server) -> None:
    server.transactions(2)
    reader = stream(server)
    reader.prepareForTriggerAvailableNow()
    target = server.boundaries[-1]
    server.transactions(2)
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["position"] == target
    # A restart whose checkpoint lies after that.
    behind = {"file": server.name, "position": server.boundaries[-1]}
    assert reader.latestOffset(behind, ReadAllAvailable()) == behind


def test_what_would_lose_changes_is_an_error(server: Server) -> None:
    server.transactions(1)
    reader = stream(server)
    offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    server.rotate()
    server.rotate()
    (server.folder / "bin.000002").unlink()
    with pytest.raises(BinlogError, match=r"logs are missing between.*bin\.000003"):
        reader.latestOffset(offset, ReadAllAvailable())
    (server.folder / "bin.000001").unlink()
    with pytest.raises(BinlogError, match=r"no log 'bin\.000001'.*purged"):
        reader.latestOffset(offset, ReadAllAvailable())
    with pytest.raises(BinlogError, match=r"not the log that was read before"):
        reader.latestOffset({"file": "bin.000003", "position": 1 << 20}, ReadAllAvailable())


def test_what_a_crash_left_open_is_not_read(server: Server) -> None:
    server.transactions(2)
    server.log.begin()
    server.log.insert(T, [{"id": 99, "text": "lost"}])
    server.flush()
    server.rotate()
    server.transactions(1)
    reader = stream(server)
    start = reader.initialOffset()
    assert ids(reader, start, reader.latestOffset(start, ReadAllAvailable())) == [0, 1, 2]


def test_a_fresh_start_refuses_columns_that_no_definition_has(server: Server) -> None:
    paths = [str(server.folder)]
    parsed = SourceOptions.parse({"table": "shop.t"})

    def begin(*names: str) -> dict[str, Any]:
        changes = ChangeReader.of(parsed, pa.schema([(name, pa.int32()) for name in names]), projected=True)
        return BinlogStreamReader(changes, paths).initialOffset()

    begin("id", "idd")  # no rows yet: the schema is not known
    server.transactions(1)
    begin("id")
    with pytest.raises(SchemaError, match="no definition in the logs has the columns idd"):
        begin("id", "idd")


# ------------------------------------------------------------------ Spark


@pytest.fixture(scope="module", autouse=True)
def workers_know_what_is_here() -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests


@pytest.mark.spark
def test_every_change_once_in_parquet(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def run(**options: str) -> list[Any]:
        frame = spark.readStream.format("binlog").options(table="shop.t", **options).load(str(server.folder))
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(out)
        query.awaitTermination()
        return list(query.recentProgress)

    def stored() -> list[int]:
        return sorted(row[0] for row in spark.read.parquet(out).select("id").collect())

    server.transactions(20)
    server.rotate()
    server.transactions(5)
    server.flush(cut=20)
    progress = run(maxBytesPerTrigger="1k")
    assert stored() == list(range(24))
    assert sum(one["numInputRows"] for one in progress) == 24
    assert len([one for one in progress if one["numInputRows"]]) > 1
    source = progress[-1]["sources"][0]
    assert json.loads(source["latestOffset"]) == json.loads(source["endOffset"])  # no lag left
    server.flush()
    server.rotate()
    server.transactions(3)
    run()
    assert stored() == list(range(28))
    run()
    assert stored() == list(range(28))


@pytest.mark.spark
@pytest.mark.parametrize("quiet", [False, True])
def test_a_restart_after_a_purge(spark: SparkSession, server: Server, tmp_path: Path, quiet: bool) -> None:
    """The log of startOffset is gone, and those that are left may have no row of the table."""
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    server.transactions(5)

    def run() -> None:
        frame = spark.readStream.format("binlog").options(
            table="shop.t", startOffset=f"bin.000001:{server_start}"
        )
        writer = frame.schema("id INT").load(str(server.folder)).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start(out).awaitTermination()

    server_start = server.boundaries[2]
    run()
    server.rotate()
    run()  # the checkpoint continues to the new log
    (server.folder / "bin.000001").unlink()
    if not quiet:
        server.transactions(2)
    run()
    wanted = list(range(2, 5 if quiet else 7))
    assert sorted(row[0] for row in spark.read.parquet(out).collect()) == wanted


@pytest.mark.spark
def test_a_failing_foreach_batch_gets_the_same_batch_again(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.transactions(6)
    out, checkpoint = tmp_path / "out", str(tmp_path / "checkpoint")
    failures = [1]
    asked: list[tuple[int, int]] = []

    def store(batch: DataFrame, number: int) -> None:
        asked.append((number, batch.count()))
        # A batch's directory is replaced: by its number it is there once.
        batch.write.mode("overwrite").parquet(f"{out}/batch={number}")
        if failures:
            failures.pop()
            raise RuntimeError("the sink fails after it has written")

    def run() -> None:
        frame = spark.readStream.format("binlog").option("table", "shop.t").load(str(server.folder))
        writer = frame.writeStream.foreachBatch(store).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match=r"the sink fails"):
        run()
    server.transactions(4)  # the repeated batch does not grow
    run()
    assert asked[0] == asked[1] == (0, 6)
    assert sorted(row[0] for row in spark.read.parquet(str(out)).select("id").collect()) == list(range(10))


@pytest.mark.spark
def test_a_worker_that_is_killed_in_a_batch(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.transactions(30, rows=20)
    out, marker = str(tmp_path / "out"), str(tmp_path / "killed")

    def kill_once(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import signal
        from pathlib import Path

        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            if not os.path.exists(marker):
                open(marker, "w").close()
                daemon = os.getppid()
                for status in Path("/proc").glob("[0-9]*/stat"):
                    if int(status.read_text().rpartition(")")[2].split()[1]) == daemon:
                        os.kill(int(status.parent.name), signal.SIGKILL)  # the source's worker, and this one
            yield batch.slice(batch.num_rows // 2)

    frame = spark.readStream.format("binlog").option("table", "shop.t").load(str(server.folder))
    writer = frame.select("id").mapInArrow(kill_once, "id int").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start(out).awaitTermination()
    assert os.path.exists(marker)
    assert sorted(row[0] for row in spark.read.parquet(out).collect()) == list(range(600))


@pytest.mark.spark
def test_a_table_follows_a_server_through_failures(spark: SparkSession, tmp_path: Path) -> None:
    """Changes, DDL and a sink that fails after its commit: in Delta each batch is applied once."""
    delta = pytest.importorskip("deltalake")
    from binlog_core.spark import Applied, apply_changes

    logs = DATA / "apply" / "maria118"
    states = json.loads((logs / "truth.json").read_text())["states"]
    folder, target = tmp_path / "logs", str(tmp_path / "target")
    folder.mkdir()
    for name in states:
        shutil.copy(logs / name, folder)
    told: list[Applied] = []
    failures = [1, 3]

    def merge(batch: DataFrame, number: int) -> None:
        told.append(apply_changes(batch, target, on_drop="empty", app_id="w", batch_id=number))
        if number in failures:
            failures.remove(number)
            raise RuntimeError("the sink fails behind its commit")

    def run() -> None:
        reader = spark.readStream.format("binlog").options(
            table="w.t", ddl="rows", absent="true", mergeSchema="true", maxBytesPerTrigger="8k"
        )
        # With it an ALTER is compared with the definition before: without, each CHANGE stops the apply.
        frame = reader.option("schema", "ddl").load(str(folder))
        writer = frame.writeStream.foreachBatch(merge).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        writer.trigger(availableNow=True).start().awaitTermination()

    for _ in range(2):
        with pytest.raises(Exception, match=r"the sink fails"):
            run()
    run()
    assert [one.skipped for one in told].count(True) == 2
    assert len(told) > 5
    (*_, state) = states.values()
    rows = delta.DeltaTable(target).to_pyarrow_table().to_pylist()
    rows.sort(key=lambda row: (row["id"], row["k"]))
    assert [plain({name: row[name] for name in state[0]}) for row in rows] == state


@pytest.mark.spark
def test_an_archive_over_a_failover_and_a_reset(spark: Any, tmp_path: Path) -> None:
    folder, out, checkpoint = (str(tmp_path / name) for name in ("archive", "out", "checkpoint"))

    def keep(server: FakeServer) -> None:
        Archiver(server.connect, folder, keeper=Keeper(), until_now=True).run()
        frame = spark.readStream.format("binlog").option("table", "shop.orders").load(folder)
        writer = frame.select("id", "_commit_version").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start(out).awaitTermination()

    first = FakeServer()
    second = FakeServer(uuid=first.uuid.replace("3e", "4e"), server_id=2)
    for number in range(1, 6):
        first.transaction()
        second.transaction(gtid=(first.uuid, number), key=number)
    second.next_id = 6
    keep(first)
    second.transaction()
    second.rotate()
    second.transaction()
    keep(second)
    second.reset()
    second.transaction()
    keep(second)
    second.transaction()
    keep(second)
    rows = spark.read.parquet(out).orderBy("_commit_version").collect()
    assert [row["id"] for row in rows] == list(range(1, 10))
    batch = spark.read.format("binlog").option("table", "shop.orders").load(folder)
    assert sorted(row["id"] for row in batch.select("id").collect()) == list(range(1, 10))
