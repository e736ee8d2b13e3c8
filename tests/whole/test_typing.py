"""Type checkers and the public API: right use passes, wrong use is reported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import binlog_core

Told = list[tuple[str, int, str]]  # file, line, text

# `make lint` has mypy check them as well, strictly, so that an ignored line without an error is one.
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The errors that a checker reports. One run for all, since it reads the whole package."""
    pytest.importorskip("basedpyright")
    folder = Path(shutil.copytree(EXAMPLES, tmp_path_factory.mktemp("checked") / "examples"))
    return by_pyright(folder, str(Path(binlog_core.__file__).parent.parent))


def by_pyright(folder: Path, place: str) -> Told:
    options = {"typeCheckingMode": "standard", "extraPaths": [place], "reportMissingModuleSource": False}
    options["enableTypeIgnoreComments"] = False
    (folder / "pyrightconfig.json").write_text(json.dumps(options))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"])
        for one in found
        if one["severity"] == "error"
    ]


def test_right_use_passes(told: Told) -> None:
    assert [error for error in told if error[0] == "right_use.py"] == []


def test_wrong_use_is_reported(told: Told) -> None:
    lines = {number for name, number, _ in told if name == "wrong_use.py"}
    text = (EXAMPLES / "wrong_use.py").read_text("utf-8")
    assert lines == {i for i, line in enumerate(text.splitlines(), 1) if line.endswith("# type: ignore")}
