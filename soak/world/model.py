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


@dataclass(frozen=True)
class Change:
    """One change of a row; `number` tells it from all others of the history."""

    number: int
    table: int
    op: str


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
    """

    number: int
    changes: tuple[Change, ...]
    events: tuple[int, ...] = ()


def transactions(chance: Random, count: int) -> list[Transaction]:
    """Transactions of one to some hundred rows, in one or several tables and events."""
    made, next_number = [], 1
    for number in range(1, count + 1):
        if chance.random() < 0.08:
            made.append(Transaction(number, ()))
            continue
        changes: list[Change] = []
        events = []
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            table, op = chance.randrange(len(TABLES)), chance.choice(OPS)
            rows = chance.choice((1, 1, 1, 2, 5, 40, 200) if chance.random() < 0.3 else (1, 2))
            changes += [Change(next_number + i, table, op) for i in range(rows)]
            next_number += rows
            events.append(rows)
        made.append(Transaction(number, tuple(changes), tuple(events)))
    return made


def row(change: Change) -> dict[str, object]:
    """The values of the row."""
    number = change.number
    if change.table == 0:
        return {"n": number, "note": f"note {number}"}
    if change.table == 1:
        return {"n": number, "x": number % 1000, "y": number / 3}
    return {"n": number, "body": "b" * (number % 50)}
