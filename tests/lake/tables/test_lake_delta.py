"""A Delta table through deltalake: commits and state."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

import numpy as np  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from binlog_core import BinlogError, BinlogWarning  # noqa: E402
from binlog_core.lake.apply.file_target import FileTarget  # noqa: E402
from binlog_core.lake.apply.jobs import Folder  # noqa: E402
from binlog_core.lake.tables import delta  # noqa: E402
from binlog_core.lake.tables.delta import DeltaLakeTable, delta_filesystem  # noqa: E402
from binlog_core.lake.tables.table import App, DataFile  # noqa: E402
from binlog_core.lake.tables.vectors import Vector  # noqa: E402


def data_file(folder: Path, name: str, **columns: Any) -> DataFile:
    folder.mkdir(exist_ok=True)
    rows = pa.table(columns)
    pq.write_table(rows, folder / name, store_schema=False)
    ids = rows["id"].to_pylist()
    return DataFile(
        name, rows.num_rows, (folder / name).stat().st_size, {"id": min(ids)}, {"id": max(ids)}, {"id": 0}
    )


def rows_of(place: Path) -> list[dict[str, Any]]:
    found = deltalake.DeltaTable(str(place)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_files_are_committed_with_their_bounds(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = DeltaLakeTable(str(place))
    assert (table.exists, table.applied("app"), table.files(), table.last_commit()) == (False, None, [], {})
    assert table.columns == pa.schema([])
    schema = pa.schema({"id": pa.int64()})
    first = data_file(place, "a.parquet", id=[1, 3])
    table.append([first], schema, App("app", 1))
    assert (table.exists, table.version, table.applied("app"), table.applied("other")) == (True, 0, 1, None)
    wide = pa.schema({"ID": pa.int64(), "at": pa.timestamp("us", "UTC")})
    moment = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    second = data_file(place, "b.parquet", id=[2], at=pa.array([moment], pa.timestamp("us", "UTC")))
    table.append([second], wide, App("app", 2))
    assert table.columns.names == ["id", "at"]  # names are compared without case
    assert rows_of(place) == [{"id": 1, "at": None}, {"id": 2, "at": moment}, {"id": 3, "at": None}]
    files = sorted(table.files(), key=lambda one: one.name)
    assert [(one.name, one.rows, one.least["id"], one.most["id"]) for one in files] == [
        ("a.parquet", 2, 1, 3),
        ("b.parquet", 1, 2, 2),
    ]
    table.exchange([data_file(place, "c.parquet", id=[7])], [first], schema, App("app", 3), {"why": "test"})
    assert [row["id"] for row in rows_of(place)] == [2, 7]
    assert table.last_commit()["why"] == "test"
    assert DeltaLakeTable(str(place)).applied("app") == 3
    table.replace([data_file(place, "d.parquet", id=[9])], schema, App("app", 4))
    assert rows_of(place) == [{"id": 9}]
    table.empty()
    assert rows_of(place) == []


def test_bounds_that_python_lacks_are_not_known(tmp_path: Path) -> None:
    days = pa.array([-719528, 2932897], pa.int32()).cast(pa.date32())  # 0000-01-01, 10000-01-01
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1, 2], "day": days}))
    (file,) = DeltaLakeTable(str(tmp_path)).files()
    assert (file.rows, file.least, file.most) == (2, {"id": 1, "day": None}, {"id": 2, "day": None})


def test_what_only_spark_writes_is_named(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "a": ["x"]})
    deltalake.write_deltalake(str(tmp_path / "parts"), rows, partition_by=["a"])
    assert DeltaLakeTable(str(tmp_path / "parts")).special == ["partitions"]
    settings = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(str(tmp_path / "feed"), rows, configuration=settings)
    assert DeltaLakeTable(str(tmp_path / "feed")).special == ["delta.enableChangeDataFeed"]
    deltalake.write_deltalake(str(tmp_path / "plain"), rows)
    assert DeltaLakeTable(str(tmp_path / "plain")).special == []


def test_columns_stay_as_they_were_declared(tmp_path: Path) -> None:
    fields = [
        deltalake.Field("id", "long", nullable=False),
        deltalake.Field("a", "string", nullable=False, metadata={"comment": "a name"}),
    ]
    deltalake.DeltaTable.create(str(tmp_path), deltalake.Schema(fields))

    def declared() -> list[tuple[str, bool, Any]]:
        found = deltalake.DeltaTable(str(tmp_path)).schema().fields
        return [(one.name, one.nullable, one.metadata) for one in found]

    def of(name: str, *values: str | None) -> DataFile:
        columns = {"id": list(range(len(values))), "a": pa.array(values, pa.string())}
        return replace(data_file(tmp_path, name, **columns), nulls={"id": 0, "a": values.count(None)})

    table, schema = DeltaLakeTable(str(tmp_path)), pa.schema({"id": pa.int64(), "a": pa.string()})
    before = declared()
    with pytest.raises(BinlogError, match="NOT NULL") as failed:
        table.exchange([of("null.parquet", "x", None)], (), schema, App("app", 1))
    assert (failed.value.column, table.applied("app"), rows_of(tmp_path)) == ("a", None, [])
    table.exchange([of("x.parquet", "x")], (), schema, App("app", 1))
    table.replace([of("y.parquet", "y")], schema, App("app", 2))
    assert (declared(), rows_of(tmp_path)) == (before, [{"id": 0, "a": "y"}])
    table.replace([of("z.parquet", "z", None)], schema, App("app", 3))  # as after its column is dropped
    assert declared() == [before[0], ("a", True, {"comment": "a name"})]
    table.replace([], pa.schema({"id": pa.int64(), "a": pa.int64()}), App("app", 4))
    assert declared() == [before[0], ("a", True, {})]  # another column of this name


def test_files_of_a_store_take_buffers_of_arrow(tmp_path: Path) -> None:
    filesystem = delta_filesystem(f"file://{tmp_path}", None)
    with filesystem.open_output_stream("x.arrow") as sink:
        sink.write(b"12")
        sink.write(pa.py_buffer(b"34"))
    assert (tmp_path / "x.arrow").read_bytes() == b"1234"


LISTS = {"minReaderVersion": 1, "minWriterVersion": 7}


def made_by_another(
    place: Path, protocol: dict[str, Any], settings: dict[str, str] | None = None, **metadata: str
) -> DeltaLakeTable:
    """A table with a protocol that deltalake does not make; `metadata`: of its column `v`."""
    deltalake.write_deltalake(str(place), pa.table({"id": [1, 2, 3], "v": [4, 5, 6]}))
    log = place / "_delta_log" / f"{0:020}.json"
    out = []
    for action in map(json.loads, log.read_text().splitlines()):
        if "protocol" in action:
            action["protocol"] = protocol
        elif (found := action.get("metaData")) is not None:
            schema = json.loads(found["schemaString"])
            schema["fields"][1]["metadata"] = {f"delta.{name}": value for name, value in metadata.items()}
            found |= {"schemaString": json.dumps(schema), "configuration": settings or {}}
        out.append(json.dumps(action) + "\n")
    log.write_text("".join(out))
    return DeltaLakeTable(str(place))


def without_the_first_row(table: DeltaLakeTable) -> None:
    (file,) = table.files()
    vector = Vector.new(np.array([0], np.uint64))
    table.exchange([replace(file, deleted=vector)], [file], table.columns, None)


@pytest.mark.parametrize("writer", [1, 2, 3, 4])
def test_a_table_of_old_writers_can_still_be_written_after_its_first_vector(
    tmp_path: Path, writer: int
) -> None:
    """Its version stands for generated columns, of which it has none."""
    table = made_by_another(tmp_path, {"minReaderVersion": 1, "minWriterVersion": writer})
    assert (table.special, table.no_vectors) == ([], [])
    without_the_first_row(table)
    again = DeltaLakeTable(str(tmp_path))
    assert (again.special, again.no_vectors, again.rows) == ([], [], 2)


@pytest.mark.parametrize(
    ("protocol", "strange"),
    [
        ({"minReaderVersion": 1, "minWriterVersion": 5}, ["columnMapping"]),
        ({"minReaderVersion": 1, "minWriterVersion": 6}, ["columnMapping", "identityColumns"]),
        ({**LISTS, "writerFeatures": ["inCommitTimestamp"]}, ["inCommitTimestamp"]),
        ({**LISTS, "writerFeatures": ["domainMetadata", "rowTracking"]}, ["domainMetadata", "rowTracking"]),
        ({**LISTS, "writerFeatures": ["icebergCompatV1", "appendOnly"]}, ["icebergCompatV1"]),
        ({**LISTS, "writerFeatures": ["of tomorrow"]}, ["of tomorrow"]),
    ],
)
def test_a_table_with_features_that_are_not_known_gets_no_vectors(
    tmp_path: Path, protocol: dict[str, Any], strange: list[str]
) -> None:
    """deltalake, which would look at the features, does not make these commits."""
    table = made_by_another(tmp_path, protocol)
    assert table.no_vectors == strange
    with pytest.raises(BinlogError, match=f"can have no deletion vectors here: {', '.join(strange)}"):
        FileTarget(table, Folder(str(tmp_path), delta=True), vectors=True)
    with pytest.raises(BinlogError, match=", ".join(strange)):
        without_the_first_row(table)
    assert DeltaLakeTable(str(tmp_path)).version == 0
    assert len(list((tmp_path / "_delta_log").iterdir())) == 1


@pytest.mark.parametrize("what", ["invariants", "generationExpression"])
def test_a_column_with_rules_of_its_own_is_special(tmp_path: Path, what: str) -> None:
    table = made_by_another(tmp_path, {"minReaderVersion": 1, "minWriterVersion": 4}, **{what: "v > 3"})
    assert table.special == [f"delta.{what}"]


VECTORS: dict[str, Any] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
}


@pytest.mark.parametrize("act", ["empty", "add_columns", "replace"])
def test_no_way_writes_a_table_with_vectors_and_a_feature_that_is_not_known(tmp_path: Path, act: str) -> None:
    features = ["deletionVectors", "inCommitTimestamp"]
    table = made_by_another(tmp_path, {**VECTORS, "writerFeatures": features})
    schema = pa.schema([*table.columns, ("w", pa.int64())])
    given: dict[str, Any] = {"empty": (), "add_columns": (schema,), "replace": ((), schema, None)}
    with pytest.raises(BinlogError, match="inCommitTimestamp"):
        getattr(table, act)(*given[act])
    assert DeltaLakeTable(str(tmp_path)).version == 0


def test_bounds_stay_exact_when_a_file_gets_a_vector(tmp_path: Path) -> None:
    """Or are left out: a reader would leave out a file whose bound was rounded."""
    table = made_by_another(tmp_path, {"minReaderVersion": 1, "minWriterVersion": 2})
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    statistics = (
        '{"numRecords": 3, "minValues": {"id": 9007199254740993, "v": 1234567890123456789.01, "x": 0.1},'
        ' "maxValues": {"id": 9007199254740993, "n": {"v": 1234567890123456789.01, "x": 1.5e300}},'
        ' "nullCount": {"id": 0}}'
    )
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["stats"] = statistics
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    table = DeltaLakeTable(str(tmp_path))
    without_the_first_row(table)
    commit = [json.loads(line) for line in log.with_name(f"{1:020}.json").read_text().splitlines()]
    (added,) = (one["add"] for one in commit if "add" in one)
    assert json.loads(added["stats"]) == {
        "numRecords": 3,
        "minValues": {"id": 9007199254740993, "x": 0.1},
        "maxValues": {"id": 9007199254740993, "n": {"x": 1.5e300}},
        "nullCount": {"id": 0},
        "tightBounds": False,
    }


FAR = "𠮷"  # U+20BB7: deltalake takes its escape in JSON, \ud842\udfb7, for U+10BB7


@pytest.mark.parametrize("by_vectors", [True, False], ids=["vectors", "copy"])
def test_bounds_and_names_beyond_the_basic_plane_are_as_they_are(tmp_path: Path, by_vectors: bool) -> None:
    schema = pa.schema({"id": pa.int64(), FAR: pa.string()})
    file = data_file(tmp_path, "a.parquet", id=[1, 2], **{FAR: ["z", FAR]})
    table = DeltaLakeTable(str(tmp_path))
    table.append([replace(file, least={FAR: "z"}, most={FAR: FAR})], schema, App("app", 1))
    if by_vectors:
        without_the_first_row(table)
    again = deltalake.DeltaTable(str(tmp_path))
    (known,) = pa.table(again.get_add_actions(flatten=True)).to_pylist()
    assert (known[f"min.{FAR}"], known[f"max.{FAR}"]) == ("z", FAR)
    assert [one.name for one in again.schema().fields] == ["id", FAR]
    assert pa.table(again.scan(predicate=f"\"{FAR}\" = '{FAR}'").read_all())["id"].to_pylist() == [2]


def test_bounds_that_may_have_been_written_with_escapes_are_not_used(tmp_path: Path) -> None:
    """As this library did: a file would be left out that has a key."""
    deltalake.write_deltalake(str(tmp_path), pa.table({"k": ["a", FAR], "t": ["b", "😀"], "n": [1, 2]}))
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace(FAR, r"\\ud842\\udfb7"))
    (file,) = DeltaLakeTable(str(tmp_path)).files()
    assert (file.least, file.most) == ({"k": "a", "t": "b", "n": 1}, {"n": 2})


def test_a_checkpoint_that_fails_is_told_and_the_commit_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, each commit reads the whole log."""

    def full(self: Any) -> None:
        raise OSError("No space left on device")

    table = made_by_another(tmp_path, {"minReaderVersion": 1, "minWriterVersion": 2})
    monkeypatch.setattr(delta, "_CHECKPOINT_INTERVAL", 2)
    monkeypatch.setattr(deltalake.DeltaTable, "create_checkpoint", full)
    with pytest.warns(BinlogWarning, match="no checkpoint: OSError: No space left") as told:
        without_the_first_row(table)
    assert len(told) == 1
    again = DeltaLakeTable(str(tmp_path))
    assert (again.version, again.rows) == (1, 2)
