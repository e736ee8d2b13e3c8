"""Histories of what reads a folder of logs that grows: a Spark stream's offsets, and `export --state`.

Neither needs a JVM: a stream is planned and read as Spark's processes do it, and an export gets a session
that calls its tasks here. The process dies at steps that the history names; the next one goes on from what is
stored.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow.dataset
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.lake.tables.parquet import ParquetDirectory
from binlog_core.spark import export, workers
from binlog_core.spark.changes import ChangeReader, infer_schema
from binlog_core.spark.streaming import BinlogStreamReader

from .history import REST, History, Play, Wrong, history_of
from .model import Transaction

_LEAST = 400  # bytes of a log that a visit finds: its head
_DEATHS = ("", "", "task", "commit", "finish")


@dataclass(frozen=True)
class Visit:
    """A run that takes what is new.

    Parameters
    ----------
    at : float
        Seconds after the world's beginning.
    torn : int
        So many bytes of the last log are not there yet.
    dies : str
        The step at which it dies: "task" while it reads or writes, "commit" before its output counts,
        "finish" before it stores how far it came; "": none.
    """

    at: float
    torn: int
    dies: str


@dataclass(frozen=True)
class Folder(History):
    """A history of a reader of a folder.

    Parameters
    ----------
    visits : tuple of Visit
    most : int
        Bytes that a batch of the stream takes; 0: all.
    split_size : int
        Bytes of a log that one task reads.
    """

    visits: tuple[Visit, ...]
    most: int
    split_size: int


@dataclass(frozen=True)
class Stream(Folder):
    """A history of the offsets of `spark.readStream.format("binlog")`."""

    def run(self) -> None:
        """Let it happen; `Wrong` if the stream is."""
        _in_folder(self, _Streaming)


@dataclass(frozen=True)
class Export(Folder):
    """A history of `export --state`."""

    def run(self) -> None:
        """Let it happen; `Wrong` if the export is."""
        _in_folder(self, _Exporting)


def stream(seed: int) -> Stream:
    """The history of a seed."""
    return Stream(**_values(seed))


def exporter(seed: int) -> Export:
    """The history of a seed."""
    return Export(**_values(seed))


def _values(seed: int) -> dict[str, Any]:
    chance = Random(seed)
    servers = history_of(seed, chance, alone=True)
    last = max((step.at for step in servers.steps), default=0.0)
    times = sorted(chance.uniform(0, last + 5) for _ in range(chance.choice((1, 3, 6))))
    return {one.name: getattr(servers, one.name) for one in fields(servers)} | {
        "visits": tuple(Visit(at, chance.choice((0, 1, 30, 700)), chance.choice(_DEATHS)) for at in times),
        "most": chance.choice((0, 1, 2_000)),
        "split_size": chance.choice((600, 5_000, 1 << 30)),
    }


def _in_folder(history: Folder, kind: Callable[[Folder, Path], _Reading]) -> None:
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="world-") as folder:
        warnings.simplefilter("ignore")
        kind(history, Path(folder)).read()


class Died(BaseException):
    """The process ends here."""


class _Reading(Play):
    """The visits of one history; what takes the rows is in the classes below."""

    def __init__(self, history: Folder, folder: Path) -> None:
        super().__init__(history)
        self.history = history
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.folder = folder

    def read(self) -> None:
        """All visits, and two when nothing happens any more: one ends what has died. Then compare."""
        end = Visit(self.end - REST / 2, 0, "")
        for visit in (*self.history.visits, end, end):
            self.world.let(lambda: False, visit.at - self.world.now())
            self._copy(visit.torn)
            self.visit(visit)
        self.compare()

    def _copy(self, torn: int) -> None:
        """The server's logs, as far as they are there; they only grow."""
        logs = self.writer.logs
        for name, log in logs.items():
            path, data = self.logs / name, log.getvalue()
            if name == self.writer.file:
                before = path.stat().st_size if path.exists() else 0
                data = data[: max(before, _LEAST, len(data) - torn)]
            path.write_bytes(data)

    def wanted(self) -> list[tuple[int, str]]:
        """(number, op) of each change that stayed, in the order of the log."""
        return [one for transaction, *_ in self.committed for one in _stayed(transaction)]

    def visit(self, visit: Visit) -> None:
        """Take what is new."""
        raise NotImplementedError

    def compare(self) -> None:
        """Compare what was taken with what was committed."""
        raise NotImplementedError


