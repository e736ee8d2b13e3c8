"""MariaDB's binary log in InnoDB (``binlog-000000.ibb``): header, pages, chunks, packed integers, records.

Source: MariaDB server 12.3, Docs/replication/binlog.md, ``fsp_binlog.h``, ``mysqlbinlog-engine.cc``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .._core._crc32 import crc32c
from ..errors import ChecksumError, DecodeError, FormatError
from .magic import INNODB_MAGIC

HEADER_LEN = 512  # of page 0, whatever the page size; its last four bytes are its checksum
PAGE_CHECKSUM_LEN = 4

COMMIT, GTID_STATE, OUT_OF_BAND, FILLER, XA_PREPARE, XA_COMPLETE = range(1, 7)
_KINDS = range(COMMIT, XA_COMPLETE + 1)
BETWEEN_CHUNKS = (GTID_STATE, FILLER)  # whole records of these may stand inside another

_CONTINUES, _LAST = 0x80, 0x40  # bits of a chunk's type byte
_END, _REST_IS_FILLER = 0, 0xFF  # instead of a type byte
_CHUNK_HEAD = struct.Struct("<BH")
_HEADER = struct.Struct("<4sIIIQQQQQQ")
_MAJOR = 1
_PAGE_SHIFTS = range(9, 17)  # 512 bytes to 64 KiB


@dataclass(frozen=True, slots=True)
class FileHeader:
    """What page 0 says.

    Parameters
    ----------
    page_len : int
        Bytes of a page.
    number : int
        The file's number.
    """

    page_len: int
    number: int


def parse_file_header(head: bytes, path: str) -> FileHeader:
    """The header of an .ibb file, from its first 512 bytes.

    Raises
    ------
    FormatError
        It is of a later major version, or not a header.
    ChecksumError
    """
    if len(head) < HEADER_LEN or head[:4] != INNODB_MAGIC:
        raise FormatError("not an .ibb file: the header is incomplete", path=path, offset=0)
    if crc32c(head[: HEADER_LEN - 4]) != int.from_bytes(head[HEADER_LEN - 4 : HEADER_LEN], "little"):
        raise ChecksumError("wrong checksum of the .ibb file's header", path=path, offset=0)
    _, shift, major, _, number, *_ = _HEADER.unpack_from(head)
    if major > _MAJOR:
        raise FormatError(f".ibb files of version {major}: expected {_MAJOR}", path=path, offset=8)
    if shift not in _PAGE_SHIFTS:
        raise FormatError(f"pages of 2**{shift} bytes: expected 2**9 to 2**16", path=path, offset=4)
    return FileHeader(1 << shift, number)


class Chunk(NamedTuple):
    """A piece of a record.

    Parameters
    ----------
    offset : int
        Of its type byte, in the file.
    kind : int
        The record's type.
    continues, last : bool
        Whether it continues a record; whether it is the record's last.
    data : memoryview
    """

    offset: int
    kind: int
    continues: bool
    last: bool
    data: memoryview

    @property
    def end(self) -> int:
        """Offset of what follows it in the file."""
        return self.offset + _CHUNK_HEAD.size + len(self.data)


def chunk_at(pages: memoryview, page_len: int, at: int, offset: int, path: str) -> Chunk | int | None:
    """The chunk at a place in some pages whose checksums are right.

    Parameters
    ----------
    pages : memoryview
    page_len : int
    at : int
        Offset in `pages`.
    offset : int
        Of `pages` in their file.
    path : str

    Returns
    -------
    Chunk or int or None
        An int: the page has no more chunks; where in `pages` the next one begins. None: nothing more has been
        written to the file.

    Raises
    ------
    DecodeError
        A chunk reaches beyond its page, or is of a type that is not known.
    """
    page_end = at - at % page_len + page_len
    end = page_end - PAGE_CHECKSUM_LEN
    begin = at + _CHUNK_HEAD.size
    if begin >= end or pages[at] == _REST_IS_FILLER:  # a chunk has at least one byte
        return page_end
    kind, length = _CHUNK_HEAD.unpack_from(pages, at)
    if kind == _END:
        return None
    if length > end - begin:
        raise DecodeError(f"a chunk of {length} bytes reaches beyond its page", path=path, offset=offset + at)
    record = kind & ~(_CONTINUES | _LAST)
    if record not in _KINDS:
        # A type of a later version may be part of a transaction.
        raise DecodeError(f"a record of unknown type {record}", path=path, offset=offset + at)
    return Chunk(
        offset + at, record, bool(kind & _CONTINUES), bool(kind & _LAST), pages[begin : begin + length]
    )


class Reference(NamedTuple):
    """Where a record begins: the offset of its first chunk's type byte."""

    file: int
    offset: int


NOWHERE = Reference(0, 0)


class Packed:
    """Takes packed integers from the front of a record.

    Parameters
    ----------
    data : bytes or bytearray
        The record's beginning.
    """

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = data
        self.pos = 0

    def take(self) -> int:
        """The next integer: the low 3 bits of its first byte give its length.

        Raises
        ------
        DecodeError
            The record ends inside it, or it has more than 64 bits.
        """
        if self.pos >= len(self.data):
            raise DecodeError("the record ends inside its fields")
        more = self.data[self.pos] & 7
        end = self.pos + (9 if more == 7 else 1 + more)
        if end > len(self.data):
            raise DecodeError("the record ends inside its fields")
        value = int.from_bytes(self.data[self.pos : end], "little") >> 3
        if value >> 64:
            raise DecodeError("an integer of more than 64 bits in the record's fields")
        self.pos = end
        return value

    def take_reference(self) -> Reference:
        """A file number and an offset."""
        return Reference(self.take(), self.take())


class Tree(NamedTuple):
    """The out-of-band records of a transaction: how many, the first and the last of them."""

    records: int
    first: Reference
    last: Reference


def parse_commit(data: bytes) -> tuple[list[Tree], int]:
    """The trees that a commit record refers to, and where its events begin.

    Raises
    ------
    DecodeError
        The record ends inside them.
    """
    fields = Packed(data)
    trees = []
    if records := fields.take():
        trees.append(Tree(records, fields.take_reference(), fields.take_reference()))
        if records := fields.take():
            trees.append(Tree(records, fields.take_reference(), fields.take_reference()))
    return trees, fields.pos


class OutOfBand(NamedTuple):
    """The fields of an out-of-band record, and where its bytes begin."""

    number: int
    left: Reference
    right: Reference
    begin: int


def parse_out_of_band(data: bytes) -> OutOfBand:
    """The fields at the beginning of an out-of-band record.

    Raises
    ------
    DecodeError
    """
    fields = Packed(data)
    return OutOfBand(fields.take(), fields.take_reference(), fields.take_reference(), fields.pos)


def parse_gtid_state(data: bytes | bytearray) -> Iterator[tuple[int, int, int]]:
    """The GTIDs of a state record, as (domain, server, sequence) in its order.

    Raises
    ------
    DecodeError
        The record ends inside them.
    """
    fields = Packed(data)
    count = fields.take()
    fields.take()  # the earliest file with XA
    if count > len(data) // 3:
        raise DecodeError(f"a GTID state of {count} GTIDs in {len(data)} bytes")
    for _ in range(count):
        yield fields.take(), fields.take(), fields.take()


MOST_FIELDS_LEN = 5 * 9  # bytes of these, at most
MOST_COMMIT_FIELDS_LEN = 10 * 9
