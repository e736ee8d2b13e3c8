"""The file of an index: damaged, forged, or left by an interrupted writer."""

from __future__ import annotations

import json
import os
import random
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.indexed import UUID, found_by, keys_in, write_log
from support.questions import answer

import binlog_core
from binlog_core import BinlogError, BinlogWarning
from binlog_core.index import files
from binlog_core.index.making import NAME, index

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

    def killed(*_: object, **__: object) -> None:
        raise Killed

    for call in ("fsync", "replace", "fchmod"):
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
    for i in range(0, len(whole), 23):
        damaged = bytearray(whole)
        damaged[i] ^= 1 << i % 8
        (tmp_path / NAME).write_bytes(damaged)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with binlog_core.open(path) as log:
                rows = list(log.rows("shop.t", where=f"id = {key}"))
        assert len(rows) == len(expected)
        told += any("create it again" in str(one.message) for one in caught if one.category is BinlogWarning)
    assert told > len(whole) // 23 // 2  # others hit filters that are not queried
    for cut in (0, 1, 11, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / NAME).write_bytes(whole[:cut])
        assert len(found_by(path, where=f"id = {key}", tables="shop.t")) == len(expected)
    assert index(path)[0].made  # and is repaired


def directory_of(path: Path) -> dict[str, Any]:
    """What an index says at its end."""
    data = path.read_bytes()
    length, count = struct.unpack("<II", data[-20:-12])
    places = data[-20 - length - 20 * count * len(files.COLUMNS) : -20 - length]
    chunks = [list(one) for one in struct.iter_unpack("<qqI", places)]
    each = len(files.COLUMNS)
    return {
        "logs": json.loads(data[-20 - length : -20]),
        "chunks": [chunks[i : i + each] for i in range(0, len(chunks), each)],
        "data": data,
    }


def forge(path: Path, told: dict[str, Any], data: bytes = b"") -> None:
    """An index with right checksums: `data` and this directory are appended to it."""
    with open(path, "ab") as file:
        file.write(data + files.directory(told["logs"], told["chunks"]))


def at_once(told: dict[str, Any], **columns: bytes) -> bytes:
    """The data of a forged index: some columns are as they are given, others stay as they were."""
    whole, data = told["data"], b""
    for chunks in told["chunks"]:
        for i, (name, (begin, length, _)) in enumerate(zip(files.COLUMNS, chunks, strict=True)):
            column = columns.get(name, whole[begin : begin + length])
            chunks[i] = [len(whole) + len(data), len(column), zlib.crc32(column)]
            data += column
    return data


def far_away(chunks: list[list[int]]) -> bytes:
    for chunk in chunks:
        chunk[0] += 1 << 62
    return b""


LIES: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "larger than an index can be": lambda told: at_once(told, threads=bytes(5 << 20)),
    "a place that is not valid": lambda told: told["chunks"][0].__setitem__(3, [-1, 8, 0]) or b"",
    "is outside the log": lambda told: far_away(told["chunks"][0]),
    "not stored together": lambda told: far_away(told["chunks"][0][3:4]),
    "column begin differs": lambda told: at_once(told, begin=bytes(8)),
    "column gtids differs": lambda told: at_once(told, gtids=b"\xff\xff\xff\x7f" * 40),
    "number of logs is not": lambda told: told["chunks"].append(told["chunks"][0]) or b"",
    "does not name its logs": lambda told: told["logs"][0].update(whole="yes") or b"",
    "unexpected keyword": lambda told: told["logs"][0].update(more=1) or b"",
    "an index can be": lambda told: told["logs"][0].update(rows=1 << 40) or b"",
    "a number that is not valid": lambda told: told["logs"][0].update(size=-1) or b"",
}


@pytest.mark.parametrize("said", LIES)
def test_forged_indexes_are_reported_and_not_used(tmp_path: Path, said: str) -> None:
    """A forged index can have right checksums; the rest is checked before it is used."""
    path = write_log(tmp_path / "bin.000001", 0)
    index(path)
    told = directory_of(tmp_path / NAME)
    key = keys_in(path)[0]
    forge(tmp_path / NAME, told, LIES[said](told))
    with pytest.warns(BinlogWarning, match=said), binlog_core.open(path) as log:
        assert len(list(log.rows("shop.t", where=f"id = {key}"))) == 1


def test_forged_values_end_in_a_warning_or_the_rows(tmp_path: Path) -> None:
    """Any values under right checksums: rows of the log may be missing, and nothing else happens."""
    path = write_log(tmp_path / "bin.000001", 0, transactions=40)
    index(path)
    whole, pick, deceived = (tmp_path / NAME).read_bytes(), random.Random(18), 0
    questions = ({"where": "id > 7"}, {"where": "_thread_id = 7"}, {"gtids": f"{UUID}:1-9"})
    right = [found_by(path, **question) for question in questions]
    for _ in range(100):
        (tmp_path / NAME).write_bytes(whole)
        told, data = directory_of(tmp_path / NAME), bytearray(whole)
        for _ in range(pick.choice((1, 3))):
            begin, length, _sum = chunk = told["chunks"][0][pick.randrange(len(files.COLUMNS))]
            byte = pick.choice((0, 1, 127, 128, 255, pick.randrange(256)))
            if pick.random() < 0.5:
                data[begin : begin + length] = bytes([byte]) * length
            elif length:
                data[begin + pick.randrange(length)] = byte
            chunk[2] = zlib.crc32(data[begin : begin + length])
        (tmp_path / NAME).write_bytes(data)
        forge(tmp_path / NAME, told)
        for question, rows in zip(questions, right, strict=True):
            found, error = answer(path, question)
            deceived += found != rows
            assert all(row in rows for row in found)
            assert not error or error.startswith(("DecodeError", "ChecksumError", "TruncatedError")), error
    assert deceived


