"""The export job: logs into Parquet files of one table each, written by the workers themselves."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from .._base.options import Xa
from .._decode.selection import Selection, check_condition, is_wanted_name, unmatched
from .._tables.full_names import full_name
from .._tables.given_names import NamesMet
from ..errors import BinlogError
from ..lake.plan.long_transactions import divide_transactions
from ..lake.plan.xa import XaHistory
from ..lake.rows.read_options import ReadOptions
from ..lake.rows.types import import_pyarrow
from ..lake.runner import Runner
from ..lake.tables.destination import Destination
from ..lake.tables.merging import TableWriter
from ..lake.tables.parquet import ParquetDirectory
from ..lake.tables.results import ExportResult, ExportState, TableResult, WrittenSplit
from ..lake.tables.resuming import Resuming, alone_with
from ..lake.tables.split_runs import Progress, run_splits
from ..lake.tables.split_writer import SplitWriter
from ..lake.tables.staged import StagedWriter
from ..lake.tables.writer import DEFAULT_FILE_SIZE, PartWriter, WriteLimits
from ..schema.given import Schema
from ..schema.timeline import DefinitionTimeline
from ..splits import DEFAULT_SPLIT_SIZE, Split, SplitResult, plan_splits
from ..splits.following import follow_definitions, tracker_of
from ..splits.split import whole_logs
from .reasons import spark_failure
from .workers import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..lake.rows.prepared import Prepared
    from ..log.options import Paths

Format = Literal["parquet", "delta", "iceberg"]
_FEW_SPLITS = 3  # each then writes its tables' files itself: hardly more than the size asks for


def export_logs(
    logs: Paths,
    output: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    options: ReadOptions | None = None,
    overwrite: bool = False,
    compression: str | None = None,
    limits: WriteLimits | None = None,
    progress: Callable[[Progress], None] | None = None,
    split_size: int | None = DEFAULT_SPLIT_SIZE,
    file_size: int | None = DEFAULT_FILE_SIZE,
    format: Format = "parquet",
    run_id: str | None = None,
    catalog: Mapping[str, str] | str | None = None,
    output_options: dict[str, Any] | None = None,
    xa: Xa = "prepared",
    state: str | os.PathLike[str] | None = None,
    runner: Runner | None = None,
) -> ExportResult:
    """Write the row changes of binary logs as Parquet, one directory per table, on Spark or without it.

    Parameters
    ----------
    logs : str, path or iterable of them
        The logs, as for `plan_splits`. Workers read them by the same paths.
    output : str or path
        A directory or URL. Each table has the directory ``OUTPUT/database.table``.
    spark : SparkSession or None
        The session, which can be one of Connect; `progress` is then called only when a stage begins and ends.
        None starts a session, and stops it at the end.
    master : str or None
        The master for a session that is started; None: ``local[*]``.
    options : ReadOptions or None
        How the logs are read. A schema from a path or server is read once, in this process; with "ddl", the
        workers first collect the statements of all logs, and this process follows them. `_absent` is always
        added.
    overwrite : bool
        Replace an earlier export; for Parquet only.
    compression : str or None
        Parquet's codec: snappy, zstd, … By default zstd, and snappy for small files.
    limits : WriteLimits or None
        Limits on the files and memory of a worker.
    progress : callable of Progress or None
        Called whenever splits are done, then for tasks that write tables' files.
    split_size : int or None
        The most bytes of a log that one task reads, small logs together; None or 0 gives each task a whole
        log.
    file_size : int or None
        The bytes of a file after which a table's next rows go to another. Of more than three splits, rows are
        staged in Arrow's format, and then written table by table, so that a table has hardly more files than
        this asks for. None or 0: one file for each table and definition, as far as memory allows.
    format : "parquet", "delta" or "iceberg"
        "parquet" writes files ``v1-….parquet`` with a manifest, which appear when all are written; v2 and so
        on are later definitions of the table. "delta" appends to Delta tables in one commit each (needs
        deltalake). "iceberg" does the same to Iceberg tables ``database.table`` of a catalog (needs
        pyiceberg).
    run_id : str or None
        The name of this run: what is already committed under it is not written again. None makes a new one.
    catalog : mapping, str or None
        Iceberg's catalog: properties for ``pyiceberg.catalog.load_catalog``, or its name in the
        configuration.
    output_options : dict or None
        Credentials and endpoint of the output's store: see ``object_stores.arrow_filesystem``.
    xa : "prepared" or "committed"
        "prepared" gives rows of XA transactions as they are logged, at XA PREPARE. "committed" gives them the
        version and time of XA COMMIT, and leaves out those that were rolled back or have not ended; for that,
        workers first read the event headers of all logs.
    state : str, path or None
        A file that records how far the logs are exported. The next call with it writes what is new, up to the
        last transaction that has ended. Parquet then goes to a directory for each run, ``OUTPUT/000001`` and
        so on.
    runner : Runner or None
        Who reads and writes, instead of Spark: `LocalRunner` has threads of this process do it, without Java.
        The files and commits are the same.

    Returns
    -------
    ExportResult
        What was written, with the `state` if one was given.

    Raises
    ------
    BinlogError
        A log cannot be read (with path and offset), the output exists or cannot be written, or Spark fails.
        Nothing of the run is committed then. Delta and Iceberg tables are the exception: each has its own
        commits, so some may be committed before a later one fails. Repeat the run with the same `run_id`.
    ConditionError
        The condition of `options` fits no table that has changes, or no definition of a table given by name,
        or a value in it does not fit its column there. Nothing is committed then.
    MissingExtraError
        pyarrow, the library of the format or, without a `runner`, pyspark or Java is missing.

    Notes
    -----
    The export checks that every split began where the one before it ended, and reads a split again if it
    did not.
    """
    import_pyarrow()
    began = time.perf_counter()
    if xa not in ("prepared", "committed"):
        raise ValueError(f"xa={xa!r}: expected prepared or committed")
    if file_size is not None and file_size < 0:
        raise ValueError(f"file_size={file_size}: expected bytes, or 0 for no limit")
    for name, given in (("spark", spark), ("master", master)):
        if given is not None and runner is not None:
            raise ValueError(f"{name} cannot be combined with runner")
    if spark is not None and master is not None:
        raise ValueError("master cannot be combined with spark: the session has one")
    options = options or ReadOptions()
    if state is not None and (run_id is not None or overwrite or xa == "committed"):
        raise ValueError("state cannot be combined with run_id, overwrite or xa=committed")
    with ExitStack() as ended:
        if state is not None:
            ended.enter_context(alone_with(os.fspath(state)))
        splits = plan_splits(logs, split_size, storage_options=options.storage_options)
        options = replace(options, absent=True, statements=True)
        whole = whole_logs(splits)
        run, place, exact = run_id or uuid.uuid4().hex, os.fspath(output), frozenset[int]()
        resuming, done = None, list[SplitResult]()
        if state is not None:
            resuming = Resuming(os.fspath(state), place, options.access, output_options)
            splits, exact = resuming.begin(splits)
            done = resuming.done(splits)
            if not splits:
                known = resuming.measure(plan_splits(logs, storage_options=options.storage_options))
                return ExportResult(place, known.id, [], [], time.perf_counter() - began, state=known)
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
        if session is None and runner is None:
            from .session import start_session

            session = start_session(master or "local[*]")
            ended.callback(session.stop)
        ended.callback(destination.abort)
        workers: Runner = runner or SparkRunner(session)  # type: ignore[arg-type]
        destination.begin()
        if options.keys is not None:
            destination.keep_private()
        options = _loaded(options, whole, workers)
        if xa == "committed":
            options = replace(options, prepared=_prepared(options, whole, workers))
        if not exact:
            splits = divide_transactions(splits, options, workers)
        common: dict[str, Any] = {
            "compression": compression,
            "limits": limits or WriteLimits(),
            "file_size": file_size or None,
            "prefix": destination.prefix,
            "nested": destination.nested,
            "storage_options": output_options,
        }
        writer = SplitWriter(
            destination.staging,
            options,
            logs=numbers,
            exact_splits=exact,
            parts=StagedWriter if len(splits) > _FEW_SPLITS else PartWriter,
            **common,
        )
        try:
            tables_of = TableWriter(destination.staging, **common)
            again = workers if session is None else SparkRunner(session, 1, again=True)
            results, reread = run_splits(again, writer, splits, progress, done, split_size)
            _check_where(options, results, whole=resuming is None)
            merged = tables_of.merged(results, workers.light, again, progress)
        except BinlogError:
            raise
        except Exception as error:
            if (noted := destination.failure()) is None and session is None:
                raise
            raise noted or spark_failure(error) from error
        tables = destination.commit(results, merged)
        after = None if resuming is None else _finished(resuming, tables, results, logs, options)
        names = {full_name(table.database, table.table) for table in tables}
        missing = tuple(
            pattern
            for pattern in unmatched(options.tables or (), names)
            if not any(sign in pattern for sign in "*?[")
        )
        seconds = time.perf_counter() - began
        return ExportResult(place, run, tables, results, seconds, reread, missing=missing, state=after)


def _check_where(options: ReadOptions, results: list[WrittenSplit], *, whole: bool) -> None:
    """Refuse a condition as ``Log.rows`` does; `whole`: the run does not continue another.

    Such a run may just have no changes of the tables that the condition fits.

    Raises
    ------
    ConditionError
    """
    met = NamesMet()
    fitting: Any = dict.fromkeys(name for one in results for name in one.fits)
    met.fitting = fitting
    for one in results:
        for name, error in one.unfit.items():
            met.unfit(name, error)
    check_condition(Selection(tables=options.tables, met=met), whole=whole)


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
        raise ValueError(f"overwrite: expected format parquet, runs are appended to {format} tables")
    from ..lake.tables.tables import DeltaTables, IcebergTables

    if format == "delta":
        return DeltaTables(output, run_id, storage_options=storage_options)
    if format == "iceberg":
        return IcebergTables(output, run_id, catalog, storage_options=storage_options)
    raise ValueError(f"format={format!r}: expected parquet, delta or iceberg")


def _loaded(options: ReadOptions, logs: list[Split], run: Runner) -> ReadOptions:
    # Workers may not see the file, and a server should be asked only once.
    if isinstance(options.schema, DefinitionTimeline | None):
        return options
    if not options.follows:
        return replace(options, schema=Schema.load(options.schema))

    def wanted(name: str) -> bool:
        return is_wanted_name(name, options.tables, options.exclude_tables)

    tracker = tracker_of(options.schema_start)
    timeline = follow_definitions(logs, options.access, tracker, wanted=wanted, run=run)
    return replace(options, schema=timeline, schema_start=None)


def _prepared(options: ReadOptions, logs: list[Split], run: Runner) -> dict[str, tuple[Prepared, ...]]:
    history = XaHistory(options.access)
    history.follow(logs, run=run)
    return {log.path: found for log in logs if (found := history.prepared(log))}
