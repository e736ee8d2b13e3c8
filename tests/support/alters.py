"""Random ALTER TABLEs over pairs of type, sql_mode and generated column, and what a SELECT finds then."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from .refused import mirrored

DATABASE = "refused"

# Literals that a server without strict mode takes; those that it refuses are left out.
_WHOLE = ("0", "1", "-1", "7", "100", "127", "2000", "-32768", "70000", "5000000000")
_DECIMALS = ("0", "1.5", "-1.25", "1.1234", "99.99", "-0.005", "12345678901.5")
_TEXTS = (
    "''",
    "'a'",
    "'A'",
    "'a   '",
    "' b'",
    "'1'",
    "'007'",
    "'é'",
    "'2020-01-02'",
    "'10:00:00'",
    "'x,y'",
    "'z'",
)
_BYTES = ("''", "'a'", r"'a\0'", r"'\0\0'", "'abcdefgh'", "x'ff00'")
_DATES = ("'2020-01-02'", "'1970-01-01'", "'0000-00-00'", "'2020-00-10'", "'9999-12-31'")
_MOMENTS = ("'2020-01-02 03:04:05'", "'2020-01-02'", "'2000-02-29 23:59:59.987654'", "'0000-00-00'")
_TIMES = ("'10:00:00'", "'-00:00:01.5'", "'838:59:59'", "'00:00:00.000001'", "0")
_MEMBERS = ("'x'", "'y'", "'1'", "'2'", "''", "'X'")
TYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT UNSIGNED", "MEDIUMINT", "INT", "INT UNSIGNED"), _WHOLE),
    **dict.fromkeys(("INT(6) ZEROFILL", "BIGINT", "BIGINT UNSIGNED", "BOOLEAN", "BIT(9)", "BIT(1)"), _WHOLE),
    **dict.fromkeys(("DECIMAL(10,4)", "DECIMAL(12,2)", "DECIMAL(20,0)", "DECIMAL(45,3)"), _DECIMALS),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DOUBLE(9,2)", "FLOAT(7,3)", "REAL"), _DECIMALS),
    **dict.fromkeys(
        ("CHAR(5)", "CHAR(12)", "VARCHAR(3)", "VARCHAR(20)", "TINYTEXT", "TEXT", "LONGTEXT"), _TEXTS
    ),
    "VARCHAR(20) CHARACTER SET latin1": _TEXTS,
    "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin": _TEXTS,
    "CHAR(12) CHARACTER SET binary": _BYTES,
    **dict.fromkeys(("BINARY(3)", "BINARY(8)", "VARBINARY(9)", "BLOB", "TINYBLOB"), _BYTES),
    "DATE": _DATES,
    **dict.fromkeys(
        ("DATETIME", "DATETIME(3)", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(6) NULL"), _MOMENTS
    ),
    **dict.fromkeys(("TIME", "TIME(3)", "TIME(6)"), _TIMES),
    "YEAR": ("0", "1999", "2155", "70"),
    "ENUM('x','y','1')": _MEMBERS,
    "ENUM('1','2','y','x')": _MEMBERS,
    "ENUM('x','X','a','A') COLLATE utf8mb4_bin": ("'x'", "'X'", "'a'", "'A'"),
    "SET('x','y','1')": ("'x'", "'x,y'", "''", "'1,y'"),
    "SET('y','x')": ("'x'", "'x,y'", "''"),
    "JSON": ('\'{"b": 1, "a": [1.0, 2]}\'', "'[]'", "'\"x\"'", "'5'", "'null'"),
    "UUID": ("'123e4567-e89b-12d3-a456-426614174000'",),
    "INET6": ("'::1'", "'ffff::2'"),
}
_DEFAULTS = (
    "5",
    "'5'",
    "1",
    "'1'",
    "2",
    "'A'",
    "'a'",
    "'X'",
    "'x'",
    "''",
    "'ab '",
    "1.005",
    "-7",
    "'2020-01-02'",
    "TRUE",
    "NULL",
)
_MODES = (  # the first is what the servers begin with
    *[None] * 40,
    *(
        "",
        "",
        "",
        "ALLOW_INVALID_DATES",
        "ANSI_QUOTES,STRICT_ALL_TABLES",
        "NO_BACKSLASH_ESCAPES",
        "REAL_AS_FLOAT",
    ),
    *("PAD_CHAR_TO_FULL_LENGTH", "PAD_CHAR_TO_FULL_LENGTH,STRICT_ALL_TABLES", "EMPTY_STRING_IS_NULL"),
    *(
        "ORACLE",
        "MAXDB",
        "TRADITIONAL",
        "NO_ZERO_DATE,NO_ZERO_IN_DATE",
        "TIME_ROUND_FRACTIONAL,STRICT_ALL_TABLES",
    ),
    *("TIME_TRUNCATE_FRACTIONAL,STRICT_ALL_TABLES", "NO_AUTO_VALUE_ON_ZERO", "PIPES_AS_CONCAT"),
)
_COMPUTED = (
    "CONCAT(c)",
    "CONCAT(c)",
    "HEX(c)",
    "HEX(c)",
    "LENGTH(c)",
    "c + 0",
    "c = 'A'",
    "c / 3",
    "DEFAULT(c)",
)


@dataclass
class Case:
    """A table, and what is done to it.

    Parameters
    ----------
    table : str
        Its name.
    kind : str
        The type of its column ``c``.
    values : tuple of str
        Literals for it, one for each row.
    computed : str
        Definitions of generated columns.
    before : tuple of str
        Statements right before the ALTER.
    mode : str or None
        The session's sql_mode; None: the server's own.
    alter : str
        The statement.
    """

    table: str
    kind: str
    values: tuple[str, ...]
    computed: str
    before: tuple[str, ...]
    mode: str | None
    alter: str


def cases(seed: int, count: int) -> Iterator[Case]:
    """Random cases."""
    chance = random.Random(seed)
    kinds = list(TYPES)
    for number in range(count):
        table = f"t{number}"
        kind, other = chance.choice(kinds), chance.choice(kinds)
        if chance.random() < 0.6:  # one to which most values can be converted
            other = chance.choice([one for one in kinds if TYPES[one] is TYPES[kind]])
        computed = ""
        if chance.random() < 0.5:
            stored = chance.choice(("STORED", "VIRTUAL"))
            computed = f", g VARCHAR(200) AS ({chance.choice(_COMPUTED)}) {stored}"
        default = f"DEFAULT {chance.choice(_DEFAULTS)}"
        empty = chance.choice(("", "NOT NULL", "NULL"))
        (parts,) = chance.choices(
            (
                f"MODIFY c {other} {chance.choice(('', empty))}",
                f"CHANGE c d {other}",
                f"MODIFY c {kind} {chance.choice((default, empty, 'COMMENT 5'))}".replace(
                    "COMMENT 5", "COMMENT 'x'"
                ),
                f"CHANGE c d {kind}",
                f"ADD d {other} {empty} {chance.choice(('', default, default))}",
                f"DROP c, ADD c {other} {default}",
                "CONVERT TO CHARACTER SET "
                + chance.choice(("utf8mb4", "latin1", "utf8mb4 COLLATE utf8mb4_bin")),
                f"ALTER c SET {default}",
                f"RENAME COLUMN c TO d, ADD c {other} {default}",
                "ADD n INT DEFAULT 4, ADD INDEX (n), COMMENT = 'x'",
                f"DROP n, CHANGE c n {kind}",
            ),
            (10, 3, 4, 3, 6, 4, 2, 1, 1, 1, 1),
        )
        before = ["UPDATE t SET n = n + 1 WHERE id = 2", "DELETE FROM t WHERE id = 1"][: chance.randrange(3)]
        if chance.random() < 0.1:
            before.append("TRUNCATE TABLE t")
        text = "ALTER TABLE t " + parts
        yield Case(
            table,
            kind,
            tuple(chance.sample(TYPES[kind], chance.randrange(1, len(TYPES[kind]) + 1)))[:4],
            computed,
            tuple(one.replace(" t", f" {table}", 1) for one in before),
            chance.choice(_MODES),
            text.replace(" t ", f" {table} ", 1),
        )


def prepare(sql: Any, given: Iterator[Case]) -> list[Case]:
    """Create the tables of the cases that the server can have."""
    made = []
    sql("SET NAMES utf8mb4")
    sql("SET SESSION time_zone = '+00:00'")
    for one in given:
        sql("SET SESSION sql_mode = ''")
        for computed in dict.fromkeys((one.computed, "")):
            with suppress(Exception):  # a type or an expression that it does not have
                columns = f"id INT PRIMARY KEY, n INT, c {one.kind}{computed}"
                sql(f"CREATE TABLE {one.table} ({columns}) CHARSET=utf8mb4")
                made.append(one)
                break
        else:
            continue
        for number, value in enumerate((*one.values, "NULL")[:4]):
            with suppress(Exception):
                sql(f"INSERT INTO {one.table} (id, n, c) VALUES ({number}, {number}, {value})")
    return made


def alter(sql: Any, one: Case, later: bool) -> bool:
    """Run a case's statements; False if the server refuses the ALTER."""
    for statement in one.before:
        sql(statement)
    try:
        sql(f"SET SESSION sql_mode = {'DEFAULT' if one.mode is None else repr(one.mode)}")
        sql(one.alter)
    except Exception:
        return False
    finally:
        sql("SET SESSION sql_mode = ''")
    if later:
        shown = sql(f"SHOW COLUMNS FROM {one.table}")
        columns = [str(row[0]) for row in shown if "GENERATED" not in str(row[5])]
        with suppress(Exception):
            sql(f"INSERT INTO {one.table} ({', '.join(columns)}) VALUES ({', '.join(['77'] * len(columns))})")
    return True


