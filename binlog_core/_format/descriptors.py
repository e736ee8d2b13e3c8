"""Recognizes a binary log by its first bytes, and reads the descriptors in it.

Source: MySQL server documentation, "Binary Log Format" and "Format_description_event";
MariaDB, "FORMAT_DESCRIPTION_EVENT"; early 5.1 numbering: the constructor of
``Format_description_event`` in MySQL 5.7.
"""

from __future__ import annotations

import re
import struct
import zlib
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from ..errors import ChecksumError, EncryptionError, FormatError, NotABinlogError
from .event_header import (
    CHECKSUM_LENGTH,
    FIRST_EVENT,
    FLAGS_AT,
    HEADER_LENGTH_V1,
    HEADER_LENGTH_V3,
    IN_USE_FLAG,
    flags_of,
    length_of,
    type_of,
)
from .event_types import EventType
from .format_description import (
    CHECKSUM_CRC32,
    CHECKSUM_NAMES,
    CHECKSUM_NONE,
    DEFAULT_LENGTHS,
    LAST_V3_TYPE,
    FormatDescription,
    artificial_description,
)
from .magic import ENCRYPTED_MAGIC, MAGIC
from .server_versions import is_mariadb_version, split_server_version

# START_V3 and the fixed part of FORMAT_DESCRIPTION: version, server_version, created.
_START = struct.Struct("<H50sI")
_START_V1_LENGTH = HEADER_LENGTH_V1 + _START.size  # 69
_START_V3_LENGTH = HEADER_LENGTH_V3 + _START.size  # 75
_ARRAY_OFFSET = _START_V3_LENGTH + 1  # after the u8 header_length
_MOST_TYPES = 255  # a type code is one byte
_LONGEST_DESCRIPTOR = _ARRAY_OFFSET + _MOST_TYPES + 1 + CHECKSUM_LENGTH
# The same for the old LOAD DATA events, listed as 0 by MySQL 8.0 and later; but here a missing
# entry is an error.
_LENGTHS_IF_ZERO = DEFAULT_LENGTHS | {
    int(EventType.LOAD): 18,
    int(EventType.CREATE_FILE): 4,
    int(EventType.EXEC_LOAD): 4,
    int(EventType.NEW_LOAD): 18,
}
# The array's entry is not the length: TRANSACTION_PAYLOAD lists its own type code (MariaDB 10,
# as for HEARTBEAT_V2), and GTID events grow from version to version.
_SELF_DESCRIBING = frozenset(
    (
        EventType.GTID,
        EventType.ANONYMOUS_GTID,
        EventType.TRANSACTION_PAYLOAD,
        EventType.HEARTBEAT_V2,
        EventType.GTID_TAGGED,
    )
)
# Builds of 5.1 and 5.2 that numbered TABLE_MAP and rows before XID; always with 22 types.
# 5.1.1-alpha existed with both numberings and is not among them.
_RENUMBERED = re.compile(r"5\.1\.[1-5]-a_drop5|5\.1\.4-a_drop6|5\.2\.[0-2]-a_drop6")
_RENUMBERED_TYPES = 22
# Index: code in the file; value: today's code.
_RENUMBERING = (*range(16), 19, 20, 21, 22, 16, 17, 18)
_CHECKSUMS_SINCE_MYSQL = (5, 6, 1)
_CHECKSUMS_SINCE_MARIADB = (5, 3, 0)


class LogState(Enum):
    """How much of a log's head there is."""

    EMPTY = "empty"  # the magic, and nothing else
    CUT = "cut"  # the file ends before its format description
    OPEN = "open"


class Detection(NamedTuple):
    """What the head of a log shows.

    Parameters
    ----------
    state : LogState
    format : FormatDescription or None
        None if the log ends before its format description.
    first_event : int
        Offset of the first event, a descriptor's own included; it is 4 in every version.
    """

    state: LogState
    format: FormatDescription | None
    first_event: int = FIRST_EVENT


