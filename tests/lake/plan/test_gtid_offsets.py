"""``startOffset`` as GTIDs, in queries and streams: what comes is what the writer's list has behind them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.gtid_logs import UUID, archive, classic, in_innodb, made, of_mariadb, of_mysql, position_in
from support.source import read

from binlog_core import BinlogError, GtidError
from binlog_core._sources.timeline import FAILOVER, RESET
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.spark.changes import ChangeReader, infer_schema
from binlog_core.spark.schemas import arrow_schema, spark_schema
from binlog_core.spark.streaming import BinlogStreamReader

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def ids_of(folder: Path, start: str, **options: str) -> list[int]:
    options = {"schema": "ddl", "schemaStart": str(definition(folder)), "table": "shop.orders", **options}
    return [row["id"] for row in read(folder, startOffset=start, **options)]


def definition(folder: Path) -> Path:
    path = folder.parent / f"{folder.name}.sql"
    path.write_text("CREATE TABLE shop.orders (id INT, note TEXT);")
    return path


def streamed(folder: Path, start: str, most: int, **options: str) -> list[int]:
    """The ids of a stream that is restarted for each micro-batch, and finds its offset in the checkpoint."""
    given = {
        "table": "shop.orders",
        "schema": str(definition(folder)),
        "startOffset": start,
        "maxBytesPerTrigger": str(most),
    }
    reader = reader_of(folder, {**given, **options})
    return continued(reader, folder, BinlogStreamReader(reader, [str(folder)]).initialOffset())[0]


def reader_of(folder: Path, options: dict[str, str]) -> ChangeReader:
    parsed = SourceOptions.parse(options)
    schema = arrow_schema(spark_schema(infer_schema([str(folder)], parsed)))
    return ChangeReader.of(parsed, schema, projected=False)


def continued(reader: ChangeReader, folder: Path, offset: Any) -> tuple[list[int], Any]:
    """The ids from an offset to the end, which is given, too."""
    found: list[int] = []
    while True:
        stream = BinlogStreamReader(reader, [str(folder)])
        end = stream.latestOffset(offset, stream.getDefaultReadLimit())
        if end == offset:
            return found, end
        for partition in stream.partitions(offset, end):
            found += [row["id"] for records in stream.read(partition) for row in records.to_pylist()]
        offset = end


@pytest.mark.parametrize("form", [classic, in_innodb])
@pytest.mark.parametrize("seed", range(3))
def test_behind_the_last_gtid_of_each_domain(form: Any, seed: int, tmp_path: Path) -> None:
    (folder := tmp_path / "logs").mkdir()
    transactions, pick = made(seed, strict=seed % 3 > 0), random.Random(seed)
    form(folder, transactions, seed)
    for size in ("0", "400"):
        text, rest = "", []
        while not text:
            text, rest = position_in(transactions, pick)
        assert ids_of(folder, text, splitSize=size) == rest
        assert streamed(folder, text, pick.choice([1, 900, 1 << 20]), splitSize=size) == rest


@pytest.mark.parametrize("vendor", [of_mysql, of_mariadb])
def test_over_a_failover(vendor: Any, tmp_path: Path) -> None:
    """The second server's log has 15 to 20 too, but they are read in the first one's."""
    folder = tmp_path / "archive"
    vendor(folder, range(1, 9))
    last = vendor(folder, range(9, 21), 8)
    vendor(folder / "timeline-2", range(15, 31), 14)
    mine = f"{UUID}:1-" if vendor is of_mysql else "0-1-1:"  # up to …
    archive(folder, (last, FAILOVER, f"{mine}20", "bin.000002"))
    for n in (1, 8, 12, 19, 20, 21, 30):
        assert ids_of(folder, f"{mine}{n}", splitSize="300") == list(range(n + 1, 31))
        assert streamed(folder, f"{mine}{n}", 1) == list(range(n + 1, 31))


@pytest.mark.parametrize("most", ["1", "1000000"])
@pytest.mark.parametrize(
    ("vendor", "start", "left"),
    [(of_mysql, f"{UUID}:1-2:13-15", [*range(3, 13), *range(16, 21)]), (of_mariadb, "0-1-5", range(6, 21))],
)
def test_a_reset_uses_the_same_gtids_again(
    vendor: Any, start: str, left: Any, most: str, tmp_path: Path
) -> None:
    """The transactions that are not read are those of the history before it."""
    folder = tmp_path / "archive"
    vendor(folder, range(1, 9))
    last = vendor(folder, range(9, 21), 8)
    given = {"table": "shop.orders", "schema": str(definition(folder)), "startOffset": start}
    archive(folder)
    reader = reader_of(folder, {**given, "maxBytesPerTrigger": most})
    first = BinlogStreamReader(reader, [str(folder)]).initialOffset()
    found, end = continued(reader, folder, first)
    assert found == list(left)
    vendor(folder / "timeline-2", range(1, 18))
    archive(folder, (last, RESET, None, "bin.000001"))
    assert continued(reader, folder, end)[0] == list(range(1, 18))
    assert continued(reader, folder, first)[0] == [*left, *range(1, 18)]


def test_gaps_of_mysql(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    of_mysql(folder, range(1, 9))
    of_mysql(folder, range(9, 21), 8)
    text = f"{UUID}:1-2:13-15"
    rest = [*range(3, 13), *range(16, 21)]
    assert ids_of(folder, text) == ids_of(folder, text, splitSize="200") == rest
    assert streamed(folder, text, 300) == rest


def test_what_is_missing_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    of_mysql(folder, range(9, 21), 8)
    with pytest.raises(BinlogError, match=f"earlier logs are needed: start= lacks {UUID}:3"):
        ids_of(folder, f"{UUID}:1-2")
    with pytest.raises(GtidError, match="vendor"):
        ids_of(folder, "0-1-5")
    for text in (f"{UUID}:1-8", "0-1-5"):
        with pytest.raises(ValueError, match="xa=committed needs startOffset=FILE:POSITION"):
            SourceOptions.parse({"table": "shop.orders", "xa": "committed", "startOffset": text})
