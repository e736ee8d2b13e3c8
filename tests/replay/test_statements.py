"""Changes as SQL: the text by hand, and a server's log of what it did against the first log's truth."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.golden import KNOWN_FULL, KNOWN_SCHEMA, Golden, full_name, golden_logs
from support.replay import AT, FLOAT, ID, TEXT, change, maker, table
from support.server import SERVER, connect, logged
from support.truth import differences

import binlog_core
from binlog_core import Column, RowChange, SchemaError
from binlog_core._tables.column_types import Kind
from binlog_core.replay.literals import quote_name


def test_statements_and_their_inverse() -> None:
    make, orders = maker(), table(ID, TEXT, FLOAT)
    one = {"id": 1, "text": "it's", "f": 0.1}
    two = {"id": 2, "text": None, "f": 0.1}
    name = "`shop`.`or``ders`"
    insert = f"INSERT INTO {name} (`id`, `text`, `f`) VALUES (1, 'it''s', 0.1e0);"
    delete = f"DELETE FROM {name} WHERE `id` = 1;"
    assert make.statement(orders, change(None, one)) == insert
    assert make.statement(orders, change(None, one), inverse=True) == delete
    assert make.statement(orders, change(one, None)) == delete
    assert make.statement(orders, change(one, None), inverse=True) == insert
    update = change(one, two)
    assert make.statement(orders, update) == f"UPDATE {name} SET `id` = 2, `text` = NULL WHERE `id` = 1;"
    assert (
        make.statement(orders, update, inverse=True)
        == f"UPDATE {name} SET `id` = 1, `text` = 'it''s' WHERE `id` = 2;"
    )


def test_without_a_key_every_column_finds_the_row() -> None:
    orders = table(ID, TEXT, FLOAT, key=None)
    found = maker().statement(orders, change({"id": None, "text": "a ", "f": 1.5}, None))
    assert found == (
        "DELETE FROM `shop`.`or``ders` WHERE `id` IS NULL"
        " AND CAST(CONVERT(`text` USING utf8mb4) AS BINARY) = 'a ' AND `f` = 1.5e0 LIMIT 1;"
    )


def test_a_vector_is_compared_as_text() -> None:
    """MySQL 9.7 refuses to compare it with bytes: Incorrect arguments to =."""
    vector = replace(TEXT, name="e", kind=Kind.VECTOR, charset=None)
    found = maker().statement(table(ID, vector, key=None), change({"id": 1, "e": [1.0, -2.0]}, None))
    assert found == (
        "DELETE FROM `shop`.`or``ders` WHERE `id` = 1 AND HEX(`e`) = HEX(x'0000803f000000c0') LIMIT 1;"
    )


def test_times_are_set_even_if_they_stay() -> None:
    at = dt.datetime(2026, 11, 21, 8)
    found = maker().statement(
        table(ID, TEXT, AT), change({"id": 1, "text": "a", "at": at}, {"id": 1, "text": "b", "at": at})
    )
    assert "SET `text` = 'b', `at` = '2026-11-21 08:00:00' WHERE" in found


@pytest.mark.parametrize("name", ["数", "a\\", "a\nb", "café"])
def test_a_statement_with_a_name_that_clients_may_misread_is_prepared(name: str) -> None:
    found = maker().statement(table(ID, replace(TEXT, name=name)), change(None, {"id": 1, name: "x"}))
    lines = found.splitlines()
    assert [line.split()[0] for line in lines] == ["SET", "PREPARE", "EXECUTE"]
    assert found.isascii()
    assert "\\" not in found
    inner = re.fullmatch(r"SET @binlog_core_statement = _utf8mb4 0x([0-9a-f]+);", lines[0])
    assert inner is not None
    want = f"INSERT INTO `shop`.`or``ders` (`id`, `{name}`) VALUES (1, 'x')"
    assert bytes.fromhex(inner[1]).decode() == want


def test_geometry_keeps_its_axes_on_mysql_8() -> None:
    column = Column("g", 0, 255, Kind.GEOMETRY)
    value = (4326).to_bytes(4, "little") + b"\x01"
    assert maker().literal(column, value) == "ST_GeomFromWKB(x'01', 4326)"
    want = "ST_GeomFromWKB(x'01', 4326, 'axis-order=long-lat')"
    assert maker("mysql97/types_ints").literal(column, value) == want


def test_partial_json() -> None:
    document = Column("doc", 1, 245, Kind.JSON)
    diffs = [
        ("replace", "$.a", "1"),
        ("remove", "$.b", None),
        ("insert", "$.c[2]", '"x"'),
        ("insert", "$.d", "{}"),
    ]
    found = maker("mysql97/types_json").statement(table(ID, document), change({"id": 1}, {"doc": diffs}))
    assert found == (
        "UPDATE `shop`.`or``ders` SET `doc` ="
        " JSON_INSERT(JSON_ARRAY_INSERT(JSON_REMOVE(JSON_REPLACE(`doc`, '$.a',"
        " CAST('1' AS JSON)), '$.b'), '$.c[2]', CAST('\"x\"' AS JSON)),"
        " '$.d', CAST('{}' AS JSON)) WHERE `id` = 1;"
    )


def test_what_the_log_does_not_tell() -> None:
    make = maker()
    unsigned = Column("n", 1, 3, Kind.INT, signed=None)
    assert make.literal(unsigned, 5) == "5"
    with pytest.raises(SchemaError, match="signed") as error:
        make.statement(table(ID, unsigned), change(None, {"id": 1, "n": -5}))
    assert (error.value.table, error.value.column) == ("shop.or`ders", "n")
    with pytest.raises(SchemaError, match="names"):
        make.statement(table(Column("c0", 0, 3, Kind.INT, named=False)), change(None, {"c0": 1}))
    with pytest.raises(SchemaError, match="cannot be reversed"):
        make.statement(table(ID, TEXT), change({"id": 1}, {"text": "new"}), inverse=True)
    with pytest.raises(SchemaError, match="cannot be restored"):
        make.statement(table(ID, TEXT), change({"id": 1}, None), inverse=True)


# ------------------------------------------------------------ on a server


class Server:
    """A server that logs rows, whole and with all metadata."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = self._connect()
        self.databases: set[str] = set()  # that were made here
        version = self.ask("SELECT VERSION()")[0][0].decode()
        major = int(version.partition(".")[0])
        # Whose golden logs its definitions are good for.
        if "MariaDB" in version:
            self.logs = "maria118" if major >= 11 else "maria1011"
        else:
            self.logs = "mysql97" if major >= 8 else "mysql56"

    def _connect(self) -> Any:
        return connect(self._url, use_unicode=False, conv={})  # values as they come

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def play(self, script: bytes) -> None:
        """Run statements, one per line."""
        for line in script.decode("utf-8", "surrogateescape").splitlines():
            if line and not line.startswith(("#", "/*")):
                self.ask(line)

    def begin(self, golden: Golden) -> None:
        """Make a log's tables, without rows."""
        self.ask("SET SESSION sql_mode = '', foreign_key_checks = 0")
        self.databases |= (databases := {d["db"] for d in golden.definitions})
        for name in databases:
            self.ask(f"DROP DATABASE IF EXISTS {quote_name(name)}")
            self.ask(f"CREATE DATABASE {quote_name(name)}")
        for definition in golden.definitions:
            self.ask(f"USE {quote_name(definition['db'])}")  # foreign keys name tables without it
            self.ask(definition["create"])

    def tables(self, golden: Golden) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of a log's tables, in some order, as the server sends them."""
        self.ask("SET SESSION time_zone = '+00:00'")
        return {
            full_name(d["db"], d["table"]): sorted(
                self.ask(f"SELECT * FROM {quote_name(d['db'])}.{quote_name(d['table'])}"), key=repr
            )
            for d in golden.definitions
        }

    def logged(self, work: Callable[[], None], path: Path) -> Path:
        """The log of some work, brought here by the server itself."""
        return logged(self._connection, work, path, self._url)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server(SERVER)
    yield found
    for name in found.databases:
        found.ask(f"DROP DATABASE IF EXISTS {quote_name(name)}")


