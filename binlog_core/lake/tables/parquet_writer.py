"""How a Parquet file is written: its codec and encodings, chosen by its first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..rows.types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

_SAMPLE = 1 << 13  # rows
_FEW_BYTES = 1 << 18  # written with pyarrow's own settings: choosing others would take a third of the time


def parquet_writer(
    sink: Any, schema: pa.Schema, rows: pa.Table, *, delta: bool, codec: str | None = None, **options: Any
) -> Any:
    """A writer of a file, with settings chosen by its first rows.

    Parameters
    ----------
    sink : file-like
        Where the file goes.
    schema : pyarrow.Schema
        The file's schema.
    rows : pyarrow.Table
        Its first rows.
    delta : bool
        Whether it is a file of a Delta table.
    codec : str or None
        Parquet's codec; None: zstd, or snappy for few rows.
    **options
        Further ones of ``pyarrow.parquet.ParquetWriter``.
    """
    import pyarrow.parquet as pq

    common = {"store_schema": False, "store_decimal_as_integer": True, **options}  # as Spark writes them
    few = rows.nbytes < _FEW_BYTES
    codec = codec or ("snappy" if few else "zstd")  # half of snappy's size, and as fast at level 1
    common |= {"compression": codec, "compression_level": 1 if codec == "zstd" else None}
    if few:
        return pq.ParquetWriter(sink, schema, **common)
    types, repeating = import_pyarrow().types, _repeating(rows)
    encodings = {}
    if delta:
        # Lengths separate from the texts: zstd takes two thirds of the time, and the result is smaller.
        # Iceberg's readers before 1.11 do not know this encoding.
        encodings = {
            one.name: "DELTA_LENGTH_BYTE_ARRAY"
            for one in schema
            if (types.is_string(one.type) or types.is_binary(one.type)) and one.name not in repeating
        }
    return pq.ParquetWriter(
        sink, schema, use_dictionary=repeating, column_encoding=encodings or None, **common
    )


def _repeating(rows: pa.Table) -> list[str]:
    """The columns with repeated values: for others, trying a dictionary takes a third more time in vain."""
    import pyarrow.compute as pc

    types, out = import_pyarrow().types, []
    for name, column in zip(rows.column_names, rows.slice(0, _SAMPLE), strict=True):
        if types.is_list(column.type):
            out.append(f"{name}.list.element")
        elif not types.is_nested(column.type) and pc.count_distinct(column).as_py() <= len(column) // 2:
            out.append(name)
    return out
