"""A mirror's own data in the lake: its server, its tables, and the position of each."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from ..._decode.selection import is_wanted_name
from ..._exports.manifests import MIRROR
from ..._sources.deltas import delta_options
from ..._sources.object_stores import load_json
from ..._tables.full_names import full_name
from ...errors import MirrorError
from ..apply.jobs import Folder
from ..lake.delta import DeltaLakeTable
from ..lake.destination import directory_name, open_filesystem, write_whole
from ..lake.iceberg import IcebergLakeTable, load_iceberg_catalog, without_secrets
from ..lake.table import FileTable

_STATE, _LOCK = "state.json", "lock"
ARCHIVE = "archive"
CHANGES = "changes"  # of the current round
_HISTORY = "history"  # the directory of a table has a dot in its name
_FORMAT = 1
FORMATS = ("delta", "iceberg")
GTIDS = "gtids"  # in an offset

Stage = Literal["copying", "following", "parked", "dropped"]
Offset = dict[str, Any]


@dataclass
class TableState:
    """How far a table is.

    Parameters
    ----------
    database, name : str
    stage : "copying", "following", "parked" or "dropped"
        Its first copy is not whole; it is kept up to date; it stopped, for a reason; the server dropped it.
    place : int or None
        Up to where the log is in it (file number * 2**40 + offset): a key of `MirrorState.offsets`.
    exact_from : int
        From this place on it is as it was on the server. Before, a statement that changes its columns makes a
        new copy.
    reason : str or None
        Why it stopped.
    failures : int
        How often in a row it could not be written.
    copy : dict or None
        The copy that is being made: see `copies.Copy`.
    keyless : bool
        It has no key: it is copied again when it has changed.
    as_of : float or None
        Seconds since 1970: everything that the server had committed by then is in it.
    history : int or None
        Its history has all up to here; another place than the table's: it has a gap.
    again : str or None
        For a parked table: the stage in which it continues when it is tried again; otherwise None.
    compacted : float
        Seconds since 1970: when its small files were last looked for.
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

    @property
    def full_name(self) -> str:
        """``database.table``."""
        return full_name(self.database, self.name)

    def park(self, reason: str, *, again: bool = False) -> None:
        """Stop this table while the others continue; `again`: the fault may go away."""
        self.again = self.stage if again else None
        self.stage, self.reason = "parked", reason

    def try_again(self) -> None:
        """Continue where it stopped, if that may help."""
        if self.stage == "parked" and self.again is not None:
            self.stage, self.again, self.reason, self.failures = self.again, None, None, 0

    def copy_anew(self) -> None:
        """It is copied from the beginning."""
        self.stage, self.copy, self.reason, self.failures = "copying", None, None, 0


