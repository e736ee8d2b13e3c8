"""Typed events of the golden logs against SHOW BINLOG EVENTS, and over damaged bytes."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator

import pytest
from support.golden import DATA, SERVERS, Golden
from support.plain_walk import iterate, iterate_payload

from binlog_core import events as ev
from binlog_core._format.descriptors import detect
from binlog_core._format.format_description import FormatDescription
from binlog_core.errors import BinlogError

pytestmark = pytest.mark.sanitize_long

# The tests of sources read encrypted logs.
LOGS = [
    Golden(path)
    for server in SERVERS
    for path in sorted((DATA / server).glob("*.binlog"))
    if path.stem != "encrypted"
]
OLD_LOGS = sorted((DATA / "old").glob("*.binlog"))

ROWS_FLAGS = {
    1: "STMT_END_F",
    2: "NO_FOREIGN_KEY_CHECKS_F",
    4: "RELAXED_UNIQUE_CHECKS_F",
    8: "COMPLETE_ROWS_F",
    16: "USE_SQL_FOREIGN_KEY_F",
    128: "NO_CHECK_CONSTRAINT_CHECKS_F",
}
LOG_EVENT_SUPPRESS_USE_F = 8


def events_of(data: bytes) -> Iterator[tuple[ev.Event, FormatDescription, bool]]:
    """Events as SHOW BINLOG EVENTS lists them: those inside a compressed transaction after it."""
    for event, description in iterate(data):
        yield event, description, False
        if isinstance(event, ev.TransactionPayloadEvent):
            for inner in iterate_payload(event, description):
                yield inner, description, True


def info_of(event: ev.Event, *, mariadb: bool) -> str | None:
    """What the server says of an event, as far as the event carries it; None: nothing to compare."""
    match event:
        case ev.FormatDescriptionEvent():
            return f"Server ver: {event.format.server_version}, Binlog ver: {event.format.binlog_version}"
        case ev.ExecuteLoadQueryEvent():
            return f"use `{event.database}`; {event.query} ;file_id={event.file_id}"
        case ev.QueryEvent():
            use = (
                f"use `{event.database}`; "
                if event.database and not event.flags & LOG_EVENT_SUPPRESS_USE_F
                else ""
            )
            xid = event.status.ddl_xid
            return use + event.query + (f" /* xid={xid} */" if xid is not None and not mariadb else "")
        case ev.RowsQueryEvent():
            return event.query if mariadb else f"# {event.query}"
        case ev.RotateEvent():
            return f"{event.new_log_ident};pos={event.pos}"
        case ev.XidEvent():
            return f"COMMIT /* xid={event.xid} */"
        case ev.IntvarEvent():
            return f"{event.variable}={event.val}"
        case ev.RandEvent():
            return f"rand_seed1={event.seed1},rand_seed2={event.seed2}"
        case ev.UserVarEvent():
            if isinstance(event.value, bytes):
                return f"@`{event.variable}`=_utf8mb4 {event.value.hex().upper()}"
            value = event.value
            shown = "NULL" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
            return f"@`{event.variable}`={shown}"
        case ev.AppendBlockEvent():
            return f";file_id={event.file_id};block_len={len(event.block)}"
        case ev.TableMapEvent():
            return f"table_id: {event.table_id} ({event.database}.{event.table})"
        case ev.RowsEvent():
            flags = " ".join(name for bit, name in ROWS_FLAGS.items() if event.rows_flags & bit)
            return f"table_id: {event.table_id}" + (f" flags: {flags}" if flags else "")
        case ev.XaPrepareEvent():
            ids = f"X'{event.gtrid.hex()}',X'{event.bqual.hex()}',{event.format_id}"
            return f"XA COMMIT {ids} ONE PHASE" if event.one_phase else f"XA PREPARE {ids}"
        case ev.GtidEvent():
            return f"SET @@SESSION.GTID_NEXT= '{event.gtid or 'ANONYMOUS'}'"
        case ev.PreviousGtidsEvent():
            return str(event.gtid_set)
        case ev.TransactionPayloadEvent():
            return f"compression='ZSTD', decompressed_size={event.uncompressed_size} bytes"
        case ev.MariadbGtidEvent():
            return mariadb_gtid_info(event)
        case ev.MariadbGtidListEvent():
            return f"[{','.join(map(str, sorted(event.gtids)))}]"
        case ev.MariadbBinlogCheckpointEvent():
            return event.file_name
        case ev.IncidentEvent(incident=1):
            return "#1 (LOST_EVENTS)"
        case ev.StopEvent():
            return ""
    return None


def mariadb_gtid_info(event: ev.MariadbGtidEvent) -> str:
    if event.xid and event.flags2 & 64:
        format_id, gtrid, bqual = event.xid
        return f"XA START X'{gtrid.hex()}',X'{bqual.hex()}',{format_id} GTID {event.gtid}"
    info = f"GTID {event.gtid}" if event.standalone else f"BEGIN GTID {event.gtid}"
    if event.commit_id:
        info += f" cid={event.commit_id}"
    if event.flags_extra & 2:
        info += " START ALTER"
    if event.start_alter_seq_no is not None:
        end = "ROLLBACK" if event.flags_extra & 8 else "COMMIT"
        info += f" {end} ALTER id={event.start_alter_seq_no}"
    return info


def as_compared(info: str) -> str:
    """Without what is the server's own way to print: literals of user variables, session settings, and
    characters that the connection's character set lacked."""
    info = re.sub(r"(0x|X')([0-9A-F]+)'? COLLATE \S+$", r"\2", info)
    info = re.sub(r"set foreign_key_checks=\d, unique_checks=\d; ", "", info)
    return re.sub(r"[^\x00-\uffff]", "????", info)[:390]


