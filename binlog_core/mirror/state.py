"""A mirror's own data in the lake: its server, its tables, and the position of each."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from .._base import new_files
from .._base.options import Deletes
from .._base.own_files import held, open_itself
from .._decode.selection import is_wanted_name
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
from .columns import EVERY_COLUMN, ColumnRules, ColumnSettings
from .holder import Held, Holder
from .renaming import Names, renamed

_STATE, _LOCK = "state.json", "lock"
_LOCK_TRIES, _LOCK_PAUSE = 10, 0.02
ARCHIVE = "archive"
CHANGES = "changes"  # of the current round
COPIES = "copies"  # notes about chunks that are read, by the copies' ids
_KEYS = "keys"  # the key indexes of tables
_HISTORY = "history"  # the directory of a table has a dot in its name
_FORMAT = 1
HEAL = 10e9  # bytes
FORMATS = ("delta", "iceberg")
GTIDS = "gtids"  # in an offset

Stage = Literal["copying", "following", "parked", "paused", "dropped"]
Offset = dict[str, Any]


@dataclass
class TableState:
    """How far a table has come.

    Parameters
    ----------
    database, name : str
        The names of the database and the table.
    stage : "copying", "following", "parked", "paused" or "dropped"
        Its first copy is not complete; it is kept up to date; it stopped for a reason; somebody stopped it;
        the server dropped it.
    place : int or None
        The place in the log up to which it has everything (file number * 2**40 + offset): a key of
        `MirrorState.offsets`.
    exact_from : int
        From this place on it is as it was on the server. Before it, a statement that changes its columns
        leads to a new copy.
    reason : str or None
        Why it stopped.
    failures : int
        How often in a row it could not be written.
    copy : dict or None
        The fields of the copy that is being made: see `copies.Copy`.
    keyless : bool
        Whether it has no key, so that it is copied again after changes.
    as_of : float or None
        It has everything that the server had committed by then, in seconds since 1970 UTC.
    history : int or None
        The place up to which its history has everything; if it is not `place`, the history has a gap.
    again : str or None
        For a parked table, the stage in which it is tried again; None if it is not. For a paused one, the
        stage in which it goes on.
    compacted : float
        When it was last checked for small files, in seconds since 1970 UTC.
    left : list of str
        The ids of ended copies that may have left files behind.
    gone : bool
        Whether the log shows that it was dropped or renamed, after its last copy.
    suspect : str or None
        Why it may lack changes since its last copy, although it is followed.
    unlogged : list of str
        The names of its columns that are left out, and null, because the server does not log their changes.
    columns : dict
        What became of its columns in its last copy: the fields of `columns.ColumnRules`.
    had : dict
        The same, if `columns` was forgotten since.
    renamed : list of str
        The names of database and table in the lake, if they are others.
    healing : str or None
        Why it is to be copied again by itself: the log does not show all of its changes.
    proved : float or None
        When it was last compared with the server's and equal, in seconds since 1970 UTC; None: not since its
        last copy.
    healed : list of (float, int)
        When that was done before, in seconds since 1970 UTC, and the bytes of the copies.
    """

    database: str
    name: str
    stage: Stage = "copying"
    place: int | None = None
    exact_from: int = 0
    reason: str | None = None
    failures: int = 0
    copy: dict[str, Any] | None = None
    keyless: bool = False
    as_of: float | None = None
    history: int | None = None
    again: Stage | None = None
    compacted: float = 0.0
    left: list[str] = field(default_factory=list)
    gone: bool = False
    suspect: str | None = None
    unlogged: list[str] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)
    had: dict[str, Any] = field(default_factory=dict)
    renamed: list[str] = field(default_factory=list)
    healing: str | None = None
    proved: float | None = None
    healed: list[list[float]] = field(default_factory=list)

    @property
    def names(self) -> Names:
        """The names of database and table in the lake."""
        database, name = self.renamed or (self.database, self.name)
        return database, name

    @property
    def rules(self) -> ColumnRules:
        """What becomes of its columns."""
        return ColumnRules.of_json(self.columns)

    @property
    def lake_rules(self) -> ColumnRules:
        """What became of the columns that the lake has."""
        return ColumnRules.of_json(self.columns or self.had)

    @property
    def newest_rules(self) -> ColumnRules:
        """The same in the copy that is being made, if there is one."""
        return self.rules if self.copy is None else ColumnRules.of_json(self.copy.get("columns", {}))

    def note_rules(self, rules: ColumnRules) -> None:
        """Note what becomes of its columns."""
        self.columns, self.had = {} if rules == EVERY_COLUMN else asdict(rules), {}

    def forget_rules(self) -> None:
        """Forget what became of its columns, which may be gone; the lake has them until the next copy."""
        self.columns, self.had = {}, self.columns or self.had

    @cached_property
    def full_name(self) -> str:
        """``database.table``."""
        return full_name(self.database, self.name)

    def to_json(self) -> dict[str, Any]:
        """The form that is stored: what differs from a new table's, since all are saved in each round."""
        own = vars(self)
        return {name: value for name, fresh in _FRESH.items() if (value := own[name]) != fresh}

    def park(self, reason: str, *, again: bool = False) -> None:
        """Stop this table while the others continue; `again`: try it again later."""
        self.again = self.stage if again else None
        self.stage, self.reason = "parked", reason

    def try_again(self) -> None:
        """Continue a parked table if it is to be tried again."""
        if self.stage == "parked" and self.again is not None:
            self.stage, self.again, self.failures = self.again, None, 0
            self.reason = self.healing if self.stage == "copying" else None

    def pause(self) -> None:
        """Stop it until `resume`; a table that stopped for good, or that the server dropped, stays so."""
        going_on = self.again if self.stage == "parked" else self.stage
        if going_on in ("copying", "following"):
            self.stage, self.again, self.reason = "paused", going_on, None

    def resume(self) -> None:
        """Continue a paused table from where it stopped."""
        if self.stage == "paused" and self.again is not None:
            self.stage, self.again, self.failures = self.again, None, 0

    def copy_anew(self, healing: str | None = None) -> None:
        """Have it copied from the beginning; `healing`: why, if nobody asked for it."""
        self.end_copy()
        self.stage, self.reason, self.failures = "copying", healing, 0
        self.healing = None if self.place is None else healing

    def end_copy(self) -> None:
        """End the copy that is being made; its files are still to be removed."""
        if self.copy is not None:
            self.left.append(self.copy["id"])
        self.copy = None


