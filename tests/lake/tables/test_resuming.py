"""export_logs(state=…): growing logs, killed runs, and the reported lag."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402

from binlog_core.conditions.language import Condition  # noqa: E402
from binlog_core.errors import BinlogError, ConditionError  # noqa: E402
from binlog_core.spark import ExportResult, ReadOptions, export, export_logs, read_changes, workers  # noqa: E402

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
T = Table("shop", "t", [("id", "INT"), ("a", "VARCHAR(20)")], primary_key=["id"])
U = Table("shop", "u", [("id", "INT")], primary_key=["id"])


class Connected:
    """A session without a SparkContext, as one of Spark Connect is; tasks are called here."""


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "call_tasks", lambda _, function, tasks: [function(one) for one in tasks])


def previous(number: int) -> bytes:
    """PREVIOUS_GTIDS: one source with one half-open interval."""
    source = uuid.UUID(UUID).bytes + struct.pack("<QQQ", 1, 1, number + 1)
    return struct.pack("<Q", 1) + source if number else bytes(8)


def logs_of(folder: Path, mariadb: bool = False) -> list[tuple[Path, bytes, list[int]]]:
    """Two logs: path, bytes, and where each transaction ends."""
    found, number = [], 0
    for file in (1, 2):
        log = Log("10.11.6-MariaDB" if mariadb else "8.0.36")
        ends = []
        if not mariadb:
            log.event(35, previous(number), flags=0x80)
        for _ in range(6):
            number += 1
            if mariadb:
                log.maria_gtid(number)
            else:
                log.gtid(UUID, number)
                log.begin()
            log.insert(T, [{"id": number * 10 + i, "a": "x" * 15} for i in range(3)])
            if number % 2:
                log.insert(U, [{"id": number}])
            log.commit()
            ends.append(len(log.getvalue()))
        log.rotate(f"bin.{file + 1:06}")
        found.append((folder / f"bin.{file:06}", log.getvalue(), ends))
    return found


def run(tmp_path: Path, format: Any = "parquet", **arguments: Any) -> ExportResult:
    session: Any = Connected()
    return export_logs(
        tmp_path / "logs",
        tmp_path / "out",
        spark=session,
        state=tmp_path / "state" / "export.json",
        format=format,
        split_size=300,
        **arguments,
    )


def exported(tmp_path: Path, table: str, runs: str = "*") -> list[tuple[int, int]]:
    """Version and ordinal of each exported row, in order."""
    files = (tmp_path / "out").glob(f"{runs}/shop.{table}/*.parquet")
    found = [
        pq.read_table(file, columns=["_commit_version", "_change_ordinal"]).to_pylist() for file in files
    ]
    return sorted((row["_commit_version"], row["_change_ordinal"]) for rows in found for row in rows)


def whole(tmp_path: Path, table: str) -> list[tuple[int, int]]:
    """The same of the logs, read at once: ordinals are of all tables."""
    rows = read_changes(tmp_path / "logs").read_all().to_pylist()
    return sorted((row["_commit_version"], row["_change_ordinal"]) for row in rows if row["_table"] == table)


@pytest.mark.parametrize("mariadb", [False, True], ids=["mysql", "mariadb"])
def test_logs_that_grow_are_exported_once(tmp_path: Path, mariadb: bool) -> None:
    (tmp_path / "logs").mkdir()
    logs = logs_of(tmp_path / "logs", mariadb)
    done = 0
    for file, (path, data, ends) in enumerate(logs):
        for cut in (120, ends[1] - 7, ends[1], ends[3] + 30, ends[5], len(data)):
            path.write_bytes(data[:cut])
            result = run(tmp_path)
            ended = sum(end <= cut for end in ends) + 6 * file
            done += 3 * (ended - done // 3)
            assert result.state is not None
            assert result.state.rows.get("shop.t", {}).get("insert", 0) == done
            assert len(exported(tmp_path, "t")) == done
            assert result.state.seconds_behind == 0
            assert result.state.transactions_behind == 0
            if result.state.file == path.name:
                assert result.state.bytes_behind == cut - result.state.position
            if not mariadb and ended:
                assert result.state.gtids == f"{UUID}:1" + (f"-{ended}" if ended > 1 else "")
            again = run(tmp_path)
            assert again.tables == [] and len(exported(tmp_path, "t")) == done
    for table in "tu":
        assert exported(tmp_path, table) == whole(tmp_path, table)
    assert not list((tmp_path / "out").glob(".*"))
    result = run(tmp_path)
    assert result.state is not None
    text = result.state.to_prometheus().decode()
    assert f'binlog_core_export_rows_total{{output="{tmp_path / "out"}",table="shop.u"' in text
    assert f'binlog_core_export_bytes_behind{{output="{tmp_path / "out"}"}} ' in text
    assert json.loads(result.state.to_json())["rows"]["shop.t"]["insert"] == 36


def test_what_came_during_the_run_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    (path, data, ends), (later, more, _) = logs_of(tmp_path / "logs")
    path.write_bytes(data[: ends[1]])
    finish = export.Resuming.finish

    def write_more(self: Any, *arguments: Any) -> None:
        finish(self, *arguments)
        path.write_bytes(data)
        later.write_bytes(more)

    monkeypatch.setattr(export.Resuming, "finish", write_more)
    state = run(tmp_path).state
    assert state is not None
    assert state.bytes_behind == len(data) - ends[1] + len(more) - 4
    assert state.transactions_behind == 10
    assert state.seconds_behind > 0


def test_a_log_that_grows_after_its_splits_were_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes then is in none of them, and is left to the next run."""
    (tmp_path / "logs").mkdir()
    (path, data, ends), (later, more, _) = logs_of(tmp_path / "logs")
    path.write_bytes(data[: ends[1] + 30])
    plan = export.plan_splits

    def write_more(*arguments: Any, **options: Any) -> Any:
        found = plan(*arguments, **options)
        path.write_bytes(data)
        later.write_bytes(more)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(export, "plan_splits", write_more)
        state = run(tmp_path).state
    assert state is not None and (state.file, state.position) == (path.name, ends[1])
    assert len(exported(tmp_path, "t")) == 6
    run(tmp_path)
    for table in "tu":
        assert exported(tmp_path, table) == whole(tmp_path, table)


