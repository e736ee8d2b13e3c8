"""What a logged statement does to one table."""

from __future__ import annotations

import pytest

from binlog_core.spark.plan.statements import kind_of
from binlog_core.spark.rows.observers import LoggedStatement

STRICT = 1 << 21  # STRICT_TRANS_TABLES, as the servers number it in the status variable sql_mode
ANSI_QUOTES = 4


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
        ("SELECT `shop`.`f`(1)", 0, "unknown"),  # a function that changes rows, maybe those of the table
        ("SET STATEMENT max_statement_time=1 FOR UPDATE t SET a = 1", 0, "unknown"),
        ("LOAD DATA INFILE 'f' INTO TABLE t", 0, "unknown"),
        ("INSERT INTO u VALUES ('t')", 0, None),
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
