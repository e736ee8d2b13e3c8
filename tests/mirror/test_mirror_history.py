"""Every version of a mirrored table's rows: once, in the columns that the table has in the end."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import pyarrow as pa
import pyarrow.parquet as pq
from support.export import piece_of
from support.lake_forms import Form

from binlog_core.lake.runner import HERE
from binlog_core.lake.tables.results import FileStatistics, ReportedStatement
from binlog_core.lake.tables.table import DataFile
from binlog_core.mirror import history
from binlog_core.mirror.history import History
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import MirrorState, TableState

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
CHANGE = {
    "_change_type": pa.string(),
    "_commit_version": pa.int64(),
    "_commit_timestamp": pa.timestamp("us", "UTC"),
    "_change_ordinal": pa.int64(),
}
_Row = tuple[Any, ...]


class Changes:
    """A table ``shop.t`` in a lake, and its changes in files."""

    def __init__(self, place: Path, form: Form) -> None:
        self.lake, self.state = Lake(str(place)), TableState("shop", "t", "following", place=100)
        state = MirrorState("id", "mysql://db1", ("shop.*",), "archive", format=form.name)
        self.lake.use(state, form.settings.get("catalog"))
        self.form = form
        self.history = History(HERE, self.lake, "id")

    def file(self, columns: dict[str, pa.DataType], *rows: _Row) -> FileStatistics:
        schema = pa.schema({**columns, **CHANGE})
        data = [(*row[:-2], *row[-2:], NOW, 0) for row in rows]
        table = pa.Table.from_pylist([dict(zip(schema.names, one, strict=True)) for one in data], schema)
        name = piece_of(Path(self.lake.path), "raw.arrow", table)
        versions = [row[-1] for row in rows]
        where = (0, 0, min(versions), max(versions))
        return FileStatistics(name, 0, 0, "shop", "t", schema, None, {}, 0, 9, 0.0, *where)

    def append(
        self, end: int, *files: FileStatistics, statements: tuple[ReportedStatement, ...] = ()
    ) -> None:
        self.history.append(self.state, files, statements, self.lake.path, end)

    def rows(self, number: int = 1) -> list[dict[str, Any]]:
        found = self.form.read(Path(self.lake.table(self.state, number))).to_pylist()
        return sorted(found, key=lambda row: (row["_commit_version"], row["_change_ordinal"]))


@pytest.fixture
def changes(tmp_path: Path, form: Form) -> Changes:
    return Changes(tmp_path, form)


ID = {"id": pa.int32()}


def test_a_history_begins_with_the_rows_that_there_are(changes: Changes) -> None:
    table = changes.lake.opened(changes.state)
    Path(table.uri).mkdir()
    pq.write_table(pa.table({"id": pa.array([7], pa.int32())}), f"{table.uri}/x.parquet")
    table.append([DataFile("x.parquet", 1, 9)], pa.schema(ID), None)
    for _ in range(2):  # killed after its commit
        changes.history.begin(changes.state)
    before = {"_commit_version": 99, "_commit_timestamp": None, "_statement": None}
    assert changes.rows() == [
        {"id": None, "_change_type": "copy", "_change_ordinal": 0, **before},
        {"id": 7, "_change_type": "insert", "_change_ordinal": 1, **before},
    ]
    changes.state.place = 200  # copied again
    changes.history.begin(changes.state)
    assert [row["_commit_version"] for row in changes.rows()] == [99, 99, 199, 199]


def test_a_table_that_is_copied_again_at_the_same_place_starts_over(changes: Changes) -> None:
    """As by a resync of rows that are not logged, on a server that logs nothing else meanwhile."""
    for number in (7, 8):
        table = changes.lake.opened(changes.state)
        Path(table.uri).mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": pa.array([number], pa.int32())}), f"{table.uri}/{number}.parquet")
        table.replace([DataFile(f"{number}.parquet", 1, 9)], pa.schema(ID), None)
        for _ in range(2):
            changes.history.begin(changes.state)
    found = changes.rows()
    assert {row["_commit_version"] for row in found} == {99}
    assert [(row["_change_type"], row["id"]) for row in found] == [
        *(("copy", None), ("insert", 7)),
        *(("copy", None), ("insert", 8)),
    ]


def test_changes_come_once_whatever_is_done_again(changes: Changes) -> None:
    first = changes.file(ID, (1, "insert", 100), (2, "insert", 120))
    for _ in range(2):
        changes.append(150, first)
    # A longer round, because the table itself could not be written: it has the same changes, and more.
    both = changes.file(ID, (1, "insert", 100), (2, "insert", 120), (2, "delete", 150))
    truncate = ReportedStatement(160, 3, "truncate", ("shop.t",), None, True, "TRUNCATE t")
    changes.append(200, both, statements=(truncate,))
    found = [(row["id"], row["_change_type"], row["_commit_version"]) for row in changes.rows()]
    assert found == [(1, "insert", 100), (2, "insert", 120), (2, "delete", 150), (None, "truncate", 160)]
    assert changes.rows()[3]["_statement"] == "TRUNCATE t"
    assert changes.rows()[0]["_commit_timestamp"] == NOW


def test_changes_behind_the_mark_of_a_new_copy_come_once(changes: Changes) -> None:
    """The mark is a place that every SELECT sees: it may come before what the archive had by then."""
    changes.append(150, changes.file(ID, (1, "insert", 110), (2, "insert", 140)))
    changes.state.place = 130
    changes.history.begin(changes.state)
    for end in (150, 200):
        changes.append(end, changes.file(ID, (2, "insert", 140), (3, "insert", 150)))
    found = [(row["id"], row["_change_type"], row["_commit_version"]) for row in changes.rows()]
    assert found == [(1, "insert", 110), (None, "copy", 129), (2, "insert", 140), (3, "insert", 150)]


@pytest.mark.parametrize("step", ["write_files", "commit"])
def test_files_of_a_commit_that_fails_are_deleted(
    changes: Changes, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """One file of rows and one of statements: the second, or their commit, fails."""
    changes.append(150, changes.file(ID, (1, "insert", 110)))
    there = set(Path(changes.lake.table(changes.state, 1)).rglob("*.parquet"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if step == "commit":
        monkeypatch.setattr(type(changes.lake.opened(changes.state)), "exchange", full)
    else:
        monkeypatch.setattr(history, "write_files", full)
    more = changes.file(ID, (2, "insert", 160))
    truncate = ReportedStatement(160, 3, "truncate", ("shop.t",), None, True, "TRUNCATE t")
    with pytest.raises(OSError, match="No space"):
        changes.append(200, more, statements=(truncate,))
    assert set(Path(changes.lake.table(changes.state, 1)).rglob("*.parquet")) == there
    monkeypatch.undo()
    changes.append(200, more, statements=(truncate,))
    assert [(row["id"], row["_change_type"]) for row in changes.rows()] == [
        (1, "insert"),
        (2, "insert"),
        (None, "truncate"),
    ]


def test_a_table_is_opened_once_in_a_round(changes: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    real = Lake.opened

    def counted(lake: Lake, state: TableState, number: int) -> Any:
        opened.append(number)
        return real(lake, state, number)

    monkeypatch.setattr(Lake, "opened", counted)
    dates, number = {"d": pa.date32()}, {"d": pa.int32()}
    truncate = ReportedStatement(120, 3, "truncate", ("shop.t",), None, True, "TRUNCATE t")
    files = [
        changes.file(dates, (dt.date(2026, 1, 1), "insert", 100)),
        changes.file(number, (5, "insert", 110)),
    ]
    changes.append(150, *files, statements=(truncate,))
    assert opened == [1, 2]


def test_columns_are_added_and_become_wider_in_place(changes: Changes) -> None:
    changes.append(150, changes.file(ID, (1, "insert", 100)))
    wider = {"ID": pa.int64(), "v": pa.string()}  # as its ALTER spells it
    changes.append(
        200, changes.file(ID, (2, "insert", 150)), changes.file(wider, (1 << 40, "x", "insert", 160))
    )
    changes.append(250, changes.file(ID, (3, "insert", 200)))  # and narrow again
    assert [(row["id"], row["v"]) for row in changes.rows()] == [
        (1, None),
        (2, None),
        (1 << 40, "x"),
        (3, None),
    ]
    assert len(changes.lake.opened(changes.state, 1).files()) == 3


def test_rows_whose_types_do_not_fit_go_into_a_table_of_their_own(changes: Changes) -> None:
    dates, number = {"d": pa.date32()}, {"d": pa.int32()}
    files = [
        changes.file(dates, (dt.date(2026, 1, 1), "insert", 100)),
        changes.file(number, (5, "insert", 110)),
    ]
    for _ in range(2):
        changes.append(150, *files)
    assert [row["d"] for row in changes.rows()] == [dt.date(2026, 1, 1)]
    assert [row["d"] for row in changes.rows(2)] == [5]
