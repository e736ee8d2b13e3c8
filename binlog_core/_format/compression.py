"""Compressed parts of a log: transaction payloads, MariaDB's events, MariaDB's columns.

No size that the log claims is trusted: output is made in small steps and counted against a limit.

Source: MySQL server, ``Transaction_payload_event`` and its codecs; MariaDB server, ``binlog_buf_compress``
and ``Field_longstr::compress``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._tables.column_types import KINDS
from .._tables.tables import Column
from ..errors import DecodeError, DecompressionError, MissingExtraError
from .cursor import Cursor

TRANSACTION_PAYLOAD_EVENT = 40

ZSTD = 0
NO_COMPRESSION = 255

# Payloads are streamed, so their limit guards time, not memory; blocks and columns are in memory as a whole.
PAYLOAD_LIMIT = 16 << 30
MEMORY_LIMIT = 1 << 30

# Four bytes of zstd (a run-length block) can stand for 128 KiB: one step makes 16 MiB at most.
ZSTD_STEP_LEN = 512
_ZSTD_WINDOW_LEN = 128 << 20
_CHUNK_LEN = 1 << 20


class PayloadHeader(NamedTuple):
    """The fields before the payload of a TRANSACTION_PAYLOAD_EVENT.

    Parameters
    ----------
    algorithm : int
        0 zstd, 255 none.
    payload : memoryview
        The compressed bytes.
    uncompressed_size : int or None
        The size that the log claims, in bytes.
    """

    algorithm: int
    payload: memoryview
    uncompressed_size: int | None


def parse_payload_header(body: Any, offset: int | None = None, path: str | None = None) -> PayloadHeader:
    """Read the fields of a TRANSACTION_PAYLOAD_EVENT.

    Parameters
    ----------
    body : bytes-like
        The event without header and checksum.
    offset : int or None
        Offset of the event in its file, for errors.
    path : str or None
        For errors.

    Returns
    -------
    PayloadHeader

    Raises
    ------
    DecodeError
        A field reaches past the event, or payload size or compression is missing.

    Source: MySQL server, ``Transaction_payload_event``: type and length of each field, then its value,
    all packed integers; type 0 ends them.
    """
    where: dict[str, Any] = {"path": path, "offset": offset, "type_code": TRANSACTION_PAYLOAD_EVENT}
    cur = Cursor(memoryview(body).cast("B"))
    fields: dict[int, int] = {}
    try:
        while (field_type := cur.take_lenenc()) != 0:
            length = cur.take_lenenc()
            value = cur.take_slice(length)
            if field_type <= 3:  # later servers may add fields: skipped
                fields[field_type] = value.take_lenenc()
                if value.remaining:
                    raise DecodeError(f"field {field_type} has {value.pos} bytes: expected {length}")
    except DecodeError as error:
        raise DecodeError(f"the fields before a payload are not valid: {error.message}", **where) from None
    for field_type, name in ((1, "payload size"), (2, "compression")):
        if field_type not in fields:
            raise DecodeError(f"a compressed transaction lacks its {name}", **where)
    size = fields[1]
    if size > cur.remaining:
        raise DecodeError(f"a payload claims {size} bytes, but {cur.remaining} are left", **where)
    return PayloadHeader(fields[2], cur.data[cur.pos : cur.pos + size], fields.get(3))


def payload_chunks(
    body: Any, *, limit: int = PAYLOAD_LIMIT, path: str | None = None, offset: int | None = None
) -> Iterator[bytes]:
    """The events inside a TRANSACTION_PAYLOAD_EVENT, as a stream of bytes.

    Parameters
    ----------
    body : bytes-like
        The event without header and checksum.
    limit : int
        Most bytes that may come out.
    path, offset
        For errors: the file, and where the event begins in it.

    Yields
    ------
    bytes
        About 1 MiB each, never more than 17 MiB; chunks end anywhere in an event.

    Raises
    ------
    DecodeError
        The fields before the payload are not valid.
    DecompressionError
        A broken frame, an unknown algorithm, more than `limit` bytes, or another size than the log claims.
    MissingExtraError
        zstandard is not installed.
    """
    where: dict[str, Any] = {"path": path, "offset": offset, "type_code": TRANSACTION_PAYLOAD_EVENT}
    header = parse_payload_header(body, offset, path)
    if header.algorithm == ZSTD:
        steps: Iterable[bytes | memoryview] = _zstd_steps(header.payload, where)
    elif header.algorithm == NO_COMPRESSION:
        steps = (header.payload[i : i + _CHUNK_LEN] for i in range(0, len(header.payload), _CHUNK_LEN))
    else:
        raise DecompressionError(
            f"compression algorithm {header.algorithm} is not known: expected 0 (zstd) or 255 (none)", **where
        )
    claimed = header.uncompressed_size
    total = ready = 0
    parts: list[bytes] = []
    for step in steps:
        total += len(step)
        if claimed is not None and total > claimed:
            raise DecompressionError(f"a payload claims {claimed} bytes and has more", **where)
        if total > limit:
            raise DecompressionError(
                f"a payload of {len(header.payload)} bytes unpacks to more than {limit}", **where
            )
        parts.append(bytes(step))
        ready += len(step)
        if ready >= _CHUNK_LEN:
            yield b"".join(parts)
            parts, ready = [], 0
    if parts:
        yield b"".join(parts)
    if claimed is not None and total != claimed:
        raise DecompressionError(f"a payload claims {claimed} bytes and has {total}", **where)


def new_zstd_frame(purpose: str, **where: Any) -> Any:
    """A decompressor of one zstd frame with bounded memory; MissingExtraError without zstandard."""
    try:
        import zstandard
    except ImportError as exc:
        raise MissingExtraError.of("zstandard", "zstd", purpose, **where) from exc
    return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_LEN).decompressobj()


def zstd_step(frame: Any, data: Any, **where: Any) -> bytes:
    """Decompress a few bytes (`ZSTD_STEP_LEN` keep the result under 16 MiB)."""
    import zstandard

    try:
        return bytes(frame.decompress(data))
    except zstandard.ZstdError as exc:
        raise DecompressionError(f"a damaged zstd frame: {exc}", **where) from exc


def _zstd_steps(payload: memoryview, where: dict[str, Any]) -> Iterator[bytes]:
    pos = 0
    while True:
        frame = new_zstd_frame("a compressed transaction", **where)
        while not frame.eof:
            if pos == len(payload):
                raise DecompressionError(f"a zstd frame is cut off after {pos} bytes", **where)
            piece = payload[pos : pos + ZSTD_STEP_LEN]
            pos += len(piece)
            if step := zstd_step(frame, piece, **where):
                yield step
        pos -= len(frame.unused_data)
        if pos == len(payload):
            return


def inflate_block(
    data: Any,
    *,
    limit: int = MEMORY_LIMIT,
    path: str | None = None,
    offset: int | None = None,
    type_code: int | None = None,
    table: str | None = None,
) -> bytes:
    """Decompress the tail of one of MariaDB's compressed events (165 to 171).

    Parameters
    ----------
    data : bytes-like
        From the block's own header byte to the end of the event, checksum removed.
    limit : int
        Most bytes that may come out.
    path, offset, type_code, table
        For errors.

    Returns
    -------
    bytes
        The query text of 165, the rows of 166 to 171.

    Raises
    ------
    DecompressionError
        The header is not valid, the stream is broken, more than `limit` bytes, or another size than claimed.

    Source: MariaDB server, ``binlog_buf_compress``: a byte 0x80 + count of length bytes (1 to 4), the
    length big-endian, then a zlib stream.
    """
    where: dict[str, Any] = {"path": path, "offset": offset, "type_code": type_code, "table": table}
    view = memoryview(data).cast("B")
    if not view or view[0] & 0xE0 != 0x80:
        found = f"byte {view[0]:#04x}" if view else "nothing"
        raise DecompressionError(f"a compressed event begins with {found}: expected 0x81 to 0x84", **where)
    return _inflate(view, zlib.MAX_WBITS, limit, "event", where)


def inflate_columns(
    array: np.ndarray,
    columns: Iterable[Column],
    buffer: Any,
    *,
    limit: int = MEMORY_LIMIT,
    path: str | None = None,
    table: str | None = None,
    failed: dict[int, DecompressionError] | None = None,
) -> Any:
    """Decompress MariaDB's COMPRESSED columns of a batch.

    Parameters
    ----------
    array : ndarray, shape (n_records,), record_dtype
        Its spans are rewritten in place, including those of columns that are not compressed.
    columns : iterable of Column
        The decoded columns.
    buffer : bytes-like
        The data that the spans refer to.
    limit : int
        Most bytes of all decompressed values together.
    path, table
        For errors.
    failed : dict or None
        Receives the number of each record with a value that cannot be decompressed, and the reason, instead
        of an error; the value is left empty.

    Returns
    -------
    bytes-like
        The data that the spans refer to from now on: the part of `buffer` that is in use, followed by the
        decompressed values. `buffer` itself if no column is compressed.

    Raises
    ------
    DecompressionError
        A value's header is not valid, its stream is broken or has another size than claimed, or all values
        together have more than `limit` bytes.
    DecodeError
        A span reaches past the buffer.

    Source: MariaDB server, ``Field_longstr::compress``. An empty value has no header. Else a byte whose
    high nibble is 0 (plain bytes follow) or 8 (zlib; bit 3: without zlib's own header; bits 0-2: count of
    length bytes), the length big-endian, the stream.
    """
    columns = tuple(columns)
    if not any(c.compressed for c in columns):
        return buffer
    row, positions = array["row"], array["image"]["position"]
    used = {c.name: np.flatnonzero(row[c.name]["length"]) for c in columns if KINDS[c.kind].stored == "span"}
    low, high = _region(row, used, len(memoryview(buffer).cast("B")), path, table)
    region = bytes(memoryview(buffer).cast("B")[low:high])
    flat = np.frombuffer(region, np.uint8)
    for name, records in used.items():
        offsets = row[name]["offset"]  # a view: written through to the array
        offsets[row[name]["length"] == 0] = 0
        offsets[records] -= np.uint64(low)
    parts: list[bytes] = [region]
    end = len(region)
    for column in columns:
        if not column.compressed or column.name not in used:
            continue
        where: dict[str, Any] = {"path": path, "table": table, "column": column.name}
        records = used[column.name]
        offsets, lengths = row[column.name]["offset"], row[column.name]["length"]
        headers = flat[offsets[records]]
        methods = headers >> 4
        plain = records[methods == 0]
        offsets[plain] += np.uint64(1)
        lengths[plain] -= np.uint32(1)
        offsets[plain[lengths[plain] == 0]] = 0
        view = memoryview(region)
        for record in records[methods != 0]:
            start = int(offsets[record])
            value = view[start : start + int(lengths[record])]
            where["offset"] = int(positions[record])
            try:
                if value[0] >> 4 != 8:
                    raise DecompressionError(
                        f"a compressed value begins with byte {value[0]:#04x}: expected 0x80 to 0x8f", **where
                    )
                wbits = -zlib.MAX_WBITS if value[0] & 8 else zlib.MAX_WBITS
                plain_value = _inflate(value, wbits, limit - (end - len(region)), "value", where)
            except DecompressionError as error:
                if failed is None:
                    raise
                failed.setdefault(int(record), error)
                plain_value = b""
            offsets[record] = end if plain_value else 0
            lengths[record] = len(plain_value)
            parts.append(plain_value)
            end += len(plain_value)
    return b"".join(parts)


def _region(
    row: np.ndarray, used: dict[str, np.ndarray], size: int, path: str | None, table: str | None
) -> tuple[int, int]:
    """The part of the buffer that the spans refer to."""
    low, high = size, 0
    for name, records in used.items():
        if not len(records):
            continue
        starts = row[name]["offset"][records]
        lengths = row[name]["length"][records].astype(np.uint64)
        if (starts > size).any() or (lengths > np.uint64(size) - starts).any():
            raise DecodeError("a value is outside the batch's buffer", path=path, table=table, column=name)
        low = min(low, int(starts.min()))
        high = max(high, int((starts + lengths).max()))
    return min(low, high), high


def _inflate(view: memoryview, wbits: int, limit: int, what: str, where: dict[str, Any]) -> bytes:
    """One header byte with the count of length bytes, the length big-endian, one deflate stream."""
    count = view[0] & 7
    if not 1 <= count <= 4 or len(view) < 1 + count:
        raise DecompressionError(
            f"a compressed {what} claims {count} length bytes, but {len(view) - 1} are left", **where
        )
    size = int.from_bytes(view[1 : 1 + count], "big")
    if size > limit:
        raise DecompressionError(
            f"a compressed {what} claims {size} bytes: at most {limit} are allowed", **where
        )
    stream = zlib.decompressobj(wbits)
    try:
        data = stream.decompress(view[1 + count :], size + 1)  # one byte more shows that the stream continues
    except zlib.error as exc:
        raise DecompressionError(f"a compressed {what} is damaged: {exc}", **where) from exc
    if len(data) > size:
        raise DecompressionError(f"a compressed {what} claims {size} bytes and has more", **where)
    if not stream.eof:
        raise DecompressionError(f"a compressed {what} is cut off after {len(data)} of {size} bytes", **where)
    if len(data) != size:
        raise DecompressionError(f"a compressed {what} claims {size} bytes and has {len(data)}", **where)
    if stream.unused_data:
        raise DecompressionError(f"{len(stream.unused_data)} bytes follow a compressed {what}", **where)
    return data
