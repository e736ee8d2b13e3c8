"""The log of a Delta table as it is: read for what deltalake does not tell, and committed to without it.

deltalake neither shows nor writes deletion vectors.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from ..._base.own_files import create, held, remove
from ..._sources.object_stores import telling
from ...errors import BinlogError
from .vectors import Vector

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
# What is read of a checkpoint: not its statistics in columns, whose types are those of the table.
_OF_ADD = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "dataChange",
    "stats",
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
)
_READ = ("protocol", "metaData", *(f"add.{name}" for name in _OF_ADD))
# What tables have that were made before there were lists of features, by the version of their writers.
_WRITERS = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
_WITH_FEATURES = 3, 7  # the versions of readers and writers that have lists of features
FEATURE = "deletionVectors"
_ENABLED = "delta.enableDeletionVectors"


@dataclass
class LogState:
    """What a table's log says at a version.

    Attributes
    ----------
    protocol, metadata : dict
        The actions `protocol` and `metaData`.
    added : dict of str to dict
        The actions `add` of its files, by their paths.
    """

    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    added: dict[str, dict[str, Any]] = field(default_factory=dict)

    def follow(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """Follow the actions of a commit."""
        for action in actions:
            if (one := action.get("remove")) is not None:
                # A commit may have a file's removal after its addition with another vector.
                name = unquote(one["path"])
                known = self.added.get(name)
                if known is not None and _vector_id(known) == _vector_id(one):
                    del self.added[name]
            elif (one := action.get("add")) is not None:
                self.added[unquote(one["path"])] = one
            elif (one := action.get("metaData")) is not None:
                self.metadata = one
            elif (one := action.get("protocol")) is not None:
                self.protocol = one

    def vector(self, name: str, path: str) -> Vector | None:
        """The deletion vector of a file; None if it has none. `path`: of the table, for errors.

        Raises
        ------
        BinlogError
            The vector is not one, or the log lacks the file: its deleted rows are not known.
        """
        where = f"{path.rstrip('/')}/{name}"
        known = self.added.get(unquote(name))
        if known is None:
            raise BinlogError("the table has a file that its log does not name", path=where)
        found = known.get("deletionVector")
        return None if found is None else Vector.of_json(found, where)

    def removal(self, name: str, now: int, *, changes: bool) -> dict[str, Any]:
        """The action that removes a file with the deletion vector that it has."""
        known = self.added[unquote(name)]
        found = {
            "path": known["path"],
            "deletionTimestamp": now,
            "dataChange": changes,
            "extendedFileMetadata": True,
            "partitionValues": known.get("partitionValues", {}),
            "size": known["size"],
        }
        vector = known.get("deletionVector")
        return found if vector is None else {**found, "deletionVector": vector}

    def upgraded(
        self, features: Iterable[str], schema: str | None = None, partition: list[str] | None = None
    ) -> list[dict[str, Any]]:
        """The actions that give a table features that it lacks, another schema or partition."""
        out = []
        wanted = {*features}
        readers, writers = (
            {*(self.protocol.get(name) or ())} for name in ("readerFeatures", "writerFeatures")
        )
        if not wanted <= readers & writers:
            writers |= implied(self.protocol.get("minWriterVersion", 1))
            protocol = {
                "minReaderVersion": _WITH_FEATURES[0],
                "minWriterVersion": _WITH_FEATURES[1],
                "readerFeatures": sorted(readers | wanted),
                "writerFeatures": sorted(writers | wanted),
            }
            out.append({"protocol": protocol})
        properties = dict(self.metadata.get("configuration") or {})
        if FEATURE in wanted:
            properties[_ENABLED] = "true"
        wished = {"configuration": properties, "schemaString": schema or self.metadata["schemaString"]}
        wished |= {} if partition is None else {"partitionColumns": partition}
        metadata = {**self.metadata, **wished}
        if metadata != self.metadata:
            out.append({"metaData": metadata})
        return out


def implied(writer: int) -> set[str]:
    """The features that a version of writers stands for, if it has no list of them."""
    if writer >= _WITH_FEATURES[1]:
        return set()
    return {name for least, names in _WRITERS.items() if writer >= least for name in names}


def _vector_id(action: Mapping[str, Any]) -> tuple[Any, ...]:
    found = action.get("deletionVector") or {}
    return found.get("storageType"), found.get("pathOrInlineDv"), found.get("offset")


def state_of(filesystem: Any, version: int, path: str) -> LogState:
    """The state of a table at a version.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
        The table's directory.
    version : int
        The version.
    path : str
        The table, for errors.

    Raises
    ------
    BinlogError
        The log cannot be read.
    """
    from pyarrow import ArrowException
    from pyarrow.fs import FileSelector

    damaged = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, ArrowException)
    with telling(path):
        names = [
            info.base_name for info in filesystem.get_file_info(FileSelector(_LOG, allow_not_found=True))
        ]
        begin, parts = _checkpoint(names, version)
        state = LogState()
        name = ""
        try:
            for name in parts:
                state.follow(_of_checkpoint(filesystem, f"{_LOG}/{name}"))
            for number in range(begin + 1, version + 1):
                name = f"{number:020}.json"
                with filesystem.open_input_file(f"{_LOG}/{name}") as source:
                    state.follow(_of_commit(bytes(source.read())))
        except FileNotFoundError as error:
            raise BinlogError(f"the table's log lacks {name}", path=path) from error
        except damaged as error:
            raise BinlogError(f"it is not of a table's log: {error}", path=f"{path}/{_LOG}/{name}") from error
    return state


def _checkpoint(names: Sequence[str], version: int) -> tuple[int, list[str]]:
    """The newest whole checkpoint up to a version, and the names of its files; -1 if there is none."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if (one := _CHECKPOINT.fullmatch(name)) is not None and int(one[1]) <= version:
            found.setdefault((int(one[1]), int(one[3] or 1)), []).append(name)
    whole = {place[0]: sorted(files) for place, files in sorted(found.items()) if len(files) == place[1]}
    newest = max(whole, default=-1)
    return newest, whole.get(newest, [])


