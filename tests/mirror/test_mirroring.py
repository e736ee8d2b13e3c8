"""The mirror against a server: copied and replayed values, what happens to tables, what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import sparks
from support.lake_forms import DeltaForm, Form, IcebergForm
from support.s3 import CREDENTIALS, store
from support.server import SERVER, connect

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import pyarrow as pa

from binlog_core import BinlogWarning, MirrorError, UnsafeServerError
from binlog_core.archive import archive
from binlog_core.gtids import parse_gtid_set
from binlog_core.mirror.values import SelectList, set_for_reading
from binlog_core.schema.given import parse_create_table
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection
from binlog_core.spark import plan_splits, read_split
from binlog_core.spark.mirror import mirror, resync, status, verify

pytestmark = pytest.mark.server
DATABASE = "mirrored"

# By type: values as SQL has them; a session with another time zone and without strictness writes them.
TYPES = {
    "TINYINT": ("-128", "127"),
    "BIGINT UNSIGNED": ("0", "18446744073709551615"),
    "INT(8) UNSIGNED ZEROFILL": ("7", "4294967295"),
    "FLOAT": ("0.1", "-3.4028234e38", "16777217", "1.1754944e-38", "-0e0"),
    "FLOAT(7,2)": ("-12345.67", "99999.99"),
    "DOUBLE": ("0.1", "-1.7976931348623157e308", "5e-324", "1e22"),
    "DOUBLE(10,2)": ("-1.25", "99999999.99"),
    "DECIMAL(10,2)": ("-99999999.99", "0.1"),
    "DECIMAL(65,30)": ("-0.000000000000000000000000000001", "12345678901234567890123456789012345.5"),
    "BIT(1)": ("b'0'", "b'1'"),
    "BIT(64)": ("0", "18446744073709551615"),
    "YEAR": ("0", "1901", "2155"),
    "DATE": ("'0000-00-00'", "'1999-00-00'", "'2024-02-31'", "'0001-01-01'", "'9999-12-31'", "'0000-01-01'"),
    "DATETIME": ("'0000-00-00 00:00:00'", "'9999-12-31 23:59:59'", "'2024-02-29 00:00:00'"),
    "DATETIME(3)": ("'1000-01-01 00:00:00.001'", "'2024-02-31 01:02:03.456'"),
    "TIMESTAMP NULL": ("'0000-00-00 00:00:00'", "'2038-01-19 03:14:07'"),
    "TIMESTAMP(6) NULL": ("'1970-01-02 00:00:01.000001'",),
    "TIME": ("'-838:59:59'", "'838:59:59'"),
    "TIME(2)": ("'-00:00:00.01'", "'01:02:03.4'"),
    "CHAR(10)": ("'  ab  '", "'ä€😀'"),
    "VARCHAR(50)": ("''", "'tab\\t\"\\\\ \\0 end  '"),
    "VARCHAR(51) CHARACTER SET latin1": ("'ÿ€Š'",),
    "VARCHAR(52) CHARACTER SET cp1251": ("'Привет'",),
    "VARCHAR(53) CHARACTER SET sjis": ("'日本語表'",),
    "CHAR(9) CHARACTER SET utf16": ("'😀x '",),
    "TEXT CHARACTER SET gbk": ("'中文'",),
    "MEDIUMTEXT": ("REPEAT('m', 70000)",),
    "BINARY(6)": ("X'01000200'", "''"),
    "BLOB": ("X'00FF5C27'",),
    "ENUM('a','ä','x y') CHARACTER SET latin1": ("'ä'", "'none such'"),
    "SET('r','g','b')": ("'r,b'", "''"),
    "JSON": (
        '\'{"b": [1, -2, 1.5, 0.1, true, null, "\\\\u00e4"], "a": {"k": 18446744073709551615}}\'',
        "'[]'",
    ),
    "POINT": ("ST_GeomFromText('POINT(1 -2)')",),
}
MARIADB = {
    "UUID": ("'f47ac10b-58cc-4372-a567-0e02b2c3d479'", "'a71f2b4c-89ab-11ee-b962-0242ac120002'"),
    "INET6": ("'2001:db8::ff00:42:8329'", "'::'"),
    "VARCHAR(90) COMPRESSED": ("REPEAT('z', 90)",),
}
MYSQL = {"VECTOR(3)": ("STRING_TO_VECTOR('[1,-0.5,3e10]')",)}


@pytest.fixture
def sql() -> Iterator[Callable[[str], Any]]:
    with connect() as connection, connection.cursor() as cursor:

        def run(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchall()

        run(f"DROP DATABASE IF EXISTS {DATABASE}")
        run(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        run(f"USE {DATABASE}")
        yield run
        run(f"DROP DATABASE IF EXISTS {DATABASE}")


@pytest.fixture(scope="module")
def session() -> Any:
    return sparks.shared()


def rows_of(lake: Path, table: str, form: Form | None = None) -> list[tuple[Any, ...]]:
    found = (form or DeltaForm(lake)).read(lake / f"{DATABASE}.{table}")
    return sorted(tuple(row.values()) for row in found.to_pylist())


def folded(lake: Path, table: str, key: tuple[str, ...], form: Form | None = None) -> list[tuple[Any, ...]]:
    """The rows that a table's history says it has."""
    found = (form or DeltaForm(lake)).read(lake / "history" / f"{DATABASE}.{table}").to_pylist()
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in sorted(found, key=lambda row: (row["_commit_version"], row["_change_ordinal"])):
        kind, place = row["_change_type"], tuple(row[name] for name in key)
        if kind in ("insert", "update_postimage"):
            rows[place] = tuple(value for name, value in row.items() if not name.startswith("_"))
        elif kind in ("delete", "update_preimage"):
            del rows[place]
        elif kind in ("copy", "truncate", "drop"):
            rows.clear()
    return sorted(rows.values())


