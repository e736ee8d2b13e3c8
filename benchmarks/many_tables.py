"""Workloads of many tables: TPC-C's nine, interleaved in each transaction, and ten thousand."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

from support.writer import Table
from workloads import DELETE, UPDATE, WRITE, Maker

NOT_NULL = {"null": False}
POOL = 400  # distinct rows of a table; transactions pick from them

# name: columns as "name type; …", the first of them the id
_TPCC = {
    "warehouse": """
        w_id INT; w_name VARCHAR(10); w_street_1 VARCHAR(20); w_city VARCHAR(20); w_state CHAR(2);
        w_zip CHAR(9); w_tax DECIMAL(4,4); w_ytd DECIMAL(12,2)
    """,
    "district": """
        d_id INT; d_w_id INT; d_name VARCHAR(10); d_street_1 VARCHAR(20); d_city VARCHAR(20);
        d_state CHAR(2); d_zip CHAR(9); d_tax DECIMAL(4,4); d_ytd DECIMAL(12,2); d_next_o_id INT
    """,
    "customer": """
        c_id INT; c_d_id TINYINT; c_w_id INT; c_first VARCHAR(16); c_middle CHAR(2); c_last
        VARCHAR(16); c_street_1 VARCHAR(20); c_city VARCHAR(20); c_state CHAR(2); c_zip CHAR(9);
        c_phone CHAR(16); c_since DATETIME; c_credit CHAR(2); c_credit_lim DECIMAL(12,2);
        c_discount DECIMAL(4,4); c_balance DECIMAL(12,2); c_ytd_payment DECIMAL(12,2);
        c_payment_cnt SMALLINT; c_delivery_cnt SMALLINT; c_data TEXT
    """,
    "history": """
        h_c_id INT; h_c_d_id TINYINT; h_c_w_id INT; h_d_id TINYINT; h_w_id INT; h_date DATETIME;
        h_amount DECIMAL(6,2); h_data VARCHAR(24)
    """,
    "new_orders": """
        no_o_id INT; no_d_id TINYINT; no_w_id INT
    """,
    "orders": """
        o_id INT; o_d_id TINYINT; o_w_id INT; o_c_id INT; o_entry_d DATETIME; o_carrier_id
        TINYINT; o_ol_cnt TINYINT; o_all_local TINYINT
    """,
    "order_line": """
        ol_o_id INT; ol_d_id TINYINT; ol_w_id INT; ol_number TINYINT; ol_i_id INT; ol_supply_w_id
        INT; ol_delivery_d DATETIME; ol_quantity TINYINT; ol_amount DECIMAL(6,2); ol_dist_info
        CHAR(24)
    """,
    "item": """
        i_id INT; i_im_id INT; i_name VARCHAR(24); i_price DECIMAL(5,2); i_data VARCHAR(50)
    """,
    "stock": """
        s_i_id INT; s_w_id INT; s_quantity SMALLINT; s_dist_01 CHAR(24); s_dist_02 CHAR(24);
        s_dist_03 CHAR(24); s_ytd DECIMAL(8,0); s_order_cnt SMALLINT; s_remote_cnt SMALLINT;
        s_data VARCHAR(50)
    """,
}


def _table(database: str, name: str, text: str) -> Table:
    fields = [part.split(None, 1) for part in " ".join(text.split()).split(";")]
    columns = [(field, declared, NOT_NULL if i == 0 else {}) for i, (field, declared) in enumerate(fields)]
    return Table(database, name, columns, primary_key=[fields[0][0]])


def _value(declared: str, rng: random.Random) -> Any:
    kind, _, inside = declared.rstrip(")").partition("(")
    if kind == "DECIMAL":
        precision, scale = (int(n) for n in inside.split(","))
        return Decimal(rng.randrange(10**precision)).scaleb(-scale)
    if kind in ("CHAR", "VARCHAR", "TEXT"):
        most = int(inside or 400)
        length = most if kind == "CHAR" else rng.randint(most // 2, most)
        return (
            "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz", k=length - 1)) + "."
        )
    if kind == "DATETIME":
        return dt.datetime(2020, 1, 1) + dt.timedelta(seconds=rng.randrange(10**8))
    if kind == "DOUBLE":
        return rng.random() * 1e6
    return rng.randrange(100 if kind == "TINYINT" else 30_000 if kind == "SMALLINT" else 10**9)


class _Pool:
    """Encoded rows of one shape; ids are in the order of the pool."""

    def __init__(self, table: Table, rng: random.Random, count: int = POOL) -> None:
        every = [True] * len(table.columns)
        self.ids: list[int] = []
        self.images: list[bytes] = []
        for _ in range(count):
            row = {column.name: _value(column.declared, rng) for column in table.columns}
            for column in table.columns[1:]:
                if rng.random() < 0.05:
                    row[column.name] = None
            self.ids.append(row[table.columns[0].name])
            self.images.append(table.image(row, every, unused=1))


class _Tables:
    """Statements on tables whose rows come from pools, with the sum of each table's first column counted."""

    def __init__(self, make: Maker, seed: int) -> None:
        self.make = make
        self.rng = random.Random(seed)

    def one(self, table: Table, pool: _Pool, kind: int) -> None:
        picks = [self.rng.randrange(len(pool.images)) for _ in range(2 if kind == UPDATE else 1)]
        sql = f"{('INSERT INTO', 'UPDATE', 'DELETE FROM')[kind]} {table.name} ..."
        self.make.statement(sql, table, kind, [b"".join(pool.images[p] for p in picks)])
        column = f"{table.database}.{table.name}.{table.columns[0].name}"
        self.make.answer.add_sum(column, sum(pool.ids[p] for p in picks))


