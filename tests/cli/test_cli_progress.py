"""Progress is shown only on a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

import binlog_core

pytest.importorskip("typer")

from support.cli import head_and_block, long_log, start


def _said_on_terminal(pause: float) -> bytes:
    """What a command says on a terminal, while its input makes a pause after the first groups."""
    head, block = head_and_block()
    master, slave = pty.openpty()
    environment = {"TERM": "xterm", "COLUMNS": "100"}
    process = start(
        "rows", "-", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=slave, env=environment
    )
    os.close(slave)
    assert process.stdin is not None
    process.stdin.write(head + block * 3000)
    time.sleep(pause)
    process.stdin.write(block * 3000)
    process.stdin.close()
    said = b""
    try:
        while chunk := os.read(master, 65536):
            said += chunk
    except OSError:  # the other end is closed
        pass
    os.close(master)
    assert process.wait(60) == 0
    return said


def test_progress_on_a_terminal_only(tmp_path: Path) -> None:
    assert b"<stdin>" in _said_on_terminal(pause=1.1)
    process = start("rows", long_log(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")


def test_a_terminal_gets_no_commands_of_names_in_the_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    from binlog_core.cli import progress

    shown = Console(file=io.StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(progress, "messages", lambda: shown)
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    bar = progress.Bar(100)
    bar("logs/a\x1b]0;b\x9b1m\u202e[red].000001", 50)
    bar.close()
    text = shown.file.getvalue()
    assert "a\\u001b]0;b\\u009b1m\\u202e[red].000001" in text
    assert not {"\x1b]0", "\x9b", "\u202e"} & {text[i : i + n] for i in range(len(text)) for n in (1, 3)}


@pytest.mark.parametrize(("seconds", "terminal"), [(1.6, True), (0.1, True), (1.6, False)])
def test_patience(seconds: float, terminal: bool) -> None:
    """A command that takes a second says so on a terminal; otherwise it is silent."""
    code = (
        "import sys, time; from binlog_core.cli.progress import patience\n"
        "with patience('at work'): time.sleep(float(sys.argv[1]))"
    )
    place = str(Path(binlog_core.__file__).parent.parent)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(seconds)],
        env=os.environ | {"PYTHONPATH": place, "TERM": "xterm", "COLUMNS": "80"},
        stderr=slave if terminal else subprocess.PIPE,
    )
    os.close(slave)
    said = b""
    if terminal:
        with contextlib.suppress(OSError):  # the other end is closed
            while chunk := os.read(master, 65536):
                said += chunk
    else:
        said = process.communicate(timeout=60)[1]
    os.close(master)
    assert process.wait(60) == 0
    assert (b"at work" in said) == (terminal and seconds > 1)
