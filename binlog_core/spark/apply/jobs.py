"""Where the work of an apply is done, here or by Spark's workers, and where its files lie meanwhile."""

from __future__ import annotations

import contextlib
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...errors import BinlogError
from ..lake.destination import open_filesystem
from ..rows.types import CHANGE_COLUMNS, import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Place:
    """A directory that the driver and all workers reach.

    Parameters
    ----------
    root : str
        Path or URL.
    options : dict or None
        Of its store.
    delta : bool
        They are those of deltalake, whose own file system is used then.
    """

    root: str
    options: dict[str, Any] | None = field(default=None, repr=False)
    delta: bool = False

    def open(self) -> Any:
        """A pyarrow file system whose paths begin here."""
        from pyarrow import fs

        if self._in_delta:
            from deltalake.fs import DeltaStorageHandler

            return fs.PyFileSystem(DeltaStorageHandler(self.root, self.options))
        filesystem, path = open_filesystem(self.root, self.options)
        return fs.SubTreeFileSystem(path, filesystem)

    @property
    def _in_delta(self) -> bool:
        return self.delta and "://" in self.root

    def inner(self, name: str) -> Place:
        """A directory in this one."""
        return Place(f"{self.root.rstrip('/')}/{name}", self.options, self.delta)

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Place]:
        """A new directory in this one that is gone at the end; this one, too, if it is empty then."""
        inner = self.inner(f"_binlog_{uuid.uuid4().hex}")
        inner.make()
        try:
            yield inner
        finally:
            with contextlib.suppress(OSError, NotImplementedError):
                self.open().delete_dir(inner.root.rpartition("/")[2])
            self.unmake()

    def make(self) -> None:
        """Make the directory, in a store that has some."""
        if not self._in_delta:
            filesystem, path = open_filesystem(self.root, self.options)
            filesystem.create_dir(path, recursive=True)

    def unmake(self) -> None:
        """Delete the directory if it is empty."""
        from pyarrow.fs import FileSelector

        with contextlib.suppress(OSError):
            if not self._in_delta:
                filesystem, path = open_filesystem(self.root, self.options)
                if not filesystem.get_file_info(FileSelector(path)):
                    filesystem.delete_dir(path)


class Jobs(Protocol):
    """Who does the work."""

    def stage(
        self, function: Callable[[Iterable[pa.RecordBatch]], _Result], *, together: bool = False
    ) -> list[_Result]:
        """Call a function with the batches of each partition; `together`: a transaction in one, in order."""
        ...

    def run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """Call a function with each task; results in their order."""
        ...


@dataclass(frozen=True)
class Here:
    """This process; the changes are a table."""

    changes: pa.Table

    def stage(
        self, function: Callable[[Iterable[pa.RecordBatch]], _Result], *, together: bool = False
    ) -> list[_Result]:
        """See `Jobs`."""
        order = [("_commit_version", "ascending"), ("_change_ordinal", "ascending")]
        return [function(self.changes.sort_by(order).to_batches())]

    def run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """See `Jobs`."""
        return [function(task) for task in tasks]


@dataclass(frozen=True)
class OnSpark:
    """Workers of Spark, also of Connect; the changes are a DataFrame."""

    spark: SparkSession
    changes: DataFrame

    def stage(
        self, function: Callable[[Iterable[pa.RecordBatch]], _Result], *, together: bool = False
    ) -> list[_Result]:
        """See `Jobs`."""
        frame = self.changes
        if together:
            version, ordinal = CHANGE_COLUMNS[1], CHANGE_COLUMNS[3]
            frame = frame.repartition(version).sortWithinPartitions(version, ordinal)
        return _collected(frame.mapInArrow(_told(function), "result binary"))

    def run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """See `Jobs`."""
        if not tasks:
            return []

        def work(ids: Iterable[pa.RecordBatch]) -> list[tuple[int, _Result]]:
            return [(i, function(tasks[i])) for batch in ids for i in batch.column(0).to_pylist()]

        frame = self.spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(_told(work), "result binary")
        found = dict(one for results in _collected(frame) for one in results)
        return [found[i] for i in range(len(tasks))]


def _told(function: Callable[[Iterable[pa.RecordBatch]], Any]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``; what it raises on purpose comes back as what it is, not as text."""

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa = import_pyarrow()
        try:
            result = (True, function(batches))
        except (ValueError, BinlogError) as error:
            result = (False, error)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(result)], pa.binary())], ["result"])

    return tell


def _collected(frame: DataFrame) -> list[Any]:
    results = [pickle.loads(one) for one in frame.toArrow().column(0).to_pylist()]
    for fine, result in results:
        if not fine:
            raise result
    return [result for _, result in results]
