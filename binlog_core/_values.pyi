from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Literal, TypeAlias, final

import numpy as np

from .batch import ChangeBatch
from .errors import DecodeError
from .tables import Column, Table

JsonDiff: TypeAlias = tuple[Literal["replace", "insert", "remove"], str, str | None]
Value: TypeAlias = (
    int | float | Decimal | str | bytes | date | datetime | timedelta | list[str] | list[float] | list[JsonDiff] | None
)

@final
class RowChange:
    op: Literal["insert", "update", "delete"]
    database: str
    table: str
    before: dict[str, Value] | None
    after: dict[str, Value] | None
    position: int
    timestamp: int
    gtid: str | None
    __match_args__ = ("op", "database", "table", "before", "after", "position", "timestamp", "gtid")
    def __init__(
        self,
        op: Literal["insert", "update", "delete"],
        database: str,
        table: str,
        before: dict[str, Value] | None = None,
        after: dict[str, Value] | None = None,
        position: int = 0,
        timestamp: int = 0,
        gtid: str | None = None,
    ) -> None: ...
    def __eq__(self, other: object) -> bool: ...

@final
class ValuePlan:
    table: Table
    columns: tuple[Column, ...]
    dtype: np.dtype[np.void]
    def __init__(self, table: Table, columns: Iterable[Column]) -> None: ...

@final
class RowReader:
    plan: ValuePlan
    invalid_text: int
    damaged_values: int
    first_invalid_text: DecodeError | None
    first_damaged_value: DecodeError | None
    def __init__(
        self, batch: ChangeBatch, plan: ValuePlan | None = None, on_error: Literal["raise", "skip"] = "raise"
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> ChangeIterator: ...
    def values(self, record: int) -> dict[str, Value]: ...
    def change(self, record: int) -> RowChange: ...
    def column_values(self, column: str) -> list[Value]: ...

@final
class ChangeIterator(Iterator[RowChange]):
    def __init__(self, readers: Iterable[RowReader]) -> None: ...
    def __iter__(self) -> ChangeIterator: ...
    def __next__(self) -> RowChange: ...

def struct_sizes() -> dict[str, int]: ...
