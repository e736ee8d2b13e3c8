"""Finding the index of a log: of one that grew, was closed, or is another."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.indexed import Read, folder, found_by, keys_in, write_log
from support.questions import Questions, answer, without_index

import binlog_core
from binlog_core.index.files import IndexFile
from binlog_core.index.making import NAME, index
from binlog_core.inspect.history import history
from binlog_core.log.log import Log

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def test_a_log_that_grew_is_read_on_behind_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_log(tmp_path / "bin.000001", 0, closed=False)
    data = path.read_bytes()
    for part in (len(data) // 3, len(data) * 2 // 3, len(data) - 5):
        path.write_bytes(data[:part])
        index(path)
        path.write_bytes(data)
        key = keys_in(path)[-1]
        read = Read(monkeypatch)
        assert len(found_by(path, where=f"id = {key}", tables="shop.t")) == 1
        assert read.bytes < len(data) - part + 6000  # what came later, and a part of a range
        assert len(found_by(path)) == 202


def test_a_log_that_is_closed_later_keeps_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_log(tmp_path / "bin.000001", 0, closed=False)
    data = bytearray(path.read_bytes())
    data[21] |= 1  # the server has it open
    path.write_bytes(data)
    with binlog_core.open(path, verify_checksum=False) as log:
        assert log.format.in_use
    index(path)
    write_log(path, 0)
    read = Read(monkeypatch)
    assert found_by(path, where="id = 1", tables="shop.t") == []
    assert read.bytes < 6000


def test_another_log_of_the_same_name_is_not_taken_for_it(tmp_path: Path) -> None:
    path = write_log(tmp_path / "bin.000001", 0)
    index(path)
    other = write_log(tmp_path / "other.000001", 5)
    key = keys_in(other)[0]
    os.replace(other, path)
    assert len(found_by(path, where=f"id = {key}", tables="shop.t")) == 1
    assert index(path)[0].made
    assert not index(path)[0].made


def test_an_index_of_other_logs(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write_log(tmp_path / "a/bin.000001", 0)
    there = write_log(tmp_path / "b/bin.000001", 1)
    index(tmp_path / "a")
    shutil.copy(tmp_path / "a" / NAME, tmp_path / "b" / NAME)
    for key in keys_in(there)[:10]:
        assert found_by(there, where=f"id = {key}", tables="shop.t")


def test_an_index_may_be_left_unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_log(tmp_path / "bin.000001", 0)
    index(path)
    read = Read(monkeypatch)
    assert found_by(path, where="id = 1", tables="shop.t", index=False) == []
    assert read.bytes > path.stat().st_size - 100
    read.bytes = 0
    assert history(path, "shop.t", {"id": 1}, index=False) == []
    assert read.bytes > path.stat().st_size - 100


@pytest.mark.parametrize("threads", [1, 2])
def test_what_an_index_tells_of_a_log_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    logs, asked = folder(tmp_path), []
    index(logs)
    key = keys_in(logs)[0]
    rows = IndexFile.rows

    def counted(file: IndexFile, number: int, columns: tuple[str, ...]) -> Any:
        asked.extend((number, name) for name in columns)
        return rows(file, number, columns)

    monkeypatch.setattr(IndexFile, "rows", counted)
    monkeypatch.setattr(Log, "_divides", lambda *_: threads > 1)  # however small they are
    assert len(found_by(logs, where=f"id = {key}", tables="shop.t", threads=threads)) == 1
    assert len(asked) == len(set(asked)) > 3 * 20


def test_logs_of_a_store_go_by_the_index_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    logs = folder(tmp_path)
    index(logs)
    store, url = fsspec.filesystem("memory"), f"memory://{tmp_path.name}"
    try:
        store.put(str(logs), f"/{tmp_path.name}", recursive=True)
        write_log(logs / "bin.000003", 17)  # another log than that of the index
        store.put(str(logs / "bin.000003"), f"/{tmp_path.name}/bin.000003")
        questions, read = Questions(logs, 5), Read(monkeypatch)
        least = most = 0
        for _ in range(40):
            one = questions.one()
            read.bytes = 0
            found = answer(url, one)  # type: ignore[arg-type]
            least, read.bytes = least + read.bytes, 0
            assert found == without_index(lambda one=one: answer(url, one)), one  # type: ignore[misc]
            most += read.bytes
        assert least < most * 4 // 5
    finally:
        store.rm(f"/{tmp_path.name}", recursive=True)


def test_of_a_log_that_holds_nothing_wanted_a_store_is_asked_for_its_ends(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    spec, local = (pytest.importorskip(f"fsspec.{name}") for name in ("spec", "implementations.local"))
    asked: dict[str, int] = {}

    class File(spec.AbstractBufferedFile):  # type: ignore[misc, name-defined]
        def _fetch_range(self, start: int, end: int) -> bytes:
            name = os.path.basename(self.path)
            asked[name] = asked.get(name, 0) + end - start
            return Path(self.path).read_bytes()[start:end]

    class Store(local.LocalFileSystem):  # type: ignore[misc, name-defined]
        protocol = "counted"

        def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **more: Any) -> Any:
            return File(self, path, mode, block_size=block_size, **more)

    fsspec.register_implementation("counted", Store, clobber=True)
    logs = folder(tmp_path, transactions=600)
    index(logs)
    key = keys_in(logs / "bin.000003")[-1]
    assert min(path.stat().st_size for path in logs.glob("bin.*")) > 100_000
    assert found_by(f"counted://{logs}", where=f"id = {key}", tables="shop.t")  # type: ignore[arg-type]
    assert asked["bin.000001"] < 20_000
    assert asked["bin.000002"] < 20_000
