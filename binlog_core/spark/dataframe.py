"""Logs as DataFrames: their row changes through mapInArrow, or their splits for a function of the user's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ..errors import SchemaError
from ..lake.rows.fit import SPECIAL, places_by_name
from ..lake.rows.source_options import SourceKeywords, SourceOptions
from ..lake.rows.types import import_pyarrow
from ..splits import DEFAULT_SPLIT_SIZE, plan_splits
from .changes import ChangeReader, check_columns, check_types, infer_schema
from .inference import find_definitions
from .keeping import bring_up_to_date, with_names
from .plan_rows import one_row_each, tasks_frame, tasks_of
from .reasons import brief
from .schemas import arrow_schema, spark_schema
from .session import use_this_python
from .shipped import ShippedFunction
from .workers import SparkRunner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from ..schema.definitions import SchemaSource
    from ..schema.given import Schema


def changes_df(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    table: str | None = None,
    columns: Sequence[str] | None = None,
    frame_schema: StructType | str | None = None,
    **options: Unpack[SourceKeywords],
) -> DataFrame:
    """Row changes of binary logs as a DataFrame; works in Spark Connect.

    Parameters
    ----------
    spark : SparkSession
        The session.
    paths : str, path or sequence of them
        Logs, directories, index files, URLs or patterns, as the driver sees them; workers open the same
        paths.
    table : str or None
        The table, as ``database.table``; None reads all tables, with rows as JSON.
    columns : sequence of str or None
        The table's columns to decode; columns about the change are always added.
    frame_schema : StructType, str or None
        The columns and types of the DataFrame, as for ``.schema()`` of a reader.
    **options
        Options of the data source, with underscores: ``split_size="128m"``. See `SourceOptions`.

    Returns
    -------
    DataFrame

    Raises
    ------
    BinlogError, ValueError
        The logs or the table do not exist, a schema does not fit, or an option is not valid. Errors while
        reading are raised in the query.
    """
    import_pyarrow()
    given, parsed = _given(paths, options, table)
    if frame_schema is not None:
        if columns is not None:
            raise ValueError("columns and frame_schema: give only one")
        declared = _struct(frame_schema)
        wanted = arrow_schema(declared)
        check_types(wanted, parsed)
        check_columns(wanted, given, parsed)
    else:
        wanted = infer_schema(given, parsed)
        if columns is not None:
            wanted = _projected(wanted, columns, table)
        declared = spark_schema(wanted)
        wanted = arrow_schema(declared)
    reader = ChangeReader.of(parsed, wanted, projected=frame_schema is not None or columns is not None)
    reader, parts = reader.planned(given, SparkRunner(spark))
    tasks = tasks_frame(spark, reader.tasks(reader.wanted(parts)))
    return tasks.mapInArrow(ShippedFunction(_reading(reader)), declared)


def _reading(reader: ChangeReader) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, parts in tasks_of(rows):
            with brief:
                yield from reader.read_all(parts)

    return read


def _projected(schema: pa.Schema, columns: Sequence[str], table: str | None) -> pa.Schema:
    pa = import_pyarrow()
    places = places_by_name(schema.names)
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


def _struct(schema: StructType | str) -> StructType:
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema
    declared = StructType.fromDDL(schema)
    assert isinstance(declared, StructType)
    return declared


def primary_key(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    table: str,
    **options: Unpack[SourceKeywords],
) -> tuple[str, ...] | None:
    """A table's primary key according to the logs, for ``apply_changes(key_columns=…)``.

    Parameters
    ----------
    paths, table, **options
        As for `changes_df`.

    Returns
    -------
    tuple of str or None
        The names of its columns. None if the table has no primary key or the logs do not have it
        (``binlog_row_metadata=FULL`` adds it).
    """
    return find_definitions(*_given(paths, options, table), every=False).primary_key


def read_changes(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    table: str | None = None,
    frame_schema: pa.Schema | None = None,
    **options: Unpack[SourceKeywords],
) -> pa.RecordBatchReader:
    """The same rows as `changes_df`, in this process and without a Spark session.

    Parameters
    ----------
    paths, table, **options
        As for `changes_df`.
    frame_schema : pyarrow.Schema or None
        The columns and types of the result, such as the ``schema`` of a reader of more logs; columns that
        these logs lack are null.

    Returns
    -------
    pyarrow.RecordBatchReader
        The rows in the order of the logs.

    Raises
    ------
    BinlogError, ValueError
        As for `changes_df`; errors while reading are raised by the reader.
    """
    pa = import_pyarrow()
    given, parsed = _given(paths, options, table)
    if frame_schema is not None:
        check_types(frame_schema, parsed)
    wanted = infer_schema(given, parsed) if frame_schema is None else frame_schema
    reader = ChangeReader.of(parsed, wanted, projected=frame_schema is not None)
    reader, parts = reader.planned(given)
    return pa.RecordBatchReader.from_batches(wanted, reader.read_all(reader.wanted(parts)))


def table_schema(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    table: str,
    **options: Unpack[SourceKeywords],
) -> StructType:
    """The Spark schema of the rows that ``read_split`` gives for a table, for ``mapInArrow``.

    Parameters
    ----------
    paths, table, **options
        As for `changes_df`.

    Returns
    -------
    StructType
        The columns of the table's first definition (with ``merge_schema=True``, of all its definitions),
        then `_change_type`, `_commit_version`, `_commit_timestamp` and `_change_ordinal`.

    Raises
    ------
    BinlogError
        The logs do not exist, or have no rows of the table.
    """
    return spark_schema(infer_schema(*_given(paths, {"absent": False, **options}, table)))


def splits_df(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    split_size: int | None = DEFAULT_SPLIT_SIZE,
    *,
    storage_options: dict[str, Any] | None = None,
    schema: Literal["ddl"] | None = None,
    schema_start: SchemaSource | Schema | None = None,
    keys: Any = None,
) -> DataFrame:
    """The splits of logs as a DataFrame, one in each partition; works in Spark Connect.

    Parameters
    ----------
    spark : SparkSession
        The session.
    paths : str, path or sequence of them
        Logs, as for `changes_df`.
    split_size, storage_options, schema, schema_start, keys
        As for ``plan_splits``.

    Returns
    -------
    DataFrame
        The fields of ``Split``, so that ``Split(**row)`` makes a split: path string, start and end bigint,
        file_number and index int, anchor bigint, trusted boolean, before string, size bigint, definitions
        string (null without `schema`), which the driver holds only once.
    """
    use_this_python(spark)
    splits = plan_splits(
        _paths(paths),
        split_size,
        storage_options=storage_options,
        schema=schema,
        schema_start=schema_start,
        keys=keys,
    )
    pa = import_pyarrow()
    declared = _split_schema()
    values = {field.name: [getattr(one, field.name) for one in splits] for field in declared}
    frame = one_row_each(spark, pa.table(values, declared)).drop("place")
    # All splits have the same, which may be megabytes: the workers add it to their rows.
    timeline = splits[0].timeline() if splits else None
    text = pa.array([None if timeline is None else timeline.to_text()], pa.string())
    return frame.crossJoin(spark.createDataFrame(pa.table({"definitions": text})).hint("broadcast"))


def _split_schema() -> pa.Schema:
    pa = import_pyarrow()
    return pa.schema(
        [
            ("path", pa.string()),
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("file_number", pa.int32()),
            ("index", pa.int32()),
            ("anchor", pa.int64()),
            ("trusted", pa.bool_()),
            ("before", pa.string()),
            ("size", pa.int64()),
        ]
    )


def _paths(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    return [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]


def _given(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: SourceKeywords,
    table: str | None,
) -> tuple[list[str], SourceOptions]:
    given, parsed = _paths(paths), SourceOptions.of(options, table=table)
    bring_up_to_date(parsed, given)
    return given, with_names(parsed)


def register(spark: SparkSession) -> None:
    """Register the data source in a session that does not find it by itself.

    Workers of a local session then run this Python, unless PYSPARK_PYTHON names another.

    Parameters
    ----------
    spark : SparkSession
        The session, which can also be one of Spark Connect.
    """
    from pyspark.errors import AnalysisException

    from .datasource import BinlogDataSource

    use_this_python(spark)
    try:
        spark.dataSource.register(BinlogDataSource)
    except AnalysisException as error:  # Spark 4.0 refuses what it has found by itself
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
