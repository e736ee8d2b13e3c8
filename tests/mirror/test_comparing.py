"""A table on the server and in the lake: which keys have different rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("deltalake")

import pyarrow as pa
import pyarrow.parquet as pq
from support.lake_forms import Form

from binlog_core.lake.runner import HERE
from binlog_core.lake.tables.table import DataFile
from binlog_core.mirror import comparing
from binlog_core.mirror.comparing import Compared, _compared
from binlog_core.mirror.state import Lake, TableState, new_state
from binlog_core.mirror.viewing import Viewed

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
    viewed = Viewed("shop.t", selection, schema, ("id",), ("",))
    rows = pa.table({"id": [1, 2], "gone": [None, None], "held": [None, "x"]})
    rows = rows.cast(pa.schema({"id": pa.int32(), "gone": pa.string(), "held": pa.string()}))
    place = Path(lake.folder(state).root)
    place.mkdir(exist_ok=True)
    pq.write_table(rows, place / "a.parquet")
    size = (place / "a.parquet").stat().st_size
    lake.opened(state).replace([DataFile("a.parquet", 2, size)], rows.schema, None)
    assert _compared(HERE, lake, state, viewed, lake.folder(state), []).columns == ["held"]


def test_a_table_whose_files_have_more_than_its_rows_is_not_compared(tmp_path: Path) -> None:
    """Another writer has deleted rows by a deletion vector: every file still has them."""
    from deltalake import DeltaTable, TableFeatures

    state, schema = TableState("shop", "t", "following"), pa.schema({"id": pa.int32()})
    selection: Any = None
    viewed = Viewed("shop.t", selection, schema, ("id",), ("",))
    lake = Lake(str(tmp_path))
    lake.opened(state).replace([], schema, None)
    compare = partial(_compared, HERE, lake, state, viewed, lake.folder(state), [])
    assert compare().agrees
    DeltaTable(lake.table(state)).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    assert compare() == Compared("shop.t", reason="the table in the lake has deletionVectors")
