"""A table on the server and in the lake: which keys have different rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import pyarrow as pa
import pyarrow.parquet as pq
from support import sparks
from support.here import Here
from support.lake_forms import Form

from binlog_core.lake.apply.jobs import Folder
from binlog_core.lake.tables.table import DataFile
from binlog_core.mirror import comparing
from binlog_core.mirror.comparing import Compared, _compared, differing
from binlog_core.mirror.digests import digested
from binlog_core.mirror.state import Lake, TableState, new_state
from binlog_core.mirror.viewing import Viewed

SCHEMA = pa.schema({"a": pa.int32(), "b c": pa.string(), "v": pa.int64()})


@pytest.fixture(scope="module")
def session() -> Any:
    return sparks.shared()


def test_which_keys_differ(session: Any, tmp_path: Path) -> None:
    none: Any = None
    viewed = Viewed("shop.t", none, SCHEMA, ("a", "b c"), ("",))

    class Counted(Folder):
        def open(self) -> Any:
            with open(f"{self.root}/opened", "a") as file:
                file.write(".")
            return super().open()

    place = Counted(str(tmp_path))

    def file(name: str, *rows: tuple[Any, ...], server: bool) -> str:
        data = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
        batch = pa.RecordBatch.from_pylist(data, SCHEMA)
        found = digested(batch, SCHEMA, viewed.key) if server else batch.select(["v", "b c", "a"])
        pq.write_table(pa.Table.from_batches([found]), tmp_path / name)
        return name

    theirs = [
        file("s1", (1, "x", 5), (2, "x", 5), (3, "", None), server=True),
        file("s2", (4, "y", 5), (5, "y", 5), server=True),
    ]
    ours = [file("l1", (3, "", None), (5, "y", 6), (1, "x", 5), server=False)]
    ours.append(file("l2", (2, "X", 5), (4, "y", 5), (4, "y", 5), server=False))  # a row that is there twice
    found = differing(session, viewed, (place, theirs), (place, ours))
    missing, extra = {"a": 2, "b c": "x"}, [{"a": 2, "b c": "X"}, {"a": 4, "b c": "y"}]
    assert found == (4, [missing], extra, [{"a": 5, "b c": "y"}])
    assert (tmp_path / "opened").read_text() == "...."  # each file once
    assert differing(session, viewed, (place, theirs[:1]), (place, [])) == (
        3,
        [{"a": 1, "b c": "x"}, {"a": 2, "b c": "x"}, {"a": 3, "b c": ""}],
        [],
        [],
    )
    assert differing(session, viewed, (place, []), (place, [])) == (0, [], [], [])


def test_a_key_may_have_any_names(session: Any, tmp_path: Path) -> None:
    """Also those by which numbers of rows and their counts might be known."""
    none: Any = None
    names = ("_digest", "_count", "_what", "digest", "COUNT", "what")
    schema = pa.schema([(name, pa.int32()) for name in names])
    viewed, place = Viewed("shop.t", none, schema, names, ("",)), Folder(str(tmp_path))
    rows = pa.RecordBatch.from_pylist([dict.fromkeys(names, number) for number in (1, 2)], schema)
    pq.write_table(pa.Table.from_batches([digested(rows, schema, names)]), tmp_path / "theirs")
    pq.write_table(pa.Table.from_batches([rows.slice(1)]), tmp_path / "ours")
    found = differing(session, viewed, (place, ["theirs"]), (place, ["ours"]))
    assert found == (1, [dict.fromkeys(names, 1)], [], [])


def test_what_agrees() -> None:
    assert Compared("shop.t", 5).agrees
    assert not Compared("shop.t", 5, 1).agrees
    assert not Compared("shop.t", reason="the table is parked").agrees
    assert not Compared("shop.t", 5, columns=["b"]).agrees


def test_columns_that_only_the_lake_has(tmp_path: Path, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "differing", lambda *_: (0, [], [], []))
    state, schema = TableState("shop", "t", "following"), pa.schema({"id": pa.int32()})
    lake, session, selection = Lake(str(tmp_path)), cast("Any", Here()), cast("Any", None)
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
    assert _compared(session, lake, state, viewed, lake.folder(state), []).columns == ["held"]


def test_a_table_whose_files_have_more_than_its_rows_is_not_compared(tmp_path: Path) -> None:
    """Another writer has deleted rows by a deletion vector: every file still has them."""
    from deltalake import DeltaTable, TableFeatures

    state, schema = TableState("shop", "t", "following"), pa.schema({"id": pa.int32()})
    selection: Any = None
    viewed = Viewed("shop.t", selection, schema, ("id",), ("",))
    lake, session = Lake(str(tmp_path)), cast("Any", None)
    lake.opened(state).replace([], schema, None)
    compare = partial(_compared, session, lake, state, viewed, lake.folder(state), [])
    assert compare().agrees
    DeltaTable(lake.table(state)).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    assert compare() == Compared("shop.t", reason="the table in the lake has deletionVectors")
