"""Who asks a server for its definitions: servers stand above schemas, so the package's face says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .table_definitions import TableSchema

tables_of: Callable[[str], Iterable[TableSchema]]  # of a server's URL
