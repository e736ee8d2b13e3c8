"""Seeded logs for the benches: one function per workload, cached on disk.

Shaped like those of a MariaDB 10.11 server with its default settings and binlog_row_metadata=FULL: CRC32,
GTID events, ANNOTATE_ROWS, rows events of about 8 KiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import columns as c
import numpy as np
from support.writer import Log, Table

RECIPE = 1  # raise it when a generator's output changes
EVENT_BYTES = 8192
WRITE, UPDATE, DELETE = 0, 1, 2


@dataclass
class Answer:
    """What a log holds, counted by its generator.

    ``sums`` has the sum of an integer column over all row images, ``bytes`` the bytes of a text column, by
    ``db.table.column``.
    """

    rows: int = 0
    images: int = 0
    transactions: int = 0
    tables: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)

    def add_sum(self, name: str, value: int) -> None:
        self.sums[name] = self.sums.get(name, 0) + int(value)

    def add_bytes(self, name: str, value: int) -> None:
        self.bytes[name] = self.bytes.get(name, 0) + int(value)


@dataclass
class Maker:
    """A log under construction, its answer, and the size at which to stop."""

    target: int
    log: Log = field(default_factory=lambda: Log("10.11.18-MariaDB-log"))
    answer: Answer = field(default_factory=Answer)
    seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.log.gtid_list()

    @property
    def full(self) -> bool:
        return self.log.position >= self.target

    def begin(self) -> None:
        self.answer.transactions += 1
        self.log.maria_gtid(self.answer.transactions)

    def commit(self) -> None:
        self.log.xid(self.answer.transactions)

    def statement(self, sql: str, table: Table, kind: int, rows: list[bytes]) -> None:
        """One statement's rows, each given as its image or, for an update, as both images."""
        self.log.annotate_rows(sql)
        self.log.table_map(table)
        if id(table) not in self.seen:
            self.seen.add(id(table))
            self.answer.tables += 1
        self.answer.rows += len(rows)
        self.answer.images += len(rows) * (2 if kind == UPDATE else 1)
        present = [True] * len(table.columns)
        chunks = list(_chunks(rows))
        for i, chunk in enumerate(chunks):
            self.log.rows_event(kind, table, chunk, present, flags=int(i == len(chunks) - 1))


def _chunks(rows: list[bytes]) -> Iterator[bytes]:
    """Write rows events, each closed before it grows beyond 8 KiB."""
    start = size = 0
    for i, row in enumerate(rows):
        if size and size + len(row) > EVENT_BYTES:
            yield b"".join(rows[start:i])
            start, size = i, 0
        size += len(row)
    yield b"".join(rows[start:])


# ------------------------------------------------------------------ narrow

NARROW = Table(
    "bench",
    "narrow",
    [
        ("id", "BIGINT", {"null": False}),
        ("a", "INT"),
        ("b", "INT UNSIGNED"),
        ("c", "SMALLINT"),
        ("d", "TINYINT"),
        ("ts", "TIMESTAMP(6)", {"null": False}),
    ],
    primary_key=["id"],
)


def narrow(make: Maker) -> None:
    """Bulk inserts of 27-byte rows: 6 columns, none of them text; 5,000 rows a transaction."""
    while not make.full:
        make.begin()
        insert_narrow(make)
        make.commit()


def huge(make: Maker) -> None:
    """The rows of narrow, all in one transaction."""
    make.begin()
    while not make.full:
        insert_narrow(make)
    make.commit()


def insert_narrow(make: Maker) -> None:
    """A statement of 5,000 rows."""
    n = np.arange(5000) + make.answer.rows + 1
    a = c.below(n, 1, 1 << 32) - (1 << 31)
    columns = [
        c.little(n, 8),
        c.little(a, 4),
        c.little(c.below(n, 2, 1 << 32), 4),
        c.little(c.below(n, 3, 1 << 16) - (1 << 15), 2),
        c.little(c.below(n, 4, 256) - 128, 1),
        c.timestamps((1_600_000_000 + 3 * n) * 10**6 + c.below(n, 5, 10**6), 6),
    ]
    make.statement("INSERT INTO narrow SELECT ...", NARROW, WRITE, c.pieces(c.row_images(columns)))
    make.answer.add_sum("bench.narrow.id", n.sum())
    make.answer.add_sum("bench.narrow.a", a.sum())


