"""Converts columns of an export back to fields of records, from the types of a lake."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._tables import charsets
from ..._tables.column_types import (
    DECIMAL128_DTYPE,
    KINDS,
    SPAN_DTYPE,
    Kind,
)
from ..._tables.tables import Column
from .documents import document_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_DIGITS = 38  # of a decimal in Arrow's 128 bits
_REPLACED = "\ufffd"  # what --text-errors replace leaves


class Heap:
    """Collects the bytes that spans refer to."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, value: bytes) -> tuple[int, int]:
        """Add bytes; return their offset and length."""
        self.data += value
        return len(self.data) - len(value), len(value)


def column_values(
    column: Column, array: pa.Array, heap: Heap, *, replaced: bool
) -> tuple[NDArray[Any], list[int]]:
    """The values of a column in the dtype of its field; arbitrary where it is NULL.

    Parameters
    ----------
    column : Column
    array : pyarrow.Array
        In the type that an export has for it, or one that a lake's table was widened to.
    heap : Heap
        Receives the bytes that spans refer to.
    replaced : bool
        Invalid text in the log may have been replaced.

    Returns
    -------
    values : ndarray, shape (n,)
    lost : list of int
        The records for which the export does not have the original value.

    Raises
    ------
    pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, ValueError, KeyError, TypeError
        The array has no values of such a column.
    """
    stored = KINDS[column.kind].stored
    if stored == "decimal":
        return _decimals(column, array), []
    if stored == "span":
        return _spans(column, array, heap, replaced=replaced)
    if column.members is not None:
        return _members(column, array), []
    if stored == "moment":
        return _moments(column, array), []
    return _numbers(column, array), []


def _numbers(column: Column, array: pa.Array) -> NDArray[Any]:
    import pyarrow as pa

    if column.kind is Kind.NULL:
        return np.zeros(len(array), column.dtype)
    numbers: NDArray[Any] = array.cast(pa.from_numpy_dtype(column.dtype)).fill_null(0).to_numpy()
    return numbers


def _moments(column: Column, array: pa.Array) -> NDArray[Any]:
    import pyarrow as pa

    if column.kind is Kind.DATE:
        whole = array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    elif column.kind is Kind.TIME:
        whole = array.cast(pa.int64())
    else:
        whole = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    found: NDArray[Any] = whole.fill_null(0).to_numpy().view(column.dtype)
    return found


def _decimals(column: Column, array: pa.Array) -> NDArray[Any]:
    import pyarrow as pa

    if column.precision > _DIGITS:
        data = bytearray()
        for text in array.to_pylist():
            number = 0 if text is None else int(text.replace(".", ""))
            data += number.to_bytes(column.dtype.itemsize, "little", signed=True)
        return np.frombuffer(data, column.dtype)
    kept = array.cast(pa.decimal128(column.precision, column.scale))
    limbs = np.frombuffer(kept.buffers()[1], DECIMAL128_DTYPE)[kept.offset : kept.offset + len(kept)]
    return limbs if column.dtype == DECIMAL128_DTYPE else limbs["lo"].view(column.dtype)


def _members(column: Column, array: pa.Array) -> NDArray[Any]:
    assert column.members is not None
    if column.kind is Kind.ENUM:
        numbers = {"": 0} | {name: i for i, name in enumerate(column.members, 1)}
        return np.array([0 if one is None else numbers[one] for one in array.to_pylist()], column.dtype)
    bits = {name: 1 << i for i, name in enumerate(column.members)}
    return np.array([sum(bits[name] for name in one or ()) for one in array.to_pylist()], column.dtype)


def _spans(column: Column, array: pa.Array, heap: Heap, *, replaced: bool) -> tuple[NDArray[Any], list[int]]:
    spans = np.zeros(len(array), SPAN_DTYPE)
    lost: list[int] = []
    encode = _Encoder(column.charset) if column.kind is Kind.TEXT else None
    for i, value in enumerate(array.to_pylist()):
        if value is None:
            continue
        if encode is not None:
            data = encode(value)
            if data is None or (replaced and _REPLACED in value):
                lost.append(i)
                data = data or value.encode()
        elif column.kind is Kind.JSON:
            data = document_bytes(value)
        elif column.kind is Kind.GEOMETRY:
            data = int(value["srid"]).to_bytes(4, "little") + value["wkb"]
        elif column.kind is Kind.VECTOR:
            data = struct.pack(f"<{len(value)}f", *value)
        else:
            data = value
        spans[i] = heap.add(data)
    return spans, lost


class _Encoder:
    """From text to its bytes in a character set; None if it has none, or several."""

    def __init__(self, charset: str | None) -> None:
        found = charsets.get(charset or "")
        assert found is not None
        self._codec, self._decode = found.codec or "utf-8", found.decode
        self._codes = _codes(found.name)

    def __call__(self, text: str) -> bytes | None:
        try:
            if not self._codes:
                return text.encode(self._codec)
            data = b"".join(map(self._code, text))
            return data if self._decode(data) == text else None
        except (UnicodeError, ValueError):
            return None

    def _code(self, character: str) -> bytes:
        code = self._codes.get(character)
        if code == b"":
            raise ValueError("several codes")
        return character.encode(self._codec) if code is None else code


@cache
def _codes(charset: str) -> dict[str, bytes]:
    """Codes of up to three bytes by their characters; empty for a character with several codes."""
    found = charsets.get(charset)
    assert found is not None
    if charset.startswith(("utf", "ucs")):
        return {}
    firsts = [bytes((byte,)) for byte in range(256)]
    codes = list(firsts)
    if found.max_char_len > 1:
        pairs = [first + second for first in firsts[128:] for second in firsts]
        codes += pairs
        codes += [b"\x8f" + pair for pair in pairs] * (found.max_char_len == 3)
    known: dict[str, bytes] = {}
    for code in codes:
        try:
            text = found.decode(code)
        except UnicodeDecodeError:
            continue
        if len(text) == 1:
            known[text] = b"" if text in known else code
    return known
