"""Rounds that leave files and list their deleted rows: every reader sees what a simple model says."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402
from support.source import batch_of  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core.lake.apply import files as data_files  # noqa: E402
from binlog_core.lake.apply.file_target import FileTarget  # noqa: E402
from binlog_core.lake.apply.files import tables_of  # noqa: E402
from binlog_core.lake.apply.jobs import Folder  # noqa: E402
from binlog_core.lake.runner import HERE  # noqa: E402
from binlog_core.lake.tables import delta, vectors  # noqa: E402
from binlog_core.lake.tables.delta import DeltaLakeTable  # noqa: E402
from binlog_core.lake.tables.table import DataFile  # noqa: E402
from binlog_core.mirror import joining  # noqa: E402
from binlog_core.spark import apply_changes  # noqa: E402

Rows = dict[Any, dict[str, Any]]
KEYS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "numbers": ("BIGINT", lambda number: number * 7),
    "texts": ("VARCHAR(40)", lambda number: f"{'aü𠮷'[number % 3]}{number * 7919 % 1009}"),
    "bytes": ("VARBINARY(16)", lambda number: (number * 7919 % 65_537).to_bytes(4, "little")),
}


def target_of(path: Path, *, by_vectors: bool = True) -> FileTarget:
    place = Folder(str(path), delta=True)
    return FileTarget(DeltaLakeTable(str(path)), place, vectors=by_vectors)


class Source:
    """A table that is changed at random: its log, and its rows."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        declared, self._key = KEYS[kind]
        columns: list[Any] = [("id", declared, {"null": False}), ("v", "INT"), ("t", "TEXT")]
        self._table = Table("shop", "t", columns, primary_key=["id"])
        self._folder, self._random = folder, random.Random(seed)
        self._number = 0
        self.rows: Rows = {}

    def _row(self, key: Any) -> dict[str, Any]:
        return {"id": key, "v": self._random.randrange(1000), "t": self._random.choice(("x", "日", None))}

    def batch(self, count: int, *, partial: bool = False, first: bool = False) -> Any:
        """A transaction for each of some changes; `partial`: updates lack the columns that stay."""
        log, chance = Log("8.0.36"), self._random
        for _ in range(count):
            log.begin("shop")
            key = self._key(chance.randrange(3000))
            there = key in self.rows
            if first or not there:
                if not there:
                    self.rows[key] = self._row(key)
                    log.insert(self._table, [self.rows[key]])
            elif chance.random() < 0.3:
                log.delete(self._table, [self.rows.pop(key)])
            elif partial and chance.random() < 0.5:
                before = self.rows[key]
                after = self.rows[key] = before | {"v": chance.randrange(1000)}
                log.update(self._table, [(before, after)], before_columns=["id"], after_columns=["id", "v"])
            elif chance.random() < 0.2 and (other := self._key(chance.randrange(3000))) not in self.rows:
                before = self.rows.pop(key)
                after = self.rows[other] = before | {"id": other}
                log.update(self._table, [(before, after)])
            else:
                before, after = self.rows[key], self._row(key)
                self.rows[key] = after
                log.update(self._table, [(before, after)])
            log.commit()
        self._number += 1
        return batch_of(log, self._folder / f"bin.{self._number:06}")


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: repr(row["id"]))


def by_ourselves(path: Path) -> list[dict[str, Any]]:
    place = Folder(str(path), delta=True)
    return [row for one in tables_of(place, DeltaLakeTable(str(path)).files()) for row in one.to_pylist()]


def by_deltalake(path: Path, version: int | None = None) -> list[dict[str, Any]]:
    found = pa.table(deltalake.DeltaTable(str(path), version=version).scan().read_all())
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def by_polars(path: Path) -> list[dict[str, Any]]:
    polars = pytest.importorskip("polars")
    found: list[dict[str, Any]] = polars.read_delta(str(path)).to_dicts()
    return found


