"""CREATE TABLE against information_schema of the servers, and by hand."""

from __future__ import annotations

from typing import Any

import pytest
from support.definitions import column_by_server
from support.golden import full_name, golden_logs

from binlog_core.schema.given import ColumnSchema, parse_create_table


@pytest.mark.parametrize("golden", golden_logs(), ids=str)
def test_create_table_reads_as_information_schema(golden: Any) -> None:
    assert golden.definitions
    for definition in golden.definitions:
        table = parse_create_table(definition["create"], definition["db"])
        assert table.full_name == full_name(definition["db"], definition["table"])
        wanted = [column_by_server(column) for column in definition["columns"]]
        assert [
            {key: getattr(c, key) for key in w} for c, w in zip(table.columns, wanted, strict=True)
        ] == wanted
        # The servers show the first UNIQUE key without NULLs as PRI where there is no PRIMARY KEY.
        assert set(table.row_key or ()) == {c["name"] for c in definition["columns"] if c["key"] == "PRI"}


def column(definition: str) -> ColumnSchema:
    return parse_create_table(f"CREATE TABLE t ({definition})", "d").columns[0]


@pytest.mark.parametrize(
    ("definition", "wanted"),
    [
        ("a INTEGER", {"type_name": "int", "unsigned": False, "nullable": True}),
        ("a INT1 UNSIGNED", {"type_name": "tinyint", "unsigned": True}),
        ("a MIDDLEINT(5) ZEROFILL", {"type_name": "mediumint", "unsigned": True, "zerofill": True}),
        ("a BOOL", {"type_name": "tinyint", "unsigned": False}),
        ("a SERIAL", {"type_name": "bigint", "unsigned": True, "nullable": False}),
        ("a DEC", {"type_name": "decimal", "precision": 10, "scale": 0}),
        ("a NUMERIC(5)", {"type_name": "decimal", "precision": 5, "scale": 0}),
        ("a FIXED(38,30) UNSIGNED", {"type_name": "decimal", "precision": 38, "scale": 30, "unsigned": True}),
        ("a REAL", {"type_name": "double"}),
        ("a DOUBLE PRECISION(10,2)", {"type_name": "double"}),
        ("a FLOAT(24)", {"type_name": "float"}),
        ("a FLOAT(25)", {"type_name": "double"}),
        ("a FLOAT(7,4)", {"type_name": "float"}),
        ("a BIT", {"type_name": "bit", "length": 1}),
        ("a CHAR", {"type_name": "char", "length": 1, "charset": None}),
        ("a NATIONAL CHARACTER VARYING(7)", {"type_name": "varchar", "length": 7, "charset": "utf8mb3"}),
        ("a NCHAR(7)", {"type_name": "char", "charset": "utf8mb3", "collation_id": 33}),
        ("a CHAR(7) BYTE", {"type_name": "binary", "length": 7, "charset": None}),
        ("a VARCHAR(7) CHARACTER SET binary", {"type_name": "varbinary", "length": 7}),
        ("a TEXT CHARSET binary", {"type_name": "blob", "charset": None}),
        ("a CHAR(7) ASCII", {"charset": "latin1", "collation_id": 8}),
        ("a CHAR(7) COLLATE ucs2_bin", {"charset": "ucs2", "collation_id": 35}),
        ("a CHAR(7) CHARSET utf8 COLLATE utf8_bin NOT NULL", {"charset": "utf8mb3", "nullable": False}),
        ("a CHAR(7) CHARACTER SET utf8mb4 COLLATE uca1400_ai_ci", {"charset": "utf8mb4"}),
        ("a LONG VARCHAR", {"type_name": "mediumtext"}),
        ("a LONG VARBINARY", {"type_name": "mediumblob"}),
        ("a LONG", {"type_name": "mediumtext"}),
        ("a BLOB(255)", {"type_name": "tinyblob"}),
        ("a BLOB(256)", {"type_name": "blob"}),
        ("a TEXT(100) CHARACTER SET latin1", {"type_name": "tinytext"}),
        ("a TEXT(100) CHARACTER SET utf8mb4", {"type_name": "text"}),
        ("a TIMESTAMP(3)", {"type_name": "timestamp", "fsp": 3, "nullable": None}),
        ("a TIMESTAMP NULL DEFAULT NULL", {"nullable": True}),
        ("a time(3) /* mariadb-5.3 */ DEFAULT NULL", {"fsp": 3, "old_fraction": True}),
        ("a varchar(9) /*M!100301 COMPRESSED*/ DEFAULT NULL", {"compressed": True, "length": 9}),
        ("a text COMPRESSED=zlib CHARACTER SET latin1", {"compressed": True, "charset": "latin1"}),
        ("a int /*!80023 INVISIBLE */", {"invisible": True}),
        ("a int AS (b + (1)) STORED NOT NULL", {"generated": "stored", "nullable": False}),
        (
            "a int GENERATED ALWAYS AS (concat('),', `)`)) VIRTUAL COMMENT 'NOT NULL'",
            {"generated": "virtual"},
        ),
        ("a point NOT NULL /*!80003 SRID 4326 */", {"type_name": "point", "srid": 4326, "nullable": False}),
        ("a vector(3)", {"type_name": "vector", "dimensions": 3}),
        ("a uuid DEFAULT uuid()", {"type_name": "uuid"}),
        ("a int DEFAULT -1 NOT NULL", {"nullable": False}),
        ("a int NOT NULL DEFAULT (1 + 2) UNIQUE", {"nullable": False}),
        ("a int REFERENCES u (x) ON DELETE SET NULL NOT NULL", {"nullable": False}),
        ("a int NOT NULL COLUMN_FORMAT DEFAULT STORAGE DISK", {"nullable": False}),
        ("a varchar(5) DEFAULT _latin1'x' COLLATE latin1_bin", {"charset": "latin1"}),
        ("a timestamp(2) NULL DEFAULT current_timestamp(2) ON UPDATE current_timestamp(2)", {"fsp": 2}),
        ("`a``b` int", {"name": "a`b"}),
        ("`key` int", {"name": "key"}),
        ("period int", {"name": "period", "type_name": "int"}),
        ("enum enum('a','it''s','b\\'c\\\\','\\%','  x  ', 'é,)')", {"name": "enum"}),
    ],
)
def test_column_definitions(definition: str, wanted: dict[str, object]) -> None:
    found = column(definition)
    assert {key: getattr(found, key) for key in wanted} == wanted


