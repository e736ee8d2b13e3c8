"""How the events of a log are laid out: lengths of headers, numbering of the event types, checksums.

Everything that differs between versions of the format is decided only here and in ``descriptors.py``:

====  =================  ==========================  ======================================
 v    servers            first event                 what the log says of itself
====  =================  ==========================  ======================================
1     3.23               START_V3, under 75 bytes    13-byte headers, no positions
2     4.0.0, 4.0.1       START_V3 of 75 bytes        laid out as v3, and read as v3
3     4.0, 4.1           START_V3 of 75 bytes, or    19-byte headers; next_position is where
                         any other but a descriptor  the event begins
4     5.0 and later      FORMAT_DESCRIPTION          header length, post-header lengths,
                                                     numbering, checksum algorithm
====  =================  ==========================  ======================================

For v1 to v3, whose logs have no array of post-header lengths, this is an artificial descriptor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .event_header import CHECKSUM_LENGTH, HEADER_LENGTH_V1, HEADER_LENGTH_V3, IN_USE_FLAG
from .event_types import EventType
from .server_versions import is_mariadb_version, split_server_version

CHECKSUM_NONE = 0
CHECKSUM_CRC32 = 1
CHECKSUM_NAMES = {CHECKSUM_NONE: "none", CHECKSUM_CRC32: "crc32"}


# These keep 19 bytes whatever header_length says: a reader needs them before it knows it.
_FROZEN_HEADERS = frozenset((EventType.START_V3, EventType.ROTATE, EventType.FORMAT_DESCRIPTION))

# Where the array has no entry, or 0: MySQL 8.4 and later list 0 for rows v1, which relay logs
# and repaired files can hold all the same.
DEFAULT_LENGTHS = (
    dict.fromkeys(range(EventType.TABLE_MAP, EventType.DELETE_ROWS_V1 + 1), 8)
    | dict.fromkeys(range(EventType.WRITE_ROWS, EventType.DELETE_ROWS + 1), 10)
    | {int(EventType.PARTIAL_UPDATE_ROWS): 10}
)
_DEFAULT_LENGTH_ARRAY = np.array([DEFAULT_LENGTHS.get(code, 0) for code in range(256)], dtype=np.uint8)

# Post-header lengths of types 0 (nothing) to 14 for the versions without an array.
_LENGTHS_V1 = (0, 56, 11, 0, 0, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0)
_LENGTHS_V3 = (0, 56, 11, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0)
LAST_V3_TYPE = len(_LENGTHS_V3) - 1


@dataclass(frozen=True, slots=True, repr=False)
class FormatDescription:
    """How the events of a log are laid out; ``log.format``.

    Parameters
    ----------
    binlog_version : int
        The format's version, 1 to 4; version 2 has the layout of 3.
    server_version : str
        The version of the server that wrote the log; "" if the log does not have it.
    created : int
        Seconds since 1970 UTC; 0 unless the server began the file when it started.
    header_length : int
        Bytes of an event header; use `header_length_of` for a certain event type.
    post_header_lengths : tuple of int
        The lengths to read events with, by type code in today's numbering (entry 0 is unused). It has the
        built-in length where the log lists 0 for a rows event, TABLE_MAP or an old LOAD DATA event, and 0
        for types whose listed length is not valid.
    raw_post_header_lengths : bytes
        The lengths as they are in the file, in its numbering; the first is for type code 1. Empty before v4.
    checksum_algorithm : int
        The checksum of all following events up to the next descriptor: 0 none, 1 CRC32.
    has_checksum_field : bool
        Whether the descriptor itself ends with an algorithm and four bytes of CRC, whatever the algorithm.
    flags : int
        The flags in the descriptor's header.
    renumbering : tuple of int or None
        Today's type code for each code in the file, for early builds of 5.1 and 5.2; otherwise None.
    from_file : bool
        False if the log has no descriptor at all (4.0 and 4.1 after a rotate).
    notes : tuple of str
        What was unusual but readable.

    Source: MySQL server documentation, "Format_description_event".
    """

    binlog_version: int
    server_version: str = ""
    created: int = 0
    header_length: int = HEADER_LENGTH_V3
    post_header_lengths: tuple[int, ...] = ()
    raw_post_header_lengths: bytes = b""
    checksum_algorithm: int = CHECKSUM_NONE
    has_checksum_field: bool = False
    flags: int = 0
    renumbering: tuple[int, ...] | None = None
    from_file: bool = True
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        told = f"binlog_version={self.binlog_version}, server_version={self.server_version!r}"
        return f"FormatDescription({told}, checksum={self.checksum!r})"

    @property
    def checksum(self) -> str:
        """The checksum of the events that follow: "none" or "crc32"."""
        return CHECKSUM_NAMES[self.checksum_algorithm]

    @property
    def checksum_length(self) -> int:
        """Bytes of checksum at the end of each following event: 0 or 4."""
        return CHECKSUM_LENGTH if self.checksum_algorithm == CHECKSUM_CRC32 else 0

    @property
    def in_use(self) -> bool:
        """Whether the log was not closed: its server is still writing it, or crashed."""
        return self.binlog_version >= 4 and bool(self.flags & IN_USE_FLAG)

    @property
    def is_mariadb(self) -> bool:
        """Whether MariaDB wrote the log; some of its metadata and flags differ."""
        return is_mariadb_version(self.server_version)

    @property
    def server_version_tuple(self) -> tuple[int, int, int]:
        """The three numbers of `server_version`; (0, 0, 0) if it has none."""
        return split_server_version(self.server_version)

    def canonical(self, file_code: int) -> int:
        """Today's type code for a code in the file; 0 (unknown) if the old numbering does not have it."""
        if self.renumbering is None:
            return file_code
        return self.renumbering[file_code] if file_code < len(self.renumbering) else EventType.UNKNOWN

    def header_length_of(self, type_code: int) -> int:
        """Bytes of the header of events of a type (today's code)."""
        if self.binlog_version >= 4 and type_code in _FROZEN_HEADERS:
            return HEADER_LENGTH_V3
        return self.header_length

    def checksum_length_of(self, type_code: int) -> int:
        """Bytes of checksum at the end of events of a type (today's code).

        A descriptor has them even if its algorithm is none; START_V3 never has.
        """
        if type_code == EventType.START_V3:
            return 0
        if type_code == EventType.FORMAT_DESCRIPTION:
            return CHECKSUM_LENGTH if self.has_checksum_field else 0
        return self.checksum_length

    def post_header_length(self, type_code: int) -> int | None:
        """Post-header bytes of a type (today's code); None if the log should list it but does not."""
        if type_code < len(self.post_header_lengths):
            return self.post_header_lengths[type_code]
        return DEFAULT_LENGTHS.get(type_code)

    def core_arrays(self) -> tuple[int, np.ndarray, np.ndarray, int]:
        """The descriptor as plain values, for the compiled core.

        Returns
        -------
        header_length : int
        post_header_lengths : ndarray, shape (256,), uint8
            Indexed by today's type code; 0 if there is none.
        canonical : ndarray, shape (256,), uint8
            Indexed by the code in the file: today's code.
        checksum_algorithm : int
        """
        lengths = _DEFAULT_LENGTH_ARRAY.copy()
        lengths[: len(self.post_header_lengths)] = self.post_header_lengths[:256]
        if self.renumbering is None:
            canonical = np.arange(256, dtype=np.uint8)
        else:
            canonical = np.full(256, EventType.UNKNOWN, dtype=np.uint8)
            canonical[: len(self.renumbering)] = self.renumbering
        return self.header_length, lengths, canonical, self.checksum_algorithm


def artificial_description(
    binlog_version: int,
    server_version: str = "",
    created: int = 0,
    *,
    from_file: bool = False,
    notes: tuple[str, ...] = (),
) -> FormatDescription:
    """The descriptor of a log of v1, v2 or v3, which carries no array of lengths itself."""
    old = binlog_version == 1
    return FormatDescription(
        binlog_version=binlog_version,
        server_version=server_version,
        created=created,
        header_length=HEADER_LENGTH_V1 if old else HEADER_LENGTH_V3,
        post_header_lengths=_LENGTHS_V1 if old else _LENGTHS_V3,
        from_file=from_file,
        notes=notes,
    )
