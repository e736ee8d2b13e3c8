"""The out-of-band records of MariaDB's .ibb files: a transaction's bytes, found by references.

A transaction's records make trees, each record written after those that it refers to. They are gone through
by references, so that only these are kept, however large the transaction is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .._core._innodb_binlog import BYTES, DONE, FIELDS, FULL, WRONG, Feed, TreeWalk
from .._format.innodb_binlog import (
    MOST_FIELDS_LEN,
    OUT_OF_BAND,
    Chunk,
    OutOfBand,
    Reference,
    Tree,
    parse_out_of_band,
)
from ..errors import DecodeError
from .innodb_pages import Cursor, PagedFile, PagedFiles

_BYTES_A_LOOK = 8  # at most, of records that stand between a record's chunks

Record = Callable[[Cursor, Chunk], Iterator[Chunk | None]]


class Trees:
    """The out-of-band records that the commit records of one file refer to.

    Parameters
    ----------
    files : PagedFiles
    record : callable
        The chunks of the record that begins with a chunk, of which a cursor is behind; None among them: no
        more has been written.
    path : str
        The file with the commit records.
    """

    def __init__(self, files: PagedFiles, record: Record, path: str) -> None:
        self._files = files
        self._record = record
        self._path = path
        self._feeding: PagedFile | None = None
        # Of each file: bytes of records taken, and how often something in it was looked at
        self._handed: dict[int, tuple[int, int]] = {}

    def walk(self, tree: Tree) -> TreeWalk:
        """Begin a tree, for `copy`, `length` and `chunks`."""
        return TreeWalk(*tree)

    def copy(self, walk: TreeWalk, buffer: memoryview) -> int:
        """Copy the next bytes; 0: there are none, or the rest of a record needs the care of `chunks`.

        Raises
        ------
        DecodeError
            The records do not make such a tree.
        """
        return self._go_on(walk, buffer, 0)

    def length(self, walk: TreeWalk, most: int) -> int:
        """Pass over what `copy` would copy into a buffer of `most` bytes."""
        return self._go_on(walk, None, most)

    def left(self, file: PagedFile) -> int:
        """How many bytes of records in a file may still be taken, unless it grows."""
        had, looked = self._handed.get(file.header.number, (0, 0))
        seen = file.seen(max(had, looked))
        return 0 if looked > seen else max(seen - had, 0)

    def took(self, feed: Feed, file: PagedFile) -> None:
        """Count what a feed has taken of trees in a file."""
        size, looks = feed.tell()
        if size or looks:
            self._count(file, size, looks)

    def chunks(self, walk: TreeWalk) -> Iterator[memoryview]:
        """The rest of a record's bytes, chunk by chunk; the walk goes on behind it."""
        place, skip = Reference(*walk.place), walk.taken
        walk.skip()
        return self._bytes_of(place, skip)

    def _bytes_of(self, place: Reference, skip: int) -> Iterator[memoryview]:
        for file, chunk in self._chunks_of(place):
            if skip < len(chunk.data):
                self._count(file, len(chunk.data) - skip, 0)
                yield chunk.data[skip:]
            skip = max(0, skip - len(chunk.data))

    def _go_on(self, walk: TreeWalk, buffer: memoryview | None, room: int) -> int:
        """An error comes only when nothing has been copied before it."""
        while True:
            place = Reference(*walk.place)
            file = self._files.get(place.file)
            pages = None if file is None else file.pages(place.offset)
            if file is None or pages is None:
                status, count = FIELDS, 0  # which says so
            else:
                self._count(file, 0, 0)  # after an error there may be more of them
                status, count, looks = walk.go_on(pages, place.file, buffer, room)
                self._count(file, count, looks)
            if count:
                return count
            if status == FIELDS and not walk.give(*self._fields(Reference(*walk.place))):
                status = WRONG
            if status == WRONG:
                message, wrong = walk.fault()
                raise self._wrong(Reference(*wrong), message)
            if status in (FULL, BYTES, DONE):
                return 0

    def _count(self, file: PagedFile, size: int, looks: int) -> None:
        """A record belongs to one transaction: forged references must not multiply its bytes, or the work.

        A whole transaction takes a few looks at each chunk, which has more bytes than that.
        """
        number = file.header.number
        had, looked = self._handed.get(number, (0, 0))
        self._handed[number] = had, looked = had + size, looked + looks
        if file.seen(most := max(had, looked)) < most:
            raise DecodeError("several transactions refer to the same out-of-band records", path=file.path)

    def _fields(self, place: Reference) -> OutOfBand:
        head = b""
        for _, chunk in self._chunks_of(place):
            head += chunk.data[:MOST_FIELDS_LEN]
            if len(head) >= MOST_FIELDS_LEN:
                break
        try:
            return parse_out_of_band(head)
        except DecodeError as error:
            raise self._wrong(place, error.message) from None

    def _chunks_of(self, place: Reference) -> Iterator[tuple[PagedFile, Chunk]]:
        """The chunks of the out-of-band record at a place, each with its file."""
        file = self._files.get(place.file)
        if file is None:
            raise self._wrong(place, "a transaction began in a file that is missing")
        if place.offset < file.header.page_len:
            raise self._wrong(place, "a reference into the file's header")
        cursor = Cursor(file, place.offset)
        first = cursor.next()
        if first is None or first.continues or first.kind != OUT_OF_BAND:
            raise self._wrong(place, "not an out-of-band record")
        begin = place.offset
        for chunk in self._record(cursor, first):
            if chunk is None:
                raise self._wrong(place, "the out-of-band record is not whole")
            passed, begin = cursor.offset - begin, cursor.offset  # negative: it goes on in the next file
            self._count(cursor.file, 0, 1 + max(passed, 0) // _BYTES_A_LOOK)
            yield cursor.file, chunk

    def _wrong(self, place: Reference, message: str) -> DecodeError:
        file = self._files.get(place.file)
        path = file.path if file is not None else self._path
        return DecodeError(f"{message} (file number {place.file})", path=path, offset=place.offset)
