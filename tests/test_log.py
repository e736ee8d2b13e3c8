"""`open` and the Log: passes, ranges, selections, several files, following a log that grows."""

from __future__ import annotations

import datetime as dt
import pickle
import re
import shutil
import threading
import time
import warnings
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.golden import Golden, golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core import BinlogError, BinlogWarning, DecodeError, Limits, NotABinlogError, SchemaError
from binlog_core import Log as Opened
from binlog_core._decode.merge import ChangeReader
from binlog_core._decode.selection import matches
from binlog_core._gtid_fields import gtid_text
from binlog_core.errors import GtidError
from binlog_core.gtids import MariadbGtid, parse_gtid, parse_gtid_set

MIXED = golden_logs("mysql97/dml_mixed")[0]
GTID = golden_logs("mysql97/gtid")[0]
MARIA_GTID = golden_logs("maria1011/maria_gtid")[0]
META_FULL = golden_logs("mysql97/meta_full")[0]
KILLED = golden_logs("mysql97/killed")[0]
DDL = golden_logs("mysql97/ddl")[0]


def path_of(golden: Golden) -> str:
    return f"{golden.base}.binlog"


def keys_of(golden: Golden) -> list[tuple[str, str]]:
    """(operation, table) of each truth row."""
    return [(t["op"], f"{t['db']}.{t['table']}") for t in golden.truth]


def places(changes: list[binlog_core.RowChange]) -> list[tuple[str, str, int]]:
    return [(c.op, f"{c.database}.{c.table}", c.position) for c in changes]


def all_rows(target: object, **options: object) -> list[binlog_core.RowChange]:
    with binlog_core.open(target, **options) as log:  # type: ignore[arg-type]
        return list(log.rows())


# ---------------------------------------------------------------- sources are one reader


@pytest.mark.parametrize("golden", golden_logs("*/image_*", max_bytes=60_000), ids=str)
def test_mapping_stream_and_bytes_give_the_same(golden: Golden, tmp_path: Path) -> None:
    mapped = all_rows(path_of(golden))
    assert [(c.op, f"{c.database}.{c.table}") for c in mapped] == keys_of(golden)
    assert all_rows(path_of(golden), mmap=False) == mapped
    assert all_rows(golden.data) == mapped
    with open(path_of(golden), "rb") as handle:
        assert all_rows(handle) == mapped


def test_small_groups_lose_nothing_and_keep_the_order() -> None:
    whole = all_rows(path_of(META_FULL))
    for rows in (1, 2, 7):
        limits = binlog_core.Limits(group_rows=rows)
        assert all_rows(path_of(META_FULL), limits=limits) == whole
        assert all_rows(path_of(META_FULL), limits=limits, mmap=False) == whole


@pytest.mark.parametrize("golden", golden_logs("*/dml_*", max_bytes=60_000), ids=str)
def test_few_plans_are_enough(golden: Golden) -> None:
    """Plans are dropped between transactions only: a statement over several tables keeps its maps."""
    limits = binlog_core.Limits(table_definitions=1)
    assert all_rows(path_of(golden), limits=limits) == all_rows(path_of(golden))


def test_a_flood_of_table_definitions_in_one_transaction_is_refused() -> None:
    log = Log("8.0.36")
    log.begin()
    for i in range(20):
        table = Table("shop", f"t{i}", [("id", "INT")])
        log.insert(table, [{"id": i}])
    log.commit()
    limits = binlog_core.Limits(table_definitions=1)
    with binlog_core.open(log.getvalue(), limits=limits) as opened:
        changes = opened.rows()
        assert [next(changes).after for _ in range(16)] == [{"id": i} for i in range(16)]
        with pytest.raises(DecodeError, match="more than 16 table definitions"):
            next(changes)


def test_each_pass_begins_anew() -> None:
    with binlog_core.open(path_of(META_FULL)) as log:
        first = list(log.rows())
        assert list(log.rows()) == first
        assert sum(len(b) for b in log.batches()) > 0
        assert len(log.headers()) == len(log.headers())


def test_batches_outlive_their_log() -> None:
    with binlog_core.open(path_of(META_FULL)) as log:
        batches = list(log.batches())
    assert all(len(batch.to_pylist()) == len(batch) for batch in batches)


def test_a_closed_log_says_so() -> None:
    log = binlog_core.open(path_of(META_FULL))
    log.close()
    log.close()
    with pytest.raises(BinlogError, match="closed"):
        list(log.rows())


