"""The second stage of an export: staged rows of many splits become files of tables.

`divide` looks at the index of the staged files, once, and makes tasks: several small tables, or a part of a
large one. It writes down in a file what each is to read. `write` writes the files of a task's tables, and a
part of the manifest for each; only counts go back to the driver. `merged` does both with a `Runner` and gives
the driver one table after another.
"""

from __future__ import annotations

import base64
import contextlib
import json
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._sources.object_stores import load_json, telling
from ...errors import BinlogError
from ..rows.types import import_pyarrow
from ..runner import Runner, ended_early, go_on
from .destination import BUCKETS, STAGED_ROWS, note_failure, open_filesystem, write_whole
from .parquet_writer import parquet_writer
from .results import FileStatistics, TableFiles, WrittenSplit
from .split_runs import Progress, Report
from .staged import PLACED, StagedFiles, definition_of, definition_text, from_text, to_text
from .writer import PartWriter, WriteLimits

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LISTING = f"names{STAGED_ROWS}"
_PIECES = 1 << 21  # of an index that one worker divides: it opens all staged files
_TASKS = 2_000  # at most, of large tables: requests grow with them times the splits
_TASK_FILES = 4  # of the size asked for, in memory
_TASK_BYTES = 512 << 20  # without one
_LEAST_TASK_BYTES = 32 << 20  # since each task may open all staged files
_SAMPLE_BYTES, _SAMPLE_PIECES = 8 << 20, 64
_THREADS = 16


