"""What a log is of: random tables, and statements that change their rows and definitions."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from random_logs.columns import Column, column
from random_logs.values import TEMPORAL, known, shown

DATABASE = "differ"


@dataclass
class Table:
    name: str
    own: str
    columns: list[Column]
    key: tuple[str, ...]
    altered: bool = False
    added: int = 0
    kinds: dict[str, str] = field(default_factory=dict)


class Work:
    """One log: the work on the server."""

    def __init__(self, cursor: Any, version: str, seed: int) -> None:
        self.pick, self.cursor, self.version = random.Random(seed), cursor, version
        self.mariadb = "MariaDB" in version
        self.image = self.pick.choice(("FULL", "FULL", "FULL", "MINIMAL", "NOBLOB"))
        self.tables: list[Table] = []

    def run(self, sql: str, *values: Any) -> None:
        self.cursor.execute(sql, values or None)

    def tried(self, sql: str, *values: Any) -> None:
        """Restrictions that a key or a value brings."""
        with suppress(self.cursor.connection.Error):
            self.run(sql, *values)

    def begin(self) -> None:
        pick = self.pick
        self.run("SET SESSION sql_mode = '', time_zone = '+00:00', foreign_key_checks = 0")
        self.run(f"SET SESSION binlog_row_image = '{self.image}'")
        if self.version.startswith(("8.", "9.")):
            self.run(f"SET SESSION binlog_transaction_compression = {pick.choice(('ON', 'OFF', 'OFF'))}")
            partial = self.image == "FULL" and pick.random() < 0.4  # else there is nothing to apply diffs to
            self.run(f"SET SESSION binlog_row_value_options = '{'PARTIAL_JSON' if partial else ''}'")
        if self.mariadb:
            self.run(f"SET GLOBAL log_bin_compress = {pick.choice(('ON', 'OFF', 'OFF'))}")
            self.run("SET GLOBAL log_bin_compress_min_len = 10")
        self.run(f"CREATE DATABASE {DATABASE} CHARACTER SET {pick.choice(('utf8mb4', 'latin1'))}")
        self.run(f"USE {DATABASE}")
        for number in range(pick.randrange(1, 4)):
            self._create(f"t{number}")

    def _create(self, name: str, own: tuple[tuple[str, ...], str] | None = None) -> None:
        pick = self.pick
        keys: list[tuple[tuple[str, ...], str]] = [
            (("id",), "id INT NOT NULL"),
            (("id",), "id BIGINT UNSIGNED NOT NULL"),
            (("id", "k"), "id INT NOT NULL, k VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"),
            (("k",), "id INT, k VARBINARY(9) NOT NULL"),
            ((), "id INT"),
        ]
        key, sql = own or pick.choice(keys if self.image == "FULL" else keys[:4])
        table = Table(
            name, sql, [column(f"c{i}", pick, self.version) for i in range(pick.randrange(1, 9))], key
        )
        parts = [sql, "touched INT", *(f"{one.name} {one.sql}" for one in table.columns)]
        parts += [f"PRIMARY KEY ({', '.join(key)})"] if key else []
        self.run(f"CREATE TABLE {name} ({', '.join(parts)}) CHARACTER SET utf8mb4")
        table.kinds = {
            "id": "int",
            "touched": "int",
            **({"k": "bytes" if "VARBINARY" in sql else "text"} if "k " in sql else {}),
        }
        self.tables.append(table)

    def _set(self, one: Column) -> tuple[str, Any]:
        """A value, and its form in a statement."""
        value = None if self.pick.random() < 0.2 else one.value(self.pick)
        if one.kind == "geometry" and value is not None:
            return "ST_GeomFromWKB(%s)" if "5.6" not in self.version else "GeomFromWKB(%s)", value[4:]
        return ("CONVERT(%s USING utf8mb4)" if one.kind == "json" and value is not None else "%s"), value

    def work(self, count: int) -> None:
        for _ in range(count):
            if self.pick.random() < 0.3:
                self.run("BEGIN")
                for _ in range(self.pick.randrange(1, 6)):
                    self.change(self.pick.choice(self.tables))
                self.run(self.pick.choice(("COMMIT", "COMMIT", "ROLLBACK")))
            else:
                self.change(self.pick.choice(self.tables))
            if self.pick.random() < 0.06 and self.image == "FULL":
                self.alter(self.pick.choice(self.tables))

    def change(self, table: Table) -> None:
        pick, what = self.pick, self.pick.random()
        key = pick.randrange(50)
        if what < 0.55:
            rows, values = [], []
            for _ in range(pick.choice((1, 1, 1, 5, 30))):
                sets = [self._set(one) for one in table.columns]
                own = [
                    pick.randrange(80),
                    *([pick.choice(("a", "é", "Z9"))] if "k" in table.kinds else []),
                    0,
                ]
                rows.append("(" + ", ".join([*("%s" for _ in own), *(sql for sql, _ in sets)]) + ")")
                values += [*own, *(value for _, value in sets)]
            names = [
                "id",
                *(["k"] if "k" in table.kinds else []),
                "touched",
                *(one.name for one in table.columns),
            ]
            verb = pick.choice(("INSERT IGNORE", "INSERT IGNORE", "REPLACE"))
            self.tried(f"{verb} INTO {table.name} ({', '.join(names)}) VALUES {', '.join(rows)}", *values)
        elif what < 0.85 and table.columns:
            one = pick.choice(table.columns)
            if one.kind == "json" and not self.mariadb and pick.random() < 0.7:
                path = pick.choice(("$.k0", "$.k1", "$[0]", "$[1]", "$.k0.k1"))
                self.tried(
                    f"UPDATE {table.name} SET {one.name} = JSON_SET({one.name}, '{path}', %s) WHERE id > %s",
                    key,
                    key,
                )
                return
            sql, value = self._set(one)
            self.tried(
                f"UPDATE {table.name} SET {one.name} = {sql} WHERE id % 7 = %s".replace("% 7", "%% 7"),
                value,
                key % 7,
            )
        elif what < 0.93:
            self.tried(
                f"UPDATE IGNORE {table.name} SET id = id + %s WHERE id = %s", pick.randrange(1, 40), key
            )
        else:
            self.tried(f"DELETE FROM {table.name} WHERE id BETWEEN %s AND %s", key, key + pick.randrange(4))

    def alter(self, table: Table) -> None:
        if not table.key:
            return
        pick, columns = self.pick, table.columns
        what = pick.randrange(5)
        table.added += 1
        if what == 0 or not columns:
            new = column(f"x{table.added}", pick, self.version)
            self.run(
                f"ALTER TABLE {table.name} ADD COLUMN {new.name} {new.sql} "
                + pick.choice(("", "FIRST", "AFTER id"))
            )
            columns.append(new)
        elif what == 1:
            gone = columns.pop(pick.randrange(len(columns)))
            self.run(f"ALTER TABLE {table.name} DROP COLUMN {gone.name}")
        elif what == 2:
            one = pick.choice(columns)
            self.run(f"ALTER TABLE {table.name} CHANGE {one.name} y{table.added} {one.sql}")
            one.name = f"y{table.added}"
        elif what == 3:
            self.run(f"DELETE FROM {table.name}")
            self.run(f"DROP TABLE {table.name}")
            self.tables.remove(table)
            self._create(table.name, (table.key, table.own))
            self.tables[-1].altered = True
            return
        else:
            self.run(f"ALTER TABLE {table.name} MODIFY touched BIGINT")
        table.altered = True
        self.run(f"UPDATE {table.name} SET touched = COALESCE(touched, 0) + 1")

    def truth(self) -> dict[str, Counter[str]]:
        """The rows of each table."""
        found = {}
        for table in self.tables:
            kinds = {**table.kinds, **{one.name: one.kind for one in table.columns}}
            asked = [
                f"CAST({name} AS CHAR)" if kind in TEMPORAL else f"HEX({name})" if kind == "vector" else name
                for name, kind in kinds.items()
            ]
            self.run(f"SELECT {', '.join(asked)} FROM {table.name}")
            rows = [dict(zip(kinds, row, strict=True)) for row in self.cursor.fetchall()]
            found[table.name] = Counter(
                shown({name: known(row[name], kinds[name]) for name in row}) for row in rows
            )
        return found

    def kinds(self, table: str) -> dict[str, str]:
        one = next(one for one in self.tables if one.name == table)
        return {**one.kinds, **{each.name: each.kind for each in one.columns}}
