"""A table on the server and in the lake: which keys have different rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("deltalake")

import pyarrow as pa
import pyarrow.parquet as pq
from support.lake_forms import Form

from binlog_core.lake.runner import HERE
from binlog_core.lake.tables.table import DataFile
from binlog_core.lake.tables.vectors import Vector
from binlog_core.mirror import comparing
from binlog_core.mirror.comparing import Compared, Standing, compared
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import TableState, new_state
from binlog_core.mirror.viewing import Viewed


def standing(lake: Lake, state: TableState) -> Standing:
    table = lake.opened(state)
    held = (table.columns, table.special, table.files(), table.rows)
    return Standing(state.full_name, *held, lake.folder(state), ())


SCHEMA = pa.schema({"a": pa.int32(), "b c": pa.string(), "v": pa.int64()})


def test_what_agrees() -> None:
    assert Compared("shop.t", 5).agrees
    assert not Compared("shop.t", 5, 1).agrees
    assert not Compared("shop.t", reason="the table is parked").agrees
    assert not Compared("shop.t", 5, columns=["b"]).agrees


def test_columns_that_only_the_lake_has(tmp_path: Path, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "differing", lambda *_: (0, [], [], []))
    state, schema = TableState("shop", "t", "following"), pa.schema({"id": pa.int32()})
    lake, selection = Lake(str(tmp_path)), cast("Any", None)
    mirror = new_state("mysql://root@db1", ("*",), "archive")
    mirror.format = form.settings["format"]
    lake.use(mirror, form.settings.get("catalog"))
    viewed = Viewed("shop.t", selection, schema, ("id",), ("",), ("id",), ("id", "gone", "held"), "InnoDB")
    rows = pa.table({"id": [1, 2], "gone": [None, None], "held": [None, "x"]})
    rows = rows.cast(pa.schema({"id": pa.int32(), "gone": pa.string(), "held": pa.string()}))
    place = Path(lake.folder(state).root)
    place.mkdir(exist_ok=True)
    pq.write_table(rows, place / "a.parquet")
    size = (place / "a.parquet").stat().st_size
    lake.opened(state).replace([DataFile("a.parquet", 2, size)], rows.schema, None)
    assert compared(HERE, standing(lake, state), viewed, lake.folder(state), []).columns == ["held"]
    planned = replace(viewed, columns=("id", "gone"))  # an ALTER came in between
    found = compared(HERE, standing(lake, state), planned, lake.folder(state), [])
    assert (found.columns, found.reason) == ([], "the table changed while it was compared")


def test_rows_that_a_deletion_vector_deletes_are_not_compared(tmp_path: Path) -> None:
    """Nor is a table with features that are not known here: its files may have more than its rows."""
    from deltalake import DeltaTable, TableFeatures

    state, schema = TableState("shop", "t", "following"), pa.schema({"id": pa.int32()})
    selection: Any = None
    viewed = Viewed("shop.t", selection, schema, ("id",), ("",), ("id",), ("id",), "InnoDB")
    lake = Lake(str(tmp_path))
    place = lake.folder(state)
    lake.opened(state).replace([], schema, None)

    def compare() -> Compared:
        return compared(HERE, standing(lake, state), viewed, place, [])

    assert compare().agrees
    pq.write_table(pa.table({"id": [1, 2, 3, 4]}, schema=schema), f"{place.root}/a.parquet")
    file = DataFile("a.parquet", 4, 9, deleted=Vector.new(np.array([0, 2], np.uint64)))
    lake.opened(state).exchange([file], (), schema, None)
    found = compare()
    assert (found.differ, found.extra) == (2, [{"id": 2}, {"id": 4}])
    DeltaTable(lake.table(state)).alter.add_feature(
        TableFeatures.RowTracking, allow_protocol_versions_increase=True
    )
    reason = compare().reason
    assert reason is not None and "the table in the lake has" in reason and "rowTracking" in reason
