"""What a mirror says of its tables."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from binlog_core.spark.mirror.reporting import statuses  # noqa: E402
from binlog_core.spark.mirror.state import Lake, MirrorState, TableState  # noqa: E402


def test_how_tables_are(tmp_path: Path) -> None:
    lake, place = Lake(str(tmp_path)), (7 << 40) + 120
    state = MirrorState("id", "mysql://root@db1", ("shop.*",), "archive")
    for one in (
        TableState("shop", "t", "following", place, as_of=time.time() - 60),
        TableState("shop", "b", "parked", reason="a row"),
    ):
        state.tables[one.full_name] = one
    state.offsets[place] = {"gtids": "0-1-9"}
    deltalake.write_deltalake(lake.table(state.tables["shop.t"]), pa.table({"id": [1, 2, 3]}))
    parked, followed = statuses(lake, state)
    assert (parked.table, parked.stage, parked.reason, parked.rows) == ("shop.b", "parked", "a row", None)
    assert (parked.lag_seconds, parked.log) == (None, None)
    assert (followed.log, followed.position, followed.gtids) == (7, 120, "0-1-9")
    assert (followed.rows, followed.version, followed.uri) == (3, 0, f"{tmp_path}/shop.t")
    assert followed.lag_seconds is not None and followed.lag_seconds >= 60
    assert followed.committed is not None
    assert [one.rows for one in statuses(lake, state, quick=True)] == [None, None]
