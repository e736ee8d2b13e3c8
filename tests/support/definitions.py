"""Definitions of tables, as in information_schema and as DDL leaves them."""

from __future__ import annotations

import re
from typing import Any

from binlog_core.schema.ddl import DdlTracker
from binlog_core.schema.given import Schema
from binlog_core.schema.table_definitions import TableSchema

NUMBERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal"}


def column_by_server(column: dict[str, Any]) -> dict[str, Any]:
    """What information_schema.columns says, with the names of ColumnSchema."""
    text: str = column["column_type"]
    extra: str = column["extra"] or ""
    type_name = re.split(r"[( ]", text)[0]
    digits = re.search(r"\(([\d,]+)\)", text) if type_name not in ("enum", "set") else None
    numbers = [int(n) for n in digits[1].split(",")] if digits else []
    members = None
    if type_name in ("enum", "set"):
        quoted = re.findall(r"'((?:[^']|'')*)'", text[text.index("(") : text.rindex(")")])
        members = tuple(m.replace("''", "'").replace("\\\\", "\\") for m in quoted)
    return {
        "name": column["name"],
        "type_name": {"geomcollection": "geometrycollection"}.get(type_name, type_name),
        "unsigned": " unsigned" in text if type_name in NUMBERS else None,
        "length": numbers[0] if type_name in ("char", "varchar", "binary", "varbinary", "bit") else None,
        "precision": numbers[0] if type_name in NUMBERS and len(numbers) == 2 else None,
        "scale": numbers[1] if type_name in NUMBERS and len(numbers) == 2 else None,
        "fsp": numbers[0] if type_name in ("time", "datetime", "timestamp") and numbers else 0,
        "charset": {"utf8": "utf8mb3"}.get(column["charset"], column["charset"]),
        "members": members,
        "nullable": column["nullable"] == "YES",
        "generated": "virtual" if "VIRTUAL" in extra else "stored" if "STORED" in extra else None,
        "invisible": "INVISIBLE" in extra,
        "old_fraction": "mariadb-5.3" in text,
        "compressed": "COMPRESSED" in text,
    }


# d.t (a int primary key, b varchar(9) latin1, c text utf8mb4 not null)
START = {
    "d.t": "CREATE TABLE t (a int PRIMARY KEY, b varchar(9) CHARSET latin1, c text NOT NULL,"
    " UNIQUE KEY k (c(5))) DEFAULT CHARSET=utf8mb4",
    "d.u": "CREATE TABLE u (x date)",
}


def tracker_after(*sql: str, mariadb: bool = False, sql_mode: int = 0) -> DdlTracker:
    tracker = DdlTracker(Schema.load(START))
    for position, statement in enumerate(sql):
        tracker.apply_statement("d", statement, mariadb, position, sql_mode=sql_mode)
    return tracker


def shape(table: TableSchema | None) -> list[str] | None:
    return None if table is None else [f"{c.name} {c.type_name}" for c in table.columns]


def keys(table: TableSchema | None) -> tuple[object, object]:
    assert table is not None
    return table.primary_key, [(k.name, k.columns) for k in table.unique_keys]


def charsets_of(table: TableSchema | None) -> list[tuple[str, str | None]]:
    assert table is not None
    return [(c.type_name, c.charset) for c in table.columns]
