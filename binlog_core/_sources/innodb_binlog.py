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
    chunks_in,
    parse_commit,
    parse_file_header,
    parse_out_of_band,
    right_pages,
)
from .._format.magic import MADE_BEFOREHAND, MAGIC
from ..errors import BinlogError, DecodeError, MissingFileError
from .sources import Source

Sibling = Callable[[int], Source]

_PAGES_AT_ONCE = 64
_CACHED_PAGES = 256  # for the records of trees, which lie anywhere
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
        head = stored.peek(HEADER_LEN)
        self.header = parse_file_header(head, self.path)
        self._pages: OrderedDict[int, bytes] = OrderedDict()

    def run(self, page: int, count: int) -> bytes:
        """Whole pages from a number on; fewer than `count` at the file's end, or before a damaged one."""
        page_len = self.header.page_len
        size = self.stored.size
        if size is not None and page * page_len >= size:
            return b""
        self.stored.seek(page * page_len)
        parts: list[bytes] = []
        missing = count * page_len
        while missing and (part := self.stored.read(missing)):
            parts.append(part)
            missing -= len(part)
        data = b"".join(parts)
        whole = data[: len(data) // page_len * page_len]
        return right_pages(whole, page_len, page * page_len, self.path)

    def page(self, number: int) -> bytes:
        """One page; empty behind the file's end."""
        if (page := self._pages.get(number)) is None:
            page = self._pages[number] = self.run(number, 1)
            if len(self._pages) > _CACHED_PAGES:
                self._pages.popitem(last=False)
        else:
            self._pages.move_to_end(number)
        return page

    def chunks(self) -> Iterator[Chunk | None]:
        """All chunks of the file, in order; None where nothing more has been written."""
        page_len, number = self.header.page_len, 1
        while run := self.run(number, _PAGES_AT_ONCE):
            for at in range(0, len(run), page_len):
                for chunk in chunks_in(run[at : at + page_len], number * page_len + at, self.path):
                    yield chunk
                    if chunk is None:
                        return
            number += len(run) // page_len

    def chunks_from(self, offset: int) -> Iterator[Chunk | None]:
        """The same from the chunk at an offset on, page by page."""
        page_len = self.header.page_len
        number, first = divmod(offset, page_len)
        if number < 1:
            raise DecodeError(f"a reference to {offset}, inside the file's header", path=self.path)
        while page := self.page(number):
            for chunk in chunks_in(page, number * page_len, self.path, first):
                yield chunk
                if chunk is None:
                    return
            number, first = number + 1, 0


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
        self._bytes = self._log()
        self._left = b""
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
        if not self._left:
            if self._failed is not None:
                raise self._failed
            parts: list[bytes] = []
            gathered = 0
            try:
                while gathered < size and (part := next(self._bytes, b"")):
                    parts.append(part)
                    gathered += len(part)
            except BinlogError as error:  # what comes before it is good
                self._failed = error
                if not parts:
                    raise
            self._left = b"".join(parts)
        data, self._left = self._left[:size], self._left[size:]
        return data

    def close(self) -> None:
        """Close the files; may be called again."""
        self._bytes = iter(())
        self._left = self._ahead = b""
        self._files.close()
        self._stored.close()

    # ------------------------------------------------------------ records

    def _log(self) -> Iterator[bytes]:
        """The log's bytes, in pieces."""
        yield MAGIC + _descriptor()
        if self._stored.peek(len(MADE_BEFOREHAND)) == MADE_BEFOREHAND:
            return
        own = _File(self._stored)
        self._files.own = own
        chunks = own.chunks()
        before = True  # what the file begins with may continue a record of the file before it
        for chunk in chunks:
            if chunk is None:
                return
            if chunk.continues:
                if not before:
                    raise self._error("a chunk continues a record that has not begun", chunk.offset)
                before = not chunk.last
                continue
            if chunk.kind not in BETWEEN_CHUNKS:
                before = False
            record = self._record(own, chunk, chunks)
            if chunk.kind == COMMIT:
                yield from self._transaction(record)
            else:
                deque(record, maxlen=0)
            if self.withheld:
                return

    def _transaction(self, record: Iterator[Chunk]) -> Iterator[bytes]:
        """The events of a commit record, and of the trees that it refers to."""
        head = b""
        for chunk in record:
            head += chunk.data
            if len(head) >= MOST_COMMIT_FIELDS_LEN:
                break
        if not chunk.last and len(head) < MOST_COMMIT_FIELDS_LEN:
            return
        trees, begin = parse_commit(head)
        yield head[begin:]
        for chunk in record:
            yield chunk.data
        if not chunk.last:
            return
        for tree in trees:
            yield from self._tree(tree)

    def _record(self, file: _File, first: Chunk, chunks: Iterator[Chunk | None]) -> Iterator[Chunk]:
        """The chunks of a record, of which `chunks` are those after the first.

        Without the last one if the log ends before it, which is noted.
        """
        yield first
        if first.last:
            return
        between = None  # the kind of a record between the chunks that has not ended
        following: _File | None = file
        while following is not None:
            file = following
            for chunk in chunks:
                if chunk is None:
                    self._torn = 1
                    return
                if between is not None and chunk.continues and chunk.kind == between:
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
                        path=file.path,
                        offset=chunk.offset,
                    )
            following = self._files.get(file.header.number + 1)
            if following is not None:
                chunks = following.chunks()
        self._torn = 1

    def _error(self, message: str, offset: int) -> DecodeError:
        return DecodeError(message, path=self.path, offset=offset)

    # ------------------------------------------------------------ out-of-band records

    def _tree(self, tree: Tree) -> Iterator[bytes]:
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
            for place in self._post_order(root):
                fields = self._fields(place)
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

    def _post_order(self, root: Reference) -> Iterator[Reference]:
        stack = [(root, False)]
        while stack:
            place, visited = stack.pop()
            fields = self._fields(place)
            if visited or fields.left == NOWHERE:
                yield place
                continue
            for child in (fields.left, fields.right):
                self._check_backward(child, place, len(stack))
            stack += [(place, True), (fields.right, False), (fields.left, False)]

    def _check_backward(self, child: Reference, parent: Reference, levels: int) -> None:
        """Refuse circles, and trees that no server makes: what a record refers to was written before it."""
        if child >= parent:
            raise self._wrong(parent, f"a reference to {tuple(child)}, which is not before it")
        if levels > _MOST_LEVELS:
            raise self._wrong(parent, f"out-of-band records in more than {_MOST_LEVELS} levels")

    def _chunks_of(self, place: Reference) -> Iterator[Chunk]:
        """The chunks of the out-of-band record at a place, from file to file."""
        file = self._files.get(place.file)
        chunks = iter(()) if file is None else file.chunks_from(place.offset)
        first = next(chunks, None)
        if file is None or first is None or first.continues or first.kind != OUT_OF_BAND:
            raise self._wrong(place, "not an out-of-band record")
        yield from self._record(file, first, chunks)
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

    def _data(self, place: Reference, begin: int) -> Iterator[bytes]:
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
