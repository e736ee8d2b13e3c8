"""``schema="ddl"`` for splits: each has the definitions of its place, from the statements of all logs."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from support.golden import Golden, golden_logs
from support.writer import Log, Table

from binlog_core._base.change_columns import LAKE_COLUMNS
from binlog_core.lake.rows.reader import read_split
from binlog_core.schema.given import parse_create_table
from binlog_core.splits import Split, plan_splits, read_split_groups

pytestmark = [
    pytest.mark.sanitize,
    pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning"),
]

OLD = Table("shop", "t", [("id", "INT"), ("a", "VARCHAR(20)")])
NEW = Table("shop", "t", [("b", "VARCHAR(20)"), ("id", "INT")])
SILENT = [
    golden for golden in golden_logs("*/ddl*") if golden.meta["settings"].get("binlog_row_metadata") != "FULL"
]


def history(folder: Path) -> Path:
    """Two logs without names; the second begins with another definition and changes nothing itself."""
    first, second = Log("8.0.36"), Log("8.0.36")
    first.query("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(255)) CHARSET ascii", "shop")
    _rows(first, OLD, [{"id": number, "a": "x"} for number in range(5)])
    first.query("ALTER TABLE t CHANGE a b VARCHAR(255) FIRST", "shop")
    for log in (first, second):
        _rows(log, NEW, [{"b": "y", "id": 10 + number} for number in range(5)])
    for number, log in enumerate((first, second), 1):
        (folder / f"bin.{number:06}").write_bytes(log.getvalue())
    return folder


def _rows(log: Log, table: Table, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        log.begin()
        log.table_map(table, with_metadata=False)
        log.insert(table, [row], mapped=True)
        log.commit()


def by_batches(splits: list[Split], table: str | None = None) -> Iterator[dict[str, Any]]:
    for split in splits:
        for _, batch in read_split(split, schema="ddl", tables=table, images="after", unnamed="positions"):
            yield from batch.drop_columns(list(LAKE_COLUMNS)).to_pylist()


def names_by_groups(splits: list[Split]) -> Iterator[list[str]]:
    for split in splits:
        for group in read_split_groups(split, schema="ddl"):
            for batch in group.batches:
                yield from [[column.name for column in batch.columns]] * len(batch.array)


@pytest.mark.parametrize("size", [0, 150, 1 << 20])
def test_a_definition_goes_from_log_to_log(tmp_path: Path, size: int) -> None:
    splits = plan_splits(history(tmp_path), size, schema="ddl")
    assert (len(splits) > 10) == (size == 150)
    sent = pickle.loads(pickle.dumps(splits))  # as to workers
    assert list(by_batches(sent)) == [
        *({"id": number, "a": "x"} for number in range(5)),
        *({"b": "y", "id": 10 + number} for _ in range(2) for number in range(5)),
    ]
    assert list(names_by_groups(sent)) == [["id", "a"]] * 5 + [["b", "id"]] * 10


def test_the_beginning_may_be_given(tmp_path: Path) -> None:
    folder = history(tmp_path)
    (folder / "bin.000001").unlink()
    begun = {"shop.t": "CREATE TABLE t (c VARCHAR(255), d INT) CHARSET ascii"}
    splits = plan_splits(folder, 150, schema="ddl", schema_start=begun)
    assert list(by_batches(splits)) == [{"c": "y", "d": 10 + number} for number in range(5)]
    text = parse_create_table(begun["shop.t"], "shop", "t")
    assert [one.definitions.definition("shop.t", 0) for one in splits if one.definitions] == [text] * len(
        splits
    )


@pytest.mark.parametrize("size", [250, 1 << 20])
@pytest.mark.parametrize("golden", SILENT, ids=str)
def test_rows_have_the_names_that_the_server_gave_them(golden: Golden, size: int) -> None:
    splits = plan_splits(golden.path, size, schema="ddl")
    found = list(by_batches(splits))
    assert len(found) == len(golden.truth)
    named = 0
    for row, truth in zip(found, golden.truth, strict=True):
        image = truth["after"] or truth["before"]
        if row.keys() == image.keys():
            named += 1
            assert {k: row[k] for k, v in image.items() if isinstance(v, int)} == {
                k: v for k, v in image.items() if isinstance(v, int)
            }
    assert named > len(found) // 2


def test_a_split_without_definitions_is_refused(tmp_path: Path) -> None:
    first, second, *_ = plan_splits(history(tmp_path), 150)
    assert first.timeline() is None  # its reader meets what is before its rows
    with pytest.raises(ValueError, match='schema="ddl": expected it in plan_splits too'):
        read_split_groups(second, schema="ddl")
    with pytest.raises(ValueError, match='schema="ddl": expected it in plan_splits too'):
        read_split(second, schema="ddl")


def test_other_definitions_are_for_the_reader(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected ddl; give definitions to the reader"):
        plan_splits(history(tmp_path), schema="shop.sql")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='schema_start needs schema="ddl"'):
        plan_splits(tmp_path, schema_start={})
