"""What a logged statement does to tables."""

from __future__ import annotations

from typing import Any

import pytest

from binlog_core.spark.plan.statements import TableStatement, kind_of, read_statement
from binlog_core.spark.rows.observers import LoggedStatement

STRICT = 1 << 21  # STRICT_TRANS_TABLES, as the servers number it in the status variable sql_mode
ANSI_QUOTES = 4


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
    ("sql", "mode", "kind"),
    [
        ("ALTER TABLE SHOP.T ADD c INT", 0, "alter"),  # names are compared without case
        ("ALTER TABLE u ADD c INT", 0, None),
        ("DROP DATABASE Shop", 0, "drop"),
        ("ALTER TABLE t MODIFY c INT", STRICT, "alter"),
        ("ALTER TABLE t MODIFY c INT", 0, "unknown"),  # values may be cut
        ('ALTER TABLE "t" ADD c INT', STRICT | ANSI_QUOTES, "unknown"),  # the text does not show it
        ("UPDATE t SET a = 1", 0, "unknown"),  # logged as a statement: its rows are not known
        ("INSERT INTO u SELECT 't'", 0, "unknown"),
        ("UPDATE u SET a = 1", 0, None),
    ],
)
def test_what_a_statement_does_to_one_table(sql: str, mode: int, kind: str | None) -> None:
    assert kind_of(LoggedStatement(4, 0, "shop", sql, mode, 4), "shop.t") == kind


def test_a_server_that_logs_rows_under_capitals_distinguishes_names_by_case() -> None:
    """MariaDB 10.11 with lower_case_table_names=1 logs TRUNCATE TABLE T as typed, and rows of t."""

    def kind(sql: str, table: str, database: str = "shop") -> str | None:
        return kind_of(LoggedStatement(4, 0, database, sql, 0, 4), table)

    assert kind("TRUNCATE TABLE T", "shop.t") == "truncate"
    assert kind("TRUNCATE TABLE T", "shop.T") == "truncate"
    assert kind("TRUNCATE TABLE t", "shop.T") is None
    assert kind("DROP TABLE `T`", "Shop.t", "Shop") is None
    assert kind("DROP DATABASE shop", "Shop.t") is None
    assert kind("DROP DATABASE Shop", "Shop.t") == "drop"
