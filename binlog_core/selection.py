"""What of a log is read, and how much of it at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from .compression import MEMORY_LIMIT, PAYLOAD_LIMIT
from .errors import DecodeError
from .gtid_selection import AnyGtidSet
from .tables import Table


@dataclass(slots=True)
class Selection:
    """Which rows are decoded; see `binlog_core.open`."""

    tables: tuple[str, ...] | None = None
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ops: int = 7  # bit 0 insert, 1 update, 2 delete
    server_id: int | None = None
    rows_v0: bool = False
    start_position: int | None = None
    stop_position: int | None = None
    stop_anchor: int = 0  # stop at the first of these at or behind stop_position, not at any event
    start_timestamp: int | None = None
    stop_timestamp: int | None = None
    gtids: AnyGtidSet | None = None
    exclude_gtids: AnyGtidSet | None = None
    seen_columns: dict[str, set[str]] = field(default_factory=dict)

    @property
    def selects_gtids(self) -> bool:
        return self.gtids is not None or self.exclude_gtids is not None

    def wants_table(self, table: Table) -> bool:
        return self.tables is None or any(matches(table, pattern) for pattern in self.tables)

    def wanted_columns(self, table: Table) -> Collection[str] | None:
        wanted = None
        for pattern, names in self.columns.items():
            if matches(table, pattern):
                wanted = set(names) if wanted is None else wanted | set(names)
                self.seen_columns.setdefault(pattern, set()).update(
                    c.name for c in table.columns if c.name in names
                )
        return wanted


def matches(table: Table, pattern: str) -> bool:
    """A name or glob pattern of "database.table", or of the table alone."""
    return fnmatchcase(table.full_name if "." in pattern else table.name, pattern)


def matches_name(full_name: str, pattern: str) -> bool:
    """`matches` for a table of which only the full name is known."""
    # More tables than databases have a dot in their names.
    return fnmatchcase(full_name if "." in pattern else full_name.partition(".")[2], pattern)


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds memory and time.

    Parameters
    ----------
    group_rows : int
        Records (row images) after which a group of batches is handed over.
    group_bytes : int
        The same, in bytes of rows events. A single event is never divided.
    group_memory : int
        The same, in bytes of records, which take more room than rows with many NULLs do.
    payload_bytes : int
        Most bytes out of one compressed transaction; it is read as a stream.
    decompressed_bytes : int
        Most bytes out of one compressed event, or of the compressed columns of one batch.
    table_definitions : int
        Plans that are kept. When there are more, all are dropped at the next transaction and made
        anew as they come; one transaction may have 16 times as many, up to 65536. A wide table counts as
        several: one more for every 32 columns, and for every 4096 bytes of names and members.
    record_bytes : int
        Most bytes of records out of one rows event.
    event_bytes : int
        Largest event of a log that is read piece by piece (a stream, or ``mmap=False``), which must lie in
        memory whole. No server writes larger ones than 1 GiB, the most of max_allowed_packet.
    """

    group_rows: int = 65536
    group_bytes: int = 16 << 20
    group_memory: int = 4 << 20
    payload_bytes: int = PAYLOAD_LIMIT
    decompressed_bytes: int = MEMORY_LIMIT
    table_definitions: int = 16384
    record_bytes: int = 1 << 30
    event_bytes: int = (1 << 30) + (1 << 20)

    def event_too_large(self, length: int, path: str, offset: int) -> DecodeError:
        """The error of an event that is not read into memory."""
        return DecodeError(
            f"an event of {length} bytes; Limits.event_bytes={self.event_bytes}", path=path, offset=offset
        )


DEFAULT_LIMITS = Limits()


def names(values: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """One name, or several, as a tuple."""
    if values is None:
        return None
    return (values,) if isinstance(values, str) else tuple(values)
