"""Events inside another event, as runs of events to walk over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..errors import DecodeError

if TYPE_CHECKING:
    from .._format.event_header import Bytes
    from ..limits import Limits


class PackedEvents:
    """The contents of a packed event, window by window: each begins with an event and may end inside one.

    Parameters
    ----------
    chunks : iterable of bytes
        The unpacked bytes, in pieces of any size.
    limits : Limits
    path : str
    offset, type_code : int
        Offset and type of the event that holds them.

    Attributes
    ----------
    left : int
        Bytes at a window's end that are part of an event; the caller sets it before requesting the next
        window.

    Raises
    ------
    DecodeError
        The bytes end inside an event, or one is larger than `Limits.event_bytes`.
    """

    def __init__(
        self, chunks: Iterable[Bytes], limits: Limits, path: str, offset: int, type_code: int
    ) -> None:
        self.left = 0
        self._chunks = chunks
        self._limits = limits
        self._path = path
        self._offset = offset
        self._type_code = type_code

    def __iter__(self) -> Iterator[Bytes]:
        rest = bytearray()  # of the chunks before
        wanted = 0
        for chunk in self._chunks:
            held: Bytes = chunk
            if rest:
                rest += chunk
                held = rest
            if len(held) < wanted:
                continue
            yield held
            rest = held = bytearray(memoryview(held)[len(held) - self.left :])
            wanted = self._limits.packed_length(rest, self._path, self._offset)
        if rest:
            raise DecodeError(
                f"the compressed events end inside an event, after {len(rest)} bytes of it",
                path=self._path,
                offset=self._offset,
                type_code=self._type_code,
            )
