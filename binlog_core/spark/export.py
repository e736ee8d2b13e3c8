"""The export job: logs into one Parquet directory per table, written by the workers themselves."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..errors import BinlogError
from ..report import BinlogWarning, Place
from ..schema import Schema
from .destination import Destination, TableResult, note_failure, open_filesystem
from .parquet import FileStatistics, PartWriter, WriteLimits
from .read import ReadOptions, SplitReader
from .schema import import_pyarrow
from .splits import Logs, Split, plan_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class SplitResult:
    """What a worker says of a split that it has written.

    Parameters
    ----------
    split : Split
    files : tuple of FileStatistics
    counts : dict of str to int
        What the log did not tell, skipped or lost: see ``binlog_core.Report``.
    first : dict of str to Place
        The first place of each.
    tail : str or None
        Why reading ended before the end of the file.
    end_position : int
        Everything before it is written.
    seconds, cpu_seconds : float
    """

    split: Split
    files: tuple[FileStatistics, ...]
    counts: dict[str, int]
    first: dict[str, Place]
    tail: str | None
    end_position: int
    seconds: float
    cpu_seconds: float


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
    """

    staging: str
    options: ReadOptions
    compression: str = "snappy"
    limits: WriteLimits = field(default_factory=WriteLimits)

    def __call__(self, splits: Iterable[Split]) -> Iterator[SplitResult]:
        """Write each split."""
        for split in splits:
            yield self.write(split, _attempt())

    def write(self, split: Split, attempt: str) -> SplitResult:
        """Write one split; on failure nothing but a note of the error stays.

        Parameters
        ----------
        split : Split
        attempt : str
            Goes into the files' names, so that attempts cannot write over each other.
        """
        began, cpu = time.perf_counter(), time.process_time()
        filesystem, directory = open_filesystem(self.staging)
        prefix = f"{split.index:05}-{attempt}"
        writer = PartWriter(
            filesystem, directory, prefix, split.index, compression=self.compression, limits=self.limits
        )
        reader = SplitReader(split, self.options)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BinlogWarning)  # counted, and told once by the driver
                for chunk in reader.chunks():
                    writer.write(chunk)
            files = writer.finish()
        except Exception as error:
            writer.abort()
            known = error
            if not isinstance(known, BinlogError):
                known = BinlogError(f"{type(error).__name__}: {error}")
            note_failure(filesystem, directory, prefix, known.located(path=split.path))
            raise
        return SplitResult(
            split,
            tuple(files),
            reader.report.as_dict(),
            dict(reader.report.first),
            f"{reader.tail.reason}, offset {reader.tail.offset}" if reader.tail else None,
            reader.end_position,
            time.perf_counter() - began,
            time.process_time() - cpu,
        )


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote.

    Parameters
    ----------
    output : str
    tables : list of TableResult
        By database and table.
    splits : list of SplitResult
        In the order of the plan.
    seconds : float
        From the plan to the commit.
    """

    output: str
    tables: list[TableResult]
    splits: list[SplitResult]
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        """What the logs did not tell, skipped or lost, in all."""
        total: dict[str, int] = {}
        for split in self.splits:
            for kind, count in split.counts.items():
                total[kind] = total.get(kind, 0) + count
        return total


def export_logs(
    logs: Logs,
    output: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    master: str = "local[*]",
    options: ReadOptions | None = None,
    overwrite: bool = False,
    compression: str = "snappy",
    limits: WriteLimits | None = None,
    progress: Progress | None = None,
) -> ExportResult:
    """Write the row changes of binary logs as Parquet, one directory per table, on Spark.

    Parameters
    ----------
    logs : str, path or iterable of them
        See `plan_splits`. Workers read them by the same paths.
    output : str or path
        Directory or URL; it appears when all is written. ``OUTPUT/database.table/v1-….parquet``, where v2 and
        so on are later definitions of the table, and ``OUTPUT/_manifest.json``.
    spark : SparkSession or None
        Not of Spark Connect, which has no ``mapPartitions``. None: one is started, and stopped at the end.
    master : str
        For the session that is started.
    options : ReadOptions or None
        A schema of a path or server is read once, here.
    overwrite : bool
        Replace an earlier export.
    compression : str
        Of Parquet: snappy, zstd, …
    limits : WriteLimits or None
    progress : callable of (int, int) or None
        Called with the splits done and the number of splits, from another thread.

    Returns
    -------
    ExportResult

    Raises
    ------
    BinlogError
        A log cannot be read (with path and offset), the output exists or cannot be written, Spark fails. Then
        nothing is in the output, or what was there before.
    MissingExtraError
        pyspark, pyarrow or Java is missing.
    """
    import_pyarrow()
    began = time.perf_counter()
    options = _loaded(options or ReadOptions())
    splits = plan_splits(logs, storage_options=options.storage_options)
    destination = Destination(os.fspath(output), overwrite=overwrite)
    destination.refuse_inputs(split.path for split in splits)
    session = spark
    if session is None:
        from .session import start_session

        session = start_session(master)
    try:
        destination.begin()
        writer = SplitWriter(destination.staging, options, compression, limits or WriteLimits())
        try:
            results = _run(session, writer, splits, progress)
        except Exception as error:
            raise destination.failure() or _spark_failure(error) from error
        files = [file for result in results for file in result.files]
        tables = destination.commit(files, [_describe(result) for result in results])
    finally:
        destination.abort()
        if spark is None:
            session.stop()
    return ExportResult(os.fspath(output), tables, results, time.perf_counter() - began)


def _loaded(options: ReadOptions) -> ReadOptions:
    # Workers may not see the file, and a server shall be asked once.
    if options.schema is None or options.schema == "ddl":
        return options
    return replace(options, schema=Schema.load(options.schema))


def _run(
    session: SparkSession, writer: SplitWriter, splits: list[Split], progress: Progress | None
) -> list[SplitResult]:
    context = session.sparkContext
    group = f"binlog_core-{uuid.uuid4().hex}"
    context.setJobGroup(group, f"export of {len(splits)} logs", interruptOnCancel=True)
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(context, group, len(splits), progress, stop), daemon=True)
    try:
        if progress is not None:
            progress(0, len(splits))
            watcher.start()
        found: list[SplitResult] = context.parallelize(splits, len(splits)).mapPartitions(writer).collect()
    except BaseException:
        context.cancelJobGroup(group)  # also on Ctrl-C: no task goes on writing
        raise
    finally:
        stop.set()
        if watcher.is_alive():
            watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    if progress is not None:
        progress(len(splits), len(splits))
    return sorted(found, key=lambda result: result.split.index)


def _watch(context: Any, group: str, total: int, progress: Progress, stop: threading.Event) -> None:
    tracker = context.statusTracker()
    told = 0
    while not stop.wait(_POLL_SECONDS):
        with contextlib.suppress(Exception):  # the job itself tells when Spark is gone
            done = 0
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info else ():
                    found = tracker.getStageInfo(stage)
                    done += found.numCompletedTasks if found else 0
            if done > told:
                told = done
                progress(min(done, total), total)


def _spark_failure(error: Exception) -> BinlogError:
    _, found, trace = str(error).rpartition("Traceback (most recent call last):")
    lines = trace.splitlines()
    if found:  # of a worker; the line that is not indented says what happened
        lines = [line for line in lines if not line.startswith((" ", "\t"))]
    reason = next((line.strip() for line in lines if line.strip()), type(error).__name__)
    return BinlogError(f"the Spark job failed: {reason}")


def _describe(result: SplitResult) -> dict[str, Any]:
    return {
        "path": result.split.path,
        "file_number": result.split.file_number,
        "end_position": result.end_position,
        "tail": result.tail,
        "counts": result.counts,
    }


def _attempt() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return f"a{context.taskAttemptId()}" if context is not None else "a0"
