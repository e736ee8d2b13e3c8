"""Where the work of an apply is done, here or by Spark's workers, and where its files lie in the meantime."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..._base.change_columns import LAKE_COLUMNS
from ..rows.types import import_pyarrow
from ..tables.delta import delta_filesystem
from ..tables.destination import open_filesystem
from ..tables.partitions import Partition

if TYPE_CHECKING:
    import pyarrow as pa

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
PLACE = LAKE_COLUMNS[1], LAKE_COLUMNS[3]  # of a change in the order of all


@dataclass(frozen=True)
class Folder:
    """A directory that the driver and all workers reach.

    Parameters
    ----------
    root : str
        Its path or URL.
    options : dict or None
        Options for its store.
    delta : bool
        Whether these are options of deltalake, whose own file system is used then.
    attempt: str
        Part of the data files' names, by which an attempt finds its files.
    partition : tuple of PartitionField
        By what the rows of data files are divided.
    """

    root: str
    options: dict[str, Any] | None = field(default=None, repr=False)
    delta: bool = False
    attempt: str = ""
    partition: Partition = ()

    @property
    def file_prefix(self) -> str:
        """The beginning of the names of data files that are written here."""
        return f"part-{self.attempt}"

    def open(self) -> Any:
        """A pyarrow file system whose paths begin here."""
        from pyarrow import fs

        if self._in_delta:
            return delta_filesystem(self.root, self.options)
        filesystem, path = open_filesystem(self.root, self.options)
        if filesystem.type_name == "local":
            from ..tables.local_files import LocalFolder

            return LocalFolder(path)
        return fs.SubTreeFileSystem(path, filesystem)

    @property
    def _in_delta(self) -> bool:
        return self.delta and "://" in self.root

    def inner(self, name: str) -> Folder:
        """A directory in this one."""
        return Folder(f"{self.root.rstrip('/')}/{name}", self.options, self.delta)

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Folder]:
        """A new directory in this one, deleted at the end; so is this one, if it is empty then."""
        inner = self.inner(f"_binlog_{uuid.uuid4().hex}")
        inner.make()
        try:
            yield inner
        finally:
            with contextlib.suppress(OSError, NotImplementedError):
                self.open().delete_dir(inner.root.rpartition("/")[2])
            self.unmake()

    def make(self) -> None:
        """Make the directory, if the store has directories."""
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


@dataclass(frozen=True)
class InMemory(Folder):
    """A directory in memory, for work in this process."""

    files: dict[str, Any] = field(default_factory=dict, repr=False)

    def open(self) -> Any:
        """This object, which has the functions of a file system that are needed."""
        return self

    def open_output_stream(self, name: str) -> Any:
        """A new file."""
        self.files[name] = import_pyarrow().BufferOutputStream()
        return self.files[name]

    def open_input_file(self, name: str) -> Any:
        """A file that was written and closed."""
        return import_pyarrow().BufferReader(self.files[name].getvalue())


class Jobs(Protocol):
    """The changes, and who does the work with them."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the changes."""
        ...

    def renamed(self, names: Mapping[str, str]) -> Jobs:
        """The same, with other names for some columns."""
        ...

    def stage(
        self, function: Callable[[Iterable[pa.RecordBatch]], _Result], *, together: bool = False
    ) -> list[_Result]:
        """Call a function with the batches of each partition; `together`: no transaction is divided."""
        ...

    def run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """Call a function with each task; results in their order."""
        ...


@dataclass(frozen=True)
class Here:
    """This process; the changes are a table."""

    changes: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """The schema of the changes."""
        return self.changes.schema

    def renamed(self, names: Mapping[str, str]) -> Here:
        """The same, with other names for some columns."""
        changes = self.changes
        return replace(self, changes=changes.rename_columns([names.get(n, n) for n in changes.column_names]))

    def stage(
        self, function: Callable[[Iterable[pa.RecordBatch]], _Result], *, together: bool = False
    ) -> list[_Result]:
        """Call a function with the batches of each partition; `together`: no transaction is divided."""
        changes = self.changes
        if not _in_order(changes):
            changes = changes.sort_by([(name, "ascending") for name in PLACE])
        return [function(changes.to_batches())]

    def run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """Call a function with each task; results in their order."""
        return [function(task) for task in tasks]


def _in_order(changes: pa.Table) -> bool:
    version, ordinal = (changes[name].to_numpy() for name in PLACE)
    later = version[1:] > version[:-1]
    return bool((later | ((version[1:] == version[:-1]) & (ordinal[1:] > ordinal[:-1]))).all())
