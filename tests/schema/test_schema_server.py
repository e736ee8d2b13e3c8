"""``schema="mysql://…"`` on a real server: the definitions that it shows are those of the golden logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.golden import golden_logs
from support.server import SERVER, connect

from binlog_core.schema.given import Schema, parse_create_table

DATABASE = "binlog_core_schema_test"
OLD_FRACTION = "/* mariadb-5.3 */"

pytestmark = pytest.mark.server


def definitions(vendor: str) -> list[str]:
    """Every CREATE TABLE text that a golden log of the vendor's servers has, once."""
    found: dict[str, None] = {}
    for log in golden_logs(f"{vendor}*/*"):
        found.update((definition["create"], None) for definition in log.definitions)
    return list(found)


@pytest.fixture
def cursor() -> Iterator[Any]:
    pytest.importorskip("pymysql")
    with connect() as connection, connection.cursor() as made:
        made.execute("SET SESSION foreign_key_checks = 0, sql_mode = ''")
        made.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        made.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        made.execute(f"USE {DATABASE}")
        made.execute("SHOW GLOBAL VARIABLES LIKE 'mysql56_temporal_format'")
        before = made.fetchall()
        try:
            yield made
        finally:
            for name, value in before:
                made.execute(f"SET GLOBAL {name} = {value}")
            made.execute(f"DROP DATABASE {DATABASE}")


def test_definitions_of_a_server(cursor: Any) -> None:
    """Names, types, signs, character sets, members and keys: the same as from the texts given as a dict."""
    pymysql = pytest.importorskip("pymysql")
    cursor.execute("SELECT VERSION()")
    vendor = "maria" if "MariaDB" in cursor.fetchone()[0] else "mysql"
    given: dict[str, str] = {}
    refused: list[str] = []
    for i, create in enumerate(definitions(vendor)):
        # Definitions of one table at different times are side by side here.
        text, count = re.subn(r"(?i)^(CREATE (?:TEMPORARY )?TABLE )`(?:[^`]|``)+`", rf"\1`t {i}`", create)
        assert count == 1, create
        if vendor == "maria":
            # MariaDB's own fractional types, which its SHOW CREATE TABLE marks, are made under this setting.
            modern = int(OLD_FRACTION not in text)
            cursor.execute(f"SET GLOBAL mysql56_temporal_format = {modern}")
        try:
            cursor.execute(text)
        except pymysql.MySQLError as error:
            refused.append(f"{error}: {text}")  # a type or option of a later version
            continue
        given[f"{DATABASE}.t {i}"] = text
    assert len(given) > len(refused), refused
    assert vendor == "mysql" or any(OLD_FRACTION in text for text in given.values())
    parts = urlsplit(SERVER)
    shown = Schema.load(f"mysql://{parts.netloc}/{DATABASE}")
    assert sorted(table.full_name for table in shown) == sorted(given)
    for full_name, text in given.items():
        table = shown.definition(DATABASE, full_name.partition(".")[2])
        assert table == parse_create_table(text, DATABASE, table.name if table else None)
