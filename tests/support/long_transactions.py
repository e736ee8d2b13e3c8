"""Logs whose transactions have many events of all kinds, made by a seed."""

from __future__ import annotations

import random

from .forged import UUID
from .writer import Log, Table
from .writer.fragments import in_fragments

_ENDS = ("xid", "xid", "xid", "commit", "rollback", "xa", "none")


class LongTransactions:
    """The maker of one log.

    Parameters
    ----------
    seed : int
        Decides all.
    plain : bool
        Only what lets a transaction be divided.
    """

    def __init__(self, seed: int, *, plain: bool = False) -> None:
        self.pick = pick = random.Random(seed)
        self.plain = plain
        mariadb = pick.random() < 0.5
        self.server = pick.choice(("10.11.6-MariaDB", "12.3.1-MariaDB")) if mariadb else "8.0.36"
        if pick.random() < 0.15:
            self.server = "5.5.62"  # without GTIDs
        checksum = self.server != "5.5.62" and pick.random() < 0.8
        self.log = Log(self.server, checksum=checksum, next_positions=pick.random() < 0.8 or not mariadb)
        self.metadata = pick.random() < 0.7
        self.tables = [
            Table("shop", f"t{i}", [("id", "INT"), ("note", "VARCHAR(200)"), *extra], primary_key=["id"])
            for i, extra in enumerate(([], [("n", "BIGINT")], [("d", "DECIMAL(10,2)")], []))
        ]
        self.number = 0

    def data(self) -> bytes:
        """The log's bytes."""
        pick, log = self.pick, self.log
        if self.server == "8.0.36":
            log.previous_gtids()
        for _ in range(pick.randint(1, 6)):
            self._transaction(pick.choice((1, 2, 3, 15, 40)))
        if pick.random() < 0.3:
            log.rotate()
        if log.mariadb and pick.random() < 0.3:
            return in_fragments(log.getvalue(), seed=pick.randrange(1 << 30), checksum=log.checksum)
        return log.getvalue()

    def _transaction(self, statements: int) -> None:
        pick, log = self.pick, self.log
        self.number += 1
        log.timestamp += pick.randint(0, 3)
        end = pick.choice(_ENDS[:6] if self.plain else _ENDS)
        name = f"X'{self.number:02x}',X'',1"
        if log.mariadb:
            log.maria_gtid(self.number)
        elif self.server == "8.0.36":
            log.gtid(UUID, self.number)
        if end == "xa" and not log.mariadb and self.server == "8.0.36":
            log.query(f"XA START {name}")
        elif not log.mariadb:
            log.begin("shop")
        if not self.plain and self.server == "8.0.36" and pick.random() < 0.1:
            with log.compressed_transaction() as inner:
                inner.insert(self.tables[0], [self._row(self.tables[0])])
            log.commit(self.number)
            return
        for _ in range(statements):
            self._statement()
        if end in ("xid", "none") or (end == "xa" and (log.mariadb or self.server != "8.0.36")):
            if end != "none":
                log.commit(self.number)
        elif end == "xa":
            log.query(f"XA END {name}")
            log.event(38, b"\0" + (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(4) + b"\1")
        else:
            log.query(end.upper())

    def _statement(self) -> None:
        pick, log = self.pick, self.log
        chance = pick.random()
        if chance < 0.08:
            log.query(pick.choice(("SAVEPOINT `a`", "SAVEPOINT b", "ROLLBACK TO `a`", "ROLLBACK TO b")))
            return
        if chance < 0.10 and not self.plain:
            log.query(pick.choice(("INSERT INTO t0 VALUES (1,'x')", "CREATE TABLE z (i INT)")), "shop")
            return
        log.timestamp += pick.random() < 0.2
        if pick.random() < 0.3:
            log.annotate_rows("INSERT …") if log.mariadb else log.rows_query("INSERT …")
        tables = pick.sample(self.tables, pick.randint(1, 2))
        for table in tables:
            table_id = pick.choice((None, None, 7)) if len(tables) == 1 else None
            log.table_map(table, table_id, with_metadata=self.metadata)
        count = pick.choice((1, 1, 2, 6))
        for i in range(count):
            table = pick.choice(tables)
            rows = [self._row(table) for _ in range(pick.randint(1, 4))]
            compress = log.mariadb and pick.random() < 0.2
            present = table.present(pick.choice((None, None, ["id"])))
            kind = pick.choice((0, 0, 2))
            area = b"".join(table.image(row, present, unused=log.mariadb) for row in rows)
            if pick.random() < 0.3 and not compress:
                log.update(table, [(row, {**row, "note": "new"}) for row in rows], mapped=True)
                continue
            log.rows_event(kind, table, area, present, flags=int(i == count - 1), compress=compress)

    def _row(self, table: Table) -> dict[str, object]:
        self.number_of_row = getattr(self, "number_of_row", 0) + 1
        row: dict[str, object] = {
            "id": self.number_of_row,
            "note": self.pick.choice("abc") * self.pick.choice((0, 3, 40)),
        }
        return row | {column.name: None for column in table.columns[2:]}