def _stayed(transaction: Transaction) -> Iterator[tuple[int, str]]:
    changes = transaction.changes
    if transaction.way == "rollback":
        return
    if transaction.way == "undone" and len(transaction.events) > 1:
        changes = changes[: transaction.events[0]]
    for change in changes:
        yield change.number, change.op


class _Streaming(_Reading):
    def __init__(self, history: Folder, folder: Path) -> None:
        super().__init__(history, folder)
        self._offset: str | None = None  # the checkpoint
        self._got: list[tuple[int, str]] = []
        self._limit = ReadMaxBytes(history.most) if history.most else ReadAllAvailable()

    def visit(self, visit: Visit) -> None:
        """Batches until nothing is new, by a stream that begins with the checkpoint."""
        options = SourceOptions.parse({"splitSize": str(self.history.split_size)})
        changes = ChangeReader.of(options, infer_schema([str(self.logs)], options), projected=False)
        stream = BinlogStreamReader(changes, [str(self.logs)])
        if self._offset is None:
            self._offset = json.dumps(stream.initialOffset())
        while True:
            start = json.loads(self._offset)
            end = json.dumps(stream.latestOffset(start, self._limit))
            if end == self._offset:
                return
            rows = self._rows(stream, start, json.loads(end))
            if visit.dies:  # its sink has the batch; Spark asks for it again, by the same offsets
                stream = BinlogStreamReader(changes, [str(self.logs)])
                if self._rows(stream, start, json.loads(end)) != rows:
                    raise Wrong(f"the batch {start} to {end} is another one when it is read again")
            self._got += rows
            self._offset = end

    def _rows(self, stream: BinlogStreamReader, start: Any, end: Any) -> list[tuple[int, str]]:
        """The rows of a batch, in the order that their columns give."""
        rows = [
            row
            for part in stream.partitions(start, end)
            for records in stream.read(part)
            for row in records.to_pylist()
        ]
        rows.sort(key=lambda row: (row["_commit_version"], row["_change_ordinal"]))
        return [(json.loads(row["after"] or row["before"])["n"], row["_change_type"]) for row in rows]

    def compare(self) -> None:
        """Each change once and in order."""
        wanted, got = self.wanted(), self._got
        if got != wanted:
            at = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), None)
            raise Wrong(f"{len(got)} changes, {len(wanted)} are wanted; the first that differs is {at}")


_STEPS: dict[str, tuple[Any, str]] = {"commit": (ParquetDirectory, "commit"), "finish": (export, "_finished")}


def _leave(output: Any) -> None:
    """What remains of a process that is gone: its files, not its locks."""
    if output._lock is not None and output._lock >= 0:
        os.close(output._lock)
    output._lock = None


class _Exporting(_Reading):
    def visit(self, visit: Visit) -> None:
        """One run of the export."""
        session: Any = _Session(2 if visit.dies == "task" else 1 << 30)
        with ExitStack() as dead:
            dead.enter_context(mock.patch.object(workers, "call_tasks", _Session.call))
            if visit.dies:
                dead.enter_context(mock.patch.object(ParquetDirectory, "abort", _leave))
            if visit.dies in _STEPS:
                dead.enter_context(mock.patch.object(*_STEPS[visit.dies], side_effect=Died))
            dead.enter_context(suppress(Died))
            export.export_logs(
                self.logs,
                self.folder / "out",
                spark=session,
                split_size=self.history.split_size,
                state=self.folder / "state.json",
            )

    def compare(self) -> None:
        """Each change once: tables have no order."""
        got: Counter[tuple[int, str]] = Counter()
        for table in (self.folder / "out").glob("*/*.*"):
            if table.is_dir() and (files := list(table.rglob("*.parquet"))):
                rows = pyarrow.dataset.dataset(files).to_table(columns=["n", "_change_type"])
                ops = [op.removesuffix("_postimage") for op in rows["_change_type"].to_pylist()]
                pairs = zip(rows["n"].to_pylist(), ops, strict=True)
                got.update(one for one in pairs if one[1] != "update_preimage")
        wanted = Counter(self.wanted())
        if got != wanted:
            raise Wrong(
                f"too many: {sorted((got - wanted).items())[:3]}, missing: {sorted(wanted - got)[:3]}"
            )


class _Session:
    """One without a SparkContext, as of Spark Connect; tasks are called here, and it dies before the n-th."""

    def __init__(self, tasks: int) -> None:
        self._left = tasks

    def call(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """The results of a function."""
        return [function(self._begun(task)) for task in tasks]

    def _begun(self, task: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Died
        return task
