"""Limits on memory and time, whatever the bytes are."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import index

from ._core._rows import ARROW_BYTES
from ._format.compression import MEMORY_LIMIT, PAYLOAD_LIMIT
from ._format.event_header import HEADER_LENGTH_V1, length_of
from .errors import DecodeError


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on memory and time.

    Parameters
    ----------
    group_rows : int
        A group of batches is returned after this many records (row images). With a thousand tables or more,
        this limit and the next two are four times as large.
    group_bytes : int
        The same limit in bytes of rows events; with few tables it is less, 1 MiB for each. An event is never
        divided.
    group_memory : int
        The same limit in bytes of records, which take more memory than rows with many NULLs, and of
        their entries in ``ChangeBatch.invalid`` and ``json_diffs``.
    payload_bytes : int
        The most bytes that one compressed transaction may decompress to; it is read as a stream.
    decompressed_bytes : int
        The most bytes that one compressed event, or the compressed columns of one batch, may decompress to.
    table_definitions : int
        How many definitions are kept. When there are more, all are dropped at the next transaction and made
        again when they are needed; one transaction may have 16 times as many, up to 65536. A wide table
        counts as several: one more for every 32 columns, and for every 4096 bytes of names and members.
    record_bytes : int
        The most bytes of records from one rows event, with their entries.
    spool_bytes : int
        The most bytes of a temporary file. There is one when `binlog_core.inspect.verify.verify` unpacks a
        compressed or encrypted log, when standard input is read more than once, and for statements that
        ``rows --flashback`` writes at the end or that wait for XA COMMIT.
    statement_bytes : int
        The largest statement that ``schema="ddl"`` reads; a longer one is not followed. Nothing else limits
        a statement's text.
    sql_columns : int
        The most columns of all tables that a query knows or that `binlog_core.duckdb.register` makes known;
        each takes some kilobytes in DuckDB. A query knows the tables that it names.
    definition_columns : int
        The most columns of all definitions that ``schema="ddl"`` follows, about 250 bytes each. Every 256
        characters of names and members count as one more; columns that definitions share count very little.
        Beyond the limit, tables are no longer followed.
    arrow_bytes : int
        The most bytes that the columns of one batch may take in Arrow, including members of ENUM and SET.
        BINARY columns are longer in Arrow than in the log, which leaves out the zero bytes at their end.
    event_bytes : int
        The largest event in a log that is read piece by piece (a stream, or ``mmap=False``), or in a
        compressed transaction: such an event must be in memory as a whole. No server writes an event larger
        than 1 GiB, the maximum of max_allowed_packet.
    condition_length : int
        The most characters of a condition (``where=``).
    condition_depth : int
        How deep parentheses may be nested in a condition.
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
                raise ValueError(f"Limits: {limit.name}={value}: expected at least 1 and below 2**62")

    def packed_length(self, event: bytes | bytearray, path: str, offset: int) -> int:
        """The length of a compressed event whose beginning was unpacked; 0 if not even its length was.

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
        """The error for an event that is too large to be read into memory."""
        return DecodeError(
            f"an event of {length} bytes is larger than Limits.event_bytes={self.event_bytes}",
            path=path,
            offset=offset,
        )


DEFAULT_LIMITS = Limits()