def detect(head: bytes | memoryview, path: str | None = None, *, verify_checksum: bool = False) -> Detection:
    """Recognize the format of a binary or relay log by its first bytes.

    Parameters
    ----------
    head : bytes-like, uint8
        The log from its first byte: all of it, or at least 512 bytes, which hold every descriptor.
    path : str or None
        For errors.
    verify_checksum : bool
        Whether to verify the format description's own checksum.

    Returns
    -------
    Detection

    Raises
    ------
    NotABinlogError
        Fewer than four bytes, or another magic.
    EncryptionError
        The magic of an encrypted log: it takes the key named in the log's own header.
    FormatError
        The first event is not one that a server writes.
    ChecksumError

    Source: MySQL server documentation, "Determining the Binary Log Version".
    """
    magic = bytes(head[: len(MAGIC)])
    if magic == ENCRYPTED_MAGIC:
        raise EncryptionError(
            "the log is encrypted: give keys= (the server's keyring file)", path=path, offset=0
        )
    if magic != MAGIC:
        found = f"{len(magic)} bytes" if len(magic) < len(MAGIC) else magic.hex(" ")
        raise NotABinlogError(
            f"not a binary log: expected fe 62 69 6e at its beginning, found {found}", path=path, offset=0
        )
    first = memoryview(head)[FIRST_EVENT:]
    if not first:
        return Detection(LogState.EMPTY, None)
    if len(first) < HEADER_LENGTH_V1:
        return Detection(LogState.CUT, None)

    type_code, event_length = type_of(first), length_of(first)
    if type_code == EventType.FORMAT_DESCRIPTION:
        _check_format_description_length(event_length, FIRST_EVENT, path)
        if len(first) < event_length:
            return Detection(LogState.CUT, None)
        description = parse_format_description(
            first[:event_length], FIRST_EVENT, path, verify_checksum=verify_checksum
        )
        return Detection(LogState.OPEN, description)
    if type_code == EventType.START_V3:
        _check_start_v3_length(event_length, FIRST_EVENT, path)
        if len(first) < event_length:
            return Detection(
                LogState.CUT, artificial_description(1 if event_length < _START_V3_LENGTH else 3)
            )
        return Detection(LogState.OPEN, parse_start_v3(first[:event_length], FIRST_EVENT, path))
    if not 1 <= type_code <= LAST_V3_TYPE:
        raise FormatError(
            f"the first event is of type {type_code}: expected a format description, or a type from before"
            " 5.0",
            path=path,
            offset=FIRST_EVENT,
            type_code=type_code,
        )
    # 4.0 and 4.1 write a START event only into the first file after the server started.
    return Detection(LogState.OPEN, artificial_description(3))


def parse_start_v3(event: bytes | memoryview, offset: int, path: str | None = None) -> FormatDescription:
    """The descriptor for a START_V3 event; the event's length distinguishes v1 from v3.

    Parameters
    ----------
    event : bytes-like, uint8
        The whole event.
    offset : int
        Where it is in its file.

    Raises
    ------
    FormatError
        Too short, or of an unknown version.
    """
    _check_start_v3_length(len(event), offset, path)
    layout = 1 if len(event) < _START_V3_LENGTH else 3
    version, server_version, created = _START.unpack_from(
        event, HEADER_LENGTH_V1 if layout == 1 else HEADER_LENGTH_V3
    )
    if version not in (1, 2, 3):
        raise FormatError(
            f"START_EVENT_V3 names binlog_version {version}: expected 1, 2 or 3",
            path=path,
            offset=offset,
            type_code=EventType.START_V3,
        )
    reported = layout
    notes: tuple[str, ...] = ()
    if layout == 3 and version == 2:
        reported, notes = 2, ("version 2 (4.0.0, 4.0.1) is read as version 3",)
    elif version != layout:
        notes = (f"START_EVENT_V3 names binlog_version {version}, but its length says {layout}",)
    return artificial_description(reported, _text(server_version), created, from_file=True, notes=notes)


