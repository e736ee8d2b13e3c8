"""Splits: together they are the whole log, each change exactly once, whatever their size."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.forged import UUID, transactions
from support.golden import KNOWN_SCHEMA, Golden, golden_logs
from support.splits import cut, read_all, write
from support.truth import differences
from support.writer import Log, Table

from binlog_core.errors import BinlogError, ConditionError
from binlog_core.gtids import GtidSet
from binlog_core.position import Position
from binlog_core.splits import Split, read_split_groups

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


@pytest.mark.parametrize("golden", golden_logs(), ids=str)
def test_together_they_are_the_servers_truth(golden: Golden) -> None:
    known = KNOWN_SCHEMA if golden.needs_schema else golden.known
    size = os.path.getsize(golden.path)
    for split_size in (max(300, size // 40), max(1000, size // 7)):
        splits = cut(golden.path, split_size)
        changes, results = read_all(splits, **golden.open_arguments)
        assert differences(changes, golden, known) == []
        owners = [r for r in results if r.first_anchor is not None]
        assert owners[0].first_anchor == 4 and owners[-1].next_anchor is None
        assert [r.next_anchor for r in owners[:-1]] == [r.first_anchor for r in owners[1:]]
        if golden.keys:
            assert len(owners) == 1


@pytest.mark.parametrize("golden", golden_logs("*/dml_partitioned") + golden_logs("*/gtid_xa"), ids=str)
@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "read"])
def test_every_small_size(golden: Golden, mapped: bool) -> None:
    for split_size in (211, 212, 500, 1024, 4096):
        changes, _ = read_all(cut(golden.path, split_size), mmap=mapped)
        assert differences(changes, golden, golden.known) == []


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_splits_within_the_magic(size: int) -> None:
    """Of several splits that begin at or before the first event, one owns it."""
    [golden] = golden_logs("mysql97/dml_partitioned")
    first, end = cut(golden.path, size)[:8], os.path.getsize(golden.path)
    splits = [*first, Split(str(golden.path), first[-1].end or 0, end, index=len(first))]
    changes, results = read_all(splits)
    assert differences(changes, golden, golden.known) == []
    assert [r.first_anchor for r in results].count(4) == 1


# ---------------------------------------------------------------- planning


def test_positions_and_following_are_not_options(tmp_path: Path) -> None:
    path = write(tmp_path / "binlog.000001", Log())
    with pytest.raises(ValueError, match="start=4"):
        read_split_groups(Split(str(path)), start=4)
    for place in (GtidSet.parse("cbecc49e-e55e-11f1-b91d-02fc00000001:1-3"), Position(str(path), 4)):
        with pytest.raises(ValueError, match="expected a time, since a split has its own positions"):
            read_split_groups(Split(str(path)), start=place)
    with pytest.raises(ValueError, match="follow=True"):
        read_split_groups(Split(str(path)), follow=True)


def test_the_attributes_of_one_split(tmp_path: Path) -> None:
    log = Log("8.0.36")
    transactions(log, count=4, body=5000)
    path = write(tmp_path / "binlog.000001", log)
    split = cut(path, 1000)[0]
    with read_split_groups(split) as reader:
        assert [len(b.array) for g in reader for b in g.batches] == [1]
    assert (reader.rows, reader.first_anchor) == (1, 4)
    assert reader.next_anchor == reader.end_position > 5000
    assert reader.overrun == reader.end_position - 1000 and reader.bytes_read == reader.end_position - 4
    assert reader.report.as_dict() == {} and reader.tail is None


def test_a_condition_that_does_not_fit(tmp_path: Path) -> None:
    """A value of the wrong type is an error, as in ``Log.rows``; columns may be in other splits."""
    log = Log("8.0.36")
    for number, column in enumerate(("INT", "VARCHAR(20)", "INT"), 1):
        log.gtid(UUID, number)
        log.begin()
        table = Table("shop", "t", [("id", "INT"), ("a", column)])
        log.insert(table, [{"id": number, "a": 5 if column == "INT" else "5"}])
        log.commit()
    splits = cut(write(tmp_path / "binlog.000001", log), 100)
    changes, _ = read_all(splits, where="a = 5")
    assert [change.after["id"] for change in changes] == [1, 3]  # by name the table is not wanted
    assert read_all(splits, where="nothing = 5", tables="shop.t")[0] == []
    with pytest.raises(ConditionError, match="expected text in quotes"):
        read_all(splits, where="a = 5", tables="shop.t")


@pytest.mark.parametrize("server", ["8.0.36", "11.8.6-MariaDB"])
@pytest.mark.parametrize("next_positions", [True, False])
def test_without_gtids_or_positions(server: str, next_positions: bool, tmp_path: Path) -> None:
    log = Log(server, next_positions=next_positions)
    transactions(log)
    changes, _ = read_all(cut(write(tmp_path / "binlog.000001", log), 250))
    assert [c.after["id"] for c in changes] == list(range(1, 13))


def test_stop_at_a_time_keeps_the_seams(tmp_path: Path) -> None:
    """A split that ends at a time still reports where the next one begins."""
    import datetime as dt

    log = Log("8.0.36", timestamp=1_700_000_000)
    for i in range(6):
        log.timestamp = 1_700_000_000 + i
        transactions(log, count=1, body=200 + i)
    path = write(tmp_path / "binlog.000001", log)
    stop = dt.datetime.fromtimestamp(1_700_000_003, dt.UTC)
    changes, results = read_all(cut(path, 300), stop=stop)
    assert [c.timestamp for c in changes] == [1_700_000_000, 1_700_000_001, 1_700_000_002]
    assert [r for r in results if r.next_anchor is not None]


# ---------------------------------------------------------------- forgeries


# ---------------------------------------------------------------- damage


def test_damage_belongs_to_one_split(tmp_path: Path) -> None:
    """The split that owns it raises; with on_error="skip" it costs its own transaction, in every plan."""
    log = Log("8.0.36")
    log.previous_gtids()
    places = []
    table = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
    for i in range(1, 20):
        log.gtid(UUID, i)
        log.begin("shop")
        log.table_map(table)
        places.append(log.insert(table, [{"id": i, "note": b"n" * 100}], mapped=True))
        log.commit(i)
    data = bytearray(log.getvalue())
    data[places[8] + 9 : places[8] + 13] = b"\xff\xff\xff\x0f"
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    with pytest.raises(BinlogError) as caught:
        read_all(cut(path, 700))
    assert caught.value.offset == places[8]
    for size in (300, 700, 2000, 10**6):
        changes, _ = read_all(cut(path, size), on_error="skip")
        ids = [c.after["id"] for c in changes]
        assert ids == [i for i in range(1, 20) if i != 9], size


def test_arrays_stay_valid_after_the_reader(tmp_path: Path) -> None:
    log = Log("8.0.36")
    transactions(log)
    path = write(tmp_path / "binlog.000001", log)
    with read_split_groups(cut(path, 1000)[1]) as reader:
        (batch,) = [b for g in reader for b in g.batches]
    spans = batch.array["row"][batch.columns[1].name]
    assert np.all(spans["length"] == 300)
    raw = bytes(batch.buffer[int(spans["offset"][0]) : int(spans["offset"][0]) + 300])
    assert len(set(raw)) == 1
