"""Indexes: the same rows with, without, and with stale, foreign, damaged ones; and how little is read."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.questions import Questions, answer, without_index
from support.writer import Log, Table

import binlog_core
from binlog_core import BinlogError, BinlogWarning
from binlog_core._decode.log_decoder import LogDecoder
from binlog_core._index import files, ranges
from binlog_core.history import history
from binlog_core.index import NAME, index
from binlog_core.transactions import transactions

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

DATA = Path(__file__).parent / "data"
UUID = "00112233-4455-6677-8899-aabbccddeeff"
T = Table("shop", "t", [("id", "INT"), ("b", "VARCHAR(200)")], primary_key=["id"])
TWO = Table(
    "shop",
    "lines",
    [("code", "VARCHAR(40)"), ("line", "INT UNSIGNED"), ("at", "DATETIME"), ("n", "INT")],
    primary_key=["code", "line"],
)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "RANGE_BYTES", 2000)


class Read:
    """Bytes of logs that are decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        part, groups = LogDecoder.part, LogDecoder.groups

        def counted_part(decoder: LogDecoder, start: int | None, *more: Any) -> Iterator[Any]:
            yield from part(decoder, start, *more)
            self.bytes += decoder.position - (start or 4)

        def counted_groups(decoder: LogDecoder) -> Iterator[Any]:
            yield from groups(decoder)
            self.bytes += decoder.position

        monkeypatch.setattr(LogDecoder, "part", counted_part)
        monkeypatch.setattr(LogDecoder, "groups", counted_groups)


def write_log(path: Path, number: int, *, transactions: int = 200, closed: bool = True) -> Path:
    """One log of a set: keys at random, some also in other logs; now and then a key changes."""
    pick = random.Random(number)
    log = Log("8.4.0", server_id=1 + number % 3)
    for i in range(transactions):
        log.timestamp = 1_700_000_000 + 1000 * number + i
        log.gtid(UUID, number * transactions + i + 1, commit_time=log.timestamp * 1_000_000 + i)
        log.begin("shop")
        key = pick.randrange(1, 1 << 30)
        old = {"id": key, "b": "x" * pick.randrange(100)}
        line = {
            "code": f"ü{pick.randrange(400)}",
            "line": pick.randrange(1 << 32),
            "at": "2026-01-01",
            "n": i,
        }
        if i % 3 == 0:
            log.insert(T, [old])
        elif i % 3 == 1:
            log.update(T, [(old, old | {"b": "y"}), *[(old, old | {"id": key + 1})] * (i % 50 == 1)])
        else:
            log.insert(TWO, [line | {"at": None}])
        log.commit()
    if closed:
        log.rotate("next.000001")
    path.write_bytes(log.getvalue())
    return path


def folder(tmp_path: Path, count: int = 3, **more: Any) -> Path:
    for i in range(count):
        write_log(tmp_path / f"bin.{i + 1:06}", i, **more)
    return tmp_path


def test_random_questions_have_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = folder(tmp_path)
    index(logs)
    questions, read = Questions(logs, 7), Read(monkeypatch)
    with_index = without = 0
    for _ in range(150):
        one = questions.one()
        read.bytes = 0
        found = answer(logs, one)
        with_index, read.bytes = with_index + read.bytes, 0
        assert found == without_index(lambda one=one: answer(logs, one)), one  # type: ignore[misc]
        without += read.bytes
    assert with_index < without * 2 // 3


