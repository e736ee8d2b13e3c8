"""MariaDB's binary log in InnoDB, read as the classic log that its transactions would make.

Such a file has records of transactions that run side by side, in pieces, and those of transactions that were
rolled back. The source gives the events of the transactions that commit in the file, in the order of
their commit records, behind a descriptor: everything above it reads them as any other log. Positions are
those of this log: they depend only on the file.
"""

from __future__ import annotations

import struct
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

import numpy as np

from .._core._crc32 import first_wrong_page
from .._core._innodb_binlog import short_transactions
from .._format.event_header import HEADER, HEADER_LENGTH_V3
from .._format.event_types import EventType
from .._format.innodb_binlog import (
    BETWEEN_CHUNKS,
    COMMIT,
    HEADER_LEN,
    MOST_COMMIT_FIELDS_LEN,
    MOST_FIELDS_LEN,
    NOWHERE,
    OUT_OF_BAND,
    Chunk,
    OutOfBand,
    Reference,
    Tree,
    chunk_at,
    parse_commit,
    parse_file_header,
    parse_out_of_band,
)
from .._format.magic import MADE_BEFOREHAND, MAGIC
from ..errors import BinlogError, ChecksumError, DecodeError, MissingFileError
from .sources import Source

Sibling = Callable[[int], Source]

_RUN_LEN = 256 << 10  # bytes of pages that are read and checked together
_CACHED_RUNS = 16  # for the records of trees, which lie anywhere
_OPEN_FILES = 16
_MOST_LEVELS = 128  # twice those of a balanced tree of 2**64 records
_VERSION = b"12.3.0-MariaDB"  # of the descriptor, which these files do not have
# Those of 11.8, up to type 171, as hexadecimal digits
_POST_HEADER_LENGTHS = (
    bytes.fromhex("380d000800120004040404120000e400041a08000000080808020000000a0a0a0000000000000a0a0a")
    + bytes(119)
    + bytes.fromhex("041304000d0808080a0a0a")
)


class _File:
    """One .ibb file: its pages, checked."""

    def __init__(self, stored: Source) -> None:
        self.path = stored.path
        self.stored = stored
        self.header = parse_file_header(stored.peek(HEADER_LEN), self.path)
        self._run_len = max(_RUN_LEN, self.header.page_len)
        self._runs: OrderedDict[int, memoryview] = OrderedDict()

    def run(self, offset: int) -> tuple[int, memoryview]:
        """Some pages, of which the first or a later one is that of an offset, and where they begin.

        None behind the file's end.

        Raises
        ------
        ChecksumError
            The page of the offset is damaged.
        """
        begin = offset - offset % self._run_len
        if (pages := self._runs.get(begin)) is not None:
            self._runs.move_to_end(begin)
        else:
            pages = self._runs[begin] = self._read(begin, self._run_len)
            if len(self._runs) > _CACHED_RUNS:
                self._runs.popitem(last=False)
        if offset >= begin + len(pages):  # behind the end, or behind a damaged page
            begin = offset - offset % self.header.page_len
            pages = self._read(begin, self.header.page_len, whole=True)
        return begin, pages

    def _read(self, begin: int, size: int, *, whole: bool = False) -> memoryview:
        """Whole pages; fewer at the file's end, and before a damaged one unless `whole`: then an error."""
        page_len = self.header.page_len
        stored = self.stored.size
        if stored is not None and begin >= stored:
            return memoryview(b"")
        self.stored.seek(begin)
        buffer = np.empty(size, np.uint8).data  # not filled with zeros first
        filled = 0
        while filled < size and (count := self.stored.fill(buffer[filled:])):
            filled += count
        pages = buffer[: filled // page_len * page_len]
        wrong = first_wrong_page(pages, page_len)
        if wrong >= 0 and whole:
            raise ChecksumError(
                f"wrong checksum of page {begin // page_len + wrong}", path=self.path, offset=begin
            )
        return pages if wrong < 0 else pages[: wrong * page_len]


class _Cursor:
    """Goes through the chunks of a file, and of those that follow it.

    Parameters
    ----------
    file : _File
    offset : int
        Where a chunk begins, or where the one before it ends.
    """

    def __init__(self, file: _File, offset: int) -> None:
        self.file = file
        self.offset = offset
        self.ended = False

    def next(self) -> Chunk | None:
        """The next chunk; None where nothing more has been written, and where the file has `ended`."""
        self.ended = False
        while True:
            begin, pages = self.file.run(self.offset)
            if not pages:
                self.ended = True
                return None
            page_len, size = self.file.header.page_len, len(pages)
            at = self.offset - begin
            while at < size:
                found = chunk_at(pages, page_len, at, begin, self.file.path)
                if not isinstance(found, int):
                    if found is not None:
                        self.offset = found.end
                    return found
                at = found
            self.offset = begin + at

    def enter(self, file: _File) -> None:
        """Go on at the beginning of another file."""
        self.file, self.offset = file, file.header.page_len


class _Files:
    """The files that a file's records lead to, by number."""

    own: _File

    def __init__(self, sibling: Sibling | None) -> None:
        self._sibling = sibling
        self._open: OrderedDict[int, _File] = OrderedDict()

    def get(self, number: int) -> _File | None:
        """A file; None: it does not exist."""
        if number == self.own.header.number:
            return self.own
        if (file := self._open.get(number)) is not None:
            self._open.move_to_end(number)
            return file
        if self._sibling is None:
            return None
        try:
            stored = self._sibling(number)
        except MissingFileError:
            return None
        try:
            if stored.peek(len(MADE_BEFOREHAND)) == MADE_BEFOREHAND:
                stored.close()
                return None
            file = _File(stored)
            if file.header.number != number:
                raise DecodeError(f"the header has number {file.header.number}", path=file.path)
        except BaseException:
            stored.close()
            raise
        self._open[number] = file
        if len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)[1].stored.close()
        return file

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].stored.close()


