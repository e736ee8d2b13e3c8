"""Deletion vectors: which rows of a data file are deleted, in the bytes that Delta and Iceberg use."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BinlogError

Positions = NDArray[np.uint64]

_MAGIC, _OLD_MAGIC = 1681511377, 1681511376
_VERSION = b"\x01"  # of a file of vectors
_BEGIN = struct.Struct("<IQ")  # magic, number of bitmaps
_SIZE = struct.Struct(">I")  # also of the checksum
_WORD, _HALVES = struct.Struct("<I"), struct.Struct("<II")
_PLAIN, _WITH_RUNS = 0x303A, 0x303B  # cookies of a bitmap
_FEW_CONTAINERS = 4  # below that a bitmap with runs has no offsets
_ARRAY = 4096  # values that a container has as an array
_SPAN = 1 << 16  # values that a container may have
_MOST_BYTES = 32  # of a value: one that has a bitmap and a container to itself, as a run
_INLINE = 4 << 10  # bytes of a vector that is kept in the table's log
_DIGITS = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#", "S1"
)
_VALUES = np.full(256, -1, np.int64)
_VALUES[_DIGITS.view(np.uint8)] = np.arange(85)
_POWERS = 85 ** np.arange(5)[::-1]
_UUID = 20  # digits of its 16 bytes


@dataclass(frozen=True, slots=True)
class Vector:
    """Where the deletion vector of a data file is.

    Parameters
    ----------
    storage : str
        "u", "i" or "p", as in Delta's descriptors; "" if it is not stored yet.
    path : str
        The name of its file, as a descriptor has it, or the vector itself.
    size : int
        The bytes of the vector.
    cardinality : int
        How many rows it deletes.
    offset : int or None
        Where it begins in its file.
    payload : bytes
        The vector, if it is not stored yet.
    """

    storage: str
    path: str
    size: int
    cardinality: int
    offset: int | None = None
    payload: bytes = field(default=b"", repr=False)

    @classmethod
    def new(cls, positions: Positions) -> Vector:
        """A vector of some rows of a file, by their sorted numbers; it is not stored yet."""
        payload = packed(positions)
        return cls("", "", len(payload), len(positions), None, payload)

    @classmethod
    def of_json(cls, found: Mapping[str, Any], path: str) -> Vector:
        """That of a descriptor.

        Raises
        ------
        BinlogError
            It is not one.
        """
        if not isinstance(found, Mapping):
            raise BinlogError(f"the deletion vector {found!r} is not one that is known", path=path)
        size, cardinality = found.get("sizeInBytes"), found.get("cardinality")
        storage, where, offset = found.get("storageType"), found.get("pathOrInlineDv"), found.get("offset")
        whole = all(type(one) is int and one >= 0 for one in (size, cardinality))
        if not whole or type(where) is not str or storage not in ("u", "i", "p"):
            raise BinlogError(f"the deletion vector {dict(found)!r} is not one that is known", path=path)
        if not (offset is None or (type(offset) is int and offset >= 0)):
            raise BinlogError(f"the deletion vector's offset is {offset!r}", path=path)
        assert isinstance(size, int) and isinstance(cardinality, int) and isinstance(storage, str)
        return cls(storage, where, size, cardinality, offset)

    def to_json(self) -> dict[str, Any]:
        """Its descriptor."""
        found = {
            "storageType": self.storage,
            "pathOrInlineDv": self.path,
            "sizeInBytes": self.size,
            "cardinality": self.cardinality,
        }
        return found if self.offset is None else {**found, "offset": self.offset}

    def file(self) -> str | None:
        """The name of its file, from the table's directory; None if it is in the table's log.

        Raises
        ------
        ValueError
            It is outside of the directory.
        """
        if self.storage in ("", "i"):
            return None
        prefix, digits = self.path[:-_UUID], self.path[-_UUID:]
        if self.storage != "u" or "/" in prefix or prefix in (".", ".."):
            raise ValueError("its file is outside of the table's directory")
        return (f"{prefix}/" if prefix else "") + file_name(uuid.UUID(bytes=bytes_of(digits)))


def file_name(name: uuid.UUID) -> str:
    """The name of a file of vectors."""
    return f"deletion_vector_{name}.bin"


def stored(vectors: Sequence[Vector]) -> tuple[list[Vector], str, bytes]:
    """Vectors in the places where they are kept, and the name and bytes of their file; "" if none is needed.

    Small ones go into the table's log.
    """
    name, content, out = uuid.uuid4(), bytearray(_VERSION), []
    for one in vectors:
        if one.storage:
            out.append(one)
        elif one.size <= _INLINE:
            out.append(Vector("i", text_of(one.payload), one.size, one.cardinality))
        else:
            out.append(Vector("u", text_of(name.bytes), one.size, one.cardinality, len(content)))
            content += _SIZE.pack(one.size) + one.payload + _SIZE.pack(zlib.crc32(one.payload))
    return out, file_name(name) if len(content) > 1 else "", bytes(content)


def deleted_rows(vector: Vector, rows: int, filesystem: Any, root: str) -> Positions:
    """The numbers of the deleted rows of a file, sorted.

    Parameters
    ----------
    vector : Vector
        The file's vector.
    rows : int
        How many rows the file has, with the deleted ones.
    filesystem, root
        The table's directory: a pyarrow file system whose paths begin there, and its name in errors.

    Raises
    ------
    BinlogError
        The vector is damaged, or is not that of the file.
    OSError
    """
    name = root
    try:
        inner, most = vector.file(), min(vector.cardinality, rows)
        if inner is not None:
            name = f"{root.rstrip('/')}/{inner}"
        if vector.size > _BEGIN.size + _MOST_BYTES * most:  # before so much is read
            raise ValueError(f"{vector.size} bytes for {most} rows")
        if inner is None:
            payload = vector.payload or bytes_of(vector.path)[: vector.size]
        else:
            payload = _read(vector, filesystem, inner)
        if len(payload) != vector.size:
            raise ValueError(f"{len(payload)} bytes, expected {vector.size}")
        found = unpacked(payload, most)
        if len(found) != vector.cardinality:
            raise ValueError(f"{len(found)} rows are deleted, expected {vector.cardinality}")
        if len(found) and int(found[-1]) >= rows:
            raise ValueError(f"row {found[-1]} is deleted, and the data file has {rows}")
    except (ValueError, struct.error) as error:
        raise BinlogError(f"the deletion vector cannot be used: {error}", path=name) from error
    return found


def _read(vector: Vector, filesystem: Any, name: str) -> bytes:
    with filesystem.open_input_file(name) as source:
        total, offset = source.size(), vector.offset or 0
        if source.read(1) != _VERSION:
            raise ValueError("the file is not one of deletion vectors")
        if not 1 <= offset <= total - vector.size - 2 * _SIZE.size:
            raise ValueError(f"{vector.size} bytes at {offset} in a file of {total}")
        source.seek(offset)
        content = bytes(source.read(vector.size + 2 * _SIZE.size))
    (size,), payload = _SIZE.unpack(content[:4]), content[4:-4]
    if size != vector.size:
        raise ValueError(f"{size} bytes at {offset}, expected {vector.size}")
    if (zlib.crc32(payload),) != _SIZE.unpack(content[-4:]):
        raise ValueError("its checksum is wrong")
    return payload


# ---------------------------------------------------------------- the vector


def packed(positions: Positions) -> bytes:
    """The bytes of a vector of sorted numbers of rows."""
    keys, starts = np.unique(positions >> np.uint64(32), return_index=True)
    out = [_BEGIN.pack(_MAGIC, len(keys))]
    for key, values in zip(keys.tolist(), np.split(positions, starts[1:]), strict=False):
        out += [_WORD.pack(key), _packed_bitmap(values.astype(np.uint32))]
    return b"".join(out)


def _packed_bitmap(values: NDArray[np.uint32]) -> bytes:
    highs, starts = np.unique(values >> np.uint32(16), return_index=True)
    lows = [one.astype("<u2") for one in np.split(values, starts[1:])]
    containers = []
    for low in lows:
        if len(low) <= _ARRAY:
            containers.append(low.tobytes())
        else:
            bits = np.zeros(_SPAN, np.uint8)
            bits[low] = 1
            containers.append(np.packbits(bits, bitorder="little").tobytes())
    header = np.array([[high, len(low) - 1] for high, low in zip(highs, lows, strict=True)], "<u2")
    first = _HALVES.size + 8 * len(lows)
    offsets = first + np.cumsum([0, *map(len, containers[:-1])])
    begin = _HALVES.pack(_PLAIN, len(lows))
    return b"".join((begin, header.tobytes(), offsets.astype("<u4").tobytes(), *containers))


def unpacked(payload: bytes, most: int) -> Positions:
    """The numbers of rows in a vector, sorted; `most`: how many it may have, since few bytes can say many.

    Raises
    ------
    ValueError
        It is damaged.
    struct.error
        It is too short.
    """
    magic, count = _BEGIN.unpack_from(payload)
    if magic == _OLD_MAGIC or _SIZE.unpack_from(payload)[0] == _OLD_MAGIC:
        raise ValueError("it has the older form, which is not read")
    if magic != _MAGIC:
        raise ValueError(f"it begins with {magic}, expected {_MAGIC}")
    at, before, out = _BEGIN.size, -1, [np.empty(0, np.uint64)]
    for _ in range(count):  # each needs bytes, so that a wrong count ends soon
        (key,) = _WORD.unpack_from(payload, at)
        if key <= before:
            raise ValueError("its bitmaps are not in order")
        values, at = _unpacked_bitmap(payload, at + _WORD.size, most)
        most -= len(values)
        out.append(values.astype(np.uint64) | np.uint64(key << 32))
        before = key
    if at != len(payload):
        raise ValueError(f"it ends at byte {at} of {len(payload)}")
    return np.concatenate(out)


def _unpacked_bitmap(payload: bytes, at: int, most: int) -> tuple[NDArray[np.uint32], int]:
    """The values of a bitmap at a place, and the place after it."""
    (cookie,) = _WORD.unpack_from(payload, at)
    at += _WORD.size
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(_array(payload, at, (count + 7) // 8, "u1"), bitorder="little")[:count]
        at += (count + 7) // 8
    elif cookie == _PLAIN:
        (count,) = _WORD.unpack_from(payload, at)
        at += _WORD.size
        if count > _SPAN:
            raise ValueError(f"a bitmap with {count} containers")
        flags = np.zeros(count, np.uint8)
    else:
        raise ValueError(f"a bitmap that begins with {cookie}")
    header = _array(payload, at, 2 * count, "<u2").reshape(-1, 2).astype(np.int64)
    at += 4 * count
    if (total := int(header[:, 1].sum()) + count) > most:
        raise ValueError(f"a bitmap has {total} rows, expected at most {most}")
    if (np.diff(header[:, 0]) <= 0).any():
        raise ValueError("the containers of a bitmap are not in order")
    if cookie == _PLAIN or count >= _FEW_CONTAINERS:
        at += 4 * count  # of offsets; containers follow each other without gaps
    out = [np.empty(0, np.uint32)]
    for (high, less), run in zip(header.tolist(), flags.tolist(), strict=True):
        values, at = _unpacked_container(payload, at, less + 1, runs=bool(run))
        if len(values) != less + 1 or (np.diff(values) <= 0).any():
            raise ValueError("a container has other values than its bitmap says")
        out.append(values.astype(np.uint32) | np.uint32(high << 16))
    return np.concatenate(out), at


def _unpacked_container(payload: bytes, at: int, count: int, *, runs: bool) -> tuple[NDArray[np.int64], int]:
    if runs:
        (number,) = struct.unpack_from("<H", payload, at)
        found = _array(payload, at + 2, 2 * number, "<u2").reshape(-1, 2).astype(np.int64)
        lengths = found[:, 1] + 1
        if int(lengths.sum()) != count or (found.sum(axis=1) >= _SPAN).any():
            raise ValueError("a container has other values than its bitmap says")
        starts = np.repeat(found[:, 0] - np.cumsum(lengths) + lengths, lengths)
        return starts + np.arange(count), at + 2 + 4 * number
    if count <= _ARRAY:
        return _array(payload, at, count, "<u2").astype(np.int64), at + 2 * count
    bits = np.unpackbits(_array(payload, at, _SPAN // 8, "u1"), bitorder="little")
    return np.flatnonzero(bits), at + _SPAN // 8


def _array(payload: bytes, at: int, count: int, kind: str) -> NDArray[Any]:
    if at + count * np.dtype(kind).itemsize > len(payload):
        raise ValueError(f"it ends at byte {len(payload)}, within a bitmap")
    return np.frombuffer(payload, kind, count, at)


# ---------------------------------------------------------------- Z85


def text_of(data: bytes) -> str:
    """Bytes in Z85; zeros are added up to a multiple of four."""
    numbers = np.frombuffer(data + bytes(-len(data) % 4), ">u4").astype(np.int64)
    return bytes(_DIGITS[numbers[:, None] // _POWERS % 85].tobytes()).decode()


def bytes_of(text: str) -> bytes:
    """The bytes of a text in Z85.

    Raises
    ------
    ValueError
        It is not one.
    """
    digits = _VALUES[np.frombuffer(text.encode("latin-1"), np.uint8)]
    if (digits < 0).any():
        raise ValueError(f"{text[int(np.argmax(digits < 0))]!r} is not a digit of Z85")
    if len(digits) % 5 or ((numbers := digits.reshape(-1, 5) @ _POWERS) >= 1 << 32).any():
        raise ValueError("it is not in Z85")
    return numbers.astype(">u4").tobytes()
