"""A small writer of binary logs for tests and benchmarks, in plain Python.

>>> from support.writer import Log, Table
>>> orders = Table("shop", "orders", [("id", "INT UNSIGNED", {"null": False}), ("total", "DECIMAL(10,2)")])
>>> log = Log("8.0.36")
>>> log.begin()
>>> log.insert(orders, [{"id": 1, "total": Decimal("9.90")}])
>>> log.commit()
>>> data = log.getvalue()

Values are those that ``log.rows()`` gives back, so input can be compared with output. Nothing here shares
code with the decoder under test. Impossible values are not refused, since tests also need broken logs.
"""

from __future__ import annotations

from .jsonb import Unsigned, encode_json
from .log import Log
from .numbering import post_header_lengths
from .table import JsonDiffs, Table
from .types import ColumnSpec, column_spec

__all__ = [
    "ColumnSpec",
    "JsonDiffs",
    "Log",
    "Table",
    "Unsigned",
    "column_spec",
    "encode_json",
    "post_header_lengths",
]
