"""How a column's bytes become UTF-8: which loop of the core does it, or which Python function."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import DecodeError
from . import charsets
from .column_types import Kind
from .tables import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

TextErrors = Literal["raise", "replace", "binary"]
Encoding = Literal["utf8", "utf16be", "utf16le", "utf32be", "table", "object"]

_ENCODINGS: dict[str, Encoding] = {
    "utf8": "utf8",
    "utf8mb3": "utf8",
    "utf8mb4": "utf8",
    "ucs2": "utf16be",
    "utf16": "utf16be",
    "utf16le": "utf16le",
    "utf32": "utf32be",
}


@lru_cache(maxsize=256)
def encoding_of(charset: str | None) -> Encoding:
    """The loop or function that turns text in a character set into UTF-8.

    Parameters
    ----------
    charset : str or None
        MySQL's name.

    Returns
    -------
    str
        One of the core's loops, or "object": :func:`converter` for each value.

    Raises
    ------
    DecodeError
        The character set cannot be decoded.
    """
    if charset in _ENCODINGS:
        return _ENCODINGS[charset]
    found = charsets.get(charset) if charset else None
    if found is None or not found.decodable:
        raise DecodeError(f"text in the character set {charset!r}, which cannot be decoded")
    if found.table is not None and all(c is None or len(c.encode()) <= 3 for c in found.table):
        return "table"
    return "object"


@lru_cache(maxsize=64)
def utf8_table(charset: str) -> tuple[NDArray[np.uint32], bool]:
    """UTF-8 of each byte of a one-byte character set.

    Returns
    -------
    table : ndarray of uint32, shape (256,)
        The low three bytes are UTF-8, the top byte is their number; 0: the byte is undefined.
    keeps_ascii : bool
        Bytes below 128 are ASCII.
    """
    found = charsets.get(charset)
    assert found is not None
    assert found.table is not None
    entries = np.zeros(256, np.uint32)
    for byte, character in enumerate(found.table):
        if character is not None:
            encoded = character.encode()
            entries[byte] = int.from_bytes(encoded, "little") | len(encoded) << 24
    return entries, found.table[:128] == tuple(map(chr, range(128)))


def converter(column: Column, errors: TextErrors) -> Callable[[bytes], bytes]:
    """The function that turns one value of a TEXT or JSON column into UTF-8.

    Parameters
    ----------
    column : Column
    errors : "raise" or "replace"
        What to do with bytes that are not text; raise gives UnicodeDecodeError.
    """
    if column.kind == Kind.JSON:
        from .._core._jsonb import jsonb_to_text

        return jsonb_to_text
    charset = charsets.get(column.charset or "")
    assert charset is not None  # encoding_of has checked it
    text_of = charset.replaced if errors == "replace" else charset.decode
    return lambda value: text_of(value).encode()
