"""A mirror without Spark: no pyspark to import, no Java on the PATH. A lake goes on with either."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support import sparks
from support.lake_forms import Form
from support.refused import Sql

from binlog_core.lake.runner import LocalRunner
from binlog_core.mirror import mirror, verify

_BARE = """
import shutil, sys
sys.modules.update(pyspark=None, py4j=None)
assert shutil.which("java") is None
from binlog_core.cli import main
main()
"""


def command(*arguments: Any) -> subprocess.Popen[bytes]:
    """``binlog-core mirror`` where neither pyspark nor Java can be found."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK"))}
    bare |= {"PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", _BARE, "mirror", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=bare,
    )


def options(form: Form) -> list[str]:
    named = form.settings.get("catalog", {}).items()
    return [
        "--format",
        form.name,
        *(word for one in named for word in ("--catalog", "=".join(one))),
    ]


def rows(lake: Path, form: Form, table: str = "t") -> list[tuple[Any, ...]]:
    found = form.read(lake / f"refused.{table}").to_pylist()
    return sorted(tuple(row.values()) for row in found)


def until(fact: Callable[[], bool], running: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while not fact():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.2)  # to look takes its share of the processor, too


def has(lake: Path, form: Form, key: int) -> bool:
    try:
        return any(row[0] == key for row in rows(lake, form))
    except Exception:  # there is no table yet
        return False


def test_it_needs_neither_pyspark_nor_java(url: str, sql: Sql, form: Form, tmp_path: Path) -> None:
    """Copied, killed, gone on with, stopped, brought up to date and compared, by processes of the command."""
    lake = tmp_path / "lake"
    arguments = (url, lake, "--tables", "refused.*", *options(form))
    sql("INSERT INTO t VALUES (10, 0)")
    running = command(*arguments)
    until(lambda: has(lake, form, 10), running)
    running.kill()
    running.communicate()
    running = command(*arguments)
    sql("UPDATE t SET v = 7 WHERE id = 10")
    sql("CREATE TABLE u (a INT, b INT, v VARCHAR(20), PRIMARY KEY (a, b))")
    sql("INSERT INTO u VALUES (1, 1, 'x'), (1, 2, 'y')")
    until(lambda: (10, 7) in rows(lake, form), running)
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) in (0, 130), running.communicate()
    sql("DELETE FROM t WHERE id = 1")
    done = command(*arguments, "--until", "now")
    assert (done.wait(120), done.stderr and done.stderr.read()) == (0, b"")
    assert rows(lake, form) == [(2, 2), (10, 7)]
    assert rows(lake, form, "u") == [(1, 1, "x"), (1, 2, "y")]
    told = command("verify", lake, "--json")
    out, _ = told.communicate(timeout=120)
    agree = [(one["table"], one["rows"], one["agrees"]) for one in map(json.loads, out.splitlines())]
    assert (told.returncode, agree) == (0, [("refused.t", 2, True), ("refused.u", 2, True)])


@pytest.fixture(scope="module")
def spark() -> Any:
    pytest.importorskip("pyspark")
    return sparks.shared()


def test_a_lake_moves_between_threads_and_spark(
    url: str, sql: Sql, form: Form, tmp_path: Path, spark: Any
) -> None:
    """At any round, also within a copy; so many rows that workers have something to do."""
    from binlog_core.mirror import joining
    from binlog_core.spark.workers import SparkRunner

    lake, runners = tmp_path / "lake", (LocalRunner(2), SparkRunner(spark))
    sql("CREATE TABLE many (id INT PRIMARY KEY, v INT, note VARCHAR(40))")
    sql("INSERT INTO many SELECT seq, 0, CONCAT('row ', seq) FROM seq_1_to_30000")

    def run(number: int) -> None:
        found = mirror(
            url,
            lake,
            tables="refused.*",
            until="now",
            history=True,
            runner=runners[number % 2],
            **form.settings,
        )
        assert [(one.table, one.stage) for one in found] == [
            ("refused.many", "following"),
            ("refused.t", "following"),
        ]

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(joining, "ON_DRIVER", 1000)
        changed.setattr("binlog_core.mirror.applying.ON_DRIVER", 1000)
        for number in range(4):
            run(number)
            sql(f"UPDATE many SET v = v + 1 WHERE id % 3 = {number % 3}")
            sql(f"INSERT INTO t VALUES ({number + 100}, {number})")
            sql("FLUSH BINARY LOGS")
        run(4)
        for runner in runners:
            compared = verify(lake, runner=runner)
            assert [(one.table, one.rows, one.agrees) for one in compared] == [
                ("refused.many", 30000, True),
                ("refused.t", 6, True),
            ]


def test_a_round_searches_only_the_files_of_a_copy_that_may_have_its_keys(
    url: str, sql: Sql, form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the bounds of their columns, as of any other file."""
    from binlog_core.lake.apply.rewriting import Rewriter
    from binlog_core.mirror import chunks, copying

    monkeypatch.setattr(chunks, "_LEAST_ROWS", 100)
    monkeypatch.setattr(copying, "CHUNK_BYTES", 1)
    sql("CREATE TABLE many (name VARCHAR(20) PRIMARY KEY, day DATE, v INT)")
    sql("INSERT INTO many SELECT CONCAT('row ', LPAD(seq, 4, '0')), '2024-01-01', seq FROM seq_1_to_1000")
    arguments: dict[str, Any] = {"tables": "refused.many", "until": "now", **form.settings}
    mirror(url, tmp_path / "lake", **arguments)
    searched: list[str] = []
    replaced = Rewriter._replaced
    monkeypatch.setattr(
        Rewriter, "_replaced", lambda self, file: (searched.append(file.name), replaced(self, file))[1]
    )
    sql("UPDATE many SET v = -1 WHERE name IN ('row 0150', 'row 0160')")
    mirror(url, tmp_path / "lake", **arguments)
    assert ["-000001-" in name for name in searched] == [True]  # the second chunk, of ten
    found = [row[2] for row in rows(tmp_path / "lake", form, "many")]
    assert found == [-1 if number in (150, 160) else number for number in range(1, 1001)]
