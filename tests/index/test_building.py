"""Building an index: up to where it covers a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.indexed import UUID, Read, write_log
from support.questions import answer, without_index
from support.writer import Log, Table

from binlog_core.index.making import index

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


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


def test_a_damaged_log_is_indexed_up_to_its_damage(tmp_path: Path) -> None:
    path = write_log(tmp_path / "bin.000001", 0)
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 255
    path.write_bytes(data)
    index(path)
    question = {"tables": "shop.t", "where": "id = 1"}
    assert answer(path, question)[1].startswith(("ChecksumError", "DecodeError"))
    assert answer(path, question) == without_index(lambda: answer(path, question))
