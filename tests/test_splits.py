"""Splits: together they are the whole log, each change exactly once, whatever their size."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forged import UUID, log_with_forgery, transactions
from support.golden import KNOWN_SCHEMA, Golden, golden_logs
from support.truth import differences
from support.writer import Log, Table

import binlog_core
from binlog_core._decode.merge import ChangeReader
from binlog_core.errors import BinlogError, DecodeError
from binlog_core.report import Report
from binlog_core.splits import (
    Split,
    SplitResult,
    check_seams,
    plan_splits,
    read_split_groups,
    trust_split,
    trust_splits,
)

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def cut(path: Path, size: int) -> list[Split]:
    """What `plan_splits` would make of a log of any kind."""
    end = os.path.getsize(path)
    return [Split(str(path), at, min(at + size, end), index=i) for i, at in enumerate(range(0, end, size))]


def read(split: Split, **options: Any) -> tuple[list[Any], SplitResult]:
    changes: list[Any] = []
    with read_split_groups(split, **options) as reader:
        values = ChangeReader(Report(), skip_errors=False)
        for group in reader:
            changes += values.changes([group])
    return changes, reader.result


def read_all(splits: Iterable[Split], **options: Any) -> tuple[list[Any], list[SplitResult]]:
    """As a driver does: what disagrees is read again."""
    changes: dict[int, list[Any]] = {}
    results: dict[int, SplitResult] = {}
    todo = list(splits)
    rounds = 0
    while todo:
        for split in todo:
            try:
                changes[split.index], results[split.index] = read(split, **options)
            except BinlogError as error:
                with read_split_groups(split, **options) as reader:
                    results[split.index] = SplitResult(split, reader.first_anchor, None, error)
        todo = check_seams(results.values())
        rounds += 1
        assert rounds < 20
    return [c for index in sorted(changes) for c in changes[index]], [results[i] for i in sorted(results)]


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


def without_an_annotation(golden: Golden, path: Path, *, behind: int) -> Path:
    """A log as a server sends it to a replica that does not ask for annotations: one is missing."""
    data = Path(golden.path).read_bytes()
    with binlog_core.open(data) as log:
        headers = log.headers()
    annotations = headers[(headers["type_code"] == 160) & (np.arange(len(headers)) > behind)]
    at = int(annotations["position"][0])
    path.write_bytes(data[:at] + data[at + int(annotations["event_length"][0]) :])
    return path


def test_a_log_with_gaps_is_one_split(tmp_path: Path) -> None:
    """Where its events lie is not where they say, so a worker in the middle would find none."""
    [golden] = golden_logs("maria118/dml_mixed")
    path = without_an_annotation(golden, tmp_path / "bin.000001", behind=0)
    assert [split.whole for split in plan_splits(path, 500)] == [True]
    for splits in ([Split(str(path))], cut(path, 500)):
        changes, _ = read_all(splits)
        assert differences(changes, golden, golden.known, place=False) == []


def test_a_gap_behind_the_head_is_an_error(tmp_path: Path) -> None:
    """The head does not tell it, and the splits behind it own nothing: whoever comes to it says so."""
    [golden] = golden_logs("maria118/dml_mixed")
    path = without_an_annotation(golden, tmp_path / "bin.000001", behind=70)
    splits = plan_splits(path, 500)
    assert len(splits) > 3
    with pytest.raises(DecodeError, match="split_size 0"):
        read_all(splits)
    with pytest.raises(DecodeError, match="split_size 0"):
        trust_splits(splits)
    changes, _ = read_all([Split(str(path))])
    assert differences(changes, golden, golden.known, place=False) == []


# What SHOW BINLOG EVENTS calls an anchor, by server.
GTID_NAMES = ("Gtid", "Anonymous_Gtid", "Gtid_tagged_log_event")


@pytest.mark.parametrize(
    "golden",
    golden_logs("*/xa")
    + golden_logs("*/ddl")
    + golden_logs("*/trx_compression")
    + golden_logs("mysql56/gtid"),
    ids=str,
)
def test_anchors_are_the_servers_transactions(golden: Golden) -> None:
    """A split of one byte owns a transaction exactly where the server lists its beginning."""
    gtids = any(e["type"] in GTID_NAMES for e in golden.events)

    def begins(event: dict[str, Any]) -> bool:
        if gtids:
            return event["type"] in GTID_NAMES
        return event["type"] == "Query" and (event["info"] or "").startswith(("BEGIN", "XA START"))

    anchors = {e["pos"] for e in golden.events if begins(e)}
    assert len(anchors) > 2
    for event in golden.events[1:]:
        at = event["pos"]
        with read_split_groups(Split(str(golden.path), at, at + 1)) as reader:
            assert reader.first_anchor == (at if at in anchors else None)
    after = sorted(anchors)[2]
    _, result = read(Split(str(golden.path), after, after + 1))
    assert result.next_anchor == min((p for p in anchors if p > after), default=None)


# ---------------------------------------------------------------- planning


def write(path: Path, log: Log) -> Path:
    path.write_bytes(log.getvalue())
    return path


def test_plan(tmp_path: Path) -> None:
    for number in (2, 10):
        log = Log("8.0.36")
        transactions(log)
        write(tmp_path / f"mysql-bin.{number:06}", log)
    size = os.path.getsize(tmp_path / "mysql-bin.000002")
    splits = plan_splits(tmp_path, 1000)
    assert [s.index for s in splits] == list(range(len(splits)))
    assert [s.file_number for s in splits] == sorted(s.file_number for s in splits)
    first = [s for s in splits if s.file_number == 2]
    assert [first[0].start, *(s.end for s in first)] == [*(s.start for s in first), size]
    lengths = [s.end - s.start for s in first if s.end is not None]
    assert max(lengths) <= 1000 and max(lengths) - min(lengths) <= 1
    assert len(first) == -(-size // 1000)
    assert first[1].version_base == 2 << 40 and not first[1].whole
    assert [s.whole for s in plan_splits(tmp_path)] == [True, True]
    assert pickle.loads(pickle.dumps(splits)) == splits
    with pytest.raises(ValueError, match="split_size"):
        plan_splits(tmp_path, 0)


def old_log() -> bytes:
    log = Log("4.1.22", binlog_version=3)
    for i in range(30):
        log.query(f"INSERT INTO t VALUES ({i})", "shop")
    return log.getvalue()


def v1_log() -> bytes:
    log = Log("3.23.58", binlog_version=1)
    for i in range(30):
        log.query(f"INSERT INTO t VALUES ({i})", "shop")
    return log.getvalue()


def relay_log() -> bytes:
    source = Log("8.0.36")
    source.previous_gtids()
    transactions(source)
    log = Log("8.0.36")
    log.rotate("binlog.000007")
    log.raw(source.getvalue()[4:])
    return log.getvalue()


def packed_log() -> bytes:
    import gzip

    log = Log("8.0.36")
    transactions(log)
    return gzip.compress(log.getvalue(), 0)


@pytest.mark.parametrize("make", [v1_log, old_log, relay_log, packed_log])
def test_logs_that_cannot_be_split(make: Callable[[], bytes], tmp_path: Path) -> None:
    """One split; and if someone cuts them all the same, the first has everything."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(make())
    assert [s.whole for s in plan_splits(path, 200)] == [True]
    with binlog_core.open(path) as log:
        whole = [(c.position, c.after) for c in log.rows()]
    changes, results = read_all(cut(path, 200))
    assert [(c.position, c.after) for c in changes] == whole
    assert [r.first_anchor for r in results] == [4, *[None] * (len(results) - 1)]