def replayable(golden: Golden) -> bool:
    """One definition of each table, full images, and no column that the server makes itself."""
    if golden.open_arguments or golden.schema is None or golden.name.endswith(("/truncated", "/killed")):
        return False
    if "stmt" in golden.name or "xa" in golden.name:  # what the rows do not show: statements, XA ROLLBACK
        return False
    partial = any("before_cols" in c or "after_cols" in c for c in golden.truth)
    own = re.compile(r"GENERATED ALWAYS|SYSTEM VERSIONING|SEQUENCE|\bAS \(|VIRTUAL|PERSISTENT|STORED", re.I)
    # MySQL's own dictionary has no characters of four bytes: it prints members of an ENUM with "?".
    told = all("'?'" not in d["create"] for d in golden.definitions)
    return told and not partial and not any(own.search(d["create"]) for d in golden.definitions)


REPLAYED = [g for g in golden_logs() if replayable(g)]


def _statements(path: Path, golden: Golden, tmp_path: Path, *options: str) -> bytes:
    pytest.importorskip("typer")
    from support.cli import run

    if golden.known < KNOWN_FULL:
        schema = tmp_path / "schema.sql"
        creates = (f"USE `{d['db']}`;\n{d['create']};\n" for d in golden.definitions)
        schema.write_text("".join(creates), encoding="utf-8")
        options = (*options, "--schema", str(schema))
    ran = run("rows", path, "-f", "sql", *options)
    assert ran.code == 0, ran.err
    return ran.out


