"""``binlog-core report``: the page is a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import DATA

pytest.importorskip("typer")

from support.cli import run

LOG = DATA / "mysql97" / "gtid.binlog"


def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert run("report", LOG, "-o", path).code == 0
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run("report", LOG, "-o", path).code == 1
    assert run("report", LOG, "-o", path, "--overwrite", "--title", "Ours").code == 0
    assert "<h1>Ours</h1>" in path.read_text(encoding="utf-8")
    assert run("report", tmp_path / "none", "-o", tmp_path / "other.html").code == 1
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_names_come_from_the_logs_statements(tmp_path: Path) -> None:
    """As in other commands: on default servers the log itself has no names."""
    ran = run("report", DATA / "mysql97" / "dml_mixed.binlog", "-o", tmp_path / "report.html")
    assert (ran.code, ran.err) == (0, "")