def parse_next_descriptor(
    event: bytes | memoryview,
    offset: int,
    path: str | None,
    in_force: FormatDescription,
    *,
    verify_checksum: bool,
) -> FormatDescription:
    """The descriptor in an event inside a log, which replaces the one in force.

    Parameters
    ----------
    event : bytes-like, uint8
        The whole event: FORMAT_DESCRIPTION or START_V3.
    offset : int
        Where it is in its file.
    path : str or None
    in_force : FormatDescription
    verify_checksum : bool

    Raises
    ------
    FormatError
        Also for a START_V3 between events with checksums that does not name a server: it has no checksum
        itself, so one flipped byte could turn any event into it.
    ChecksumError
    """
    if in_force.canonical(type_of(event)) != EventType.START_V3:
        return parse_format_description(event, offset, path, verify_checksum=verify_checksum)
    description = parse_start_v3(event, offset, path)
    whole = len(event) in (_START_V1_LENGTH, _START_V3_LENGTH)
    if in_force.checksum_algorithm and not (whole and description.server_version[:1].isdigit()):
        raise FormatError(
            "START_EVENT_V3 between events with checksums, without a server version",
            path=path,
            offset=offset,
            type_code=EventType.START_V3,
        )
    return description


def _check_start_v3_length(event_length: int, offset: int, path: str | None) -> None:
    if not _START_V1_LENGTH <= event_length <= _LONGEST_DESCRIPTOR:
        raise FormatError(
            f"START_EVENT_V3 of {event_length} bytes: expected {_START_V1_LENGTH} or {_START_V3_LENGTH}",
            path=path,
            offset=offset,
            type_code=EventType.START_V3,
        )


def _check_format_description_length(event_length: int, offset: int, path: str | None = None) -> None:
    if not _ARRAY_OFFSET < event_length <= _LONGEST_DESCRIPTOR:
        raise _bad_description(
            f"expected an event_length of {_ARRAY_OFFSET + 1} to {_LONGEST_DESCRIPTOR}, found {event_length}",
            offset,
            path,
        )


def parse_format_description(
    event: bytes | memoryview, offset: int, path: str | None = None, *, verify_checksum: bool = False
) -> FormatDescription:
    """Read a FORMAT_DESCRIPTION_EVENT, wherever in a file it is.

    Parameters
    ----------
    event : bytes-like, uint8
        The whole event: 19 bytes of header (whatever header_length is in force), body, checksum.
    offset : int
        Where it is in its file.
    path : str or None
    verify_checksum : bool
        If the algorithm is none, servers write a checksum but never verify it, and neither does this.

    Returns
    -------
    FormatDescription

    Raises
    ------
    FormatError
        A version, header length, array or checksum algorithm that is not valid.
    ChecksumError
    """
    _check_format_description_length(len(event), offset, path)
    version, raw_version, created = _START.unpack_from(event, HEADER_LENGTH_V3)
    if version != 4:
        raise _bad_description(f"expected binlog_version 4, found {version}", offset, path)
    header_length = event[_START_V3_LENGTH]
    if header_length < HEADER_LENGTH_V3:
        raise _bad_description(
            f"expected a header_length of at least {HEADER_LENGTH_V3}, found {header_length}", offset, path
        )

    server_version = _text(raw_version)
    has_checksum, notes = _has_checksum_field(event, server_version)
    array_end = len(event) - (1 + CHECKSUM_LENGTH if has_checksum else 0)
    raw = bytes(event[_ARRAY_OFFSET:array_end])
    if not raw:
        raise _bad_description("the array of post-header lengths is empty", offset, path)
    algorithm = event[array_end] if has_checksum else CHECKSUM_NONE
    if algorithm not in CHECKSUM_NAMES:
        raise _bad_description(
            f"expected checksum algorithm 0 (none) or 1 (CRC32), found {algorithm}", offset, path
        )

    if verify_checksum and algorithm == CHECKSUM_CRC32:
        _verify(event, offset, path)
    renumbering = None
    if _RENUMBERED.match(server_version):
        if len(raw) != _RENUMBERED_TYPES:
            raise _bad_description(
                f"{server_version} lists {_RENUMBERED_TYPES} event types, found {len(raw)}", offset, path
            )
        renumbering = _RENUMBERING
    return FormatDescription(
        binlog_version=version,
        server_version=server_version,
        created=created,
        header_length=header_length,
        post_header_lengths=_effective_lengths(raw, renumbering),
        raw_post_header_lengths=raw,
        checksum_algorithm=algorithm,
        has_checksum_field=has_checksum,
        flags=flags_of(event),
        renumbering=renumbering,
        notes=notes,
    )


