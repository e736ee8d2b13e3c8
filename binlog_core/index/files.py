"""The file of an index, beside the logs: columns for each log, and checksums of everything.

An index is untrusted input. Its rows are used only for the same log that they were made from, and only if
all checksums are right. Any damage is an `IndexDamage`, and memory stays near the size of a log's part.

A mark; the columns of each log, one after another; for each log and column its place, length and checksum;
JSON that says which logs there are; then the length of the JSON, the number of logs, the checksum of both,
and the mark again. Numbers are 64 bits, little-endian; of texts and filters come first all lengths (32
bits), then all bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .._base.new_files import sync_directory, unfinished
from .._base.own_files import remove
from .._format.magic import INNODB_MAGIC, MAGIC
from .._sources.log_names import INDEX_NAME as NAME
from .._sources.log_names import OLD_INDEX_NAME as OLD_NAME
from .._sources.log_names import archive_of
from .._sources.places import local_path, place_of
from ..errors import BinlogError, MissingExtraError
from .filters import PARTS

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

    from .._sources.sources import Source

_END, _MARK = struct.Struct("<III8s"), b"BCINDEX4"
_CHUNK = np.dtype([("begin", "<i8"), ("length", "<i8"), ("sum", "<u4")])  # where a column's values lie
_ENDS_LEN = 4096  # bytes at both ends of a log that tell it from others
_IN_USE_AT = 21  # of a plain log: the descriptor's flags, of which a server clears one when it closes the log
_LONGEST_LIST = 16 << 20  # of logs, about 80,000: Python takes some 30 times as much for JSON
_LEAST_GAP = 4096  # of other columns between those that are read
_OF_LOG = 4  # a log's part of the index is smaller than this part of the log, and …
_LEAST_PART = 4 << 20  # … than this
_NUMBERS = (
    *("begin", "end", "first_timestamp", "last_timestamp", "first_commit", "last_commit"),
    *("statements", "reported", "definition", "flags", "inserts", "updates", "deletes", "moved"),
    *("low", "high", "low_2", "high_2", "hashed"),
)
_TEXTS = ("gtids", "servers", "threads", "database", "table", "key")
FILTERS = tuple(f"filter_{i:02}" for i in range(PARTS))
COLUMNS = (*_NUMBERS, *_TEXTS, "table_map", "few", *FILTERS)


LEAST, MOST = -(1 << 63), (1 << 63) - 1  # of a column's values, where they are not known
_DEFAULTS: dict[str, Any] = {"definition": -1, "low": LEAST, "low_2": LEAST, "high": MOST, "high_2": MOST}


class IndexDamage(Exception):
    """The file of an index was changed since it was written."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a stored log.

    Parameters
    ----------
    size : int
        Bytes.
    head, tail : str
        Fingerprints of its first and of its last 4096 bytes. No `tail`: an .ibb file whose end has not been
        written yet. More may come without any change of its size and its ends.
    """

    size: int
    head: str
    tail: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One log of an index.

    Parameters
    ----------
    log : str
        Name of its file.
    size, head, tail
        See `Identity`.
    has_gtids : bool
        Each of its ranges but the first begins with a GTID.
    whole : bool
        Its ranges cover the whole log.
    rows : int
    """

    log: str
    size: int
    head: str
    tail: str
    has_gtids: bool
    whole: bool
    rows: int

    @property
    def identity(self) -> Identity:
        """The identity of its log."""
        return Identity(self.size, self.head, self.tail)


def identity_of(source: Source, size: int | None = None) -> Identity | None:
    """The identity of a stored log, or of its first bytes; None if that would require reading all of it."""
    whole = source.size
    if whole is None or not source.seekable or (size is not None and size > whole):
        return None
    size = whole if size is None else size
    head = bytearray(_read(source, 0, min(size, _ENDS_LEN)))
    tail = bytearray(_read(source, max(0, size - _ENDS_LEN), min(size, _ENDS_LEN)))
    if head[:4] == MAGIC:
        for part, begin in ((head, 0), (tail, max(0, size - _ENDS_LEN))):
            if begin <= _IN_USE_AT < begin + len(part):
                part[_IN_USE_AT - begin] = 0
    ends = [hashlib.blake2b(part, digest_size=16).hexdigest() for part in (head, tail)]
    if head[:4] == INNODB_MAGIC and not any(tail):
        ends[1] = ""
    return Identity(size, *ends)


