from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from .._sources.opened import OpenSources
from .._tables.tables import Column, Table
from ..errors import DecodeError

class Batch(Protocol):
    @property
    def table(self) -> Table: ...
    @property
    def columns(self) -> tuple[Column, ...]: ...
    @property
    def array(self) -> NDArray[np.void]: ...
    @property
    def buffer(self) -> Buffer | NDArray[Any]: ...
    @property
    def transactions(self) -> NDArray[np.void]: ...
    @property
    def invalid(self) -> NDArray[np.void]: ...
    @property
    def json_diffs(self) -> NDArray[np.void]: ...
    @property
    def path(self) -> str | None: ...

@final
class RowChange:
    """One changed row, as ``log.rows()`` yields it. The parameters are also attributes.

    Parameters
    ----------
    op : str
        What happened: "insert", "update" or "delete".
    database, table : str
        The names of the database and the table.
    before, after : dict of str to value, or None
        The row before and after the change: column names and Python values, in the table's order. None for
        the image that an insert or delete does not have; a column that the image lacks is not a key.
    position : int
        The byte offset of the (outermost) event in its file.
    timestamp : int
        The time in the event's header, in seconds since 1970 UTC.
    gtid : str or None
        The GTID as the server prints it; None if the transaction has none or is anonymous.
    commit_time : int or None
        When the transaction was committed on its original server, in microseconds since 1970 UTC; None if
        the log does not have it.
    path : str or None
        The path of the file, or the name of the source. Changes that differ only in this are equal.
    """

    op: Literal["insert", "update", "delete"]
    database: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    position: int
    timestamp: int
    gtid: str | None
    commit_time: int | None
    path: str | None
    __match_args__ = (
        "op",
        "database",
        "table",
        "before",
        "after",
        "position",
        "timestamp",
        "gtid",
        "commit_time",
        "path",
    )
    def __init__(
        self,
        op: Literal["insert", "update", "delete"],
        database: str,
        table: str,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
        position: int = 0,
        timestamp: int = 0,
        gtid: str | None = None,
        commit_time: int | None = None,
        path: str | None = None,
    ) -> None: ...
    def _repr_html_(self) -> str: ...
    def __eq__(self, other: object) -> bool: ...

@final
class Kept: ...

@final
class ValuePlan:
    table: Table
    columns: tuple[Column, ...]
    dtype: np.dtype[Any]
    def __init__(self, table: Table, columns: Iterable[Column], kept: Kept | None = None) -> None: ...

@final
class RowReader:
    plan: ValuePlan
    invalid_text: int
    damaged_values: int
    first_invalid_text: DecodeError | None
    first_damaged_value: DecodeError | None
    def __init__(
        self, batch: Batch, plan: ValuePlan | None = None, on_error: Literal["raise", "skip"] = "raise"
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> ChangeIterator: ...
    def values(self, record: int) -> dict[str, Any]: ...
    def change(self, record: int) -> RowChange: ...
    def column_values(self, column: str) -> list[Any]: ...

@final
class ChangeIterator(Iterator[RowChange]):
    def __init__(self, readers: Iterable[RowReader]) -> None: ...
    def __iter__(self) -> ChangeIterator: ...
    def __next__(self) -> RowChange: ...

@final
class Changes(Iterator[RowChange]):
    def __init__(self, groups: Generator[list[RowReader]], opened: OpenSources | None = None) -> None: ...
    def __iter__(self) -> Changes: ...
    def __next__(self) -> RowChange: ...
    def close(self) -> None: ...

def shortcuts() -> dict[str, bool]: ...
def column_texts(
    reader: RowReader,
    column: str,
    form: Literal["csv", "sql"],
    other: Callable[[Any], str],
    *,
    bytes_are_text: bool = False,
) -> list[str]: ...

@final
class JsonTexts:
    def __init__(
        self,
        style: Literal["readable", "compact", "debezium"],
        encode: Callable[[Any], bytes],
        encoder_of: Callable[[Column], Callable[[Any], Any]] | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def add_objects(
        self, reader: RowReader, records: NDArray[np.int64], bases: NDArray[np.int64] | None = None
    ) -> None: ...
    def add_changes(self, reader: RowReader, path: bytes) -> None: ...
    def joined(self, order: NDArray[np.int64] | None = None) -> bytes: ...
    def offsets(self) -> NDArray[np.int64]: ...

@final
class EventTable:
    def __init__(self, reader: RowReader, key: NDArray[np.int64], name: str) -> None: ...

@final
class DebeziumEvents:
    keys: JsonTexts
    values: JsonTexts
    def __init__(
        self,
        encode: Callable[[Any], bytes],
        encoder_of: Callable[[Column], Callable[[Any], Any]],
        source: bytes,
        end: bytes,
    ) -> None: ...
    def clear(self) -> None: ...
    def add(self, table: EventTable, records: NDArray[np.int64], file: str, now: int) -> None: ...
    def places(self) -> NDArray[np.int64]: ...
