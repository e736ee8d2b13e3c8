"""A mirror of the database ``refused``, made in this process; its server's fixtures are beside the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from binlog_core.mirror import TableStatus, mirror

Sql = Callable[[str], Any]
Other = Callable[[], None]


def mirrored(url: str, lake: Path, **settings: Any) -> list[TableStatus]:
    return mirror(url, lake, tables="refused.*", until="now", **settings)


def rows_of(lake: Path, table: str = "t") -> list[tuple[Any, ...]]:
    rows = DeltaTable(str(lake / f"refused.{table}")).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)
