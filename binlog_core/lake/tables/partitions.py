"""Partitions of tables: rows share a file by the values of columns, or their days, months or years."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ...errors import SchemaError
from ..rows.types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

IDENTITY, YEAR = "identity", "year"
_TRANSFORMS = (YEAR, "month", "day")
_WRITTEN = re.compile(rf"(?:({'|'.join(_TRANSFORMS)})\((.+)\)|(.+))", re.IGNORECASE | re.DOTALL)
_LONGEST = 256  # characters: of longer ones, files have no bounds


class PartitionField(NamedTuple):
    """A column by which a table is partitioned, or what is made of it.

    Parameters
    ----------
    column : str
        The column.
    transform : "identity", "year", "month" or "day"
        What is made of its values.
    """

    column: str
    transform: str = IDENTITY

    @classmethod
    def of(cls, text: str) -> Self:
        """The field from its text: ``region`` or ``day(created)``.

        Raises
        ------
        ValueError
            It is not one.
        """
        found = _WRITTEN.fullmatch(text.strip())
        column = "" if found is None else (found[2] or found[3]).strip()
        if found is None or not column or set(column) & set("(),"):
            raise ValueError(f"{text!r} is not a partition: expected a column, year(…), month(…) or day(…)")
        return cls(column, IDENTITY if found[1] is None else found[1].lower())

    def __str__(self) -> str:
        return self.column if self.transform == IDENTITY else f"{self.transform}({self.column})"

    @property
    def name(self) -> str:
        """Its name among a table's partitions."""
        return self.column if self.transform == IDENTITY else f"{self.column}_{self.transform}"

    def type_of(self, kind: pa.DataType) -> pa.DataType:
        """The type of its values, for a column of some type: a year is a number, a month its first day.

        Raises
        ------
        SchemaError
            Such columns cannot be partitioned by.
        """
        pa = import_pyarrow()
        types = pa.types
        if self.transform != IDENTITY and (types.is_date32(kind) or types.is_timestamp(kind)):
            return pa.int32() if self.transform == YEAR else pa.date32()
        plain = (
            types.is_integer(kind) or types.is_string(kind) or types.is_boolean(kind) or types.is_date32(kind)
        )
        if self.transform == IDENTITY and plain:
            return kind
        wanted = "a date or time" if self.transform != IDENTITY else "an integer, a text, a date or a boolean"
        raise SchemaError(f"a table cannot be partitioned by {self}: expected {wanted}", column=self.column)

    def values(self, column: Any) -> Any:
        """The values for those of its column, an Arrow array."""
        import pyarrow.compute as pc

        if self.transform == IDENTITY:
            return column
        pa = import_pyarrow()
        if column.type == pa.timestamp("us", "UTC"):
            column = column.cast(pa.timestamp("us"))
        if self.transform == YEAR:
            return pc.year(column).cast(pa.int32())
        return pc.floor_temporal(column, unit=self.transform).cast(pa.date32())


Partition = tuple[PartitionField, ...]


def parse_partition(text: str) -> Partition:
    """The fields of a table from their text: ``day(created), region``.

    Raises
    ------
    ValueError
        One cannot be read, or is there twice.
    """
    found = tuple(map(PartitionField.of, text.split(",")))
    if len({one.name.lower() for one in found}) < len(found):
        raise ValueError(f"{text!r} has a partition twice")
    return found


def parts_of(
    rows: pa.Table, partition: Sequence[PartitionField]
) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each partition, with its values.

    Raises
    ------
    SchemaError
        A text is empty or long: readers would take it for null, or files would have no bounds. Or a date is
        before the year 1.
    """
    if not partition or not rows.num_rows:
        yield (), rows
        return
    pa = import_pyarrow()
    names = [f"{i}" for i in range(len(partition))]
    values = pa.table([one.values(rows[one.column]) for one in partition], names)
    places = pa.array(range(rows.num_rows), pa.int64())
    grouped = values.append_column("at", places).group_by(names, use_threads=False)
    grouped = grouped.aggregate([("at", "list")])
    for i in range(grouped.num_rows):
        found = tuple(_value(one, grouped[name][i]) for one, name in zip(partition, names, strict=True))
        for one, value in zip(partition, found, strict=True):
            if isinstance(value, str) and not 0 < len(value) <= _LONGEST:
                raise SchemaError(
                    f"a text of {len(value)} characters cannot be a partition: expected 1 to {_LONGEST}",
                    column=one.column,
                )
        yield found, rows.take(grouped["at_list"][i].values)


def _value(field: PartitionField, value: Any) -> Any:
    try:
        return value.as_py()
    except OverflowError:
        told = "a date before the year 1 cannot be a partition"
        raise SchemaError(told, column=field.column) from None
