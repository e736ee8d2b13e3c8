"""The export job: logs into Parquet files of one table each, written by the workers themselves."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ..._decode.selection import is_wanted_name, matches_name
from ...errors import BinlogError
from ...schema.given import Schema
from ...splits import (
    DEFAULT_SPLIT_SIZE,
    Split,
    SplitResult,
    plan_splits,
)
from ..lake.destination import Destination
from ..lake.parquet import ParquetDirectory
from ..lake.results import ExportResult, ExportState, TableResult, WrittenSplit
from ..lake.writer import WriteLimits
from ..plan.definitions import follow_definitions, tracker_of
from ..plan.parts import whole_logs
from ..plan.xa import XaHistory
from ..rows.read_options import ReadOptions
from ..rows.timeline import Timeline
from ..rows.types import import_pyarrow
from ..workers import Run, runner
from .resuming import Resuming
from .running import Progress, counter, run_splits, spark_failure
from .split_writer import SplitWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..._options import Paths
    from ..rows.prepared import Prepared

Format = Literal["parquet", "delta", "iceberg"]


def export_logs(
    logs: Paths,
    output: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    master: str = "local[*]",
    options: ReadOptions | None = None,
    overwrite: bool = False,
    compression: str = "snappy",
    limits: WriteLimits | None = None,
    progress: Callable[[Progress], None] | None = None,
    split_size: int | None = DEFAULT_SPLIT_SIZE,
    format: Format = "parquet",
    run_id: str | None = None,
    catalog: Mapping[str, str] | str | None = None,
    output_options: dict[str, Any] | None = None,
    xa: Literal["prepared", "committed"] = "prepared",
    state: str | os.PathLike[str] | None = None,
) -> ExportResult:
    """Write the row changes of binary logs as Parquet, one directory per table, on Spark.

    Parameters
    ----------
    logs : str, path or iterable of them
        See `plan_splits`. Workers read them by the same paths.
    output : str or path
        Directory or URL. Each table has the directory ``OUTPUT/database.table``.
    spark : SparkSession or None
        Also of Connect, where `progress` is told of the beginning and the end only. None: one is started, and
        stopped at the end.
    master : str
        For the session that is started.
    options : ReadOptions or None
        A schema of a path or server is read once, here; with "ddl" the statements of all logs are heard by
        the workers first, and followed here. `_absent` is always there.
    overwrite : bool
        Replace an earlier export; of Parquet only.
    compression : str
        Of Parquet: snappy, zstd, …
    limits : WriteLimits or None
    progress : callable of Progress or None
        Called from another thread whenever splits are done.
    split_size : int or None
        Most bytes of a log that one task reads; None: the whole log.
    format : "parquet", "delta" or "iceberg"
        Parquet files with a manifest, which appear when all are written, in files ``v1-….parquet``, where v2
        and so on are later definitions of the table. Delta tables, to which is appended, in one commit each
        (needs deltalake). Iceberg tables ``database.table`` of a catalog, likewise (needs pyiceberg).
    run_id : str or None
        Names this run: what is committed under it is not written again. None: a new one.
    catalog : mapping, str or None
        Iceberg's catalog: properties for ``pyiceberg.catalog.load_catalog``, or its name in the
        configuration.
    output_options : dict or None
        Credentials and endpoint of the output's store: see ``object_stores.arrow_filesystem``.
    xa : "prepared" or "committed"
        Rows of XA transactions as they are logged, at XA PREPARE; or with version and time of XA COMMIT,
        without those that were rolled back or have not ended. For that workers walk over the event headers
        of all logs first.
    state : str, path or None
        A file that keeps how far the logs are exported: the next call with it writes what came since, up to
        the last transaction that has ended. Parquet then goes to a directory for each run, ``OUTPUT/000001``
        and so on.

    Returns
    -------
    ExportResult
        With `state`, where it is given.

    Raises
    ------
    BinlogError
        A log cannot be read (with path and offset), the output exists or cannot be written, Spark fails. Then
        nothing of the run is committed; but of several Delta or Iceberg tables, each of which has its own
        commits, some may be when a later one fails: with the same `run_id` the run can be repeated.
    MissingExtraError
        pyspark, pyarrow, Java, or the library of the format is missing.

    Notes
    -----
    That every split began where the one before it ended is checked; one that did not is read again.
    """
    import_pyarrow()
    began = time.perf_counter()
    if xa not in ("prepared", "committed"):
        raise ValueError(f"xa={xa!r}: prepared and committed are known")
    options = options or ReadOptions()
    splits = plan_splits(logs, split_size, storage_options=options.storage_options)
    options = replace(options, absent=True, statements=True)
    whole = whole_logs(splits)
    run, place, exact = run_id or uuid.uuid4().hex, os.fspath(output), frozenset[int]()
    resuming, done = None, list[SplitResult]()
    if state is not None:
        if run_id is not None or overwrite or xa == "committed":
            raise ValueError("state and run_id, overwrite or xa=committed: one of them")
        resuming = Resuming(os.fspath(state), place, options.access, output_options)
        splits, exact = resuming.begin(splits)
        done = resuming.done(splits)
        if not splits:
            told = resuming.measure(plan_splits(logs, storage_options=options.storage_options))
            return ExportResult(place, told.id, [], [], time.perf_counter() - began, state=told)
        run = resuming.state.run_id
        if format == "parquet":
            place = f"{place.rstrip('/')}/{resuming.state.run_name}"
    destination = _destination(format, place, run, overwrite, catalog, output_options)
    committed = destination.committed()
    if committed is not None:
        after = None if resuming is None else _finished(resuming, committed, [], logs, options)
        seconds = time.perf_counter() - began
        return ExportResult(place, run, committed, [], seconds, repeated=True, state=after)
    destination.refuse_inputs(split.path for split in splits)
    numbers = {path: i for i, path in enumerate(dict.fromkeys(split.path for split in splits))}
    session = spark
    if session is None:
        from ..session import start_session

        session = start_session(master)
    try:
        destination.begin()
        if options.keys is not None:
            destination.keep_private()
        options = _loaded(options, whole, runner(session))
        if xa == "committed":
            options = replace(options, prepared=_prepared(options, whole, runner(session)))
        writer = SplitWriter(
            destination.staging,
            options,
            compression,
            limits or WriteLimits(),
            destination.prefix,
            destination.nested,
            output_options,
            numbers,
            counter(session),
            exact_splits=exact,
        )
        try:
            results, reread = run_splits(session, writer, splits, progress, done)
        except BinlogError:
            raise
        except Exception as error:
            raise destination.failure() or spark_failure(error) from error
        tables = destination.commit(results)
    finally:
        destination.abort()
        if spark is None:
            session.stop()
    after = None if resuming is None else _finished(resuming, tables, results, logs, options)
    names = {f"{table.database}.{table.table}" for table in tables}
    missing = tuple(
        pattern
        for pattern in options.tables or ()
        if not any(sign in pattern for sign in "*?[")
        and not any(matches_name(name, pattern) for name in names)
    )
    seconds = time.perf_counter() - began
    return ExportResult(place, run, tables, results, seconds, reread, missing=missing, state=after)


def _finished(
    resuming: Resuming,
    tables: list[TableResult],
    results: list[WrittenSplit],
    logs: Paths,
    options: ReadOptions,
) -> ExportState:
    resuming.finish(tables, results)
    return resuming.measure(plan_splits(logs, storage_options=options.storage_options))


def _destination(
    format: str,
    output: str,
    run_id: str,
    overwrite: bool,
    catalog: Mapping[str, str] | str | None,
    storage_options: dict[str, Any] | None,
) -> Destination:
    if format == "parquet":
        return ParquetDirectory(output, run_id, overwrite=overwrite, storage_options=storage_options)
    if overwrite:
        raise ValueError(f"overwrite: a run is appended to {format} tables")
    from ..lake.tables import DeltaTables, IcebergTables

    if format == "delta":
        return DeltaTables(output, run_id, storage_options=storage_options)
    if format == "iceberg":
        return IcebergTables(output, run_id, catalog, storage_options=storage_options)
    raise ValueError(f"format={format!r}: parquet, delta and iceberg are known")


def _loaded(options: ReadOptions, logs: list[Split], run: Run) -> ReadOptions:
    # Workers may not see the file, and a server shall be asked once.
    if isinstance(options.schema, Timeline | None):
        return options
    if not options.follows:
        return replace(options, schema=Schema.load(options.schema))

    def wanted(name: str) -> bool:
        return is_wanted_name(name, options.tables, options.exclude_tables)

    tracker = tracker_of(options.schema_start)
    timeline = follow_definitions(logs, options.access, tracker, wanted=wanted, run=run)
    return replace(options, schema=timeline, schema_start=None)


def _prepared(options: ReadOptions, logs: list[Split], run: Run) -> dict[str, tuple[Prepared, ...]]:
    history = XaHistory(options.access)
    history.follow(logs, run=run)
    return {log.path: found for log in logs if (found := history.prepared(log))}
