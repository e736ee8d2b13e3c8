"""The file of an index: one Parquet file beside the logs, a row group for each, and checksums of all of it.

What is read from it is a hint from outside. Its rows are believed of the very log that they were made of, if
all checksums are right; every damage is an `IndexDamage`, and memory stays near the size of a log's part.

Between the data and the footer, where Parquet does not look, stands a seal: JSON with the checksums of the
footer and of each column chunk, its length, its own checksum, and a mark. pyarrow is given nothing that is
not checked: of some damaged footers it ends the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._format.magic import MAGIC
from .._new_files import unfinished
from .._sources.places import local_path, place_of
from ..errors import BinlogError, MissingExtraError
from .filters import PARTS

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

    from .._sources.sources import Source

NAME = "binlog-core-index.parquet"
_KEY = b"binlog_core.index"
_VERSION = 1
_SEAL, _MARK = struct.Struct("<II8s"), b"BCINDEX1"
_ENDS_LEN = 4096  # bytes at both ends of a log that tell it from others
_IN_USE_AT = 21  # of a plain log: the descriptor's flags, of which a server clears one when it closes the log
_LONGEST_FOOTER = 256 << 20
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
_UNTOLD: dict[str, Any] = {"definition": -1, "low": LEAST, "low_2": LEAST, "high": MOST, "high_2": MOST}


class IndexDamage(Exception):
    """The file of an index is not as it was written."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a log from others, as it is stored.

    Parameters
    ----------
    size : int
        Bytes.
    head, tail : str
        Fingerprints of its first and of its last 4096 bytes.
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
        Its ranges are all of it.
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
        """What its log is known by."""
        return Identity(self.size, self.head, self.tail)


def identity_of(source: Source, size: int | None = None) -> Identity | None:
    """The identity of a stored log, or of its first bytes; None: it cannot be known without reading all."""
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
    return Identity(size, *(hashlib.blake2b(part, digest_size=16).hexdigest() for part in (head, tail)))


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
        untold = _UNTOLD.get(name, 0 if name in _NUMBERS else b"")
        fields[name] = [row.get(name, untold) for row in rows]
    for name in _TEXTS:
        fields[name] = [row.get(name, "").encode("utf-8", "replace").decode() for row in rows]
    none = (b"",) * PARTS
    fields |= zip(FILTERS, zip(*(row.get("filter", none) for row in rows), strict=True), strict=False)
    names = [name for name in COLUMNS if name != "reported"]
    return pa.table([pa.array(fields.get(name, ()), _type_of(name)) for name in names], names=names)


def with_reported(parts: Sequence[pyarrow.Table], begins: Collection[int]) -> pyarrow.Table:
    """All rows of a log, of which those of some ranges are marked."""
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
    """What is told of a log in the file's metadata."""
    return Entry(log, identity.size, identity.head, identity.tail, has_gtids, whole, rows.num_rows)


# ---------------------------------------------------------------- reading