@pytest.mark.server
@pytest.mark.parametrize("golden", REPLAYED, ids=str)
def test_replay_and_flashback(golden: Golden, server: Server, tmp_path: Path) -> None:
    """A log is played in two halves; then each is reversed, and played again, and tables are compared.

    The server's own log of it has the same truth.
    """
    if golden.path.parent.name != server.logs:
        pytest.skip(f"a log of another server: the definitions are for {golden.path.parent.name}")
    server.begin(golden)
    empty = server.tables(golden)
    lines = _statements(golden.path, golden, tmp_path).splitlines(keepends=True)
    commits = [i + 1 for i, line in enumerate(lines) if line == b"COMMIT;\n"]
    middle = commits[len(commits) // 2]
    preamble = b"".join(lines[: lines.index(b"BEGIN;\n") - 1])
    first = server.logged(lambda: server.play(b"".join(lines[:middle])), tmp_path / "first.binlog")
    half = server.tables(golden)
    assert half != empty
    second = server.logged(
        lambda: server.play(preamble + b"".join(lines[middle:])), tmp_path / "second.binlog"
    )
    whole = server.tables(golden)
    changes = []
    for path in (first, second):
        with binlog_core.open(path, tables=list(golden.schema or ()), schema=golden.schema) as log:
            changes += log.rows()
    with binlog_core.open(golden.path) as log:
        # Values are compared; positions and times are the first log's.
        changes = [
            RowChange(c.op, c.database, c.table, c.before, c.after, f.position, f.timestamp, f.gtid)
            for c, f in zip(changes, log.rows(), strict=True)
        ]
    assert differences(changes, golden, max(golden.known, KNOWN_SCHEMA)) == []
    server.play(_statements(second, golden, tmp_path, "--flashback"))
    assert server.tables(golden) == half
    server.play(_statements(second, golden, tmp_path))
    assert server.tables(golden) == whole
    server.play(_statements(second, golden, tmp_path, "--flashback"))
    server.play(_statements(first, golden, tmp_path, "--flashback"))
    assert server.tables(golden) == empty