def test_a_row_has_the_same_values_whether_copied_or_replayed(
    sql: Callable[[str], Any], tmp_path: Path
) -> None:
    mariadb = "mariadb" in sql("SELECT VERSION()")[0][0].lower()
    types = {**TYPES, **(MARIADB if mariadb else MYSQL)}
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(types))
    sql("SET time_zone = '+03:00', sql_mode = 'ALLOW_INVALID_DATES'")
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    count = max(map(len, types.values()))
    for row in range(count):
        values = ", ".join(known[row] if row < len(known) else "NULL" for known in types.values())
        sql(f"INSERT INTO t VALUES ({row}, {values})")
    archive(SERVER, tmp_path, until="now", start="now")
    text = sql("SHOW CREATE TABLE t")[0][1]
    selection = SelectList.of(parse_create_table(text, DATABASE, "t"), mariadb=mariadb)
    with Connection(Address.of(SERVER)) as connection:
        set_for_reading(connection)
        columns = ", ".join(selection.expressions)
        (rows,) = connection.stream(f"SELECT {columns} FROM {DATABASE}.t ORDER BY id")
        copied = selection.batch(rows)
    logged = [
        batch.select(copied.schema.names)
        for split in plan_splits(tmp_path)
        for _, batch in read_split(split, tables=f"{DATABASE}.t", schema={f"{DATABASE}.t": text})
    ]
    replayed = pa.Table.from_batches(logged).slice(sum(map(len, logged)) - count)
    assert replayed.schema.equals(copied.schema)
    assert copied.num_rows == count
    for kind, name in zip(["id", *types], copied.schema.names, strict=True):
        assert _plain(copied[name]) == _plain(replayed[name].combine_chunks()), kind
    assert sum(copied[name].null_count == count for name in copied.schema.names) == 0


