"""What others ask of a running mirror: files in the lake, each answered by another beside it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from .._sources.object_stores import load_json
from ..errors import MirrorError
from ..lake.exports.manifests import MIRROR
from ..lake.tables.destination import write_whole
from .lake import Lake

VERIFY, RESYNC, PAUSE, RESUME, ADD, DROP = "verify", "resync", "pause", "resume", "add", "drop"
_KINDS = (VERIFY, RESYNC, PAUSE, RESUME, ADD, DROP)
_REQUESTS, _ANSWERS = "requests", "answers"
LOOK, LOOK_IN_STORE = 0.2, 5.0  # seconds between two looks
_KEPT = 600.0  # seconds after which an answer that nobody has fetched is removed
_ONE_VERSION = "it has another version of binlog_core: run the mirror and this command with the same one"
_One = TypeVar("_One")


@dataclass(frozen=True)
class Request:
    """Something that a running mirror is asked to do.

    Parameters
    ----------
    id : str
        The name of its file; later ones are greater.
    kind : str
        One of `_KINDS`.
    tables : tuple of str
        Names or patterns of tables; what none means is the kind's.
    """

    id: str
    kind: str
    tables: tuple[str, ...]

    @classmethod
    def of_json(cls, id: str, found: Any) -> Request:
        """The request from the contents of its file.

        Raises
        ------
        ValueError, TypeError, KeyError
            It is something else.
        """
        kind, tables = found["kind"], found["tables"]
        if kind not in _KINDS or type(tables) is not list or not all(type(one) is str for one in tables):
            raise ValueError("not a request")
        return cls(id, kind, tuple(tables))


def told(kind: type[_One], answer: Sequence[Any]) -> list[_One]:
    """The parts of an answer as objects.

    Raises
    ------
    MirrorError
        The mirror has another version of them.
    """
    try:
        return [kind(**one) for one in answer]
    except TypeError:
        raise MirrorError(f"the mirror's answer cannot be read: {_ONE_VERSION}") from None


class Requests:
    """The requests in a lake, for who asks and for who answers.

    Parameters
    ----------
    lake : Lake
        The lake.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.pause = LOOK if lake.is_local else LOOK_IN_STORE

    # ------------------------------------------------------------ who asks

    def ask(self, kind: str, tables: Sequence[str]) -> list[dict[str, Any]]:
        """Ask the running mirror, and wait for its answer.

        Raises
        ------
        MirrorError
            The answer is an error, or the mirror ended before it answered.
        """
        name = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"
        self._write(_REQUESTS, name, asdict(Request(name, kind, tuple(tables))))
        try:
            while (found := self._read(_ANSWERS, name)) is None:
                waiting = name in self._names(_REQUESTS)
                _, at_work = self._lake.worker()
                if not waiting or not at_work:
                    found = self._read(_ANSWERS, name)  # it may have answered in between
                    if found is None:
                        raise MirrorError(
                            f"the mirror ended before it answered {kind}: ask again", path=self._lake.uri
                        )
                    break
                time.sleep(self.pause)
        finally:
            self._remove(_REQUESTS, name)
            self._remove(_ANSWERS, name)
        answer = found.get("answer") if isinstance(found, dict) else None
        if not isinstance(answer, list):
            raise MirrorError(f"the mirror's answer cannot be read: {_ONE_VERSION}", path=self._lake.uri)
        if found.get("error") is not None:
            raise MirrorError(str(found["error"]))
        return answer

    # ------------------------------------------------------------ who answers

    def forget(self) -> None:
        """Remove what an earlier process left: who asked it has been told that it ended."""
        for folder in (_REQUESTS, _ANSWERS):
            for name in self._names(folder):
                self._remove(folder, name)

    def forget_unfetched(self) -> None:
        """Remove answers for which nobody waits any more: who asked was killed."""
        for name, since in self._since(_ANSWERS).items():
            if time.time() - since > _KEPT:
                self._remove(_ANSWERS, name)

    def waiting(self) -> list[str]:
        """The ids of requests without an answer, in order."""
        return sorted(self._names(_REQUESTS))

    def read(self, id: str) -> Request | None:
        """A request; None: it is none, or was taken back."""
        try:
            return Request.of_json(id, self._read(_REQUESTS, id))
        except (ValueError, TypeError, KeyError):
            return None

    def other_kind(self, id: str) -> str | None:
        """What a request asks that this version does not know; None: it is none, or is known."""
        found = self._read(_REQUESTS, id)
        kind = found.get("kind") if isinstance(found, dict) else None
        return kind[:40] if isinstance(kind, str) and kind not in _KINDS else None

    def answer(self, id: str, answer: Sequence[Any], error: str | None = None) -> None:
        """Answer a request; values that JSON does not have become texts."""
        if (kind := self.other_kind(id)) is not None:
            error = f"the process that runs this mirror does not know {kind!r}: {_ONE_VERSION}"
        if kind is not None or self.read(id) is not None:
            self._write(_ANSWERS, id, {"answer": list(answer), "error": error})
        self._remove(_REQUESTS, id)

    # ------------------------------------------------------------ files

    def _path(self, folder: str, name: str = "") -> str:
        return f"{self._lake.path}/{MIRROR}/{folder}" + (f"/{name}.json" if name else "")

    def _names(self, folder: str) -> set[str]:
        return {*self._since(folder)}

    def _since(self, folder: str) -> dict[str, float]:
        """The names of files, and when each was written; others, such as pipes, are left alone."""
        from pyarrow.fs import FileSelector, FileType

        found = self._lake.filesystem.get_file_info(FileSelector(self._path(folder), allow_not_found=True))
        files = (one for one in found if one.type is FileType.File and one.base_name.endswith(".json"))
        return {one.base_name.removesuffix(".json"): (one.mtime_ns or 0) / 1e9 for one in files}

    def _read(self, folder: str, name: str) -> Any:
        """What a file has; None: there is no such file, or it is not whole yet."""
        try:
            return load_json(self._lake.filesystem, self._path(folder, name))
        except (OSError, ValueError, RecursionError):
            return None

    def _write(self, folder: str, name: str, found: dict[str, Any]) -> None:
        try:
            self._lake.filesystem.create_dir(self._path(folder), recursive=True)
            data = json.dumps(found, default=str).encode()
            write_whole(self._lake.filesystem, self._path(folder, name), data)
        except OSError as error:
            raise MirrorError(f"the lake cannot be written: {error}", path=self._path(folder)) from error

    def _remove(self, folder: str, name: str) -> None:
        with suppress(OSError):  # it is not there
            self._lake.filesystem.delete_file(self._path(folder, name))
