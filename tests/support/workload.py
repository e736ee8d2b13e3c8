"""A random workload with DDL on one table of a real server, and the server's rows at the end."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

ADDED: tuple[tuple[str, str, Any], ...] = (  # type, DEFAULT in SQL, the value
    ("INT", "7", 7),
    ("VARCHAR(20)", "'dé''f'", "dé'f"),
    ("DECIMAL(8,2)", "-1.5", Decimal("-1.50")),
    ("BIGINT UNSIGNED", "18446744073709551615", 2**64 - 1),
    ("DATETIME", "'2020-01-02 03:04:05'", dt.datetime(2020, 1, 2, 3, 4, 5)),
    ("ENUM('a','b','c')", "'b'", "b"),
    ("DOUBLE", "0.5", 0.5),
)
IMPLICIT = {"INT": 0, "VARCHAR": "", "DECIMAL": Decimal(0), "BIGINT": 0, "ENUM": "a", "DOUBLE": 0}
NO_DEFAULT = 1364  # of a column that REPLACE does not name


class Workload:
    """Makes the database `w` with the table `t` and changes it.

    Parameters
    ----------
    connection
        A PyMySQL connection.
    seed : int
    row_image : str
        The session's binlog_row_image.

    Attributes
    ----------
    defaults : dict
        Defaults of all columns that existed: if the row image is not FULL, MariaDB does not log them.
    """

    def __init__(self, connection: Any, seed: int, row_image: str) -> None:
        self._random = random.Random(seed)
        self._refused = connection.OperationalError
        self._cursor = connection.cursor()
        self._mariadb = "MariaDB" in connection.get_server_info()
        self._added = 0
        self._columns: dict[str, str] = {}
        self.defaults: dict[str, Any] = {}
        self.run("SET time_zone = '+00:00'")
        self.run(f"SET binlog_row_image = {row_image}")
        self.run("SET sql_mode = 'STRICT_TRANS_TABLES'")

    def run(self, sql: str, values: Any = None) -> Any:
        """A statement and its rows."""
        self._cursor.execute(sql, values)
        return self._cursor.fetchall()

    def begin(self) -> None:
        """Make the table; these statements belong in the log."""
        self.run("DROP DATABASE IF EXISTS w")
        self.run("CREATE DATABASE w CHARACTER SET utf8mb4")
        self.run("USE w")
        self._create()

    def end(self) -> None:
        """Remove the database."""
        self.run("DROP DATABASE IF EXISTS w")

    def work(self, count: int) -> None:
        """Run this many transactions, and now and then another statement."""
        for _ in range(count):
            if self._random.random() < 0.25:
                self.run("BEGIN")
                for _ in range(self._random.randrange(1, 5)):
                    self._change()
                self.run(self._random.choice(("COMMIT", "COMMIT", "ROLLBACK")))
            else:
                self._change()
            if self._random.random() < 0.06:
                self._alter()

    def state(self) -> list[dict[str, Any]]:
        """The table as the server has it."""
        self._cursor.execute("SELECT * FROM t ORDER BY id, k")
        names = [column[0] for column in self._cursor.description]
        return [dict(zip(names, row, strict=True)) for row in self._cursor.fetchall()]

    # ------------------------------------------------------------ rows

    def _create(self) -> None:
        self._columns = {
            "v": "VARCHAR(40)",
            "n": "INT",
            "d": "DECIMAL(12,2)",
            "u": "BIGINT UNSIGNED",
            "t": "DATETIME(3)",
            "b": "VARBINARY(20)",
            "e": "ENUM('a','b','c')",
            "f": "DOUBLE",
            "x": "TEXT",
        }
        self.defaults.update(dict.fromkeys(self._columns))
        columns = ", ".join(f"{name} {kind}" for name, kind in self._columns.items())
        self.run(f"CREATE TABLE t (id INT, k VARCHAR(10), {columns}, PRIMARY KEY (id, k))")

    def _value(self, name: str) -> Any:
        kind, pick = self._columns[name], self._random
        base = kind.partition("(")[0].partition(" ")[0]
        if pick.random() < 0.15 and "NOT NULL" not in kind:
            return None
        if base in ("VARCHAR", "TEXT"):
            return pick.choice(("", "é", "x" * pick.randrange(9), "it's", str(pick.randrange(99))))
        if base == "DECIMAL":
            return Decimal(pick.randrange(-(10**7), 10**7)).scaleb(-2)
        if base == "DATETIME":
            return dt.datetime(2000 + pick.randrange(30), 1, 1, pick.randrange(24), 0, pick.randrange(60))
        if base == "VARBINARY":
            return pick.randbytes(pick.randrange(9))
        if base == "ENUM":
            return pick.choice("abc")
        if base == "DOUBLE":
            return pick.choice((0.1, -1e10, pick.random()))
        return pick.randrange(1 << 64) if "UNSIGNED" in kind else pick.randrange(-30000, 30000)

    def _change(self) -> None:
        pick = self._random
        what = pick.choice(
            ("insert",) * 4 + ("update",) * 5 + ("move", "delete", "many", "replace"),
        )
        there = self.run("SELECT id, k FROM t ORDER BY id, k")
        new = (pick.randrange(60), pick.choice("pqr"))
        if what in ("insert", "replace") or not there:
            # MariaDB logs REPLACE as an update without the columns that it does not name: no reader can know
            # them.
            whole = what == "replace" and self._mariadb
            names = [name for name in self._columns if whole or pick.random() < 0.8]
            verb = "REPLACE" if what == "replace" else "INSERT IGNORE"
            columns = "".join(f", {name}" for name in names)
            values = [*new, *map(self._value, names)]
            try:
                self.run(f"{verb} INTO t (id, k{columns}) VALUES (%s, %s{', %s' * len(names)})", values)
            except self._refused as error:
                if error.args[0] != NO_DEFAULT:
                    raise
            return
        old, name = pick.choice(there), pick.choice(list(self._columns))
        value = self._value(name)
        if what == "delete":
            self.run("DELETE FROM t WHERE id = %s AND k = %s", old)
        elif what == "move":
            move = f"UPDATE IGNORE t SET id = %s, k = %s, {name} = %s WHERE id = %s AND k = %s"
            self.run(move, [*new, value, *old])
        elif what == "many":
            self.run(f"UPDATE t SET {name} = %s WHERE id %% 5 = %s", [value, pick.randrange(5)])
        else:
            self.run(f"UPDATE t SET {name} = %s WHERE id = %s AND k = %s", [value, *old])

    # ------------------------------------------------------------ the table

    def _alter(self) -> None:
        pick, columns = self._random, self._columns
        what = pick.choice(
            ("add", "default", "not null", "drop", "modify", "widen", "rename", "change", "many", "empty")
        )
        kind, default, value = pick.choice(ADDED)
        base = kind.partition("(")[0].partition(" ")[0]
        self._added += 1
        new = f"c{self._added}"
        old = pick.choice(list(columns))
        if what == "add":
            self._add(new, kind, f"ALTER TABLE t ADD COLUMN {new} {kind}", None)
        elif what == "default":
            self._add(new, kind, f"ALTER TABLE t ADD {new} {kind} DEFAULT {default} FIRST", value)
        elif what == "not null" and base in IMPLICIT:
            self._add(new, f"{kind} NOT NULL", f"ALTER TABLE t ADD {new} {kind} NOT NULL", IMPLICIT[base])
        elif what == "many":
            self._add(new, "INT", f"ALTER TABLE t ADD ({new} INT DEFAULT 3), ADD INDEX (k), COMMENT='x'", 3)
        elif what == "drop" and len(columns) > 3:
            self.run(f"ALTER TABLE t DROP COLUMN {old}")
            del columns[old]
        elif what == "modify" and "v" in columns:
            self.run(f"ALTER TABLE t MODIFY v VARCHAR({pick.randrange(50, 200)})")
        elif what == "widen" and "n" in columns:
            self.run("ALTER TABLE t MODIFY n BIGINT, MODIFY COLUMN id BIGINT")
            columns["n"] = "BIGINT"
        elif what == "rename":
            self.run(f"ALTER TABLE t RENAME COLUMN {old} TO {new}")
            columns[new], self.defaults[new] = columns.pop(old), self.defaults[old]
        elif what == "change" and "NOT NULL" not in columns[old]:
            self.run(f"ALTER TABLE t CHANGE {old} {new} {columns[old]}")
            columns[new], self.defaults[new] = columns.pop(old), None
        elif what == "empty":
            self._empty()

    def _add(self, name: str, kind: str, sql: str, default: Any) -> None:
        self.run(sql)
        self._columns[name], self.defaults[name] = kind, default

    def _empty(self) -> None:
        what = self._random.randrange(4)
        if what == 0:
            self.run("TRUNCATE TABLE t")
        elif what == 1:
            self.run("DROP TABLE t")
            self._create()
        elif what == 2:  # a table made of a query
            if not self._mariadb:
                self.run("DROP TABLE t")
            verb = "CREATE OR REPLACE" if self._mariadb else "CREATE"
            columns = "id INT, k VARCHAR(10), v VARCHAR(30), PRIMARY KEY (id, k)"
            self.run(f"{verb} TABLE t ({columns}) AS SELECT 5 AS id, 'p' AS k, 'selected' AS v")
            self._columns = {"v": "VARCHAR(30)"}
