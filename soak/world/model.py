"""What the servers of the world execute: numbered changes in transactions; simpler than what it judges."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from support.writer.table import Table

TABLES = [
    Table("shop", "orders", [("n", "BIGINT"), ("note", "VARCHAR(40)")], primary_key=["n"]),
    Table("shop", "items", [("n", "BIGINT"), ("x", "INT"), ("y", "DOUBLE")], primary_key=["n"]),
    Table("stock", "levels", [("n", "BIGINT"), ("body", "TEXT")], primary_key=["n"]),
]
OPS = ("insert", "update", "delete")
WAYS = ("commit", "rollback", "savepoint", "undone", "prepare", "one phase")
OTHER_KEY = 1 << 40  # what an update of a key adds to the number before


@dataclass(frozen=True)
class Change:
    """One change of a row; `number` tells it from all others of the history."""

    number: int
    table: int
    op: str
    moves: bool = False  # an update of the key

    @property
    def definition(self) -> Table:
        """The table, as it is logged."""
        return TABLES[self.table]

    @property
    def before(self) -> dict[str, object]:
        """The row before an update."""
        return row_before(self)

    @property
    def after(self) -> dict[str, object]:
        """The row that is inserted or deleted, or that an update leaves."""
        return row(self)


@dataclass(frozen=True)
class Transaction:
    """What is committed at once.

    Parameters
    ----------
    number : int
        Of its GTID, from 1.
    changes : tuple of Change
        In the order of the log; none: a statement that changes a definition.
    events : tuple of int
        How many of them each rows event holds.
    way : str
        How it goes, one of `WAYS`: "rollback" stays in the log, as one that also changed a table without
        transactions does; "savepoint" sets one between its rows events, "undone" also goes back to it.
        "prepare" is a branch of XA, whose end is a transaction without changes; "one phase" one that is
        committed at once.
    statement : str
        What one without changes executes.
    branch : str
        The XA transaction that it begins or ends.
    database : str
        Where a statement is executed.
    """

    number: int
    changes: tuple[Change, ...]
    events: tuple[int, ...] = ()
    way: str = "commit"
    statement: str = ""
    branch: str = ""
    database: str = "shop"

    @property
    def is_dml(self) -> bool:
        """Whether it changes rows by a statement that is logged as text."""
        return self.statement.startswith("DELETE")


def transactions(chance: Random, count: int, *, xa: bool) -> list[Transaction]:
    """Transactions of one to some hundred rows, in one or several tables and events."""
    made, next_number = [], 1
    prepared: list[str] = []
    for number in range(1, count + 1):
        if prepared and chance.random() < 0.3:
            branch = prepared.pop(chance.randrange(len(prepared)))
            end = chance.choice(("XA COMMIT", "XA ROLLBACK"))
            made.append(Transaction(number, (), statement=f"{end} {branch}", branch=branch))
            continue
        if chance.random() < 0.08:
            statement = chance.choice(
                (f"CREATE TABLE made_{number} (a INT)", "DELETE FROM orders WHERE n < 0")
            )
            made.append(Transaction(number, (), statement=statement))
            continue
        changes: list[Change] = []
        events = []
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            table, op = chance.randrange(len(TABLES)), chance.choice(OPS)
            rows = chance.choice((1, 1, 1, 2, 5, 40, 200) if chance.random() < 0.3 else (1, 2))
            moves = op == "update" and chance.random() < 0.3
            changes += [Change(next_number + i, table, op, moves) for i in range(rows)]
            next_number += rows
            events.append(rows)
        way = chance.choice(WAYS if xa else WAYS[:4]) if chance.random() < 0.4 else "commit"
        branch = f"X'{number:06x}',X'',1" if way in ("prepare", "one phase") else ""
        if way == "prepare":
            prepared.append(branch)
        made.append(Transaction(number, tuple(changes), tuple(events), way, branch=branch))
    return made


def row(change: Change) -> dict[str, object]:
    """The values of the row."""
    number = change.number
    if change.table == 0:
        return {"n": number, "note": f"note {number}"}
    if change.table == 1:
        return {"n": number, "x": number % 1000, "y": number / 3}
    return {"n": number, "body": "b" * (number % 50)}


def row_before(change: Change) -> dict[str, object]:
    """The values before an update."""
    after = row(change)
    return after | {"n": change.number + OTHER_KEY} if change.moves else after