def _plain(column: pa.Array) -> list[str]:
    """With the sign of zero, and dates that Python lacks."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return [repr(value) for value in column.to_pylist()]


def test_tables_are_copied_followed_compared_and_copied_anew(
    sql: Callable[[str], Any],
    session: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: Form,
) -> None:
    from binlog_core.mirror import chunks, copying

    monkeypatch.setattr(copying, "CHUNK_BYTES", 1)
    monkeypatch.setattr(chunks, "_LEAST_ROWS", 7)
    sql("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(10,2))")
    sql("CREATE TABLE b (x VARCHAR(20) CHARACTER SET latin1, y INT, PRIMARY KEY (x, y))")
    sql("CREATE TABLE keyless (x INT)")
    sql("CREATE TABLE gone (id INT PRIMARY KEY)")
    sql("INSERT INTO a VALUES " + ", ".join(f"({i}, 'v{i}', {i / 4})" for i in range(50)))
    sql("INSERT INTO b VALUES " + ", ".join(f"('{'äbCd'[i % 4]}', {i})" for i in range(50)))
    sql("INSERT INTO keyless VALUES (1), (1), (2)")
    sql("INSERT INTO gone VALUES (1)")
    arguments: dict[str, Any] = {
        "tables": f"{DATABASE}.*",
        "until": "now",
        "spark": session,
        "history": True,
        "compact": None,
        **form.settings,
    }
    found = mirror(SERVER, tmp_path, **arguments)
    assert {one.table.partition(".")[2]: one.rows for one in found} == {
        "a": 50,
        "b": 50,
        "gone": 1,
        "keyless": 3,
    }
    assert form.files(tmp_path / f"{DATABASE}.b") == 8  # chunks of seven rows

    sql("UPDATE a SET v = 'changed' WHERE id < 10")
    sql("UPDATE b SET y = y + 100 WHERE y < 5")
    sql("INSERT INTO keyless VALUES (2)")
    sql("DROP TABLE gone")
    sql("ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7")
    sql("BEGIN")
    sql("DELETE FROM a WHERE id > 40")
    sql("INSERT INTO a VALUES (1000, 'new', 1, 8)")
    sql("COMMIT")
    sql("CREATE TABLE later (id BIGINT UNSIGNED PRIMARY KEY)")
    sql("INSERT INTO later VALUES (18446744073709551615)")
    sql("CREATE TABLE b_new LIKE b")
    sql("INSERT INTO b_new SELECT * FROM b WHERE y % 2")
    sql("RENAME TABLE b TO b_old, b_new TO b")
    stages = {one.table.partition(".")[2]: one.stage for one in mirror(SERVER, tmp_path, **arguments)}
    assert stages == {
        **dict.fromkeys(("a", "b", "b_old", "keyless", "later"), "following"),
        "gone": "dropped",
    }
    assert rows_of(tmp_path, "gone", form) == []
    for table in ("a", "b", "b_old", "keyless", "later"):
        assert rows_of(tmp_path, table, form) == sorted(sql(f"SELECT * FROM {table}")), table
    added = [(*row[:3], 7 if row[3] is None else row[3]) for row in folded(tmp_path, "a", ("id",), form)]
    assert added == rows_of(tmp_path, "a", form)  # no row image has what an ALTER did to the row
    assert folded(tmp_path, "b", ("x", "y"), form) == rows_of(tmp_path, "b", form)
    assert folded(tmp_path, "gone", ("id",), form) == []
    assert not (tmp_path / "history" / f"{DATABASE}.keyless").exists()
    if "maria" in sql("SELECT VERSION()")[0][0].lower():  # given with each place, and in the commits
        now = parse_gtid_set(sql("SELECT @@GLOBAL.gtid_binlog_pos")[0][0])
        followed = [one for one in status(tmp_path) if one.stage == "stopped"]
        assert [parse_gtid_set(one.gtids or "") for one in followed] == [now] * 5
        last = form.last_commit(tmp_path / f"{DATABASE}.a")
        assert parse_gtid_set(last["binlog_core.gtids"]) <= now
    compared = verify(tmp_path, spark=session)
    assert {one.table.partition(".")[2]: one.rows for one in compared} == {
        name: len(rows_of(tmp_path, name, form)) for name in ("a", "b", "b_old", "keyless", "later")
    }
    assert all(one.agrees for one in compared)

    form.spoil(tmp_path / f"{DATABASE}.a", 5, 6, "v")
    (one,) = verify(tmp_path, f"{DATABASE}.a", spark=session)
    assert (one.agrees, one.changed, one.missing, one.extra) == (False, [{"id": 5}], [{"id": 6}], [])
    resync(tmp_path, f"{DATABASE}.a", spark=session)
    assert rows_of(tmp_path, "a", form) == sorted(sql("SELECT * FROM a"))
    assert status(tmp_path)[0].rows == 42


def test_what_is_renamed_by_case_alone_is_compared(
    sql: Callable[[str], Any], session: Any, tmp_path: Path, form: Form
) -> None:
    sql("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20))")
    sql("INSERT INTO a VALUES (1, 'x'), (5, 'y'), (6, 'z')")
    mirror(SERVER, tmp_path, tables=f"{DATABASE}.a", until="now", spark=session, **form.settings)
    sql("ALTER TABLE a CHANGE v V VARCHAR(20)")
    sql("UPDATE a SET V = 'new' WHERE id = 1")
    (one,) = verify(tmp_path, spark=session)
    assert (one.reason, one.rows, one.differ) == (None, 3, 0)
    form.spoil(tmp_path / f"{DATABASE}.a", 5, 6, "v")
    (one,) = verify(tmp_path, spark=session)
    assert (one.changed, one.missing, one.extra) == ([{"id": 5}], [{"id": 6}], [])


def test_an_iceberg_table_has_all_types_and_widens_them(
    sql: Callable[[str], Any], session: Any, tmp_path: Path
) -> None:
    mariadb = "mariadb" in sql("SELECT VERSION()")[0][0].lower()
    types = {**TYPES, **(MARIADB if mariadb else MYSQL)}
    sql("SET time_zone = '+03:00', sql_mode = 'ALLOW_INVALID_DATES'")
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(f'c{i} {kind}' for i, kind in enumerate(types))})")
    count = max(map(len, types.values()))
    insert = [
        f"({row}, " + ", ".join(known[row] if row < len(known) else "NULL" for known in types.values()) + ")"
        for row in range(count)
    ]
    sql(f"INSERT INTO t VALUES {', '.join(insert)}")
    arguments: dict[str, Any] = {"tables": f"{DATABASE}.*", "until": "now", "spark": session, "history": True}
    form = IcebergForm(tmp_path)
    mirror(SERVER, tmp_path, **arguments, **form.settings)
    assert [one.agrees for one in verify(tmp_path, spark=session)] == [True]
    sql("SET sql_mode = 'STRICT_ALL_TABLES,ALLOW_INVALID_DATES'")
    sql(
        "ALTER TABLE t MODIFY c0 BIGINT, MODIFY c3 DOUBLE, MODIFY c7 DECIMAL(20,2), RENAME COLUMN c20 TO name"
    )
    sql("UPDATE t SET c0 = 1 << 40 WHERE id = 1")
    sql("DELETE FROM t WHERE id = 2")
    sql("INSERT INTO t (id, c3) VALUES (100, 0.1)")
    mirror(SERVER, tmp_path, **arguments)
    (one,) = verify(tmp_path, spark=session)
    assert (one.agrees, one.rows) == (True, count)
    (table,) = status(tmp_path)
    assert (table.rows, table.version) == (
        count,
        form.table(tmp_path / f"{DATABASE}.t").current_snapshot().snapshot_id,
    )
    with pytest.raises(MirrorError, match="in format iceberg, not delta"):
        mirror(SERVER, tmp_path, **arguments, format="delta")


def test_a_table_that_cannot_continue_stops_alone(
    sql: Callable[[str], Any], session: Any, tmp_path: Path
) -> None:
    sql("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20))")
    sql("CREATE TABLE b (id INT PRIMARY KEY)")
    arguments: dict[str, Any] = {"tables": [f"{DATABASE}.*"], "until": "now", "spark": session}
    mirror(SERVER, tmp_path, **arguments)
    sql("ALTER TABLE a ADD COLUMN _change_type INT")
    sql("INSERT INTO a VALUES (1, '012', 3)")
    sql("INSERT INTO b VALUES (2)")
    a, b = mirror(SERVER, tmp_path, **arguments)
    assert (a.stage, b.stage) == ("parked", "following")
    assert "_change_type" in str(a.reason)
    assert rows_of(tmp_path, "b") == [(2,)]
    sql("ALTER TABLE a DROP COLUMN _change_type")
    a, b = resync(tmp_path, spark=session)
    assert (a.stage, b.stage) == ("following", "following")
    assert rows_of(tmp_path, "a") == [(1, "012")]


def test_a_table_is_copied_where_the_log_lacks_what_an_alter_did(
    sql: Callable[[str], Any], session: Any, tmp_path: Path
) -> None:
    sql("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20))")
    arguments: dict[str, Any] = {"tables": [f"{DATABASE}.*"], "until": "now", "spark": session}
    mirror(SERVER, tmp_path, **arguments)
    sql("INSERT INTO a VALUES (1, '012'), (7, '345')")
    sql("ALTER TABLE a ADD COLUMN n INT NOT NULL UNIQUE AUTO_INCREMENT")
    (a,) = mirror(SERVER, tmp_path, **arguments)
    assert a.stage == "following"
    assert rows_of(tmp_path, "a") == sorted(sql("SELECT * FROM a")) == [(1, "012", 1), (7, "345", 2)]


def test_changes_that_were_logged_as_statements_are_missing(
    sql: Callable[[str], Any], session: Any, tmp_path: Path
) -> None:
    sql("CREATE TABLE b (id INT PRIMARY KEY)")
    arguments: dict[str, Any] = {"tables": [f"{DATABASE}.*"], "until": "now", "spark": session, "heal": 0}
    mirror(SERVER, tmp_path, **arguments)
    sql("SET SESSION binlog_format = 'STATEMENT'")
    sql("INSERT INTO b VALUES (1)")
    sql("SET SESSION binlog_format = 'ROW'")
    sql("INSERT INTO b VALUES (2)")
    with pytest.warns(BinlogWarning, match="logged as statements"):
        mirror(SERVER, tmp_path, **arguments)
    assert rows_of(tmp_path, "b") == [(2,)]
    (compared,) = verify(tmp_path, f"{DATABASE}.b", spark=session)
    assert compared.missing == [{"id": 1}]
    mirror(SERVER, tmp_path, **(arguments | {"heal": 10e9}))
    assert rows_of(tmp_path, "b") == [(1,), (2,)]


def test_a_history_has_each_change_once_though_its_table_was_written_later(
    sql: Callable[[str], Any], session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import binlog_core.mirror.mirroring as mirroring

    sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    sql("INSERT INTO a VALUES (1, 1), (2, 2)")
    arguments: dict[str, Any] = {"tables": f"{DATABASE}.a", "until": "now", "spark": session, "history": True}
    mirror(SERVER, tmp_path, **arguments)
    sql("UPDATE a SET id = 3 WHERE id = 2")
    sql("DELETE FROM a WHERE id = 1")
    apply, tries = mirroring.apply_round, []

    def fail_first(*given: Any) -> None:
        tries.append(given)
        if len(tries) == 1:
            sql("INSERT INTO a VALUES (4, 4)")  # the next round is longer
            raise OSError("the disk is full")
        apply(*given)

    monkeypatch.setattr(mirroring, "apply_round", fail_first)
    (one,) = mirror(SERVER, tmp_path, **arguments)
    (one,) = mirror(SERVER, tmp_path, **arguments)
    assert (one.stage, len(tries)) == ("following", 3)
    history = DeltaForm(tmp_path).read(tmp_path / "history" / f"{DATABASE}.a").to_pylist()
    assert sorted((row["_change_type"], row["id"]) for row in history if row["id"] is not None) == [
        ("delete", 1),
        ("insert", 1),
        ("insert", 2),
        ("insert", 4),
        ("update_postimage", 3),
        ("update_preimage", 2),
    ]
    assert folded(tmp_path, "a", ("id",)) == rows_of(tmp_path, "a") == [(3, 2), (4, 4)]


def test_a_swap_with_a_table_that_was_not_followed_makes_a_copy(
    sql: Callable[[str], Any], session: Any, tmp_path: Path
) -> None:
    sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    sql("CREATE TABLE ghost (id INT PRIMARY KEY, v VARCHAR(9), w INT)")
    arguments: dict[str, Any] = {"tables": f"{DATABASE}.a", "until": "now", "spark": session}
    mirror(SERVER, tmp_path, **arguments)
    sql("INSERT INTO ghost VALUES (1, 'x', 2)")
    sql("RENAME TABLE a TO old, ghost TO a")
    sql("INSERT INTO a VALUES (2, 'y', 3)")
    files = [tmp_path / "status.json", tmp_path / "status.prom"]
    (one,) = mirror(SERVER, tmp_path, status=files, **arguments)
    assert (one.stage, one.reason, one.lag_bytes) == ("following", None, 0)
    assert json.loads(files[0].read_text())["tables"][0]["rows"] == 2
    assert f'_rows{{lake="{tmp_path}",table="{DATABASE}.a"}} 2' in files[1].read_text()
    assert rows_of(tmp_path, "a") == [(1, "x", 2), (2, "y", 3)]


def test_a_lake_in_a_store_has_its_credentials_from_the_options(
    sql: Callable[[str], Any], session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # the archive's spool
    monkeypatch.setattr("binlog_core.mirror.applying.ON_DRIVER", 0)  # workers apply, too
    sql("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20))")
    sql("INSERT INTO a VALUES (1, 'x'), (2, 'y')")
    with store("lakes") as endpoint:
        options = {**CREDENTIALS, "endpoint_override": endpoint}
        arguments: dict[str, Any] = {"spark": session, "storage_options": options}
        url = "s3://lakes/shop"
        mirror(SERVER, url, tables=f"{DATABASE}.a", until="now", history=True, **arguments, **form.settings)
        sql("UPDATE a SET v = 'z' WHERE id = 1")
        sql("DELETE FROM a WHERE id = 2")
        (compared,) = verify(url, **arguments)
        assert (compared.agrees, compared.rows, compared.reason) == (True, 1, None)
        (told,) = status(url, storage_options=options)
        assert (told.rows, told.stage) == (1, "stopped")


def test_unsafe_settings_are_refused_and_no_password_is_kept(
    sql: Callable[[str], Any], session: Any, tmp_path: Path
) -> None:
    sql("CREATE TABLE a (id INT PRIMARY KEY)")
    sql("DROP USER IF EXISTS 'mirror'@'%'")
    sql("CREATE USER 'mirror'@'%' IDENTIFIED BY 'sEcReT-word'")
    sql("GRANT ALL ON *.* TO 'mirror'@'%'")
    sql("FLUSH BINARY LOGS")  # the server's own log may have the statement
    url = SERVER.partition("://")[0] + "://mirror:sEcReT-word@" + SERVER.rpartition("@")[2]
    arguments: dict[str, Any] = {"tables": f"{DATABASE}.*", "until": "now", "spark": session}
    image = sql("SELECT @@GLOBAL.binlog_row_image")[0][0]
    try:
        sql("SET GLOBAL binlog_row_image = 'MINIMAL'")
        with pytest.raises(UnsafeServerError, match="binlog_row_image is MINIMAL: expected FULL"):
            mirror(url, tmp_path, **arguments)
    finally:
        sql(f"SET GLOBAL binlog_row_image = '{image}'")
    mirror(url, tmp_path, **arguments)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sEcReT" not in kept
    assert "mirror@" in json.loads((tmp_path / "_mirror" / "state.json").read_text())["server"]
    sql("DROP USER 'mirror'@'%'")


def test_a_lake_without_a_mirror_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MirrorError, match="the lake has no mirror"):
        status(tmp_path)
    assert os.listdir(tmp_path) == []
