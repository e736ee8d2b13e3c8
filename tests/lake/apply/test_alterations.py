"""What an ALTER TABLE does to the existing rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from binlog_core import SchemaError  # noqa: E402
from binlog_core.lake.apply.alterations import From, read_alteration  # noqa: E402
from binlog_core.schema.table_definitions import ColumnSchema  # noqa: E402

KNOWN = {
    "id": pa.int32(),
    "a": pa.string(),
    "n": pa.int64(),
    "price": pa.decimal128(10, 2),
    "at": pa.timestamp("us"),
    "raw": pa.binary(),
    "t": pa.int64(),
    "rate": pa.float64(),
    "long": pa.string(),
}
COLUMNS = {  # those that a type of the lake does not show
    "a": ColumnSchema("a", "varchar", length=9),
    "t": ColumnSchema("t", "time", fsp=6),
    "long": ColumnSchema("long", "decimal", precision=40, scale=3),
}


@pytest.mark.parametrize(
    ("sql", "values", "types"),
    [
        ("ADD c SMALLINT UNSIGNED NOT NULL", {"c": 0}, {"c": pa.int32()}),
        ("ADD c DECIMAL(6,3) DEFAULT -1.5", {"c": Decimal("-1.500")}, {"c": pa.decimal128(6, 3)}),
        (
            "ADD c DATETIME DEFAULT '2026-01-02 03:04:05'",
            {"c": dt.datetime(2026, 1, 2, 3, 4, 5)},
            {"c": pa.timestamp("us")},
        ),
        ("ADD c DECIMAL(5,1) DEFAULT 0.25", {"c": Decimal("0.3")}, {"c": pa.decimal128(5, 1)}),
        ("ADD c BOOLEAN NOT NULL DEFAULT TRUE", {"c": 1}, {"c": pa.int8()}),
        ("ADD c DOUBLE PRECISION DEFAULT 1.25", {"c": 1.25}, {"c": pa.float64()}),
        ("ADD c CHAR(9) DEFAULT 'x  '", {"c": "x"}, {"c": pa.string()}),
        ("ADD c ENUM('a','b') DEFAULT 'b' COMMENT 'x'", {"c": "b"}, {"c": pa.string()}),
        ("ADD c ENUM('2','1') NULL DEFAULT '1' AFTER a", {"c": "1"}, {"c": pa.string()}),
        ("ADD c INT DEFAULT '5' NOT NULL", {"c": 5}, {"c": pa.int32()}),
        ("ADD c BLOB NOT NULL, ADD KEY (c)", {"c": b""}, {"c": pa.binary()}),
        ("RENAME COLUMN A TO b", {"b": From("a"), "a": None}, {"b": pa.string()}),
        (
            "RENAME COLUMN a TO `long`, RENAME COLUMN `long` TO a",
            {"long": From("a"), "a": From("long")},
            {"long": pa.string(), "a": pa.string()},
        ),
        ("CHANGE n m DECIMAL(20,0)", {"m": From("n"), "n": None}, {"m": pa.decimal128(20, 0)}),
        ("DROP a, ADD a VARCHAR(5) DEFAULT 'new'", {"a": "new"}, {"a": pa.string()}),
        ("DROP n, ADD n INT DEFAULT 5", {"n": 5}, {"n": pa.int32()}),
        ("DROP INDEX i, DROP PRIMARY KEY, DROP COLUMN IF EXISTS a", {"a": None}, {}),
        ("DROP period, DROP PERIOD FOR p", {"period": None}, {}),
        ("MODIFY n INT", {}, {}),
        ("MODIFY id BIGINT", {}, {"id": pa.int64()}),
        ("ENGINE MyISAM ROW_FORMAT=DYNAMIC", {}, {}),
        ("ENGINE=InnoDB, COMMENT='a, b', ALTER a SET DEFAULT 'x'", {}, {}),
        ("PAGE_COMPRESSED=1, TABLESPACE x STORAGE DISK", {}, {}),
        ("REORGANIZE PARTITION p INTO (PARTITION a VALUES LESS THAN (5))", {}, {}),
    ],
)
def test_columns_of_the_rows(sql: str, values: dict[str, Any], types: dict[str, Any]) -> None:
    found = read_alteration(f"ALTER TABLE t {sql}", KNOWN)
    assert found.values == values
    assert found.types == types


@pytest.mark.parametrize(
    ("sql", "column", "stay", "change"),
    [
        ("MODIFY a CHAR(9)", "a", [" x", ""], ["x "]),  # spaces at the end are stripped
        ("MODIFY a ENUM('p','q')", "a", ["p"], ["r", "P"]),
        ("MODIFY a VARCHAR(3)", "a", ["a  ", "abc", "", "abcd"], ["abc "]),  # the space is cut off
        ("MODIFY price DECIMAL(12,1)", "price", [Decimal("1.50")], [Decimal("1.25")]),
        ("MODIFY price DECIMAL(38,1)", "price", [Decimal(f"{10**35}.50")], [Decimal(f"{10**35}.25")]),
        (
            "MODIFY at DATETIME(3)",
            "at",
            [dt.datetime(2026, 1, 1, 0, 0, 0, 5000)],
            [dt.datetime(2026, 1, 1, 0, 0, 0, 5001)],
        ),
        ("MODIFY at DATE", "at", [dt.datetime(2026, 1, 1)], [dt.datetime(2026, 1, 1, 10)]),
        ("MODIFY a INT", "a", ["7", "-7", "0"], ["007", "+7", "7 ", "b", ""]),
        ("MODIFY n YEAR", "n", [0, 1901, 2155], [1, 69, 70, 99]),
        ("MODIFY raw BINARY(2)", "raw", [b"ab"], [b"a", b"a\0b"]),  # padded
        ("MODIFY a DECIMAL(40,2)", "a", ["1.50", "-0.25"], ["1.5", "01.50", ".50", "-0.00", "b", "1E2", ""]),
        ("MODIFY `long` DECIMAL(42,2)", "long", ["1.50"], ["1.500", "1.123"]),
        ("MODIFY t TIME", "t", [-5_000_000], [500_000]),
        ("MODIFY rate DOUBLE PRECISION (5,1)", "rate", [1.2, -3.0], [1.25]),
    ],
)
def test_values_that_a_new_type_leaves_alone(
    sql: str, column: str, stay: list[Any], change: list[Any]
) -> None:
    (check,) = read_alteration(f"ALTER TABLE t {sql}", KNOWN, COLUMNS).checks
    assert check.column == column
    assert [check.fits(value) for value in (*stay, *change)] == [True] * len(stay) + [False] * len(change)


@pytest.mark.parametrize(
    ("sql", "values", "present"),
    [
        ("ADD COLUMN IF NOT EXISTS a VARCHAR(5) DEFAULT 'new'", {}, {"id", "a"}),
        ("ADD IF NOT EXISTS n INT DEFAULT 5", {"n": 5}, {"id", "a", "n"}),  # it was dropped before
        ("ADD COLUMN IF NOT EXISTS (A INT DEFAULT 5, c INT DEFAULT 6)", {"c": 6}, {"id", "a", "c"}),
        ("CHANGE COLUMN IF EXISTS n a VARCHAR(5)", {}, {"id", "a"}),
        ("CHANGE IF EXISTS a c LONGTEXT", {"c": From("a"), "a": None}, {"id", "c"}),
        ("RENAME COLUMN IF EXISTS n TO a", {}, {"id", "a"}),
        ("RENAME COLUMN IF EXISTS a TO c", {"c": From("a"), "a": None}, {"id", "c"}),
        ("MODIFY COLUMN IF EXISTS n CHAR(9)", {}, {"id", "a"}),
        ("DROP COLUMN IF EXISTS a, ADD c INT", {"a": None, "c": None}, {"id", "c"}),
    ],
)
def test_what_depends_on_the_servers_columns(sql: str, values: dict[str, Any], present: set[str]) -> None:
    found = read_alteration(f"ALTER TABLE t {sql}", KNOWN, {"id": None, "a": None})
    assert (found.values, set(found.present or ()), found.checks) == (values, present, [])


def test_nulls_and_zeros_that_the_server_replaces() -> None:
    (check,) = read_alteration(
        "ALTER TABLE t MODIFY at TIMESTAMP(6) NOT NULL", {"at": pa.timestamp("us", "UTC")}
    ).checks
    assert not check.holds(None)
    assert check.holds(dt.datetime(2026, 1, 1))
    assert (
        read_alteration("ALTER TABLE t MODIFY at TIMESTAMP(6) NULL", {"at": pa.timestamp("us", "UTC")}).checks
        == []
    )
    (check,) = read_alteration("ALTER TABLE t MODIFY id INT AUTO_INCREMENT", KNOWN).checks
    assert [check.holds(one) for one in (1, -1, 0, None)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("ALTER TABLE t ADD IF NOT EXISTS a INT DEFAULT 5", "not known whether the column was there"),
        ("ALTER TABLE t CHANGE IF EXISTS a b VARCHAR(9)", "not known whether the column was there"),
        ("ALTER TABLE t ADD c VARCHAR(9) DEFAULT 'a' 'b'", "an expression, or in parts"),
        ("ALTER TABLE t ADD c DATETIME DEFAULT '2026-01-01 00:00:00.7'", "is not understood"),
        ("ALTER TABLE t ADD c ENUM('a','A') COLLATE utf8mb4_bin DEFAULT 'A'", "is not understood"),
        ("ALTER TABLE t ADD c ENUM('é','e') DEFAULT 'e'", "is not understood"),  # equal in some collations
        ("ALTER TABLE t ADD c ENUM('a','b') DEFAULT 'B'", "is not understood"),
        ("ALTER TABLE t ADD c ENUM('2','1') DEFAULT 1", "is not understood"),  # an index
        ("ALTER TABLE t ADD c ENUM('2','1') DEFAULT TRUE", "is not understood"),
        ("ALTER TABLE t ADD c VARCHAR(2) DEFAULT 'ab '", "is not understood"),  # the space is cut off
        ("ALTER TABLE t ADD c TINYTEXT DEFAULT ''", "is not understood"),  # MySQL may leave it out: NULL
        ("ALTER TABLE t ADD c INT DEFAULT '1_0'", "is not understood"),
        ("ALTER TABLE t ADD c INT DEFAULT 1.5", "is not understood"),
        ("ALTER TABLE t ADD c INT DEFAULT 5 + 1", "an expression"),
        ("ALTER TABLE t ADD c DECIMAL(9,1) DEFAULT 'NaN'", "is not understood"),
        ("ALTER TABLE t ADD c DATE DEFAULT '2026-W01-1'", "is not understood"),
        ("ALTER TABLE t ADD c DATETIME DEFAULT '2026-01-01T00:00:00+01:00'", "is not understood"),
        ("ALTER TABLE t ENGINE=Spider", "may have no rows of its own"),
        ("ALTER TABLE t ENGINE=SomethingNew", "may have no rows of its own"),
        ("ALTER TABLE t WITH SYSTEM VERSIONING", "not understood"),
        ("ALTER TABLE t COMMENT 'x' WITH SYSTEM VERSIONING", "system versioning"),
        ("ALTER TABLE t ADD PERIOD FOR p (a, n)", "a period"),
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", "IGNORE deletes rows"),
        ("ALTER TABLE t ADD c INT AUTO_INCREMENT", "values of its own"),
        ("ALTER TABLE t ADD c DATE DEFAULT (CURRENT_DATE)", "an expression, or in parts"),
        ("ALTER TABLE t ADD c DOUBLE(5,1) DEFAULT 0.25", "DEFAULT of a new column is not understood"),
        ("ALTER TABLE t MODIFY a JSON", "prints JSON in its own form"),
        ("ALTER TABLE t MODIFY n DATE", "int64 becomes date32"),
        ("ALTER TABLE t MODIFY a VARBINARY(9)", "string becomes binary"),
        ("ALTER TABLE t MODIFY a VARCHAR(9) CHARACTER SET binary", "string becomes binary"),
        ("ALTER TABLE t MODIFY raw VARCHAR(9)", "binary becomes string"),
        ("ALTER TABLE t MODIFY n TIME", "int64 becomes time"),
        ("ALTER TABLE t MODIFY t TIME(3)", "int64 becomes time"),  # it may have been a BIGINT
        ("ALTER TABLE t MODIFY n VARCHAR(20)", "int64 becomes varchar"),
        ("ALTER TABLE t MODIFY a INT", "string becomes int"),  # it may have been an ENUM
        ("ALTER TABLE t MODIFY a TIME", "string becomes time"),
        ("ALTER TABLE t MODIFY id DECIMAL(40,2)", "int32 becomes string"),
        ("ALTER TABLE t MODIFY at TIMESTAMP NULL", "timestamp.* becomes timestamp"),  # by a time zone
        # Columns of these names may have been dropped: the lake still has them, in their types.
        ("ALTER TABLE t ADD at INT", r"with timestamp\[us\], not int32"),
        ("ALTER TABLE t RENAME COLUMN a TO n, RENAME COLUMN n TO a", "with int64, not string"),
        ("ALTER TABLE t DROP n, ADD n VARCHAR(9) DEFAULT 'x'", "with int64, not string"),
        ("ALTER TABLE t DROP a, ADD a INT DEFAULT 5", "with string, not int32"),
        ("ALTER TABLE t DROP id, ADD id BIGINT DEFAULT 5000000000", "with int32, not int64"),
        ("ALTER TABLE t DROP at, ADD at DATE DEFAULT '2026-01-01'", r"with timestamp\[us\], not date32"),
        ("ALTER TABLE t DROP price, ADD price DOUBLE", r"with decimal128\(10, 2\), not double"),
        ("ALTER TABLE t ADD raw TEXT", "with binary, not string"),
        ("ALTER TABLE t RENAME COLUMN at TO n", r"with int64, not timestamp\[us\]"),
        ("ALTER TABLE t CHANGE price n DECIMAL(10,2)", r"with int64, not decimal128\(10, 2\)"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET latin1", "may not fit the character set"),
        ("ALTER TABLE t RENAME TO u", "the table is renamed"),
        ("ALTER TABLE t ADD SYSTEM VERSIONING", "system versioning adds columns"),
        ("ALTER TABLE t FROBNICATE", "not understood"),
        ("ALTER TABLE t ADD z INT, COMMENT='x' ENGINE=blackhole", "may have no rows"),  # MySQL keeps none
        ("ALTER TABLE t ENGINE `MRG_MyISAM` UNION=(u)", "may have no rows of its own"),
    ],
)
def test_alterations_whose_result_is_unknown(sql: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_alteration(sql, KNOWN)


@pytest.mark.parametrize(
    ("here", "before", "after", "refused"),
    [
        (pa.int64(), "time", "BIGINT", "time becomes bigint"),
        (pa.int64(), "time", "DECIMAL(20)", "time becomes decimal"),
        (pa.int64(), "time", "VARCHAR(20)", "time becomes varchar"),
        (pa.int64(), "bigint", "TIME", "bigint becomes time"),
        (pa.int16(), "smallint", "TIME(6)", "smallint becomes time"),
        (pa.decimal128(20, 0), "bigint", "TIME", "bigint becomes time"),
        (pa.int64(), "bit", "VARCHAR(9)", "bit becomes varchar"),  # MySQL takes the bits as characters
        (pa.int64(), "bit", "TIME", "bit becomes time"),
        (pa.int64(), "bit", "BIGINT", None),
        (pa.int32(), "year", "VARCHAR(9)", "year becomes varchar"),  # 0 becomes 0000
        (pa.int32(), "year", "TIME", "year becomes time"),
        (pa.int32(), "year", "INT", None),
        (pa.int32(), "int", "VARCHAR(20)", None),
        (pa.int32(), "int", "CHAR(20)", None),
        (pa.int32(), "int", "ENUM('1')", "int becomes enum"),
        (pa.string(), "enum", "INT", "enum becomes int"),  # the member's number
        (pa.string(), "enum", "LONGTEXT", None),
        (pa.string(), "varchar", "YEAR", "varchar becomes year"),  # 70 becomes 1970
        (pa.string(), "varchar", "TIME", "varchar becomes time"),
        (pa.string(), "json", "TEXT", "json becomes text"),
        (pa.binary(), "uuid", "VARBINARY(16)", None),
    ],
)
def test_types_that_the_lake_does_not_tell_apart(
    here: Any, before: str, after: str, refused: str | None
) -> None:
    """Results of MariaDB 11.8; for BIT as text and JSON by MySQL's manual."""
    sql, known = f"ALTER TABLE t MODIFY c {after}", {"c": here}
    present = {"c": ColumnSchema("c", before)}
    if refused is None:
        assert read_alteration(sql, known, present).checks == []
    else:
        with pytest.raises(SchemaError, match=refused):
            read_alteration(sql, known, present)


def test_a_column_is_known_after_earlier_statements() -> None:
    known, columns = {"c": pa.int64()}, {"c": ColumnSchema("c", "time")}
    present = read_alteration("ALTER TABLE t RENAME COLUMN c TO d", known, columns).present
    with pytest.raises(SchemaError, match="time becomes bigint"):
        read_alteration("ALTER TABLE t MODIFY d BIGINT", {"d": pa.int64()}, present)
    present = read_alteration("ALTER TABLE t MODIFY c INT ZEROFILL", {"c": pa.int32()}, {"c": None}).present
    with pytest.raises(SchemaError, match="int zerofill becomes varchar"):
        read_alteration("ALTER TABLE t CHANGE c e VARCHAR(20)", {"c": pa.int64()}, present)