@dataclass(frozen=True, slots=True)
class TableTask:
    """Some tables, or a part of one.

    Parameters
    ----------
    plan : str
        The file with the pieces of staged files to read, as `PLACED`.
    first, last : int
        Those of the task: from `first` on, and before `last`.
    """

    plan: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class WrittenTables:
    """What a task has written.

    Parameters
    ----------
    part : str
        The file with what is told of the tables: a line for each.
    tables : tuple of (str, str)
        Their databases and names, in the order of the lines.
    """

    part: str
    tables: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TableWriter:
    """Writes staged rows into the files of their tables.

    Parameters
    ----------
    staging : str
        The path or URL of the directory with the staged files, to write into.
    compression, limits, file_size, prefix, nested, storage_options
        See `SplitWriter`.
    """

    staging: str
    compression: str | None = None
    limits: WriteLimits = field(default_factory=WriteLimits)
    file_size: int | None = None
    prefix: str = ""
    nested: bool = False
    storage_options: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def _task_bytes(self) -> int:
        if self.file_size is None:
            return _TASK_BYTES
        return max(_TASK_FILES * self.file_size, _LEAST_TASK_BYTES)

    def merged(
        self,
        splits: Sequence[WrittenSplit],
        light: Runner,
        runner: Runner,
        progress: Report | None = None,
    ) -> Iterator[TableFiles] | None:
        """The tables of staged rows by database and name, each with its files in the order of the logs.

        Parameters
        ----------
        splits : sequence of WrittenSplit
            What was staged, in the order of the logs.
        light, runner : Runner
            Who divides the work, and who does it.
        progress : callable of Progress or None
            Called when a task's files are written.

        Returns
        -------
        iterator of (database, table, list of FileStatistics), or None
            None: nothing was staged.

        Raises
        ------
        BinlogError
            The files cannot be read or written.
        """
        staged = [one.staged for one in splits if one.staged is not None]
        if not staged:
            return None
        filesystem, directory = open_filesystem(self.staging, self.storage_options)
        names = [name for one in staged for name in one.names]
        if not names:
            return iter(())
        with self._naming_output():
            write_whole(filesystem, f"{directory}/{self.prefix}{_LISTING}", json.dumps(names).encode())
        count = max(1, -(-sum(one.pieces for one in staged) // _PIECES))
        edges = [BUCKETS * i // count for i in range(count + 1)]
        size = max(self._task_bytes, sum(one.bytes for one in staged) // _TASKS)
        tasks = chain.from_iterable(light.map(self.divide, [(*pair, size) for pair in pairwise(edges)]))
        numbered = list(enumerate(tasks))
        log_bytes, rows = (sum(getattr(one, name) for one in splits) for name in ("log_bytes", "rows"))
        found: dict[int, WrittenTables] = {}

        def tell() -> None:
            if progress is not None:
                progress(Progress(len(found), len(numbered), log_bytes, rows, "tables"))

        tell()
        with ended_early(runner.each(self._numbered, numbered)) as each:
            for number, one in each:
                found[number] = one
                tell()
        written = [found[number] for number, _ in numbered]
        return self._tables(filesystem, directory, written)

    def _numbered(self, task: tuple[int, TableTask]) -> tuple[int, WrittenTables]:
        return task[0], self.write(task)

    def _tables(
        self, filesystem: Any, directory: str, written: Sequence[WrittenTables]
    ) -> Iterator[TableFiles]:
        def load(one: WrittenTables) -> list[str]:
            path = f"{directory}/{one.part}"
            with telling(path), filesystem.open_input_stream(path) as source:
                lines: list[str] = source.read().decode().split("\n")
            if len(lines) != len(one.tables):
                raise BinlogError("not what this export wrote: it was changed", path=path)
            return lines

        found: dict[tuple[str, str], list[str]] = {}
        with ThreadPoolExecutor(_THREADS) as threads:
            for one, lines in zip(written, threads.map(load, written), strict=True):
                for names, line in zip(one.tables, lines, strict=True):
                    found.setdefault(names, []).append(line)
        for database, table in sorted(found):
            with self._naming_output():
                files = [file for line in found.pop((database, table)) for file in _files_of(line)]
            yield database, table, files

    @contextlib.contextmanager
    def _naming_output(self) -> Iterator[None]:
        """Make each error one of the output, such as a full disk."""
        try:
            yield
        except BinlogError as error:
            raise error.located(path=self.staging) from error.__cause__
        except Exception as error:
            reason = f"the output cannot be written: {type(error).__name__}: {error}"
            raise BinlogError(reason, path=self.staging) from error

    # ------------------------------------------------------------ of workers

    def divide(self, share: tuple[int, int, int]) -> list[TableTask]:
        """Tasks of at most so many bytes for tables: those with buckets from a first to before a last."""
        with self._naming_output():
            return self._divide(*share)

    def _divide(self, low: int, high: int, most: int) -> list[TableTask]:
        filesystem, directory = open_filesystem(self.staging, self.storage_options)
        pieces = self._staged().pieces(low, high)
        _, starts = np.unique(pieces["bucket"], return_index=True)
        found: list[tuple[int, int]] = []
        begin, tables, waiting = 0, 0, 0
        for first, last in pairwise([*starts.tolist(), len(pieces)]):
            size = int(pieces["bytes"][first:last].sum())
            if tables and (waiting + size > most or tables >= self.limits.open_files):
                found.append((begin, first))
                begin, tables, waiting = first, 0, 0
            if size > most:
                edges = self._divided(pieces[first:last], most)
                found += ((first + start, first + end) for start, end in pairwise(edges))
                begin = last
            else:
                tables, waiting = tables + 1, waiting + size
        if tables:
            found.append((begin, len(pieces)))
        name = f"{self.prefix}d{low:08x}-{uuid.uuid4().hex[:8]}.plan{STAGED_ROWS}"
        write_whole(filesystem, f"{directory}/{name}", pieces.tobytes())
        return [TableTask(name, *pair) for pair in found]

    def _divided(self, pieces: NDArray[np.void], most: int) -> list[int]:
        """Where the parts of a large table begin and end, each of at least one file of the size asked for."""
        sizes = pieces["bytes"].astype(np.int64)
        total, files = int(sizes.sum()), 1
        if self.file_size is not None:
            files = int(total * self._rate(pieces) // self.file_size)
        count = max(1, min(files, total // most))
        cuts = np.searchsorted(np.cumsum(sizes), [total * i // count for i in range(1, count)])
        return sorted({0, *cuts.tolist(), len(pieces)})

    def _rate(self, pieces: NDArray[np.void]) -> float:
        """Bytes of Parquet for each byte of a table's rows, by those of some staged files.

        They are not too few: Parquet then takes far more for each.
        """
        pa, found, size = import_pyarrow(), list[Any](), 0
        for told, rows in self._staged().rows(pieces[:_SAMPLE_PIECES]):
            if found and rows.schema != found[0].schema:
                break
            found.append(rows)
            size += told.bytes
            if size >= _SAMPLE_BYTES:
                break
        every = pa.concat_tables(found)
        rows = every.slice(0, max(1, every.num_rows * _SAMPLE_BYTES // max(size, _SAMPLE_BYTES)))
        with pa.BufferOutputStream() as sink:
            with parquet_writer(sink, rows.schema, rows, delta=False, codec=self.compression) as writer:
                writer.write_table(rows)
            return float(sink.tell() / (size * rows.num_rows / every.num_rows))

    def write(self, task: tuple[int, TableTask]) -> WrittenTables:
        """Write the files of a task; if it fails, only a note of the error is left.

        Raises
        ------
        BinlogError
            The files cannot be read or written.
        """
        number, of = task
        filesystem, directory = open_filesystem(self.staging, self.storage_options)
        name = f"{self.prefix}t{number:05}-{uuid.uuid4().hex[:8]}"  # no attempt overwrites another's files
        try:
            with self._naming_output():
                return self._write(filesystem, directory, name, of)
        except BinlogError as error:
            note_failure(filesystem, directory, name, error)
            raise

    def _write(self, filesystem: Any, directory: str, name: str, task: TableTask) -> WrittenTables:
        plan = f"{directory}/{task.plan}"
        with telling(plan), filesystem.open_input_file(plan) as source:
            size = (task.last - task.first) * PLACED.itemsize
            pieces = np.frombuffer(source.read_at(size, task.first * PLACED.itemsize), PLACED)
        if len(pieces) != task.last - task.first:
            raise BinlogError("not what this export wrote: it was changed", path=plan)
        buckets, places = np.unique(pieces["bucket"], return_inverse=True)
        sizes = np.zeros(len(buckets), np.int64)
        np.add.at(sizes, places, pieces["bytes"].astype(np.int64))
        left = dict(zip(buckets.tolist(), sizes.tolist(), strict=True))
        writer = PartWriter(
            filesystem,
            directory,
            name,
            0,
            nested=self.nested,
            compression=self.compression,
            limits=self.limits,
            file_size=self.file_size,
            left=left,
        )
        try:
            for told, rows in self._staged().rows(pieces):
                go_on()
                writer.append(told, rows)
            done = writer.finish()
        except BaseException:
            writer.abort()
            raise
        tables: dict[tuple[str, str], list[FileStatistics]] = {}
        for file in sorted(done, key=lambda one: one.name.rpartition("/")[2]):  # as they were begun
            tables.setdefault((file.database, file.table), []).append(file)
        part = f"{name}.tables{STAGED_ROWS}"
        write_whole(filesystem, f"{directory}/{part}", "\n".join(map(_line_of, tables.values())).encode())
        return WrittenTables(part, tuple(tables))

    def _staged(self) -> StagedFiles:
        filesystem, directory = open_filesystem(self.staging, self.storage_options)
        listing = f"{directory}/{self.prefix}{_LISTING}"
        with telling(listing):
            names = load_json(filesystem, listing)
        return StagedFiles(filesystem, [f"{directory}/{name}" for name in names])


def _line_of(files: list[FileStatistics]) -> str:
    """What is told of a table's files, in a line; schemas and definitions only once."""
    schemas, definitions = dict[str, int](), dict[str, int]()
    told = []
    for file in files:
        assert file.definition is not None
        schema = base64.b64encode(file.schema.serialize()).decode()
        places = (
            schemas.setdefault(schema, len(schemas)),
            definitions.setdefault(definition_text(file.definition), len(definitions)),
        )
        told.append([to_text(file), *places])
    return json.dumps([told, list(schemas), list(definitions)])


def _files_of(line: str) -> list[FileStatistics]:
    pa = import_pyarrow()
    told, texts, definitions = json.loads(line)
    schemas = [pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) for text in texts]
    known = [definition_of(text) for text in definitions]
    return [from_text(text, schemas[schema], known[place]) for text, schema, place in told]
