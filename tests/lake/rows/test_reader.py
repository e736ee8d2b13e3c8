"""read_split: the golden logs in the types of Spark, compared with the servers' truth, without Spark."""

from __future__ import annotations

import datetime as dt
import pickle
import warnings
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.golden import KNOWN_FULL, KNOWN_SCHEMA, Golden, golden_logs
from support.lake import LakeRow, as_read, lake_changes, lake_rows
from support.truth import Reader, differences, same_value
from support.writer import Log, Table

import binlog_core
from binlog_core import DecodeError, SchemaError
from binlog_core.lake.rows.observers import LoggedStatement
from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.lake.rows.reader import SplitRows
from binlog_core.spark import Split, plan_splits, read_split

pytest.importorskip("pyarrow")

ALL = golden_logs()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", binlog_core.BinlogWarning)
        yield


def rows_of(path: Path, **options: Any) -> list[LakeRow]:
    rows: list[LakeRow] = []
    for table, batch in read_split(Split(str(path), file_number=7), **options):
        batch.validate(full=True)
        rows += lake_rows(table.database, table.name, batch.to_pylist())
    return rows


@pytest.mark.parametrize("golden", ALL, ids=str)
def test_rows_hold_against_the_server(golden: Golden) -> None:
    rows = rows_of(golden.path, unnamed="positions", **golden.open_arguments)
    known = KNOWN_SCHEMA if golden.needs_schema else None
    changes = lake_changes(rows, golden)
    assert differences(changes, golden, known, Reader.ARROW, place=False) == []
    assert {row.version >> 40 for row in rows} <= {7}


@pytest.mark.parametrize("golden", [golden for golden in ALL if golden.schema], ids=str)
def test_rows_with_the_schema_given(golden: Golden) -> None:
    rows = rows_of(golden.path, **{**golden.open_arguments, "schema": golden.schema})
    known = KNOWN_FULL if golden.known == KNOWN_FULL else KNOWN_SCHEMA
    assert differences(lake_changes(rows, golden), golden, known, Reader.ARROW, place=False) == []


def test_versions_are_where_transactions_begin() -> None:
    for golden in golden_logs("*/gtid*"):
        rows = rows_of(golden.path, unnamed="positions")
        assert {row.version & (1 << 40) - 1 for row in rows} <= {position for position, _ in golden.gtids}


def test_the_comparison_sees_a_wrong_value_and_a_wrong_order() -> None:
    golden = golden_logs("mysql97/types_ints")[0]
    rows = rows_of(golden.path)
    rows[0].ordinal, rows[1].ordinal = rows[1].ordinal, rows[0].ordinal
    assert differences(lake_changes(rows, golden), golden, None, Reader.ARROW, place=False)
    rows = rows_of(golden.path)
    name = next(name for name, value in rows[0].values.items() if type(value) is int)
    rows[0].values[name] += 1
    assert differences(lake_changes(rows, golden), golden, None, Reader.ARROW, place=False)


# ------------------------------------------------------------------ written logs


def two_tables() -> tuple[Table, Table]:
    a = Table("shop", "a", [("id", "INT"), ("text", "VARCHAR(20)")])
    b = Table("shop", "b", [("id", "BIGINT UNSIGNED")])
    return a, b


@pytest.mark.parametrize("golden", golden_logs("*/image_minimal*"), ids=str)
def test_images_after_only(golden: Golden) -> None:
    rows = rows_of(golden.path, images="after", unnamed="positions", schema=golden.schema)
    rows.sort(key=lambda row: (row.version, row.ordinal))
    expected = {"insert": "insert", "update": "update_postimage", "delete": "delete"}
    assert [row.kind for row in rows] == [expected[truth["op"]] for truth in golden.truth]
    filled = 0
    for number, (row, truth) in enumerate(zip(rows, golden.truth, strict=True)):
        if truth["op"] != "update" or "after_cols" not in truth:
            continue
        # A column that only the preimage has comes from there.
        before = truth.get("before_cols", range(len(row.values)))
        for i in set(before) - set(truth["after_cols"]):
            name, column = list(golden.columns_of(number).items())[i]
            value = as_read(list(row.values.values())[i], column, truth["before"][name])
            assert same_value(value, truth["before"][name], column, KNOWN_SCHEMA, reader=Reader.ARROW)
            filled += 1
    assert filled


def test_selected_tables_and_columns(tmp_path: Path) -> None:
    a, b = two_tables()
    log = Log("8.0.36")
    log.begin()
    log.insert(a, [{"id": 1, "text": "x"}])
    log.insert(b, [{"id": 2}])
    log.commit()
    path = tmp_path / "one.log"
    path.write_bytes(log.getvalue())
    got = list(read_split(Split(str(path)), tables="shop.a", columns={"shop.a": ["text"]}))
    assert [table.name for table, _ in got] == ["a"]
    assert got[0][1].schema.names[0] == "text"
    assert got[0][1].num_columns == 5


def test_columns_without_names_are_refused() -> None:
    golden = golden_logs("mysql97/meta_minimal")[0]
    with pytest.raises(SchemaError, match='unnamed="positions"') as caught:
        list(read_split(Split(str(golden.path))))
    assert caught.value.path == str(golden.path)
    assert caught.value.offset in golden.row_positions
    assert caught.value.table is not None


