"""``binlog-core index``: the same answers with it, and what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.cli import run
from support.golden import DATA

from binlog_core.index.files import NAME

HISTORY = ("history", "shop.group_b", "id=10")  # a row of the bundled log, see docs/command-line.md


def test_answers_are_the_same_with_an_index(tmp_path: Path) -> None:
    log = tmp_path / "mysql-bin.000001"
    shutil.copy(DATA / "maria118" / "dml_mixed.binlog", log)
    before = run(*HISTORY, log)
    assert before.code == 0 and before.lines

    made = run("index", log)
    assert made.code == 0 and f"{log}: indexed" in made.text
    assert (tmp_path / NAME).is_file()
    assert run(*HISTORY, log).text == before.text

    again = run("index", tmp_path)
    assert again.code == 0 and f"{log}: unchanged" in again.text
    assert f"{log}: indexed" in run("index", tmp_path, "--anew").text


def test_what_cannot_be_indexed_is_reported(tmp_path: Path) -> None:
    found = run("index", tmp_path)
    assert found.code == 1 and "has no binary log" in found.err
    found = run("index", "mysql://repl@db1")
    assert found.code != 0 and "archive" in found.err
    assert not list(tmp_path.iterdir())
