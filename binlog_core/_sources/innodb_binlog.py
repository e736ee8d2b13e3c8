"""MariaDB's binary log in InnoDB, read as the classic log that its transactions would make.

Such a file has records of transactions that run side by side, in pieces, and those of transactions that were
rolled back. The source gives the events of the transactions that commit in the file, in the order of
their commit records, behind a descriptor and the GTIDs before the file: everything above it reads them as any
other log. Positions are those of this log: they depend only on the file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from .._core._innodb_binlog import Feed, TreeWalk
from .._format.event_header import HEADER, HEADER_LENGTH_V3
from .._format.event_types import EventType
from .._format.innodb_binlog import (
    BETWEEN_CHUNKS,
    COMMIT,
    GTID_STATE,
    MOST_COMMIT_FIELDS_LEN,
    Chunk,
    parse_commit,
    parse_gtid_state,
)
from .._format.magic import MAGIC
from ..errors import BinlogError, DecodeError
from .innodb_pages import Cursor, PagedFile, PagedFiles, Sibling, is_made_beforehand
from .innodb_places import BEGIN, Place, Places
from .innodb_trees import Trees
from .sources import Source

_NOTHING = memoryview(b"")
_ENDLESS = 1 << 63
_MOST_STATE_LEN = 16 << 20  # bytes of the GTIDs before a file; of a million GTIDs
_VERSION = b"12.3.0-MariaDB"  # of the descriptor, which these files do not have
# Those of 11.8, up to type 171, as hexadecimal digits
_POST_HEADER_LENGTHS = (
    bytes.fromhex("380d000800120004040404120000e400041a08000000080808020000000a0a0a0000000000000a0a0a")
    + bytes(119)
    + bytes.fromhex("041304000d0808080a0a0a")
)


class InnodbBinlogSource(Source):
    """The events of the transactions that commit in one .ibb file, as a classic log.

    Parameters
    ----------
    stored : Source
        The file's bytes; closed with this source.
    sibling : callable or None
        Opens the file with another number, as it is stored; raises MissingFileError if there is none.
    places : Places or None
        Shared with other sources of the same file.

    Raises
    ------
    BinlogError
        The stored bytes cannot be read from any position.
    """

    finds_transactions = True
    feeds = True

    def __init__(self, stored: Source, sibling: Sibling | None = None, places: Places | None = None) -> None:
        super().__init__(stored.path)
        if not stored.seekable or stored.size is None:
            raise BinlogError(
                "an .ibb file cannot be read from a stream, or compressed: save it to a plain file first",
                path=self.path,
            )
        self._stored = stored
        self._sibling = sibling
        self._files = PagedFiles(sibling)
        self._places = places or Places()
        self._closed = False
        self._go_to(BEGIN)

    def _go_to(self, place: Place) -> None:
        """Go on at a place between two transactions; nothing has been read ahead."""
        begin = place is BEGIN
        self._trees = Trees(self._files, self._record, self.path)
        self._own = None if begin else Cursor(self._files.own, place.offset)
        self._left = memoryview(MAGIC + _descriptor()) if begin else _NOTHING
        self._parts: Iterator[memoryview | TreeWalk] = iter(())  # of the record that is being read
        self._walk: TreeWalk | None = None  # the part that is being read
        self._chunks: Iterator[memoryview] | None = None  # of a record in it
        self._between = False  # records: only the tree that has begun comes before the next one
        self._feeding: PagedFile | None = None  # whose pages the last feed had
        self._before = begin  # what the file begins with may continue a record of the file before it
        self._torn = self._over = False
        self._failed: BinlogError | None = None
        self._counted = True  # all bytes before this place, so that others find it at the same position
        self.position = place.position

    @property
    def withheld(self) -> int:
        """1 if the log ends inside a record or a page: a transaction may come later."""
        return int(self._torn or (self._own is not None and self._own.cut))

    @property
    def begun(self) -> bool:
        """Whether the server has written more than zeros and a header, which it makes beforehand."""
        if is_made_beforehand(self._stored):
            return False
        file = self._files.begin(self._stored)
        looking = Cursor(file, file.header.page_len)
        return looking.next() is not None or looking.cut

    @property
    def may_have_ended(self) -> bool:
        """Whether nothing more can come in this log: all of its pages have been written and read."""
        return self._over or (self._own is not None and self._own.ended and not self.withheld)

    def check_size(self) -> None:
        """Raise BinlogError if a mapped file has become shorter than its mapping."""
        self._stored.check_size()

    def peek(self, size: int) -> bytes:
        """The next bytes without moving on: what comes before a damaged page is not lost by it."""
        try:
            return super().peek(size)
        except BinlogError:
            if not self._ahead:
                raise
            return self._ahead

    def pass_damage(self) -> bool:
        """Go on behind the damaged page or record, with the first commit record there.

        The position grows by a page, so that the lost bytes have a place.
        """
        own = self._own
        if self._failed is None or own is None:
            return False
        self._failed = self._walk = None
        self._between = False
        self._left = _NOTHING
        self._parts, self._chunks = iter(()), None
        self._over = own.file is not self._files.own
        self._torn = self._counted = False
        self._before = True
        self.position += own.file.header.page_len
        return True

    def _fetch(self, size: int) -> bytes:
        buffer = memoryview(bytearray(size))
        return bytes(buffer[: self._fetch_into(buffer)])

    def _fetch_into(self, buffer: memoryview) -> int:
        filled = 0
        try:
            while filled < len(buffer) and self._failed is None:
                count = self._some(buffer[filled:], first=not filled)
                if count is None:
                    break
                filled += count
        except BinlogError as error:
            self._failed = error
        if self._failed is not None and not filled:  # what comes before it is good
            raise self._failed
        return filled

    def close(self) -> None:
        """Close the files; may be called again."""
        self._closed = True
        self._parts, self._chunks = iter(()), None
        self._left = _NOTHING
        self._walk = None
        self._ahead = b""
        self._files.close()
        self._stored.close()

    # ------------------------------------------------------------ bytes

    def _some(self, buffer: memoryview, *, first: bool) -> int | None:
        """The next bytes, or a step towards them; None: no more for now, or they need a buffer of their own.

        Parameters
        ----------
        buffer : memoryview
        first : bool
            Whether it is as large as it can be.
        """
        if self._left:
            count = min(len(buffer), len(self._left))
            buffer[:count] = self._left[:count]
            self._left = self._left[count:]
            return count
        if (chunks := self._chunks) is not None:
            self._next_chunk(chunks)
            return 0
        if self._walk is None and (part := next(self._parts, None)) is not None:
            if isinstance(part, TreeWalk):
                self._walk = part
            else:
                self._left = part
                if not part:
                    return None
            return 0
        if self._closed or self._over:
            return None
        if self._own is None:
            return 0 if self._begin() else None
        if self._walk is None:
            if self._left_the_file():
                return None
            self._between = True
        walk, full = self._walk, False
        if (feed := self._next_feed()) is not None:
            written, full = feed.copy(buffer), feed.full
            self._note(feed)
            if written or self._walk is not walk:
                return written
        if walk is None:
            return None if full and not first else self._next_record(self._own)
        written = self._trees.copy(walk, buffer)
        if walk.done:
            self._walk = None
        elif not written:
            self._chunks = self._trees.chunks(walk)
        return written

    def _next_chunk(self, chunks: Iterator[memoryview]) -> None:
        self._left = next(chunks, _NOTHING)
        if not self._left:
            self._chunks = None

    def feed(self) -> Feed | None:
        """See `Source.feed`: the rest of a tree, and the transactions that follow."""
        if self._ahead or self._left or self._chunks is not None or self._failed is not None:
            return None
        if self._own is None or self._over or self._closed or not (self._walk is not None or self._between):
            return None
        return self._next_feed()

    def took(self, feed: Feed, count: int) -> None:
        """See `Source.took`."""
        self.position += count
        self._note(feed)

    def _next_feed(self) -> Feed | None:
        """What takes the rest of the tree that has begun, and the records that follow."""
        own, walk = self._own, self._walk
        assert own is not None
        file, place = (
            (own.file, own.offset) if walk is None else (self._files.get(walk.place[0]), walk.place[1])
        )
        pages = None if file is None else file.pages(place)
        if file is None or pages is None:
            return None
        self._feeding = file
        follows = self._between and file is own.file and own.offset in pages
        offset = own.offset if follows else None
        return Feed(pages, offset, walk, file.header.number, self._trees.left(file))

    def _note(self, feed: Feed) -> None:
        """Go on behind what a feed has taken."""
        assert self._own is not None
        assert self._feeding is not None
        if (offset := feed.offset) is not None:
            self._own.offset = offset
            self._before = self._before and not feed.any
        self._walk = feed.walk
        try:
            self._trees.took(feed, self._feeding)
        except BinlogError as error:  # the bytes are good
            self._failed = error

    def _left_the_file(self) -> bool:
        """Whether the log is over, with the record that the file's last one was."""
        self._over = self._own is not None and self._own.file is not self._files.own
        return self._over

    def _begin(self) -> bool:
        """Read the file's header and the GTIDs before it; False: the server has not written them yet."""
        if is_made_beforehand(self._stored):
            return False
        file = self._files.begin(self._stored)
        looking = Cursor(file, file.header.page_len)
        try:
            first = looking.next()
        except BinlogError:  # whoever reads the page next says so, and can go on behind it
            self._own = Cursor(file, file.header.page_len)
            return True
        self._torn = looking.cut
        if first is None:
            return False
        self._own = Cursor(file, file.header.page_len)
        if first.kind == GTID_STATE and not first.continues:
            self._left = memoryview(self._gtids_before(looking, first))
        return True

    # ------------------------------------------------------------ places

    @property
    def extent(self) -> int | None:
        """The bytes of the file: its transactions have about as many."""
        return self._stored.size

    def twin(self) -> InnodbBinlogSource | None:
        """Another source of the same bytes, for another thread; None: the log must be opened again."""
        stored = self._stored.twin()
        return None if stored is None else InnodbBinlogSource(stored, self._sibling, self._places)

    def seek(self, position: int) -> None:
        """Go to a position. Events are passed over without copying them."""
        if 0 <= position - self.position <= len(self._ahead):
            super().seek(position)
            return
        self._go_before(self._places.last(position), position < self.position)
        with self._places.lock:
            self._pass(position - self.position)
        if self.position < position:
            raise BinlogError(
                f"position {position} is outside the log of {self.position} bytes", path=self.path
            )

    def transaction_from(self, position: int) -> int | None:
        """Where the first transaction begins from a position on; reading goes on there. None: none does."""
        with self._places.lock:
            self._go_before(self._places.last(position), back=True)
            found = self._pass(max(position - self.position, 0), whole=True)
        return self.position if found else None

    def transaction_in_file(self, offset: int) -> int | None:
        """Where the first transaction begins whose commit record is at or after an offset in the file."""
        with self._places.lock:
            self._go_before(self._places.last_in_file(offset), back=True)
            found = self._pass(_ENDLESS, until=offset)
        return self.position if found else None

    def _go_before(self, place: Place, back: bool) -> None:
        """Go to a place, or stay if it is not behind this one and nothing leads `back`."""
        self.position += len(self._ahead)
        self._ahead = b""
        if back or place.position > self.position:
            if place is not BEGIN:
                self._files.begin(self._stored)
            self._go_to(place)

    def _pass(self, room: int, until: int = _ENDLESS, *, whole: bool = False) -> bool:
        """Pass over events without copying them.

        Parameters
        ----------
        room : int
            Bytes of them.
        until : int
            Offset in the file from which on no commit record is passed over.
        whole : bool
            Pass over a transaction that has begun to its end.

        Returns
        -------
        bool
            Whether the place is before a commit record; else it is inside a transaction, or the log ends.
        """
        try:
            while self._failed is None:
                if self._left:
                    count = len(self._left) if whole else min(room, len(self._left))
                    self._left = self._left[count:]
                    self.position += count
                    room = max(room - count, 0)
                    if self._left:
                        return False
                elif (chunks := self._chunks) is not None:
                    self._next_chunk(chunks)
                elif (walk := self._walk) is not None:
                    count = self._trees.length(walk, _ENDLESS if whole else room)
                    if walk.done:
                        self._walk = None
                    elif not count:
                        if not (whole or room):
                            return False
                        self._chunks = self._trees.chunks(walk)
                    self.position += count
                    room = max(room - count, 0)
                elif (part := next(self._parts, None)) is not None:
                    if isinstance(part, TreeWalk):
                        self._walk = part
                    elif part:
                        self._left = part
                    else:
                        return False
                elif self._closed or self._over:
                    return False
                elif self._own is None:
                    if not self._begin():
                        return False
                elif self._left_the_file():
                    return False
                elif (found := self._pass_record(self._own, room, until)) is not None:
                    passed, at_commit = found
                    self.position += passed
                    room -= passed
                    if at_commit:
                        return True
                else:
                    return False
        except BinlogError as error:
            self._failed = error
        raise self._failed

    def _pass_record(self, own: Cursor, room: int, until: int) -> tuple[int, bool] | None:
        """Pass over records; begin one that needs care.

        Returns
        -------
        (bytes, at_commit) or None
            Bytes of events; whether the next record is a commit record that is not to be passed over. None:
            the file ends.
        """
        if self._counted and not self._before:
            self._places.add(own.offset, self.position)
        offset, self._between = own.offset, True
        if (feed := self._next_feed()) is not None:
            passed = feed.skip(room, until)
            self._note(feed)
            if own.offset > offset:
                return passed, False
        chunk = own.next()
        if chunk is None:
            return None
        if chunk.kind == COMMIT and not chunk.continues and (not room or chunk.offset >= until):
            own.offset = chunk.offset
            return 0, True
        self._begin_record(own, chunk)
        return 0, False

    # ------------------------------------------------------------ records

    def _next_record(self, own: Cursor) -> int | None:
        """Begin the record at the cursor, whatever it is; None: there is none."""
        chunk = own.next()
        if chunk is None:
            return None
        self._begin_record(own, chunk)
        return 0

    def _begin_record(self, own: Cursor, chunk: Chunk) -> None:
        self._between = False
        if chunk.continues:
            if not self._before:
                raise DecodeError(
                    "a chunk continues a record that has not begun", path=self.path, offset=chunk.offset
                )
            self._before = not chunk.last
            return
        self._before = self._before and chunk.kind in BETWEEN_CHUNKS
        record = self._record(own, chunk)
        self._parts = self._transaction(record) if chunk.kind == COMMIT else self._passed(record)

    def _record(self, cursor: Cursor, first: Chunk) -> Iterator[Chunk | None]:
        """The chunks of a record, of which the cursor is behind the first; None: no more is written yet."""
        yield first
        if first.last:
            return
        between = None  # the kind of a record between the chunks that has not ended
        while True:
            chunk = cursor.next()
            if chunk is None:
                following = self._files.get(cursor.file.header.number + 1) if cursor.ended else None
                if following is None:
                    yield None
                else:
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
                cursor.offset = chunk.offset  # where reading can go on
                raise DecodeError(
                    f"a record of type {first.kind} is not whole when another begins",
                    path=cursor.file.path,
                    offset=chunk.offset,
                )

    def _written(self, record: Iterator[Chunk | None]) -> Iterator[Chunk | None]:
        """A record's chunks; notes whether the log ends, for now, inside it."""
        for chunk in record:
            self._torn = chunk is None
            yield chunk

    def _passed(self, record: Iterator[Chunk | None]) -> Iterator[memoryview]:
        for chunk in self._written(record):
            if chunk is None:
                yield _NOTHING

    def _transaction(self, record: Iterator[Chunk | None]) -> Iterator[memoryview | TreeWalk]:
        """The events of a commit record, and of the trees that it refers to; nothing: no more for now."""
        head = b""
        record = self._written(record)
        for chunk in record:
            if chunk is None:
                yield _NOTHING
                continue
            head += chunk.data
            if len(head) >= MOST_COMMIT_FIELDS_LEN:
                break
        trees, begin = parse_commit(head)
        if begin < len(head):
            yield memoryview(head)[begin:]
        for chunk in record:
            if chunk is None:
                yield _NOTHING
            elif chunk.data:
                yield chunk.data
        for tree in trees:
            self._between = tree is trees[-1] and self._own is not None and self._own.file is self._files.own
            yield self._trees.walk(tree)

    def _gtids_before(self, own: Cursor, first: Chunk) -> bytes:
        """The GTID_LIST event of the state record with which the file begins; empty if it is not whole."""
        data = bytearray()  # in place: a state may come in millions of chunks
        for chunk in self._record(own, first):
            if chunk is None or len(data) > _MOST_STATE_LEN:
                return b""
            data += chunk.data
        gtids = bytearray()
        try:
            for gtid in parse_gtid_state(data):
                gtids += struct.pack("<IIQ", *gtid)
        except struct.error:
            raise DecodeError(
                "the GTID state has a number that no GTID has", path=self.path, offset=first.offset
            ) from None
        body = struct.pack("<I", len(gtids) // 16) + gtids
        return _event(EventType.MARIADB_GTID_LIST, body, len(MAGIC) + len(_descriptor()))


def _event(kind: EventType, body: bytes, position: int) -> bytes:
    length = HEADER_LENGTH_V3 + len(body)
    return HEADER.pack(0, kind, 0, length, (position + length) & 0xFFFFFFFF, 0) + body


def _descriptor() -> bytes:
    """The format description of the version's defaults: no checksums."""
    body = struct.pack("<H50sIB", 4, _VERSION, 0, HEADER_LENGTH_V3) + _POST_HEADER_LENGTHS + b"\0"
    event = _event(EventType.FORMAT_DESCRIPTION, body + bytes(4), len(MAGIC))[:-4]
    return event + struct.pack("<I", zlib.crc32(event))