def test_the_index_of_an_earlier_version_is_made_anew(tmp_path: Path) -> None:
    """It was a Parquet file: read without it, until `index` makes a new one and says so."""
    path = write_log(tmp_path / "bin.000001", 0)
    old = tmp_path / "binlog-core-index.parquet"
    old.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    key = keys_in(path)[0]
    with pytest.warns(BinlogWarning, match="earlier version"), binlog_core.open(path) as log:
        assert len(list(log.rows("shop.t", where=f"id = {key}"))) == 1
    with pytest.warns(BinlogWarning, match="made anew"):
        assert index(path)[0].made
    assert sorted(os.listdir(tmp_path)) == [NAME, "bin.000001"][:: 1 if NAME < "bin" else -1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not index(path)[0].made


@pytest.mark.parametrize("end", [b"BCINDEX3", b"BCINDEX1", bytes(8)])
def test_an_index_of_another_version_is_not_read(tmp_path: Path, end: bytes) -> None:
    path = write_log(tmp_path / "bin.000001", 0)
    index(path)
    data = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(data[:-8] + end)
    with pytest.warns(BinlogWarning, match="not an index of this version"), binlog_core.open(path) as log:
        assert list(log.rows("shop.t", where="id = 1")) == []
    assert index(path)[0].made


@pytest.mark.parametrize("at", [-20, -16])  # the length of the list of logs, and the number of logs
@pytest.mark.parametrize("number", [1 << 20, 1 << 30, (1 << 32) - 1])
def test_a_directory_longer_than_an_index_is_not_read(tmp_path: Path, at: int, number: int) -> None:
    """Nor one that is longer than the file has bytes."""
    path = write_log(tmp_path / "bin.000001", 0)
    index(path)
    data = bytearray((tmp_path / NAME).read_bytes())
    data[at : at + 4] = number.to_bytes(4, "little")
    (tmp_path / NAME).write_bytes(data)
    with pytest.warns(BinlogWarning, match="was cut"), binlog_core.open(path) as log:
        assert list(log.rows("shop.t", where="id = 1")) == []


def test_hostile_lists_of_logs_take_little_memory(tmp_path: Path) -> None:
    """Of JSON, Python makes lists of 24 times its size."""
    path = write_log(tmp_path / "bin.000001", 0)
    text = b"[" + b"[]," * (21 << 20) + b"[]]"
    end = struct.pack("<III8s", len(text), 0, zlib.crc32(text), b"BCINDEX4")
    (tmp_path / NAME).write_bytes(b"BCINDEX4" + text + end)
    with pytest.warns(BinlogWarning, match="was cut"), binlog_core.open(path) as log:
        assert list(log.rows("shop.t", where="id = 1")) == []


def test_more_logs_than_an_index_can_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused, and the index stays as it was: readers would not use the new one."""
    for i in (1, 2, 3):
        write_log(tmp_path / f"bin.{i:06}", i)
    index(tmp_path / "bin.000001")
    before = (tmp_path / NAME).read_bytes()
    monkeypatch.setattr(files, "_LONGEST_LIST", 400)
    with pytest.raises(BinlogError, match="3 logs in one folder are too many for an index"):
        index(tmp_path)
    assert (tmp_path / NAME).read_bytes() == before


def test_a_damaged_index_is_made_anew_though_no_log_is_new(tmp_path: Path) -> None:
    """As the warning says to do: wherever the damage is."""
    path = write_log(tmp_path / "bin.000001", 0)
    index(path)
    whole = (tmp_path / NAME).read_bytes()
    for at in (8, len(whole) // 3, len(whole) // 2, len(whole) - 600):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        (tmp_path / NAME).write_bytes(damaged)
        assert index(path)[0].made
        assert (tmp_path / NAME).read_bytes() == whole
        assert not index(path)[0].made


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])
def test_an_index_of_an_earlier_version_that_stays_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """Another process has removed it, or only its owner may: nobody reads it beside the new one."""
    path = write_log(tmp_path / "bin.000001", 0)
    old = tmp_path / "binlog-core-index.parquet"
    old.write_bytes(b"PAR1")
    unlink = os.unlink

    def refused(name: str, **more: Any) -> None:
        if str(name).endswith(old.name):
            raise error(1, "refused")
        unlink(name, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        assert index(path)[0].made
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found_by(path, where="id = 1") == []
