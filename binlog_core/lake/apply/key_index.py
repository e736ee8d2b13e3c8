"""The key index of a table: in which file and row a key is, without reading the table.

It is made of runs (`key_runs`), each about all rows of some data files, and data files never change: a run
is true as long as one of its files is in the table, whatever others commit, and whichever of its copies is
put back. A file that no run has is read, until there is so much to read that a run of such files pays. Which
rows are deleted is not the index's matter, but that of the files' vectors.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._base.own_files import held, make_folder, remove, rename
from ..tables.table import DataFile
from . import key_runs
from .jobs import Folder, Jobs
from .key_runs import Keyed, Run, RunDamage, RunFile, Words

if TYPE_CHECKING:
    import pyarrow as pa

_WORTH = 1 << 20  # rows that a round may search by reading them
_ROWS_A_KEY = 16  # that are read in the time in which a run is asked for a key
_SPILLED = 1 << 21  # entries that are put in order together
_READ_ROWS = 1 << 17
_SUFFIX, _NEW = ".keys", ".new"
_DAMAGED = (RunDamage, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


@dataclass(frozen=True)
class KeyIndex:
    """Where the key index of a table is.

    Parameters
    ----------
    folder, root : str
        Its directory, and the lake, below which no folder may be a link.
    salt : bytes
        See `Keyed`: at most 64 bytes.
    """

    folder: str
    root: str
    salt: bytes = field(repr=False)

    def found(
        self,
        files: Sequence[DataFile],
        concerned: Sequence[DataFile],
        key: pa.Schema,
        sought: Iterable[list[pa.Array]],
        count: int,
        place: Folder,
        jobs: Jobs,
    ) -> dict[str, Words]:
        """For each file that need not be read, the rows that have or had one of some keys, in order.

        Parameters
        ----------
        files, concerned : sequence of DataFile
            Those of the table, and those that may have one of the keys.
        key : pyarrow.Schema
            The key's columns, in the types of the table.
        sought : iterable of list of pyarrow.Array
            The keys.
        count : int
            How many they are.
        place : Folder
            The table's directory.
        jobs : Jobs
            Who reads files for new runs.
        """
        keyed = Keyed(tuple(key.names), tuple(map(str, key.types)), self.salt)
        known = {one.name: one for one in files if 0 <= one.rows < key_runs.MOST_ROWS}
        wanted = {one.name for one in concerned} & known.keys()
        words = len(keyed.words([one.combine_chunks() for one in key.empty_table().columns]))
        runs = self._runs(keyed, known, words)
        rest = [known[name] for name in sorted(wanted.difference(*(one.names for one in runs)))]
        if sum(one.rows for one in rest) > max(_WORTH, _ROWS_A_KEY * count):
            runs = self._extended(runs, rest, known, _Builder(self, keyed, key, place), jobs)
        runs = [one for one in runs if one.names & wanted]
        if sum(known[name].rows for one in runs for name in one.names & wanted) <= _ROWS_A_KEY * count:
            return {}
        return self._looked_up(runs, wanted, keyed, sought)

    def _looked_up(
        self, runs: Sequence[_Own], wanted: set[str], keyed: Keyed, sought: Iterable[list[pa.Array]]
    ) -> dict[str, Words]:
        words = [keyed.words(one) for one in sought]
        ordered = key_runs.in_order([np.concatenate(column) for column in zip(*words, strict=True)])
        found: dict[str, Words] = {}
        for run, names in runs:
            try:
                rows = dict(key_runs.by_file(run.find(ordered)))
                for number, one in enumerate(run.files):
                    here = rows.get(number, np.empty(0, np.uint64))
                    if len(here) and int(here[-1]) >= one.rows:
                        raise RunDamage("it has more rows than its file")
                    if one.name in names & wanted:
                        found[one.name] = here
            except RunDamage:  # its files are read, this time
                self.forget(run.path)
        return found

    # ------------------------------------------------------------ runs

    def _runs(self, keyed: Keyed, known: Mapping[str, DataFile], words: int) -> list[_Own]:
        """The runs, the largest first; those that are damaged, or that have no file for themselves, go.

        `words`: how many each key has.
        """
        found = []
        for name in self._names(_SUFFIX):
            path = f"{self.folder}/{name}"
            try:
                run = Run(path, self.root, keyed)
                if run.words != words:
                    raise RunDamage("its keys have another number of words")
                found.append(run)
            except (*_DAMAGED, OSError):
                self.forget(path)
        out: list[_Own] = []
        others: set[str] = set()
        for run in sorted(found, key=lambda one: -one.count):
            names = {one.name for one in run.files if _is_of(one, known)} - others
            if names:
                out.append(_Own(run, names))
                others |= names
            else:
                self.forget(run.path)
        return out

    def _extended(
        self,
        runs: Sequence[_Own],
        files: Sequence[DataFile],
        known: Mapping[str, DataFile],
        builder: _Builder,
        jobs: Jobs,
    ) -> list[_Own]:
        """The runs, with one more for some files: it takes in those that have less than twice its rows."""
        new: list[str] = []
        try:
            make_folder(self.folder, self.root)
            for name in self._names(_NEW):  # of a process that was killed
                self.forget(f"{self.folder}/{name}")
            for written in jobs.run(builder, [*_groups(files)]):
                new += written
            spilled = [Run(path, self.root, builder.keyed) for path in new]
            joined = [_Own(one, {file.name for file in one.files}) for one in spilled]
            size, left = sum(one.rows for one in files), [*runs]
            while left and (smallest := left[-1]).run.count < 2 * size:
                left.pop()
                size += sum(known[name].rows for name in smallest.names)
                joined.append(smallest)
            if not spilled:
                return [*runs]
            path = new[0] if len(joined) == 1 else self._joined(joined, builder.keyed, new)
            final = path.removesuffix(_NEW) + _SUFFIX
            rename(path, final, self.root)
            run = Run(final, self.root, builder.keyed)
            for one in joined:
                self.forget(one.run.path)
            return [_Own(run, {one.name for one in run.files}), *left]
        except RunDamage:  # of one of those that were to be taken in: the next round goes without it
            for one in runs:
                with contextlib.suppress(RunDamage):
                    one.run.check()
                    continue
                self.forget(one.run.path)
        except OSError:  # a full disk, for example: the files are read, as without an index
            return [*runs]
        finally:
            for path in new:
                self.forget(path)
        return []

    def _joined(self, runs: Sequence[_Own], keyed: Keyed, new: list[str]) -> str:
        """Write the entries of runs into one; its path, which `new` gets, too."""
        files: dict[str, RunFile] = {}
        for run, names in runs:
            for one in run.files:
                if one.name in names:
                    _count(files, one)
        at = {name: number for number, name in enumerate(files)}
        numbers = [
            np.array([at[one.name] if one.name in names else -1 for one in run.files], np.int64)
            for run, names in runs
        ]
        for run, _ in runs:
            run.check()
        new.append(self.new_path())
        parts = key_runs.merged([run for run, _ in runs], numbers)
        key_runs.write(new[-1], self.root, keyed, [*files.values()], parts, runs[0].run.words)
        return new[-1]

    def new_path(self) -> str:
        """A path for a run that is not one yet."""
        return f"{self.folder}/{uuid.uuid4().hex}{_NEW}"

    def _names(self, suffix: str) -> list[str]:
        try:
            with held(self.folder, self.root) as folder:
                return sorted(one for one in os.listdir(folder) if one.endswith(suffix))
        except OSError:
            return []

    def forget(self, path: str) -> None:
        """Remove a run, if it can be."""
        with contextlib.suppress(OSError):
            remove(path, self.root)


def _count(files: dict[str, RunFile], part: RunFile) -> None:
    """Add a part of a file's keys to those of its other parts."""
    before = files.get(part.name)
    files[part.name] = part if before is None else part._replace(keys=part.keys + before.keys)


