"""What of a log is read, and how much of it at a time."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from operator import index

from .._core._rows import ARROW_BYTES
from .._format.compression import MEMORY_LIMIT, PAYLOAD_LIMIT
from .._tables.tables import Table
from ..errors import DecodeError, SchemaError
from .given_names import NamesMet
from .gtid_selection import AnyGtidSet

Place = int | tuple[str, int] | dt.datetime
Columns = Mapping[str, str | Iterable[str]] | Iterable[str]
MAX_POSITION = (1 << 63) - 1
_OPS = {"insert": 1, "update": 2, "delete": 4}


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
    in_parts: bool = False  # of a log that is read in parts: its events have to end where they say
    start_timestamp: int | None = None
    stop_timestamp: int | None = None
    gtids: AnyGtidSet | None = None
    exclude_gtids: AnyGtidSet | None = None
    asides: bool = False  # what is no row is gathered too: see group.Aside
    met: NamesMet = field(default_factory=NamesMet)  # of the names given here, in a pass

    @property
    def selects_gtids(self) -> bool:
        return self.gtids is not None or self.exclude_gtids is not None

    def wants_table(self, table: Table) -> bool:
        met = self.met
        met.table(table.full_name)
        if self.tables is None:
            return True
        wanted = False
        for pattern in self.tables:
            if not (wanted and pattern in met.patterns) and matches(table, pattern):
                met.patterns.add(pattern)
                wanted = True
        return wanted

    def wanted_columns(self, table: Table) -> Collection[str] | None:
        wanted = None
        for pattern, names in self.columns.items():
            if matches(table, pattern):
                wanted = set(names) if wanted is None else wanted | set(names)
                self.met.columns.setdefault(pattern, set()).update(
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
        Most bytes of the temporary file into which `binlog_core.inspect.verify.verify` unpacks a log that
        is compressed or encrypted.
    statement_bytes : int
        Largest statement that is read with ``schema="ddl"``; a longer one is not followed. Its text is not
        bounded otherwise.
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
    definition_columns: int = 1 << 22
    arrow_bytes: int = ARROW_BYTES
    event_bytes: int = (1 << 30) + (1 << 20)

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
        length = int.from_bytes(event[9:13], "little") if len(event) >= 13 else 0
        if length > self.event_bytes:
            raise self.event_too_large(length, path, offset)
        return length

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
    given = (values,) if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"a name is expected, not {name!r}")
    return given


def columns_by_pattern(given: Columns | None) -> dict[str, tuple[str, ...]]:
    """The names of the columns by table name or pattern; names alone are those of every table."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return {"*": names(given) or ()}
    return {pattern: names(columns) or () for pattern, columns in given.items()}


def check_columns(selection: Selection) -> None:
    """Names that no definition had are a mistake, told at the end: a later ALTER could have brought them."""
    for pattern, seen in selection.met.columns.items():
        missing = set(selection.columns[pattern]) - seen
        if missing:
            raise SchemaError(
                f"no definition of {pattern!r} has the columns {sorted(missing)}", table=pattern
            )


def ops_mask(ops: str | Iterable[str] | None) -> int:
    """Bit 0 insert, 1 update, 2 delete; all for None."""
    wanted = set(_OPS if ops is None else names(ops) or ())
    if not wanted <= set(_OPS):
        raise ValueError(f"ops={ops!r}: insert, update and delete are known")
    return sum(_OPS[op] for op in wanted)


def check_arguments(
    start: object, stop: object, server_id: object, limits: object, schema: object, schema_start: object
) -> None:
    """Refuse arguments of `binlog_core.open` that cannot be meant, as soon as they are given.

    Raises
    ------
    TypeError, ValueError
    """
    _check_place("start", start)
    _check_place("stop", stop)
    if isinstance(start, dt.datetime) and isinstance(stop, dt.datetime) and _utc(start) > _utc(stop):
        raise ValueError(f"start={start} is behind stop={stop}")
    if not (server_id is None or hasattr(server_id, "__index__")) or isinstance(server_id, bool):
        raise TypeError(f"server_id= takes an int, not {type(server_id).__name__}")
    if server_id is not None and not 0 <= index(server_id) < 1 << 32:
        raise ValueError(f"server_id={server_id}: 0 to {(1 << 32) - 1} is expected")
    if not (limits is None or isinstance(limits, Limits)):
        raise TypeError(f"limits= takes binlog_core.Limits, not {type(limits).__name__}")
    if schema_start is not None and not (isinstance(schema, str) and schema == "ddl"):
        raise ValueError('schema_start= goes with schema="ddl": the definitions before the first statement')


def _check_place(argument: str, place: object) -> None:
    if place is None or isinstance(place, dt.datetime):
        return
    position = place
    if isinstance(place, tuple) and len(place) == 2 and isinstance(place[0], str | os.PathLike):
        position = place[1]
    if not hasattr(position, "__index__") or isinstance(position, bool):
        raise TypeError(f"{argument}={place!r}: a position, (file name, position) or a datetime is expected")
    if index(position) < 0:
        raise ValueError(f"{argument}={place!r}: a position is not negative")
    if index(position) > MAX_POSITION:
        raise ValueError(f"{argument}={place!r}: a position is below 2**63")


def timestamp_of(moment: dt.datetime) -> int:
    """Seconds since 1970 UTC, as event headers have them; naive moments are UTC."""
    return max(0, int(_utc(moment).timestamp()))


def _utc(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
