"""The export job: logs into Parquet files of one table each, written by the workers themselves."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from ..._decode.selection import is_wanted_name, matches_name
from ...errors import BinlogError
from ...report import BinlogWarning
from ...schema.given import Schema
from ...splits import (
    DEFAULT_SPLIT_SIZE,
    Split,
    SplitBounds,
    SplitResult,
    check_seams,
    plan_splits,
    trust_split,
)
from ..lake.destination import Destination, ParquetDirectory, note_failure, open_filesystem
from ..lake.results import ExportResult, ExportState, TableResult, ToldStatement, WrittenSplit
from ..lake.writer import PartWriter, WriteLimits
from ..plan.definitions import follow_definitions, tracker_of
from ..plan.parts import whole_logs
from ..plan.statements import kind_of, read_statement
from ..plan.xa import XaHistory
from ..rows.read_options import ReadOptions
from ..rows.reader import Chunk, SplitRows
from ..rows.timeline import Timeline
from ..rows.types import import_pyarrow
from ..workers import call_tasks
from .resuming import Resuming

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

    from ..._options import Paths
    from ..rows.observers import LoggedStatement
    from ..rows.prepared import Prepared

Format = Literal["parquet", "delta", "iceberg"]
_POLL_SECONDS = 0.2
_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an export is.

    Parameters
    ----------
    done, total : int
        Splits.
    log_bytes : int
        Bytes of logs that were read.
    rows : int
        Row images that were written.
    """

    done: int
    total: int
    log_bytes: int = 0
    rows: int = 0