class _Own(NamedTuple):
    """A run, and those of its files that are in the table and in no other run before it."""

    run: Run
    names: set[str]


@dataclass(frozen=True)
class _Builder:
    """Reads the keys of files, and writes them as runs; pickled to the workers.

    A run may have a part of a file's keys: all that it returns together have all.
    """

    index: KeyIndex
    keyed: Keyed
    key: pa.Schema
    place: Folder

    def __call__(self, files: Sequence[DataFile]) -> list[str]:
        """The paths of the runs; files that are not as the table says are left out."""
        written: list[str] = []
        waiting: list[_Part] = []
        count = 0
        try:
            for part in itertools.chain.from_iterable(map(self._parts, files)):
                waiting.append(part)
                count += part.file.keys
                if count >= _SPILLED:
                    written.append(self._written(waiting))
                    waiting, count = [], 0
            if waiting:
                written.append(self._written(waiting))
        except OSError:
            for path in written:
                self.index.forget(path)
            return []
        return written

    def _parts(self, file: DataFile) -> Iterator[_Part]:
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        names = self.key.names
        with self.place.open().open_input_file(file.name) as source:
            parquet = pq.ParquetFile(source)
            if parquet.metadata.num_rows != file.rows or not {*names} <= {*parquet.schema_arrow.names}:
                return
            start = 0
            for batch in parquet.iter_batches(_READ_ROWS, columns=names):
                numbers = np.arange(start, start := start + batch.num_rows)
                columns = [batch[one.name].cast(one.type) for one in self.key]
                if any(one.null_count for one in columns):  # which no key is
                    whole = functools.reduce(pc.and_, (one.is_valid() for one in columns))
                    columns = [one.filter(whole) for one in columns]
                    numbers = numbers[whole.to_numpy(zero_copy_only=False)]
                told = RunFile(file.name, file.bytes, file.rows, len(numbers))
                yield _Part(told, self.keyed.words(columns), numbers)

    def _written(self, parts: Sequence[_Part]) -> str:
        files: dict[str, RunFile] = {}
        for one in parts:
            _count(files, one.file)
        at = {name: number for number, name in enumerate(files)}
        words = [np.concatenate(column) for column in zip(*(one.words for one in parts), strict=True)]
        places = np.concatenate([key_runs.places_of(at[one.file.name], one.rows) for one in parts])
        path, entries = self.index.new_path(), key_runs.in_order([*words, places])
        key_runs.write(path, self.index.root, self.keyed, [*files.values()], [entries], len(words))
        return path


class _Part(NamedTuple):
    """Keys of a file."""

    file: RunFile
    words: list[Words]
    rows: NDArray[np.int64]


def _groups(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Files for tasks that take about as long."""
    group: list[DataFile] = []
    rows = 0
    for one in files:
        group.append(one)
        rows += one.rows
        if rows >= _SPILLED:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _is_of(file: RunFile, known: Mapping[str, DataFile]) -> bool:
    """Whether a run's file is in the table."""
    one = known.get(file.name)
    return one is not None and (one.bytes, one.rows) == (file.bytes, file.rows)