class IndexFile:
    """The file of an index, opened.

    Parameters
    ----------
    source : Source
        Of the file; closed with this.

    Raises
    ------
    IndexDamage
        It is not an index, or damaged.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._raw = _Raw(source)
        with _damage():
            import pyarrow.parquet as pq

            self._sums = self._unsealed()
            self._file = pq.ParquetFile(
                io.BufferedReader(self._raw, 1 << 12),
                read_dictionary=[name for name in COLUMNS if name not in _NUMBERS],
            )
            self.entries = _entries(self._file.metadata)

    def _unsealed(self) -> list[list[int]]:
        """The checksums of all column chunks, after that of the footer was found right."""
        size = self._source.size
        if size is None or size < 12:
            raise IndexDamage("it is not a Parquet file")
        end = _read(self._source, size - 8, 8)
        footer = size - 8 - int.from_bytes(end[:4], "little")
        if end[4:] != b"PAR1" or not _SEAL.size < footer or size - footer > _LONGEST_FOOTER:
            raise IndexDamage("it is not a Parquet file")
        length, sum_, mark = _SEAL.unpack(_read(self._source, footer - _SEAL.size, _SEAL.size))
        if mark != _MARK or length > footer - _SEAL.size or length > _LONGEST_FOOTER:
            raise IndexDamage("it has no seal")
        text = _read(self._source, footer - _SEAL.size - length, length)
        if zlib.crc32(text) != sum_:
            raise IndexDamage("the checksum of its seal is wrong")
        told = json.loads(text)
        data = _read(self._source, footer, size - footer)
        if zlib.crc32(data) != told["footer"]:
            raise IndexDamage("the checksum of its footer is wrong")
        self._raw.held = [(footer, data)]
        chunks: list[list[int]] = told["chunks"]
        return chunks

    def rows(self, number: int, columns: Sequence[str]) -> dict[str, NDArray[Any] | list[Any]]:
        """Some columns of a log: numbers as arrays, texts and filters as lists of bytes or text.

        Parameters
        ----------
        number : int
            Of its entry.
        columns : sequence of str
        """
        entry = self.entries[number]
        with _damage():
            self._raw.held = self._checked(number, columns)
            table = self._file.read_row_group(number, columns=list(columns), use_threads=False)
            found: dict[str, NDArray[Any] | list[Any]] = {}
            for name in columns:
                column = _plain(table[name], most=_most(entry.size))
                if len(column) != entry.rows or column.null_count:
                    raise IndexDamage(f"column {name} is not what it was written as")
                found[name] = column.to_numpy() if name in _NUMBERS else column.to_pylist()
            return found

    def table(self, number: int) -> pyarrow.Table:
        """All columns of a log, to be written anew."""
        import pyarrow as pa

        found = self.rows(number, COLUMNS)
        return pa.table([pa.array(found[name], _type_of(name)) for name in COLUMNS], names=list(COLUMNS))

    def _checked(self, number: int, columns: Sequence[str]) -> list[tuple[int, bytes]]:
        """The bytes of some columns of a log, with their positions: no more than an index can have of it."""
        most = _most(self.entries[number].size)
        group = self._file.metadata.row_group(number)
        if group.num_rows != self.entries[number].rows or group.num_rows > most // 16:
            raise IndexDamage("a log has another number of rows")
        found = []
        for i in range(group.num_columns):
            column = group.column(i)
            if column.path_in_schema not in columns:
                continue
            if column.compression != "UNCOMPRESSED" or column.num_values != group.num_rows:
                raise IndexDamage("it is stored in another way than it was written")
            begin, length = _place_of(column)
            most -= length
            if length < 0 or most < 0:
                raise IndexDamage("a log's part is larger than an index can be")
            data = _read(self._source, begin, length)
            if zlib.crc32(data) != self._sums[number][i]:
                raise IndexDamage(f"the checksum of column {column.path_in_schema} is wrong")
            found.append((begin, data))
        return found

    def close(self) -> None:
        """End reading."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _place_of(column: Any) -> tuple[int, int]:
    """Position and length of a column chunk."""
    begin = column.data_page_offset
    if column.has_dictionary_page:
        begin = min(begin, column.dictionary_page_offset)
    return begin, column.total_compressed_size


