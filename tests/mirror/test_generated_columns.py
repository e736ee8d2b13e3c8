"""Generated columns, which MariaDB 11.8 logs only in inserts: a mirror keeps no old values of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

from deltalake import DeltaTable, write_deltalake  # noqa: E402
from support.export import file_of, piece_of  # noqa: E402
from support.lake_forms import Form  # noqa: E402
from support.server import SERVER, connect, run  # noqa: E402

from binlog_core.lake.apply.statements import ApplyStopped  # noqa: E402
from binlog_core.lake.runner import HERE  # noqa: E402
from binlog_core.lake.tables.results import ReportedStatement  # noqa: E402
from binlog_core.mirror import TableStatus, mirror  # noqa: E402
from binlog_core.mirror.applying import apply_round  # noqa: E402
from binlog_core.mirror.changes import Decoded  # noqa: E402
from binlog_core.mirror.lake import Lake  # noqa: E402
from binlog_core.mirror.state import TableState  # noqa: E402
from binlog_core.schema.given import parse_create_table  # noqa: E402

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, g INT AS (a * 2) STORED, v INT AS (a + 1) VIRTUAL)"
MORE = {
    "_change_type": pa.string(),
    "_commit_version": pa.int64(),
    "_change_ordinal": pa.int64(),
    "_absent": pa.list_(pa.string()),
}
BEFORE, AFTER = "update_preimage", "update_postimage"
UNLOGGED = ["g", "v"]
INSERT: list[Any] = [("insert", 2, 5, None)]
DELETE: list[Any] = [("delete", 1, 1, UNLOGGED)]
UPDATE: list[Any] = [(BEFORE, 1, 1, UNLOGGED), (AFTER, 1, 6, UNLOGGED)]
LOGGED: list[Any] = [(BEFORE, 1, 1, None), (AFTER, 1, 6, None)]
MINIMAL: list[Any] = [(BEFORE, 1, None, ["a", "g", "v"]), (AFTER, None, 6, ["id", "v"])]


def followed(
    folder: Path,
    images: list[Any],
    *,
    mariadb: bool = True,
    alter: str | None = None,
    last: str = "v",
    unlogged: tuple[str, ...] = (),
) -> list[tuple[Any, ...]]:
    """The lake's rows after a round, which begins with the row (1, 1, 2, 2); `last`: a new name of v."""
    lake, state = Lake(str(folder)), TableState("shop", "t", "following", place=1, unlogged=[*unlogged])
    own = pa.schema({name: pa.int32() for name in ("id", "a", "g", last)})
    first = {"id": [1], "a": [1], "g": [2], "v": [2]} | {name: [None] for name in unlogged}
    first = pa.table(first).cast(pa.schema({name: pa.int32() for name in ("id", "a", "g", "v")}))
    write_deltalake(str(folder / "shop.t"), first)
    changes = folder / "_mirror" / "changes"
    changes.mkdir(parents=True)
    rows = []
    for ordinal, (kind, number, a, absent) in enumerate(images):
        computed = {} if a is None else {"g": a * 2, last: a + 1}
        lacking = None if absent is None else [last if one == "v" else one for one in absent]
        row = {"id": number, "a": a} | computed | dict.fromkeys(lacking or ())
        rows.append(row | dict(zip(MORE, (kind, 60, ordinal, lacking), strict=True)))
    made = pa.Table.from_pylist(rows, pa.schema([*own, *MORE.items()]))
    file = file_of(
        piece_of(changes, "raw.arrow", made), schema=made.schema, first_version=60, last_version=60
    )
    statements = [ReportedStatement(50, 0, "alter", ("shop.t",), None, False, alter)] if alter else []
    decoded = Decoded(str(changes), {"shop.t": [file]}, tuple(statements))
    definition = parse_create_table(TABLE, "shop")
    apply_round(HERE, lake, state, ("id",), decoded, "m", 100, {}, definition, mariadb=mariadb)
    found = DeltaTable(str(folder / "shop.t")).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize("images", [UPDATE, [*INSERT, *UPDATE, *DELETE], MINIMAL])