def _of_checkpoint(filesystem: Any, name: str) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    with filesystem.open_input_file(name) as source:
        file = pq.ParquetFile(source)
        for batch in file.iter_batches(columns=list(_READ)):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                yield {kind: _known(found) for kind, found in row.items() if found is not None}


def _known(action: dict[str, Any]) -> dict[str, Any]:
    """An action of a checkpoint as it was in a commit."""
    return {name: value for name, value in action.items() if value is not None}


def _of_commit(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        if line.strip():
            yield json.loads(line)


def as_json(found: Mapping[str, Any]) -> str:
    """JSON in one line, without escapes: of those for two surrogates, deltalake makes another character."""
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def exists(folder: str, version: int) -> bool:
    """Whether a table in a local directory has a version."""
    return os.path.lexists(f"{folder.rstrip('/')}/{_LOG}/{version:020}.json")


class Taken(Exception):
    """Another writer has made this version."""


def _link(name: str, version: str, folder: int) -> None:
    try:
        os.link(name, version, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError as error:
        both = (os.stat(one, dir_fd=folder, follow_symlinks=False) for one in (name, version))
        if not os.path.samestat(
            *both
        ):  # a network file system may ask twice, and report the first time's link
            raise Taken(version) from error


def commit(folder: str, version: int, actions: Iterable[Mapping[str, Any]]) -> None:
    """Make a version of a table in a local directory, completely or not at all.

    Raises
    ------
    Taken
        There is one.
    OSError
        It cannot be written.
    """
    data = "".join(as_json(one) + "\n" for one in actions).encode()
    log, hidden = f"{folder.rstrip('/')}/{_LOG}", f"_commit_{uuid.uuid4()}.json.tmp"
    try:
        with create(f"{log}/{hidden}", folder) as file:
            file.write(data)
        with held(log, folder) as inside:
            _link(hidden, f"{version:020}.json", inside)
    finally:
        with contextlib.suppress(OSError):
            remove(f"{log}/{hidden}", folder)
