"""The growing log in a store's archive: it is in parts, since nothing can be appended to an object.

A part holds bytes `begin` to `end` of its log, in an object ``.tail-mysql-bin.000042.BEGIN-END``. Parts may
overlap: one that replaces smaller ones is written before those are removed. The closed log is written as one
object under its own name before its parts are removed. Listings are in the order of names, and the names of
parts come first: so a reader sees either the parts or the log that replaced them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import BinlogError, MissingFileError
from .log_names import LogName
from .places import StorePlace
from .sources import Source

_PART = re.compile(
    r"(?P<folder>.*/)?\.tail-(?P<log>[^/]+)\.(?P<begin>[0-9]{1,18})-(?P<end>[0-9]{1,18})", re.DOTALL
)
_TRIES = 8  # tries, since parts may be merged while they are read


class TailPart(NamedTuple):
    """A part of a log, by its name.

    Parameters
    ----------
    log : str
        Path or name of the log.
    begin, end : int
        The range of its bytes.
    """

    log: str
    begin: int
    end: int

    @classmethod
    def of(cls, path: str) -> TailPart | None:
        """The part with a name; None: the name is not a part's."""
        found = _PART.fullmatch(path)
        if found is None:
            return None
        return cls((found["folder"] or "") + found["log"], int(found["begin"]), int(found["end"]))

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.begin

    @property
    def path(self) -> str:
        """The part's own path or name."""
        folder, slash, name = self.log.rpartition("/")
        return f"{folder}{slash}.tail-{name}.{self.begin}-{self.end}"


def without_parts(paths: Iterable[str]) -> tuple[list[str], set[str]]:
    """The names in a folder that are not parts, and the logs that exist only as parts.

    This includes logs whose first part is missing: opening them is an error that must not be hidden.
    """
    parts, others = set(), []
    for path in paths:
        if (part := TailPart.of(path)) is not None:
            parts.add(part)
        else:
            others.append(path)
    closed = {path.removesuffix(".zst") for path in others}
    return others, {part.log for part in parts if part.log not in closed}


def chain_of(paths: Iterable[str], log: str) -> list[TailPart]:
    """The parts of a log that join to its beginning, in order; each ends after the one before it."""
    parts = {part for path in paths if (part := TailPart.of(path)) is not None and part.log == log}
    chain: list[TailPart] = []
    for part in sorted(parts, key=lambda part: (part.begin, -part.end)):
        end = chain[-1].end if chain else 0
        if part.begin <= end < part.end:
            chain.append(part)
    return chain


def open_tail(place: StorePlace, path: str) -> Source | None:
    """A log that does not exist as one object, from its parts; None: it has none.

    Raises
    ------
    BinlogError
        A part is missing before others: the log would seem to end there.
    """
    name = LogName.of(path)
    if name is None or name.packed:
        return None
    own = path.rpartition("/")[2]
    try:
        for _ in range(_TRIES):
            names, chain = _listed(place, path)
            if own in names:  # it was finished just now
                return place.open(path, None)
            behind = None if own + ".zst" in names else _behind(names, own, chain)
            if behind is None:
                break
    except BinlogError:
        return None
    if behind is not None:
        end = chain[-1].end if chain else 0
        raise BinlogError(
            f"the log's bytes {end} to {behind} are missing from the store, which has later ones",
            path=path,
            offset=end,
        )
    return TailSource(place, path, chain) if chain else None


def _behind(names: Iterable[str], log: str, chain: list[TailPart]) -> int | None:
    """The start of a log's parts that do not join its chain; None if there are none."""
    end = chain[-1].end if chain else 0
    parts = (part for one in names if (part := TailPart.of(one)) is not None and part.log == log)
    return min((part.begin for part in parts if end < part.begin < part.end), default=None)


def _listed(place: StorePlace, path: str) -> tuple[set[str], list[TailPart]]:
    """The names beside a log, and its parts."""
    folder, slash, name = path.rpartition("/")
    names = {one.rpartition("/")[2] for one in place.files(folder + slash or ".") or ()}
    chain = chain_of(names, name)
    return names, [part._replace(log=path) for part in chain]


class TailSource(Source):
    """A log in parts, as far as it went when it was opened.

    Parameters
    ----------
    place : StorePlace
    path : str
        Path of the log.
    chain : list of TailPart
    """

    splittable = True
    seekable = True

    def __init__(self, place: StorePlace, path: str, chain: list[TailPart]) -> None:
        super().__init__(path)
        self._place = place
        self._log = path
        self._chain = chain
        self._size = chain[-1].end
        self._next = 0  # the byte that `_fetch` gives next
        self._part: Source | None = None
        self._part_end = 0
        self._closed = False

    @property
    def size(self) -> int:
        """Bytes of the log as it was when opened."""
        return self._size

    def _fetch(self, size: int) -> bytes:
        if self._closed:
            raise BinlogError("the log is closed", path=self.path)
        if self._next >= self._size:
            return b""
        data = self._read(size)
        if not data:
            raise BinlogError(
                f"a part of the log ends at {self._next}: expected its bytes up to {self._part_end}",
                path=self.path,
                offset=self._next,
            )
        self._next += len(data)
        if self._next == self._part_end:
            self._leave()
        return data

    def _read(self, size: int) -> bytes:
        """Bytes of a part; of the one that replaced it, if it was removed after it was opened."""
        for tries_left in reversed(range(_TRIES)):
            try:
                if self._part is None:
                    self._part = self._open_at(self._next)
                return self._part.read(min(size, self._part_end - self._next))
            except BinlogError:
                part = self._part
                if part is None or not tries_left or self._is_listed(part.path):
                    raise
                self._leave()
        raise AssertionError

    def _is_listed(self, path: str) -> bool:
        return path.rpartition("/")[2] in _listed(self._place, self._log)[0]

    def _open_at(self, position: int) -> Source:
        """The part with a byte; if it was removed since, the part that replaced it."""
        for _ in range(_TRIES):
            i = bisect_right(self._chain, position, key=lambda part: part.end)
            try:
                if i < len(self._chain):
                    part = self._chain[i]
                    return self._moved(self._place.open(part.path, None), position - part.begin, part.end)
            except MissingFileError:
                pass
            names, self._chain = _listed(self._place, self._log)
            name = self._log.rpartition("/")[2]
            try:
                if name in names:
                    return self._moved(self._place.open(self._log, None), position, self._size)
                if name + ".zst" in names:
                    from .compressed_files import DecompressedSource

                    packed = self._place.open(self._log + ".zst", None)
                    return self._moved(DecompressedSource(packed, "zstd"), position, self._size)
            except MissingFileError:
                pass
        raise BinlogError(
            f"the log's bytes from {position} on are gone from the store", path=self.path, offset=position
        )

    def _moved(self, source: Source, position: int, end: int) -> Source:
        try:
            source.seek(position)
        except BaseException:
            source.close()
            raise
        self._part_end = min(end, self._size)
        return source

    def _move(self, position: int) -> None:
        self._leave()
        self._next = position

    def _leave(self) -> None:
        part, self._part = self._part, None
        if part is not None:
            part.close()

    def close(self) -> None:
        """End reading; may be called again."""
        self._leave()
        self._closed = True
        self._ahead = b""
