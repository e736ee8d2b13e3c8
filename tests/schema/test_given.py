"""Given schemas: SHOW CREATE TABLE against information_schema, and how they complete a log's table."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.hostile_server import hostile
from support.talk import serving

from binlog_core._tables import column_types as ct
from binlog_core._tables.column_types import Kind
from binlog_core._tables.full_names import full_name
from binlog_core._tables.tables import Column, Table
from binlog_core.errors import MissingExtraError, SchemaError
from binlog_core.schema.given import ColumnSchema, Schema, TableSchema, apply, parse_create_table


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT 1",
        "CREATE TABLE t",
        "CREATE TABLE t (",
        "CREATE TABLE t ()",
        "CREATE TABLE t (a)",
        "CREATE TABLE t (a int",
        "CREATE TABLE t (a int,)",
        "CREATE TABLE t (a enum('x'",
        "CREATE TABLE t (a enum('x')",
        "CREATE TABLE t (a enum('x) )",
        "CREATE TABLE t (a decimal(x))",
        "CREATE TABLE t (a char(" + "9" * 5000 + "))",
        "CREATE TABLE t (a time(7))",
        "CREATE TABLE t (a int, primary key (b))",
        "CREATE TABLE t (a int, primary key (",
        "CREATE TABLE t (a int) SELECT 1 AS b",
        "CREATE TABLE t AS SELECT 1 AS b",
        "CREATE TABLE t (a int); CREATE TABLE u (a int)",
    ],
)
def test_text_that_does_not_define_a_table_is_refused(sql: str) -> None:
    with pytest.raises(SchemaError) as raised:
        Schema.load({"d.t": sql})
    assert raised.value.table == "d.t"


# ---------------------------------------------------------------------------------------
# Sources of schemas


def test_a_dict_names_its_tables() -> None:
    schema = Schema.load({"d.t": "CREATE TABLE `other`.`name` (a int)"})
    assert len(schema) == 1
    found = schema.definition("d", "t")
    assert found is not None
    assert found.full_name == "d.t"
    assert schema.definition("other", "name") is None
    with pytest.raises(SchemaError, match=r"database\.table"):
        Schema.load({"t": "CREATE TABLE t (a int)"})


DUMP = """-- MySQL dump
/*!40101 SET NAMES utf8mb4 */;
/*!40000 DROP DATABASE IF EXISTS `shop`*/;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;
USE `shop`;
DROP TABLE IF EXISTS `orders`;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `orders` (
  `id` int unsigned NOT NULL,
  `note` varchar(20) DEFAULT 'a;b''; CREATE TABLE x (y int)',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1;
INSERT INTO `orders` VALUES (1,'CREATE TABLE z (q int);\\'');
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER tr BEFORE INSERT ON orders
FOR EACH ROW BEGIN
  CREATE TABLE inside (a int);
  SET NEW.note = 'x';
END */;;
DELIMITER ;
ALTER TABLE orders ADD total decimal(9,2) AFTER id;
CREATE TABLE `other db`.`t` (`x` json);
"""


def test_a_dump_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    path.write_text(DUMP, encoding="utf-8")
    schema = Schema.load(path)
    assert {t.full_name: [c.name for c in t.columns] for t in schema} == {
        "shop.orders": ["id", "total", "note"],
        "other db.t": ["x"],
    }
    orders = schema.definition("shop", "orders")
    assert orders is not None
    assert (orders.columns[0].unsigned, orders.columns[2].charset) == (True, "latin1")
    assert Schema.load(str(path)).definition("shop", "orders") == orders


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE t (a int);", "database"),
        ("SELECT 1;", "defines no table"),
        ("USE d; CREATE TABLE t (a", "statement 2"),
        ("USE d; CREATE TABLE t SELECT 1;", "SELECT"),
        ("USE d; CREATE TABLE t (a enum('x));", "not closed"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.sql"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match=message) as raised:
        Schema.load(path)
    assert raised.value.path == str(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as raised:
        Schema.load(tmp_path / "none.sql")
    assert raised.value.path == str(tmp_path / "none.sql")


_TABLES = {
    ("shop", "o`k"): "CREATE TABLE `o``k` (`id` int unsigned NOT NULL, PRIMARY KEY (`id`))",
    ("mysql", "user"): "CREATE TABLE `user` (`h` char(60))",
    ("log", "e"): "CREATE TABLE `e` (`t` time(3) /* mariadb-5.3 */ DEFAULT NULL)",
}


def shows(sql: str) -> list[list[bytes]]:
    if "information_schema.tables" in sql:
        return [[database.encode(), table.encode()] for database, table in _TABLES]
    quoted = {f"`{d}`.`{t.replace('`', '``')}`": (d, t) for d, t in _TABLES}
    key = quoted[sql.removeprefix("SHOW CREATE TABLE ")]
    return [[key[1].encode(), _TABLES[key].encode()]]


def test_a_server_is_asked_once() -> None:
    pytest.importorskip("pymysql")
    with hostile(answers={"SELECT table": shows, "SHOW CREATE": shows}) as (server, url):
        schema = Schema.load(url)
        assert sorted(t.full_name for t in schema) == ["log.e", "shop.o`k"]
        event = schema.definition("log", "e")
        assert event is not None
        assert event.columns[0].old_fraction
        assert sum(b"information_schema" in one for one in server.received) == 1
        assert [t.full_name for t in Schema.load(f"{url}/shop?connect_timeout=5")] == ["shop.o`k"]
        with pytest.raises(SchemaError, match="shows the user no tables"):
            Schema.load(f"{url}/nothing")


def test_a_server_s_refusal_does_not_tell_the_password() -> None:
    pytest.importorskip("pymysql")
    refused = b"\xff\x15\x04#28000Access denied"
    with (
        hostile(answers={"SELECT table": refused}) as (_, url),
        pytest.raises(SchemaError, match="1045") as raised,
    ):
        Schema.load(f"{url}/shop")
    assert raised.value.path == f"mysql://{url.rpartition('@')[2]}/shop"
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize("mode", ["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"])
def test_a_server_is_asked_with_the_options_of_its_url(mode: str) -> None:
    pytest.importorskip("pymysql")
    with hostile() as (server, url), pytest.raises(SchemaError, match="does not support TLS"):
        Schema.load(f"{url}/shop?ssl_mode={mode}")
    assert server.received == []


def test_a_hostile_server_gets_no_password_and_no_file_for_a_schema() -> None:
    pytest.importorskip("pymysql")
    with (
        hostile(switch="mysql_clear_password") as (server, url),
        pytest.raises(SchemaError, match="cleartext"),
    ):
        Schema.load(url)
    assert not server.got_password()
    with hostile(answers={"SELECT table": b"\xfb/etc/passwd"}) as (server, url), pytest.raises(SchemaError):
        Schema.load(url)
    assert not any(b"root:" in one for one in server.received)


def test_a_silent_server_of_a_schema_is_given_up() -> None:
    pytest.importorskip("pymysql")

    def silent(client: socket.socket) -> None:
        client.recv(1)

    with serving(silent) as url, pytest.raises(SchemaError, match="timed out"):
        Schema.load(f"{url}?connect_timeout=1")


@pytest.mark.parametrize(
    "url", ["mysql://repl:Zq9secret", "mysql://repl:1?Zq9secret@db1/shop", "mysql://r@db1?Zq9=1"]
)
def test_the_password_of_a_schema_s_url_is_not_quoted(url: str) -> None:
    with pytest.raises(SchemaError, match="%3F") as refused:
        Schema.load(url)
    assert "Zq9" not in str(refused.value) + str(refused.value.path)


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent: ModuleType | None = None
    monkeypatch.setitem(sys.modules, "pymysql", absent)
    with pytest.raises(MissingExtraError, match=r"binlog_core\[live\]"):
        Schema.load("mysql://me@db.example/shop")


# ---------------------------------------------------------------------------------------
# Merging into a table of the log


def bare(index: int, type_code: int, **known: Any) -> Column:
    kind = ct.COLUMN_TYPES[type_code].kind
    assert kind is not None
    return Column(
        **(
            {"name": f"c{index}", "index": index, "type_code": type_code, "kind": kind, "named": False}
            | known
        )
    )


def merged(definition: str, **log: Any) -> Column:
    table = Table("d", "t", (bare(0, **log),))
    return apply(table, parse_create_table(f"CREATE TABLE t ({definition})", "d")).columns[0]


def test_what_the_log_lacks_is_filled_in() -> None:
    table = Table(
        "d",
        "t",
        (
            bare(0, ct.MYSQL_TYPE_LONG),
            bare(1, ct.MYSQL_TYPE_VARCHAR, length=20),
            bare(2, ct.MYSQL_TYPE_ENUM, length=1),
            bare(3, ct.MYSQL_TYPE_BLOB, length=2),
            bare(4, ct.MYSQL_TYPE_STRING, length=16),
            bare(5, ct.MYSQL_TYPE_STRING, length=8),
            bare(6, ct.MYSQL_TYPE_NEWDECIMAL, precision=9, scale=2),
            bare(7, ct.MYSQL_TYPE_YEAR),
        ),
    )
    schema = parse_create_table(
        "CREATE TABLE t (id int unsigned primary key, v varchar(20) charset latin1,"
        " e enum('x','y') charset ascii, b blob, u uuid, n binary(8),"
        " d decimal(9,2), y year invisible) charset=utf8mb4",
        "d",
    )
    result = apply(table, schema)
    assert result.primary_key == ("id",)
    assert [c.name for c in result.columns] == ["id", "v", "e", "b", "u", "n", "d", "y"]
    assert all(c.named for c in result.columns)
    assert [c.signed for c in result.columns] == [False, None, None, None, None, None, True, None]
    assert [c.kind for c in result.columns] == [
        *(Kind.INT, Kind.TEXT, Kind.ENUM, Kind.BINARY, Kind.BINARY, Kind.BINARY, Kind.DECIMAL, Kind.YEAR)
    ]
    assert [c.charset for c in result.columns] == [
        *(None, "latin1", "ascii", "binary", "binary", "binary", None, None)
    ]
    assert [c.collation for c in result.columns] == [None, 8, 11, 63, 63, 63, None, None]
    assert result.columns[2].members == ("x", "y")
    assert [c.pad_to for c in result.columns] == [0, 0, 0, 0, 16, 8, 0, 0]
    assert result.columns[4].declared_type == "uuid"
    assert [c.visible for c in result.columns] == [True] * 7 + [False]


def test_what_the_log_tells_is_kept() -> None:
    log = merged(
        "other enum('p','q') charset latin1",
        type_code=ct.MYSQL_TYPE_ENUM,
        name="e",
        named=True,
        length=1,
        members=("x", "y"),
        collation=45,
        charset="utf8mb4",
    )
    assert (log.name, log.members, log.collation, log.charset) == ("e", ("x", "y"), 45, "utf8mb4")
    number = merged("a int", type_code=ct.MYSQL_TYPE_LONG, signed=False)
    assert number.signed is False


def test_text_without_a_known_character_set_stays_bytes() -> None:
    unknown = merged("a varchar(5)", type_code=ct.MYSQL_TYPE_VARCHAR, length=20)
    assert (unknown.kind, unknown.charset, unknown.name) == (Kind.BINARY, None, "a")
    klingon = merged("a varchar(5) charset klingon", type_code=ct.MYSQL_TYPE_VARCHAR, length=5)
    assert (klingon.kind, klingon.charset) == (Kind.BINARY, "klingon")


def test_json_of_mariadb_is_text_and_of_mysql_json() -> None:
    maria = merged("j json", type_code=ct.MYSQL_TYPE_BLOB, length=4)
    assert (maria.kind, maria.charset, maria.collation, maria.declared_type) == (
        Kind.TEXT,
        "utf8mb4",
        46,
        "json",
    )
    mysql = merged("j json", type_code=ct.MYSQL_TYPE_JSON, length=4)
    assert (mysql.kind, mysql.charset) == (Kind.JSON, None)


@pytest.mark.parametrize("mark", ["", "/* mariadb-5.3 */"])
def test_old_fractional_types_get_their_digits(mark: str) -> None:
    old = merged(f"a time(3) {mark}", type_code=ct.MYSQL_TYPE_TIME)
    assert (old.fsp, old.old_fraction) == (3, True)
    plain = merged(f"a time {mark}", type_code=ct.MYSQL_TYPE_TIME)
    assert (plain.fsp, plain.old_fraction) == (0, False)


def test_geometry_and_vector_keep_their_kind() -> None:
    point = merged("p point", type_code=ct.MYSQL_TYPE_GEOMETRY, length=4)
    assert (point.kind, point.geometry_type, point.declared_type) == (Kind.GEOMETRY, 1, "point")
    vector = merged("v vector(3)", type_code=ct.MYSQL_TYPE_VECTOR, length=4)
    assert (vector.kind, vector.dimensions) == (Kind.VECTOR, 3)
    maria = merged("v vector(3)", type_code=ct.MYSQL_TYPE_VARCHAR, length=12)
    assert (maria.kind, maria.dimensions) == (Kind.BINARY, 3)


def test_the_hidden_key_of_mysql_may_be_left_out() -> None:
    table = Table("d", "t", (bare(0, ct.MYSQL_TYPE_LONGLONG), bare(1, ct.MYSQL_TYPE_LONG)), flags=0x0005)
    result = apply(table, parse_create_table("CREATE TABLE t (n int)", "d"))
    assert [(c.name, c.signed, c.visible) for c in result.columns] == [
        ("my_row_id", False, False),
        ("n", True, True),
    ]


@pytest.mark.parametrize(
    ("definition", "log", "message"),
    [
        ("a int", {"type_code": ct.MYSQL_TYPE_LONGLONG}, "says int, the log type 8"),
        ("a int", {"type_code": ct.MYSQL_TYPE_VARCHAR, "length": 4}, "says int"),
        ("a datetime", {"type_code": ct.MYSQL_TYPE_TIMESTAMP2}, "says datetime"),
        ("a datetime(3)", {"type_code": ct.MYSQL_TYPE_DATETIME2, "fsp": 6}, "6 fraction digits"),
        (
            "a decimal(9,2)",
            {"type_code": ct.MYSQL_TYPE_NEWDECIMAL, "precision": 9, "scale": 3},
            r"decimal\(9,3\)",
        ),
        ("a bit(3)", {"type_code": ct.MYSQL_TYPE_BIT, "length": 4}, r"bit\(4\)"),
        ("a enum('x')", {"type_code": ct.MYSQL_TYPE_SET, "length": 1}, "says enum"),
        ("a enum('x')", {"type_code": ct.MYSQL_TYPE_ENUM, "length": 2}, "1 members"),
        ("a set('x','y')", {"type_code": ct.MYSQL_TYPE_SET, "length": 2}, "2 members"),
        ("a varbinary(5)", {"type_code": ct.MYSQL_TYPE_VARCHAR, "length": 6}, "5 bytes, the log 6"),
        (
            "a varchar(5) charset utf8mb4",
            {"type_code": ct.MYSQL_TYPE_VARCHAR, "length": 5},
            "20 bytes, the log 5",
        ),
        ("a inet4", {"type_code": ct.MYSQL_TYPE_STRING, "length": 16}, r"binary\(16\)"),
        ("a json", {"type_code": ct.MYSQL_TYPE_LONG}, "says json"),
    ],
)
def test_a_type_that_does_not_fit_is_an_error(definition: str, log: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message) as raised:
        merged(definition, **log)
    assert (raised.value.table, raised.value.column) == ("d.t", "a")


def test_a_number_of_columns_that_does_not_fit_is_an_error() -> None:
    table = Table("d", "t", (bare(0, ct.MYSQL_TYPE_LONG),))
    schema = TableSchema("d", "t", (ColumnSchema("a", "int"), ColumnSchema("b", "int")))
    with pytest.raises(SchemaError, match="schema has 2 columns, the log 1") as raised:
        apply(table, schema)
    assert raised.value.table == "d.t"


@pytest.mark.parametrize(("database", "table"), [("a", "b.c"), ("a.b", "c")])
def test_names_with_dots_are_found_under_their_full_name(database: str, table: str) -> None:
    schema = Schema.load({"a.b.c": "CREATE TABLE t (x int)"})
    found = schema.definition(database, table)
    assert found is not None
    assert [column.name for column in found.columns] == ["x"]
    assert schema.definition("a", "c") is None
    exactly = Schema.load({full_name(database, table): "CREATE TABLE t (x int)"})
    assert [(one.database, one.name) for one in exactly] == [(database, table)]