# ---------------------------------------------------------------- sysbench

SBTEST = Table(
    "bench",
    "sbtest1",
    [
        ("id", "INT", {"null": False}),
        ("k", "INT", {"null": False}),
        ("c", "CHAR(120)", {"null": False}),
        ("pad", "CHAR(60)", {"null": False}),
    ],
    primary_key=["id"],
)


def sysbench(make: Maker) -> None:
    """One-row transactions on sbtest: update k, update c, delete, insert; 4 columns, 191 bytes an image."""
    size, step, last = 10_000, 1000, 10_000
    k = np.arange(size + 1) % size + 1
    version = np.arange(size + 1)
    while not make.full:
        ids: list[int] = []
        ks: list[int] = []
        texts: list[int] = []
        work: list[tuple[str, int, int]] = []
        for x in range(last + 1, last + step + 1):
            i, j, gone = (x * m % size + 1 for m in (7919, 104729, 611953))
            for row, new_k, new_text in ((i, k[i] + 1, version[i]), (j, k[j], x)):
                work.append(("UPDATE sbtest1 SET ...", UPDATE, len(ids)))
                ids += [row, row]
                ks += [k[row], new_k]
                texts += [version[row], new_text]
                k[row], version[row] = new_k, new_text
            work.append((f"DELETE FROM sbtest1 WHERE id={gone}", DELETE, len(ids)))
            work.append(("INSERT INTO sbtest1 (id, k, c, pad) VALUES " + "0" * 200, WRITE, len(ids) + 1))
            ids += [gone, gone]
            ks += [k[gone], x % size + 1]
            texts += [version[gone], x]
            k[gone], version[gone] = x % size + 1, x
        last += step
        seed = np.array(texts)
        columns = [
            c.little(np.array(ids), 4),
            c.little(np.array(ks), 4),
            c.strings(c.digit_groups(seed, 100, 10), None, 2),
            c.strings(c.digit_groups(seed, 200, 5), None, 1),
        ]
        images = c.pieces(c.row_images(columns))
        for sql, kind, at in work:
            make.begin()
            make.statement(
                sql, SBTEST, kind, [b"".join(images[at : at + 2]) if kind == UPDATE else images[at]]
            )
            make.commit()
        make.answer.add_sum("bench.sbtest1.id", sum(ids))
        make.answer.add_sum("bench.sbtest1.k", sum(ks))
        make.answer.add_bytes("bench.sbtest1.c", 119 * len(ids))


# ---------------------------------------------------------------- lineitem

NOT_NULL = {"null": False}
LINEITEM = Table(
    "bench",
    "lineitem",
    [
        *((name, "INT", NOT_NULL) for name in ("l_orderkey", "l_partkey", "l_suppkey", "l_linenumber")),
        *(
            (name, "DECIMAL(15,2)", NOT_NULL)
            for name in ("l_quantity", "l_extendedprice", "l_discount", "l_tax")
        ),
        *((name, "CHAR(1)", NOT_NULL) for name in ("l_returnflag", "l_linestatus")),
        *((name, "DATE", NOT_NULL) for name in ("l_shipdate", "l_commitdate", "l_receiptdate")),
        ("l_shipinstruct", "CHAR(25)", NOT_NULL),
        ("l_shipmode", "CHAR(10)", NOT_NULL),
        ("l_comment", "VARCHAR(44)", NOT_NULL),
    ],
    primary_key=["l_orderkey", "l_linenumber"],
)
WORDS = (
    b"furiously regular deposits carefully ironic packages blithely final accounts quickly express requests "
    b"slyly even theodolites pending"
).split()
COMMENTS = [b" ".join((x, y, z, x)) for x in WORDS for y in WORDS for z in WORDS]


