"""What a statement does to tables."""

from __future__ import annotations

from typing import Any

import pytest

from binlog_core.schema.table_statements import TableStatement, read_statement, words_of_change


@pytest.mark.parametrize(
    ("sql", "kind", "told"),
    [
        ("CREATE TABLE IF NOT EXISTS t (id INT)", "create", {"if_not_exists": True}),
        ("create or replace table `T` (id int)", "create", {"tables": ("shop.T",), "replaces": True}),
        ("/* by hand */ ALTER ONLINE TABLE t ADD c INT", "alter", {}),
        ("ALTER TABLE t MODIFY c INT", "alter", {"retypes": True}),
        ("ALTER TABLE t ADD c INT, RENAME TO u", "rename", {"tables": ("shop.t", "shop.u")}),
        ("ALTER TABLE t RENAME COLUMN a TO b", "alter", {}),
        ("ALTER TABLE t DROP PARTITION p0", "unknown", {}),
        ("ALTER TABLE t TRUNCATE PARTITION p0, p1", "unknown", {}),
        (
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE other.u WITHOUT VALIDATION",
            "unknown",
            {"tables": ("shop.t", "other.u")},
        ),
        ("ALTER TABLE t CONVERT PARTITION p TO TABLE u", "unknown", {"tables": ("shop.t", "shop.u")}),
        (
            "ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (5)",
            "unknown",
            {"tables": ("shop.t", "shop.u")},
        ),
        ("ALTER TABLE t ADD c INT DEFAULT (IMPORT)", "alter", {}),  # in parentheses it is not a part of ALTER
        ("ALTER TABLE t IMPORT TABLESPACE", "unknown", {}),
        ("DROP TABLE IF EXISTS t, other.u", "drop", {"tables": ("shop.t", "other.u")}),
        (
            "RENAME TABLE t TO u, v WAIT 5 TO w",
            "rename",
            {"tables": ("shop.t", "shop.u", "shop.v", "shop.w")},
        ),
        ("TRUNCATE t", "truncate", {}),
        ("DROP DATABASE IF EXISTS shop", "drop", {"tables": (), "database": "shop"}),
        ("CREATE OR REPLACE DATABASE shop", "drop", {"tables": (), "database": "shop"}),
        ("SET STATEMENT max_statement_time=5 FOR TRUNCATE TABLE t", "truncate", {}),
        ("ALTER TABLE t ADD c VARCHAR(9) DEFAULT 'open", "unknown", {"tables": ()}),
    ],
)
def test_what_a_statement_does(sql: str, kind: Any, told: dict[str, Any]) -> None:
    assert read_statement(sql, "shop") == TableStatement(kind, **{"tables": ("shop.t",), **told})


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TEMPORARY TABLE t (id INT)",
        "DROP VIEW t",
        "CREATE DATABASE shop",
        "CREATE INDEX i ON t (a)",
        "",
        "FLUSH",
    ],
)
def test_statements_about_no_table(sql: str) -> None:
    assert read_statement(sql, "shop") is None


@pytest.mark.parametrize(
    ("sql", "sql_mode", "words"),
    [
        ("UPDATE Shop.`T` JOIN u USING (id) SET a = 1", 0, "update shop . t join u using ( id ) set a = 1"),
        ("UPDATE \"a b\" SET c = 'it''s'", 4, "update|a b|set|c|=|it's"),
        ("INSERT INTO u (a) VALUES ('t', 1), (2, 3)", 0, "insert into u ( a )"),
        ("INSERT INTO u VALUE ('not closed", 0, "insert into u value"),  # a long statement, which is cut
        ("INSERT INTO value VALUES (1)", 0, "insert into value"),  # a name, too: it is no reserved word
        ("REPLACE shop.value (a) SELECT 1", 0, "replace shop . value"),
        ("SET STATEMENT a=1 FOR DELETE FROM u", 0, "delete from u"),
        ("LOAD DATA INFILE 'f' INTO TABLE t", 0, "load data infile f into table t"),
        ("LOAD DATA", 0, None),
        ("SELECT `shop`.`f`(1)", 0, None),
        ("UPDATE u SET a = 'not closed", 0, None),
    ],
)
def test_the_words_of_a_change_of_rows(sql: str, sql_mode: int, words: str | None) -> None:
    found = words_of_change(sql, sql_mode)
    assert found == (None if words is None else set(words.split("|" if "|" in words else " ")))