def _read(source: Source, position: int, size: int) -> bytes:
    source.seek(position)
    found = b""
    while len(found) < size and (more := source.read(size - len(found))):
        found += more
    return found


# ---------------------------------------------------------------- rows


def as_table(rows: Sequence[dict[str, Any]]) -> pyarrow.Table:
    """Rows of an index, all but the column "reported"; "filter" is all parts of one."""
    import pyarrow as pa

    fields: dict[str, Any] = {}
    for name in (*_NUMBERS, "table_map", "few"):
        default = _DEFAULTS.get(name, 0 if name in _NUMBERS else b"")
        fields[name] = [row.get(name, default) for row in rows]
    for name in _TEXTS:
        fields[name] = [row.get(name, "").encode("utf-8", "replace").decode() for row in rows]
    none = (b"",) * PARTS
    fields |= zip(FILTERS, zip(*(row.get("filter", none) for row in rows), strict=True), strict=False)
    names = [name for name in COLUMNS if name != "reported"]
    return pa.table([pa.array(fields.get(name, ()), _type_of(name)) for name in names], names=names)


def with_reported(parts: Sequence[pyarrow.Table], begins: Collection[int]) -> pyarrow.Table:
    """All rows of a log, with those of some ranges marked."""
    import pyarrow as pa

    rows = pa.concat_tables(parts)
    reported = np.isin(rows["begin"].to_numpy(), list(begins)).astype(np.int64)
    return rows.append_column("reported", pa.array(reported)).select(list(COLUMNS))


def _type_of(name: str) -> Any:
    import pyarrow as pa

    if name in _NUMBERS:
        return pa.int64()
    return pa.string() if name in _TEXTS else pa.binary()


def entry_of(log: str, identity: Identity, rows: pyarrow.Table, *, has_gtids: bool, whole: bool) -> Entry:
    """The entry of a log in the file's metadata."""
    return Entry(log, identity.size, identity.head, identity.tail, has_gtids, whole, rows.num_rows)


# ---------------------------------------------------------------- reading