def tpcc(make: Maker) -> None:
    """TPC-C: nine tables, 3 to 20 columns; new orders, payments and deliveries, each statement on one row,
    up to 33 statements a transaction that alternate between the tables."""
    defs = {name: _table("tpcc", name, text) for name, text in _TPCC.items()}
    do = _Tables(make, seed=1)
    pools = {name: _Pool(table, do.rng) for name, table in defs.items()}

    def one(name: str, kind: int) -> None:
        do.one(defs[name], pools[name], kind)

    make.begin()
    for _ in range(100):
        one("item", WRITE)
    make.commit()
    while not make.full:
        make.begin()
        turn = do.rng.random()
        if turn < 0.5:  # new order
            for name, kind in (("district", UPDATE), ("orders", WRITE), ("new_orders", WRITE)):
                one(name, kind)
            for _ in range(do.rng.randint(5, 15)):
                one("stock", UPDATE)
                one("order_line", WRITE)
        elif turn < 0.95:  # payment
            for name in ("warehouse", "district", "customer"):
                one(name, UPDATE)
            one("history", WRITE)
        else:  # delivery
            for _ in range(5):
                one("new_orders", DELETE)
                one("orders", UPDATE)
                one("order_line", UPDATE)
                one("customer", UPDATE)
        make.commit()


_SHAPES = (
    "id INT; name VARCHAR(40); made DATETIME",
    "id BIGINT; a INT; b INT; total DECIMAL(12,2); note VARCHAR(80); made DATETIME",
    "id INT; k INT; x DOUBLE; y DOUBLE; z SMALLINT; s TEXT",
    "id INT; " + "; ".join(f"v{i} INT" for i in range(20)),
)


def tables(make: Maker) -> None:
    """10,000 tables of four shapes (3 to 21 columns), picked by Zipf's law; transactions of 1 to 8 one-row
    statements: inserts, updates and deletes."""
    count = 10_000
    do = _Tables(make, seed=2)
    defs = [_table(f"tenant{i % 100:02d}", f"t{i:05d}", _SHAPES[i % len(_SHAPES)]) for i in range(count)]
    pools = [_Pool(defs[i], do.rng) for i in range(len(_SHAPES))]
    ranks = do.rng.sample(range(count), count)
    weights = [0.0]
    for rank in range(1, count + 1):
        weights.append(weights[-1] + 1 / rank)
    while not make.full:
        make.begin()
        for i in do.rng.choices(ranks, cum_weights=weights[1:], k=do.rng.randint(1, 8)):
            do.one(defs[i], pools[i % len(_SHAPES)], do.rng.choice((WRITE, WRITE, UPDATE, DELETE)))
        make.commit()