def format_description_checksum(event: bytes | memoryview) -> tuple[int, int]:
    """The CRC32 in a FORMAT_DESCRIPTION_EVENT, and the CRC32 of its bytes.

    The flag "in use" is cleared in place when a log is closed, without a new checksum, so it counts as
    cleared. If the checksum algorithm is none, servers write the CRC but never verify it; do not verify it
    either.

    Returns
    -------
    stored, computed : int
    """
    body = bytearray(event[:-CHECKSUM_LENGTH])
    body[FLAGS_AT] &= 0xFF & ~IN_USE_FLAG
    (stored,) = struct.unpack("<I", event[-CHECKSUM_LENGTH:])
    return stored, zlib.crc32(body)


def _verify(event: bytes | memoryview, offset: int, path: str | None) -> None:
    stored, computed = format_description_checksum(event)
    if stored != computed:
        raise ChecksumError(
            f"the CRC32 of the format description is {computed:#010x}: expected {stored:#010x}",
            path=path,
            offset=offset,
            type_code=EventType.FORMAT_DESCRIPTION,
        )


def _has_checksum_field(event: bytes | memoryview, server_version: str) -> tuple[bool, tuple[str, ...]]:
    # The version says whether the server supported checksums; the array's own entry for the descriptor,
    # 57 + number of types, says the same. If only one number of types agrees with that entry, it
    # wins: 6.0 alphas support checksums by their number, but are older than checksums.
    mariadb = is_mariadb_version(server_version)
    since = _CHECKSUMS_SINCE_MARIADB if mariadb else _CHECKSUMS_SINCE_MYSQL
    by_version = split_server_version(server_version) >= since
    entry_at = _ARRAY_OFFSET + EventType.FORMAT_DESCRIPTION - 1

    def consistent(has_checksum: bool) -> bool:
        types = len(event) - _ARRAY_OFFSET - (1 + CHECKSUM_LENGTH if has_checksum else 0)
        # One byte holds it: MariaDB's 57 + 171 still fits, more types would wrap.
        return types >= EventType.FORMAT_DESCRIPTION and event[entry_at] == (_START.size + 1 + types) & 0xFF

    if consistent(by_version):
        return by_version, ()
    if consistent(not by_version):
        says = "has a" if by_version else "has no"
        return not by_version, (f"by its version the log {says} checksum field, but its array disagrees",)
    return by_version, ("the array of post-header lengths does not list the descriptor's own length",)


@lru_cache(maxsize=64)  # the logs of a server all have the same
def _effective_lengths(raw: bytes, renumbering: tuple[int, ...] | None) -> tuple[int, ...]:
    lengths = [0] * (len(raw) + 1)
    for file_code, length in enumerate(raw, start=1):
        lengths[renumbering[file_code] if renumbering else file_code] = length
    for code in range(len(lengths)):
        if code in _SELF_DESCRIBING:
            lengths[code] = 0
        elif lengths[code] == 0:
            lengths[code] = _LENGTHS_IF_ZERO.get(code, 0)
    return tuple(lengths)


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _bad_description(message: str, offset: int, path: str | None) -> FormatError:
    return FormatError(
        f"FORMAT_DESCRIPTION_EVENT: {message}",
        path=path,
        offset=offset,
        type_code=EventType.FORMAT_DESCRIPTION,
    )