@pytest.mark.parametrize(
    "log", sorted(DATA.glob("*/*.binlog"))[::7], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_golden_logs_have_the_same_answers(tmp_path: Path, log: Path) -> None:
    path = Path(shutil.copy(log, tmp_path / "bin.000001"))
    try:
        index(path)
        questions = Questions(path, 3)
    except BinlogError:
        pytest.skip("not a log that can be read without a key or a schema")
    for _ in range(12 if questions.rows else 0):
        one = questions.one()
        assert answer(path, one) == without_index(lambda one=one: answer(path, one)), one  # type: ignore[misc]


def found_by(logs: Path, **question: Any) -> list[Any]:
    return answer(logs, question)[0]


def keys_in(logs: Path) -> list[int]:
    with binlog_core.open(logs) as log:
        return [c.after["id"] for c in log.rows("shop.t") if c.after is not None]


def test_history_reads_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = folder(tmp_path, 20, transactions=300)
    keys = keys_in(logs)
    without = {key: history(logs, "shop.t", {"id": key}) for key in keys[:4]}
    index(logs)
    size = sum(path.stat().st_size for path in logs.glob("bin.*"))
    read = Read(monkeypatch)
    for key, told in without.items():
        read.bytes = 0
        assert history(logs, "shop.t", {"id": key}) == told
        # Ranges in which keys change are read too: here one in fifty changes is such a one.
        assert read.bytes < size // 5
    read.bytes = 0
    assert len(found_by(logs, tables="shop.t", where=f"id = {keys[0]}"))
    assert read.bytes < size // 50


def test_schema_gives_the_keys_and_ddl_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Table("shop", "t", [("id", "INT"), ("b", "VARCHAR(200)")], metadata=False)
    log = Log("8.4.0")
    log.gtid(UUID, 1)
    log.query("CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(200) CHARACTER SET utf8mb4)", "shop")
    for i in range(400):
        if i == 200:
            log.gtid(UUID, 1000)
            log.query("ALTER TABLE t RENAME COLUMN id TO number", "shop")
        log.gtid(UUID, i + 2)
        log.begin("shop")
        log.insert(bare, [{"id": i * 7919 % 400 * 1000, "b": "x" * 20}])
        log.commit()
    log.rotate()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    index(path, schema="ddl")
    read = Read(monkeypatch)
    for where in ("id = 7000", "number = 7000", "id = 7001"):
        read.bytes = 0
        found = answer(path, {"tables": "shop.t", "where": where}, schema="ddl")
        assert read.bytes < path.stat().st_size // 2
        assert found == without_index(
            lambda where=where: answer(path, {"tables": "shop.t", "where": where}, schema="ddl")
        )  # type: ignore[misc]
    assert len(answer(path, {"tables": "shop.t", "where": "id = 7000 and b = 'x'"}, schema="ddl")[0]) == 0


def test_threads_thin_out_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Statements of the writer are all of thread 7.
    logs = folder(tmp_path, 1)
    index(logs)
    read = Read(monkeypatch)
    assert len(list(transactions(logs, where="_thread_id = 7"))) == 200
    read.bytes = 0
    assert list(transactions(logs, where="_thread_id = 8")) == []
    assert not read.bytes


# ---------------------------------------------------------------- stale and foreign


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


# ---------------------------------------------------------------- bringing up to date


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    logs = folder(tmp_path)
    assert [one.made for one in index(logs)] == [True, True, True]
    before = (logs / NAME).stat()
    assert [one.made for one in index(logs)] == [False, False, False]
    assert (logs / NAME).stat().st_ino == before.st_ino
    write_log(logs / "bin.000004", 3)
    (logs / "bin.000001").unlink()
    assert [one.made for one in index([str(logs / "bin.000004")])] == [True]
    with files.opened(str(logs / NAME), None) as held:  # type: ignore[union-attr]
        assert [entry.log for entry in held.entries] == ["bin.000002", "bin.000003", "bin.000004"]
    assert [one.made for one in index(logs, anew=True)] == [True, True, True]


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


def test_what_cannot_be_indexed(tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match="local files"):
        index(b"\xfebin")
    (tmp_path / "bin.000001").write_bytes(b"\xfebin" + bytes(3))
    with pytest.raises(BinlogError):
        index([str(tmp_path / "nothing")])


# ---------------------------------------------------------------- damage


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


def test_a_damaged_log_is_indexed_up_to_its_damage(tmp_path: Path) -> None:
    path = write_log(tmp_path / "bin.000001", 0)
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 255
    path.write_bytes(data)
    index(path)
    question = {"tables": "shop.t", "where": "id = 1"}
    assert answer(path, question)[1].startswith(("ChecksumError", "DecodeError"))
    assert answer(path, question) == without_index(lambda: answer(path, question))


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
