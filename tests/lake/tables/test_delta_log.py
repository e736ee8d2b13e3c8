"""The log of a Delta table: what deltalake writes is understood, and a version is made once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

import pyarrow.parquet as pq  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core.lake.tables.delta_log import LogState, Taken, commit, exists, implied, state_of  # noqa: E402
from binlog_core.lake.tables.local_files import LocalFolder  # noqa: E402

VECTOR = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 34, "cardinality": 1}
OTHER = {**VECTOR, "pathOrInlineDv": "y"}


def rows(path: Path, count: int) -> None:
    for number in range(count):
        deltalake.write_deltalake(str(path), pa.table({"id": [number]}), mode="append")


@pytest.mark.parametrize("whole", [True, False], ids=["a checkpoint", "commits alone"])
def test_a_table_of_deltalake(tmp_path: Path, whole: bool) -> None:
    rows(tmp_path, 3)
    table = deltalake.DeltaTable(str(tmp_path))
    table.delete("id = 1")
    if whole:
        table.create_checkpoint()
        for number in range(3):
            (tmp_path / "_delta_log" / f"{number:020}.json").unlink()
    rows(tmp_path, 1)
    table = deltalake.DeltaTable(str(tmp_path))
    state = state_of(LocalFolder(str(tmp_path)), table.version(), "t")
    assert {*state.added} == {Path(uri).name for uri in table.file_uris()}
    known = [json.loads(one["stats"])["numRecords"] for one in state.added.values()]
    assert known == [1, 1, 1]
    assert state.protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert state.metadata["id"] == str(table.metadata().id)
    assert json.loads(state.metadata["schemaString"]) == json.loads(table.schema().to_json())
    earlier = state_of(LocalFolder(str(tmp_path)), 3, "t")
    assert len(earlier.added) == 2


def test_a_checkpoint_of_several_files_counts_when_all_are_there(tmp_path: Path) -> None:
    rows(tmp_path, 2)
    deltalake.DeltaTable(str(tmp_path)).create_checkpoint()
    log = tmp_path / "_delta_log"
    (whole,) = log.glob("*.checkpoint.parquet")
    parts = [log / f"{1:020}.checkpoint.{one:010}.{2:010}.parquet" for one in (1, 2)]
    content = pq.read_table(whole)
    half = len(content) // 2
    for part, some in zip(parts, (content.slice(0, half), content.slice(half)), strict=True):
        pq.write_table(some, part)
    whole.unlink()
    (log / f"{0:020}.json").unlink()
    place = LocalFolder(str(tmp_path))
    assert len(state_of(place, 1, "t").added) == 2
    parts[0].unlink()
    with pytest.raises(BinlogError, match=f"the table's log lacks {0:020}.json"):
        state_of(place, 1, "t")


@pytest.mark.parametrize("order", [1, -1])
def test_a_file_gets_another_vector_in_one_commit(order: int) -> None:
    """The actions of a commit have no order."""
    state = LogState()
    state.follow([{"add": {"path": "a%20b", "size": 9, "deletionVector": VECTOR}}, {"add": {"path": "c"}}])
    change: list[dict[str, Any]] = [
        {"remove": {"path": "a%20b", "deletionVector": VECTOR}},
        {"add": {"path": "a%20b", "size": 9, "deletionVector": OTHER}},
    ]
    state.follow(change[::order])
    assert {name: one.get("deletionVector") for name, one in state.added.items()} == {"a b": OTHER, "c": None}
    state.follow([{"remove": {"path": "a%20b", "deletionVector": VECTOR}}, {"remove": {"path": "c"}}])
    assert {*state.added} == {"a b"}
    assert state.removal("a b", 5, changes=False) == {
        "path": "a%20b",
        "deletionTimestamp": 5,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": 9,
        "deletionVector": OTHER,
    }


@pytest.mark.parametrize(
    ("protocol", "writers"),
    [
        ({"minReaderVersion": 1, "minWriterVersion": 1}, []),
        ({"minReaderVersion": 1, "minWriterVersion": 2}, ["appendOnly", "invariants"]),
        ({"minReaderVersion": 1, "minWriterVersion": 3}, ["appendOnly", "checkConstraints", "invariants"]),
        (
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["timestampNtz"],
                "writerFeatures": ["timestampNtz"],
            },
            ["timestampNtz"],
        ),
    ],
)
def test_a_table_keeps_the_features_that_its_versions_stood_for(
    protocol: dict[str, Any], writers: list[str]
) -> None:
    state = LogState(protocol, {"id": "x", "schemaString": "{}", "configuration": {"a": "b"}})
    upgrade, metadata = state.upgraded(["deletionVectors"])
    assert upgrade["protocol"]["writerFeatures"] == sorted([*writers, "deletionVectors"])
    assert metadata["metaData"]["configuration"] == {"a": "b", "delta.enableDeletionVectors": "true"}
    state.follow([upgrade, metadata])
    assert state.upgraded(["deletionVectors"]) == []
    assert state.upgraded([], "{1}")[0]["metaData"]["schemaString"] == "{1}"


@pytest.mark.parametrize("text", ["{", "[1]", '{"add": 5}', '{"add": {}}', "\\ff"])
def test_a_damaged_log_is_named(text: str, tmp_path: Path) -> None:
    rows(tmp_path, 1)
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text(text)
    with pytest.raises(BinlogError, match="it is not of a table's log") as caught:
        state_of(LocalFolder(str(tmp_path)), 0, "/lake/t")
    assert caught.value.path == f"/lake/t/_delta_log/{0:020}.json"


def test_a_version_is_made_once(tmp_path: Path) -> None:
    rows(tmp_path, 1)
    before = {one.name for one in (tmp_path / "_delta_log").iterdir()}
    with pytest.raises(Taken):
        commit(str(tmp_path), 0, [{"txn": {}}])
    assert {one.name for one in (tmp_path / "_delta_log").iterdir()} == before
    commit(str(tmp_path), 1, [{"txn": {"appId": "a", "version": 5}}])
    assert (exists(str(tmp_path), 1), exists(str(tmp_path), 2)) == (True, False)
    assert deltalake.DeltaTable(str(tmp_path)).transaction_version("a") == 5
    mode = (tmp_path / "_delta_log" / f"{1:020}.json").stat().st_mode & 0o777
    assert mode == 0o666 & ~_umask()


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def test_a_version_of_writers_stands_for_features() -> None:
    """Also for names of columns that are not those of the files."""
    assert implied(1) == implied(7) == set()
    assert implied(4) == {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
    }
    assert implied(6) == implied(4) | {"columnMapping", "identityColumns"}


def test_a_file_that_the_log_lacks_is_an_error(tmp_path: Path) -> None:
    """Without its vector, its deleted rows would come back."""
    state = LogState()
    state.follow([{"add": {"path": "a%20b", "size": 9}}])
    assert state.vector("a%20b", "t") is None
    with pytest.raises(BinlogError, match="does not name") as caught:
        state.vector("b", "/lake/t/")
    assert caught.value.path == "/lake/t/b"
    state.follow([{"add": {"path": "b", "size": 9, "deletionVector": "x"}}])
    with pytest.raises(BinlogError, match="the deletion vector 'x' is not one that is known"):
        state.vector("b", "t")


def test_statistics_in_columns_of_a_checkpoint_are_left_alone(tmp_path: Path) -> None:
    """Their types are the table's, with dates that Python lacks, and a commit has no place for them."""
    rows(tmp_path, 1)
    deltalake.DeltaTable(str(tmp_path)).create_checkpoint()
    (file,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    content = pq.read_table(file)
    add = content["add"].combine_chunks()
    day = pa.array([2932897], pa.int32()).cast(pa.date32()).take(pa.array([0] * len(add)))
    parsed = pa.StructArray.from_arrays([day], ["day"])
    fields, names = [add.field(one.name) for one in add.type], [one.name for one in add.type]
    more = pa.StructArray.from_arrays([*fields, parsed], [*names, "stats_parsed"], mask=add.is_null())
    pq.write_table(content.set_column(content.schema.get_field_index("add"), "add", more), file)
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    (found,) = state_of(LocalFolder(str(tmp_path)), 0, "t").added.values()
    assert json.loads(found["stats"])["numRecords"] == 1
    assert "stats_parsed" not in found


def test_a_log_as_deep_as_none_is_named(tmp_path: Path) -> None:
    rows(tmp_path, 1)
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text('{"add":' * 100_000)
    with pytest.raises(BinlogError, match="it is not of a table's log"):
        state_of(LocalFolder(str(tmp_path)), 0, "t")


def test_a_link_whose_answer_was_lost_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system asks again, and is told that the name is there: its vectors must stay."""
    rows(tmp_path, 1)
    link = os.link

    def asked_twice(*arguments: Any, **settings: Any) -> None:
        link(*arguments, **settings)
        link(*arguments, **settings)

    monkeypatch.setattr(os, "link", asked_twice)
    commit(str(tmp_path), 1, [{"txn": {"appId": "a", "version": 5}}])
    assert deltalake.DeltaTable(str(tmp_path)).transaction_version("a") == 5
    with pytest.raises(Taken):
        commit(str(tmp_path), 1, [{"txn": {"appId": "a", "version": 6}}])
    assert deltalake.DeltaTable(str(tmp_path)).transaction_version("a") == 5
    assert {one.suffix for one in (tmp_path / "_delta_log").iterdir()} == {".json"}
