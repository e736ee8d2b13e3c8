"""MariaDB's fragments of a rows event, joined again.

A rows event larger than ``binlog_row_event_fragment_threshold`` is logged as a series of events of type 172,
one after the other in its transaction.

Source: MariaDB server 12.3, ``Partial_rows_log_event``; Docs/replication/binlog.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import DecodeError
from .event_header import CHECKSUM_LENGTH, HEADER_LENGTH_V3, LENGTH_AT, length_of, type_of
from .event_types import ROWS_EVENTS, EventType

if TYPE_CHECKING:
    from typing_extensions import Buffer

Piece = memoryview | bytearray

ENDS_BETWEEN_FRAGMENTS = "the log ends between the fragments of a rows event"

_HAS_SIZE = 1  # flag: the whole event's size follows
_BEFORE_BYTES = struct.Struct("<IIB")  # fragments in all, number of this one from 1, flags
_SIZE = struct.Struct("<Q")
_LEAST_VIEW = 4096  # bytes of a piece that is not copied as it comes
_ROOM = 64  # bytes behind the joined event: without them its rows are copied once more to be decoded


class Fragments:
    """Joins the fragments of rows events of one log, as they come.

    Parameters
    ----------
    limit : int
        Most bytes of one whole event.
    path : str
    block : callable
        Memory of at least so many bytes, for whole events.

    Attributes
    ----------
    begin : int or None
        Position of the first fragment of the series that has begun and not ended; None between series.
    """

    def __init__(self, limit: int, path: str, block: Callable[[int], Buffer] = bytearray) -> None:
        self.begin: int | None = None
        self._limit = limit
        self._path = path
        self._block = block
        self._joined = bytearray()
        self._pieces: list[Piece] = []  # instead, if they last
        self._len = 0
        self._total = self._next = 0
        self._size: int | None = None

    def add(self, body: bytes | memoryview, offset: int, *, lasts: bool = False) -> memoryview | None:
        """Add the next fragment.

        Parameters
        ----------
        body : bytes-like
            The event of type 172 without its header and checksum.
        offset : int
            Its position.
        lasts : bool
            The bytes stay where they are, and take no memory: they are copied once all fragments have come.
            All fragments of a log last, or none.

        Returns
        -------
        memoryview or None
            The whole rows event, with its header, without a checksum; None: more fragments follow.

        Raises
        ------
        DecodeError
            It does not continue the series, or the whole is not a rows event. The series is dropped.
        """
        pieces = self.add_apart(body, offset, lasts=lasts)
        return None if pieces is None else self.join(pieces)

    def add_apart(self, body: bytes | memoryview, offset: int, *, lasts: bool = False) -> list[Piece] | None:
        """The same, but the whole rows event comes in pieces, for `join`. The first one has its header."""
        try:
            return self._add(memoryview(body), offset, lasts)
        except BaseException:
            self._drop()
            raise

    def _add(self, body: memoryview, offset: int, lasts: bool) -> list[Piece] | None:
        if len(body) < _BEFORE_BYTES.size:
            raise self._error(
                f"the fragment has {len(body)} bytes: expected at least {_BEFORE_BYTES.size}", offset
            )
        total, number, flags = _BEFORE_BYTES.unpack_from(body)
        at = _BEFORE_BYTES.size
        size = None
        if flags & _HAS_SIZE:
            if len(body) < at + _SIZE.size:
                raise self._error("the fragment ends inside the size of its rows event", offset)
            (size,) = _SIZE.unpack_from(body, at)
            at += _SIZE.size
        if self.begin is not None and number == 1:
            raise self.incomplete(offset)
        if self.begin is None:
            if number != 1 or total < 1:
                raise self._error(f"fragment {number} of {total} does not follow the one before it", offset)
            self.begin, self._total, self._next, self._size = offset, total, 1, None
        if number != self._next or total != self._total:
            raise self._error(
                f"fragment {number} of {total}: expected fragment {self._next} of {self._total}", offset
            )
        if size is not None:
            if self._size is not None and size != self._size:
                raise self._error(
                    f"the fragments' rows event has {size} bytes, and {self._size} before", offset
                )
            self._size = size
        self._next += 1
        # The size that the log claims is no reason to allocate it: memory grows with what has come.
        whole = max(size or 0, self._len + len(body) - at)
        if whole > self._limit:
            raise self._error(
                f"a rows event of {whole} bytes in fragments is larger than Limits.event_bytes={self._limit}",
                offset,
            )
        if lasts:
            self._keep(body[at:])
        else:
            self._joined += body[at:]
        self._len += len(body) - at
        return self._whole() if number == total else None

    def _keep(self, piece: memoryview) -> None:
        # A view takes some 200 bytes, so that the limit does not hold for those of less: they are copied.
        if len(piece) >= _LEAST_VIEW:
            self._pieces.append(piece)
        elif self._pieces and isinstance(last := self._pieces[-1], bytearray):
            last += piece
        else:
            self._pieces.append(bytearray(piece))

    def _whole(self) -> list[Piece]:
        assert self.begin is not None
        begin, size = self.begin, self._len
        if self._size not in (None, size):
            raise self._error(f"the fragments have {size} bytes: expected {self._size}", begin)
        pieces = self._pieces or [self._joined]
        head = b"".join(bytes(piece[:HEADER_LENGTH_V3]) for piece in pieces[:HEADER_LENGTH_V3])
        if size < HEADER_LENGTH_V3 or length_of(head) not in (size, size + CHECKSUM_LENGTH):
            raise self._error(
                f"the fragments have {size} bytes, which do not make one whole rows event", begin
            )
        if (kind := type_of(head)) not in ROWS_EVENTS:
            raise self._error(f"the fragments make an event of type {kind}: expected a rows event", begin)
        self._drop()
        return pieces

    def join(self, pieces: list[Piece]) -> memoryview:
        """The whole rows event, with its header, without a checksum.

        Parameters
        ----------
        pieces : list of bytes-like
            Of `add_apart`; used up.
        """
        size = sum(map(len, pieces))
        if len(pieces) == 1 and isinstance(own := pieces[0], bytearray):
            own += bytes(_ROOM)
            joined = memoryview(own)[:size]
        else:
            joined, at = memoryview(self._block(size + _ROOM))[:size], 0
            for piece in pieces:
                joined[at : at + len(piece)] = piece
                at += len(piece)
        struct.pack_into("<I", joined, LENGTH_AT, size)
        return joined.toreadonly()

    def incomplete(self, offset: int) -> DecodeError:
        """The error for a series that another event ended early; the series is dropped.

        Parameters
        ----------
        offset : int
            Where that event begins.
        """
        error = self._error(
            f"fragments 1 to {self._next - 1} of {self._total} of a rows event, and not the rest: "
            f"another event follows at {offset}",
            offset if self.begin is None else self.begin,
        )
        self._drop()
        return error

    def _error(self, message: str, offset: int) -> DecodeError:
        return DecodeError(message, path=self._path, offset=offset, type_code=EventType.MARIADB_ROWS_FRAGMENT)

    def _drop(self) -> None:
        self.begin, self._joined, self._pieces, self._len = None, bytearray(), [], 0
