"""A mirror whose rounds write deletion vectors: at every step its tables have what SELECT has."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.lake_forms import VectorForm
from support.refused import mirrored

from binlog_core.lake.apply import key_index
from binlog_core.lake.tables.delta import DeltaLakeTable
from binlog_core.mirror import mirror, resync, verify
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import MirrorState

Sql = Callable[[str], Any]
VECTORS: dict[str, Any] = {"deletes": "vectors", "history": True, "compact": None}


def here(lake: Path, table: str = "t", columns: tuple[str, ...] = ("id", "v")) -> list[tuple[Any, ...]]:
    rows = VectorForm(lake).read(lake / f"refused.{table}").select(columns).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def there(sql: Sql) -> list[tuple[Any, ...]]:
    return [*sql("SELECT * FROM t ORDER BY id")]


def change(sql: Sql, chance: random.Random, count: int) -> None:
    for _ in range(count):
        key, value = chance.randrange(1, 500), chance.randrange(1000)
        kind = chance.choice(
            (
                "REPLACE INTO t VALUES ({0}, {1})",
                "UPDATE t SET v = {1} WHERE id >= {0} LIMIT 2",
                "DELETE FROM t WHERE id = {0}",
                "UPDATE IGNORE t SET id = {1} WHERE id = {0}",
            )
        )
        sql(kind.format(key, value))


def deleted(lake: Path) -> int:
    files = DeltaLakeTable(str(lake / "refused.t")).files()
    return sum(one.deleted.cardinality for one in files if one.deleted is not None)


def test_rounds_compaction_history_resync_and_verify(url: str, sql: Sql, tmp_path: Path) -> None:
    chance = random.Random(3)
    sql("INSERT INTO t SELECT seq, seq * 3 FROM seq_3_to_500")
    mirrored(url, tmp_path, **VECTORS)
    assert (deleted(tmp_path), here(tmp_path)) == (0, there(sql))
    for _ in range(4):
        change(sql, chance, 30)
        (status,) = mirrored(url, tmp_path, **VECTORS)
        assert here(tmp_path) == there(sql)
        assert (status.stage, status.rows) == ("following", len(there(sql)))
    assert deleted(tmp_path) > 20
    (told,) = verify(tmp_path)  # by its own reader, which must leave the same rows out
    assert (told.agrees, told.rows) == (True, len(there(sql)))

    mirrored(url, tmp_path, **{**VECTORS, "deletes": "copy"})  # the next rounds rewrite
    change(sql, chance, 30)
    mirrored(url, tmp_path, **{**VECTORS, "deletes": "copy"})
    assert here(tmp_path) == there(sql)

    sql("DELETE FROM t WHERE id % 2 = 0")  # compaction writes files anew that have so many deleted rows
    mirrored(url, tmp_path, **{**VECTORS, "compact": 1e-6})
    mirrored(url, tmp_path, **{**VECTORS, "compact": 1e-6})
    assert (here(tmp_path), deleted(tmp_path)) == (there(sql), 0)

    sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 5, MODIFY v BIGINT")
    sql("UPDATE t SET v = 5000000000 WHERE id < 50")
    mirrored(url, tmp_path, **VECTORS)
    assert here(tmp_path, columns=("id", "v", "w")) == there(sql)
    sql("UPDATE t SET w = 6 WHERE id < 90")
    mirrored(url, tmp_path, **VECTORS)
    assert deleted(tmp_path) > 0
    assert resync(tmp_path, "refused.t")[0].stage == "following"
    assert here(tmp_path, columns=("id", "v", "w")) == there(sql)
    assert deleted(tmp_path) == 0
    assert all(one.agrees for one in verify(tmp_path))
    sql("TRUNCATE t")
    mirrored(url, tmp_path, **VECTORS)
    assert here(tmp_path) == []


def test_a_history_that_begins_late_has_no_deleted_rows(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("INSERT INTO t SELECT seq, seq FROM seq_3_to_50")
    settings = {**VECTORS, "history": False}
    mirrored(url, tmp_path, **settings)
    sql("DELETE FROM t WHERE id < 20")
    mirrored(url, tmp_path, **settings)
    assert deleted(tmp_path) == 19
    mirrored(url, tmp_path, **VECTORS)
    past = VectorForm(tmp_path).read(tmp_path / "history" / "refused.t").to_pylist()
    begun = sorted((one["id"], one["v"]) for one in past if one["_change_type"] == "insert")
    assert begun == there(sql)


def test_a_row_that_is_wrong_in_the_lake_is_named(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("INSERT INTO t SELECT seq, seq FROM seq_3_to_50")
    mirrored(url, tmp_path, **VECTORS)
    sql("UPDATE t SET v = 0 WHERE id IN (5, 9)")
    mirrored(url, tmp_path, **VECTORS)
    table = DeltaLakeTable(str(tmp_path / "refused.t"))
    (file,) = (one for one in table.files() if one.deleted is not None)
    table.exchange([], [file], table.columns, None)  # with the rows that are not deleted
    (told,) = verify(tmp_path)
    assert (told.differ, told.extra, told.changed) == (48, [], [])
    assert {"id": 5} not in told.missing


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"deletes": "vector"}, "deletes='vector': expected 'copy' or 'vectors'"),
        (
            {"deletes": "vectors", "format": "iceberg"},
            "deletes='vectors': expected Delta tables in a directory",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_copied(
    settings: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        mirror("mysql://root@127.0.0.1:1", tmp_path, tables="a.*", until="now", **settings)
    state = Lake(str(tmp_path)).load()
    assert state is None  # not even the format is kept


def test_a_lake_in_a_store_takes_no_vectors(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.filesystem = type("Store", (), {"type_name": "s3"})()
    state = MirrorState("id", "mysql://root@db1", ("a.*",), "archive", deletes="vectors")
    with pytest.raises(ValueError, match="expected Delta tables in a directory"):
        lake.use(state)


@pytest.mark.parametrize("deletes", ["vectors", "copy"])
def test_keys_of_any_characters(url: str, sql: Sql, tmp_path: Path, deletes: str) -> None:
    """Also beyond the basic plane, in another case, cut at 64 characters, and with zeros."""
    sql("DROP TABLE t")
    sql("CREATE TABLE t (id VARCHAR(90) CHARSET utf8mb4 COLLATE utf8mb4_unicode_520_ci PRIMARY KEY, v INT)")
    keys = ["a", "ß", "Ж" * 70, "\ue000", "😀", "𠮷" * 3, "𠮷" + "z" * 80, "\U0010fffd", "b\\0c"]
    for number, key in enumerate(keys):
        sql(f"INSERT INTO t VALUES ('{key}', {number})")
    settings: dict[str, Any] = {"deletes": deletes, "compact": None}
    mirrored(url, tmp_path, **settings)
    for statement in (
        "UPDATE t SET v = v + 10",
        "UPDATE t SET id = UPPER(id)",
        "DELETE FROM t WHERE v = 17",  # the last one, alone
        "UPDATE t SET v = 20 WHERE id LIKE '𠮷%'",  # so are these now
        "DELETE FROM t WHERE v IN (13, 15)",
        "UPDATE t SET id = CONCAT(id, '𠮷'), v = v + 10 WHERE CHAR_LENGTH(id) < 10",
        "INSERT INTO t VALUES ('𠮷𠮷𠮷', 7)",
        "UPDATE t SET v = v + 1",
    ):
        sql(statement)
        mirrored(url, tmp_path, **settings)
        assert here(tmp_path) == sorted(sql("SELECT * FROM t"))
    assert all(one.agrees for one in verify(tmp_path))


def test_rounds_find_keys_by_an_index_which_goes_with_its_table(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_WORTH", "_ROWS_A_KEY"):
        monkeypatch.setattr(key_index, name, 0)
    chance, keys = random.Random(5), tmp_path / "_mirror" / "keys"
    sql("INSERT INTO t SELECT seq, seq * 3 FROM seq_3_to_500")
    mirrored(url, tmp_path, **VECTORS)
    for number in range(5):
        change(sql, chance, 30)
        mirrored(url, tmp_path, **{**VECTORS, "compact": 1e-6 if number == 3 else None})
        assert here(tmp_path) == there(sql)
        assert [*keys.glob("refused.t/*.keys")]
    assert all(one.agrees for one in verify(tmp_path))
    resync(tmp_path, "refused.t")  # all its files are others now
    assert here(tmp_path) == there(sql)
    change(sql, chance, 30)
    mirrored(url, tmp_path, **VECTORS)
    assert (here(tmp_path), all(one.agrees for one in verify(tmp_path))) == (there(sql), True)
    mirrored(url, tmp_path, **{**VECTORS, "deletes": "copy"})
    assert [*keys.iterdir()] == []