class IndexFile:
    """The file of an index, opened.

    Parameters
    ----------
    source : Source
        The index file; closed together with this object.

    Raises
    ------
    IndexDamage
        It is not an index, or damaged.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        with damage():
            logs, self._chunks = self._directory()
            self.entries = tuple(map(_entry, logs))
            if len(self.entries) != len(self._chunks):
                raise IndexDamage("its number of logs is not the one it states")

    def _directory(self) -> tuple[list[dict[str, Any]], NDArray[np.void]]:
        """Which logs there are, and where their columns lie."""
        end = (self._source.size or 0) - _END.size
        if end < 0:
            raise IndexDamage("it is not an index, or was cut")
        length, count, sum_, mark = _END.unpack(_read(self._source, end, _END.size))
        places = count * len(COLUMNS) * _CHUNK.itemsize
        if mark != _MARK or length > _LONGEST_LIST or places + length > end:
            raise IndexDamage("it is not an index of this version, or was cut")
        data = _read(self._source, end - length - places, places + length)
        if zlib.crc32(data) != sum_:
            raise IndexDamage("the checksum of its directory is wrong")
        chunks = np.frombuffer(data, _CHUNK, count * len(COLUMNS)).reshape(count, len(COLUMNS))
        return json.loads(memoryview(data)[places:].tobytes()), chunks

    def _chunks_of(self, number: int) -> dict[str, _Chunk]:
        """Where the columns of a log are, within the limits of an index."""
        entry, told = self.entries[number], self._chunks[number].tolist()
        found = {name: _Chunk(*one) for name, one in zip(COLUMNS, told, strict=True)}
        if min(min(chunk.begin, chunk.length) for chunk in found.values()) < 0:
            raise IndexDamage("it has a place that is not valid")
        most = _most(entry.size)
        if entry.rows > most // 16 or sum(chunk.length for chunk in found.values()) > most:
            raise IndexDamage("a log's part is larger than an index can be")
        return found

    def rows(self, number: int, columns: Sequence[str]) -> dict[str, NDArray[Any] | list[Any]]:
        """Some columns of a log: numbers as arrays, texts and filters as lists of text or bytes.

        Parameters
        ----------
        number : int
            Number of its entry.
        columns : sequence of str

        Raises
        ------
        IndexDamage
        """
        with damage():
            found = self._chunks_of(number)
            chunks = [found[name] for name in columns]
            begin, end = min(one.begin for one in chunks), max(one.begin + one.length for one in chunks)
            if end - begin > 2 * sum(one.length for one in chunks) + _LEAST_GAP:
                raise IndexDamage("the columns of a log are not stored together")
            data = _read(self._source, begin, end - begin)  # in one request: each takes time in a store
            return {
                name: self._column(
                    number, name, one, data[one.begin - begin : one.begin - begin + one.length]
                )
                for name, one in zip(columns, chunks, strict=True)
            }

    def _column(self, number: int, name: str, chunk: _Chunk, data: bytes) -> NDArray[Any] | list[Any]:
        rows = self.entries[number].rows
        if zlib.crc32(data) != chunk.sum:
            raise IndexDamage(f"the checksum of column {name} is wrong")
        if name in _NUMBERS:
            numbers: NDArray[Any] = np.frombuffer(data, "<i8")
            if len(numbers) != rows:
                raise IndexDamage(f"column {name} differs from what was written")
            return numbers
        if len(data) < 4 * rows:
            raise IndexDamage(f"column {name} differs from what was written")
        ends = 4 * rows + np.cumsum(np.frombuffer(data, "<u4", rows), dtype=np.int64)
        edges = [4 * rows, *ends.tolist()]
        if edges[-1] != len(data):
            raise IndexDamage(f"column {name} differs from what was written")
        found = [data[begin:end] for begin, end in pairwise(edges)]
        return [value.decode() for value in found] if name in _TEXTS else found

    def table(self, number: int) -> pyarrow.Table:
        """All columns of a log, to be rewritten."""
        import pyarrow as pa

        found = self.rows(number, COLUMNS)
        return pa.table([pa.array(found[name], _type_of(name)) for name in COLUMNS], names=list(COLUMNS))

    def check(self) -> None:
        """Read all of it.

        Raises
        ------
        IndexDamage
        """
        for number in range(len(self.entries)):
            self.rows(number, COLUMNS)

    def close(self) -> None:
        """End reading."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Chunk(NamedTuple):
    """Where the values of a column lie, and their checksum."""

    begin: int
    length: int
    sum: int