def compared(sql: Any, url: str, lake: Path, seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """Mirror tables, alter them, mirror again: how many took which way, and what differs from SELECT."""
    made = prepare(sql, cases(seed, count))
    mirrored(url, lake)
    copied = {one.table: _copies(lake, one.table) for one in made}
    ways: Counter[str] = Counter()
    wrong = []
    altered = [alter(sql, one, later=number % 2 == 0) for number, one in enumerate(made)]
    status = {one.table.partition(".")[2]: one for one in mirrored(url, lake)}
    for one, done in zip(made, altered, strict=True):
        now, known = status[one.table], _copies(lake, one.table)
        way = "refused by the server" if not done else now.stage
        if done and now.stage == "following":
            way = "copied" if known != copied[one.table] else "applied"
        ways[way] += 1
        if now.stage == "following":
            left_out = dict.fromkeys(now.unlogged)  # they are null
            expected = [row | left_out for row in rows_of_server(sql, one.table)]
            names = list(expected[0]) if expected else ["id"]
            table = DeltaTable(str(lake / f"{DATABASE}.{one.table}")).to_pyarrow_table()
            lacks = [name for name in names if name not in table.column_names]
            found = [
                {name: comparable(row.get(name)) for name in names}
                for row in sorted(table.to_pylist(), key=lambda row: int(row["id"]))
            ]
            if lacks or found != expected:
                wrong.append(f"{way}: {one}\n  lacks {lacks}\n  lake   {found}\n  server {expected}")
        elif done:
            wrong.append(f"{now.stage}: {one}\n  {now.reason}")
    return ways, wrong


def _copies(lake: Path, table: str) -> int:
    history = DeltaTable(str(lake / f"{DATABASE}.{table}")).history()
    return len({one["binlog_core.copy"] for one in history if "binlog_core.copy" in one})


def rows_of_server(sql: Any, table: str, order: str = "id") -> list[dict[str, Any]]:
    """The rows of a table by SELECT, in forms that can be compared."""
    columns = sql(
        "SELECT COLUMN_NAME, IF(NUMERIC_PRECISION > 38, 'wide', DATA_TYPE) FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA = '{DATABASE}' AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
    )
    known = {
        str(name).lower() if str(name).isupper() else str(name): str(kind).lower() for name, kind in columns
    }
    forms = {
        "float": "{} * 1e0",
        "wide": "CONCAT({})",
        "bit": "{} + 0",
        "uuid": "CAST({} AS BINARY(16))",
        "inet6": "CAST({} AS BINARY(16))",
    }
    picked = ", ".join(forms.get(kind, "{}").format(f"`{name}`") for name, kind in known.items())
    return [
        {name: comparable(value) for name, value in zip(known, row, strict=True)}
        for row in sql(f"SELECT {picked} FROM {table} ORDER BY {order}")
    ]


def comparable(value: Any) -> Any:
    """A value in a form that is the same for the server and the lake."""
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, Decimal | float | int):
        return Decimal(repr(value) if isinstance(value, float) else value)
    if isinstance(value, str) and "-00" in value and value[:4].isdigit():
        return None  # a date that is not in the calendar
    return value