@dataclass(frozen=True)
class SplitWriter:
    """The function for ``mapPartitions``: decodes splits, writes Parquet, gives statistics.

    Parameters
    ----------
    staging : str
        Path or URL of the directory to write into.
    options : ReadOptions
    compression : str
    limits : WriteLimits
    prefix : str
        Of the files' names.
    nested : bool
        Each table has a directory of its own.
    storage_options : dict or None
        Of `staging`.
    logs : mapping of str to int
        Numbers of the logs by path.
    done : Accumulator or None
        Told of each split that is written: (splits, bytes of the log, rows).
    exact : bool
        Splits begin and end at transaction boundaries.
    exact_splits : frozenset of int
        Numbers of those that do, where others may not.
    """

    staging: str
    options: ReadOptions
    compression: str = "snappy"
    limits: WriteLimits = field(default_factory=WriteLimits)
    prefix: str = ""
    nested: bool = False
    storage_options: dict[str, Any] | None = field(default=None, repr=False)
    logs: Mapping[str, int] = field(default_factory=dict, repr=False)
    done: Accumulator[tuple[int, int, int]] | None = field(default=None, repr=False)
    exact: bool = False
    exact_splits: frozenset[int] = frozenset()

    def __call__(self, splits: Iterable[Split]) -> Iterator[WrittenSplit]:
        """Write each split."""
        for split in splits:
            result = self.write(split, attempt_name())
            if self.done is not None:
                self.done.add((1, result.log_bytes, result.rows))
            yield result

    def write(self, split: Split, attempt: str) -> WrittenSplit:
        """Write one split; on failure nothing but a note of the error stays.

        Parameters
        ----------
        split : Split
        attempt : str
            Goes into the files' names, so that attempts cannot write over each other.
        """
        filesystem, directory = open_filesystem(self.staging, self.storage_options)
        try:
            try:
                return self._write(filesystem, directory, split, attempt)
            except BinlogError as error:
                again = self._if_deceived(split, error)
                if again is None:
                    raise
                return self._write(filesystem, directory, again, f"{attempt}b")
        except Exception as error:
            known = error
            if not isinstance(known, BinlogError):
                known = BinlogError(f"{type(error).__name__}: {error}", path=split.path)
            name = f"{self.prefix}{split.index:05}-{attempt}"
            note_failure(filesystem, directory, name, known.located(path=split.path))
            raise

    def _if_deceived(self, split: Split, error: BinlogError) -> Split | None:
        """The split with its true anchor, if it began at another: then an error tells nothing of the log."""
        if error.offset is None or split.trusted or split.start == 0:
            return None
        access = self.options.access
        try:
            trusted = trust_split(split, storage_options=access.storage_options)
            with access.file(split.path).open() as source:
                believed = SplitBounds(split, source).first_anchor
        except BinlogError:  # there is damage before it, of which the split that has it tells
            return None
        return trusted if trusted.anchor != believed else None

    def _write(self, filesystem: Any, directory: str, split: Split, attempt: str) -> WrittenSplit:
        began, cpu = time.perf_counter(), time.process_time()
        writer = PartWriter(
            filesystem,
            directory,
            f"{self.prefix}{split.index:05}-{attempt}",
            split.index,
            log=self.logs.get(split.path, 0),
            nested=self.nested,
            compression=self.compression,
            limits=self.limits,
        )
        exact = self.exact or split.index in self.exact_splits
        reader = SplitRows(split, self.options, exact=exact)
        statements: list[ToldStatement] = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BinlogWarning)  # counted, and told once by the driver
                for piece in reader.pieces():
                    if isinstance(piece, Chunk):
                        with self._writing():
                            writer.write(piece)
                    else:
                        statements += _told(piece, split)
            with self._writing():
                files = writer.finish()
        except BaseException:
            writer.abort()
            raise
        seconds = time.perf_counter() - began
        return WrittenSplit(
            split,
            reader.result,
            tuple(files),
            tuple(statements),
            reader.report.as_dict(),
            dict(reader.report.first),
            tuple(reader.report.take_damaged()),
            f"{reader.tail.reason}, offset {reader.tail.offset}" if reader.tail else None,
            reader.end_position,
            reader.bytes_read,
            seconds,
            time.process_time() - cpu,
            seconds - sum(file.seconds for file in files),
        )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A disk that is full is the output's fault, not the log's."""
        try:
            yield
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.staging) from error


def _told(statement: LoggedStatement, split: Split) -> Iterator[ToldStatement]:
    found = read_statement(statement.sql, statement.database, statement.sql_mode)
    if found is None:
        return
    kind = kind_of(statement, found.tables[0]) or found.kind if found.tables else found.kind
    yield ToldStatement(
        split.version_base + statement.transaction,
        statement.ordinal,
        kind,
        found.tables,
        found.database,
        # That a table could be created says that it was not there.
        kind in ("drop", "truncate") or (kind == "create" and (found.replaces or not found.if_not_exists)),
        statement.sql,
    )


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
        A schema of a path or server is read once, here; with "ddl" the statements of all logs are followed
        here, before the job. `_absent` is always there.
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
        without those that were rolled back or have not ended. For that the event headers of all logs are
        walked over here, before the job.
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
    options = replace(_loaded(options, whole_logs(splits)), absent=True, statements=True)
    if xa == "committed":
        options = replace(options, prepared=_prepared(options, whole_logs(splits)))
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
            resuming.clear_remains(place, output_options)
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
        writer = SplitWriter(
            destination.staging,
            options,
            compression,
            limits or WriteLimits(),
            destination.prefix,
            destination.nested,
            output_options,
            numbers,
            _accumulator(session) if hasattr(session, "sparkContext") else None,
            exact_splits=exact,
        )
        try:
            results, reread = _run(session, writer, splits, progress, done)
        except BinlogError:
            raise
        except Exception as error:
            raise destination.failure() or _spark_failure(error) from error
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


def _loaded(options: ReadOptions, logs: list[Split]) -> ReadOptions:
    # Workers may not see the file, and a server shall be asked once.
    if isinstance(options.schema, Timeline | None):
        return options
    if not options.follows:
        return replace(options, schema=Schema.load(options.schema))

    def wanted(name: str) -> bool:
        return is_wanted_name(name, options.tables, options.exclude_tables)

    tracker = tracker_of(options.schema_start)
    timeline = follow_definitions(logs, options.access, tracker, wanted=wanted)
    return replace(options, schema=timeline, schema_start=None)


def _prepared(options: ReadOptions, logs: list[Split]) -> dict[str, tuple[Prepared, ...]]:
    history = XaHistory(options.access)
    history.follow(logs)
    return {log.path: found for log in logs if (found := history.prepared(log))}


def _accumulator(session: SparkSession) -> Accumulator[tuple[int, int, int]]:
    from pyspark import AccumulatorParam

    class Sums(AccumulatorParam[tuple[int, int, int]]):
        def zero(self, value: tuple[int, int, int]) -> tuple[int, int, int]:
            return (0, 0, 0)

        def addInPlace(self, one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
            return (one[0] + other[0], one[1] + other[1], one[2] + other[2])

    return session.sparkContext.accumulator((0, 0, 0), Sums())


def _run(
    session: SparkSession,
    writer: SplitWriter,
    splits: list[Split],
    progress: Callable[[Progress], None] | None,
    done: list[SplitResult],
) -> tuple[list[WrittenSplit], int]:
    """The results of all splits, and how many were read again; `done`: what lies before them."""
    if not hasattr(session, "sparkContext"):
        return _run_connected(session, writer, splits, progress, done)
    context = session.sparkContext
    group = f"binlog_core-{uuid.uuid4().hex}"
    users = {name: context.getLocalProperty(name) for name in _JOB_GROUP}
    context.setJobGroup(group, f"export of {len(splits)} splits", interruptOnCancel=True)
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(writer.done, len(splits), progress, stop), daemon=True)
    try:
        if progress is not None:
            progress(Progress(0, len(splits)))
            watcher.start()
        found, reread = _rounds(
            lambda todo: context.parallelize(todo, len(todo)).mapPartitions(writer).collect(), splits, done
        )
    except BaseException:
        context.cancelJobGroup(group)  # also on Ctrl-C: no task goes on writing
        raise
    finally:
        stop.set()
        if watcher.is_alive():
            watcher.join()
        for name, value in users.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type]
    return _told_all(found, progress), reread


def _run_connected(
    session: SparkSession,
    writer: SplitWriter,
    splits: list[Split],
    progress: Callable[[Progress], None] | None,
    done: list[SplitResult],
) -> tuple[list[WrittenSplit], int]:
    """As `_run`, in a session of Spark Connect, which has no RDDs."""
    if progress is not None:
        progress(Progress(0, len(splits)))
    found, reread = _rounds(
        lambda todo: call_tasks(session, lambda split: writer.write(split, attempt_name()), todo),
        splits,
        done,
    )
    return _told_all(found, progress), reread


def _rounds(
    write: Callable[[list[Split]], list[WrittenSplit]], splits: list[Split], done: list[SplitResult]
) -> tuple[dict[int, WrittenSplit], int]:
    """Write splits, and again those whose seams do not fit, until all do; and how many that were."""
    found: dict[int, WrittenSplit] = {}
    reread, todo = 0, splits
    while todo:
        found |= {one.split.index: one for one in write(todo)}
        todo = check_seams([*done, *(one.seam for one in found.values())])
        reread += len(todo)
    return found, reread


def _told_all(
    found: dict[int, WrittenSplit], progress: Callable[[Progress], None] | None
) -> list[WrittenSplit]:
    results = [found[i] for i in sorted(found)]
    if progress is not None:
        rows, log_bytes = (sum(getattr(one, name) for one in results) for name in ("rows", "log_bytes"))
        progress(Progress(len(results), len(results), log_bytes, rows))
    return results


def _watch(done: Any, total: int, progress: Callable[[Progress], None], stop: threading.Event) -> None:
    told = 0
    while not stop.wait(_POLL_SECONDS):
        splits, log_bytes, rows = done.value
        if splits > told:  # attempts that Spark made in vain may be counted
            told = splits
            progress(Progress(min(splits, total), total, log_bytes, rows))


def _spark_failure(error: Exception) -> BinlogError:
    _, found, trace = str(error).rpartition("Traceback (most recent call last):")
    lines = trace.splitlines()
    if found:  # of a worker; the line that is not indented says what happened
        lines = [line for line in lines if not line.startswith((" ", "\t"))]
    reason = next((line.strip() for line in lines if line.strip()), type(error).__name__)
    return BinlogError(f"the Spark job failed: {reason}")


def attempt_name() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return f"a{context.taskAttemptId()}" if context is not None else "a0"
