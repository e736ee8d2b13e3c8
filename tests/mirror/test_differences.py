"""Rows of the server and of the lake: which keys have different ones."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

import pyarrow as pa
import pyarrow.parquet as pq

from binlog_core.lake.apply.jobs import Folder
from binlog_core.lake.runner import LocalRunner
from binlog_core.lake.tables.table import DataFile
from binlog_core.mirror import differences
from binlog_core.mirror.differences import differing
from binlog_core.mirror.digests import digested
from binlog_core.mirror.viewing import Viewed

SCHEMA = pa.schema({"a": pa.int32(), "b c": pa.string(), "v": pa.int64()})
RUNNER = LocalRunner(2)


@pytest.fixture(params=["at once", "in parts"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "in parts":
        monkeypatch.setattr(differences, "_FEW_ROWS", -1)
        monkeypatch.setattr(differences, "_PART_ROWS", 2)
    return str(request.param)


def viewed_of(schema: pa.Schema, *key: str) -> Viewed:
    none: Any = None
    return Viewed("shop.t", none, schema, key, ("",), key, tuple(schema.names), "InnoDB")


def files_of(names: list[str]) -> list[DataFile]:
    return [DataFile(name, -1, 0) for name in names]


def test_which_keys_differ(way: str, tmp_path: Path) -> None:
    viewed = viewed_of(SCHEMA, "a", "b c")

    class Counted(Folder):
        def open(self) -> Any:
            with open(f"{self.root}/opened", "a") as file:
                file.write(".")
            return super().open()

    place, work = Counted(str(tmp_path)), Folder(str(tmp_path))

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
    found = differing(RUNNER, viewed, (place, theirs), (place, files_of(ours)), 6, work)
    missing, extra = {"a": 2, "b c": "x"}, [{"a": 2, "b c": "X"}, {"a": 4, "b c": "y"}]
    assert found == (4, [missing], extra, [{"a": 5, "b c": "y"}])
    assert (tmp_path / "opened").read_text() == "...."  # each file once
    assert differing(RUNNER, viewed, (place, theirs[:1]), (place, []), 3, work) == (
        3,
        [{"a": 1, "b c": "x"}, {"a": 2, "b c": "x"}, {"a": 3, "b c": ""}],
        [],
        [],
    )
    assert differing(RUNNER, viewed, (place, []), (place, []), 0, work) == (0, [], [], [])


def test_a_key_may_have_any_names(way: str, tmp_path: Path) -> None:
    """Also those by which numbers of rows and their signs might be known."""
    names = ("_digest", "_count", "_what", "digest", "COUNT", "sign")
    schema = pa.schema([(name, pa.int32()) for name in names])
    viewed, place = viewed_of(schema, *names), Folder(str(tmp_path))
    rows = pa.RecordBatch.from_pylist([dict.fromkeys(names, number) for number in (1, 2)], schema)
    pq.write_table(pa.Table.from_batches([digested(rows, schema, names)]), tmp_path / "theirs")
    pq.write_table(pa.Table.from_batches([rows.slice(1)]), tmp_path / "ours")
    found = differing(RUNNER, viewed, (place, ["theirs"]), (place, files_of(["ours"])), 2, place)
    assert found == (1, [dict.fromkeys(names, 1)], [], [])


ROWS = (
    {
        "d": Decimal("1.50"),
        "t": dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC),
        "s": ["r", "b"],
        "f": -0.0,
        "x": b"\0",
    },
    {"d": None, "t": None, "s": None, "f": None, "x": None},
    {"d": Decimal("-1.50"), "t": None, "s": [], "f": 0.5, "x": b""},
)


def test_without_a_key_a_row_is_its_own(way: str, tmp_path: Path) -> None:
    """Of any types, with nulls, and as often as it is there."""
    kinds = (pa.decimal128(5, 2), pa.timestamp("us", "UTC"), pa.list_(pa.string()), pa.float64(), pa.binary())
    schema = pa.schema(list(zip(ROWS[0], kinds, strict=True)))
    viewed, place = viewed_of(schema, *schema.names), Folder(str(tmp_path))

    def put(name: str, *rows: dict[str, Any]) -> list[str]:
        batch = pa.RecordBatch.from_pylist(list(rows), schema)
        found = digested(batch, schema, viewed.key) if name == "theirs" else batch
        pq.write_table(pa.Table.from_batches([found]), tmp_path / name)
        return [name]

    theirs = put("theirs", *ROWS, *ROWS)
    same = differing(
        RUNNER, viewed, (place, theirs), (place, files_of(put("same", *reversed(ROWS * 2)))), 6, place
    )
    assert same == (0, [], [], [])
    ours = put("ours", ROWS[0], *ROWS[1:], *ROWS[1:], ROWS[2])
    found = differing(RUNNER, viewed, (place, theirs), (place, files_of(ours)), 6, place)
    assert found == (2, [ROWS[0]], [ROWS[2]], [])


def test_the_first_hundred_are_named(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "in parts":
        monkeypatch.setattr(differences, "_PART_ROWS", 40)
    viewed, place = viewed_of(SCHEMA, "a"), Folder(str(tmp_path))
    rows = pa.RecordBatch.from_pylist([{"a": i, "b c": "x", "v": i} for i in range(250, 0, -1)], SCHEMA)
    pq.write_table(pa.Table.from_batches([digested(rows, SCHEMA, viewed.key)]), tmp_path / "theirs")
    pq.write_table(pa.Table.from_batches([rows.slice(240)]), tmp_path / "ours")
    found = differing(RUNNER, viewed, (place, ["theirs"]), (place, files_of(["ours"])), 250, place)
    assert found == (240, [{"a": i} for i in range(11, 111)], [], [])
