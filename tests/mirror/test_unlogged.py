"""A table that may lack changes is suspect until it is copied: changes by statements, and by foreign keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.answering import Server  # noqa: E402
from support.export import file_of, piece_of  # noqa: E402
from support.lake_forms import Form  # noqa: E402
from support.refused import Sql, mirrored  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from binlog_core import BinlogWarning  # noqa: E402
from binlog_core.cli.app import app  # noqa: E402
from binlog_core.mirror import TableStatus, resync, status  # noqa: E402
from binlog_core.mirror.changes import Decoded  # noqa: E402
from binlog_core.mirror.reporting import MirrorStatus  # noqa: E402
from binlog_core.mirror.unlogged import Cascade, Reach, reach_of  # noqa: E402
from binlog_core.server.connection import Facts  # noqa: E402

PARENT, CHILD, LEAF = "shop.parent", "shop.child", "shop.leaf"
TABLES = (PARENT, CHILD, LEAF, "shop.other")
KEYS = (Cascade(PARENT, CHILD, True, ("code",)), Cascade(CHILD, LEAF, True, ()))


def changes(folder: Path, *rows: tuple[str, int, str]) -> Decoded:
    """Changes of the parent: their types, `id` and `code`."""
    kinds = [kind for kind, _, _ in rows]
    given = {"id": [one for _, one, _ in rows], "code": [code for _, _, code in rows], "_change_type": kinds}
    name = piece_of(folder, "raw.arrow", pa.table(given))
    file = file_of(name, "parent", rows={kind: kinds.count(kind) for kind in kinds})
    return Decoded(str(folder), {PARENT: [file]}, ())


def updated(before: str, after: str) -> tuple[tuple[str, int, str], ...]:
    return (("update_preimage", 1, before), ("update_postimage", 1, after))


def test_foreign_keys_that_are_not_logged(tmp_path: Path) -> None:
    reach = Reach(KEYS, logged=False)
    assert reach.parents([LEAF]) == {PARENT, CHILD}
    for number, (rows, found) in enumerate(
        (
            ((("insert", 1, "a"),), set()),
            ((("delete", 1, "a"),), {CHILD, LEAF}),
            (updated("a", "a"), set()),
            (updated("a", "b"), {CHILD, LEAF}),
        )
    ):
        (folder := tmp_path / str(number)).mkdir()
        decoded = changes(folder, *rows)
        assert reach.suspects(TABLES, decoded).keys() == found
        assert not Reach(KEYS).suspects(TABLES, decoded)
    assert Reach(KEYS).parents([LEAF]) == set()


def test_an_update_of_a_parent_without_its_values_counts(tmp_path: Path) -> None:
    rows = pa.table({"_change_type": ["update_preimage", "update_postimage"]})
    name = piece_of(tmp_path, "raw.arrow", rows)
    file = file_of(name, "parent", rows={"update_preimage": 1, "update_postimage": 1})
    decoded = Decoded(str(tmp_path), {PARENT: [file]}, ())
    reasons = Reach(KEYS, logged=False).suspects(TABLES, decoded)
    assert f"its foreign key to {PARENT}" in reasons[CHILD]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (frozenset(), set()),
        (frozenset(("update", "other", "set")), {"shop.other"}),
        (frozenset(("delete", "from", "parent")), {PARENT, CHILD, LEAF}),
        (frozenset(("insert", "into", "seen")), {"shop.other"}),
        (frozenset(("insert", "into", "hidden")), set(TABLES)),
        (None, set(TABLES)),
    ],
)
def test_statements_that_name_tables(words: frozenset[str] | None, found: set[str]) -> None:
    further = {"seen": frozenset(("select", "other", "seen")), "hidden": None}
    reach = Reach(KEYS, further=further)  # the server does not log what foreign keys do after a statement
    assert reach.suspects(TABLES, Decoded("", {}, (), words=words)).keys() == found


def test_what_a_server_says_of_its_foreign_keys_views_and_triggers() -> None:
    server: Any = Server(
        {
            "SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_NAME, UNIQUE": [
                ("shop", "a", "child", "shop", "parent", "CASCADE", "NO ACTION"),
                ("shop", "b", "leaf", "shop", "child", "RESTRICT", "SET NULL"),
            ],
            "SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_NAME, REFERENCED": [
                ("shop", "a", "child", "id"),
                ("shop", "b", "leaf", "x"),
                ("shop", "b", "leaf", "y"),
            ],
            "SELECT TABLE_NAME, VIEW_DEFINITION": [("V", "select `t`.`a` from `shop`.`T`"), ("w", "")],
            "SELECT EVENT_OBJECT_TABLE": [("t", "INSERT INTO u VALUES (1)"), ("t", "CALL p()")],
        }
    )
    found = reach_of(server, Facts("10.11.6-MariaDB", True, 1, None, "CRC32", True, ""))
    assert found.cascades == (
        Cascade("shop.parent", "shop.child", True, ()),
        Cascade("shop.child", "shop.leaf", False, ("x", "y")),
    )
    view = {"select", "t", ".", "a", "from", "shop"}
    assert dict(found.further) == {"v": view, "w": None, "t": None}


# ------------------------------------------------------------ servers


def stages(found: list[TableStatus]) -> dict[str, str]:
    return {one.table.partition(".")[2]: one.stage for one in found}


def test_a_table_that_may_lack_changes_is_copied_again(
    url: str, sql: Sql, tmp_path: Path, form: Form
) -> None:
    mirrored(url, tmp_path, **form.settings)
    sql("SET SESSION binlog_format = 'STATEMENT'")
    sql("INSERT INTO t VALUES (3, 3)")
    sql("SET SESSION binlog_format = 'ROW'")
    sql("INSERT INTO t VALUES (4, 4)")
    with pytest.warns(BinlogWarning, match="logged as statements"):
        assert stages(mirrored(url, tmp_path, **form.settings)) == {"t": "following"}
    rows = sorted(tuple(row.values()) for row in form.read(tmp_path / "refused.t").to_pylist())
    assert rows == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_table_is_suspect_until_a_copy(url: str, sql: Sql, tmp_path: Path, form: Form) -> None:
    sql("CREATE TABLE u (id INT PRIMARY KEY)")
    mirrored(url, tmp_path, heal=0, **form.settings)
    sql("SET SESSION binlog_format = 'STATEMENT'")
    sql("INSERT INTO t VALUES (3, 3)")
    sql("SET SESSION binlog_format = 'ROW'")
    sql("INSERT INTO t VALUES (4, 4)")
    with pytest.warns(BinlogWarning, match="logged as statements"):
        found = mirrored(url, tmp_path, heal=0, **form.settings)
    assert stages(found) == {"t": "suspect", "u": "following"}
    assert "logged as statements" in str(found[0].reason)
    told = MirrorStatus(str(tmp_path), found).to_prometheus().decode()
    assert 'table="refused.t",state="suspect"} 1' in told
    assert stages(mirrored(url, tmp_path, heal=0, **form.settings)) == {"t": "suspect", "u": "following"}
    assert CliRunner().invoke(app, ["mirror", "status", str(tmp_path)]).exit_code == 1
    assert stages(resync(tmp_path)) == {"t": "following", "u": "following"}
    assert stages(status(tmp_path)) == {"t": "stopped", "u": "stopped"}
    rows = sorted(tuple(row.values()) for row in form.read(tmp_path / "refused.t").to_pylist())
    assert rows == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_function_in_a_statement_may_have_changed_any_table(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("SET GLOBAL log_bin_trust_function_creators = 1")
    sql("CREATE FUNCTION f() RETURNS INT BEGIN INSERT INTO t VALUES (9, 9); RETURN 1; END")
    mirrored(url, tmp_path, heal=0)
    sql("SET SESSION binlog_format = 'STATEMENT'")
    sql("SELECT f()")
    sql("SET SESSION binlog_format = 'ROW'")
    with pytest.warns(BinlogWarning, match="logged as statements"):
        assert stages(mirrored(url, tmp_path, heal=0)) == {"t": "suspect"}


@pytest.mark.parametrize("tables", ["refused.*", "refused.child"])
@pytest.mark.parametrize(
    ("change", "suspect"),
    [
        ("DELETE FROM parent WHERE id = 1", True),
        ("UPDATE parent SET id = 5 WHERE id = 1", True),
        ("INSERT INTO parent VALUES (9, 'x')", False),
    ],
)
@pytest.mark.filterwarnings("ignore:foreign keys change rows:binlog_core.BinlogWarning")
def test_cascades(change: str, suspect: bool, tables: str, url: str, sql: Sql, tmp_path: Path) -> None:
    from binlog_core.mirror import mirror

    logged = "MariaDB" not in str(sql("SELECT VERSION()")[0][0])  # MySQL 9.6 and later
    sql("DROP TABLE t")
    sql("CREATE TABLE parent (id INT PRIMARY KEY, v VARCHAR(9)) ENGINE=InnoDB")
    sql(
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id)"
        " ON DELETE CASCADE ON UPDATE CASCADE) ENGINE=InnoDB"
    )
    sql("INSERT INTO parent VALUES (1, 'a'), (2, 'b')")
    sql("INSERT INTO child VALUES (1, 1), (2, 2)")
    arguments: dict[str, Any] = {"tables": tables, "until": "now", "heal": 0}
    mirror(url, tmp_path, **arguments)
    sql("UPDATE parent SET v = 'c'")
    if tables == "refused.*":  # otherwise the mirror does not have the parent's values
        assert set(stages(mirror(url, tmp_path, **arguments)).values()) == {"following"}
        sql(change)
        found = stages(mirror(url, tmp_path, **arguments))
    else:
        resync(tmp_path, "refused.child")
        sql(change)
        found = stages(mirror(url, tmp_path, **arguments))
    assert found["child"] == ("suspect" if suspect and not logged else "following")
    assert found.get("parent", "following") == "following"
    sql("DROP TABLE child, parent")
