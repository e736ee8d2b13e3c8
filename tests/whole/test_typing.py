"""What a type checker sees of the public face: right use passes, wrong use is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import binlog_core

pytest.importorskip("mypy")

RIGHT = """
from typing import Any, assert_type

import binlog_core
from binlog_core import BinlogError, GtidSet, Limits, RowChange

with binlog_core.open("log.000001", tables="shop.*", gtids=["0-1-1"], limits=Limits(group_rows=10)) as log:
    for change in log.rows():
        assert_type(change, RowChange)
        assert_type(change.commit_time, int | None)
        assert_type(change.after, dict[str, Any] | None)
    batches = log.batches("shop.orders")
    assert_type(next(batches), binlog_core.ChangeBatch)
    assert_type(next(batches)[1:], binlog_core.ChangeBatch)
    batches.to_arrow(change_columns="_gtid", wide_decimals="text", new_columns="drop")
    next(batches).to_arrow(rows=[True, False])
    assert_type(log.tables(), dict[str, binlog_core.Table])
gtids = "0-1-1" | GtidSet.parse("")
assert_type(gtids, GtidSet)
assert_type(binlog_core.__version__, str)
binlog_core.dataset.changes(log, "shop.orders")
try:
    binlog_core.read_table("log.000001", "shop.orders", text_errors="replace")
except BinlogError as error:
    assert_type(error.offset, int | None)
"""

# A line each that is an error.
WRONG = """
import binlog_core

log = binlog_core.open("log.000001")
log.batches().to_arrow(vectors="x")
log.batches().to_arrow(rows=[0])
log.batches().stream(new_columns="x")
next(log.batches()).to_arrow(geometry="x")
next(log.batches()).to_arrow(nonsense=1)
next(log.batches()).column("id", decimals="x")
next(log.batches())[0]
binlog_core.open("log.000001", gtids=42)
binlog_core.open("log.000001", nonsense=1)
binlog_core.nonsense
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int, str]]:
    """The errors that mypy tells: file, line, text. One run for all: it reads the whole package."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text(WRONG)
    place = str(Path(binlog_core.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "right.py", "wrong.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": place if "site-packages" not in place else ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    errors = [line.split(":", 2) for line in done.stdout.splitlines() if ": error: " in line]
    return [(name, int(number), text) for name, number, text in errors]


def test_right_use_passes(told: list[tuple[str, int, str]]) -> None:
    assert [error for error in told if error[0] == "right.py"] == []


def test_wrong_use_is_told(told: list[tuple[str, int, str]]) -> None:
    lines = {number for name, number, _ in told if name == "wrong.py"}
    assert lines == {i for i, line in enumerate(WRONG.splitlines(), 1) if i > 4 and line}