def test_an_update_without_them_stops(images: list[Any], tmp_path: Path) -> None:
    with pytest.raises(
        ApplyStopped, match=r"lack (g, )?v, .*generated columns of updated rows; leave .* out"
    ):
        followed(tmp_path, images)
    assert DeltaTable(str(tmp_path / "shop.t")).to_pyarrow_table().to_pylist() == [
        {"id": 1, "a": 1, "g": 2, "v": 2}
    ]


def test_an_update_without_a_renamed_one_stops(tmp_path: Path) -> None:
    rename = "ALTER TABLE t RENAME COLUMN v TO w"
    with pytest.raises(ApplyStopped, match="lack g, w, "):
        followed(tmp_path, UPDATE, alter=rename, last="w")


def test_inserts_and_deletes_go_on(tmp_path: Path) -> None:
    assert followed(tmp_path, INSERT) == [(1, 1, 2, 2), (2, 5, 10, 6)]
    assert followed(tmp_path / "deletes", [*INSERT, *DELETE]) == [(2, 5, 10, 6)]


@pytest.mark.parametrize(
    ("images", "rows"),
    [
        (UPDATE, [(1, 6, None, None)]),
        ([*INSERT, *UPDATE], [(1, 6, None, None), (2, 5, None, None)]),
        (DELETE, []),
        (LOGGED, [(1, 6, None, None)]),
        (MINIMAL, [(1, 6, None, None)]),
    ],
)
def test_those_that_are_left_out_are_null(images: list[Any], rows: list[Any], tmp_path: Path) -> None:
    assert followed(tmp_path, images, unlogged=("g", "v")) == rows


def test_updates_with_them_go_on(tmp_path: Path) -> None:
    assert followed(tmp_path, LOGGED) == [(1, 6, 12, 7)]


def test_mysql_leaves_them_out_only_if_they_stay(tmp_path: Path) -> None:
    key_only: list[Any] = [(BEFORE, 1, None, ["a", "g", "v"]), (AFTER, 1, None, ["a", "g", "v"])]
    assert followed(tmp_path, key_only, mariadb=False) == [(1, 1, 2, 2)]


# ------------------------------------------------------------ servers


def mirrored(url: str, lake: Path, form: Form) -> TableStatus:
    (one,) = mirror(url, lake, tables="generated.*", until="now", **form.settings)
    return one


@pytest.mark.server
@pytest.mark.filterwarnings("ignore:MariaDB from 11 on does not log:binlog_core.BinlogWarning")
def test_the_lake_leaves_out_what_the_server_does_not_log(tmp_path: Path, form: Form) -> None:
    def sql(*statements: str) -> list[Any]:
        return run(connection, *statements)

    def agrees(selected: str) -> None:
        one = mirrored(SERVER, tmp_path, form)
        assert (one.stage, [*one.unlogged]) == ("following", [] if logs_them else unlogged)
        rows = form.read(tmp_path / "generated.t").to_pylist()
        found = sorted((tuple(row.values()) for row in rows), key=lambda row: int(row[0]))
        assert found == sql(f"SELECT {selected} FROM t ORDER BY id")

    with connect(SERVER) as connection:
        ((version,),) = sql("SELECT VERSION()")
        logs_them = "MariaDB" not in version or int(version.partition(".")[0]) < 11
        unlogged = ["g", "v"]
        columns = "id, a, g, v" if logs_them else "id, a, NULL, NULL"
        sql("DROP DATABASE IF EXISTS `generated`", "CREATE DATABASE `generated`")
        try:
            sql("USE `generated`", TABLE, "INSERT INTO t (id, a) VALUES (1, 1), (2, 2)")
            agrees(columns)
            sql("INSERT INTO t (id, a) VALUES (3, 3)", "DELETE FROM t WHERE id = 2")
            agrees(columns)
            sql("UPDATE t SET a = 10 WHERE id = 1")
            agrees(columns)
            sql("ALTER TABLE t DROP COLUMN v, ADD COLUMN w INT AS (a + 2) VIRTUAL")
            sql("UPDATE t SET a = 11 WHERE id = 1")
            unlogged = ["g", "w"]
            agrees("id, a, g, w" if logs_them else "id, a, NULL, NULL")
            sql("ALTER TABLE t DROP COLUMN w, MODIFY g INT")
            sql("UPDATE t SET a = 12 WHERE id = 1")
            unlogged = []
            agrees("id, a, g")
        finally:
            sql("DROP DATABASE `generated`")
