"""The programs in benchmarks run: each once, with little data. `make bench` runs those that are tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.server import SERVER, connect
from support.source import ORDERS, orders

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
TABLE = f"{ORDERS.database}.{ORDERS.name}"
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a program in a folder, which it has to leave empty, and gives what it prints."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()

    def told(program: str, *arguments: str) -> str:
        said = _run(here, temporary, program, *arguments)
        assert not list(here.iterdir())
        return said

    return told


def _run(here: Path, temporary: Path, program: str, *arguments: str) -> str:
    folders = (str(ROOT / "tests"), str(BENCHMARKS), os.environ.get("PYTHONPATH", ""))
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=here,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, folders)),
            "PYTHONSAFEPATH": "1",
            "TMPDIR": str(temporary),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_program_is_run_here_or_by_make() -> None:
    """By make: guard, which runs counted, and benches that are tests.

    `where` needs perf, and `limit` a C compiler.
    """
    programs = {path.name for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text("utf-8")}
    here = Path(__file__).read_text("utf-8")
    assert {name for name in programs if f'run("{name}"' not in here} == {
        "counted.py",
        "guard.py",
        "limit.py",
        "where.py",
    }


def test_reading_a_log(tmp_path: Path, run: Run) -> None:
    log = str(orders(tmp_path, count=300))
    assert json.loads(run("memory.py", log))
    assert run("index.py", log, "--table", TABLE, "--key", "id=7")
    assert run("hostile.py", "json")


def test_applying_a_log(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("deltalake")
    pytest.importorskip("pyspark")
    assert run("apply_alone.py", str(orders(tmp_path)), TABLE)
    assert "vectors:" in run("bench_merge.py", "300", "500", "20")


@pytest.mark.spark
def test_ways_into_spark(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("pyspark")
    said = run("bench_spark.py", str(orders(tmp_path)), "--table", TABLE, "--split-size", "4k")
    assert "slowest split" in said


@pytest.mark.server
def test_reading_from_a_server(run: Run) -> None:
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        first = cursor.fetchall()[0][0]
    assert run("live.py", "1")
    assert run("latency.py", "5")
    assert run("bench_archive.py", SERVER, first, "--rounds", "1")


@pytest.mark.server
@pytest.mark.parametrize("what", ["copy 1", "catch-up 1", "tables 1 3"])
def test_a_mirror(what: str, run: Run) -> None:
    assert run("bench_mirror.py", *what.split())


@pytest.mark.server
def test_from_a_server_into_a_lake(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("deltalake")
    found, page = tmp_path / "results.json", tmp_path / "results.md"
    small = "--formats delta --tables 2 --rows 100 --changes 10 --stream 4 --workloads lineitem"
    run("end_to_end/run.py", SERVER, *small.split(), "--json", str(found), "--page", str(page))
    runs = json.loads(found.read_text("utf-8"))["runs"]
    phases = [("full load", 100), ("catch up", 60), ("stream", 24)]
    assert [(one["phase"], one["rows"]) for one in runs] == phases
    last = runs[-1]
    assert last["agrees"] and 0 < last["latency_ms"]["p50"] <= last["latency_ms"]["max"]
    assert len(page.read_text("utf-8").splitlines()) == 6 + len(runs)


@pytest.mark.server
def test_a_mirror_of_many_tables(run: Run) -> None:
    assert run("bench_mirror.py", "first", "2", "4")
