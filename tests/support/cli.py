"""The command line as tests call it: in this process if that is enough, otherwise in a separate one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import binlog_core

from .golden import golden_logs

COMMAND = [sys.executable, "-m", "binlog_core.cli"]


@dataclass
class Ran:
    """The output of a command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def run(*arguments: object, stdin: bytes | None = None) -> Ran:
    """Run a command in this process."""
    from typer.testing import CliRunner

    from binlog_core.cli.app import app

    found = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, prog_name="binlog-core")
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Ran(found.exit_code, found.stdout_bytes, found.stderr)


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Run a command in a separate process, with the package that these tests import."""
    place = str(Path(binlog_core.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": place} | options.pop("env", {})
    return subprocess.Popen([*COMMAND, *map(str, arguments)], env=environment, **options)


def head_and_block() -> tuple[bytes, bytes]:
    """The beginning of a log, and its transactions, which may be repeated (then positions do not agree)."""
    golden = next(g for g in golden_logs() if g.name == "mysql97/types_ints")
    begin = next(e["pos"] for e in golden.events if e["type"] == "Anonymous_Gtid")
    end = next(e["pos"] for e in golden.events if e["type"] == "Rotate")
    return golden.data[:begin], golden.data[begin:end]


def long_log(folder: Path, times: int = 10_000) -> Path:
    """A log that takes a while to read: with 10,000 more than a second."""
    head, block = head_and_block()
    path = folder / "long.binlog"
    path.write_bytes(head + block * times)
    return path
