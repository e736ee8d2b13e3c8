"""Settings of a pass: where it begins and ends, in one file and in several."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from support.golden import golden_logs
from support.logs import DDL, GTID, META_FULL, all_rows, copy_as, path_of, places

import binlog_core
from binlog_core import BinlogError, DecodeError

pytestmark = pytest.mark.sanitize_long


def test_start_and_stop_position_cut_between_events() -> None:
    whole = all_rows(path_of(GTID))
    positions = sorted({e["pos"] for e in GTID.events if e["type"] in ("Gtid", "Gtid_tagged_log_event")})
    middle = positions[len(positions) // 2]
    assert all_rows(path_of(GTID), stop=middle) == [c for c in whole if c.position < middle]
    assert all_rows(path_of(GTID), start=middle) == [c for c in whole if c.position >= middle]


def test_start_behind_the_end_is_an_error() -> None:
    with pytest.raises(DecodeError, match="is beyond"):
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


def test_a_place_in_one_of_several_files(tmp_path: Path) -> None:
    for number, golden in ((1, GTID), (2, DDL)):
        copy_as(golden, tmp_path, number)
    second = places(all_rows(path_of(DDL)))
    assert places(all_rows(tmp_path, start=("mysql-bin.000002", 4))) == second
    with pytest.raises(BinlogError, match="no file"):
        all_rows(tmp_path, start=("mysql-bin.000009", 4))


def test_each_file_has_its_own_log(tmp_path: Path) -> None:
    for number, golden in ((1, GTID), (2, DDL), (3, META_FULL)):
        (tmp_path / f"bin.00000{number}").write_bytes(golden.data)
    ranged = {"start": ("bin.000002", 4), "tables": "*.*"}
    with binlog_core.open(tmp_path, **ranged) as log:  # type: ignore[arg-type]
        found = [(Path(one.files[0].path).name, len(list(one.rows()))) for one in log.each_file()]
    assert found == [("bin.000002", len(DDL.truth)), ("bin.000003", len(META_FULL.truth))]


def test_a_start_within_an_event_is_refused() -> None:
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
