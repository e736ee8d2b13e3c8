"""Tables with other names in the lake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.lake_forms import Form
from support.refused import Sql

from binlog_core import MirrorError
from binlog_core.mirror import TableStatus, add, drop, mirror, status, verify
from binlog_core.mirror.renaming import check_renames, renamed


@pytest.mark.parametrize(
    ("names", "rename", "expected"),
    [
        (("shop", "t"), {}, ("shop", "t")),
        (("shop", "t"), {"shop.t": "crm.people"}, ("crm", "people")),
        (("shop_prod", "a"), {"shop_prod.*": "shop.*"}, ("shop", "a")),
        (("shop_prod", "tbl_a"), {"*_prod.tbl_*": "*.*_v1"}, ("shop", "a_v1")),
        (("shop", "a.b"), {"shop.a+b": "x.y"}, ("shop", "a.b")),
        (("shop", "a.b"), {"shop.`a.b`": "shop.`b.a`"}, ("shop", "b.a")),
        (("shop", "t"), {"shop.u": "no.no", "*.t": "first.*", "shop.*": "second.*"}, None),
        (("shop", "t"), {"shop.u": "no.no", "*.t": "first.t", "shop.*": "second.*"}, ("first", "t")),
    ],
)
def test_the_first_name_that_matches_counts(names: Any, rename: dict[str, str], expected: Any) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="expected at most one"):
            check_renames(rename)
        return
    check_renames(rename)
    assert renamed(*names, rename) == expected


@pytest.mark.parametrize("rename", [{"t": "x.y"}, {"a.b": "c"}, {"a.*_*": "a.*"}, {"a.b": "a.*"}, {"": ""}])
def test_names_are_checked_before_anything_is_done(rename: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rename="):
        mirror("mysql://root@127.0.0.1:1", tmp_path / "lake", tables="a.*", rename=rename)
    assert not (tmp_path / "lake").exists()


def test_tables_are_in_the_lake_under_other_names(url: str, sql: Sql, form: Form, tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    def run(rename: Any, **settings: Any) -> dict[str, TableStatus]:
        given = {"tables": "refused.*", "until": "now", "compact": None, **form.settings, **settings}
        return {one.table: one for one in mirror(url, lake, rename=rename, **given)}

    def rows(name: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in form.read(lake / name).to_pylist())

    names = {"refused.t": "crm.people", "refused.old_*": "crm.*"}
    sql("CREATE TABLE old_a (id INT PRIMARY KEY)")
    found = run(names, history=True)
    assert found["refused.t"].uri.endswith("crm.people")
    assert (rows("crm.people"), rows("crm.a")) == ([(1, 1), (2, 2)], [])
    sql("INSERT INTO old_a VALUES (7)")
    sql("UPDATE t SET v = 3 WHERE id = 1")
    run(names, history=True)
    assert (rows("crm.people"), rows("crm.a")) == ([(1, 3), (2, 2)], [(7,)])
    assert (
        form.read(lake / "history" / "crm.people").num_rows == 5
    )  # the copy, two rows, and both images of one
    assert not (lake / "refused.t").exists()
    assert [(one.table, one.rows, one.agrees) for one in verify(lake)] == [
        ("refused.old_a", 1, True),
        ("refused.t", 2, True),
    ]

    with pytest.raises(
        MirrorError, match=r"refused\.t is in the lake as crm\.people, and would be refused\.t"
    ):
        run({"refused.old_*": "crm.*"})
    drop(lake, "refused.t")
    assert [*run({"refused.old_*": "crm.*"})] == ["refused.old_a"]
    add(lake, "refused.t")
    run({"refused.old_*": "crm.*"})
    assert (rows("crm.people"), rows("refused.t")) == ([(1, 3), (2, 2)], [(1, 3), (2, 2)])

    sql("CREATE TABLE a (id INT PRIMARY KEY)")  # it would be where another table is
    sql("INSERT INTO a VALUES (1)")
    for _ in range(3):
        found = run({"refused.old_*": "crm.*", "refused.a": "crm.a"})
    assert (found["refused.a"].stage, rows("crm.a")) == ("parked", [(7,)])
    assert "refused.old_a would have the same name in the lake" in (found["refused.a"].reason or "")
    assert found["refused.old_a"].stage == "following"
    assert {one.table: one.stage for one in status(lake)}["refused.t"] == "stopped"
    found = run({"refused.old_*": "crm.*"})  # it has no table yet: another name is taken
    assert found["refused.a"].uri.endswith("refused.a")


def test_a_table_of_the_same_name_is_neither_emptied_nor_replaced(
    url: str, sql: Sql, form: Form, tmp_path: Path
) -> None:
    """Neither when the server drops the other, nor when it is no longer mirrored and only lies there."""
    names = {"refused.t": "crm.t", "refused.w": "crm.t"}

    def run() -> dict[str, str]:
        found = mirror(
            url, tmp_path, tables="refused.*", until="now", rename=names, compact=None, **form.settings
        )
        return {one.table: one.stage for one in found}

    def rows() -> list[int]:
        return sorted(row["id"] for row in form.read(tmp_path / "crm.t").to_pylist())

    run()
    sql("CREATE TABLE w (id INT PRIMARY KEY)")
    assert run() == {"refused.t": "following", "refused.w": "parked"}
    sql("DROP TABLE w")
    run()
    assert rows() == [1, 2]
    drop(tmp_path, "refused.t")
    sql("CREATE TABLE w (id INT PRIMARY KEY)")
    assert run() == {"refused.w": "parked"}
    assert rows() == [1, 2]
    assert "has refused.t under that name" in (status(tmp_path)[0].reason or "")
    add(tmp_path, "refused.t")
    drop(tmp_path, "refused.w")
    assert (run(), rows()) == ({"refused.t": "following"}, [1, 2])
