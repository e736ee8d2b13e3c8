"""Batches of a table of orders, and what they hold."""

from __future__ import annotations

import numpy as np

from binlog_core._tables.column_types import SPAN_DTYPE, Kind
from binlog_core._tables.tables import Table, record_dtype
from binlog_core.batch.change_batch import TRANSACTION_DTYPE, ChangeBatch
from binlog_core.log.batches import Batches
from support.batches import ABSENT, column, make_batch

NAT = np.datetime64("NaT")
INT = column("id", Kind.INT, bytes_=4)
TEXT = column("note", Kind.TEXT, charset="utf8mb4")

# {"a": 1} in binary JSON: object, count 1, size 12, key at 11 of length 1, value int16 1, "a".
DOCUMENT = b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"
REPLACE_A_BY_2 = b"\x00\x03$.a\x03\x05\x02\x00"


class Capsule:
    """Whatever speaks the Arrow stream interface."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return self.capsule


def orders(notes=(b"one", None, ABSENT), **options):
    return make_batch([INT, TEXT], [{"id": i, "note": note} for i, note in enumerate(notes)], **options)


def notes(*notes):
    return Batches(lambda: iter([orders([note]) for note in notes]))


def raw_batch():
    table = Table("shop", "odd", (column("c0", Kind.INT, bytes_=4),), undecodable="column type 20")
    image = record_dtype(1, ())["image"]
    array = np.zeros(2, np.dtype([("image", image), ("row", [("raw", SPAN_DTYPE)])]))
    array["image"]["absent_bitmap"] = array["image"]["null_bitmap"] = 0xFF
    array["image"]["position"][0] = 4711
    array["row"]["raw"][0] = (3, 5)
    return ChangeBatch(table, (), array, b"___\x01rows___", np.zeros(1, TRANSACTION_DTYPE))
