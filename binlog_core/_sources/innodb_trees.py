"""The out-of-band records of MariaDB's .ibb files: a transaction's bytes, found by references.

A transaction's records make trees, each record written after those that it refers to. They are gone through
by references, so that only these are kept, however large the transaction is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .._core._innodb_binlog import copy_out_of_band, out_of_band, out_of_band_length
from .._format.innodb_binlog import (
    MOST_FIELDS_LEN,
    NOWHERE,
    OUT_OF_BAND,
    Chunk,
    OutOfBand,
    Reference,
    Tree,
    parse_out_of_band,
)
from ..errors import DecodeError
from .innodb_pages import Cursor, PagedFile, PagedFiles

Record = Callable[[Cursor, Chunk], Iterator[Chunk | None]]


class Piece(NamedTuple):
    """One out-of-band record of a transaction: where it is, and how many bytes its fields take."""

    place: Reference
    fields_len: int


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
        self._handed: dict[int, int] = {}  # bytes of records taken from each file

    def pieces(self, tree: Tree) -> Iterator[Piece]:
        """A tree's records in the order in which they were written.

        Each root is followed by the one before it, through the right reference of its leftmost leaf.

        Raises
        ------
        DecodeError
            The records do not make such a tree.
        """
        levels = 2 * tree.records.bit_length() + 2  # twice those of balanced trees
        roots = [tree.last]
        while (before := self._leftmost(roots[-1], levels).right) != NOWHERE:
            self._check_backward(before, roots[-1])
            roots.append(before)
            if len(roots) > levels + 1:
                raise self._wrong(before, f"more roots than {tree.records} out-of-band records have")
        seen = first = 0
        for root in reversed(roots):
            for place, fields in self._post_order(root, levels):
                if seen == 0:
                    first = fields.number
                    if place != tree.first:
                        raise self._wrong(place, f"the first out-of-band record is at {tuple(tree.first)}")
                if fields.number != first + seen:
                    raise self._wrong(place, f"out-of-band record {fields.number}: expected {first + seen}")
                seen += 1
                if seen > tree.records:
                    raise self._wrong(place, f"more than {tree.records} out-of-band records")
                yield Piece(place, fields.begin)
        if seen != tree.records:
            raise self._wrong(tree.last, f"{seen} out-of-band records: expected {tree.records}")

    def copy(self, piece: Piece, buffer: memoryview) -> int:
        """Copy a record's bytes; -1: they do not fit, or it needs the care of `chunks`."""
        place = piece.place
        file = self._files.get(place.file)
        assert file is not None  # its fields were read
        begin, pages = file.run(place.offset)
        written = copy_out_of_band(
            pages, file.header.page_len, place.offset - begin, piece.fields_len, buffer
        )
        if written > 0:
            self._count(file, written)
        return written

    def length(self, piece: Piece, most: int) -> int:
        """The bytes of a record that `copy` would copy into a buffer of `most` bytes, or -1."""
        place = piece.place
        file = self._files.get(place.file)
        assert file is not None  # its fields were read
        begin, pages = file.run(place.offset)
        length = out_of_band_length(pages, file.header.page_len, place.offset - begin, piece.fields_len)
        if length > most:
            return -1
        if length > 0:
            self._count(file, length)
        return length

    def chunks(self, piece: Piece) -> Iterator[memoryview]:
        """A record's bytes, chunk by chunk."""
        skip = piece.fields_len
        for file, chunk in self._chunks_of(piece.place):
            if skip < len(chunk.data):
                self._count(file, len(chunk.data) - skip)
                yield chunk.data[skip:]
            skip = max(0, skip - len(chunk.data))

    def _count(self, file: PagedFile, size: int) -> None:
        """A record belongs to one transaction: forged references must not multiply its bytes."""
        number = file.header.number
        total = self._handed[number] = self._handed.get(number, 0) + size
        if total > file.size:
            raise DecodeError("several transactions refer to the same out-of-band records", path=file.path)

    def _leftmost(self, place: Reference, levels: int) -> OutOfBand:
        fields = self._fields(place)
        while fields.left != NOWHERE:
            self._check_backward(fields.left, place)
            levels -= 1
            if levels < 1:
                raise self._wrong(place, "too many levels of out-of-band records")
            place = fields.left
            fields = self._fields(place)
        return fields

    def _post_order(self, root: Reference, levels: int) -> Iterator[tuple[Reference, OutOfBand]]:
        stack: list[tuple[Reference, OutOfBand | None]] = [(root, None)]
        while stack:
            place, visited = stack.pop()
            fields = visited or self._fields(place)
            if visited or fields.left == NOWHERE:
                yield place, fields
                continue
            self._check_backward(fields.left, place)
            self._check_backward(fields.right, place)
            stack += [(place, fields), (fields.right, None), (fields.left, None)]
            if len(stack) > 2 * levels + 1:
                raise self._wrong(place, "too many levels of out-of-band records")

    def _check_backward(self, child: Reference, parent: Reference) -> None:
        """Refuse circles: what a record refers to was written before it."""
        if child >= parent:
            raise self._wrong(parent, f"a reference to {tuple(child)}, which is not before it")

    def _fields(self, place: Reference) -> OutOfBand:
        file = self._files.get(place.file)
        if file is not None and place.offset >= file.header.page_len:
            begin, pages = file.run(place.offset)
            found = out_of_band(pages, file.header.page_len, place.offset - begin)
            if found is not None:
                number, left, left_at, right, right_at, length = found
                return OutOfBand(number, Reference(left, left_at), Reference(right, right_at), length)
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
        if file is not None and place.offset < file.header.page_len:
            raise self._wrong(place, "a reference into the file's header")
        cursor = None if file is None else Cursor(file, place.offset)
        first = None if cursor is None else cursor.next()
        if cursor is None or first is None or first.continues or first.kind != OUT_OF_BAND:
            raise self._wrong(place, "not an out-of-band record")
        for chunk in self._record(cursor, first):
            if chunk is None:
                raise self._wrong(place, "the out-of-band record is not whole")
            yield cursor.file, chunk

    def _wrong(self, place: Reference, message: str) -> DecodeError:
        file = self._files.get(place.file)
        path = file.path if file is not None else self._path
        return DecodeError(f"{message} (file number {place.file})", path=path, offset=place.offset)