_FRESH = dict(vars(TableState("", "")))


@dataclass
class MirrorState:
    """What is kept between two runs.

    Parameters
    ----------
    id : str
        The mirror's id in the tables' commits.
    server : str
        The server's address, with the user and without a password.
    patterns : tuple of str
        The names and patterns of the tables.
    archive : str
        The directory or URL of the archive of the server's logs.
    format : "delta" or "iceberg"
        The format of the tables.
    catalog : dict of str to str
        Properties of Iceberg's catalog that are not secret.
    tables : dict of str to TableState
        The tables, by ``database.table``.
    offsets : dict of int to dict
        What is known about the logs at the tables' places: definitions, open XA transactions, GTIDs.
    round : dict or None
        The part of the log that is being applied. If it is interrupted, exactly this part is repeated.
    history : bool
        Whether all versions of rows are kept too.
    exclude_tables : tuple of str
        The names and patterns of tables that are left out, although a pattern names them.
    amended : tuple of (str, bool)
        Names and patterns that were added (True) or dropped since, at any run: the last that matches decides.
    paused : bool
        Whether all tables are paused, also those that come.
    exclude_columns, mask_columns : tuple of str
        The names and patterns of columns that are left out, and of those that are hashed.
    bigints : bool
        Whether the lake has BIGINT UNSIGNED as BIGINT.
    metadata : tuple of str
        Which columns about the last change of a row it has.
    where : dict of str to str
        Conditions of the rows that the lake has, by names and patterns of tables.
    partition : dict of str to str
        Partitions of files, in the same way.
    soft : tuple of str
        Names and patterns of tables whose deleted rows stay.
    rename : dict of str to str
        New names for tables in the lake: see `renaming`.
    deletes : "copy" or "vectors"
        Whether files whose rows change are written again, or get deletion vectors.
    heal : float
        The most bytes that are copied again by itself for a table in a day.
    behind : dict of str to str
        The tables that are no longer wanted, by the names that they have in the lake, where they stay.
    """

    id: str
    server: str
    patterns: tuple[str, ...]
    archive: str
    format: str = "delta"
    catalog: dict[str, str] = field(default_factory=dict)
    tables: dict[str, TableState] = field(default_factory=dict)
    offsets: dict[int, Offset] = field(default_factory=dict)
    round: dict[str, Any] | None = None
    history: bool = False
    exclude_tables: tuple[str, ...] = ()
    amended: tuple[tuple[str, bool], ...] = ()
    paused: bool = False
    exclude_columns: tuple[str, ...] = ()
    mask_columns: tuple[str, ...] = ()
    bigints: bool = False
    metadata: tuple[str, ...] = ()
    where: dict[str, str] = field(default_factory=dict)
    partition: dict[str, str] = field(default_factory=dict)
    soft: tuple[str, ...] = ()
    rename: dict[str, str] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)
    deletes: Deletes = "copy"
    heal: float = HEAL

    @property
    def has_copies(self) -> bool:
        """Whether the copy of a table was made, or begun."""
        return any(one.place is not None or one.copy is not None for one in self.tables.values())

    def wants(self, table: str) -> bool:
        """Whether a table is to be mirrored."""
        for pattern, wanted in reversed(self.amended):
            if is_wanted_name(table, (pattern,), None):
                return wanted
        return is_wanted_name(table, self.patterns, self.exclude_tables)

    def amend(self, pattern: str, *, wanted: bool) -> None:
        """Want some tables from now on, or do not want them any more, whatever `patterns` say."""
        self.amended = (*(one for one in self.amended if one[0] != pattern), (pattern, wanted))

    def column_settings(self, key: bytes | None) -> ColumnSettings:
        """Which columns are left out or masked, or have another type, and which are added.

        Raises
        ------
        MirrorError
            The key is missing or short.
        """
        try:
            return ColumnSettings(
                exclude=self.exclude_columns,
                mask=self.mask_columns,
                key=key,
                bigints=self.bigints,
                metadata=self.metadata,
                where=self.where,
                partition=self.partition,
                derives=self.format == "delta",
                soft=self.soft,
            )
        except ValueError as error:
            raise MirrorError(str(error)) from None

    def by_names(self) -> dict[Names, list[str]]:
        """The tables by the names that they have in the lake; none if all have their own."""
        found: dict[Names, list[str]] = {}
        for one in self.tables.values() if self.rename else ():
            found.setdefault(one.names, []).append(one.full_name)
        return found

    def begin(self, database: str, table: str) -> TableState:
        """A table that was not known."""
        one = TableState(database, table)
        if (names := renamed(database, table, self.rename)) != (database, table):
            one.renamed = [*names]
        self.tables[one.full_name] = one
        return one

    def leave_unwanted(self) -> list[TableState]:
        """Forget the tables that are no longer wanted, and return them; in the lake they stay as they are."""
        left = [self.tables.pop(name) for name in [*self.tables] if not self.wants(name)]
        self.behind |= {full_name(*one.names): one.full_name for one in left if one.place is not None}
        return left

    def chosen(self, tables: tuple[str, ...]) -> list[TableState]:
        """The tables with some names or patterns; all if none is given.

        Raises
        ------
        MirrorError
            No table matches.
        """
        if not tables:
            return list(self.tables.values())
        found = [one for name, one in self.tables.items() if is_wanted_name(name, tables, None)]
        if not found:
            raise MirrorError(f"the mirror has no table {', '.join(tables)}")
        return found

    def to_json(self) -> dict[str, Any]:
        """The form that is stored; offsets of no table are left out."""
        used = {one.place for one in self.tables.values()}
        found = dict(vars(self))
        found["tables"] = {name: one.to_json() for name, one in self.tables.items()}
        found["offsets"] = {str(place): one for place, one in self.offsets.items() if place in used}
        return {"version": _FORMAT, "saved": time.time(), **found}

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> MirrorState:
        """The state from the result of `to_json`."""
        version = found.pop("version")
        if version != _FORMAT:
            raise ValueError(f"version {version}")
        del found["saved"]
        found["patterns"] = tuple(found["patterns"])
        for name in ("exclude_tables", "exclude_columns", "mask_columns", "metadata", "soft"):
            found[name] = tuple(found.get(name, ()))
        found["amended"] = tuple((pattern, wanted) for pattern, wanted in found.get("amended", ()))
        found["tables"] = {name: TableState(**one) for name, one in found["tables"].items()}
        found["offsets"] = {int(place): one for place, one in found["offsets"].items()}
        return cls(**found)


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
            return MirrorState.of_json(found)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MirrorError(f"the mirror's state cannot be read: {error}", path=path) from error

    def save(self, state: MirrorState) -> None:
        """Save a state atomically, and locally on disk, after all that archive and tables have by it."""
        folder = f"{self.path}/{MIRROR}"
        found = state.to_json()
        if state.archive == self.own(ARCHIVE):  # it stays valid if the lake is moved
            found["archive"] = None
        text = json.dumps(found).encode()  # with indent= it takes ten times as long
        with _writing(self.uri):
            self.filesystem.create_dir(folder, recursive=True)
            self._sync(local_path(state.archive))
            write_whole(self.filesystem, f"{folder}/{_STATE}", text)

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
            import fcntl

            try:
                lock = open_itself(f"{self.path}/{MIRROR}/{_LOCK}", os.O_RDONLY, root=self.path)
            except OSError:
                return holder, False
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                locked = False
            except OSError:
                locked = True
            finally:
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
        import fcntl

        with _writing(self.uri):
            self.filesystem.create_dir(f"{self.path}/{MIRROR}", recursive=True)
            # Neither cut nor through a link: it may be a file of others that has this name, too.
            lock = open_itself(f"{self.path}/{MIRROR}/{_LOCK}", os.O_RDWR | os.O_CREAT, root=self.path)
        try:
            try:
                for left in reversed(range(_LOCK_TRIES)):
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:  # maybe by who only asks whether it is locked: see `worker`
                        if not left:
                            raise
                        time.sleep(_LOCK_PAUSE)
            except OSError:
                holder = self.held.read()
                who = f": {holder}" if holder is not None and not holder.ended else ""
                raise MirrorError(f"another process is working on this mirror{who}", path=self.uri) from None
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


def new_state(server: str, patterns: tuple[str, ...], archive: str) -> MirrorState:
    """The state of a new mirror."""
    if not patterns:
        raise ValueError("tables=(): expected names or patterns of tables")
    return MirrorState(uuid.uuid4().hex, server, patterns, archive)


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
