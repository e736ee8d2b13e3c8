"""Names of logs as a server gives them, and as an archive has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.archive import (
    FakeServer,
    archive,
)

import binlog_core
from binlog_core.archive.names import is_log_name, logs_among, next_name, number_of


@pytest.mark.parametrize(
    "name", ["../bin.000001", "/tmp/bin.000001", ".hidden.000001", "bin", "a\0.000001", "x.1.zst"]
)
def test_a_servers_names_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    server = FakeServer()
    server.logs = {name: server.logs[server.current]}
    server.before = {name: server.executed}
    with pytest.raises(binlog_core.BinlogError, match="calls a log"):
        archive(server, tmp_path / "a")
    assert {path.name for path in tmp_path.rglob("*")} <= {"a", ".lock"}


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("mysql-bin.000001", True),
        ("a.b.1000000", True),
        ("mysql-bin.000001.zst", False),  # only an archive has it packed
        (".hidden.000001", False),
        (".000001", False),
        ("../bin.000001", False),
        ("a\\b.000001", False),
        ("bin\0.000001", False),
        ("bin", False),
        ("b" * 233 + ".000001", True),
        ("b" * 234 + ".000001", False),  # 241 characters
    ],
)
def test_names_of_a_server(name: str, good: bool) -> None:
    assert is_log_name(name) is good


def test_logs_among_the_files_of_an_archive() -> None:
    names = ["b.1000000", "b.999999.zst", "b.000002", "b.000002.zst", "b.000001.gz", "b.index", ".b.000003"]
    assert logs_among(names) == ["b.000002", "b.999999.zst", "b.1000000"]


def test_the_next_name_has_as_many_digits_or_more() -> None:
    assert next_name("bin.000009") == "bin.000010"
    assert next_name("bin.999999") == "bin.1000000"
    assert next_name("bin.07") == "bin.08"
    assert (number_of("bin.000042.zst"), number_of("bin")) == (42, -1)