def test_the_golden_logs_are_there() -> None:
    assert {golden.path.parent.name for golden in LOGS} == set(SERVERS)
    assert OLD_LOGS


@pytest.mark.parametrize("golden", LOGS, ids=str)
def test_as_the_server_lists_them(golden: Golden) -> None:
    mariadb = golden.name.startswith("maria")
    listed = golden.events
    found = list(events_of(golden.data))
    # The list was made before the server stopped, and may be of the log before it was cut.
    unlisted = [event.name for event, _, _ in found[len(listed) :]]
    assert unlisted in ([], ["Stop"])
    assert len(found) >= len(listed) - ("truncated" in golden.name)
    for (event, _, inner), line in zip(found, listed, strict=False):
        assert (event.name, event.server_id) == (line["type"], line["server_id"])
        if not inner:
            assert (event.position, event.next_position) == (line["pos"], line["end"])
        info = info_of(event, mariadb=mariadb)
        assert info is not None, event
        assert as_compared(info) == as_compared(line["info"])


@pytest.mark.parametrize("path", OLD_LOGS, ids=lambda path: path.stem)
def test_old_logs_to_their_end(path: object) -> None:
    data = path.read_bytes()  # type: ignore[attr-defined]
    events = [event for event, _, inner in events_of(data) if not inner]
    assert events[-1].position + events[-1].event_length == len(data)
    opaque = [event.type_code for event in events if isinstance(event, ev.OpaqueEvent)]
    # Amazon Aurora writes events with its own type.
    assert opaque == ([100] if "aurora" in str(path) else [])
    assert not any(event.status.unknown for event in events if isinstance(event, ev.QueryEvent))


def test_load_data_of_5_7() -> None:
    events = [event for event, _, _ in events_of((DATA / "old" / "mysql-5.7.30-load.binlog").read_bytes())]
    (block,) = (event for event in events if isinstance(event, ev.AppendBlockEvent))
    (load,) = (event for event in events if isinstance(event, ev.ExecuteLoadQueryEvent))
    assert (load.file_id, load.dup_handling) == (block.file_id, 0)
    assert load.query_bytes[load.fn_pos_start : load.fn_pos_end] == b" INFILE '/tmp/data.txt' INTO"


@pytest.mark.parametrize(
    "name",
    [
        "mysql97/gtid",
        "mysql97/gtid_trx_compression",
        "mysql56/stmt_and_mixed_format",
        "maria118/maria_gtid",
        "maria1011/xa",
    ],
)
def test_damaged_events_raise_our_errors_or_decode(name: str) -> None:
    data = Golden(DATA / f"{name}.binlog").data
    chance = random.Random(name)
    description = detect(data).format
    assert description is not None
    seen: set[int] = set()
    for event, _ in iterate(data):
        if event.type_code in seen:
            continue
        seen.add(event.type_code)
        start = event.position + description.header_length_of(event.type_code)
        end = event.position + event.event_length - description.checksum_length_of(event.type_code)
        body = data[start:end]
        header = ev.EventHeader(
            event.position,
            event.timestamp,
            event.type_code,
            event.server_id,
            event.event_length,
            event.next_position,
            event.flags,
        )
        damaged = [body[:cut] for cut in range(len(body))]
        for _ in range(500):
            flipped = bytearray(body)
            for _ in range(chance.randint(1, 3)):
                if flipped:
                    flipped[chance.randrange(len(flipped))] = chance.choice(
                        (0, 1, 0x7F, 0x80, 0xFB, 0xFE, 0xFF)
                    )
            damaged.append(bytes(flipped))
        for broken in damaged:
            try:
                ev.parse_event(header, broken, description, name)
            except BinlogError as error:
                assert (error.path, error.offset, error.type_code) == (name, event.position, event.type_code)
    assert len(seen) > 5


def test_damaged_descriptors_raise_our_errors_or_decode() -> None:
    chance = random.Random(15)
    for server in SERVERS:
        data = Golden(DATA / server / "stop.binlog").data
        (length,) = struct.unpack_from("<I", data, 13)
        head = data[: 4 + length]
        for _ in range(2000):
            flipped = bytearray(head)
            for _ in range(chance.randint(1, 3)):
                flipped[chance.randrange(len(flipped))] = chance.randrange(256)
            try:
                found = detect(bytes(flipped), "log")
            except BinlogError as error:
                assert error.path == "log" and error.offset in (0, 4)
            else:
                assert found.format is None or found.format.binlog_version in (1, 2, 3, 4)
