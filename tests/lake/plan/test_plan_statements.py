"""What a logged statement does to one table."""

from __future__ import annotations

import pytest

from binlog_core.lake.plan.statements import kind_of
from binlog_core.lake.rows.observers import LoggedStatement
from binlog_core.schema.given import parse_create_table

STRICT = 1 << 21  # STRICT_TRANS_TABLES, as the servers number it in the status variable sql_mode
ANSI_QUOTES = 4


@pytest.mark.parametrize(
    ("sql", "mode", "kind"),
    [
        ("ALTER TABLE SHOP.T ADD c INT", 0, "alter"),  # names are compared without case
        ("ALTER TABLE u ADD c INT", 0, None),
        ("DROP DATABASE Shop", 0, "drop"),
        ("ALTER TABLE t MODIFY c INT", STRICT, "unknown"),  # the definition before is not known
        ("ALTER TABLE t MODIFY c INT", 0, "unknown"),  # values may be cut
        ('ALTER TABLE "t" ADD c INT', STRICT | ANSI_QUOTES, "unknown"),  # the text does not show it
        ("ALTER TABLE t ADD c INT", STRICT | ANSI_QUOTES, "alter"),  # nothing is quoted
        (r"ALTER TABLE t ADD c INT COMMENT '\'", 1 << 20, "unknown"),  # NO_BACKSLASH_ESCAPES
        ("ALTER TABLE t ADD c REAL", 1, "unknown"),  # REAL_AS_FLOAT
        ("ALTER TABLE t ADD c FLOAT", 1, "alter"),
        ("ALTER TABLE t ADD c CHAR(3)", STRICT | 1 << 31, "unknown"),  # PAD_CHAR_TO_FULL_LENGTH
        ("ALTER TABLE t ADD c CHAR(3)", STRICT | 1 << 32, "unknown"),  # EMPTY_STRING_IS_NULL on MariaDB
        ("ALTER TABLE t ADD c DATE", STRICT | 1 << 9, "unknown"),  # ORACLE, where DATE has a time
        ("ALTER TABLE t ADD c INT", 1 << 40, "unknown"),  # a mode that nobody knows yet
        ("ALTER TABLE t DROP c, ADD d INT, DROP INDEX i, ADD INDEX i (d)", 0, "alter"),
        ("ALTER TABLE t DROP c, ADD COLUMN C INT", STRICT, "unknown"),  # others may be computed from it
        ("ALTER TABLE t DROP COLUMN IF EXISTS c, ADD (d INT, c INT)", STRICT, "unknown"),
        ("ALTER TABLE t ALTER c SET DEFAULT 5", STRICT, "unknown"),  # of DEFAULT(c), for example
        ("ALTER TABLE t ALTER INDEX i INVISIBLE", STRICT, "alter"),
        ("ALTER TABLE t ADD PRIMARY KEY (c)", STRICT, "alter"),
        ("ALTER TABLE t ADD PRIMARY KEY (c)", 0, "unknown"),  # NULL becomes 0
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


PLAIN = (
    "id INT PRIMARY KEY, a INT UNSIGNED, b VARCHAR(9), e ENUM('x','y'), f FLOAT(7,3), s SET('p','q'), n INT"
)
COMPUTED = f"{PLAIN}, g INT AS (a + 1) STORED"


@pytest.mark.parametrize(
    ("columns", "parts", "strict", "kind"),
    [
        # A server that is not strict converts silently; where types stay, it converts nothing.
        (PLAIN, "CHANGE a c INT UNSIGNED COMMENT 'x' AFTER id", False, "alter"),
        (PLAIN, "MODIFY a INTEGER(5) UNSIGNED NOT NULL", False, "unknown"),  # NULL becomes 0
        (
            PLAIN,
            "MODIFY b VARCHAR(9) NULL, MODIFY e ENUM('x','y') DEFAULT 'y', MODIFY s SET('p','q')",
            False,
            "alter",
        ),
        (PLAIN, "MODIFY a BIGINT UNSIGNED", False, "unknown"),
        (PLAIN, "MODIFY a BIGINT UNSIGNED", True, "alter"),
        (PLAIN, "MODIFY b VARCHAR(9) CHARACTER SET latin1", False, "unknown"),
        (PLAIN, "MODIFY e ENUM('y','x')", False, "unknown"),
        (PLAIN, "MODIFY f FLOAT(7,3)", False, "alter"),
        (PLAIN, "MODIFY f FLOAT(7,2)", False, "unknown"),
        (PLAIN, "CHANGE a b INT UNSIGNED, CHANGE b a VARCHAR(9)", False, "alter"),
        (PLAIN, "CONVERT TO CHARACTER SET utf8mb4", False, "alter"),
        (PLAIN, "CONVERT TO CHARACTER SET latin1", False, "unknown"),
        (PLAIN, "DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)", False, "unknown"),  # NULL becomes 0
        (PLAIN, "DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)", True, "alter"),
        (PLAIN, "MODIFY z INT", True, "unknown"),  # there is no such column
        # What is computed from others is computed again.
        (COMPUTED, "ADD c INT, DROP n, ADD INDEX (a), COMMENT 'x', RENAME COLUMN b TO z", True, "alter"),
        (COMPUTED, "MODIFY a BIGINT UNSIGNED", True, "unknown"),
        (COMPUTED, "MODIFY a INT UNSIGNED DEFAULT 6", True, "unknown"),  # of DEFAULT(a), for example
        (COMPUTED, "MODIFY b VARCHAR(9) COLLATE utf8mb4_bin", True, "unknown"),
        (COMPUTED, "MODIFY e ENUM('y','x')", True, "unknown"),
        (COMPUTED, "ALTER a SET DEFAULT 5", True, "unknown"),
        (COMPUTED, "CONVERT TO CHARACTER SET utf8mb4", True, "unknown"),
        (COMPUTED, "DROP a, ADD a INT", True, "unknown"),  # MariaDB computes from the new one
        (COMPUTED, "DROP a, CHANGE n a INT", True, "unknown"),
        (COMPUTED, "RENAME COLUMN a TO n, RENAME COLUMN n TO a", True, "unknown"),
    ],
)
def test_an_alter_is_judged_by_the_definition_before(
    columns: str, parts: str, strict: bool, kind: str
) -> None:
    before = parse_create_table(f"CREATE TABLE t ({columns}) CHARSET=utf8mb4", "shop")
    statement = LoggedStatement(
        4, 0, "shop", f"ALTER TABLE t {parts}", STRICT if strict else 0, 4, before=before
    )
    assert kind_of(statement, "shop.t") == kind


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


def test_bytes_of_no_character_in_a_change_are_no_error() -> None:
    statement = LoggedStatement(4, 0, "shop", "INSERT INTO t VALUES (_binary'\udcff')", 0, 4)
    assert kind_of(statement, "shop.t") == "unknown"
    assert kind_of(statement, "shop.u") is None
