"""The output and the end of ``binlog-core archive``; its work is tested in ``tests/archive``."""

from __future__ import annotations

import os
import signal

import pytest

pytest.importorskip("typer")

from support.cli import run

from binlog_core.archive.status import Status
from binlog_core.cli.archive import status_line, stopping


def test_a_status_in_a_line() -> None:
    status = Status("/archive", "db1:3306")
    assert status_line(status) == "db1:3306: connecting"
    status.file, status.position, status.state = "bin.000007", 1_234_567, "archiving"
    assert status_line(status) == "db1:3306: bin.000007:1234567, archiving"
    status.seconds_behind, status.reconnects = 1234.4, 2
    assert status_line(status) == "db1:3306: bin.000007:1234567, archiving, 1,234 s behind, 2 reconnects"
    status.state, status.timestamp = "stopped", 86_400
    line = "db1:3306: bin.000007:1234567, stopped, last event at 1970-01-02 00:00:00, 2 reconnects"
    assert status_line(status) == line


@pytest.mark.parametrize(("number", "interrupted"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_signals_tell_it_to_end(number: signal.Signals, interrupted: bool) -> None:
    before = signal.getsignal(number)
    with stopping() as told_to:
        assert not told_to.event.is_set()
        os.kill(os.getpid(), number)
        assert told_to.event.wait(10)
        assert told_to.interrupted is interrupted
    assert signal.getsignal(number) is before


def test_wrong_usage() -> None:
    for arguments in ([], ["bin.000001", "out"], ["mysql://db1:0", "out"]):
        assert run("archive", *arguments).code == 2, arguments