def by_duckdb(path: Path) -> list[dict[str, Any]]:
    """With the extension of the package duckdb-extension-delta."""
    duckdb, packed = pytest.importorskip("duckdb"), pytest.importorskip("duckdb_extension_delta")
    inside = Path(packed.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{inside / 'delta.duckdb_extension'}'")
    found: list[dict[str, Any]] = (
        connection.execute(f"SELECT * FROM delta_scan('{path}')").arrow().read_all().to_pylist()
    )
    return found


READERS = {"ourselves": by_ourselves, "deltalake": by_deltalake, "polars": by_polars, "duckdb": by_duckdb}


@pytest.fixture(scope="module", params=KEYS)
def history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[int, Rows]]:
    """A table after rounds of either way, compactions and a checkpoint, and its rows at each version."""
    folder = tmp_path_factory.mktemp(request.param)
    path, source, known = folder / "t", Source(folder, request.param, seed=len(request.param)), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "_INLINE", 200)  # both kinds
        patch.setattr(delta, "_CHECKPOINT_INTERVAL", 5)
        for number in range(12):
            first = number == 0
            batch = source.batch(1500 if first else 120, partial=number % 3 == 1, first=first)
            apply_changes(batch, target_of(path, by_vectors=number != 6))
            table = DeltaLakeTable(str(path))
            known[table.version] = dict(source.rows)
            if number in (5, 8):
                joining.compact(HERE, table, Folder(str(path), delta=True))
                known[table.version] = dict(source.rows)
    return path, known


@pytest.mark.parametrize("reader", READERS)
def test_readers_see_the_rows_of_the_model(reader: str, history: tuple[Path, dict[int, Rows]]) -> None:
    path, known = history
    expected = in_order([*known[max(known)].values()])
    assert len(expected) > 500
    assert in_order(READERS[reader](path)) == expected


def test_earlier_versions_stay_as_they_were(history: tuple[Path, dict[int, Rows]]) -> None:
    path, known = history
    for version, rows in known.items():
        assert in_order(by_deltalake(path, version)) == in_order([*rows.values()]), version


def test_the_table_says_how_many_rows_it_has(history: tuple[Path, dict[int, Rows]]) -> None:
    path, known = history
    table = DeltaLakeTable(str(path))
    assert table.rows == len(known[max(known)])
    assert any(one.deleted is not None for one in table.files())
    assert (path / "_delta_log" / "_last_checkpoint").exists()
    stored = {one.deleted.storage for one in table.files() if one.deleted is not None}
    assert stored <= {"i", "u"}
    assert list(path.glob("deletion_vector_*.bin"))


def test_the_log_says_what_the_format_asks_for(tmp_path: Path) -> None:
    path, source = tmp_path / "t", Source(tmp_path, "numbers", 1)
    apply_changes(source.batch(500, first=True), target_of(path))
    assert deltalake.DeltaTable(str(path)).protocol().reader_features is None  # not before it is needed
    apply_changes(source.batch(100), target_of(path), app_id="a", batch_id=7)
    log = [json.loads(line) for line in (path / "_delta_log" / f"{1:020}.json").read_text().splitlines()]
    actions = {kind: [one[kind] for one in log if kind in one] for one in log for kind in one}
    (protocol,), (metadata,) = actions["protocol"], actions["metaData"]
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert protocol["readerFeatures"] == ["deletionVectors"]
    assert protocol["writerFeatures"] == ["appendOnly", "deletionVectors", "invariants"]
    assert metadata["configuration"] == {"delta.enableDeletionVectors": "true"}
    assert {one["appId"]: one["version"] for one in actions["txn"]}["a"] == 7
    (removed,) = actions["remove"]
    (again,) = [one for one in actions["add"] if one["path"] == removed["path"]]
    assert "deletionVector" not in removed and again["dataChange"] is removed["dataChange"] is True
    statistics = json.loads(again["stats"])
    rows = pq.read_metadata(path / again["path"]).num_rows
    assert (statistics["tightBounds"], statistics["numRecords"]) == (False, rows)
    before = again["deletionVector"]
    apply_changes(source.batch(100), target_of(path), app_id="a", batch_id=8)
    log = [json.loads(line) for line in (path / "_delta_log" / f"{2:020}.json").read_text().splitlines()]
    removed = [one["remove"] for one in log if one.get("remove", {}).get("path") == again["path"]]
    assert [one["deletionVector"] for one in removed] == [before]
    assert [set(one) for one in log if "protocol" in one or "metaData" in one] == []
    assert in_order(by_deltalake(path)) == in_order([*source.rows.values()])
    assert DeltaLakeTable(str(path)).applied("a") == 8


