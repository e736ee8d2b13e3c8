"""The changes of a round for one table, in batches of one definition each."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest
from support.export import file_of, piece_of

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

from binlog_core.lake.plan.definitions import to_text  # noqa: E402
from binlog_core.lake.tables.results import ReportedStatement  # noqa: E402
from binlog_core.mirror.applying import apply_round, batches  # noqa: E402
from binlog_core.mirror.changes import Decoded  # noqa: E402
from binlog_core.mirror.lake import Lake  # noqa: E402
from binlog_core.mirror.mirroring import Mirroring  # noqa: E402
from binlog_core.mirror.state import MirrorState, TableState  # noqa: E402
from binlog_core.schema.ddl import DdlTracker  # noqa: E402
from binlog_core.server.address import Address  # noqa: E402

OLD, NEW = pa.schema({"id": pa.int32()}), pa.schema({"id": pa.int64()})
CHANGE = pa.schema(
    {"_change_type": pa.string(), "_commit_version": pa.int64(), "_change_ordinal": pa.int64()}
)


def statement(version: int, kind: str = "alter") -> ReportedStatement:
    return ReportedStatement(version, 0, kind, ("shop.t",), None, False, "…")


def file(name: str, schema: Any, first: int, last: int) -> Any:
    return file_of(name, schema=schema, first_version=first, last_version=last)


def test_a_batch_ends_where_types_change() -> None:
    alter, cleared = statement(50), statement(70, "truncate")
    old, new = file("old", OLD, 10, 40), file("new", NEW, 60, 90)
    first, second = batches([old, new], [alter, cleared], 100)
    assert (first.below, first.statements, first.files) == (50, [], [old])
    assert (second.below, second.statements, second.files) == (100, [alter, cleared], [new])


def test_files_that_reach_over_an_alter_are_in_both_batches() -> None:
    both, new = file("both", OLD, 10, 60), file("new", NEW, 70, 80)
    first, second = batches([both, new], [statement(50)], 100)
    assert (first.files, second.files) == ([both], [both, new])


def test_columns_of_one_type_are_one_batch() -> None:
    (one,) = batches([file("a", OLD, 10, 40), file("b", OLD, 60, 90)], [statement(50)], 100)
    assert (one.below, len(one.files), len(one.statements)) == (100, 2, 1)
    assert batches([], [], 100) == []


def test_a_round_opens_its_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many batches it has: the second continues from what the first has committed."""
    lake, state = Lake(str(tmp_path)), TableState("shop", "t", "following", place=1)
    lake.opened(state).replace([], OLD, None)
    changes = tmp_path / "_mirror" / "changes"
    changes.mkdir(parents=True)
    files = []
    for own, version in ((OLD, 10), (NEW, 60)):
        change = {"_change_type": "insert", "_commit_version": version, "_change_ordinal": 0}
        rows = pa.Table.from_pylist([{"id": version, **change}]).cast(pa.schema([*own, *CHANGE]))
        files.append(file(piece_of(changes, "raw.arrow", rows), rows.schema, version, version))
    altered = ReportedStatement(50, 0, "alter", ("shop.t",), None, False, "ALTER TABLE t MODIFY id BIGINT")
    decoded = Decoded(str(changes), {"shop.t": files}, (altered,))
    times, opened = [], Lake.opened

    def counted(self: Lake, *of: Any) -> Any:
        times.append(of)
        return opened(self, *of)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "opened", counted)
        apply_round(None, lake, state, ("id",), decoded, "mirror", 100, {})  # type: ignore[arg-type]
    table = lake.opened(state)
    assert (len(times), table.applied("mirror"), table.rows, table.columns) == (1, 100, 2, NEW)


def test_tables_with_few_changes_do_not_wait_for_each_other(tmp_path: Path) -> None:
    state = MirrorState("id", "mysql://db1", ("shop.*",), str(tmp_path))
    tables = [TableState("shop", name, "following", place=1) for name in ("few", "other", "many", "none")]
    changed = ("few", "other", "many")
    decoded = Decoded("", {f"shop.{name}": [file(name, OLD, 2, 3)] for name in changed}, ())
    decoded.files["shop.many"] *= 1 << 20
    meeting, threads, told = threading.Barrier(2), {}, []

    class Recorded(Mirroring):
        def _apply(self, table: TableState, *_: Any) -> None:
            threads[table.name] = threading.current_thread()
            if table.name in ("few", "other"):
                meeting.wait(60)  # one alone never passes it

    address = Address.of("mysql://root@db1")
    lake, nothing = Lake(str(tmp_path)), cast("Any", None)
    work = Recorded(nothing, lake, state, address, nothing, threading.Event(), told.append)
    offset = {"definitions": to_text(DdlTracker())}
    work._apply_each(tables, decoded, {"start": offset, "end": offset}, 4)
    assert threads["many"] is threading.current_thread()
    assert "none" not in threads and tables[3].place == 4
    assert threading.current_thread() not in (threads["few"], threads["other"])
    assert told == [state] * 3
