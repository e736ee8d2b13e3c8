"""A run of a key index: all keys of some data files in order, each with its file and row.

A mark; the words of the keys, a column for each word, and the places, 64 bits each; for each block of 64
entries its first word and its checksum; JSON that names the key's columns and the files; then its length,
the number of entries and of words, the checksum of all but the entries, and the mark again. A run is read by
its blocks, and each block that is read is checked. Whatever is not as it was written is a `RunDamage`.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._base.own_files import create, open_itself
from ..rows.types import import_pyarrow
from .keys import as_words

if TYPE_CHECKING:
    import pyarrow as pa

Words = NDArray[np.uint64]
_MARK = b"BCKEYS02"
_END = struct.Struct("<QQIII8s")  # of the JSON the length, entries, words, block, checksum
_BLOCK = 64
_WORDS = 2  # of a key, at most
_GATHERED = 1 << 13  # blocks that are looked at together
_MERGED = 1 << 20  # entries that are merged together
_LEAST_TAKEN = 1 << 10  # of them from a run
_PAD = np.uint64((1 << 64) - 1)  # of the last block; as a place it is none
_ROW = np.uint64(32)  # bits of a place that are the row
_ODD = np.uint64(0x9E3779B97F4A7C15)
_WEIGHTS = np.arange(1, 1 + (_WORDS + 1) * _BLOCK, dtype=np.uint64) * _ODD | np.uint64(1)
_WEIGHTS = _WEIGHTS.reshape(-1, _BLOCK)
MOST_ROWS = 1 << 32  # of a file


class RunDamage(Exception):
    """A run is not as it was written."""


class RunFile(NamedTuple):
    """A data file of a run: its name, its bytes and rows, and how many of these have a key."""

    name: str
    bytes: int
    rows: int
    keys: int


@dataclass(frozen=True)
class Keyed:
    """What the words of keys are made of.

    Parameters
    ----------
    names, types : tuple of str
        The key's columns, and their types in the table.
    salt : bytes
        What makers of keys do not know, so that they cannot make two with the same words.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    salt: bytes

    def words(self, columns: Sequence[pa.Array]) -> list[Words]:
        """The words of keys: the key itself if two are enough, else 128 bits of BLAKE2b.

        A key's first word is what it is searched by. Its first column may be the same in all rows: of two
        columns the first word has both, and with the second word it is still another one for each key.
        """
        found = [word for one in columns for word in self._of_column(one)]
        if len(columns) == len(found) == _WORDS:
            odd = int.from_bytes(blake2b(self.salt, digest_size=8).digest(), "little") | 1
            return [found[0] * np.uint64(odd) + found[1], found[1]]
        if len(found) <= _WORDS:
            return found
        rows = np.stack(found, axis=1)
        return self._hashed(row.tobytes() for row in rows)

    def _of_column(self, column: pa.Array) -> list[Words]:
        pa = import_pyarrow()
        types, kind = pa.types, column.type
        if types.is_string(kind) or types.is_large_string(kind):
            column = column.cast(pa.large_binary())
        elif not (types.is_binary(kind) or types.is_large_binary(kind)):
            return as_words(column)
        return self._hashed(value or b"" for value in column.to_pylist())

    def _hashed(self, values: Iterable[bytes]) -> list[Words]:
        salt = self.salt
        data = b"".join([blake2b(one, digest_size=16, key=salt).digest() for one in values])
        both = np.frombuffer(data, np.uint64).reshape(-1, 2)
        return [np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])]

    def to_json(self) -> dict[str, Any]:
        """What a run keeps of it."""
        salt = blake2b(self.salt, digest_size=16).hexdigest()
        return {"names": list(self.names), "types": list(self.types), "salt": salt}


