"""A mirror at work without a server: what a killed run left, and a server that is away for a time."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from binlog_core import MirrorError, MissingExtraError, UnreachableError
from binlog_core.mirror import mirror, mirroring
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.mirroring import Mirroring
from binlog_core.mirror.state import MirrorState, TableState
from binlog_core.server.address import Address

NOTHING: Any = None


def begun(folder: Path, stop: threading.Event, reconnect: float = 300) -> Mirroring:
    address = Address.of("mysql://root@db1", {"reconnect": reconnect})
    state = MirrorState("id", "mysql://root@db1", ("shop.*",), "archive")
    return Mirroring(NOTHING, Lake(str(folder)), state, address, NOTHING, stop)


def test_the_changes_of_a_killed_round_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "_mirror" / "changes"
    left.mkdir(parents=True)
    (left / "00000-a0.arrow").touch()
    begun(tmp_path, threading.Event())._tidy()
    assert not left.exists()


@pytest.mark.parametrize(
    ("reached", "lost", "reconnect", "passes"),
    [(True, False, 300, 4), (True, True, 0, 2), (False, False, 300, 2), (False, True, 300, 4)],
)
def test_a_server_that_is_lost_is_waited_for(
    reached: bool, lost: bool, reconnect: float, passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pass succeeds, or had not reached a server; then the server is away for two passes."""
    stop, seen = threading.Event(), []
    work = begun(tmp_path, stop, reconnect)

    def until_now() -> None:
        seen.append(reached)
        if len(seen) == 1:
            work._answered = reached
        elif len(seen) < 4:
            error = UnreachableError("the server does not answer")
            error.lost = lost  # False: the address may be wrong
            raise error
        else:
            stop.set()

    monkeypatch.setattr(mirroring, "_PAUSE", 0)
    monkeypatch.setattr(work, "until_now", until_now)
    monkeypatch.setattr(work, "_stream", lambda: None)
    if passes == 4:
        work.follow()
    else:
        with pytest.raises(UnreachableError):
            work.follow()
    assert len(seen) == passes


def test_a_library_that_is_missing_is_named_before_the_server_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends there has been told the format; another one is taken while nothing is copied."""

    def run(format: Any = None) -> None:
        mirror("mysql://root@127.0.0.1:1", tmp_path, tables="a.*", format=format)

    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*binlog_core\[delta\]"):
        run()
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    for format in ("iceberg", None):
        with pytest.raises(MissingExtraError, match=r"pip install .*binlog_core\[iceberg\]"):
            run(format)
    monkeypatch.undo()
    with pytest.raises(UnreachableError):
        run("delta")
    lake = Lake(str(tmp_path))
    state = lake.load()
    assert state is not None
    state.tables["a.b"] = TableState("a", "b", place=7)
    lake.save(state)
    with pytest.raises(MirrorError, match="the tables are in format delta, not iceberg"):
        run("iceberg")
