"""ALTER TABLE by hand: columns, keys and character sets that it leaves."""

from __future__ import annotations

import pytest
from support.definitions import charsets_of, keys, shape, tracker_after

from binlog_core.schema.ddl import DdlTracker


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("ADD d int", ["a int", "b varchar", "c text", "d int"]),
        ("ADD COLUMN d int UNSIGNED FIRST", ["d int", "a int", "b varchar", "c text"]),
        ("ADD d int AFTER `A`, ADD e date AFTER d", ["a int", "d int", "e date", "b varchar", "c text"]),
        ("ADD (d int, INDEX (d), e bit(3))", ["a int", "b varchar", "c text", "d int", "e bit"]),
        (
            "ADD COLUMN IF NOT EXISTS b int, ADD IF NOT EXISTS d int",
            ["a int", "b varchar", "c text", "d int"],
        ),
        ("ADD INDEX (b), ADD FULLTEXT f (c), ADD CONSTRAINT x FOREIGN KEY (a) REFERENCES u (x)", None),
        ("ADD PARTITION (PARTITION p1 VALUES LESS THAN (5), PARTITION p2 VALUES LESS THAN (9))", None),
        ("DROP b", ["a int", "c text"]),
        ("DROP COLUMN b RESTRICT, DROP COLUMN IF EXISTS nothing", ["a int", "c text"]),
        ("DROP INDEX k, DROP FOREIGN KEY x, DROP CHECK y", None),
        ("MODIFY b bigint", ["a int", "b bigint", "c text"]),
        ("MODIFY COLUMN B bigint FIRST", ["b bigint", "a int", "c text"]),
        ("CHANGE b d time(3) AFTER c", ["a int", "c text", "d time"]),
        ("CHANGE COLUMN a c int, CHANGE c a text", ["c int", "b varchar", "a text"]),
        ("CHANGE a z int, ADD y int AFTER z", ["z int", "y int", "b varchar", "c text"]),
        ("DROP b, ADD b blob FIRST", ["b blob", "a int", "c text"]),
        ("RENAME COLUMN a TO c, RENAME COLUMN c TO a", ["c int", "b varchar", "a text"]),
        ("RENAME INDEX k TO k2, ALGORITHM=INPLACE, LOCK=NONE", None),
        ("ALTER a SET DEFAULT 5, ALTER COLUMN b DROP DEFAULT, ALTER INDEX k INVISIBLE", None),
        ("ENGINE=InnoDB ROW_FORMAT = COMPRESSED, COMMENT='ADD x int', AUTO_INCREMENT 5", None),
        ("foo='engine defined', FORCE", None),
        ("ORDER BY a DESC, b, ADD d int", ["a int", "b varchar", "c text", "d int"]),
        ("ADD d int, PARTITION BY KEY(a) PARTITIONS 4", ["a int", "b varchar", "c text", "d int"]),
        (
            "ADD d int PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (1))",
            ["a int", "b varchar", "c text", "d int"],
        ),
        ("REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN (5))", None),
        ("REMOVE PARTITIONING", None),
        ("EXCHANGE PARTITION p WITH TABLE u", None),
        ("ENABLE KEYS", None),
        ("", None),
    ],
)
def test_alter_table(sql: str, wanted: list[str] | None) -> None:
    tracker = tracker_after(f"ALTER ONLINE TABLE `d`.`t` {sql}")
    assert tracker.unfollowed == []
    assert shape(tracker.definition("d", "t")) == (wanted or ["a int", "b varchar", "c text"])


@pytest.mark.parametrize(
    ("sql", "primary", "unique"),
    [
        ("ALTER TABLE t RENAME COLUMN a TO z, RENAME COLUMN c TO y", ("z",), [("k", ("y",))]),
        ("ALTER TABLE t DROP PRIMARY KEY", None, [("k", ("c",))]),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY pk (c(3), b(9))", ("c", "b"), [("k", ("c",))]),
        ("ALTER TABLE t DROP CONSTRAINT `PRIMARY`, DROP KEY K", None, []),
        ("ALTER TABLE t DROP a, ADD z int PRIMARY KEY", ("z",), [("k", ("c",))]),
        ("ALTER TABLE t DROP c", ("a",), []),
        (
            "ALTER TABLE t ADD UNIQUE (b), ADD CONSTRAINT q UNIQUE (a, b)",
            ("a",),
            [("k", ("c",)), ("b", ("b",)), ("q", ("a", "b"))],
        ),
        (
            "ALTER TABLE t ADD z int UNIQUE, ADD UNIQUE (z, a)",
            ("a",),
            [("k", ("c",)), ("z", ("z",)), ("z_2", ("z", "a"))],
        ),
        ("CREATE UNIQUE INDEX n USING BTREE ON t (b)", ("a",), [("k", ("c",)), ("n", ("b",))]),
        ("CREATE INDEX n ON t (b)", ("a",), [("k", ("c",))]),
        ("CREATE OR REPLACE UNIQUE INDEX K ON t (b)", ("a",), [("K", ("b",))]),
        ("CREATE OR REPLACE INDEX k ON t (c)", ("a",), []),
        ("CREATE OR REPLACE FULLTEXT INDEX k ON t (c)", ("a",), []),
        ("DROP INDEX k ON t", ("a",), []),
        ("DROP INDEX `PRIMARY` ON d.t", None, [("k", ("c",))]),
    ],
)
def test_keys(sql: str, primary: object, unique: object) -> None:
    tracker = tracker_after(sql)
    assert tracker.unfollowed == []
    assert keys(tracker.definition("d", "t")) == (primary, unique)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "DEFAULT CHARSET ascii, ADD d char(2)",
            [("varchar", "latin1"), ("text", "utf8mb4"), ("char", "ascii")],
        ),
        ("ADD d char(2)", [("varchar", "latin1"), ("text", "utf8mb4"), ("char", "utf8mb4")]),
        ("MODIFY b varchar(5)", [("varchar", "utf8mb4"), ("text", "utf8mb4")]),
        (
            "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            [("varchar", "utf8mb4"), ("text", "utf8mb4")],
        ),
        ("CONVERT TO CHARACTER SET binary", [("varbinary", None), ("blob", None)]),
        ("CONVERT TO CHARACTER SET DEFAULT", [("varchar", None), ("text", None)]),
        ("CHANGE b b text CHARSET latin1", [("text", "latin1"), ("text", "utf8mb4")]),
    ],
)
def test_character_sets(sql: str, wanted: list[tuple[str, str | None]]) -> None:
    tracker = tracker_after(f"ALTER TABLE t {sql}")
    assert tracker.unfollowed == []
    assert charsets_of(tracker.definition("d", "t"))[1:] == wanted


def test_text_grows_when_it_is_converted() -> None:
    tracker = tracker_after(
        "ALTER TABLE t MODIFY c text CHARSET latin1", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"
    )
    assert charsets_of(tracker.definition("d", "t"))[2] == ("mediumtext", "utf8mb4")


def test_columns_go_to_their_places_one_after_another() -> None:
    tracker = DdlTracker()
    tracker.apply_statement("d", "CREATE TABLE t (a int, b int, c int)")
    tracker.apply_statement(
        "d",
        "ALTER TABLE t ADD x int AFTER a, ADD y int AFTER x, ADD z int, MODIFY c int FIRST,"
        " ADD q int AFTER z",
    )
    # Those that are moved come before those that are added, as in the server.
    assert shape(tracker.definition("d", "t")) == [
        "c int",
        "a int",
        "x int",
        "y int",
        "b int",
        "z int",
        "q int",
    ]