def lineitem(make: Maker) -> None:
    """TPC-H LINEITEM: 16 columns, about 130 bytes a row, 10,000 rows a transaction."""
    first = 1
    while not make.full:
        n = np.arange(first, first + 10_000)
        first += 10_000
        cents = [
            (1 + c.below(n, 3, 50)) * 100,
            90_000 + c.below(n, 4, 9_400_000),
            c.below(n, 5, 11),
            c.below(n, 6, 9),
        ]
        plus = np.zeros(len(n), bool)
        ship = 8036 + c.below(n, 7, 2526)  # 1992-01-02 and later
        comment, _ = c.chosen(COMMENTS, c.below(n, 14, len(COMMENTS)))
        length = np.minimum(10 + c.below(n, 15, 34), 44)
        columns = [
            c.little(1 + n // 4, 4),
            c.little(1 + c.below(n, 1, 200_000), 4),
            c.little(1 + c.below(n, 2, 10_000), 4),
            c.little(1 + n % 4, 4),
            *(c.decimals(value // 100, value % 100, plus, 15, 2) for value in cents),
            c.strings(*c.chosen([b"A", b"N", b"R"], c.below(n, 8, 3)), 1),
            c.strings(*c.chosen([b"F", b"O"], c.below(n, 9, 2)), 1),
            c.dates(ship),
            c.dates(ship + c.below(n, 10, 90)),
            c.dates(ship + 1 + c.below(n, 11, 30)),
            c.strings(
                *c.chosen(
                    [b"DELIVER IN PERSON", b"COLLECT COD", b"NONE", b"TAKE BACK RETURN"], c.below(n, 12, 4)
                ),
                1,
            ),
            c.strings(
                *c.chosen(
                    [b"REG AIR", b"AIR", b"RAIL", b"SHIP", b"TRUCK", b"MAIL", b"FOB"], c.below(n, 13, 7)
                ),
                1,
            ),
            c.strings(comment[:, :44], length, 1),
        ]
        make.begin()
        make.statement("INSERT INTO lineitem SELECT ...", LINEITEM, WRITE, c.pieces(c.row_images(columns)))
        make.commit()
        make.answer.add_sum("bench.lineitem.l_orderkey", (1 + n // 4).sum())
        make.answer.add_sum("bench.lineitem.l_extendedprice", cents[1].sum())
        make.answer.add_bytes("bench.lineitem.l_comment", length.sum())


# -------------------------------------------------------------------- wide


def _signed_decimal(precision: int, scale: int, factor: int) -> c.Encoder:
    def encode(h: c.Ints) -> c.Values:
        value = (h - (1 << 31)) * factor
        return c.decimals(np.abs(value) // 10**scale, np.abs(value) % 10**scale, value < 0, precision, scale)

    return encode


def _hex_text(prefix: int, least: int, spread: int, unit: int = 1) -> c.Encoder:
    def encode(h: c.Ints) -> c.Values:
        return c.strings(
            c.hexadecimal(h, 1, (least + spread - 1) * unit), (least + h % spread) * unit, prefix
        )

    return encode


# How many, type, encoder of 32-bit hashes: the columns of a table that has something of everything.
WIDE: list[tuple[int, str, c.Encoder]] = [
    (10, "INT", lambda h: c.little(h - (1 << 31), 4)),
    (5, "BIGINT UNSIGNED", lambda h: c.little(c.hashed(h, 9), 8)),
    (5, "SMALLINT", lambda h: c.little(h % 65536 - 32768, 2)),
    (4, "TINYINT", lambda h: c.little(h % 256 - 128, 1)),
    (2, "MEDIUMINT", lambda h: c.little(h % (1 << 24) - (1 << 23), 3)),
    (5, "FLOAT", lambda h: c.floats(h / 1024, "<f4")),
    (7, "DOUBLE", lambda h: c.floats(h / 977, "<f8")),
    (6, "DECIMAL(10,2)", _signed_decimal(10, 2, 1)),
    (4, "DECIMAL(20,6)", _signed_decimal(20, 6, 4441)),
    (2, "DECIMAL(38,10)", lambda h: c.decimals(h * 98_765_432, h * 2 % 10**10, h < 0, 38, 10)),
    (5, "DATE", lambda h: c.dates(h % 30_000)),
    (6, "DATETIME", lambda h: c.datetimes((631_152_000 + h % 2_000_000_000) * 10**6, 0)),
    (4, "DATETIME(6)", lambda h: c.datetimes(631_152_000 * 10**6 + h * 100_003, 6)),
    (3, "TIMESTAMP", lambda h: c.timestamps((86_400 + h % 2_000_000_000) * 10**6, 0)),
    (2, "TIME(3)", lambda h: c.times(h % 6_000_000 - 3_000_000)),
    (1, "YEAR", lambda h: c.little(1 + h % 255, 1)),
    (12, "VARCHAR(50)", _hex_text(1, 4, 28)),
    (4, "VARCHAR(255)", _hex_text(2, 1, 9, 8)),
    (3, "CHAR(10)", _hex_text(1, 8, 1)),
    (4, "ENUM('new','paid','sent','done','void')", lambda h: c.little(1 + h % 5, 1)),
    (1, "SET('a','b','c','d','e','f','g','h','i','j')", lambda h: c.little(h % 1024, 2)),
    (2, "BLOB", _hex_text(2, 1, 5, 16)),
    (1, "TEXT", _hex_text(2, 1, 4, 32)),
    (1, "BIT(12)", lambda h: c.Values(c.big(h % 4096, 2))),
]
WIDE_COLUMNS = [(declared, encode) for count, declared, encode in WIDE for _ in range(count)]
WIDE_TABLE = Table(
    "bench",
    "wide",
    [
        ("id", "BIGINT", NOT_NULL),
        *((f"c{i:02d}", declared) for i, (declared, _) in enumerate(WIDE_COLUMNS, 1)),
    ],
    primary_key=["id"],
)


def wide(make: Maker) -> None:
    """100 columns of all kinds, 30 % NULLs, about 700 bytes an image: an insert of the table, then updates of
    a quarter of the columns, 500 rows a statement."""
    rows, step = 2000, 500
    ids = np.arange(1, rows + 1)

    def column(i: int, turn: int) -> tuple[c.Values, np.ndarray]:
        h = c.below(ids, 1000 * turn + 10 * i, 1 << 32)
        return WIDE_COLUMNS[i][1](h), c.below(ids, 1000 * turn + 10 * i + 5, 10) < 3

    made = [column(i, 0) for i in range(len(WIDE_COLUMNS))]
    values, nulls = [m[0] for m in made], [m[1] for m in made]
    never = np.zeros(rows, bool)

    def images(which: slice) -> c.Values:
        kept = [c.little(ids, 8), *values]
        return c.row_images([v.take(which) for v in kept], np.stack([never, *nulls], axis=1)[which])

    make.begin()
    make.statement("INSERT INTO wide SELECT ...", WIDE_TABLE, WRITE, c.pieces(images(slice(None))))
    make.commit()
    make.answer.add_sum("bench.wide.id", ids.sum())
    turn = 0
    while not make.full:
        turn += 1
        low = turn * step % rows
        which = slice(low, low + step)
        before = c.pieces(images(which))
        for i in range(len(WIDE_COLUMNS)):
            if (i + 1 + turn) % 4 == 0:
                new, null = column(i, turn)
                _put(values, i, new, which)
                nulls[i][which] = null[which]
        both = [old + new for old, new in zip(before, c.pieces(images(which)), strict=True)]
        make.begin()
        make.statement("UPDATE wide SET ...", WIDE_TABLE, UPDATE, both)
        make.commit()
        make.answer.add_sum("bench.wide.id", 2 * ids[which].sum())


def _put(values: list[c.Values], i: int, new: c.Values, which: slice) -> None:
    """New values for some rows of a column, whose matrices may differ in width."""
    width = max(values[i].matrix.shape[1], new.matrix.shape[1])
    if new.lengths is None and values[i].lengths is None:
        old = c.Values(values[i].matrix.copy())
        old.matrix[which] = new.matrix[which]
    else:
        old, new = c.widen(values[i], width), c.widen(new, width)
        assert old.lengths is not None
        assert new.lengths is not None
        lengths = old.lengths.copy()
        old.matrix[which], lengths[which] = new.matrix[which], new.lengths[which]
        old = c.Values(old.matrix, lengths)
    values[i] = old
