"""The file of an index: what damage and an interrupted writer make of it."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from support.indexed import found_by, keys_in, write_log

import binlog_core
from binlog_core import BinlogWarning
from binlog_core._index import files
from binlog_core.index import NAME, index

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def test_rights_are_those_of_the_logs(tmp_path: Path) -> None:
    path = write_log(tmp_path / "bin.000001", 0)
    path.chmod(0o640)
    index(path)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o640
    index(path, keys={1: bytes(16)}, anew=True)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_an_old_or_a_new_index_is_there_whenever_writing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path / "bin.000001", 0)
    index(path)
    before = (tmp_path / NAME).read_bytes()

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    for call in ("fsync", "replace", "chmod"):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(files.os, call, killed)
            index(path, anew=True)
        assert (tmp_path / NAME).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["bin.000001", NAME]


def test_no_damage_of_an_index_takes_a_row_away(tmp_path: Path) -> None:
    path = write_log(tmp_path / "bin.000001", 0, transactions=12)
    index(path)
    key = keys_in(path)[-1]
    expected = found_by(path, where=f"id = {key}", tables="shop.t")
    whole = (tmp_path / NAME).read_bytes()
    told = 0
    for i in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[i] ^= 1 << i % 8
        (tmp_path / NAME).write_bytes(damaged)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with binlog_core.open(path) as log:
                rows = list(log.rows("shop.t", where=f"id = {key}"))
        assert len(rows) == len(expected)
        told += any("make it anew" in str(one.message) for one in caught if one.category is BinlogWarning)
    assert told > len(whole) // 5 // 2  # others hit filters that nobody asks
    for cut in (0, 1, 11, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / NAME).write_bytes(whole[:cut])
        assert len(found_by(path, where=f"id = {key}", tables="shop.t")) == len(expected)
    assert index(path)[0].made  # and is mended


def test_forged_sizes_do_not_become_memory(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = write_log(tmp_path / "bin.000001", 0)
    index(path)
    table = pq.read_table(tmp_path / NAME)
    # A text of a megabyte in each row, kept once in the file.
    texts = ["x" * (1 << 20)] * len(table)
    huge = pa.table(
        [texts if name == "threads" else table[name] for name in table.column_names], schema=table.schema
    )
    for compression, told in (("NONE", "larger than an index can be"), ("ZSTD", "stored in another way")):
        with open(tmp_path / NAME, "w+b") as file:
            pq.write_table(huge, file, compression=compression)
            files.seal(file)
        with pytest.warns(BinlogWarning, match=told), binlog_core.open(path) as log:
            assert list(log.rows("shop.t", where="id = 1")) == []
