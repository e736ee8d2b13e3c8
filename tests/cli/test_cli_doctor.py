"""What ``binlog-core doctor`` says of what was found; the finding is tested in ``tests/server``."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")

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


def test_what_works_ends_in_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: FOUND[:1])
    assert run("doctor", "mariadb://db1").code == 0


def test_only_servers_are_examined() -> None:
    ran = run("doctor", "/var/lib/mysql")
    assert (ran.code, "is not a server's address" in ran.err) == (2, True)
