"""What bounds memory and time, whatever the bytes are."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import index

from ._core._rows import ARROW_BYTES
from ._format.compression import MEMORY_LIMIT, PAYLOAD_LIMIT
from ._format.event_header import HEADER_LENGTH_V1, length_of
from .errors import DecodeError


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds memory and time.

    Parameters
    ----------
    group_rows : int
        Records (row images) after which a group of batches is handed over; of a thousand tables and more four
        times as many, and of the two that follow four times as much.
    group_bytes : int
        The same, in bytes of rows events; of few tables less, 1 MiB for each. An event is never divided.
    group_memory : int
        The same, in bytes of records, which take more room than rows with many NULLs do.
    payload_bytes : int
        Most bytes out of one compressed transaction; it is read as a stream.
    decompressed_bytes : int
        Most bytes out of one compressed event, or of the compressed columns of one batch.
    table_definitions : int
        Definitions that are kept. When there are more, all are dropped at the next transaction and made
        anew as they come; one transaction may have 16 times as many, up to 65536. A wide table counts as
        several: one more for every 32 columns, and for every 4096 bytes of names and members.
    record_bytes : int
        Most bytes of records out of one rows event.
    spool_bytes : int
        Most bytes of a temporary file: that into which `binlog_core.inspect.verify.verify` unpacks a log
        that is compressed or encrypted, that for standard input where it is read more than once, and that of
        the statements which ``rows --flashback`` writes in the end, or which wait for XA COMMIT.
    statement_bytes : int
        Largest statement that is read with ``schema="ddl"``; a longer one is not followed. Its text is not
        bounded otherwise.
    sql_columns : int
        Columns of the tables that a query knows, or that `binlog_core.duckdb.register` makes known; each
        takes DuckDB some kilobytes. A query knows the tables that it names.
    definition_columns : int
        Columns of all definitions that are followed with ``schema="ddl"``, about 250 bytes each; 256
        characters of names and members count as one more, columns that definitions share hardly. Beyond it
        tables are no longer followed.
    arrow_bytes : int
        Most bytes that the columns of one batch may take in Arrow, members of ENUM and SET among them. BINARY
        columns become longer there than they are in the log, which leaves out the zero bytes at their end.
    event_bytes : int
        Largest event of a log that is read piece by piece (a stream, or ``mmap=False``), or out of a
        compressed transaction, which must lie in memory whole. No server writes larger ones than 1 GiB, the
        most of max_allowed_packet.
    condition_length : int
        Characters of a condition (``where=``).
    condition_depth : int
        Parentheses inside one another in a condition.
    """

    group_rows: int = 65536
    group_bytes: int = 16 << 20
    group_memory: int = 4 << 20
    payload_bytes: int = PAYLOAD_LIMIT
    decompressed_bytes: int = MEMORY_LIMIT
    table_definitions: int = 16384
    record_bytes: int = 1 << 30
    spool_bytes: int = 64 << 30
    statement_bytes: int = 16 << 20
    sql_columns: int = 1 << 19
    definition_columns: int = 1 << 22
    arrow_bytes: int = ARROW_BYTES
    event_bytes: int = (1 << 30) + (1 << 20)
    condition_length: int = 1 << 20
    condition_depth: int = 64

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not hasattr(value, "__index__") or isinstance(value, bool):
                raise TypeError(f"Limits: {limit.name}= takes an int, not {type(value).__name__}")
            if not 0 < index(value) < 1 << 62:
                raise ValueError(f"Limits: {limit.name}={value}: at least 1 and below 2**62 is expected")

    def packed_length(self, event: bytes | bytearray, path: str, offset: int) -> int:
        """Of a packed event of which the beginning was unpacked; 0 where not even its length was.

        Raises
        ------
        DecodeError
            It is larger than `event_bytes`: the events before it need not wait in memory for the rest.
        """
        length = length_of(event) if len(event) >= HEADER_LENGTH_V1 else 0
        if length > self.event_bytes:
            raise self.event_too_large(length, path, offset)
        return length

    def event_too_large(self, length: int, path: str, offset: int) -> DecodeError:
        """The error of an event that is not read into memory."""
        return DecodeError(
            f"an event of {length} bytes; Limits.event_bytes={self.event_bytes}", path=path, offset=offset
        )


DEFAULT_LIMITS = Limits()
