"""Rows that their transaction undid are not read: by ROLLBACK, or between SAVEPOINT and ROLLBACK TO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import read

from binlog_core import BinlogWarning, DecodeError
from binlog_core.lake.rows import reader as split_reader
from binlog_core.lake.rows.reader import SplitRows, read_split
from binlog_core.splits import plan_splits

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
T = Table("shop", "t", [("id", "INT"), ("note", "LONGBLOB")], primary_key=["id"])
GROUP = 3 << 20  # bytes of a row that fills a group


@pytest.fixture(params=["mysql", "mariadb"])
def log(request: pytest.FixtureRequest) -> Log:
    return Log("8.4.0" if request.param == "mysql" else "10.11.6-MariaDB")


def begin(log: Log, number: int = 1) -> None:
    if log.mariadb:
        log.maria_gtid(number)
    else:
        log.gtid(SERVER, number)
        log.begin("shop")


def written(log: Log, *steps: int | str) -> None:
    """A transaction: a number is a row that is inserted, and a negative one such a long row."""
    for step in steps:
        if isinstance(step, str):
            log.query(step, "shop")
        else:
            log.insert(T, [{"id": abs(step), "note": b"x" * (GROUP if step < 0 else 5)}])


def saved(tmp_path: Path, log: Log) -> str:
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    return str(path)


def ids(path: str) -> list[int]:
    return [
        i
        for split in plan_splits(path)
        for _, batch in read_split(split, unnamed="positions")
        for i in batch[0].to_pylist()
    ]


CASES = {
    "rolled back": ([1, 2, "ROLLBACK"], []),
    "to a savepoint": ([1, "SAVEPOINT `a`", 2, 3, "ROLLBACK TO `a`", 4], [1, 4]),
    "the words of MySQL": ([1, "SAVEPOINT `a`", 2, "ROLLBACK TO SAVEPOINT `a`", 4], [1, 4]),
    "twice to the same": ([1, "SAVEPOINT `a`", 2, "ROLLBACK TO `a`", 3, "ROLLBACK TO `a`", 4], [1, 4]),
    "set anew": ([1, "SAVEPOINT `a`", 2, "SAVEPOINT `a`", 3, "ROLLBACK TO `a`", 4], [1, 2, 4]),
    "one inside": (
        [1, "SAVEPOINT `a`", 2, "SAVEPOINT `b`", 3, "ROLLBACK TO `b`", 4, "ROLLBACK TO `a`", 5],
        [1, 5],
    ),
    "two": (
        [1, "SAVEPOINT `a`", 2, "ROLLBACK TO `a`", 3, "SAVEPOINT `b`", 4, "ROLLBACK TO `b`", 5],
        [1, 3, 5],
    ),
    "released": ([1, "SAVEPOINT `a`", 2, "RELEASE SAVEPOINT `a`", 3], [1, 2, 3]),
    "set before what the log has": ([1, "ROLLBACK TO `a`", 2], [2]),
    "in other quotes": ([1, "SAVEPOINT `a`", 2, 'ROLLBACK TO "A"', 3], [1, 3]),
    "without its accent": ([1, "SAVEPOINT `é`", 2, "ROLLBACK TO `e`", 3], [1, 3]),
}


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("steps, stayed", CASES.values(), ids=CASES)
def test_rows_that_did_not_stay(
    log: Log, tmp_path: Path, steps: list[int | str], stayed: list[int], long: bool
) -> None:
    """Between transactions that stay; a long one takes a group for each of its rows."""
    begin(log, 1)
    written(log, 91)
    log.commit()
    begin(log, 2)
    written(log, *(-step if long and isinstance(step, int) else step for step in steps))
    if steps[-1] != "ROLLBACK":
        log.commit()
    begin(log, 3)
    written(log, 92)
    log.commit()
    path = saved(tmp_path, log)
    assert ids(path) == [91, *stayed, 92]
    if long:
        (split,) = plan_splits(path)
        options = split_reader.ReadOptions(unnamed="positions")
        assert len(list(SplitRows(split, options).groups())) > len(steps) / 2


def test_one_ends_where_the_next_goes_on(log: Log, tmp_path: Path) -> None:
    """The group in the middle has the end of a transaction, and the beginning of another."""
    begin(log, 1)
    written(log, -1, "SAVEPOINT `a`", 2, "ROLLBACK TO `a`", 3)
    log.commit()
    begin(log, 2)
    written(log, 4, "SAVEPOINT `a`", -5, "ROLLBACK TO `a`", 6)
    log.commit()
    assert ids(saved(tmp_path, log)) == [1, 3, 4, 6]


def test_a_long_transaction_is_read_once_more_at_most(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_on = SplitRows._read_on
    begun: list[int] = []
    monkeypatch.setattr(
        SplitRows, "_read_on", lambda self, begin: (begun.append(begin), read_on(self, begin))[1]
    )
    for number in range(3):
        begin(log, number + 1)
        written(log, *(-(10 * number + i) for i in range(1, 6)))
        log.commit()
    assert ids(saved(tmp_path, log)) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25]
    assert len(begun) == len(set(begun)) == 3


def test_in_a_compressed_transaction(tmp_path: Path) -> None:
    """All of its rows are at the position of one event, so that their numbers count."""
    log = Log("8.4.0")
    log.gtid(SERVER, 1)
    with log.compressed_transaction() as inner:
        inner.begin("shop")
        inner.insert(T, [{"id": i, "note": b""} for i in (1, 2)])
        inner.query("SAVEPOINT `a`", "shop")
        inner.insert(T, [{"id": i, "note": b""} for i in (3, 4)])
        inner.query("ROLLBACK TO `a`", "shop")
        inner.insert(T, [{"id": 5, "note": b""}])
        inner.commit()
    assert ids(saved(tmp_path, log)) == [1, 2, 5]


@pytest.mark.parametrize("options", [{"table": "shop.t"}, {}], ids=["one table", "documents"])
def test_the_source_of_spark(log: Log, tmp_path: Path, options: dict[str, str]) -> None:
    begin(log, 1)
    written(log, 1, "SAVEPOINT `a`", 2, "ROLLBACK TO `a`", 3)
    log.commit()
    begin(log, 2)
    written(log, 4, "ROLLBACK")
    rows: list[dict[str, Any]] = read(saved(tmp_path, log), **options)
    if not options:
        rows = [{"id": int(row["after"].partition('"id":')[2].partition(",")[0])} for row in rows]
    assert [row["id"] for row in rows] == [1, 3]


def ids_before_damage(tmp_path: Path, log: Log, at: int) -> list[int]:
    """The rows that come before the error of an event that is damaged."""
    data = bytearray(log.getvalue())
    data[at + 60] ^= 0xFF
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    found: list[int] = []
    with pytest.raises(DecodeError):
        for split in plan_splits(path):
            for _, batch in read_split(split, unnamed="positions"):
                found += batch[0].to_pylist()
    return found


def test_what_is_good_comes_before_an_error(log: Log, tmp_path: Path) -> None:
    """The group behind an open transaction cannot be read."""
    begin(log, 1)
    written(log, -1)
    at = log.position
    written(log, -2)
    log.commit()
    assert ids_before_damage(tmp_path, log, at) == [1]


def test_an_error_in_a_long_transaction_comes_after_its_rows_before(log: Log, tmp_path: Path) -> None:
    begin(log, 1)
    written(log, -1, "SAVEPOINT `a`", -2, "ROLLBACK TO `a`", -3, -4)
    at = log.position
    written(log, -5)
    log.commit()
    assert ids_before_damage(tmp_path, log, at) == [1, 3, 4]


def test_a_loss_after_a_savepoint(log: Log, tmp_path: Path) -> None:
    """The event between is skipped; the rows before the savepoint stayed."""
    begin(log, 1)
    written(log, 1, "SAVEPOINT `a`")
    at = log.position
    written(log, 2, 3, "ROLLBACK TO `a`", 4)
    log.commit()
    data = bytearray(log.getvalue())
    data[at + 30] ^= 0xFF
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    with pytest.warns(BinlogWarning):
        found = [
            batch[0].to_pylist()
            for split in plan_splits(str(path))
            for _, batch in read_split(split, unnamed="positions", on_error="skip")
        ]
    assert found == [[1, 4]]


def test_a_long_transaction_without_an_end(log: Log, tmp_path: Path) -> None:
    """A crash, and the server went on in the same file: its rows are read as they are logged."""
    begin(log, 1)
    written(log, -1, -2, "SAVEPOINT `a`", -3, "ROLLBACK TO `a`", -4)
    log.start()
    for number in range(2, 5):
        begin(log, number)
        written(log, -10 * number)
        log.commit()
    assert ids(saved(tmp_path, log)) == [1, 2, 4, 20, 30, 40]


def test_an_open_transaction_at_the_end_of_a_log(log: Log, tmp_path: Path) -> None:
    """A crash: what became of it is not known, so its rows are read as before."""
    begin(log, 1)
    written(log, 1, "SAVEPOINT `a`", 2, "ROLLBACK TO `a`", 3)
    assert ids(saved(tmp_path, log)) == [1, 3]
