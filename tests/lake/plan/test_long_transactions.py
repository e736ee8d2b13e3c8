"""A transaction that fills splits is divided: every plan gives the rows, numbers and outcomes of one pass."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from support.forged import UUID, forged_chain
from support.golden import Golden, golden_logs
from support.long_transactions import LongTransactions
from support.writer import Log, Table

from binlog_core.conditions.language import condition_of
from binlog_core.conditions.pushed import PushedFilters
from binlog_core.errors import BinlogError
from binlog_core.lake.plan.long_transactions import divide_parts, divide_transactions
from binlog_core.lake.plan.parts import TaskPart
from binlog_core.lake.rows.prepared import Prepared
from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.lake.rows.reader import SplitRows
from binlog_core.lake.runner import LocalRunner
from binlog_core.splits import Split, check_seams, plan_splits, read_split_groups, trust_splits

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

TABLE = Table("shop", "t", [("id", "INT"), ("note", "VARCHAR(40)")], primary_key=["id"])
OPTIONS = ReadOptions(metadata=("_gtid", "_position", "_xid"), unnamed="positions", absent=True)


def plan(path: Path, size: int | None) -> list[Split]:
    return [replace(split, file_number=0) for split in plan_splits(path, size)]


def rows_of(splits: list[Split], options: ReadOptions) -> tuple[list[Any], dict[int, int], int]:
    """Rows in order, outcomes, and how many splits were read again, as a driver reads them."""
    readers: dict[int, tuple[SplitRows, list[Any]]] = {}
    errors: dict[int, BinlogError | None] = {}
    todo, again = splits, -len(splits)
    while todo:
        again += len(todo)
        for split in todo:
            reader, error = SplitRows(split, options), None
            rows: list[Any] = []
            try:
                for chunk in reader.chunks():
                    rows += [(chunk.table.full_name, row) for row in chunk.batch.to_pylist()]
            except BinlogError as failed:
                error = failed
            readers[split.index], errors[split.index] = (reader, rows), error
        todo = check_seams(replace(readers[i][0].result, error=errors[i]) for i in readers)
    found = [row for _, (_, rows) in sorted(readers.items()) for row in rows]
    found.sort(key=lambda row: (row[1]["_commit_version"], row[1]["_change_ordinal"]))
    outcomes: dict[int, int] = {}
    for _, (reader, _) in sorted(readers.items()):
        outcomes |= reader.not_committed
    return found, outcomes, again


def check(path: Path, size: int, options: ReadOptions = OPTIONS, *, forged: bool = False) -> int:
    """Compare a divided plan with one pass, and with the same plan undivided; the parts of transactions."""
    planned = plan(path, size)
    divided = divide_transactions(planned, options)
    rows, outcomes, again = rows_of(divided, options)
    undivided = rows_of(planned, options)
    assert (rows, outcomes) == undivided[:2]
    assert forged or again == undivided[2]
    whole = rows_of([Split(str(path))], options)
    assert rows == whole[0] and (options.on_error == "skip" or outcomes == whole[1])
    return sum(split.within is not None for split in divided)


@pytest.mark.parametrize("seed", range(40))
def test_any_log_at_any_size(seed: int, tmp_path: Path) -> None:
    pick = random.Random(seed)
    data = bytearray(LongTransactions(seed, plain=pick.random() < 0.6).data())
    options = OPTIONS
    if pick.random() < 0.2:
        del data[pick.randrange(len(data) // 2, len(data)) :]
    if pick.random() < 0.3:
        options = replace(options, on_error="skip")
        data[pick.randrange(min(300, len(data) - 1), len(data))] ^= 1 << pick.randrange(8)
    if pick.random() < 0.2:
        options = replace(options, where=condition_of("id > 20"))
    if pick.random() < 0.2:
        options = replace(options, tables=("shop.t1", "shop.t2"))
    if pick.random() < 0.2:
        options = replace(options, end_time=1_700_000_000 + pick.randint(0, 20))
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    try:
        rows_of([Split(str(path))], options)
    except BinlogError:  # of the log, which other tests are about
        return
    check(path, pick.choice((37, 64, 101, 211, 333, 777, 2000)), options)


@pytest.mark.parametrize(
    "golden",
    golden_logs("mysql97/gtid_xa")
    + golden_logs("mysql97/json_partial")
    + golden_logs("mysql97/image_minimal")
    + golden_logs("maria1011/maria_bincompress"),
    ids=str,
)
def test_logs_of_servers(golden: Golden) -> None:
    assert sum(check(Path(golden.path), size) for size in (101, 211, 500)) > 0


def long_log(path: Path, statements: int = 30, end: str = "COMMIT") -> Path:
    """One statement of many rows events between short transactions, and more of them."""
    log = Log("8.0.36")
    log.previous_gtids()
    for number in (1, 2, 3):
        log.gtid(UUID, number)
        log.begin("shop")
        if number == 2:
            log.table_map(TABLE)
            for i in range(statements):
                rows = [{"id": 10 * i + j, "note": "long"} for j in range(3)]
                log.rows_event(0, TABLE, b"".join(map(_image, rows)), [True, True], flags=0)
                if i == statements // 2:
                    log.query("SAVEPOINT `a`")
            log.query("ROLLBACK TO `a`") if end == "ROLLBACK TO" else None
            log.query(end) if end in ("COMMIT", "ROLLBACK") else log.commit()
        else:
            log.insert(TABLE, [{"id": -number, "note": "short"}])
            log.commit()
    path.write_bytes(log.getvalue())
    return path


def _image(row: dict[str, Any]) -> bytes:
    return TABLE.image(row, [True, True])


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "ROLLBACK TO", "XID"])
def test_a_statement_of_many_events(end: str, tmp_path: Path) -> None:
    path = long_log(tmp_path / "bin.000001", end=end)
    assert check(path, 300) > 5
    parts = [s for s in divide_transactions(plan(path, 300), OPTIONS) if s.within is not None]
    begin = parts[0].start
    assert [part.within.images for part in parts if part.within] == [
        sum(3 for i in range(30) if _event_at(path, i) < part.start) for part in parts
    ]
    assert all(part.begin == begin and part.may_have(begin) for part in parts)
    assert {len(part.within.before) for part in parts[1:] if part.within} == {2}  # BEGIN, one table map
    kept = {"COMMIT": 90, "XID": 90, "ROLLBACK": 0, "ROLLBACK TO": 48}[end]
    found = rows_of(divide_transactions(plan(path, 300), OPTIONS), OPTIONS)[0]
    assert sum(row["note"] == "long" for _, row in found) == kept


def _event_at(path: Path, number: int) -> int:
    import binlog_core

    with binlog_core.open(path) as log:
        headers = log.headers()
    rows = headers[headers["type_code"] == 30]["position"][1:]
    return int(rows[number])


def test_groups_of_a_part_have_the_transaction(tmp_path: Path) -> None:
    path = long_log(tmp_path / "bin.000001")
    splits = divide_transactions(plan(path, 300), OPTIONS)
    rows = 0
    for split in splits:
        with read_split_groups(split) as reader:
            groups = list(reader)
        rows += reader.rows
        if split.within is not None and groups:  # the first part may end before the first rows
            last = groups[-1].transactions[-1]
            assert last["begin_position"] == split.begin and last["outcome"] == 1
            assert last["sequence_number"] == 2
            assert split.end is not None and reader.end_position <= split.end
    assert rows == 92


def test_filters_do_not_change_numbers(tmp_path: Path) -> None:
    path = long_log(tmp_path / "bin.000001")
    every = {row["id"]: row["_change_ordinal"] for _, row in rows_of(plan(path, None), OPTIONS)[0]}
    splits = divide_transactions(plan(path, 300), OPTIONS)
    from binlog_core.conditions.pushed import Predicate

    pushed = replace(OPTIONS, pushed=PushedFilters((Predicate("id", ">", (200,)),)))
    found = {row["id"]: row["_change_ordinal"] for _, row in rows_of(splits, pushed)[0]}
    assert found == {key: number for key, number in every.items() if key > 200}


def test_a_forged_chain(tmp_path: Path) -> None:
    """Splits that begin inside a forged chain are read again, as without division."""
    log = Log("8.0.36")
    log.previous_gtids()
    table = Table("shop", "b", [("id", "INT"), ("note", "BLOB")])
    log.gtid(UUID, 1)
    log.begin("shop")
    log.table_map(table)
    for i in range(12):
        log.insert(table, [{"id": i, "note": b"?" * 6000 if i == 5 else b"x" * 300}], mapped=True)
    log.commit()
    data = bytearray(log.getvalue())
    begin = data.index(b"?" * 6000)
    chain = forged_chain(begin, 4000)
    data[begin : begin + len(chain)] = chain
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    for size in (150, 400, 1000, 3000):
        check(path, size, replace(OPTIONS, verify_checksum=False), forged=True)


def test_the_walks_do_not_warn(tmp_path: Path) -> None:
    """They begin at any byte of a split, and what they pass over is no damage."""
    log = Log("8.0.36")
    log.previous_gtids()
    for number in range(30):
        log.gtid(UUID, number + 1)
        log.begin("shop")
        for i in range(60 if number == 20 else 1):
            log.insert(TABLE, [{"id": i, "note": "x" * 40}])
        log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    for size in (500, 901, 1333):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert any(split.within for split in divide_transactions(plan(path, size), OPTIONS))


def test_splits_with_true_anchors_are_not_divided_by_forged_events(tmp_path: Path) -> None:
    table = Table("shop", "b", [("id", "INT"), ("note", "LONGBLOB")])
    log = Log("8.0.36")
    log.previous_gtids()
    for number in (1, 2, 3):
        log.gtid(UUID, number)
        log.begin("shop")
        log.insert(table, [{"id": number, "note": b"?" * (9000 if number == 2 else 10)}])
        log.commit()
    data = bytearray(log.getvalue())
    begin = data.index(b"?" * 9000)
    forged = Log("8.0.36")
    forged._out = bytearray(begin)  # the writer takes positions from what is there
    for number in range(900, 903):
        forged.gtid(UUID, number)
        forged.begin("shop")
        for i in range(30 if number == 901 else 1):
            forged.insert(table, [{"id": 900 + i, "note": b"forged"}])
        forged.commit()
    chain = bytes(forged._out[begin:])
    assert len(chain) < 9000
    data[begin : begin + len(chain)] = chain
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    options = replace(OPTIONS, verify_checksum=False)
    for size in (400, 700, 1000):
        splits = divide_transactions(trust_splits(plan(path, size)), options)
        rows = [
            row["id"]
            for split in splits
            for _, batch in SplitRows(split, options)
            for row in batch.to_pylist()
        ]
        assert rows == [1, 2, 3]


def test_parts_of_a_query_keep_what_became_of_xa(tmp_path: Path) -> None:
    path = long_log(tmp_path / "bin.000001")
    splits = plan(path, 300)
    begin = next(s.begin for s in divide_transactions(splits, OPTIONS) if s.within is not None)
    prepared = Prepared(begin, 7 << 40, 0)
    late = TaskPart(replace(splits[0], end=9), exact=True)
    parts = divide_parts(
        [late, *(TaskPart(s, prepared=(prepared,) if s.may_have(begin) else ()) for s in splits)],
        OPTIONS,
        LocalRunner(2),
    )
    assert parts[0] is late
    assert all(bool(part.prepared) == (part.split.within is not None) for part in parts[1:])
    assert all(part.versions[1] > 7 << 40 for part in parts if part.prepared)


def test_what_is_left_whole(tmp_path: Path) -> None:
    path = long_log(tmp_path / "bin.000001")
    few = plan(path, path.stat().st_size // 2 + 1)
    assert divide_transactions(few, OPTIONS) == few
    stored = [replace(split, path="s3://bucket/bin.000001") for split in plan(path, 300)]
    assert divide_transactions(stored, OPTIONS) == stored  # at most 1 GiB: nothing is read
    data = path.read_bytes()
    at = data.index(b"long") + 3
    path.write_bytes(data[:at] + b"?" + data[at + 1 :])  # a wrong checksum
    assert all(s.within is None for s in divide_transactions(plan(path, 300), OPTIONS))
    path.write_bytes(data[: len(data) // 2])  # it has not ended
    assert all(s.within is None for s in divide_transactions(plan(path, 300), OPTIONS))