def _most(size: int) -> int:
    return max(size // _OF_LOG, _LEAST_PART)


def _whole(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise IndexDamage("it has a number that is not valid")
    return number


def _entry(told: dict[str, Any]) -> Entry:
    entry = Entry(**told)
    texts, flags = (entry.log, entry.head, entry.tail), (entry.has_gtids, entry.whole)
    _whole(entry.size), _whole(entry.rows)
    if not all(type(text) is str for text in texts) or not all(type(flag) is bool for flag in flags):
        raise IndexDamage("it does not name its logs")
    return entry


@contextlib.contextmanager
def damage() -> Iterator[None]:
    """Turn every error about the contents of an index into an `IndexDamage`."""
    try:
        yield
    except (IndexDamage, MemoryError, ImportError):
        raise
    except Exception as error:
        raise IndexDamage(" ".join(str(error).split())[:200] or type(error).__name__) from None


# ---------------------------------------------------------------- places


def index_path(log: str) -> str:
    """The path of a log's index: beside the log."""
    if (path := local_path(log)) is not None:
        return os.path.join(os.path.dirname(path), NAME)
    return log.rpartition("/")[0] + "/" + NAME


def opened(path: str, storage_options: dict[str, Any] | None) -> IndexFile | None:
    """The index at a path; None: there is none.

    Raises
    ------
    IndexDamage
        It is not an index, or damaged.
    """
    place = place_of(path, storage_options)
    try:
        if not place.exists(path):
            if old_index(path) is not None:
                raise IndexDamage(f"{OLD_NAME} is of an earlier version")
            return None
        source = place.open(path, False)
    except BinlogError:
        return None
    try:
        return IndexFile(source)
    except BaseException:
        source.close()
        raise


def old_index(path: str) -> str | None:
    """The path of a local index of an earlier version, which was a Parquet file."""
    local = local_path(path)
    old = None if local is None else os.path.join(os.path.dirname(local), OLD_NAME)
    return old if old is not None and os.path.isfile(old) else None


def remove_old_index(path: str) -> str | None:
    """Remove a local index of an earlier version; its path, or None if there was none."""
    if (old := old_index(path)) is None:
        return None
    try:
        remove(old, archive_of(os.path.dirname(path)))
    except OSError:  # it is another user's, or another process removed it; beside a new one nobody reads it
        return None
    return old


# ---------------------------------------------------------------- writing

Part = tuple[Entry, Callable[[], Any]]  # and what gives its rows


def write(path: str, parts: Iterable[Part], *, mode: int) -> None:
    """Replace the index, which stays valid until the new one is on disk.

    Parameters
    ----------
    path : str
    parts : iterable of (Entry, callable)
        The callable gives the rows when their turn comes.
    mode : int
        The file's permissions.

    Raises
    ------
    BinlogError
        It cannot be written.
    """
    folder = os.path.dirname(path) or "."
    try:
        root = archive_of(os.path.dirname(path))
        with unfinished(path, root) as made:
            _write(made.file, list(parts))
            made.file.flush()
            os.fsync(made.file.fileno())
            os.fchmod(made.file.fileno(), mode)
            made.finish()
        sync_directory(folder)
    except OSError as error:
        raise BinlogError(f"cannot write the index: {error.strerror or error}", path=path) from error


def _write(file: Any, parts: list[Part]) -> None:
    import pyarrow as pa

    schema = pa.schema([pa.field(name, _type_of(name), nullable=False) for name in COLUMNS])
    file.write(_MARK)
    chunks = []
    for _, rows in parts:
        table, here = rows().cast(schema), []
        for name in COLUMNS:
            data = _plain(table[name])
            here.append(_Chunk(file.tell(), len(data), zlib.crc32(data)))
            file.write(data)
        chunks.append(here)
    file.write(directory([asdict(entry) for entry, _ in parts], chunks))


def _plain(column: Any) -> bytes:
    """The values of a column as they are stored."""
    import pyarrow as pa

    if pa.types.is_int64(column.type):
        return column.to_numpy().astype("<i8", copy=False).tobytes()  # type: ignore[no-any-return]
    lengths, values = [], []
    for chunk in column.chunks:
        _, offsets, data = chunk.buffers()
        edges = np.frombuffer(offsets, np.int32, len(chunk) + 1, 4 * chunk.offset)
        lengths.append(np.diff(edges).astype("<u4").tobytes())
        values.append(memoryview(data)[edges[0] : edges[-1]] if data is not None else b"")
    return b"".join([*lengths, *values])


def directory(logs: list[dict[str, Any]], chunks: Sequence[Sequence[Any]]) -> bytes:
    """The end of an index: where the columns of each log lie, and which logs it has."""
    text = json.dumps(logs, separators=(",", ":")).encode()
    if len(text) > _LONGEST_LIST:
        raise BinlogError(f"{len(logs)} logs in one folder are too many for an index")
    data = np.array([tuple(one) for each in chunks for one in each], _CHUNK).tobytes() + text
    return data + _END.pack(len(text), len(chunks), zlib.crc32(data), _MARK)


def need_pyarrow() -> None:
    """Raise MissingExtraError if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("pyarrow", "arrow", "an index") from None