@pytest.mark.parametrize("name", ["mysql97/encrypted", "maria1011/encrypted"])
def test_encrypted_logs_are_one_split(name: str) -> None:
    (golden,) = golden_logs(name)
    assert [s.whole for s in plan_splits(golden.path, 500)] == [True]


@pytest.mark.parametrize("data", [b"\xfebin", b"\xfebin" + bytes(8)])
def test_logs_just_begun(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    (split,) = plan_splits(path, 2)
    assert read(split)[0] == []


def test_positions_are_not_options(tmp_path: Path) -> None:
    path = write(tmp_path / "binlog.000001", Log())
    with pytest.raises(ValueError, match="start=4"):
        read_split_groups(Split(str(path)), start=4)


def test_what_one_split_tells(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("server", ["8.0.36", "11.8.6-MariaDB"])
@pytest.mark.parametrize("next_positions", [True, False])
def test_without_gtids_or_positions(server: str, next_positions: bool, tmp_path: Path) -> None:
    log = Log(server, next_positions=next_positions)
    transactions(log)
    changes, _ = read_all(cut(write(tmp_path / "binlog.000001", log), 250))
    assert [c.after["id"] for c in changes] == list(range(1, 13))


def test_stop_at_a_time_keeps_the_seams(tmp_path: Path) -> None:
    """A split that ends at a time still tells where the next one begins."""
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


@pytest.mark.parametrize("closing", [False, True])
def test_forged_events_in_a_blob(closing: bool, tmp_path: Path) -> None:
    data, forged = log_with_forgery(closing)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    deceived = 0
    for size in (500, 1000, 1500, 3000):
        splits = cut(path, size)
        for split in splits:
            with read_split_groups(split) as reader:
                deceived += reader.first_anchor is not None and reader.first_anchor in forged
        changes, results = read_all(splits)
        assert [c.after["id"] for c in changes] == list(range(1, 9))
        assert check_seams(results) == []
    assert deceived, "no split began inside the forgery: the test shows nothing"


def test_trusted_splits_need_no_second_round(tmp_path: Path) -> None:
    data, forged = log_with_forgery(True)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    trusted = trust_splits(cut(path, 700))
    results = [read(split)[1] for split in trusted]
    assert check_seams(results) == []
    assert not any(r.first_anchor in forged for r in results if r.first_anchor is not None)
    ids = [c.after["id"] for split in trusted for c in read(split)[0]]
    assert ids == list(range(1, 9))
    assert [trust_split(split).anchor or 4 for split in cut(path, 700)] == [s.anchor or 4 for s in trusted]
    # From a place in the log where a transaction is known to begin
    begun = next(s for s in trusted[1:] if s.anchor is not None)
    assert trust_splits([begun, *cut(path, 700)[begun.index + 1 :]]) == trusted[begun.index :]


def test_seams() -> None:
    def result(start: int, end: int, first: int | None, after: int | None, **more: Any) -> SplitResult:
        return SplitResult(Split("a", start, end), first, after, **more)

    good = [
        result(0, 100, 4, 120),
        result(100, 200, 120, 450),
        result(200, 300, None, None),
        result(300, 400, None, None),
        result(400, 500, 450, None),
        result(500, 600, None, None),
    ]
    assert check_seams(good[::-1]) == []
    # A split that found something where nothing begins
    wrong = [*good[:2], result(200, 300, 222, 310), *good[3:]]
    assert check_seams(wrong) == [Split("a", 200, 300, anchor=None, trusted=True)]
    # … and one that found nothing, or another place
    for first in (None, 130):
        assert check_seams([good[0], result(100, 200, first, 450), *good[2:]]) == [
            Split("a", 100, 200, anchor=120, trusted=True)
        ]
    error = DecodeError("broken", path="a", offset=130)
    assert check_seams([good[0], result(100, 200, 130, None, error=error), *good[2:]])[0].anchor == 120
    with pytest.raises(DecodeError, match="broken"):
        check_seams([good[0], result(100, 200, 120, None, error=error), *good[2:]])
    with pytest.raises(ValueError, match="cover"):
        check_seams([*good[:2], *good[3:]])
    assert check_seams([]) == []


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


def test_the_same_targets_as_everywhere(tmp_path: Path) -> None:
    """Paths, patterns, directories, lists and open logs; what has no path cannot be a split."""
    [golden] = golden_logs("mysql97/dml_partitioned")
    for number in (1, 2, 3):
        (tmp_path / f"bin.00000{number}").write_bytes(golden.data)
    paths = [f"{tmp_path}/bin.00000{number}" for number in (1, 2, 3)]
    expected = [split.path for split in plan_splits(paths, 500)]
    assert [*dict.fromkeys(expected)] == paths
    for target in (tmp_path, f"{tmp_path}/bin.*", iter(paths), {*paths}, binlog_core.open(tmp_path)):
        assert [split.path for split in plan_splits(target, 500)] == expected
    with binlog_core.open(tmp_path, start=(paths[1], 4)) as log:
        assert [split.path for split in plan_splits(log)] == paths[1:]
        assert [split.path for split in plan_splits([log, paths[0]])] == paths
        with pytest.raises(TypeError, match="open already"):
            plan_splits(log, storage_options={})
    for target in (golden.data, BytesIO(golden.data), binlog_core.open(golden.data), [golden.data]):
        with pytest.raises(BinlogError, match="opened by its path"):
            plan_splits(target)
    with pytest.raises(BinlogError, match="not servers"):
        plan_splits("mysql://user@host")
