"""The command line as a whole: completion, ``--help``, and the command word that may be left out."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.golden import DATA

import binlog_core

pytest.importorskip("typer")
pytest.importorskip("rich")

from support.cli import run

from binlog_core import cli
from binlog_core.cli import app as application

LOG = DATA / "mysql97" / "gtid.binlog"
COMMANDS = tuple(name for name in application.COMMANDS if name != "mirror")  # which has its own commands
ELSEWHERE = {  # what the examples of a command need, and where it is tried
    "export": "needs Spark: see test_cli_export.py",
    "archive": "needs a server: see tests/archive",
    "doctor": "needs a server: see tests/server",
    "index": "writes beside the logs: see test_cli_index.py",
}
COMPLETE = """
eval "$(binlog-core --show-completion bash)"
complete -p binlog-core >/dev/null || exit 3
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_binlog_core_completion binlog-core
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``binlog-core`` is that of the package under test."""
    command = tmp_path / "binlog-core"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m binlog_core.cli "$@"\n')
    command.chmod(0o755)
    place = str(Path(binlog_core.__file__).parent.parent)
    return os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": place}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("", (*COMMANDS, "mirror")),
        ("ver", ("verify", "versions")),
        ("rows --fl", ("--flashback",)),
        ("rows --format ", ("text", "jsonl", "csv", "arrow", "parquet", "sql", "debezium")),
        ("events --start-d", ("--start-datetime",)),
        ("export --tab", ("--table", "--tables")),
    ],
)
def test_completion_in_bash(words: str, want: tuple[str, ...], shell: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "complete", "binlog-core", *words.split(" ")],
        env=shell,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert sorted(done.stdout.split()) == sorted(want)


def examples(command: str) -> list[str]:
    """The examples in a command's help."""
    text = getattr(importlib.import_module(f"binlog_core.cli.{command}"), command).__doc__ or ""
    return [line.strip() for line in text.splitlines() if line.strip().startswith("binlog-core ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_work(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run with one of our logs in place of theirs, although it lacks their tables and GTIDs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shown = [line.strip() for line in run(command, "--help").lines]
    found = examples(command)
    assert found and [line for line in found if line not in shown] == []  # whole, to be pasted
    if command in ELSEWHERE:
        pytest.skip(ELSEWHERE[command])
    for line in found:
        words = shlex.split(line.partition(" | ")[0])[1:]
        words = [str(LOG) if re.match(r"mysql-bin|/", word) else word for word in words]
        if len(words) > 1 and words[1].startswith("mysql://"):
            words.append("--help")  # needs a server: see test_cli_server.py
        if "--check" in words:
            words.append("--help")  # another server: see test_server_undo.py
        if "--follow" in words:
            words.append("--help")  # it would wait; see test_cli_rows.py
        ran = run(*words)
        assert ran.code in (0, 1), (words, ran.err)
        lost = re.search(
            r"^error: (no (table|transaction)|(the|these) logs have no (row )?change|--include-gtids has)",
            ran.err,
            re.MULTILINE,
        )
        assert ran.code == 0 or lost, ran.err


@pytest.mark.parametrize("command", application.COMMANDS)
def test_the_list_says_the_first_line_of_each_help(command: str) -> None:
    assert (application.command(command).help or "").splitlines()[0] == application.COMMANDS[command]


def loaded_by(*arguments: str, shell: dict[str, str]) -> tuple[str, set[str]]:
    """A command's output, and the modules that it loaded."""
    code = (
        "import sys; from binlog_core.cli import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=shell, capture_output=True, text=True, timeout=60
    )
    return done.stdout, set(done.stderr.split())


def test_the_list_of_commands_imports_none_of_them(shell: dict[str, str]) -> None:
    text, loaded = loaded_by("--help", shell=shell)
    assert "undo" in text
    assert not {"numpy", "binlog_core.cli.undo"} & loaded


def test_rows_of_a_file_load_no_server_no_bar_and_no_class_of_an_event(shell: dict[str, str]) -> None:
    text, loaded = loaded_by("rows", LOG, shell=shell)
    assert text.startswith("{")
    assert "binlog_core.log.log" in loaded
    assert not {"binlog_core.server", "rich.progress", "ssl", "pyarrow", "binlog_core.events.gtid"} & loaded


def test_as_a_module_it_is_the_same_command(shell: dict[str, str]) -> None:
    """Usage and completion name binlog-core, however it is started."""
    done = subprocess.run(
        [sys.executable, "-m", "binlog_core.cli", "info"],
        env=shell,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Usage: binlog-core info" in done.stderr
    ran = run("info", LOG)
    assert ran.code == 0


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize("command", [*COMMANDS, "mirror run"])
def test_help_cuts_nothing(command: str, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = run(*command.split(), "--help").text
    assert not re.search(r"[^\W_]…", text)  # "before_…" is meant
    name, _, part = command.partition(" ")
    found = application.command(name)
    parameters = (found.commands[part] if part else found).params
    names = [name for one in parameters for name in (*one.opts, *one.secondary_opts) if name[:2] == "--"]
    assert [name for name in names if name not in text] == []


def test_without_the_extra_the_pip_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert "pip install 'typer>=" in str(caught.value)
    assert "(the extra binlog_core[cli])" in str(caught.value)


def test_a_log_alone_is_looked_at() -> None:
    assert run(LOG).text == run("info", LOG).text
    assert run(LOG, "--json").text == run("info", LOG, "--json").text
    assert run("nfo", LOG).code == 2
    for arguments in (["-h"], ["rows", "-h"]):
        assert "Usage" in run(*arguments).text


def test_a_flag_does_not_look_as_if_it_took_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = [line for line in run("undo", "--help").lines if "--execute" in line]
    assert lines and not [line for line in lines if "bool" in line.lower()]