def _most(size: int) -> int:
    return max(size // _OF_LOG, _LEAST_PART)


def _plain(column: pyarrow.ChunkedArray, *, most: int) -> pyarrow.ChunkedArray:
    """A column of which equal values were read once, if all of them are not too much."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column
    chunks = []
    for chunk in column.chunks:
        lengths = np.array([len(value) for value in chunk.dictionary.to_pylist()], np.int64)
        most -= int(lengths[chunk.indices.to_numpy()].sum()) if len(lengths) else 0
        if most < 0:
            raise IndexDamage("a log's part is larger than an index can be")
        chunks.append(chunk.dictionary_decode())
    return pa.chunked_array(chunks, column.type.value_type)


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except (IndexDamage, MemoryError, ImportError):
        raise
    except Exception as error:  # whatever pyarrow says of hostile bytes
        raise IndexDamage(" ".join(str(error).split())[:200] or type(error).__name__) from None


def _entries(metadata: Any) -> tuple[Entry, ...]:
    text = (metadata.metadata or {}).get(_KEY)
    if text is None:
        raise IndexDamage("it is a Parquet file of something else")
    head = json.loads(text)
    if head["version"] != _VERSION:
        raise IndexDamage(f"it is of version {head['version']}, {_VERSION} is known")
    entries = tuple(Entry(**entry) for entry in head["logs"])
    if len(entries) != metadata.num_row_groups:
        raise IndexDamage("it holds another number of logs than it tells")
    return entries


class _Raw(io.RawIOBase):
    """The bytes of a file that are checked, as a file object.

    Attributes
    ----------
    held : list of (int, bytes)
        Positions and bytes.
    """

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._size = source.size or 0
        self.held: list[tuple[int, bytes]] = []
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, self._size)[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        for begin, data in self.held:
            if begin <= self._at < begin + len(data):
                part = data[self._at - begin : self._at - begin + len(buffer)]
                buffer[: len(part)] = part
                self._at += len(part)
                return len(part)
        # pyarrow reads more than it needs, such as what lies before the footer: it sees zeros there.
        following = min((begin for begin, _ in self.held if begin > self._at), default=self._size)
        count = max(0, min(len(buffer), following - self._at))
        buffer[:count] = bytes(count)
        self._at += count
        return count


# ---------------------------------------------------------------- places


def index_path(log: str) -> str:
    """Where the index of a log lies: beside it, whatever its other logs are."""
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
            return None
        source = place.open(path, False)
    except BinlogError:
        return None
    try:
        return IndexFile(source)
    except BaseException:
        source.close()
        raise


# ---------------------------------------------------------------- writing

Part = tuple[Entry, Callable[[], Any]]  # and what gives its rows


def write(path: str, parts: Iterable[Part], *, mode: int) -> None:
    """Write an index in place of the one that is there, which is in force until the new one is on disk.

    Parameters
    ----------
    path : str
    parts : iterable of (Entry, callable)
        The callable gives the rows when their turn comes.
    mode : int
        The file's rights.

    Raises
    ------
    BinlogError
        It cannot be written.
    """
    folder = os.path.dirname(path) or "."
    try:
        with unfinished(path) as (file, hidden):
            _write(file, list(parts))
            file.flush()
            os.fsync(file.fileno())
            os.chmod(hidden, mode)
            os.replace(hidden, path)
        at = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(at)
        finally:
            os.close(at)
    except OSError as error:
        raise BinlogError(f"cannot write the index: {error.strerror or error}", path=path) from error


def _write(file: Any, parts: list[Part]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = json.dumps({"version": _VERSION, "logs": [asdict(entry) for entry, _ in parts]}).encode()
    schema = pa.schema(
        [pa.field(name, _type_of(name), nullable=False) for name in COLUMNS], metadata={_KEY: text}
    )
    options: Any = {"compression": "NONE", "write_statistics": False}
    with pq.ParquetWriter(pa.PythonFile(file, "w"), schema, **options) as writer:
        for entry, rows in parts:
            writer.write_table(rows().cast(schema), row_group_size=entry.rows)
    seal(file)


def seal(file: Any) -> None:
    """Put the checksums into a Parquet file that was just written."""
    import pyarrow.parquet as pq

    file.seek(0)
    metadata = pq.read_metadata(file)
    chunks: list[list[int]] = []
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks.append([])
        for column in map(group.column, range(group.num_columns)):
            begin, length = _place_of(column)
            file.seek(begin)
            chunks[-1].append(zlib.crc32(file.read(length)))
    file.seek(-8, os.SEEK_END)
    footer = file.tell() - int.from_bytes(file.read(4), "little")
    file.seek(footer)
    data = file.read()
    text = json.dumps({"footer": zlib.crc32(data), "chunks": chunks}, separators=(",", ":")).encode()
    file.seek(footer)
    file.write(text + _SEAL.pack(len(text), zlib.crc32(text), _MARK) + data)


def need_pyarrow() -> None:
    """Raise MissingExtraError where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("pyarrow", "arrow", "an index") from None
