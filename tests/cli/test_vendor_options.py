"""What users of mysqlbinlog type is answered with what does the same here."""

from __future__ import annotations

import itertools
import re

import pytest
from support.golden import DATA

pytest.importorskip("typer")
pytest.importorskip("rich")

from support.cli import run

from binlog_core.cli import app as application
from binlog_core.cli.vendor_options import _ANSWERS

LOG = DATA / "mysql97" / "gtid.binlog"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("events", "-R", "-h", "db1", "mysql-bin.000042"), "in place of files: mysql://user@host"),
        (("events", "--read-from-remote-server", LOG), "in place of files: mysql://user@host"),
        (("rows", LOG, "--raw"), "binlog-core archive SERVER FOLDER"),
        (("events", LOG, "--base64-output=decode-rows", "-vv"), "binlog-core rows -v"),
        (("rows", LOG, "--skip-gtids"), "never set a GTID"),
        (("events", LOG, "--hexdump"), "has each event's bytes"),
        (("rows", LOG, "--idempotent"), "undo --check"),
        (("rows", LOG, "--disable-log-bin"), "SET sql_log_bin = 0"),
    ],
)
def test_an_option_of_mysqlbinlog_is_answered(arguments: tuple[object, ...], answer: str) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert answer in re.sub(r"[│\s]+", " ", ran.err)


def test_other_options_are_not() -> None:
    ran = run("rows", LOG, "--nothing-like-it")
    assert (ran.code, "No such option: --nothing-like-it" in ran.err) == (2, True)


def test_options_that_are_the_same_work() -> None:
    assert run("rows", "-vv", LOG).code == 0
    assert run("rows", LOG, "--start-position", "4", "-d", "shop").code == 0


def test_no_answer_hides_an_option() -> None:
    """Those that a command has are not answered, and the answers name options and commands that exist."""
    commands = {name: application.command(name) for name in application.COMMANDS}
    known = {name for one in commands.values() for option in one.params for name in option.opts}
    everywhere = set.intersection(
        *({n for o in one.params for n in o.opts} for one in commands.values() if one.params)
    )
    assert not everywhere & set(_ANSWERS)
    for answer in _ANSWERS.values():
        assert set(re.findall(r"--[a-z][a-z-]+", answer)) <= known, answer
        for name in re.findall(r"binlog-core (\w+)", answer):
            assert name in commands, answer


@pytest.mark.parametrize("command", ["rows", "undo", "history"])
def test_help_at_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options are in panels by subject, and a paragraph is wrapped once."""
    monkeypatch.setenv("COLUMNS", "80")
    text = run(command, "--help").text
    panels = re.findall(r"^╭─ ([^─]+) ─", text, re.MULTILINE)
    assert len(panels) == len(set(panels))
    if command != "history":
        assert {"Options", "Reading", "Which changes", "Which part of the logs"} <= set(panels)
    prose = text.partition("Examples:")[0].splitlines()
    for line, after in itertools.pairwise(prose):
        if line.strip() and after.strip() and not line.lstrip().startswith("Usage"):
            assert len(line.rstrip()) + len(after.split()[0]) >= 80 - 2, (line, after)