class InnodbBinlogSource(Source):
    """The events of the transactions that commit in one .ibb file, as a classic log.

    Parameters
    ----------
    stored : Source
        The file's bytes; closed with this source.
    sibling : callable or None
        Opens the file with another number, as it is stored; raises MissingFileError if there is none.

    Raises
    ------
    BinlogError
        The stored bytes cannot be read from any position.
    """

    growing = False  # files are made beforehand, so that a next one does not mean that this one has ended

    def __init__(self, stored: Source, sibling: Sibling | None = None) -> None:
        super().__init__(stored.path)
        if not stored.seekable:
            raise BinlogError(
                "an .ibb file cannot be read from a stream: save it to a file first", path=self.path
            )
        self._stored = stored
        self._files = _Files(sibling)
        self._torn = 0
        self._own: _Cursor | None = None
        self._left = memoryview(MAGIC + _descriptor())
        self._parts: Iterator[memoryview] = iter(())  # of the record that is being read
        self._before = True  # what the file begins with may continue a record of the file before it
        self._ended = False
        self._failed: BinlogError | None = None

    @property
    def withheld(self) -> int:
        """1 if the log ends inside a record: a transaction may come later."""
        return self._torn

    def peek(self, size: int) -> bytes:
        """See `Source.peek`; what comes before a damaged page is not lost by looking ahead."""
        try:
            return super().peek(size)
        except BinlogError:
            if not self._ahead:
                raise
            return self._ahead

    def _fetch(self, size: int) -> bytes:
        buffer = memoryview(bytearray(size))
        return bytes(buffer[: self._fetch_into(buffer)])

    def _fetch_into(self, buffer: memoryview) -> int:
        filled = 0
        try:
            while filled < len(buffer) and self._failed is None:
                if self._left:
                    count = min(len(buffer) - filled, len(self._left))
                    buffer[filled : filled + count] = self._left[:count]
                    self._left = self._left[count:]
                    filled += count
                elif (part := next(self._parts, None)) is not None:
                    self._left = part
                elif self._ended:
                    break
                elif self._own is None:
                    self._own = self._begin()
                elif self._torn or self._own.file is not self._files.own:
                    self._ended = True  # with the record that the file's last one was
                elif written := self._short_transactions(self._own, buffer[filled:]):
                    filled += written
                else:
                    self._next_record(self._own)
        except BinlogError as error:
            self._failed = error
        if self._failed is not None and not filled:  # what comes before it is good
            raise self._failed
        return filled

    def close(self) -> None:
        """Close the files; may be called again."""
        self._ended = True
        self._parts = iter(())
        self._left = memoryview(b"")
        self._ahead = b""
        self._files.close()
        self._stored.close()

    # ------------------------------------------------------------ records

    def _begin(self) -> _Cursor | None:
        if self._stored.peek(len(MADE_BEFOREHAND)) == MADE_BEFOREHAND:
            self._ended = True
            return None
        file = self._files.own = _File(self._stored)
        return _Cursor(file, file.header.page_len)

    def _short_transactions(self, own: _Cursor, buffer: memoryview) -> int:
        """Events from the cursor on, of records that need no care; returns the number of bytes."""
        begin, pages = own.file.run(own.offset)
        page_len = own.file.header.page_len
        end, written, any_record = short_transactions(pages, page_len, own.offset - begin, buffer)
        own.offset = begin + end
        self._before = self._before and not any_record
        return written

    def _next_record(self, own: _Cursor) -> None:
        """Begin the record at the cursor, whatever it is."""
        chunk = own.next()
        if chunk is None:
            self._ended = True
        elif chunk.continues:
            if not self._before:
                raise self._error("a chunk continues a record that has not begun", chunk.offset)
            self._before = not chunk.last
        else:
            self._before = self._before and chunk.kind in BETWEEN_CHUNKS
            record = self._record(own, chunk)
            if chunk.kind == COMMIT:
                self._parts = self._transaction(record)
            else:
                deque(record, maxlen=0)

    def _transaction(self, record: Iterator[Chunk]) -> Iterator[memoryview]:
        """The events of a commit record, and of the trees that it refers to."""
        head = b""
        for chunk in record:
            head += chunk.data
            if len(head) >= MOST_COMMIT_FIELDS_LEN:
                break
        if not chunk.last and len(head) < MOST_COMMIT_FIELDS_LEN:
            return
        trees, begin = parse_commit(head)
        yield memoryview(head)[begin:]
        for chunk in record:
            yield chunk.data
        if not chunk.last:
            return
        for tree in trees:
            yield from self._tree(tree)

    def _record(self, cursor: _Cursor, first: Chunk) -> Iterator[Chunk]:
        """The chunks of a record, of which the cursor is behind the first.

        Without the last one if the log ends before it, which is noted.
        """
        yield first
        if first.last:
            return
        between = None  # the kind of a record between the chunks that has not ended
        while True:
            chunk = cursor.next()
            if chunk is None:
                following = self._files.get(cursor.file.header.number + 1) if cursor.ended else None
                if following is None:
                    self._torn = 1
                    return
                cursor.enter(following)
            elif between is not None and chunk.continues and chunk.kind == between:
                between = None if chunk.last else between
            elif between is None and chunk.continues and chunk.kind == first.kind:
                yield chunk
                if chunk.last:
                    return
            elif between is None and not chunk.continues and chunk.kind in BETWEEN_CHUNKS:
                between = None if chunk.last else chunk.kind
            else:
                raise DecodeError(
                    f"a record of type {first.kind} is not whole when another begins",
                    path=cursor.file.path,
                    offset=chunk.offset,
                )

    def _error(self, message: str, offset: int) -> DecodeError:
        return DecodeError(message, path=self.path, offset=offset)

    # ------------------------------------------------------------ out-of-band records

    def _tree(self, tree: Tree) -> Iterator[memoryview]:
        """The bytes of a transaction's out-of-band records, in the order in which they were written.

        Each root is followed by the one before it, through the right reference of its leftmost leaf.
        Only references are kept, never more than there are levels of the tree.
        """
        roots = [tree.last]
        while (before := self._fields(self._leftmost(roots[-1])).right) != NOWHERE:
            self._check_backward(before, roots[-1], len(roots))
            roots.append(before)
        seen = 0
        for root in reversed(roots):
            for place, fields in self._post_order(root):
                if seen == 0:
                    first = fields.number
                    if place != tree.first:
                        raise self._wrong(place, f"the first out-of-band record is at {tuple(tree.first)}")
                if fields.number != first + seen:
                    raise self._wrong(place, f"out-of-band record {fields.number}: expected {first + seen}")
                seen += 1
                if seen > tree.records:
                    raise self._wrong(place, f"more than {tree.records} out-of-band records")
                yield from self._data(place, fields.begin)
        if seen != tree.records:
            raise self._wrong(tree.last, f"{seen} out-of-band records: expected {tree.records}")

    def _leftmost(self, place: Reference) -> Reference:
        levels = 1
        while (left := self._fields(place).left) != NOWHERE:
            self._check_backward(left, place, levels)
            place = left
            levels += 1
        return place

    def _post_order(self, root: Reference) -> Iterator[tuple[Reference, OutOfBand]]:
        stack: list[tuple[Reference, OutOfBand | None]] = [(root, None)]
        while stack:
            place, visited = stack.pop()
            fields = visited or self._fields(place)
            if visited or fields.left == NOWHERE:
                yield place, fields
                continue
            for child in (fields.left, fields.right):
                self._check_backward(child, place, len(stack))
            stack += [(place, fields), (fields.right, None), (fields.left, None)]

    def _check_backward(self, child: Reference, parent: Reference, levels: int) -> None:
        """Refuse circles, and trees that no server makes: what a record refers to was written before it."""
        if child >= parent:
            raise self._wrong(parent, f"a reference to {tuple(child)}, which is not before it")
        if levels > _MOST_LEVELS:
            raise self._wrong(parent, f"out-of-band records in more than {_MOST_LEVELS} levels")

    def _chunks_of(self, place: Reference) -> Iterator[Chunk]:
        """The chunks of the out-of-band record at a place, from file to file."""
        file = self._files.get(place.file)
        if file is not None and place.offset < file.header.page_len:
            raise self._wrong(place, "a reference into the file's header")
        cursor = None if file is None else _Cursor(file, place.offset)
        first = None if cursor is None else cursor.next()
        if cursor is None or first is None or first.continues or first.kind != OUT_OF_BAND:
            raise self._wrong(place, "not an out-of-band record")
        yield from self._record(cursor, first)
        if self.withheld:
            raise self._wrong(place, "the out-of-band record is not whole")

    def _fields(self, place: Reference) -> OutOfBand:
        head = b""
        for chunk in self._chunks_of(place):
            head += chunk.data[:MOST_FIELDS_LEN]
            if chunk.last or len(head) >= MOST_FIELDS_LEN:
                break
        try:
            return parse_out_of_band(head)
        except DecodeError as error:
            raise self._wrong(place, error.message) from None

    def _data(self, place: Reference, begin: int) -> Iterator[memoryview]:
        for chunk in self._chunks_of(place):
            if begin < len(chunk.data):
                yield chunk.data[begin:]
            begin = max(0, begin - len(chunk.data))

    def _wrong(self, place: Reference, message: str) -> DecodeError:
        file = self._files.get(place.file)
        path = file.path if file is not None else self.path
        return DecodeError(f"{message} (file number {place.file})", path=path, offset=place.offset)


def _descriptor() -> bytes:
    """The format description of the version's defaults: no checksums."""
    body = struct.pack("<H50sIB", 4, _VERSION, 0, HEADER_LENGTH_V3) + _POST_HEADER_LENGTHS + b"\0"
    length = HEADER_LENGTH_V3 + len(body) + 4
    event = HEADER.pack(0, EventType.FORMAT_DESCRIPTION, 0, length, len(MAGIC) + length, 0) + body
    return event + struct.pack("<I", zlib.crc32(event))
