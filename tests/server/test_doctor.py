"""What a server's settings mean; and that what is advised can be done."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.archive import FakeServer

from binlog_core.archive.archiver import Archiver
from binlog_core.archive.keeper import Keeper
from binlog_core.schema.definitions import load
from binlog_core.server import doctor


@pytest.mark.parametrize("settings", [{}, {"binlog_row_metadata": "MINIMAL"}], ids=["old", "minimal"])
def test_the_cure_for_missing_names_is_a_schema_that_can_be_given(settings: dict[str, str]) -> None:
    facts: Any = None  # of no account for the format of rows
    [finding] = [found for found in doctor._rows(settings, facts) if found.subject == "metadata"]
    assert finding.state == "note"
    assert ("SET GLOBAL" in finding.cure) == bool(settings)  # only where the server has the setting
    advised = re.search(r'schema="([^"]+)"', finding.cure)
    assert advised is not None
    assert load(advised[1]) == "server"  # what test_definitions reads with


class Told:
    """A connection to a server that has some logs."""

    def __init__(self, *logs: tuple[str, int]) -> None:
        self.logs = logs

    def query(self, sql: str, **_: Any) -> list[tuple[str, ...]]:
        assert sql == "SHOW BINARY LOGS"
        return [(name, str(size)) for name, size in self.logs]


def test_an_archive_that_cannot_go_on_is_told_before(tmp_path: Path) -> None:
    server = FakeServer(base="bin")
    server.transaction()
    Archiver(server.connect, str(tmp_path), keeper=Keeper(), until_now=True).run()
    last = sorted(path.name for path in tmp_path.glob("bin.*"))[-1]
    number = int(last[-6:])

    def states(*logs: tuple[str, int]) -> dict[str, str]:
        found = doctor._archive(Told(*logs), {"max_binlog_size": "1000"}, str(tmp_path))  # type: ignore[arg-type]
        return {finding.subject: finding.state for finding in found}

    assert states((last, 1000)) == {"archive's disk": "ok"}
    assert states((f"bin.{number + 1:06}", 1000)) == {"archive's disk": "ok"}
    assert states((f"bin.{number + 2:06}", 1000)) == {"archive": "fails", "archive's disk": "ok"}
    assert states((last, 1 << 60)) == {"archive's disk": "fails"}
    (tmp_path / "timeline.json").write_text("{")
    assert states((last, 1000))["archive"] == "fails"