# ---------------------------------------------------------------- ranges


def test_groups_resume_at_any_checkpoint() -> None:
    whole = all_rows(path_of(GTID))
    with binlog_core.open(path_of(GTID), limits=binlog_core.Limits(group_rows=1)) as log:
        checkpoints = [(g.end_position, g.resume_position) for g in log.groups()]
    assert len(checkpoints) > 3
    for end, resume in checkpoints:
        before = [c for c in whole if c.position < resume]
        assert before + all_rows(path_of(GTID), start=resume) == whole
        assert resume <= end


def test_start_and_stop_position_cut_between_events() -> None:
    whole = all_rows(path_of(GTID))
    positions = sorted({e["pos"] for e in GTID.events if e["type"] in ("Gtid", "Gtid_tagged_log_event")})
    middle = positions[len(positions) // 2]
    assert all_rows(path_of(GTID), stop=middle) == [c for c in whole if c.position < middle]
    assert all_rows(path_of(GTID), start=middle) == [c for c in whole if c.position >= middle]


def test_start_behind_the_end_is_an_error() -> None:
    with pytest.raises(DecodeError, match="lies behind"):
        all_rows(path_of(GTID), start=10**9)


def test_times_select_by_the_event_header() -> None:
    whole = all_rows(path_of(GTID))
    moments = sorted({c.timestamp for c in whole})
    at = moments[len(moments) // 2]
    moment = dt.datetime.fromtimestamp(at, dt.UTC)
    assert all_rows(path_of(GTID), start=moment) == [c for c in whole if c.timestamp >= at]
    assert all_rows(path_of(GTID), start=moment.replace(tzinfo=None)) == [
        c for c in whole if c.timestamp >= at
    ]
    stopped = all_rows(path_of(GTID), stop=moment)
    assert stopped == [c for c in whole[: len(stopped)] if c.timestamp < at]


def test_times_end_before_or_behind_a_compressed_transaction() -> None:
    (golden,) = golden_logs("mysql97/trx_compression")
    whole = all_rows(path_of(golden))
    for at in sorted({c.timestamp for c in whole}):
        stopped = all_rows(path_of(golden), stop=dt.datetime.fromtimestamp(at, dt.UTC))
        assert stopped == whole[: len(stopped)]
        assert {c.position for c in stopped}.isdisjoint({c.position for c in whole[len(stopped) :]})


# ---------------------------------------------------------------- selections


def test_tables_by_name_and_pattern() -> None:
    whole = all_rows(path_of(DDL))
    names = sorted({f"{c.database}.{c.table}" for c in whole})
    assert len(names) > 1
    one = names[0]
    assert all_rows(path_of(DDL), tables=one) == [c for c in whole if f"{c.database}.{c.table}" == one]
    table = one.split(".")[1]
    assert all_rows(path_of(DDL), tables=table) == [c for c in whole if c.table == table]
    assert all_rows(path_of(DDL), tables=["nothing.*"]) == []
    with binlog_core.open(path_of(DDL)) as log:
        assert list(log.rows(tables=one)) == all_rows(path_of(DDL), tables=one)


def test_columns_are_projected_and_misspelt_ones_told() -> None:
    with binlog_core.open(path_of(META_FULL)) as log:
        whole = list(log.rows())
        table = f"{whole[0].database}.{whole[0].table}"
        wanted = list(whole[0].after or {})[1:3]
        for batch in log.batches(table, columns={table: wanted}):
            assert batch.array.dtype["row"].names == tuple(
                n for n in wanted if n in batch.array.dtype["row"].names
            )
        with pytest.raises(SchemaError, match="misspelt"):
            list(log.batches(table, columns={table: ["misspelt"]}))
    projected = all_rows(path_of(META_FULL), tables=table, columns={table: wanted})
    of_table = [c for c in whole if f"{c.database}.{c.table}" == table]
    for got, full in zip(projected, of_table, strict=True):
        for image, all_of_it in ((got.before, full.before), (got.after, full.after)):
            assert image == (
                None if all_of_it is None else {k: v for k, v in all_of_it.items() if k in wanted}
            )


@pytest.mark.parametrize("op", ["insert", "update", "delete"])
def test_ops(op: str) -> None:
    whole = all_rows(path_of(DDL))
    assert all_rows(path_of(DDL), ops=op) == [c for c in whole if c.op == op]


def test_ops_and_on_error_are_checked() -> None:
    with pytest.raises(ValueError, match="insert"):
        binlog_core.open(path_of(DDL), ops="upsert")
    with pytest.raises(ValueError, match="skip"):
        binlog_core.open(path_of(DDL), on_error="ignore")


@pytest.mark.parametrize("golden", [GTID, MARIA_GTID], ids=str)
def test_gtid_sets_select_transactions(golden: Golden) -> None:
    whole = all_rows(path_of(golden))
    gtids = list(dict.fromkeys(c.gtid for c in whole if c.gtid))
    chosen = set(gtids[1::2])
    text = ",".join(sorted(chosen))
    assert all_rows(path_of(golden), gtids=text) == [c for c in whole if c.gtid in chosen]
    assert all_rows(path_of(golden), exclude_gtids=text) == [c for c in whole if c.gtid not in chosen]


def test_text_that_is_no_gtid_is_told() -> None:
    with pytest.raises(BinlogError, match="GTID"):
        binlog_core.open(path_of(GTID), gtids="not-a-gtid")


def test_server_id() -> None:
    with binlog_core.open(path_of(GTID)) as log:
        server_id = int(log.headers()["server_id"][0])
        whole = list(log.rows())
    assert all_rows(path_of(GTID), server_id=server_id) == whole
    assert all_rows(path_of(GTID), server_id=server_id + 1) == []


# ---------------------------------------------------------------- transactions


def test_transactions_have_their_ends_and_gtids() -> None:
    ends = {e["end"] for e in GTID.events}
    with binlog_core.open(path_of(GTID)) as log:
        seen = [(g.transactions, g.batches) for g in log.groups()]
    transactions = np.concatenate([t for t, _ in seen])
    begins = {e["pos"] for e in GTID.events if e["type"].lower().startswith(("gtid", "anonymous"))}
    assert len(transactions)
    assert {int(t) for t in transactions["begin_position"]} <= begins
    assert {int(t) for t in transactions["end_position"]} <= ends
    assert set(transactions["outcome"]) == {1}
    assert (transactions["commit_time"] > 1_500_000_000_000_000).all()


# ---------------------------------------------------------------- several files


def copy_as(golden: Golden, folder: Path, number: int) -> Path:
    target = folder / f"mysql-bin.{number:06d}"
    shutil.copyfile(path_of(golden), target)
    return target


def test_a_directory_and_an_index_file_in_order(tmp_path: Path) -> None:
    for number, golden in ((2, DDL), (1, GTID), (4, KILLED)):
        copy_as(golden, tmp_path, number)
    want = [places(all_rows(path_of(g))) for g in (GTID, DDL, KILLED)]
    with pytest.warns(binlog_core.BinlogWarning, match="missing between"), binlog_core.open(tmp_path) as log:
        assert places(list(log.rows())) == [place for log_places in want for place in log_places]
        assert log.report.file_gaps == 1
    index = tmp_path / "mysql-bin.index"
    index.write_text("./mysql-bin.000002\n./mysql-bin.000004\n")
    with pytest.warns(binlog_core.BinlogWarning):
        assert places(all_rows(index)) == want[1] + want[2]


def test_a_place_in_one_of_several_files(tmp_path: Path) -> None:
    for number, golden in ((1, GTID), (2, DDL)):
        copy_as(golden, tmp_path, number)
    second = places(all_rows(path_of(DDL)))
    assert places(all_rows(tmp_path, start=("mysql-bin.000002", 4))) == second
    with pytest.raises(BinlogError, match="no file"):
        all_rows(tmp_path, start=("mysql-bin.000009", 4))


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(NotABinlogError):
        binlog_core.open(tmp_path)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    with pytest.raises(NotABinlogError):
        binlog_core.open(empty)
    text = tmp_path / "text.txt.bin"
    text.write_bytes(b"hello, this is no log" * 10)
    with pytest.raises(NotABinlogError):
        binlog_core.open(text)
    with pytest.raises(BinlogError):
        binlog_core.open(tmp_path / "absent.000001")


def test_a_log_just_opened_by_its_server() -> None:
    with binlog_core.open(b"\xfebin") as log:
        assert list(log.rows()) == []
        assert len(log.headers()) == 0
        with pytest.raises(NotABinlogError):
            _ = log.format


def test_a_cut_log_ends_cleanly_unless_strict() -> None:
    data = META_FULL.data
    cut = data[: len(data) - 20]
    with binlog_core.open(cut) as log:
        rows = list(log.rows())
        assert log.tail is not None
        assert log.tail.offset < len(cut)
    assert rows == all_rows(data)[: len(rows)]
    with binlog_core.open(cut, strict=True) as log, pytest.raises(binlog_core.TruncatedError) as error:
        list(log.rows())
    assert error.value.offset is not None


# ---------------------------------------------------------------- following


def test_following_a_log_that_grows_and_rotates(tmp_path: Path) -> None:
    """A writer appends two logs in small steps; the reader follows, is stopped, and goes on later."""
    first, second = GTID.data, DDL.data
    want = places(all_rows(first)) + places(all_rows(second))
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(first[:4])

    def write() -> None:
        for name, data, begin in (("mysql-bin.000001", first, 4), ("mysql-bin.000002", second, 0)):
            for at in range(begin, len(data), 700):
                with open(tmp_path / name, "ab") as out:
                    out.write(data[at : at + 700])
                time.sleep(0.002)

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[tuple[str, str, int]] = []
    checkpoint: tuple[str, int] | None = None
    deadline = time.monotonic() + 60
    while len(seen) < len(want):
        assert time.monotonic() < deadline, f"{len(seen)} of {len(want)} changes seen"
        with binlog_core.open(tmp_path, follow=True, start=checkpoint) as log:
            threading.Timer(0.3, log.stop).start()
            reader = ChangeReader(log.report, skip_errors=False)
            open_changes: list[binlog_core.RowChange] = []
            for group in log.groups():
                # What lies behind the checkpoint is read again after a restart, but not in this pass.
                open_changes += reader.changes([group])
                seen += places([c for c in open_changes if c.position < group.resume_position])
                open_changes = [c for c in open_changes if c.position >= group.resume_position]
                checkpoint = (group.path, group.resume_position)
                log.stop()
    writer.join()
    assert seen == want


@pytest.mark.parametrize("each_file", [False, True])
def test_events_follow_too(each_file: bool, tmp_path: Path) -> None:
    first, second = GTID.data, DDL.data
    (tmp_path / "bin.000001").write_bytes(first[:900])
    want = [event.position for data in (first, second) for event in binlog_core.open(data).events()]
    seen: list[int] = []
    paths: list[str] = []
    with binlog_core.open(tmp_path, follow=True) as log:

        def write() -> None:
            for name, data, begin in (("bin.000001", first, 900), ("bin.000002", second, 0)):
                for at in range(begin, len(data), 700):
                    with open(tmp_path / name, "ab") as out:
                        out.write(data[at : at + 700])
                    time.sleep(0.002)

        writer = threading.Thread(target=write)
        writer.start()
        threading.Timer(60, log.stop).start()
        for one in log.each_file() if each_file else [log]:
            paths.append(Path(one.files[0].path).name)
            for event in one.events():
                seen.append(event.position)
                if len(seen) == len(want):
                    log.stop()
        writer.join()
    assert seen == want
    assert paths == ["bin.000001", "bin.000002"][: 2 if each_file else 1]


def test_each_file_has_its_own_log(tmp_path: Path) -> None:
    for number, golden in ((1, GTID), (2, DDL), (3, META_FULL)):
        (tmp_path / f"bin.00000{number}").write_bytes(golden.data)
    ranged = {"start": ("bin.000002", 4), "tables": "*.*"}
    with binlog_core.open(tmp_path, **ranged) as log:  # type: ignore[arg-type]
        found = [(Path(one.files[0].path).name, len(list(one.rows()))) for one in log.each_file()]
    assert found == [("bin.000002", len(DDL.truth)), ("bin.000003", len(META_FULL.truth))]


def test_header_chunks_are_the_headers_of_each_file(tmp_path: Path) -> None:
    for number, golden in ((1, GTID), (2, DDL)):
        (tmp_path / f"bin.00000{number}").write_bytes(golden.data)
    with binlog_core.open(tmp_path) as log:
        chunks = list(log.header_chunks())
        assert np.array_equal(np.concatenate(chunks), log.headers())
    assert [len(chunk) for chunk in chunks if chunk["position"][0] == 4] == [
        len(binlog_core.open(golden.data).headers()) for golden in (GTID, DDL)
    ]


def test_headers_in_small_pieces_lose_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with binlog_core.open(path_of(GTID)) as log:
        whole = log.headers()
        monkeypatch.setattr("binlog_core._walk.event_walk._CHUNK", 7)
        assert log.headers().tolist() == whole.tolist()
        assert len(list(log.events())) == len(whole)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"start": "2024-01-01"}, TypeError, "start='2024-01-01'"),
        ({"stop": dt.date(2024, 1, 1)}, TypeError, "datetime is expected"),
        ({"start": 4.0}, TypeError, "start=4.0"),
        ({"start": ("log.000001", None)}, TypeError, "a position"),
        ({"stop": -1}, ValueError, "stop=-1"),
        ({"tables": 5}, TypeError, "a name is expected, not 5"),
        ({"columns": {"t": [1]}}, TypeError, "a name is expected, not 1"),
        ({"ops": "upsert"}, ValueError, "insert, update and delete"),
        ({"limits": {"group_rows": 1}}, TypeError, "Limits"),
        ({"server_id": "1"}, TypeError, "server_id"),
        ({"server_id": -1}, ValueError, "server_id=-1"),
        ({"server_id": 1 << 32}, ValueError, "4294967295"),
        ({"stop": 10**30}, ValueError, "below 2**63"),
        ({"start": ("log.000001", 1 << 63)}, ValueError, "below 2**63"),
        ({"start": (5, 4)}, TypeError, "start=(5, 4)"),
        ({"start": dt.datetime(2024, 2, 1), "stop": dt.datetime(2024, 1, 1)}, ValueError, "behind"),
        ({"gtids": 42}, TypeError, "gtids= takes GTIDs"),
        ({"exclude_gtids": [42]}, TypeError, "exclude_gtids= takes GTIDs"),
        ({"gtids": b"0-1-1"}, TypeError, "gtids= takes GTIDs"),
        ({"gtids": "0-1-1"}, GtidError, "gtids= has GTIDs of MariaDB, and the log is of MySQL"),
        ({"exclude_gtids": MariadbGtid(0, 1, 1)}, GtidError, "exclude_gtids= has GTIDs of MariaDB"),
        ({"gtids": ["0-1-1", f"{'0' * 8}-0000-0000-0000-{'0' * 12}:1"]}, GtidError, "brought together"),
        ({"schema": 5}, TypeError, "a schema is a dict"),
        ({"schema": {"t": "create table t (a int)"}}, SchemaError, "database.table"),
        ({"schema": {5: "create table t (a int)"}}, TypeError, "database.table"),
        ({"schema": "no/such/file.sql"}, SchemaError, "cannot be read"),
        ({"schema_start": {}}, ValueError, "schema_start="),
        ({"schema_start": {}, "schema": {}}, ValueError, "schema_start="),
        ({"start": 2000, "stop": 100}, ValueError, "start=2000 is behind stop=100"),
        *(
            ({name: "no"}, TypeError, f"{name}='no': True or False is expected")
            for name in ("verify_checksum", "strict", "rows_v0", "follow", "mmap")
        ),
        ({"keys": 0}, TypeError, "keys= takes a path or a dict, not int"),
        ({"storage_options": "key"}, TypeError, "storage_options= takes a dict, not str"),
    ],
)
def test_arguments_are_looked_at_when_they_are_given(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        binlog_core.open(golden_logs("mysql97/types_ints")[0].path, **arguments)


@pytest.mark.parametrize(
    ("types", "error"), [("XID", TypeError), (["XID"], TypeError), ([2.5], TypeError), ([999], ValueError)]
)
def test_types_of_events_are_looked_at_when_they_are_given(types: Any, error: type[Exception]) -> None:
    with binlog_core.open(path_of(GTID)) as log, pytest.raises(error, match="types="):
        log.events(types)


@pytest.mark.parametrize("golden", golden_logs("*/gtid") + golden_logs("*/maria_gtid"), ids=str)
def test_headers_and_events_keep_to_the_range(golden: Golden) -> None:
    path = path_of(golden)
    with binlog_core.open(path) as log:
        every = log.headers()
    positions, times = every["position"], every["timestamp"]
    middle, end = int(positions[len(every) // 3]), int(positions[2 * len(every) // 3])
    early, late = (dt.datetime.fromtimestamp(int(t), dt.UTC) for t in np.quantile(times, [0.3, 0.7]))
    cases: list[tuple[dict[str, Any], np.ndarray]] = [
        ({"start": middle}, positions >= middle),
        ({"stop": end}, positions < end),
        ({"stop": end + 1}, positions <= end),
        ({"start": middle, "stop": end}, (positions >= middle) & (positions < end)),
        ({"start": middle, "stop": middle}, positions < 0),
        ({"start": early}, times >= early.timestamp()),
        ({"start": early, "stop": late}, (times >= early.timestamp()) & (times < late.timestamp())),
        ({"server_id": int(every["server_id"][-1])}, every["server_id"] == every["server_id"][-1]),
        ({"server_id": 999}, positions < 0),
    ]
    assert (np.diff(times.astype(np.int64)) >= 0).all()
    for options, mask in cases:
        for mmap in (True, False):
            with binlog_core.open(path, mmap=mmap, **options) as log:
                assert log.headers().tolist() == every[mask].tolist(), options
                assert [e.position for e in log.events()] == positions[mask].tolist(), options


def test_events_of_a_place_in_one_of_several_files(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        shutil.copy(path_of(GTID), tmp_path / f"log.00000{number}")
    with binlog_core.open(path_of(GTID)) as log:
        positions = log.headers()["position"].tolist()
    begin, end = positions[10], positions[20]
    with binlog_core.open(tmp_path, start=("log.000002", begin), stop=("log.000003", end)) as log:
        assert log.headers()["position"].tolist() == positions[10:] + positions[:20]
        assert [e.position for e in log.events()] == positions[10:] + positions[:20]


def test_events_do_not_look_at_what_is_outside_of_the_range() -> None:
    data = bytearray(Path(path_of(GTID)).read_bytes())
    with binlog_core.open(bytes(data)) as log:
        positions = log.headers()["position"].tolist()
    for damaged in (positions[3], positions[-3]):
        data[damaged + 9] ^= 0x55  # its length
    with binlog_core.open(bytes(data), start=positions[5], stop=positions[-3]) as log:
        assert log.headers()["position"].tolist() == positions[5:-3]
        assert len(list(log.events())) == len(positions[5:-3])
    with (
        binlog_core.open(bytes(data), start=positions[5] + 1) as log,
        pytest.raises(DecodeError, match=f"does an event begin at start={positions[5] + 1}"),
    ):
        log.headers()
    with (
        binlog_core.open(bytes(data), start=len(data) + 1) as log,
        pytest.raises(DecodeError, match="lies behind"),
    ):
        log.headers()


def test_events_from_a_descriptor_in_mid_log_follow_it() -> None:
    golden = golden_logs("mysql97/types_ints")[0].data
    without = golden_logs("mysql97/checksum_none")[0].data
    joined = without + golden[4:]
    with binlog_core.open(joined) as log:
        every = log.headers()
        events = list(log.events())
    [at] = [int(h["position"]) for h in every[1:] if h["type_code"] == 15]
    assert at == len(without)
    with binlog_core.open(joined, start=at) as log:
        assert list(log.events()) == [event for event in events if event.position >= at]
        assert log.headers().tolist() == every[every["position"] >= at].tolist()


def test_what_the_log_does_not_tell_is_warned_of_once_where_the_user_stands() -> None:
    for read in (Opened.rows, Opened.batches, Opened.groups):
        with binlog_core.open(path_of(golden_logs("mysql56/types_ints")[0])) as log:
            with pytest.warns(BinlogWarning) as caught:
                for _ in read(log):
                    pass
            texts = [str(one.message) for one in caught]
            assert [text.split(":")[0] for text in texts] == [
                "tables whose column names the log does not tell",
                "integer columns whose sign the log does not tell",
            ]
            assert all("schema=" in text for text in texts)
            assert {one.filename for one in caught} == {__file__}
    with (
        binlog_core.open(path_of(golden_logs("mysql56/types_ints")[0])) as log,
        pytest.warns(BinlogWarning, match="read as signed") as caught,
    ):
        log.batches("*").to_arrow()
    assert {one.filename for one in caught} == {__file__}


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_limits_are_looked_at_when_they_are_given(name: str) -> None:
    for value in (0, -1, 10**30):
        with pytest.raises(ValueError, match=f"{name}={value}"):
            Limits(**{name: value})
    for value in (1.5, "1", None, True):
        with pytest.raises(TypeError, match=f"{name}="):
            Limits(**{name: value})


def test_gtids_in_any_form_select_and_leave_out() -> None:
    path = path_of(GTID)
    with binlog_core.open(path) as log:
        by_gtid = Counter(change.gtid for change in log.rows())
    (one, count), (other, more) = by_gtid.most_common(2)
    assert one is not None and other is not None
    for form in (one, [one], parse_gtid(one), {parse_gtid(one)}, parse_gtid_set(one), iter([one])):
        with binlog_core.open(path, gtids=form) as log:
            assert sum(1 for _ in log.rows()) == count, form
    with binlog_core.open(path, gtids=[one, parse_gtid(other)]) as log:
        assert sum(1 for _ in log.rows()) == count + more
    with binlog_core.open(path, exclude_gtids=[one, other]) as log:
        assert sum(1 for _ in log.rows()) == by_gtid.total() - count - more
    with binlog_core.open(path_of(MARIA_GTID), exclude_gtids="") as log:
        assert sum(1 for _ in log.rows()) > 0  # an empty set has no vendor


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tables": "shop.sensor_aa"}, "tables='shop.sensor_aa'; near: shop.sensor_a"),
        ({"tables": ["shop.*", "stock.*"]}, "tables='stock.*'"),
        ({"exclude_tables": "shop.sensor_aa"}, "exclude_tables='shop.sensor_aa'; near: shop.sensor_a"),
        ({"columns": {"shop.nope": ["id"], "shop.*": ["id"]}}, "columns={'shop.nope': …}"),
        ({"columns": {"shop.ledger_b": ["id"]}, "tables": "shop.sensor_a"}, "columns={'shop.ledger_b': …}"),
        ({"schema": {"shop.sensor_x": "create table t (a int)"}}, "schema={'shop.sensor_x': …}; near:"),
        ({"gtids": f"{'0' * 8}-0000-0000-0000-{'0' * 12}:1"}, "no transaction is in gtids="),
        ({"server_id": 999}, "server_id=999"),
    ],
)
def test_names_that_nothing_has_are_told(arguments: dict[str, Any], words: str) -> None:
    with binlog_core.open(path_of(MIXED), **arguments) as log:
        with pytest.warns(BinlogWarning, match=re.escape(words)):
            list(log.rows())
        assert log.report.unmatched_names == 1
    with (
        binlog_core.open(path_of(MIXED), strict=True, **arguments) as log,
        pytest.warns(BinlogWarning),
    ):
        list(log.rows())  # the log is not silent: no StrictError


@pytest.mark.parametrize(
    "arguments",
    [
        {"tables": ["shop.sensor_a", "*.sensor_*"]},
        {"columns": {"shop.sensor_a": ["id"], "*": ["id", "aid", "nid", "kid"]}},
        {"server_id": 11},
        {"ops": "insert", "tables": "shop.nokey"},
    ],
)
@pytest.mark.filterwarnings("error")
def test_names_that_something_has_are_not_told(arguments: dict[str, Any]) -> None:
    with binlog_core.open(path_of(MIXED), **arguments) as log:
        try:
            list(log.batches())
        except SchemaError:
            assert "columns" in arguments
        assert not log.report.unmatched_names


def test_names_that_one_of_several_files_has_are_not_told(tmp_path: Path) -> None:
    for number, name in enumerate("abc", 1):
        log = Log("8.4.0")
        log.begin()
        log.insert(Table("shop", name, [("id", "INT")]), [{"id": number}])
        log.commit()
        (tmp_path / f"bin.00000{number}").write_bytes(log.getvalue())
    for table, told in (("shop.a", 0), ("shop.b", 0), ("shop.c", 0), ("shop.d", 1)):
        with warnings.catch_warnings(record=True) as caught, binlog_core.open(tmp_path, tables=table) as log:
            warnings.simplefilter("always")
            for one in log.each_file():
                list(one.rows())
        assert len(caught) == told, table


@pytest.mark.filterwarnings("error")
def test_definitions_that_are_not_needed_are_no_mistake() -> None:
    columns = "(id int, n bigint, s varchar(40), d decimal(10,2))"
    schema = dict.fromkeys(("shop.sensor_a", "shop.sensor_b"), f"create table t {columns}")
    with binlog_core.open(path_of(MIXED), schema=schema, tables="shop.sensor_a", columns=["id"]) as log:
        list(log.batches())
        assert not log.report.counts


def test_bytes_cannot_be_followed() -> None:
    with pytest.raises(ValueError, match="bytes do not"):
        binlog_core.open(golden_logs("mysql97/types_ints")[0].data, follow=True)


def test_columns_without_a_table_are_those_of_every_table() -> None:
    path = golden_logs("mysql97/types_ints")[0].path
    with binlog_core.open(path, columns=["id", "flag_int"]) as log:
        assert {tuple(change.after) for change in log.rows() if change.after} == {("id", "flag_int")}
        assert {batch.array["row"].dtype.names for batch in log.batches(columns="id")} == {("id",)}
        with pytest.raises(binlog_core.SchemaError, match="nope"):
            list(log.batches(columns=["nope"]))


def test_a_start_within_an_event_is_told() -> None:
    path = golden_logs("mysql97/types_ints")[0].path
    with binlog_core.open(path) as log:
        position = log.headers()["position"][5]
    with binlog_core.open(path, start=position) as log:  # a number of numpy's
        assert len(list(log.rows())) == 25
    with (
        binlog_core.open(path, start=int(position) + 3) as log,
        pytest.raises(binlog_core.DecodeError, match=f"start={position + 3}\\?"),
    ):
        list(log.rows())


def test_names_with_dots() -> None:
    table = binlog_core.Table("a.b", "c", ())
    assert matches(table, "a.b.c") and matches(table, "c") and matches(table, "a.b.*")
    assert not matches(table, "b.c")


def test_tables_of_a_log() -> None:
    with binlog_core.open(path_of(MIXED)) as log:
        tables = log.tables()
        assert list(tables) == ["shop.sensor_a", "shop.ledger_b", "shop.nokey", "shop.keych", "shop.auto"]
        assert [column.name for column in tables["shop.sensor_a"].columns] == ["id", "n", "s", "d"]
        assert "checksums crc32" in repr(log) and "9.7.4-2" in log._repr_html_()
        assert "shop.auto in" in repr(log.batches("shop.auto"))


def test_read_table() -> None:
    pytest.importorskip("pyarrow")
    path = path_of(MIXED)
    whole = binlog_core.read_table(path, "shop.sensor_a")
    with binlog_core.open(path) as log:
        assert whole.to_pylist() == log.batches("shop.sensor_a").to_arrow().to_pylist()
        assert whole.equals(binlog_core.read_table(log, "sensor_a"))
        with pytest.raises(TypeError, match="open already: strict"):
            binlog_core.read_table(log, "sensor_a", strict=True)
    part = binlog_core.read_table(path, "shop.sensor_a", columns=["n"], change_columns="_gtid", ops="delete")
    assert part.schema.names == ["n", "_gtid"]
    assert part.num_rows == whole["_change_type"].to_pylist().count("delete")
    with pytest.raises(SchemaError, match=r"near: shop\.sensor_a"):
        binlog_core.read_table(path, "shop.sensor_b")
    with pytest.raises(SchemaError, match="no such column; the table has id, n, s, d"):
        binlog_core.read_table(path, "shop.sensor_a", columns=["x"])


def test_read_table_gives_the_wider_type() -> None:
    pytest.importorskip("pyarrow")
    log = Log("8.0.36")
    log.begin()
    log.insert(Table("shop", "t", [("id", "INT")]), [{"id": -1}])
    log.commit()
    log.begin()
    log.insert(Table("shop", "t", [("id", "BIGINT")]), [{"id": 2**40}])
    log.commit()
    found = binlog_core.read_table(log.getvalue(), "t", change_columns=False)
    assert sorted(found["id"].to_pylist()) == [-1, 2**40]


@pytest.mark.parametrize("golden", [GTID, MARIA_GTID], ids=str)
def test_changes_and_events_tell_their_file_and_commit_time(golden: Golden) -> None:
    path = path_of(golden)
    with binlog_core.open(path) as log:
        changes, events = list(log.rows()), list(log.events())
        told = {}
        for group in log.groups():
            for one in group.transactions:
                told[gtid_text(one)] = int(one["commit_time"]) if one["commit_time"] >= 0 else None
    assert {change.path for change in changes} == {event.path for event in events} == {path}
    for change in changes:
        assert change.commit_time == told[change.gtid]
        assert change.commit_time is None or abs(change.commit_time / 1e6 - change.timestamp) < 60
    assert (golden is GTID) == (changes[0].commit_time is not None)
    again = pickle.loads(pickle.dumps(changes[0]))
    assert (again, again.path, again.commit_time) == (changes[0], path, changes[0].commit_time)
    assert pickle.loads(pickle.dumps(events[-1])).path == path
    elsewhere = all_rows(golden.data)
    assert elsewhere == changes  # the same changes, wherever they were read
    assert elsewhere[0].path == "<bytes>"
