"""The records of one table definition from one file: what subsets, Arrow and notebooks rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._core._rows import NO_INVALID_DATES, NO_JSON_DIFFS, Records
from .._core._spans import compact_spans
from .._tables.column_types import MYSQL_TYPE_BLOB, Kind
from .._tables.given_names import near
from .._tables.tables import Column, Table
from ..errors import SchemaError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

# The one field of a table that cannot be decoded (Table.undecodable): each record is an event, its value the
# bytes of all its rows. No column of the table, so that no bit of the bitmaps is its own.
RAW_COLUMN = Column("raw", -1, MYSQL_TYPE_BLOB, Kind.BINARY, charset="binary")
_RAW_COLUMNS = (RAW_COLUMN,)


class BatchRecords(Records):
    """Decoded rows as a structured array, with their table, buffer and transactions: see `ChangeBatch`."""

    def __init__(
        self,
        table: Table,
        columns: tuple[Column, ...],
        array: NDArray[np.void],
        buffer: Buffer,
        transactions: NDArray[np.void],
        invalid: NDArray[np.void] | None = None,
        json_diffs: NDArray[np.void] | None = None,
        path: str | None = None,
    ) -> None:
        self.table = table
        self.columns = columns
        self.array = array
        self.buffer = buffer
        self.transactions = transactions
        self.invalid = NO_INVALID_DATES if invalid is None else invalid
        self.json_diffs = NO_JSON_DIFFS if json_diffs is None else json_diffs
        self.path = path

    @property
    def value_columns(self) -> tuple[Column, ...]:
        """The columns that the records have: `columns`, or RAW_COLUMN for a table that cannot be decoded."""
        return self.columns if self.columns or self.table.undecodable is None else _RAW_COLUMNS

    def is_null(self, name: str) -> NDArray[np.bool_]:
        """Where a column's value is NULL.

        Parameters
        ----------
        name : str
            The name of a decoded column.

        Returns
        -------
        ndarray of bool, shape (n,)
            True if the value is NULL; False if the column is absent.

        Raises
        ------
        SchemaError
            No decoded column has this name.
        """
        return self._bit("null_bitmap", name)

    def is_absent(self, name: str) -> NDArray[np.bool_]:
        """Where a column is not in the row image (``binlog_row_image`` other than FULL).

        Parameters
        ----------
        name : str
            The name of a decoded column.

        Returns
        -------
        ndarray of bool, shape (n,)
            True if the column is absent.

        Raises
        ------
        SchemaError
            No decoded column has this name.
        """
        return self._bit("absent_bitmap", name)

    def _find(self, name: str) -> Column:
        """The decoded column with a name; SchemaError if there is none."""
        for column in self.value_columns:
            if column.name == name:
                return column
        hint = near(name, [column.name for column in self.columns])
        raise SchemaError(
            f"no such column among the {len(self.columns)} decoded{hint}",
            path=self.path,
            table=self.table.full_name,
            column=name,
        )

    def _bit(self, bitmap: str, name: str) -> NDArray[np.bool_]:
        index = self._find(name).index
        if index < 0:
            return np.zeros(len(self), bool)
        bytes_: NDArray[np.uint8] = self.array["image"][bitmap][:, index // 8]
        return (bytes_ >> (index % 8) & 1).astype(bool)

    def __reduce__(self) -> tuple[Any, ...]:
        # Only what the records refer to is pickled: their values and their transactions.
        array = self.array.copy()
        heap = compact_spans(array, self.value_columns, self.buffer)
        transactions = self.transactions[:0]
        if len(array):
            numbers = array["image"]["transaction"]
            first = int(numbers.min())
            transactions = self.transactions[first : int(numbers.max()) + 1].copy()
            numbers -= first
        arguments = (
            self.table, self.columns, array, heap, transactions, self.invalid, self.json_diffs, self.path
        )  # fmt: skip
        return type(self), arguments
