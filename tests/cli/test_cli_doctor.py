"""What ``binlog-core doctor`` says of what was found; the finding is tested in ``tests/server``."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("typer")

from rich.console import Console
from support.cli import run

from binlog_core.cli import doctor
from binlog_core.server.doctor import Finding

FOUND = [
    Finding("binlog_format", "ok", "ROW"),
    Finding("names", "fails", "evil\x1b[2J", "SET GLOBAL binlog_row_metadata = FULL"),
]


def test_findings_and_their_cures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: FOUND)
    ran = run("doctor", "mysql://db1")
    assert ran.code == 1
    assert ran.lines == [
        "ok    binlog_format: ROW",
        r"fails names: evil\u001b[2J",
        "      → SET GLOBAL binlog_row_metadata = FULL",
    ]
    ran = run("doctor", "mysql://db1", "--json")
    assert ran.code == 1
    assert [json.loads(line)["found"] for line in ran.lines] == ["ROW", "evil\x1b[2J"]


def test_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are folded between words, beside the state."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(doctor, "results", lambda: Console(force_terminal=True))
    long = Finding("connection", "note", "whoever is on the path " * 6, "ssl_mode=VERIFY_IDENTITY, " * 5)
    monkeypatch.setattr(doctor, "examine", lambda *_: [long])
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in run("doctor", "mysql://db1").lines]
    assert max(map(len, lines)) <= 80
    assert len(lines) == 6
    assert lines[0].startswith("note  connection: whoever")
    assert all(line.startswith(" " * 6) for line in lines[1:])
    assert " ".join(" ".join(lines).split()).count("whoever is on the path") == 6


def test_what_works_ends_in_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: FOUND[:1])
    assert run("doctor", "mariadb://db1").code == 0


def test_only_servers_are_examined() -> None:
    ran = run("doctor", "/var/lib/mysql")
    assert (ran.code, "is not a server's address" in ran.err) == (2, True)
