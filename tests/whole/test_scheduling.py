"""How conftest.py distributes tests over the processes of a run: what it promises to files with a group."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
pytest.importorskip("xdist")

FILE = """
import os
from pathlib import Path

import pytest

@pytest.fixture(scope="module")
def made():
    return os.getpid()

@pytest.mark.parametrize("number", range(12))
def test_with_what_the_file_makes(made, number):
    Path(f"together-NAME-{number}.txt").write_text(str(os.getpid()))

@pytest.mark.xdist_group("both files")
def test_of_a_group(request):
    Path("group-NAME.txt").write_text(str(os.getpid()))

@pytest.mark.parametrize("number", range(12))
def test_alone(number):
    pass
"""


def run(folder: Path, dist: str) -> str:
    (folder / "temporary").mkdir()
    for name in ("one", "two"):
        (folder / f"test_{name}.py").write_text(FILE.replace("NAME", name))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-n", "2", "--dist", dist, "."]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder / "temporary")}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    left = [one.name for one in (folder / "temporary").iterdir() if one.name.startswith("groups-of-tests")]
    assert left == [], done.stdout
    return done.stdout


def test_a_group_stays_in_one_process(tmp_path: Path) -> None:
    assert "50 passed" in run(tmp_path, "loadgroup")
    processes = defaultdict(set)
    for file in tmp_path.glob("*-*.txt"):
        kind = "group" if file.name.startswith("group") else file.name.rpartition("-")[0]
        processes[kind].add(file.read_text())
    assert {kind: len(found) for kind, found in processes.items()} == {
        "together-one": 1,
        "together-two": 1,
        "group": 1,
    }


def test_nothing_is_left_by_another_way(tmp_path: Path) -> None:
    assert "50 passed" in run(tmp_path, "worksteal")