@dataclass
class MirrorState:
    """All that is kept between two runs.

    Parameters
    ----------
    id : str
        Names the mirror in the tables' commits.
    server : str
        Its address, with the user and without a password.
    patterns : tuple of str
        Patterns of the tables' names.
    archive : str
    format : "delta" or "iceberg"
    catalog : dict of str to str
        Properties of Iceberg's catalog that are not secret.
    tables : dict of str to TableState
    offsets : dict of int to dict
        What is known about the logs at the tables' places: definitions, open XA transactions.
    round : dict or None
        The part of the log that is being applied: it is repeated as it was, whatever came since.
    history : bool
        All versions of rows are kept besides.
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

    def wants(self, table: str) -> bool:
        """Whether a table is to be mirrored."""
        return is_wanted_name(table, self.patterns, None)

    def chosen(self, tables: tuple[str, ...]) -> list[TableState]:
        """The tables of some names or patterns; all without any.

        Raises
        ------
        MirrorError
            None matches.
        """
        if not tables:
            return list(self.tables.values())
        found = [one for name, one in self.tables.items() if is_wanted_name(name, tables, None)]
        if not found:
            raise MirrorError(f"the mirror has no table {', '.join(tables)}")
        return found

    def to_json(self) -> dict[str, Any]:
        """The stored form; offsets that no table is at are left out."""
        used = {one.place for one in self.tables.values()}
        found = dict(vars(self))
        found["tables"] = {name: vars(one) for name, one in self.tables.items()}
        found["offsets"] = {str(place): one for place, one in self.offsets.items() if place in used}
        return {"version": _FORMAT, "saved": time.time(), **found}

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> MirrorState:
        """What `to_json` gave."""
        version = found.pop("version")
        if version != _FORMAT:
            raise ValueError(f"version {version}")
        del found["saved"]
        found["patterns"] = tuple(found["patterns"])
        found["tables"] = {name: TableState(**one) for name, one in found["tables"].items()}
        found["offsets"] = {int(place): one for place, one in found["offsets"].items()}
        return cls(**found)


class Lake:
    """The directory with a mirror's tables and its state.

    Parameters
    ----------
    uri : str
    storage_options : dict or None
        Credentials and endpoint of its store.
    """

    def __init__(self, uri: str, storage_options: dict[str, Any] | None = None) -> None:
        self.uri = uri.rstrip("/")
        self.storage_options = storage_options
        self.filesystem, self.path = open_filesystem(self.uri, storage_options)
        self._catalog: Any = None  # None: its tables are Delta tables

    def use(self, state: MirrorState, catalog: Mapping[str, str] | str | None = None) -> None:
        """Have its tables in the format of a mirror; properties of the catalog are kept with its state.

        Raises
        ------
        ValueError
            There is a catalog, and the tables are Delta tables.
        BinlogError
            The catalog cannot be opened.
        MissingExtraError
            pyiceberg is not installed.
        """
        given = {"name": catalog} if isinstance(catalog, str) else dict(catalog or {})
        if state.format == "iceberg":
            properties = {**state.catalog, **given}
            self._catalog = load_iceberg_catalog(properties or None, self.storage_options)
            state.catalog = without_secrets(properties)
        elif given:
            raise ValueError("catalog=: expected only with format='iceberg'")

    @property
    def is_local(self) -> bool:
        """It is a directory of this machine."""
        return bool(self.filesystem.type_name == "local")

    @property
    def is_delta(self) -> bool:
        """Its tables are Delta tables."""
        return self._catalog is None

    def own(self, name: str) -> str:
        """URI of something of the mirror's own."""
        return f"{self.uri}/{MIRROR}/{name}"

    def table(self, state: TableState, history: int = 0) -> str:
        """URI of a table, or, from 1 on, of those that its history is in."""
        name = directory_name(state.database, state.name)
        if history:
            name = f"{_HISTORY}/{name}" + (f".v{history}" if history > 1 else "")
        root = self.path if self.is_local and self._catalog is not None else self.uri
        return f"{root}/{name}"

    def opened(self, state: TableState, history: int = 0) -> FileTable:
        """A table in its present state."""
        uri = self.table(state, history)
        if self._catalog is None:
            return DeltaLakeTable(uri, delta_options(self.storage_options))
        name = state.name + (f"__{_HISTORY}" if history else "") + (f"__v{history}" if history > 1 else "")
        return IcebergLakeTable(self._catalog, (state.database, name), uri)

    def folder(self, state: TableState, history: int = 0) -> Folder:
        """A table's files."""
        uri = self.table(state, history)
        if self.is_delta:
            return Folder(uri, delta_options(self.storage_options), delta=True)
        return Folder(uri, self.storage_options)

    def load(self) -> MirrorState | None:
        """The mirror that is here; None: none is.

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
        """Save a state atomically."""
        folder = f"{self.path}/{MIRROR}"
        found = state.to_json()
        if state.archive == self.own(ARCHIVE):  # wherever the lake is moved
            found["archive"] = None
        text = json.dumps(found).encode()  # with indent= it takes ten times as long
        with _writing(self.uri):
            self.filesystem.create_dir(folder, recursive=True)
            write_whole(self.filesystem, f"{folder}/{_STATE}", text)

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

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Ensure that no other process of this machine mirrors into this lake.

        Raises
        ------
        MirrorError
            Another process does.
        """
        if not self.is_local:
            yield
            return
        import fcntl

        with _writing(self.uri):
            self.filesystem.create_dir(f"{self.path}/{MIRROR}", recursive=True)
            lock = open(f"{self.path}/{MIRROR}/{_LOCK}", "w")  # noqa: SIM115  (closed below)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise MirrorError("another process is working on this mirror", path=self.uri) from None
            yield
        finally:
            with suppress(OSError):  # nothing was written
                lock.close()


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
    """The mirror in a lake, which has its tables in the mirror's format from now on.

    Raises
    ------
    MirrorError
        There is none.
    """
    found = lake.load()
    if found is None:
        raise MirrorError(
            "the lake has no mirror: expected one that 'mirror SERVER LAKE' made", path=lake.uri
        )
    lake.use(found, catalog)
    return found