def test_a_condition_that_fits_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for path, data, _ in logs_of(tmp_path / "logs"):
        path.write_bytes(data)
    session: Any = Connected()

    def export(where: str, *tables: str) -> dict[str, int]:
        options = ReadOptions(where=Condition(where), tables=tables or None)
        result = export_logs(tmp_path / "logs", tmp_path / where, spark=session, options=options)
        return {one.table: one.rows["insert"] for one in result.tables}

    for where, tables, message in (
        ("nothing = 1", (), "does not have the column 'nothing'"),
        ("nothing = 1", ("shop.t",), "does not have the column 'nothing'"),
        ("a = 5", ("shop.t",), "expected text in quotes"),
        ("a = 5", (), "expected text in quotes"),
        ("a = 'x'", ("shop.u",), "does not have the column 'a'"),
    ):
        with pytest.raises(ConditionError, match=message):
            export(where, *tables)
        assert not (tmp_path / where).exists() or not list((tmp_path / where).glob("shop.*"))
    assert export("a like 'x%'") == {"t": 36}  # the other table does not have the column
    assert export("id = 30") == {"t": 1}
    assert export("a = 'nowhere'") == {}


def test_a_run_that_continues_may_lack_the_tables_of_its_condition(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = Log("8.0.36")
    options = ReadOptions(where=Condition("a like 'x%'"))
    for number, table in enumerate((T, U, T), 1):
        log.gtid(UUID, number)
        log.begin()
        log.insert(table, [{"id": number, "a": "x"}])
        log.commit()
        (tmp_path / "logs" / "bin.000001").write_bytes(log.getvalue())
        run(tmp_path, options=options)
    assert len(exported(tmp_path, "t")) == 2
    log.gtid(UUID, 4)
    log.begin()
    log.insert(Table("shop", "t", [("id", "INT"), ("a", "INT")], primary_key=["id"]), [{"id": 4, "a": 4}])
    log.commit()
    (tmp_path / "logs" / "bin.000001").write_bytes(log.getvalue())
    with pytest.raises(ConditionError, match="like is for text"):
        run(tmp_path, options=ReadOptions(where=options.where, tables=("shop.t",)))
    assert len(exported(tmp_path, "t")) == 2


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[3].split(os.pathsep)
import test_resuming as tests
from binlog_core.lake.tables import resuming; from binlog_core.spark import workers
from binlog_core.lake.tables import merging, parquet, tables, writer

workers.call_tasks = lambda _, function, tasks: [function(one) for one in tasks]
left = int(sys.argv[2])

def deadly(owner, name):
    real = getattr(owner, name)
    def call(*args, **kwargs):
        global left
        for before in (True, False):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if before:
                result = real(*args, **kwargs)
        return result
    setattr(owner, name, call)

deadly(resuming.Resuming, "_save")
deadly(merging.TableWriter, "write")
deadly(parquet.ParquetDirectory, "commit")
deadly(tables.DeltaTables, "_append")
deadly(tables.DeltaTables, "commit")
for _ in range(2):
    tests.run(Path(sys.argv[1]), sys.argv[4])
"""


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_run_that_is_killed_is_done_again(tmp_path: Path, format: str) -> None:
    if format == "delta":
        pytest.importorskip("deltalake")
    (tmp_path / "logs").mkdir()
    for path, data, _ in logs_of(tmp_path / "logs"):
        path.write_bytes(data)
    killed, left = 0, 0
    where = os.pathsep.join((str(Path(__file__).parent), str(Path(__file__).parents[2])))
    while True:
        arguments = [sys.executable, "-c", KILLED, str(tmp_path), str(left), where, format]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed, left = killed + 1, left + 2
    assert killed > 2
    if format == "parquet":
        for table in "tu":
            assert exported(tmp_path, table) == whole(tmp_path, table)
    else:
        from deltalake import DeltaTable

        for table in "tu":
            rows = DeltaTable(str(tmp_path / "out" / f"shop.{table}")).to_pyarrow_table().to_pylist()
            places = sorted((row["_commit_version"], row["_change_ordinal"]) for row in rows)
            assert places == whole(tmp_path, table)


def test_two_exports_at_once(tmp_path: Path) -> None:
    """The second would find what the first commits under the name of its own run, which ends later."""
    (tmp_path / "logs").mkdir()
    (path, data, ends), _ = logs_of(tmp_path / "logs")
    path.write_bytes(data[: ends[1]])
    refused = []

    def more_comes(_: Any) -> None:
        path.write_bytes(data)
        with pytest.raises(BinlogError, match=r"another export is working with this state") as raised:
            run(tmp_path)
        refused.append(raised.value.path)

    run(tmp_path, progress=more_comes)
    assert set(refused) == {str(tmp_path / "state" / "export.json")}
    run(tmp_path)
    for table in "tu":
        assert exported(tmp_path, table) == whole(tmp_path, table)


def test_what_a_state_is_not_for(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (path, data, _), (later, more, _) = logs_of(tmp_path / "logs")
    path.write_bytes(data)
    run(tmp_path)
    state = tmp_path / "state" / "export.json"
    with pytest.raises(BinlogError, match=r"belongs to an export to"):
        export_logs(path, tmp_path / "other", spark=Connected(), state=state)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"cannot be combined"):
        run(tmp_path, xa="committed")
    path.write_bytes(data[:200])
    with pytest.raises(BinlogError, match=r"not the log that was read before"):
        run(tmp_path)
    path.unlink()
    later.write_bytes(more)
    with pytest.raises(BinlogError, match=r"may have been purged"):
        run(tmp_path)
    state.write_text("{}")
    with pytest.raises(BinlogError, match=r"not a state of an export"):
        run(tmp_path)
