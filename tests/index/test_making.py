"""Indexes: the same rows with and without, also with stale, foreign or damaged ones; how little is read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.indexed import UUID, Read, folder, small_ranges, write_log  # noqa: F401
from support.questions import Questions, answer, without_index
from support.writer import Log, Table

import binlog_core
from binlog_core import BinlogError
from binlog_core.index import files
from binlog_core.index.making import NAME, index
from binlog_core.scans.scans import find_tables

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

DATA = Path(__file__).parent.parent / "data"


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


def test_what_cannot_be_indexed(tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match="expected a local file"):
        index(b"\xfebin")
    (tmp_path / "bin.000001").write_bytes(b"\xfebin" + bytes(3))
    with pytest.raises(BinlogError):
        index([str(tmp_path / "nothing")])


# ---------------------------------------------------------------- which tables there are


def evolving(path: Path) -> Path:
    """A table that gets another type, a column and a neighbour, and a last transaction after them."""
    log = Log("8.4.0")
    for i in range(60):
        log.gtid(UUID, i + 1)
        log.begin("shop")
        columns = [("id", "INT" if i < 20 else "BIGINT"), *([("late", "INT")] if i >= 40 else [])]
        table = Table("shop", "z", columns, primary_key=["id"])
        log.insert(table, [dict.fromkeys((name for name, _ in columns), n) for n in range(20)])
        if i == 50:
            log.insert(Table("shop", "a", [("id", "INT")]), [{"id": 1}])
        log.commit()
    path.write_bytes(log.getvalue())
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tables": "shop.z"},
        {"exclude_tables": "shop.z"},
        {"schema": "ddl"},
        {"threads": 2},
        {"server_id": 1},
        {"ops": "delete"},
        {"schema": {"shop.n": "CREATE TABLE n (id INT)", "shop.z": "CREATE TABLE z (i INT)"}},
    ],
)
@pytest.mark.parametrize("part", [0.5, 1])
def test_tables_are_read_from_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], part: float
) -> None:
    path = evolving(tmp_path / "bin.000001")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    index(path)
    path.write_bytes(data)

    def found() -> tuple[list[Any], list[Any], set[str]] | str:
        with binlog_core.open(path, **options) as log:
            try:
                tables = find_tables(log)
                return list(tables.items()), list(log.tables()), tables.empty
            except BinlogError as error:
                return str(error)

    read = Read(monkeypatch)
    assert found() == without_index(found)
    read.bytes = 0
    found()
    exact = not {"server_id", "ops"} & set(options)
    misfit = "shop.z" in (options.get("schema") or {})  # reading reports its place
    if exact and not misfit:
        assert read.bytes < 2 * (1 - part) * len(data) + 6000