def test_a_column_called_like_a_change_column(tmp_path: Path) -> None:
    log = Log("8.0.36")
    log.begin()
    log.insert(Table("d", "t", [("_Change_Type", "INT")]), [{"_Change_Type": 1}])
    log.commit()
    path = tmp_path / "one.log"
    path.write_bytes(log.getvalue())
    with pytest.raises(SchemaError) as caught:
        list(read_split(Split(str(path))))
    assert caught.value.column == "_Change_Type"


def test_decimals_above_38_digits_have_all_their_digits(tmp_path: Path) -> None:
    values = [Decimal("0E-30"), Decimal("1E-30"), Decimal("-1.5"), Decimal("9" * 35 + "." + "9" * 30)]
    log = Log("8.0.36")
    log.begin()
    log.insert(Table("d", "t", [("n", "DECIMAL(65,30)")]), [{"n": value} for value in values])
    log.commit()
    path = tmp_path / "one.log"
    path.write_bytes(log.getvalue())
    ((_, batch),) = read_split(Split(str(path)))
    assert batch["n"].to_pylist() == [
        "0." + 30 * "0",
        "0." + 29 * "0" + "1",
        "-1.5" + 29 * "0",
        35 * "9" + "." + 30 * "9",
    ]


def test_damage_is_reported_after_the_rows_before_it(tmp_path: Path) -> None:
    golden = golden_logs("mysql97/types_ints")[0]
    data = bytearray(golden.data)
    position = max(golden.row_positions)
    data[position + 25] ^= 0xFF
    path = tmp_path / "damaged.log"
    path.write_bytes(data)
    reader = read_split(Split(str(path)))
    rows = 0
    with pytest.raises(DecodeError) as caught:
        for _, batch in reader:
            rows += batch.num_rows
    assert (caught.value.path, caught.value.offset) == (str(path), position)
    assert rows > 0
    reader = read_split(Split(str(path)), on_error="skip")
    assert sum(batch.num_rows for _, batch in reader) == rows
    assert reader.report.skipped_events == 1


def test_a_cut_log_ends_cleanly(tmp_path: Path) -> None:
    golden = golden_logs("mysql97/types_ints")[0]
    position = max(golden.row_positions)
    path = tmp_path / "cut.log"
    path.write_bytes(golden.data[: position + 25])
    reader = read_split(Split(str(path)))
    assert sum(batch.num_rows for _, batch in reader) > 0
    assert reader.tail is not None
    assert reader.tail.offset == reader.end_position == position


@pytest.mark.parametrize("size", [700, 5000])
def test_parts_of_a_log_are_the_log(size: int) -> None:
    golden = golden_logs("mysql97/types_ints")[0]
    parts = plan_splits(golden.path, size)
    assert len(parts) > 1
    rows = [row for part in parts for _, batch in read_split(part) for row in batch.to_pylist()]
    (whole,) = plan_splits(golden.path)
    assert rows == [row for _, batch in read_split(whole) for row in batch.to_pylist()]


def test_splits_travel() -> None:
    split = Split("x.000001", file_number=1, index=3)
    assert pickle.loads(pickle.dumps(split)) == split
    assert split.version_base == 1 << 40


def test_commit_timestamps(tmp_path: Path) -> None:
    a, _ = two_tables()
    log = Log("8.0.36", timestamp=1_600_000_000)
    log.gtid("00000000-0000-0000-0000-000000000001", 1, commit_time=1_600_000_001_234_567)
    log.begin()
    log.insert(a, [{"id": 1, "text": None}])
    log.commit()
    log.begin()  # no GTID: the time of the first event
    log.timestamp += 5
    log.insert(a, [{"id": 2, "text": None}])
    log.commit()
    path = tmp_path / "one.log"
    path.write_bytes(log.getvalue())
    ((_, batch),) = read_split(Split(str(path)))
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    moments = [moment - epoch for moment in batch["_commit_timestamp"].to_pylist()]
    assert moments == [
        dt.timedelta(seconds=1_600_000_001, microseconds=234_567),
        dt.timedelta(seconds=1_600_000_000),
    ]


def test_what_came_in_an_earlier_log_of_an_archive_is_left_out(tmp_path: Path) -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    table = Table("d", "t", [("id", "INT")])
    log = Log("8.0.36")
    log.previous_gtids()
    for number in range(1, 6):
        log.gtid(uuid, number)
        log.begin()
        log.insert(table, [{"id": number}])
        log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    (split,) = plan_splits(path)
    again = replace(split, before=f"{uuid}:1-3")
    found = [row["id"] for _, batch in read_split(again) for row in batch.to_pylist()]
    assert found == [4, 5]


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE t", "DROP TABLE t", "DELETE FROM t"])
def test_what_came_in_an_earlier_log_of_an_archive_is_not_executed_again(
    tmp_path: Path, statement: str
) -> None:
    """Of the server that takes over, the archive has the whole log: a lake was emptied by an old TRUNCATE."""
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    log = Log("8.0.36")
    log.previous_gtids()
    for number in (1, 2, 3):
        log.gtid(uuid, number)
        log.query(statement, "d")
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    (split,) = plan_splits(path)
    options = ReadOptions(statements=True)
    for before, count in ((None, 3), (f"{uuid}:1-2", 1), (f"{uuid}:1-3", 0)):
        rows = SplitRows(replace(split, before=before), options)
        assert [one.sql for one in rows.pieces() if isinstance(one, LoggedStatement)] == [statement] * count
        assert rows.report.statement_changes == count * statement.startswith("DELETE")
