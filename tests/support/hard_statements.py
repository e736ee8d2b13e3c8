"""Statements that are easy to follow wrongly, each on a table of its own, and what a SELECT finds then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable

from .alters import DATABASE, comparable, rows_of_server
from .refused import mirrored

PLAIN = "id INT PRIMARY KEY, v INT, s VARCHAR(20)"
_PARTS = (
    "id INT PRIMARY KEY, v INT, s VARCHAR(20)) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN (3),"
    " PARTITION p2 VALUES LESS THAN (90)"
)
_STRICT, _LAX = "SET SESSION sql_mode = 'STRICT_ALL_TABLES'", "SET SESSION sql_mode = ''"
_ROWS = "INSERT INTO {t} (id, v, s) VALUES (1, 1, 'a'), (2, 2, 'b'), (3, NULL, NULL)"
_KEY = "INSERT INTO {t} VALUES (%s)"

# {t} is the table, {u} a name that is free.
_ALTERS = (
    *("ADD c INT", "ADD c INT NOT NULL", "ADD c INT DEFAULT 7", "ADD c VARCHAR(9) DEFAULT 'é'", "ADD c JSON"),
    *("ADD c VARCHAR(40) DEFAULT (UUID())", "ADD c DATETIME DEFAULT CURRENT_TIMESTAMP", "ADD c TIMESTAMP"),
    *("ADD c TIMESTAMP NOT NULL", "ADD c INT AS (v + 1) STORED", "ADD c INT AS (v + 1) VIRTUAL"),
    *("ADD c INT NOT NULL UNIQUE AUTO_INCREMENT", "ADD c BIT(9) DEFAULT b'101'", "ADD c YEAR DEFAULT 69"),
    *("ADD c SET('x','y') NOT NULL DEFAULT 'y'", "ADD c ENUM('x','y') NOT NULL", "ADD c GEOMETRY"),
    *("ADD c FLOAT DEFAULT 1.1", "ADD c DECIMAL(50,2) DEFAULT 3", "ADD c DATE DEFAULT '2020-01-02'"),
    *("ADD c TIME DEFAULT '10:00:00'", "ADD c BINARY(4) DEFAULT 'ab'", "ADD c VECTOR(3)", "ADD c UUID"),
    *("ADD (c INT, d INT DEFAULT 3)", "ADD c INT FIRST", "ADD c INT AFTER id", "ADD c INT INVISIBLE"),
    *("ADD COLUMN IF NOT EXISTS v INT DEFAULT 4", "DROP COLUMN IF EXISTS x", "DROP v", "DROP v, ADD v TEXT"),
    *("MODIFY v BIGINT", "MODIFY v TINYINT", "MODIFY v VARCHAR(20)", "MODIFY v DOUBLE", "MODIFY v FLOAT"),
    *("MODIFY v INT UNSIGNED", "MODIFY v BIGINT UNSIGNED", "MODIFY v INT NOT NULL", "MODIFY v DATE"),
    *("MODIFY v DECIMAL(12,2)", "MODIFY v BIT(9)", "MODIFY v INT(8) ZEROFILL", "MODIFY v ENUM('1','2')"),
    *("MODIFY v SET('1','2')", "MODIFY v YEAR", "MODIFY v TIME", "MODIFY v BLOB", "MODIFY v JSON"),
    *("MODIFY s CHAR(20)", "MODIFY s VARCHAR(1)", "MODIFY s TEXT", "MODIFY s VARBINARY(20)", "MODIFY s JSON"),
    *("MODIFY s VARCHAR(20) CHARACTER SET latin1", "MODIFY s VARCHAR(20) NOT NULL", "MODIFY s BINARY(4)"),
    *("MODIFY s VARCHAR(20) COLLATE utf8mb4_bin", "MODIFY s ENUM('b','a')", "MODIFY s SET('b','a')"),
    *(
        "MODIFY s INT",
        "MODIFY s DATETIME",
        "CONVERT TO CHARACTER SET latin1",
        "CONVERT TO CHARACTER SET utf8mb4",
    ),
    *(
        "CHARACTER SET latin1",
        "CHANGE v w INT",
        "CHANGE v s2 INT, CHANGE s v VARCHAR(20)",
        "RENAME COLUMN v TO w",
    ),
    *("RENAME COLUMN v TO s, RENAME COLUMN s TO v", "CHANGE v V INT", "RENAME TO {u}", "RENAME INDEX x TO y"),
    *(
        "DROP PRIMARY KEY",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (id, s)",
        "MODIFY id BIGINT",
        "MODIFY id VARCHAR(9)",
    ),
    *("CHANGE id pk INT", "ADD UNIQUE (v)", "DROP PRIMARY KEY, ADD UNIQUE (id)", "ADD PERIOD FOR p (a, b)"),
    *("ENGINE = MyISAM", "ENGINE = BLACKHOLE", "ENGINE = ARCHIVE", "ADD SYSTEM VERSIONING", "FORCE"),
    *("ORDER BY v DESC", "COMMENT = 'x'", "AUTO_INCREMENT = 9", "ALTER v SET DEFAULT 4", "ADD CHECK (v < 9)"),
    *("ADD c INT, ALGORITHM = INSTANT", "DROP v, ALGORITHM = INSTANT", "PARTITION BY HASH (id) PARTITIONS 2"),
    *("ADD _change_type INT", "ADD _position INT", "ADD c MULTIPOLYGON"),
)
_PARTITIONS = (
    *(
        "TRUNCATE PARTITION p0",
        "DROP PARTITION p1",
        "REORGANIZE PARTITION p1, p2 INTO (PARTITION p3 VALUES LESS THAN (90))",
        "COALESCE PARTITION 1",
        "REMOVE PARTITIONING",
        "REBUILD PARTITION p0",
        "ANALYZE PARTITION p0",
    ),
    *(
        "EXCHANGE PARTITION p0 WITH TABLE {u}",
        "CONVERT PARTITION p0 TO TABLE {u}",
        "ADD PARTITION (PARTITION p9 VALUES LESS THAN MAXVALUE)",
    ),
)
_KEYS = {
    "SET('x','y')": ("'x'", "'y'", "'x,y'"),
    "ENUM('b','a')": ("'a'", "'b'"),
    "BIT(9)": ("1", "5"),
    "FLOAT": ("1.1", "2.5"),
    "DOUBLE": ("1.1", "2.5"),
    "DECIMAL(50,2)": ("1.5", "2.25"),
    "YEAR": ("1999", "2000"),
    "TIME(3)": ("'10:00:00.5'", "'-1:00:00'"),
    "DATETIME(6)": ("'2020-01-02 03:04:05.678'", "'0000-00-00'"),
    "TIMESTAMP": ("'2020-01-02 03:04:05'", "'2021-01-02 03:04:05'"),
    "DATE": ("'2020-01-02'", "'2020-00-00'"),
    "CHAR(5)": ("'a'", "'B '"),
    "VARCHAR(9) CHARACTER SET latin1": ("'é'", "'b'"),
    "VARCHAR(9) COLLATE utf8mb4_general_ci": ("'a'", "'é'"),
    "BINARY(3)": ("'a'", "'b'"),
    "VARBINARY(9)": ("'a'", "x'00ff'"),
    "BIGINT UNSIGNED": ("1", "18446744073709551615"),
    "UUID": ("UUID()", "UUID()"),
    "INET6": ("'::1'", "'::2'"),
}
_OTHERS: dict[str, tuple[str, Sequence[str]]] = {
    "upper-case update of a key": (
        "id VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT, s INT",
        ("UPDATE {t} SET id = 'ONE' WHERE v = 1",),
    ),
    "swap by RENAME": (
        PLAIN,
        (
            "CREATE TABLE {u} LIKE {t}",
            "INSERT INTO {u} VALUES (7, 7, 'x')",
            "RENAME TABLE {t} TO {u}_old, {u} TO {t}",
        ),
    ),
    "gh-ost": (
        PLAIN,
        (
            "CREATE TABLE _{t}_gho LIKE {t}",
            "ALTER TABLE _{t}_gho ADD c INT DEFAULT 5",
            "INSERT INTO _{t}_gho (id, v, s) SELECT id, v, s FROM {t}",
            "UPDATE {t} SET v = 9 WHERE id = 1",
            "REPLACE INTO _{t}_gho (id, v, s) VALUES (1, 9, 'a')",
            "RENAME TABLE {t} TO _{t}_del, _{t}_gho TO {t}",
            "INSERT INTO {t} (id) VALUES (30)",
        ),
    ),
    "pt-online-schema-change": (
        PLAIN,
        (
            "CREATE TABLE _{t}_new LIKE {t}",
            "ALTER TABLE _{t}_new MODIFY v BIGINT",
            "CREATE TRIGGER {t}_i AFTER INSERT ON {t} FOR EACH ROW"
            " REPLACE INTO _{t}_new VALUES (NEW.id, NEW.v, NEW.s)",
            "INSERT IGNORE INTO _{t}_new SELECT * FROM {t}",
            "INSERT INTO {t} VALUES (8, 8, 'y')",
            "RENAME TABLE {t} TO _{t}_old, _{t}_new TO {t}",
            "DROP TABLE _{t}_old",
            "INSERT INTO {t} VALUES (31, 1, 'z')",
        ),
    ),
    "CREATE OR REPLACE": (
        PLAIN,
        ("CREATE OR REPLACE TABLE {t} (id INT PRIMARY KEY, w TEXT)", "INSERT INTO {t} VALUES (5, 'w')"),
    ),
    "DROP and CREATE of another": (
        PLAIN,
        (
            "DROP TABLE {t}",
            "CREATE TABLE {t} (id BIGINT PRIMARY KEY, v TEXT)",
            "INSERT INTO {t} VALUES (6, 'x')",
        ),
    ),
    "CREATE TABLE … SELECT": (PLAIN, ("CREATE TABLE {u} (PRIMARY KEY (id)) SELECT id, v FROM {t}",)),
    "TRUNCATE in between": (
        PLAIN,
        ("INSERT INTO {t} VALUES (4, 4, 'd')", "TRUNCATE TABLE {t}", "INSERT INTO {t} VALUES (4, 5, 'e')"),
    ),
    "REPLACE, ON DUPLICATE KEY": (
        PLAIN + ", UNIQUE (v)",
        (
            "REPLACE INTO {t} VALUES (9, 1, 'r')",
            "INSERT INTO {t} VALUES (9, 1, 'o') ON DUPLICATE KEY UPDATE s = 'p'",
        ),
    ),
    "keys that move round": (
        PLAIN,
        ("UPDATE {t} SET id = id + 10 ORDER BY id DESC", "UPDATE {t} SET id = id - 9 ORDER BY id"),
    ),
    "by statements": (
        PLAIN,
        (
            "SET SESSION binlog_format = 'STATEMENT'",
            "UPDATE {t} SET v = 8",
            "SET SESSION binlog_format = 'ROW'",
        ),
    ),
    "by statements, then rows": (
        PLAIN,
        (
            "SET SESSION binlog_format = 'STATEMENT'",
            "DELETE FROM {t} WHERE id = 1",
            "SET SESSION binlog_format = 'ROW'",
            "UPDATE {t} SET v = 8",
        ),
    ),
    "MINIMAL images": (
        PLAIN,
        (
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE {t} SET v = 8 WHERE id = 2",
            "INSERT INTO {t} (id) VALUES (17)",
            "SET SESSION binlog_row_image = 'FULL'",
        ),
    ),
    "MINIMAL images and a generated column": (
        PLAIN + ", g INT AS (v + 1) VIRTUAL, h INT AS (v + 2) STORED",
        (
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE {t} SET v = 8 WHERE id = 2",
            "SET SESSION binlog_row_image = 'FULL'",
        ),
    ),
    "a generated column": (
        PLAIN + ", g INT AS (v + 1) VIRTUAL, h INT AS (v + 2) STORED",
        ("UPDATE {t} SET v = 8 WHERE id = 2", "INSERT INTO {t} (id, v) VALUES (18, 1)"),
    ),
    "partial JSON": (
        "id INT PRIMARY KEY, v INT, s JSON",
        (
            "SET SESSION binlog_row_value_options = PARTIAL_JSON",
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE {t} SET s = JSON_SET(s, '$.a', 5)",
            "SET SESSION binlog_row_image = 'FULL'",
            "SET SESSION binlog_row_value_options = ''",
        ),
    ),
    "a cascade": (PLAIN, ("DELETE FROM {t} WHERE id = 1",)),
    "a trigger": (
        PLAIN,
        (
            "CREATE TABLE {u} (id INT PRIMARY KEY, v INT)",
            "CREATE TRIGGER {t}_t AFTER UPDATE ON {t} FOR EACH ROW INSERT INTO {u} VALUES (NEW.id, NEW.v)",
            "UPDATE {t} SET v = 3",
        ),
    ),
    "XA": (
        PLAIN,
        (
            "XA START '{t}'",
            "UPDATE {t} SET v = 77 WHERE id = 1",
            "XA END '{t}'",
            "XA PREPARE '{t}'",
            "XA COMMIT '{t}'",
        ),
    ),
    "a temporary table of the same name": (
        PLAIN,
        (
            "CREATE TEMPORARY TABLE {t} (id INT PRIMARY KEY)",
            "INSERT INTO {t} VALUES (1), (2)",
            "DROP TEMPORARY TABLE {t}",
        ),
    ),
    "a table without a key": (
        "id INT, v INT, s VARCHAR(20)",
        ("UPDATE {t} SET v = 9", "DELETE FROM {t} LIMIT 1"),
    ),
    "a nullable UNIQUE key": ("id INT UNIQUE, v INT, s VARCHAR(20)", ("UPDATE {t} SET v = 9",)),
    "IGNORE": (PLAIN, ("INSERT INTO {t} VALUES (4, 1, 'x')", "ALTER IGNORE TABLE {t} ADD UNIQUE (v)")),
    "a versioned table": (
        PLAIN + ") WITH SYSTEM VERSIONING",
        ("UPDATE {t} SET v = 9 WHERE id = 1", "DELETE FROM {t} WHERE id = 2"),
    ),
}


class Hard(NamedTuple):
    """A table, and what is done to it.

    Parameters
    ----------
    name : str
        What it is about.
    columns : str
        What stands between the parentheses of its CREATE TABLE.
    rows : str
        The statement that fills it.
    statements : sequence of str
        The statements.
    mode : str
        Sets the sql_mode before them.
    """

    name: str
    columns: str
    rows: str
    statements: Sequence[str]
    mode: str = _STRICT


def hard() -> Iterator[Hard]:
    """All of them."""
    for alter in _ALTERS:
        yield Hard(alter, PLAIN, _ROWS, (f"ALTER TABLE {{t}} {alter}", "INSERT INTO {t} (id) VALUES (20)"))
    for alter in (
        "ADD c INT NOT NULL",
        "MODIFY v TINYINT",
        "MODIFY s VARCHAR(1)",
        "MODIFY s INT",
        "MODIFY v YEAR",
    ):
        lax = (f"ALTER TABLE {{t}} {alter}", "INSERT INTO {t} (id) VALUES (20)")
        yield Hard(
            f"{alter}, not strict",
            PLAIN,
            _ROWS.replace("2, 2", "2, 70000").replace("'b'", "'bcd'"),
            lax,
            _LAX,
        )
    for alter in _PARTITIONS:
        made = ("CREATE TABLE {u} (id INT PRIMARY KEY, v INT, s VARCHAR(20))",) if "EXCHANGE" in alter else ()
        yield Hard(alter, _PARTS, _ROWS, (*made, f"ALTER TABLE {{t}} {alter}", "UPDATE {t} SET v = 5"))
    for kind, values in _KEYS.items():
        columns = f"id {kind} NOT NULL PRIMARY KEY, v INT"
        rows = "INSERT INTO {t} VALUES " + ", ".join(f"({value}, {i})" for i, value in enumerate(values))
        changes = ("UPDATE {t} SET v = v + 10", "DELETE FROM {t} WHERE v = 11")
        yield Hard(f"the key {kind}", columns, rows, changes, _LAX)
    for name, (columns, statements) in _OTHERS.items():
        rows = _ROWS.replace("'a'", "'{{\"a\": 1}}'").replace("'b'", "'[]'") if " JSON" in columns else _ROWS
        if "s INT" in columns:
            rows = "INSERT INTO {t} VALUES ('one', 1, 1), ('two', 2, 2)"
        yield Hard(name, columns, rows, statements)


def prepared(sql: Any) -> list[tuple[str, Hard]]:
    """Make the tables that the server can have, with their rows."""
    made = []
    sql("SET NAMES utf8mb4")
    sql("SET SESSION time_zone = '+00:00'")
    for number, one in enumerate(hard()):
        sql(_LAX)
        with suppress(Exception):
            name = f"h{number:03}"
            ends = "" if "PARTITION BY" in one.columns or "SYSTEM VER" in one.columns else " CHARSET=utf8mb4"
            close = "" if one.columns.endswith("VERSIONING") else ")"
            sql(f"CREATE TABLE {name} ({one.columns}{close}{ends}")
            made.append((name, one))
            sql(one.rows.format(t=name))
    return made


def done(sql: Any, name: str, one: Hard) -> bool:
    """Run the statements; False if the server refuses the first that changes the table."""
    taken = False
    sql(one.mode)
    for statement in one.statements:
        with suppress(Exception):
            sql(statement.format(t=name, u=f"{name}u"))
            taken |= not statement.startswith(("INSERT INTO {t} (id)", "SET ", "CREATE TABLE {u} ("))
    return taken


def difference(sql: Any, lake: Path, name: str, left_out: Sequence[str]) -> str | None:
    """How a table in the lake differs from the server's."""
    server = [row | dict.fromkeys(left_out) for row in rows_of_server(sql, name, order="1")]
    table = DeltaTable(str(lake / f"{DATABASE}.{name}")).to_pyarrow_table()
    names = list(server[0]) if server else []
    if lacks := [one for one in names if one not in table.column_names]:
        return f"it lacks {lacks}"
    found = Counter(str([comparable(row[one]) for one in names]) for row in table.to_pylist())
    due = Counter(str([comparable(one) for one in row.values()]) for row in server)
    if found != due or table.num_rows != len(server):
        return f"lake {found - due}, server {due - found}, {table.num_rows} and {len(server)} rows"
    return None


class Found(NamedTuple):
    """What became of a table.

    Parameters
    ----------
    name : str
        That of its case.
    stage : str
        Its stage in the mirror, or "refused" by the server.
    reason : str or None
    difference : str or None
        How it differs from the server's.
    """

    name: str
    stage: str
    reason: str | None = None
    difference: str | None = None


def followed(sql: Any, url: str, lake: Path) -> list[Found]:
    """Mirror the tables, run the statements, mirror again, and compare."""
    made = prepared(sql)
    mirrored(url, lake)
    taken = {name: done(sql, name, one) for name, one in made}
    status = {one.table.partition(".")[2]: one for one in mirrored(url, lake)}
    out = []
    for name, one in made:
        now = status[name]
        if not taken[name]:
            out.append(Found(one.name, "refused"))
        elif now.stage == "following":
            out.append(Found(one.name, now.stage, None, difference(sql, lake, name, now.unlogged)))
        else:
            out.append(Found(one.name, now.stage, now.reason))
    return out
