"""Parts of the log for the tables of a mirror: a table's statements, and definitions in offsets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.archive import FakeServer, busy
from support.workers import PicklingRunner
from support.writer import Log

from binlog_core.lake.plan import ranges
from binlog_core.lake.plan.definitions import to_text
from binlog_core.lake.plan.parts import TaskPart
from binlog_core.lake.plan.ranges import Offset
from binlog_core.lake.tables.results import ReportedStatement
from binlog_core.mirror.changes import Decoded, LogPlan, definitions_at, merged
from binlog_core.schema.ddl import DdlTracker
from binlog_core.schema.given import parse_create_table
from binlog_core.schema.table_definitions import TableSchema


def test_statements_about_a_table() -> None:
    told = [
        ReportedStatement(1, 0, "alter", ("Shop.T",), None, False, "names are compared without case"),
        ReportedStatement(2, 0, "alter", ("shop.u",), None, False, "another table"),
        ReportedStatement(3, 0, "rename", ("shop.u", "shop.t"), None, False, "it is the new name"),
        ReportedStatement(4, 0, "drop", (), "SHOP", True, "its database"),
        ReportedStatement(5, 0, "drop", (), "shop2", True, "another database"),
        ReportedStatement(6, 0, "unknown", (), None, False, "it could not be read"),
    ]
    assert [one.version for one in Decoded("x", {}, tuple(told)).about("shop.t")] == [1, 3, 4, 6]
    assert [one.version for one in Decoded("x", {}, tuple(told), True).about("shop.t")] == [3, 6]
    assert [one.version for one in Decoded("x", {}, tuple(told), True).about("SHOP.u")] == [4, 6]


def table(name: str, column: str) -> TableSchema:
    return parse_create_table(f"CREATE TABLE {name} ({column} INT)", "shop", name)


def offset(*definitions: TableSchema) -> Offset:
    return {"file": "bin.000001", "position": 4, "definitions": to_text(DdlTracker(definitions))}


def test_an_offset_learns_of_tables_from_another() -> None:
    mine = offset(table("t", "old"), table("u", "mine"))
    theirs = offset(table("t", "new"), table("u", "theirs"), table("v", "theirs"))
    found = merged(mine, theirs, [("shop", "t")])
    assert definitions_at(found).definition("shop", "t") == table("t", "new")
    assert definitions_at(found).definition("shop", "u") == table("u", "mine")
    assert definitions_at(found).definition("shop", "v") is None
    assert (found["file"], found["position"]) == ("bin.000001", 4)
    assert definitions_at(mine).definition("shop", "t") == table("t", "old")


def test_names_in_statements_are_those_of_tables_on_a_server_that_stores_them_in_lower_case(
    tmp_path: Path,
) -> None:
    log = Log("10.11.6-MariaDB")
    log.query("ALTER TABLE Orders RENAME COLUMN old TO new", "SHOP")
    (tmp_path / "bin.000001").write_bytes(log.getvalue())
    for lower_case, column in ((True, "new"), (False, "old")):
        plan = LogPlan(str(tmp_path), ["shop.orders"], lower_case=lower_case)
        found = plan.behind(plan.begin((0, 0), [table("orders", "old")], {}), None, None)
        assert definitions_at(found).definition("shop", "orders") == table("orders", column)


def test_logs_are_walked_over_where_one_says(tmp_path: Path) -> None:
    server = busy(FakeServer(), 60)
    for name in server.logs:
        (tmp_path / name).write_bytes(server.bytes_of(name))
    run = PicklingRunner()

    def parts(plan: LogPlan) -> list[TaskPart]:
        start = plan.begin((0, 0), [], {})
        return plan.parts(start, plan.behind(start, None, plan.end()))

    found = parts(LogPlan(str(tmp_path), ["shop.t"], None, run))
    assert len({part.split.path for part in found}) == len(server.logs) > 3
    assert found == parts(LogPlan(str(tmp_path), ["shop.t"]))
    assert run.asked == [1, *[len(server.logs)] * 3]  # definitions, XA and boundaries


def test_an_archive_is_listed_again_when_a_file_came_or_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have thousands of logs, which every round asks for several times."""
    server, listed = busy(FakeServer(), 60), list[int]()
    first, second, third, *_ = server.logs

    def put(name: str) -> None:
        (tmp_path / name).write_bytes(server.bytes_of(name))

    def logs() -> tuple[list[str], int]:
        listed.clear()
        found = [os.path.basename(one.path) for one in plan.logs()]
        return found, len(listed)

    real = ranges.plan_logs
    monkeypatch.setattr(ranges, "plan_logs", lambda *given: listed.append(1) or real(*given))
    plan = LogPlan(str(tmp_path), ["shop.t"])
    put(first)
    assert [logs(), logs()] == [([first], 1), ([first], 0)]
    before = tmp_path.stat()
    put(second)
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))  # it came in the same tick
    assert [logs(), logs()] == [([first, second], 1), ([first, second], 0)]
    (tmp_path / first).unlink()
    assert [logs(), logs()] == [([second], 1), ([second], 0)]
    (tmp_path / third).touch()
    os.utime(tmp_path, (0, 0))
    assert [logs(), logs()] == [([second], 1)] * 2, "what is a log once it has begun"
    put(third)
    assert [logs(), logs()] == [([second, third], 1), ([second, third], 0)]
    again = tmp_path / "again"
    again.write_bytes(server.bytes_of(third))
    again.rename(tmp_path / third)
    assert logs() == ([second, third], 1), "another file of its name"
    (tmp_path / "segment").mkdir()
    assert [logs(), logs()] == [([second, third], 1)] * 2, "logs may come into the folder"
