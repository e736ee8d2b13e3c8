"""Type checkers and the public API: right use passes, wrong use is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import binlog_core

Told = list[tuple[str, int, str]]  # file, line, text

RIGHT = """
from typing import Any, assert_type

import datetime as dt
from pathlib import Path

import binlog_core
import binlog_core.history, binlog_core.replay, binlog_core.splits, binlog_core.transactions
from binlog_core import BinlogError, GtidSet, Limits, RowChange
from binlog_core.inspect.summarize import summarize
from binlog_core.inspect.verify import verify

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
    for event in log.events():
        assert_type(event.path, str | None)
        assert_type(event.commit_time, int | None)
    binlog_core.splits.plan_splits(log)
    verify(log)
    summarize(log)
binlog_core.open([Path("a.000001"), "a.000002"], start=("a.000001", 4), stop=dt.datetime(2026, 1, 1))
binlog_core.open(b"", on_error="skip", ops=["insert", "delete"], keys={1: b""}, schema={"a.b": "…"})
binlog_core.open(open("log.000001", "rb"))
binlog_core.open("mysql://user@host", start="now", follow=True, server={"semi_sync": True})
for split in binlog_core.splits.plan_splits([Path("a"), "b*"], 1 << 20):
    binlog_core.splits.read_split_groups(split, tables="shop.*", where="id = 1")
binlog_core.history.history("a", "shop.orders", {"id": 1}, stop=dt.datetime(2026, 1, 1), strict=True)
binlog_core.history.row_as_of("a", "shop.orders", {"id": 1}, 4, limits=Limits())
next(binlog_core.transactions.transactions("a", by="rows", tables="shop.*"))
binlog_core.replay.plan_undo("a", partial=True, gtids="0-1-1")
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
import binlog_core, binlog_core.history, binlog_core.replay, binlog_core.splits, binlog_core.transactions
from binlog_core.splits import Split
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
binlog_core.open("log.000001", on_error="x")
binlog_core.open("log.000001", ops="upsert")
binlog_core.open("log.000001", start="then")
binlog_core.open(42)
log.batches().to_pandas(columns=42)
log.batches().to_polars(nonsense=1)
binlog_core.read_table(log, "shop.orders", nonsense=1)
binlog_core.read_table(log, "shop.orders", where=1)
binlog_core.dataset.changes(log, "shop.orders", vectors="x")
binlog_core.history.history("a", "shop.orders", {"id": 1}, where="id = 1")
binlog_core.history.row_as_of("a", "shop.orders", {"id": 1}, "then")
binlog_core.transactions.transactions("a", nonsense=1)
binlog_core.replay.plan_undo("a", follow=True)
binlog_core.splits.read_split_groups(Split("a"), nonsense=1)
binlog_core.splits.plan_splits(42)
binlog_core.nonsense
"""


@pytest.fixture(scope="module", params=["mypy", "basedpyright"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The errors that a checker reports. One run for all, since it reads the whole package."""
    pytest.importorskip(request.param)
    folder = tmp_path_factory.mktemp("examples")
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text(WRONG)
    place = str(Path(binlog_core.__file__).parent.parent)
    return by_mypy(folder, place) if request.param == "mypy" else by_pyright(folder, place)


def by_mypy(folder: Path, place: str) -> Told:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--follow-imports=silent",
            f"--cache-dir={os.devnull}",
            "right.py",
            "wrong.py",
        ],
        cwd=folder,
        env={**os.environ, "MYPYPATH": place if "site-packages" not in place else ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    errors = [line.split(":", 2) for line in done.stdout.splitlines() if ": error: " in line]
    return [(name, int(number), text) for name, number, text in errors]


def by_pyright(folder: Path, place: str) -> Told:
    options = {"typeCheckingMode": "standard", "extraPaths": [place], "reportMissingModuleSource": False}
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
    assert [error for error in told if error[0] == "right.py"] == []


def test_wrong_use_is_reported(told: Told) -> None:
    lines = {number for name, number, _ in told if name == "wrong.py"}
    assert lines == {i for i, line in enumerate(WRONG.splitlines(), 1) if i > 4 and line}