def test_members_are_unquoted_and_lose_trailing_spaces() -> None:
    assert column("a enum('a','it''s','b\\'c\\\\','\\%','  x  ', 'é,)')").members == (
        *("a", "it's", "b'c\\", "\\%", "  x", "é,)"),
    )
    assert column("a set(\"x\", 'y')").members == ("x", "y")
    assert column("a enum(x'61', 'b') not null").members is None  # not written as text: not known


def test_keys_options_and_partitions() -> None:
    table = parse_create_table(
        """CREATE TABLE `shop`.`T` ( -- a remark
          b varchar(20), # another
          a int unique, c char(3) character set ascii,
          CONSTRAINT `p``k` PRIMARY KEY USING BTREE (`B`(10) DESC, A),
          UNIQUE KEY u (c), KEY k (a, b), FULLTEXT INDEX (b), INDEX ((lower(b))),
          CONSTRAINT f FOREIGN KEY (a) REFERENCES x (y) ON DELETE SET NULL,
          CHECK (a > 1 and b <> '),('), PERIOD FOR SYSTEM_TIME (x, y)
        ) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=latin1 COMMENT='CHARSET=ucs2; x' UNION=(a,b)
        /*!50100 PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10) ENGINE = InnoDB) */;""",
        "elsewhere",
    )
    assert (table.database, table.name, table.charset) == ("shop", "T", "latin1")
    assert [(c.name, c.nullable, c.charset) for c in table.columns] == [
        ("b", False, "latin1"),
        ("a", False, None),
        ("c", True, "ascii"),
    ]
    assert table.primary_key == ("b", "a")
    assert [(k.name, k.columns) for k in table.unique_keys] == [("a", ("a",)), ("u", ("c",))]


def test_a_period_in_a_key_is_its_end_and_its_start() -> None:
    """As SHOW INDEX of MariaDB 10.11 lists them."""
    table = parse_create_table(
        "CREATE TABLE t (id int NOT NULL, s date NOT NULL, e date NOT NULL, v int, system_time int,"
        " PRIMARY KEY (id, `P` WITHOUT OVERLAPS), UNIQUE KEY u (v, p WITHOUT OVERLAPS),"
        " UNIQUE KEY w (system_time), PERIOD FOR p (s, e), PERIOD FOR SYSTEM_TIME (a, b))",
        "d",
    )
    assert table.row_key == ("id", "e", "s")
    assert [(k.name, k.columns) for k in table.unique_keys] == [
        ("u", ("v", "e", "s")),
        ("w", ("system_time",)),
    ]


def test_nothing_is_guessed_where_the_text_is_silent() -> None:
    table = parse_create_table("CREATE TABLE t (a varchar(5), b enum('x'))", "d")
    assert table.charset is None
    assert [(c.charset, c.collation_id) for c in table.columns] == [(None, None), (None, None)]
    assert table.primary_key is None


def test_system_versioned_tables_have_their_period() -> None:
    hidden = parse_create_table("CREATE TABLE t (a int primary key) WITH SYSTEM VERSIONING", "d")
    assert [(c.name, c.type_name, c.fsp, c.invisible) for c in hidden.columns[1:]] == [
        ("row_start", "timestamp", 6, True),
        ("row_end", "timestamp", 6, True),
    ]
    assert hidden.primary_key == ("a", "row_end")
    shown = parse_create_table(
        "CREATE TABLE t (a int primary key, s timestamp(6) GENERATED ALWAYS AS ROW START,"
        " e timestamp(6) AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
        "d",
    )
    assert [c.name for c in shown.columns] == ["a", "s", "e"]
    assert shown.primary_key == ("a", "e")
