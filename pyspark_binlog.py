"""Spark finds the `binlog` data source by itself through this module: ``spark.read.format("binlog")``.

Spark imports every top-level module called ``pyspark_…`` that it can see, and one that fails hides the
sources of all. So nothing is imported here before it is asked for.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from binlog_core.spark.datasource import BinlogDataSource
    except Exception as error:
        raise AttributeError(f"the binlog data source cannot be loaded: {error}") from error
    return BinlogDataSource
