"""`changes_df`: row changes as a DataFrame through mapInArrow, the cheapest way into one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import SchemaError
from ..options import SourceOptions, as_text
from ..plan.parts import Part, plan_parts
from ..rows.fit import SPECIAL, own_names
from ..rows.types import arrow_schema, import_pyarrow, spark_schema
from .changes import ChangeReader, check_columns, check_types, infer_schema
from .inference import find_definitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def changes_df(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    table: str | None = None,
    columns: Sequence[str] | None = None,
    schema: Any = None,
    **options: Any,
) -> DataFrame:
    """Row changes of binary logs as a DataFrame; works in Spark Connect.

    Parameters
    ----------
    spark : SparkSession
    paths : str, path or sequence of them
        Logs, directories, index files, URLs or patterns, as the driver sees them; workers open the same.
    table : str or None
        ``database.table``. None: all tables, rows as JSON.
    columns : sequence of str or None
        Those of the table to decode; columns about the change are always there.
    schema : StructType, str or None
        As ``.schema()`` of a reader: these columns, these types.
    **options
        Those of the data source, in camel case or with underscores: ``split_size="128m"``.

    Returns
    -------
    DataFrame

    Raises
    ------
    BinlogError, ValueError
        At once what can be told of the plan: no such logs or table, a schema that does not fit, an
        option. What reading meets is raised in the query.
    """
    import_pyarrow()
    given = [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    texts = {name.replace("_", ""): as_text(value) for name, value in options.items() if value is not None}
    if table is not None:
        texts["table"] = table
    parsed = SourceOptions.parse(texts)
    if schema is not None:
        if columns is not None:
            raise ValueError("columns and schema: one of them")
        declared = _struct(schema)
        wanted = arrow_schema(declared)
        check_types(wanted, parsed)
        check_columns(wanted, given, parsed)
    else:
        wanted = infer_schema(given, parsed)
        if columns is not None:
            wanted = _projected(wanted, columns, table)
        declared = spark_schema(wanted)
        wanted = arrow_schema(declared)
    reader = ChangeReader.of(parsed, wanted, projected=schema is not None or columns is not None)
    parts = plan_parts(given, parsed)
    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(_reading(reader, parts), declared)


def _reading(
    reader: ChangeReader, parts: list[Part]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for i in batch.column(0).to_pylist():
                yield from reader.read(parts[i])

    return read


def _projected(schema: pa.Schema, columns: Sequence[str], table: str | None) -> pa.Schema:
    pa = import_pyarrow()
    places = own_names(schema.names)
    wanted = []
    for name in columns:
        place = places.get(name, places.get(name.lower()))
        if place is None:
            raise SchemaError(
                f"no such column; there are {', '.join(schema.names)}", table=table, column=name
            )
        wanted.append(place)
    wanted += [i for i, name in enumerate(schema.names) if name.lower() in SPECIAL and i not in wanted]
    return pa.schema([schema.field(i) for i in wanted])


def _struct(schema: Any) -> Any:
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema
    return StructType.fromDDL(schema)


def primary_key(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], table: str, **options: Any
) -> tuple[str, ...] | None:
    """The primary key that the logs tell of a table, for ``apply_changes(keys=…)``.

    Parameters
    ----------
    paths, table, **options
        As of `changes_df`.

    Returns
    -------
    tuple of str or None
        None: the logs do not tell (``binlog_row_metadata=FULL`` would), or there is none.
    """
    given = [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    texts = {name.replace("_", ""): as_text(value) for name, value in options.items() if value is not None}
    parsed = SourceOptions.parse({**texts, "table": table})
    return find_definitions(given, parsed, every=False).primary_key
