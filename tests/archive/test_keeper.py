"""Finished logs are compressed, indexed, and removed when they are old."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import zstandard
from support.archive import (
    FakeServer,
    archive,
)

import binlog_core
from binlog_core.index.files import NAME, opened


def test_finished_logs_are_compressed_and_removed(tmp_path: Path) -> None:
    server = FakeServer()
    server.clock = int(time.time()) - 10_000
    server.logs.clear()
    server.begin_log(1)
    for number in range(6):
        server.transaction()
        server.clock += 1000
        server.rotate()
        if number % 2:
            archive(server, tmp_path, compress=True, keep=6500.0)
            assert len(list(tmp_path.glob("*bin*"))) == number + 2  # whatever the server's clock says
    for path in tmp_path.glob("*bin*"):
        os.utime(path, (server.clock - 10_000, server.clock - 10_000))
    archive(server, tmp_path, compress=True, keep=6500.0)
    names = sorted(path.name for path in tmp_path.iterdir() if "bin" in path.name)
    assert names == [*(f"mysql-bin.00000{n}.zst" for n in (4, 5, 6)), "mysql-bin.000007"]
    for name in names:
        held = tmp_path / name
        data = (
            zstandard.decompress(held.read_bytes(), 1 << 20) if name.endswith(".zst") else held.read_bytes()
        )
        assert data == server.bytes_of(name.removesuffix(".zst"))
    with binlog_core.open(tmp_path) as log:
        assert [change.after["id"] for change in log.rows()] == [4, 5, 6]


def test_a_log_that_was_finished_when_the_archiver_was_killed_is_compressed(tmp_path: Path) -> None:
    server = FakeServer()
    server.transaction()
    server.rotate()
    archive(server, tmp_path)
    (tmp_path / server.current).unlink()  # the kill came before it began
    archive(server, tmp_path, compress=True)
    names = sorted(path.name for path in tmp_path.iterdir() if "bin" in path.name)
    assert names == ["mysql-bin.000001.zst", "mysql-bin.000002"]


@pytest.mark.parametrize("compress", [False, True])
def test_an_index_of_finished_logs_is_kept(tmp_path: Path, compress: bool) -> None:
    server = FakeServer()
    for number in range(5):
        server.transaction()
        server.rotate()
        if number != 2:  # what one run leaves undone the next one does
            archive(server, tmp_path, compress=compress, index=number > 0)
    ending = ".zst" if compress else ""
    with opened(str(tmp_path / NAME), None) as index:
        finished = [f"{name}{ending}" for name in list(server.logs)[:-1]]
        assert [entry.log for entry in index.entries] == finished
    with binlog_core.open(tmp_path, where="id = 3") as log:
        assert [change.after["id"] for change in log.rows()] == [3]
        assert log.indexes.of(log.files[0], log.report) is not None
    (tmp_path / NAME).write_bytes(b"damaged")
    server.rotate()
    archive(server, tmp_path, compress=compress, index=True)
    with opened(str(tmp_path / NAME), None) as index:
        assert len(index.entries) == len(server.logs) - 1