def test_a_file_without_rows_goes_and_so_does_everything_at_a_truncate(tmp_path: Path) -> None:
    path, source = tmp_path / "t", Source(tmp_path, "numbers", 2)
    apply_changes(source.batch(30, first=True), target_of(path))
    (first,) = path.glob("*.parquet")
    half = [*source.rows][:5]
    log = Log("8.0.36")
    log.begin("shop")
    log.delete(source._table, [source.rows[key] for key in half])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "some"), target_of(path))
    log = Log("8.0.36")
    log.begin("shop")
    log.delete(source._table, [row for key, row in source.rows.items() if key not in half])
    log.insert(source._table, [{"id": -1, "v": 1, "t": "last"}])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "rest"), target_of(path))
    table = DeltaLakeTable(str(path))
    assert [one.deleted for one in table.files()] == [None]
    assert [one.name for one in table.files()] != [first.name]
    assert by_deltalake(path) == [{"id": -1, "v": 1, "t": "last"}]
    table.empty()
    assert by_deltalake(path) == []


def test_a_column_comes_and_a_type_changes(tmp_path: Path) -> None:
    """Without the features that deltalake adds to each table whose columns it changes."""
    path, source = tmp_path / "t", Source(tmp_path, "numbers", 3)
    for first in (True, False):
        apply_changes(source.batch(200, first=first), target_of(path))
    wider = Table(
        "shop",
        "t",
        [("id", "BIGINT", {"null": False}), ("v", "BIGINT"), ("t", "TEXT"), ("n", "INT")],
        primary_key=["id"],
    )
    key = next(iter(source.rows))
    log = Log("8.0.36")
    log.begin("shop")
    log.update(wider, [({**source.rows[key], "n": None}, {**source.rows[key], "v": 1 << 40, "n": 7})])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "wider"), target_of(path))
    expected = {one: {**row, "n": None} for one, row in source.rows.items()}
    expected[key] |= {"v": 1 << 40, "n": 7}
    for reader in (by_ourselves, by_deltalake):
        assert in_order(reader(path)) == in_order([*expected.values()])
    protocol = deltalake.DeltaTable(str(path)).protocol()
    assert protocol.reader_features == ["deletionVectors"]
    table = DeltaLakeTable(str(path))
    table.add_columns(pa.schema({"at": pa.timestamp("us")}))
    assert set(deltalake.DeltaTable(str(path)).protocol().reader_features) == {
        "deletionVectors",
        "timestampNtz",
    }
    assert {row["at"] for row in by_deltalake(path)} == {None}


@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_commit_that_says_nothing_may_have_been_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], made: bool
) -> None:
    monkeypatch.setattr(vectors, "_INLINE", 0)
    path, source = tmp_path / "t", Source(tmp_path, "numbers", 4)
    apply_changes(source.batch(300, first=True), target_of(path), app_id="a", batch_id=1)
    before, files = in_order(by_deltalake(path)), {one.name for one in path.iterdir()}
    batch = source.batch(50)
    link = os.link

    def unheard(*arguments: Any, **settings: Any) -> None:
        if made:
            link(*arguments, **settings)
        raise error

    with monkeypatch.context() as patch, pytest.raises((BinlogError, KeyboardInterrupt)):
        patch.setattr(os, "link", unheard)
        apply_changes(batch, target_of(path), app_id="a", batch_id=2)
    after = in_order([*source.rows.values()])
    assert in_order(by_deltalake(path)) == (after if made else before)
    if not made:
        assert {one.name for one in path.iterdir()} == files  # nothing is left
    assert [one.name for one in (path / "_delta_log").glob("*.tmp")] == []
    assert apply_changes(batch, target_of(path), app_id="a", batch_id=2).skipped is made
    assert in_order(by_deltalake(path)) == after


