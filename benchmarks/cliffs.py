"""Logs that need a slow path somewhere, each with the smooth log whose time it may exceed by a factor of 1.2.

Rows of a pair are alike: only a date, a NULL, a text or the table differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, permutations

import columns as c
import numpy as np
from support.writer import Table
from workloads import NOT_NULL, WRITE, Maker

# For more than one group, and an ALTER that is far apart from the next; others: 4
MEGABYTES = {"alter": 8, "single": 8, "alternating": 8, "shapes": 24}
SMOOTH = {  # cliff: the smooth log
    "zero_date": "orders",
    "one_null": "orders",
    "alter": "orders",
    "long_text": "notes",
    "alternating": "single",
    "shapes": "single",
}
LONG = 1 << 20  # bytes of the long text
SHAPES = 300
ORDERS = [
    ("id", "BIGINT", NOT_NULL),
    ("customer", "INT"),
    ("state", "TINYINT"),
    ("made", "DATE"),
    ("changed", "DATETIME"),
    ("total", "DECIMAL(12,2)"),
]
NOTE = ("note", "MEDIUMTEXT")


def _orders(name: str = "orders", more: tuple[tuple[str, str], ...] = ()) -> Table:
    return Table("bench", name, [*ORDERS, *more], primary_key=["id"])


def _columns(make: Maker, count: int) -> list[c.Values]:
    n = np.arange(count) + make.answer.rows + 1
    total = c.below(n, 5, 10**9)
    return [
        c.little(n, 8),
        c.little(c.below(n, 1, 1 << 32), 4),
        c.little(c.below(n, 2, 100), 1),
        c.dates(c.below(n, 3, 20_000)),
        c.datetimes(c.below(n, 4, 10**9) * 10**6, 0),
        c.decimals(total // 100, total % 100, np.zeros(count, bool), 12, 2),
    ]


def _insert(make: Maker, table: Table, columns: list[c.Values], nulls: c.Bytes | None = None) -> None:
    make.begin()
    make.statement("INSERT INTO ...", table, WRITE, c.pieces(c.row_images(columns, nulls)))
    make.commit()


def orders(make: Maker) -> None:
    """Bulk inserts of 29-byte rows: 6 columns of fixed length, 2,000 rows a transaction."""
    table = _orders()
    while not make.full:
        _insert(make, table, _columns(make, 2000))


def zero_date(make: Maker) -> None:
    """The rows of orders, a zero date in each 400th, which is one or two in each event."""
    table = _orders()
    while not make.full:
        columns = _columns(make, 2000)
        columns[3].matrix[::400] = 0
        _insert(make, table, columns)


def one_null(make: Maker) -> None:
    """The rows of orders, one NULL among all."""
    table, done = _orders(), False
    while not make.full:
        nulls = np.zeros((2000, 6), bool)
        if not done and make.log.position > make.target * 3 // 4:
            nulls[1000, 2] = done = True
        _insert(make, table, _columns(make, 2000), nulls)


def alter(make: Maker) -> None:
    """The rows of orders, with a column more in the last quarter."""
    table = _orders()
    while not make.full:
        columns = _columns(make, 2000)
        if make.log.position > make.target * 3 // 4:
            if len(table.columns) == 6:
                make.log.query("ALTER TABLE orders ADD COLUMN extra TINYINT", "bench")
                table = _orders(more=(("extra", "TINYINT"),))
            columns.append(columns[2])
        _insert(make, table, columns)


def notes(make: Maker) -> None:
    """The rows of orders with a text of 8 to 71 bytes, 2,000 rows a transaction."""
    _notes(make, 0)


def long_text(make: Maker) -> None:
    """The rows of notes, one of which has a megabyte."""
    _notes(make, LONG)


def _with_text(make: Maker) -> list[c.Values]:
    n = np.arange(2000) + make.answer.rows
    return [*_columns(make, 2000), c.strings(c.hexadecimal(n, 9, 71), 8 + c.below(n, 8, 64), 3)]


def _notes(make: Maker, long: int) -> None:
    table = _orders("notes", (NOTE,))
    while not make.full:
        columns = _with_text(make)
        if long and make.log.position > make.target * 3 // 4:
            columns = [column.take(slice(0, 1)) for column in columns]
            columns[-1] = c.strings(np.full((1, long), ord("x"), np.uint8), None, 3)
            long = 0
        _insert(make, table, columns)


def single(make: Maker) -> None:
    """The rows of notes, each inserted by a transaction of its own."""
    _single(make, [range(7)])


def alternating(make: Maker) -> None:
    """The same as single, into two tables in turn."""
    _single(make, [range(7)] * 2)


def shapes(make: Maker) -> None:
    """The same as single, into 300 tables in turn, whose columns are in 300 different orders."""
    _single(make, [(0, *order) for order in islice(permutations(range(1, 7)), SHAPES)])


def _single(make: Maker, orders: Sequence[Sequence[int]]) -> None:
    count = len(orders)
    declared = [*ORDERS, NOTE]
    tables = [
        Table("bench", f"notes{i}", [declared[k] for k in order], primary_key=["id"])
        for i, order in enumerate(orders)
    ]
    while not make.full:
        columns = _with_text(make)
        images = [
            c.pieces(c.row_images([columns[k].take(slice(i, None, count)) for k in order]))
            for i, order in enumerate(orders)
        ]
        for row in range(len(columns[0])):
            make.begin()
            make.statement("INSERT INTO ...", tables[row % count], WRITE, [images[row % count][row // count]])
            make.commit()


CLIFFS: dict[str, Callable[[Maker], None]] = {
    make.__name__: make
    for make in (orders, zero_date, one_null, alter, notes, long_text, single, alternating, shapes)
}
