"""The directory of a mirror: its tables, its own files, and who works on it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from .._base import new_files
from .._base.own_files import held, locks, open_itself
from .._sources.deltas import delta_options, import_deltalake
from .._sources.object_stores import load_json
from .._sources.places import local_path
from .._tables.full_names import full_name
from ..errors import MirrorError
from ..lake.apply.jobs import Folder
from ..lake.apply.key_index import KeyIndex
from ..lake.exports.manifests import MIRROR
from ..lake.tables.delta import DeltaLakeTable
from ..lake.tables.destination import directory_name, open_filesystem, write_whole
from ..lake.tables.iceberg import IcebergLakeTable, load_iceberg_catalog, without_secrets
from ..lake.tables.partitions import Partition
from ..lake.tables.table import FileTable
from .columns import ColumnRules
from .holder import Held, Holder
from .renaming import Names
from .state import MirrorState, StateTexts, TableState

_STATE, _ROUND, _LOCK = "state.json", "round.json", "lock"
_LOCK_TRIES, _LOCK_PAUSE = 10, 0.02
ARCHIVE = "archive"
CHANGES = "changes"  # of the current round
COPIES = "copies"  # notes about chunks that are read, by the copies' ids
_KEYS = "keys"  # the key indexes of tables
_HISTORY = "history"  # the directory of a table has a dot in its name


class Lake:
    """The directory with a mirror's tables and its state.

    Parameters
    ----------
    uri : str
        Its path or URL.
    storage_options : dict or None
        Credentials and endpoint of its store.
    """

    def __init__(self, uri: str, storage_options: dict[str, Any] | None = None) -> None:
        self.uri = uri.rstrip("/")
        self.storage_options = storage_options
        self.filesystem, self.path = open_filesystem(self.uri, storage_options)
        self._catalog: Any = None  # None: its tables are Delta tables
        self.vectors = False  # whether rounds write deletion vectors
        self.held = Held(self.filesystem, self.path)
        self._texts, self._saved = StateTexts(), 0.0

    def use(self, state: MirrorState, catalog: Mapping[str, str] | str | None = None) -> None:
        """Use a mirror's format for the tables; properties of the catalog are kept in the mirror's state.

        Raises
        ------
        ValueError
            A catalog is given, and the tables are Delta tables; or these tables can have no deletion vectors.
        BinlogError
            The catalog cannot be opened.
        MissingExtraError
            The library of the format is not installed.
        """
        given = {"name": catalog} if isinstance(catalog, str) else dict(catalog or {})
        self.check_vectors(state)
        self.vectors = state.deletes == "vectors"
        if state.format == "iceberg":
            properties = {**state.catalog, **given}
            self._catalog = load_iceberg_catalog(properties or None, self.storage_options)
            state.catalog = without_secrets(properties)
            return
        if given:
            raise ValueError("catalog=: expected only with format='iceberg'")
        import_deltalake()

    def check_vectors(self, state: MirrorState) -> None:
        """Check that the tables can have deletion vectors, if they are to.

        Raises
        ------
        ValueError
            They cannot.
        """
        if state.deletes == "vectors" and (state.format != "delta" or not self.is_local):
            raise ValueError("deletes='vectors': expected Delta tables in a directory")

    @property
    def is_local(self) -> bool:
        """Whether it is a local directory."""
        return bool(self.filesystem.type_name == "local")

    @property
    def is_delta(self) -> bool:
        """Whether its tables are Delta tables."""
        return self._catalog is None

    def own(self, name: str) -> str:
        """The URI of one of the mirror's own files or directories."""
        return f"{self.uri}/{MIRROR}/{name}"

    def table(self, state: TableState, history: int = 0) -> str:
        """The URI of a table, or with `history` from 1 on, of a table of its history."""
        name = directory_name(*state.names)
        if history:
            name = f"{_HISTORY}/{name}" + (f".v{history}" if history > 1 else "")
        root = self.path if self.is_local and self._catalog is not None else self.uri
        return f"{root}/{name}"

    def opened(self, state: TableState, history: int = 0, *, rules: ColumnRules | None = None) -> FileTable:
        """A table, opened in its present state; `history` as for `table`.

        `rules`: of the copy that is to be put in its place.
        """
        partition = () if history else (rules or state.lake_rules).divided_by
        if self.is_delta:
            return DeltaLakeTable(self.table(state, history), delta_options(self.storage_options), partition)
        return self._of_catalog(state, history, partition)

    def other(
        self, state: TableState, mirror: MirrorState, named: Mapping[Names, Sequence[str]]
    ) -> str | None:
        """Why the table of its name in the lake, if there is one, is not that of a table without a copy.

        `named`: see `MirrorState.by_names`.
        """
        if state.place is not None:
            return None
        others = (one for one in named.get(state.names, ()) if one != state.full_name)
        if (other := next(others, None)) is not None:
            return f"{other} would have the same name in the lake: rename one of them otherwise"
        table, left = self.opened(state), mirror.behind.get(full_name(*state.names), state.full_name)
        if table.exists and table.applied(mirror.id) is None:
            return "the lake has a table of that name that this mirror did not make: move it away"
        if table.exists and left != state.full_name:
            return f"the lake has {left} under that name, which is mirrored no longer: move it away"
        return None

    def check_no_other(
        self, state: TableState, mirror: MirrorState, named: Mapping[Names, Sequence[str]]
    ) -> None:
        """Refuse to put a copy in place of a table that was not made by a mirror, or for another table.

        Raises
        ------
        MirrorError
            There is such a table.
        """
        if (reason := self.other(state, mirror, named)) is not None:
            raise MirrorError(reason, path=self.table(state))

    def _of_catalog(self, state: TableState, history: int, partition: Partition = ()) -> IcebergLakeTable:
        database, name = state.names
        name += (f"__{_HISTORY}" if history else "") + (f"__v{history}" if history > 1 else "")
        place = self.table(state, history)
        return IcebergLakeTable(self._catalog, (database, name), place, partition=partition)

    def folder(self, state: TableState, history: int = 0) -> Folder:
        """The directory of a table's files; `history` as for `table`.

        Raises
        ------
        BinlogError
            A REST catalog, which chooses it, does not make the table.
        """
        if self.is_delta:
            return Folder(self.table(state, history), delta_options(self.storage_options), delta=True)
        return Folder(self._of_catalog(state, history).place(), self.storage_options)

    def key_index(self, state: TableState, mirror: str) -> KeyIndex | None:
        """The key index of a table, by the mirror's id; None: rounds write no deletion vectors."""
        if not self.vectors:
            return None
        folder = f"{self.path}/{MIRROR}/{_KEYS}/{directory_name(*state.names)}"
        return KeyIndex(folder, self.path, mirror.encode())

    def remove_key_indexes(self, mirror: MirrorState) -> None:
        """Remove those of tables that are mirrored no longer, or all if rounds write no deletion vectors."""
        from pyarrow.fs import FileSelector

        tables = (one for one in mirror.tables.values() if self.vectors and one.stage != "dropped")
        kept = {directory_name(*one.names) for one in tables}
        folder = FileSelector(f"{self.path}/{MIRROR}/{_KEYS}", allow_not_found=True)
        for info in self.filesystem.get_file_info(folder):
            if info.base_name not in kept:
                self.remove(f"{_KEYS}/{info.base_name}")

    def load(self) -> MirrorState | None:
        """The state of the mirror in this lake; None if there is none.

        Raises
        ------
        MirrorError
            It cannot be read.
        """
        from pyarrow.fs import FileType

        path = f"{self.path}/{MIRROR}/{_STATE}"
        try:
            if self.filesystem.get_file_info(path).type is not FileType.File:
                return None
            found = load_json(self.filesystem, path)
            found["archive"] = found["archive"] or self.own(ARCHIVE)
            self._saved = found["saved"]
            state = MirrorState.of_json(found)
            path = f"{self.path}/{MIRROR}/{_ROUND}"
            if self.filesystem.get_file_info(path).type is FileType.File:
                noted = load_json(self.filesystem, path)
                if noted["saved"] == self._saved:  # otherwise the state was saved after it, and has its end
                    state.round = noted["round"]
            return state
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MirrorError(f"the mirror's state cannot be read: {error}", path=path) from error

    def save(self, state: MirrorState) -> None:
        """Save a state atomically, and locally on disk, after all that archive and tables have by it."""
        saved = time.time()
        if state.archive == self.own(ARCHIVE):  # it stays valid if the lake is moved
            text = replace(state, archive="").to_json(self._texts, saved)
        else:
            text = state.to_json(self._texts, saved)
        self._write(_STATE, text, state)
        self._saved = saved

    def begin_round(self, state: MirrorState) -> None:
        """Save that a round begins, and nothing else of a state that was saved."""
        self._write(_ROUND, json.dumps({"saved": self._saved, "round": state.round}), state)

    def _write(self, name: str, text: str, state: MirrorState) -> None:
        folder = f"{self.path}/{MIRROR}"
        with _writing(self.uri):
            self.filesystem.create_dir(folder, recursive=True)
            self._sync(local_path(state.archive))
            write_whole(self.filesystem, f"{folder}/{name}", text.encode())

    def _sync(self, archive: str | None) -> None:
        """Have a local archive on disk that is not on the lake's file system.

        What the tables have is read from it at once, before the archiver syncs it. Another server, from which
        it goes on after a power failure, would send again what was lost.
        """
        if archive is None or not os.path.isdir(archive):
            return
        with held(archive) as folder:
            if not self.is_local or os.fstat(folder).st_dev != os.stat(self.path).st_dev:
                new_files.sync_filesystem(folder)

    def make(self, name: str) -> None:
        """Make one of the mirror's own folders, empty.

        Raises
        ------
        MirrorError
            It cannot be made.
        """
        self.remove(name)
        with _writing(self.uri):
            self.filesystem.create_dir(f"{self.path}/{MIRROR}/{name}", recursive=True)

    def remove(self, name: str) -> None:
        """Remove one of the mirror's own folders, if it exists.

        Raises
        ------
        MirrorError
            It cannot be removed.
        """
        from pyarrow.fs import FileType

        path = f"{self.path}/{MIRROR}/{name}"
        with _writing(path):
            if self.filesystem.get_file_info(path).type is FileType.Directory:
                self.filesystem.delete_dir(path)

    def copied(self, state: TableState) -> float | None:
        """The share of a table's chunks that the copy that is being made has; None if none is made."""
        from pyarrow.fs import FileSelector

        if state.stage != "copying" or state.copy is None:
            return None
        folder = FileSelector(f"{self.path}/{MIRROR}/{COPIES}/{state.copy['id']}", allow_not_found=True)
        done = sum(one.extension == "json" for one in self.filesystem.get_file_info(folder))
        expected: int = max(len(state.copy["chunks"]), state.copy.get("expected", 0))
        return float(min(done / expected, 1))

    def worker(self) -> tuple[Holder | None, bool]:
        """Who works on the mirror or did last, if that is known, and whether they still work."""
        holder = self.held.read()
        if holder is None:
            return None, False
        locked = None
        if self.is_local and holder is not self.held.holder:
            try:
                lock = open_itself(f"{self.path}/{MIRROR}/{_LOCK}", os.O_RDONLY, root=self.path)
            except OSError:
                return holder, False
            locked = not locks(lock, shared=True)
            os.close(lock)
        return holder, self.held.is_at_work(holder, locked=locked)

    def note(self, asked: float | None, place: int | None) -> None:
        """Note that this process works on the mirror; `asked`, `place`: see `Holder`.

        Raises
        ------
        MirrorError
            The lake cannot be written.
        """
        with _writing(self.uri):
            self.held.note(asked, place)

    @contextmanager
    def locked(self, *, works: bool = True) -> Iterator[None]:
        """Ensure that no other process of this machine mirrors into this lake; note that this one does.

        `works`: False if it only changes the state, so that others still see who worked last.

        Raises
        ------
        MirrorError
            Another process does.
        """
        with self._lock():
            with _writing(self.uri):
                self.filesystem.create_dir(f"{self.path}/{MIRROR}", recursive=True)
                if works:
                    self.held.begin()
            try:
                yield
            finally:
                with suppress(OSError):
                    self.held.end()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        if not self.is_local:
            yield
            return
        with _writing(self.uri):
            self.filesystem.create_dir(f"{self.path}/{MIRROR}", recursive=True)
            # Neither cut nor through a link: it may be a file of others that has this name, too.
            lock = open_itself(f"{self.path}/{MIRROR}/{_LOCK}", os.O_RDWR | os.O_CREAT, root=self.path)
        try:
            for left in reversed(range(_LOCK_TRIES)):
                if (alone := locks(lock)) is not False:
                    break
                if left:  # maybe by who only asks whether it is locked: see `worker`
                    time.sleep(_LOCK_PAUSE)
            if alone is None:
                raise MirrorError("the lake cannot be locked: its file system has no locks", path=self.uri)
            if not alone:
                holder = self.held.read()
                who = f": {holder}" if holder is not None and not holder.ended else ""
                raise MirrorError(f"another process is working on this mirror{who}", path=self.uri)
            yield
        finally:
            with suppress(OSError):  # nothing was written
                os.close(lock)


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Raise failures to write as the mirror's own error."""
    try:
        yield
    except OSError as error:
        raise MirrorError(f"the lake cannot be written: {error}", path=path) from error


def opened(lake: Lake, catalog: Mapping[str, str] | str | None = None) -> MirrorState:
    """The state of the mirror in a lake; from now on the lake uses the mirror's format.

    Raises
    ------
    MirrorError
        The lake has no mirror.
    """
    found = loaded(lake)
    lake.use(found, catalog)
    return found


def loaded(lake: Lake) -> MirrorState:
    """The state of the mirror in a lake, for who leaves its tables alone.

    Raises
    ------
    MirrorError
        The lake has no mirror.
    """
    found = lake.load()
    if found is None:
        raise MirrorError(
            "the lake has no mirror: expected one that 'mirror SERVER LAKE' made", path=lake.uri
        )
    return found