@pytest.mark.parametrize("what", ["append", "delete", "add a column"])
def test_another_writer_in_between_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(vectors, "_INLINE", 0)
    path, source = tmp_path / "t", Source(tmp_path, "numbers", 5)
    for first in (True, False):
        apply_changes(source.batch(200, first=first), target_of(path))
    before, files = {**source.rows}, {one.name for one in path.glob("*.bin")}
    batch, commit = source.batch(60), delta.commit
    other = next(key for key, row in source.rows.items() if before.get(key) == row)

    def late(*arguments: Any) -> None:
        table = deltalake.DeltaTable(str(path))
        if what == "append":
            row = {"id": pa.array([-7], pa.int64()), "v": pa.array([1], pa.int32()), "t": ["theirs"]}
            deltalake.write_deltalake(str(path), pa.table(row), mode="append")
        elif what == "delete":
            table.delete(f"id = {other}")
        else:
            table.alter.add_columns([deltalake.Field("more", "integer")])
        commit(*arguments)

    with monkeypatch.context() as patch, pytest.raises(BinlogError, match="another writer has committed"):
        patch.setattr(delta, "commit", late)
        apply_changes(batch, target_of(path))
    assert {one.name for one in path.glob("*.bin")} == files

    def expected(rows: Rows) -> list[dict[str, Any]]:
        rows = {key: row for key, row in rows.items() if (key, what) != (other, "delete")}
        more = [{"id": -7, "v": 1, "t": "theirs"}] if what == "append" else []
        return in_order([*rows.values(), *more])

    def found() -> list[dict[str, Any]]:
        return in_order([{name: row[name] for name in ("id", "v", "t")} for row in by_deltalake(path)])

    assert found() == expected(before)
    apply_changes(batch, target_of(path))
    assert found() == expected(source.rows)


def test_a_damaged_vector_is_an_error_that_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_INLINE", 0)
    path, source = tmp_path / "t", Source(tmp_path, "numbers", 6)
    for first in (True, False):
        apply_changes(source.batch(200, first=first), target_of(path))
    (file,) = path.glob("*.bin")
    content = bytearray(file.read_bytes())
    content[30] ^= 1
    file.write_bytes(content)
    version = DeltaLakeTable(str(path)).version
    with pytest.raises(BinlogError, match="checksum is wrong") as caught:
        apply_changes(source.batch(50), target_of(path))
    assert caught.value.path == str(file)
    with pytest.raises(BinlogError, match="checksum is wrong"):
        by_ourselves(path)
    file.unlink()
    with pytest.raises((BinlogError, OSError), match=file.name):
        apply_changes(source.batch(50), target_of(path))
    assert DeltaLakeTable(str(path)).version == version


def test_a_table_with_vectors_is_followed_by_rewriting_too(tmp_path: Path) -> None:
    """`--deletes copy` after vectors: no deleted row comes back, also in files that are not touched."""
    path, source = tmp_path / "t", Source(tmp_path, "numbers", 7)
    for first in (True, False, False):
        apply_changes(source.batch(300, first=first), target_of(path))
    for _ in range(3):
        apply_changes(source.batch(100, partial=True), target_of(path, by_vectors=False))
        assert in_order(by_deltalake(path)) == in_order([*source.rows.values()])


def test_readers_that_do_not_know_vectors_refuse(tmp_path: Path) -> None:
    """Also this library as it was before, which refused what is in these features."""
    path, source = tmp_path / "t", Source(tmp_path, "numbers", 8)
    for first in (True, False):
        apply_changes(source.batch(100, first=first), target_of(path))
    protocol = deltalake.DeltaTable(str(path)).protocol()
    for features in (protocol.reader_features, protocol.writer_features):
        assert {*features} & {"columnMapping", "deletionVectors"} == {"deletionVectors"}
    with pytest.raises(deltalake.exceptions.DeltaProtocolError, match="deletionVectors"):
        deltalake.DeltaTable(str(path)).to_pyarrow_table()


def test_a_store_takes_no_vectors(tmp_path: Path) -> None:
    table: Any = DeltaLakeTable.__new__(DeltaLakeTable)
    table.uri = "s3://lakes/t"
    with pytest.raises(BinlogError, match="can have no deletion vectors here") as caught:
        FileTarget(table, Folder("s3://lakes/t"), vectors=True)
    assert caught.value.path == "s3://lakes/t"


def test_rows_of_a_file_without_its_deleted_ones(tmp_path: Path) -> None:
    """More than one row group, and columns alone."""
    pq.write_table(pa.table({"a": range(10), "b": range(10, 20)}), tmp_path / "f", row_group_size=3)
    vector = vectors.Vector.new(data_files.np.array([0, 3, 4, 5, 9], "u8"))
    file = DataFile("f", 10, 0, deleted=vector)
    found = [one.to_pydict() for one in tables_of(Folder(str(tmp_path)), [file], ["b"])]
    assert [value for one in found for value in one["b"]] == [11, 12, 16, 17, 18]
    assert file.live == 5