class Run:
    """A run, opened; it is mapped, and of its entries only the blocks that are needed are read.

    Parameters
    ----------
    path : str
        Its file.
    root : str
        The lake, below which no folder may be a link.
    keyed : Keyed
        What its words should be made of.

    Raises
    ------
    RunDamage
        It is not a run of such keys, or damaged.
    OSError
    """

    def __init__(self, path: str, root: str, keyed: Keyed) -> None:
        self.path = path
        descriptor = open_itself(path, os.O_RDONLY, root=root)
        try:
            size = os.fstat(descriptor).st_size
            if size < len(_MARK) + _END.size:
                raise RunDamage("it was cut")
            self._map = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        length, self.count, self.words, block, sum_, mark = _END.unpack_from(self._map, size - _END.size)
        blocks = -(-self.count // _BLOCK)
        begin = len(_MARK) + (self.words + 1) * blocks * _BLOCK * 8
        if mark != _MARK or block != _BLOCK or begin + 16 * blocks + length + _END.size != size:
            raise RunDamage("it is not a run of this version, or was cut")
        with memoryview(self._map) as every, every[begin : size - _END.size] as told:
            if zlib.crc32(told) != sum_:
                raise RunDamage("the checksum of its directory is wrong")
            found = json.loads(told[16 * blocks :].tobytes())
        if found["keyed"] != keyed.to_json():
            raise RunDamage("it has other keys")
        self.files = tuple(RunFile(*one) for one in found["files"])

        def column(at: int, count: int) -> Words:
            return np.frombuffer(self._map, np.uint64, count, at)

        step = blocks * _BLOCK * 8
        starts = [len(_MARK) + i * step for i in range(self.words + 1)]
        self._columns = [column(one, blocks * _BLOCK).reshape(blocks, _BLOCK) for one in starts]
        self._firsts, self._sums = column(begin, blocks), column(begin + 8 * blocks, blocks)

    def find(self, words: Sequence[Words]) -> Words:
        """The places of keys: file << 32 | row, not in order, also those of rows that are deleted.

        `words`: the first ones in order.

        Raises
        ------
        RunDamage
        """
        first = np.maximum(np.searchsorted(self._firsts, words[0], "left") - 1, 0)
        last = np.searchsorted(self._firsts, words[0], "right") - 1
        counts = np.maximum(last - first + 1, 0)  # more than one where a key is at the end of a block, too
        sought = np.repeat(np.arange(len(first)), counts)
        blocks = np.arange(len(sought)) - np.repeat(np.cumsum(counts) - counts - first, counts)
        out = [np.empty(0, np.uint64)]
        for begin in range(0, len(blocks), _GATHERED):
            here, one = blocks[begin : begin + _GATHERED], sought[begin : begin + _GATHERED]
            columns = self._checked(here)
            same = columns[0] == words[0][one, None]
            for column, word in zip(columns[1:-1], words[1:], strict=True):
                same &= column == word[one, None]
            out.append(columns[-1][same])
        found = np.concatenate(out)
        return np.asarray(found[found != _PAD])

    def _checked(self, blocks: NDArray[np.int64]) -> list[Words]:
        columns = [one[blocks] for one in self._columns]
        if not np.array_equal(_sums(columns, blocks), self._sums[blocks]):
            raise RunDamage("the checksum of a block is wrong")
        return columns

    def check(self) -> None:
        """Read all of it.

        Raises
        ------
        RunDamage
        """
        for begin in range(0, len(self._sums), _GATHERED):
            self._checked(np.arange(begin, min(begin + _GATHERED, len(self._sums))))

    def entries(self, begin: int, end: int) -> list[Words]:
        """The columns of some entries."""
        return [one.reshape(-1)[begin:end] for one in self._columns]

    def below(self, word: np.uint64) -> int:
        """How many entries have a first word of at most this one."""
        return int(np.searchsorted(self._columns[0].reshape(-1)[: self.count], word, "right"))


def _sums(columns: Sequence[Words], blocks: NDArray[np.int64]) -> Words:
    """Checksums of blocks, by their numbers: other values, or a block in another's place, give others."""
    found = (blocks.astype(np.uint64) + np.uint64(1)) * _ODD
    for column, weights in zip(columns, _WEIGHTS, strict=False):
        mixed = column ^ (column >> np.uint64(29))  # so that the highest bits count in several
        found = found + (mixed * weights).sum(axis=1, dtype=np.uint64)
    return found


def write(
    path: str, root: str, keyed: Keyed, files: Sequence[RunFile], parts: Iterable[Sequence[Words]], words: int
) -> None:
    """Write a run.

    Parameters
    ----------
    path, root, keyed
        As for `Run`.
    files : sequence of RunFile
        The files, by whose numbers the places are.
    parts : iterable of list of ndarray
        The columns of the entries, in order, a part at a time.
    words : int
        How many words a key has.

    Raises
    ------
    OSError
    """
    count = sum(one.keys for one in files)
    blocks = -(-count // _BLOCK)
    step, at = blocks * _BLOCK * 8, 0
    firsts, sums = np.zeros(blocks, np.uint64), np.zeros(blocks, np.uint64)
    rest = [np.empty(0, np.uint64)] * (words + 1)
    with create(path, root) as file:
        file.write(_MARK)
        for part in _and_last(parts, words, -count % _BLOCK):
            rest = [np.concatenate(both) for both in zip(rest, part, strict=True)]
            whole = len(rest[0]) // _BLOCK
            columns = [one[: whole * _BLOCK].reshape(whole, _BLOCK) for one in rest]
            rest = [one[whole * _BLOCK :] for one in rest]
            if at + whole > blocks:
                raise RunDamage("it has more entries than its files")
            firsts[at : at + whole] = columns[0][:, 0]
            sums[at : at + whole] = _sums(columns, np.arange(at, at + whole))
            for i, column in enumerate(columns):
                file.seek(len(_MARK) + i * step + at * _BLOCK * 8)
                file.write(column.tobytes())
            at += whole
        if at != blocks:
            raise RunDamage("it has fewer entries than its files")
        text = json.dumps({"keyed": keyed.to_json(), "files": files}, separators=(",", ":")).encode()
        told = firsts.tobytes() + sums.tobytes() + text
        file.seek(len(_MARK) + (words + 1) * step)
        file.write(told + _END.pack(len(text), count, words, _BLOCK, zlib.crc32(told), _MARK))


def _and_last(parts: Iterable[Sequence[Words]], words: int, pads: int) -> Iterator[Sequence[Words]]:
    yield from parts
    yield [np.full(pads, _PAD)] * (words + 1)


def in_order(columns: Sequence[Words]) -> list[Words]:
    """Entries in the order of their first words."""
    order = np.argsort(columns[0], kind="stable")
    return [one[order] for one in columns]


def places_of(file: int, rows: NDArray[Any]) -> Words:
    """The places of rows of a file."""
    return rows.astype(np.uint64) | np.uint64(file) << _ROW


def distinct(numbers: Words) -> Words:
    """Numbers in order, each of them once: NumPy's own `unique` takes ten times as long."""
    numbers = np.sort(numbers, kind="stable")
    return np.asarray(numbers[np.diff(numbers, prepend=numbers[:1] ^ np.uint64(1)) != 0])


def by_file(places: Words) -> Iterator[tuple[int, Words]]:
    """The numbers of files in places, each with its rows in order, each of them once."""
    places = distinct(places)
    files = places >> _ROW
    edges = [0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), len(places)]
    for begin, end in pairwise(edges):
        if begin < end:
            yield int(files[begin]), places[begin:end] & np.uint64((1 << 32) - 1)


def merged(runs: Sequence[Run], numbers: Sequence[NDArray[np.int64]]) -> Iterator[list[Words]]:
    """The entries of runs in order, a limited number at a time.

    Parameters
    ----------
    runs : sequence of Run
    numbers : sequence of ndarray
        For each run, the new numbers of its files; -1: its entries are left out.
    """
    taken = max(_MERGED // max(len(runs), 1), _LEAST_TAKEN)
    at = [0] * len(runs)
    while any(begin < run.count for begin, run in zip(at, runs, strict=True)):
        lasts = [
            run.entries(begin + taken - 1, begin + taken)[0][0]
            for begin, run in zip(at, runs, strict=True)
            if begin + taken <= run.count
        ]
        pivot = min(lasts, default=_PAD)
        parts = []
        for i, (run, new) in enumerate(zip(runs, numbers, strict=True)):
            end = run.count if not lasts else run.below(pivot)
            *words, places = run.entries(at[i], end)
            at[i] = end
            files = new[(places >> _ROW).astype(np.int64)]
            kept = files >= 0
            rows = places[kept] & np.uint64((1 << 32) - 1)
            parts.append([*(one[kept] for one in words), rows | files[kept].astype(np.uint64) << _ROW])
        yield in_order([np.concatenate(column) for column in zip(*parts, strict=True)])
