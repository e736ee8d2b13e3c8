"""Fuzz targets over the Python entry points: functions of bytes that raise only what is a bug.

Whatever the bytes are, a call ends with a result or an error of binlog_core.errors. Any other exception, a
crash, a sanitizer's report or an endless loop ends the fuzzer. Inputs reach the decoder as NumPy arrays of
exactly their size.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import shutil
import struct
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import page_lies
from lies import mutated, packed_block, packed_payload, sum_of

import binlog_core
from binlog_core import gtids
from binlog_core._core import _packets, _result_set
from binlog_core._core._crc32 import crc32c
from binlog_core._core._jsonb import apply_json_diffs, jsonb_to_text, parse_json_diffs
from binlog_core._core._rows import feed_at_once, fragments_from
from binlog_core._decode.plans import plan_of
from binlog_core._format import fragments as joining
from binlog_core._format.compression import inflate_block, inflate_columns, payload_chunks
from binlog_core._format.descriptors import detect
from binlog_core._format.format_description import FormatDescription
from binlog_core._sources import innodb_pages
from binlog_core._sources.encryption_keys import read_key_file, read_keyring
from binlog_core._sources.timeline import ArchiveTimeline
from binlog_core._tables.column_types import SPAN_DTYPE, Kind
from binlog_core._tables.table_map import TableMaps
from binlog_core._walk import track
from binlog_core.conditions import compiled as compiled_conditions
from binlog_core.errors import BinlogError
from binlog_core.events import EventHeader, parse_event
from binlog_core.index import files
from binlog_core.index.making import index as build_index
from binlog_core.inspect.verify import verify_log
from binlog_core.lake.tables.parquet import check_manifest
from binlog_core.schema.ddl import DdlTracker
from binlog_core.schema.given import parse_create_table
from binlog_core.schema.tokens import tokenize_statements
from binlog_core.splits import Split, read_split_groups

warnings.simplefilter("ignore", binlog_core.BinlogWarning)

LIMITS = binlog_core.Limits(
    group_rows=64, group_bytes=4096, payload_bytes=1 << 20, decompressed_bytes=1 << 20
)
OP = np.dtype(
    [("detail", "u1", (4,)), ("column", "<u2"), ("out_width", "<u2"), ("width", "<u4"), ("out", "<u4")]
)
MAX_BATCH = 1 << 16  # records worth turning into Arrow


def target(function: Callable[[bytes], Any]) -> Callable[[bytes], None]:
    @wraps(function)
    def run(data: bytes) -> None:
        try:
            function(data)
        except BinlogError as error:
            str(error)

    return run


def exact(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8).copy()


DATA = Path(__file__).resolve().parent.parent / "tests" / "data"


def _head(name: str) -> bytes:
    """Magic and descriptor of a golden log whose events have no checksum."""
    data = (DATA / name).read_bytes()
    return data[: 4 + int.from_bytes(data[13:17], "little")]


def _format(head: bytes) -> FormatDescription:
    found = detect(head, "<head>", verify_checksum=True).format
    assert found is not None and not found.core_arrays()[3]
    return found


TRANSACTION_PAYLOAD = 40
MARIADB_COMPRESSED = range(165, 172)
MARIADB_ROWS = (23, 24, 25, *range(166, 172))
FRAGMENT = 172
FROZEN = (1, 4, 15)  # types whose headers are of 19 bytes everywhere
HEADER_LENGTH_AT = 4 + 19 + 56
SHARED_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
HEADS = [_head("mysql97/checksum_none.binlog"), _head("maria1011/checksum_none.binlog")]
FORMATS = [_format(head) for head in HEADS]
KEYRING = read_keyring(DATA / "mysql97" / "encrypted.keyring")
KEY_FILE = read_key_file(DATA / "maria1011" / "encrypted.keys.txt")
PACKED = np.dtype([("image", [("position", "<u8")]), ("row", [("a", SPAN_DTYPE), ("b", SPAN_DTYPE)])])
PACKED_COLUMNS = [SimpleNamespace(name=name, kind=Kind.BINARY, compressed=name == "a") for name in "ab"]


def _read(data: Any, road: int, **options: Any) -> None:
    with binlog_core.open(data, limits=LIMITS, **options) as log:
        if road == 0:
            log.headers()
        elif road == 1:
            for event in log.events():
                repr(event)
        elif road == 2:
            for change in log.rows():
                repr(change)
        elif road == 7:
            for file in log.files:
                verdict = verify_log(file)
                assert all(0 <= d.begin <= d.end <= verdict.size for d in verdict.damages)
        else:
            for batch in log.batches():
                if len(batch.array) < MAX_BATCH:
                    batch.to_arrow(
                        text_errors="replace" if road == 3 else "raise",
                        text="view" if len(batch.array) & 1 else "string",
                    ).validate(full=True)
        str(log.report)


def _read_as(options: int, data: bytes) -> None:
    road = options & 7
    source: Any = io.BytesIO(data) if options & 8 else exact(data)
    _read(
        source,
        road,
        verify_checksum=bool(options & 16),
        on_error="skip" if options & 32 else "raise",
        strict=bool(options & 64),
        rows_v0=bool(options & 128),
    )


@target
def log(data: bytes) -> None:
    """Options, then the bytes of a file: a log, or one packed by gzip, xz or zstd."""
    if data:
        _read_as(data[0], data[1:])


log.mutate = mutated  # type: ignore[attr-defined]


def _log_of(data: bytes, head: bytes, *, packed_by: int = 0, further: bytes = b"") -> bytes:
    """A log of events given as type u8, length u16, body, after a head that a server could have written.

    Headers have some further bytes, if the head tells so.
    """
    out = bytearray(head)
    at = 0
    while at + 3 <= len(data):
        kind, length = struct.unpack_from("<BH", data, at)
        body = data[at + 3 : at + 3 + length]
        at += 3 + length
        if packed_by and kind == TRANSACTION_PAYLOAD:
            body = packed_payload(body)
        elif packed_by and kind in MARIADB_COMPRESSED:
            fixed = {165: 13, 166: 8, 167: 8, 168: 8}.get(kind, 10)
            body = body[:fixed] + packed_block(body[fixed:])
        body = (b"" if kind in FROZEN else further) + body
        end = len(out) + 19 + len(body)
        out += struct.pack("<IBIIIH", 1_700_000_000, kind, 1, 19 + len(body), end & 0xFFFFFFFF, 0) + body
    return bytes(out)


@target
def wire(data: bytes) -> None:
    """Options, vendor, then events; events that must be compressed are compressed here."""
    if len(data) > 2:
        _read_as(data[0] & 0xEF, _log_of(data[2:], HEADS[data[1] & 1], packed_by=data[1] >> 1 & 1))


@target
def header_lengths(data: bytes) -> None:
    """Options, further bytes of headers, then events as in `wire`: rows are the same for all headers."""
    if len(data) < 3 or data[1] > 236:
        return
    head = HEADS[data[0] & 1]
    further = bytes((data[0],)) * data[1]
    wide = bytearray(head)
    wide[HEADER_LENGTH_AT] += len(further)
    wide[-4:] = sum_of(bytes(wide[4:-4]))
    plain = _changes(_log_of(data[2:], head))
    assert _changes(_log_of(data[2:], bytes(wide), further=further)) == plain


@target
def fragments(data: bytes) -> None:
    """Least bytes of a fragment, then events: rows in fragments are the same, if all events are right."""
    if len(data) > 1:
        whole = _log_of(data[1:], HEADS[1])
        wanted = _changes(whole)
        cut = _in_fragments(whole, len(HEADS[1]), 1 + data[0])
        found = _changes(cut)
        assert found == wanted or wanted[-1].endswith("Error"), (found, wanted)
        with _small_fragments():  # rows are decoded in parts, and all before a damaged one are the same
            again = _changes(cut)
        assert again == found, (again, found)


@contextmanager
def _small_fragments() -> Iterator[None]:
    """Fragments of any size are decoded where they lie."""
    before = fragments_from(0), joining._LEAST_VIEW
    joining._LEAST_VIEW = 0
    try:
        yield
    finally:
        fragments_from(before[0])
        joining._LEAST_VIEW = before[1]


def _in_fragments(log: bytes, begin: int, least: int) -> bytes:
    """The log, its rows events from `begin` on cut into at most 20 fragments of `least` bytes or more."""
    out, at = bytearray(log[:begin]), begin
    while at + 19 <= len(log):
        event = log[at : at + int.from_bytes(log[at + 9 : at + 13], "little")]
        at += len(event)
        bodies = [event[19:]]
        if event[4] in MARIADB_ROWS:
            size = max(least, -(-len(event) // 20))
            parts = [event[k : k + size] for k in range(0, len(event), size)]
            bodies = [
                struct.pack("<IIB", len(parts), k, k == 1) + struct.pack("<Q", len(event)) * (k == 1) + part
                for k, part in enumerate(parts, start=1)
            ]
        for body in bodies:
            head = bytearray(event[:19])
            head[4] = FRAGMENT if event[4] in MARIADB_ROWS else event[4]
            struct.pack_into("<II", head, 9, 19 + len(body), len(out) + 19 + len(body))
            out += head + body
    return bytes(out)


def _changes(log: bytes) -> list[str]:
    """Changes, and how the log ends."""
    found = []
    try:
        with binlog_core.open(exact(log), limits=binlog_core.Limits(payload_bytes=1 << 20)) as opened:
            for change in opened.rows():
                found.append(repr((change.op, change.database, change.table, change.before, change.after)))
    except BinlogError as error:
        found.append(type(error).__name__)
    return found


@target
def ddl_log(data: bytes) -> None:
    """Like `wire`; definitions are followed through the statements in the log."""
    if len(data) > 2:
        _read(
            exact(_log_of(data[2:], HEADS[data[1] & 1])),
            2 + (data[0] & 1),
            schema="ddl",
            on_error="skip" if data[0] & 2 else "raise",
        )


@target
def splits(data: bytes) -> None:
    """Options, size of a split, then events. The splits of a whole log give its changes, each once."""
    if len(data) < 3:
        return
    log = _log_of(data[2:], HEADS[data[0] & 1])
    size = max(40 + 8 * data[1], len(log) // 6)
    skip = "skip" if data[0] & 2 else "raise"
    with tempfile.NamedTemporaryFile(dir=SHARED_MEMORY, suffix=".000001") as file:
        file.write(log)
        file.flush()
        whole: list[int] = []
        parts: list[int] = []
        error = None
        try:
            with binlog_core.open(file.name, limits=LIMITS, on_error=skip) as opened:
                whole = [place for group in opened.groups() for place in _places(group)]
                damaged = bool(opened.report.lost_ranges or opened.tail)
        except BinlogError as raised:
            error = raised
            damaged = True
        for start in range(0, len(log), size):
            part = Split(file.name, start, min(start + size, len(log)), 1, start // size)
            try:
                with read_split_groups(part, limits=LIMITS, on_error=skip) as reader:
                    parts += [place for group in reader for place in _places(group)]
                    # Rows that use a table map of another transaction, which no server writes.
                    damaged |= bool(reader.report.rows_without_table_map)
            except BinlogError as raised:
                error = raised
        if error is None and not damaged:
            assert sorted(whole) == sorted(parts), (whole, parts)


def _places(group: Any) -> list[int]:
    return [int(p) for batch in group.batches for p in batch.array["image"]["position"]]


@target
def encrypted(data: bytes) -> None:
    """Options, then the bytes of an encrypted log of MySQL or MariaDB, whose keys are known."""
    if data:
        keys = KEYRING if data[1:5] == b"\xfdbin" else KEY_FILE
        _read(
            io.BytesIO(data[1:]) if data[0] & 8 else exact(data[1:]),
            data[0] & 7,
            keys=keys,
            verify_checksum=bool(data[0] & 16),
            on_error="skip" if data[0] & 32 else "raise",
        )


PAGE = page_lies.PAGE
innodb_pages._TORN_WAIT = 0  # nobody writes the pages: a second look at a wrong one need not wait


@contextmanager
def _small_pieces() -> Iterator[None]:
    """Logs are read by hundreds of bytes; events cross the ends of what the loop takes by itself."""
    before = track._HEAD_LEN, track._PIECE_LEN, track._BLOCK_LEN
    at_once = feed_at_once(100)
    # The log is not all read as its head.
    track._HEAD_LEN, track._PIECE_LEN, track._BLOCK_LEN = 300, 300, 2000
    try:
        yield
    finally:
        track._HEAD_LEN, track._PIECE_LEN, track._BLOCK_LEN = before
        feed_at_once(at_once)


@target
def innodb_binlog(data: bytes) -> None:
    """Options, pages of the first of two files, then pages: checksums are made anew, or left as they are."""
    if len(data) < 3:
        return
    pages = [data[at : at + PAGE] for at in range(2, len(data), PAGE)]
    if not data[0] & 64:
        pages = [page[:-4] + crc32c(page[:-4]).to_bytes(4, "little") if any(page) else page for page in pages]
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as name:
        for number, part in enumerate((pages[: data[1]], pages[data[1] :])):
            if part:
                (Path(name) / f"binlog-{number:06}.ibb").write_bytes(b"".join(part))
        with _small_pieces() if data[0] & 128 else nullcontext():
            _read(
                name,
                data[0] & 7,
                mmap=bool(data[0] & 8),
                verify_checksum=bool(data[0] & 16),
                on_error="skip" if data[0] & 32 else "raise",
            )


innodb_binlog.mutate = page_lies.mutated  # type: ignore[attr-defined]


@target
def compressed_columns(data: bytes) -> None:
    """Number of values u8, then spans of offset u8, length u8; then the bytes that they refer to."""
    if not data:
        return
    count = min(data[0] % 16, (len(data) - 1) // 4)
    array = np.zeros(count, PACKED)
    heap = data[1 + 4 * count :]
    for k, name in enumerate("ab"):
        array["row"][name]["offset"] = list(data[1 + 2 * k : 1 + 4 * count : 4])
        array["row"][name]["length"] = list(data[2 + 2 * k : 1 + 4 * count : 4])
    failed = {} if data[0] & 16 else None
    buffer = inflate_columns(array, PACKED_COLUMNS, exact(heap), limit=1 << 16, failed=failed)
    size = len(memoryview(buffer).cast("B"))
    assert size <= len(heap) + (1 << 16)
    for name in "ab":
        spans = array["row"][name]
        assert (spans["offset"] + spans["length"] <= size).all()


@target
def statements(data: bytes) -> None:
    """SQL mode u8, dialect u8, then statements: tokens, and the definitions that they lead to."""
    if len(data) < 2:
        return
    sql = data[2:].decode("utf-8", "replace")
    mode = (data[0] & 1) << 2 | (data[0] & 2) << 19  # ANSI_QUOTES, NO_BACKSLASH_ESCAPES
    for tokens in tokenize_statements(sql, mode):
        list(tokens)
    tracker = DdlTracker()
    mariadb = bool(data[1] & 1)
    tracker.apply_statement("d", "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9), c ENUM('x'))", mariadb)
    tracker.apply_statement("d", sql, mariadb, sql_mode=mode)
    for definition in tracker:
        repr(definition)


@target
def event(data: bytes) -> None:
    """Type, then the body of an event."""
    if data:
        header = EventHeader(4, 0, data[0], 1, 19 + len(data) - 1, 0, 0)
        for description in FORMATS:
            try:
                repr(parse_event(header, exact(data[1:]), description))
            except BinlogError:
                pass


@target
def table_map(data: bytes) -> None:
    """The body after the flags; a plan writes inside its record only."""
    for mariadb in (False, True):
        try:
            shape, names = TableMaps().shape_of(data, flags=0, mariadb=mariadb)
            table = shape.table_of(names)
        except BinlogError:
            continue
        plan = plan_of(table)
        if not plan.raw:
            end = plan.image_len
            ops = np.frombuffer(plan.ops, OP)
            for op in ops[ops["out_width"] > 0]:
                assert int(op["out"]) >= end
                end = int(op["out"]) + int(op["out_width"])
            assert end <= plan.dtype.itemsize
        plan_of(table, [c.name for c in table.columns[::2]])


@target
def json_diffs(data: bytes) -> None:
    """Length u16 of a document, the document, then diffs."""
    if len(data) < 2:
        return
    (length,) = struct.unpack_from("<H", data)
    document, diffs = data[2 : 2 + length], data[2 + length :]
    for call in (lambda: jsonb_to_text(exact(document)), lambda: parse_json_diffs(exact(diffs))):
        try:
            call()
        except BinlogError:
            pass
    apply_json_diffs(exact(document), exact(diffs)).decode("utf-8")


@target
def packed(data: bytes) -> None:
    """A compressed transaction's body, or with an odd first byte a block as MariaDB packs it."""
    if data and data[0] & 1:
        inflate_block(exact(data[1:]), limit=1 << 20)
    else:
        size = sum(len(chunk) for chunk in payload_chunks(exact(data[1:]), limit=1 << 20))
        assert size <= 1 << 20


def _sent(data: bytes) -> bytes:
    """What a server sends, after options and a size: unchanged, or payloads after lengths u8."""
    sent = data[2:]
    if data[0] & 1:
        out, number = bytearray(), 1
        while sent:
            payload, sent = sent[1 : 1 + sent[0]], sent[1 + sent[0] :]
            out += len(payload).to_bytes(3, "little") + bytes([number & 255]) + payload
            number += 1
        sent = bytes(out)
    return sent


@target
def packets(data: bytes) -> None:
    """Options, a size and what a server sends on a dump."""
    if len(data) < 2:
        return
    sent = _sent(data)
    semi_sync = bool(data[0] & 2)
    # The events are the same however the bytes are divided.
    assert _stripped(sent, len(sent), semi_sync) == _stripped(sent, data[1] or 1, semi_sync)


@target
def result_sets(data: bytes) -> None:
    """Options, a size and what a server answers to a query."""
    if len(data) < 2:
        return
    sent = _sent(data)
    assert _taken(sent, len(sent)) == _taken(sent, data[1] or 1)


def _taken(sent: bytes, size: int) -> tuple[Any, ...]:
    rows, buffer, status = _result_set.ResultRows(), exact(sent), _result_set.MORE
    for end in range(size, len(sent) + size, size) if size else ():
        status = rows.take(buffer, min(end, len(sent)))
        if status != _result_set.MORE:
            break
    found = []
    for number in range(min(rows.columns, 4)):
        for format in range(_result_set.BYTES, _result_set.TIME + 1):
            try:
                found.append([str(one) for one in rows.column(buffer, number, format, precision=9, scale=2)])
            except ValueError as error:
                found.append([str(error)])
    return status, rows.rows, rows.unread, found


def _stripped(sent: bytes, size: int, semi_sync: bool) -> tuple[bytes, int, int]:
    found = _packets.Packets(1 << 16, semi_sync=semi_sync)
    found.go_to(4)
    buffer, events, at, status = bytearray(len(sent) + 1), bytearray(), 0, _packets.MORE
    while True:
        if status == _packets.MORE:
            part = sent[at : at + size]
            if not part:
                return bytes(events), status, found.position
            buffer[found.fill : found.fill + len(part)] = part
            found.fill += len(part)
            at += len(part)
        elif status == _packets.SPECIAL:
            found.drop()
        elif status == _packets.HOLE:
            found.accept(buffer, found.gap)
        else:
            return bytes(events + buffer[: found.whole]), status, found.position
        status = found.strip(buffer)
        assert found.whole <= found.written <= found.unread <= found.fill <= len(buffer)
        if status == _packets.MORE:
            events += buffer[: found.whole]
            found.take_gtids()
            found.compact(buffer, buffer)


@target
def gtid_sets(data: bytes) -> None:
    """Encoded sets, and sets as text; read back from their text, they are the same."""
    if not data:
        return
    if data[0] & 1:
        found = gtids.GtidSet.from_bytes(data[1:])
    else:
        text = data[1:].decode("utf-8", "replace")
        found = gtids.parse_gtid_set(text)
    assert type(found).parse(str(found)) == found


@target
def create_table(data: bytes) -> None:
    """The text of a CREATE TABLE statement."""
    parse_create_table(data.decode("utf-8", "replace"), "test")


@target
def gtid_texts(data: bytes) -> None:
    """The text of one GTID; read back from its text, it is the same."""
    found = gtids.parse_gtid(data.decode("utf-8", "replace"))
    assert type(found).parse(str(found)) == found


@target
def positions(data: bytes) -> None:
    """The JSON text of a position; read back from its text, it is the same."""
    try:
        found = binlog_core.Position.parse(data.decode("utf-8", "replace"))
    except ValueError:
        return
    assert binlog_core.Position.parse(str(found)) == found


@target
def conditions(data: bytes) -> None:
    """A condition's text. If the log has its columns, the loop and NumPy find the same changes."""
    condition = binlog_core.Condition(data.decode("utf-8", "replace"))
    quick = _found(condition)
    compile_ = compiled_conditions.compile_condition
    compiled_conditions.compile_condition = lambda *_: None
    try:
        assert _found(condition) == quick
    finally:
        compiled_conditions.compile_condition = compile_


ASKED = exact((DATA / "mysql97" / "types_ints.binlog").read_bytes())


def _found(condition: binlog_core.Condition) -> list[tuple[int, str]] | str:
    try:
        with binlog_core.open(ASKED, where=condition, limits=LIMITS) as log:
            return [(change.position, repr(change)) for change in log.rows()]
    except BinlogError as error:
        return str(error)


@target
def index_files(data: bytes) -> None:
    """The text of an index file; the folder has one log. Only files in the folder may be opened."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as name:
        folder = Path(name)
        (folder / "bin.000001").write_bytes(HEADS[0])
        index = folder / "bin.index"
        index.write_bytes(data)
        with binlog_core.open(index) as log:
            assert all(Path(file.path).parent == folder for file in log.files)
            assert not list(log.rows())


@cache
def _indexed() -> tuple[Path, bytes, list[str]]:
    """The folder of a log with an index, the index, and what is found in the log without it."""
    folder = Path(tempfile.mkdtemp(dir=SHARED_MEMORY))
    atexit.register(shutil.rmtree, folder)
    (folder / "bin.000001").write_bytes(ASKED)
    wanted = _by_index(folder)
    build_index(folder)
    return folder, (folder / files.NAME).read_bytes(), wanted


def _by_index(folder: Path) -> list[str]:
    with binlog_core.open(folder, where="id between 3 and 5") as log:
        return [repr(change) for change in log.rows()]


@target
def log_indexes(data: bytes) -> None:
    """Whether checksums are corrected, then changed bytes of an index, as offset u16 and a byte.

    A damaged index gives the same result as no index; a forged one raises only our own errors.
    """
    folder, index, wanted = _indexed()
    changed = bytearray(index)
    for offset, byte in struct.iter_unpack("<HB", data[1 : 1 + (len(data) - 1) // 3 * 3]):
        changed[offset % len(index)] ^= byte
    if data and data[0] & 1:
        changed = _resealed(changed)
    (folder / files.NAME).write_bytes(changed)
    found = _by_index(folder)
    assert found == wanted or (data and data[0] & 1), (found, wanted)


def _resealed(index: bytearray) -> bytearray:
    """The index with valid checksums, if it has places to put them into."""
    end = len(index) - files._END.size
    length, count, _, mark = files._END.unpack_from(index, end)
    begin = end - length - count * len(files.COLUMNS) * files._CHUNK.itemsize
    if begin < 0:
        return index
    for chunk in np.frombuffer(index, files._CHUNK, count * len(files.COLUMNS), begin):
        first, size, _ = chunk.tolist()
        chunk["sum"] = zlib.crc32(index[first : first + size])
    sum_ = zlib.crc32(index[begin:end])
    return index[:end] + files._END.pack(length, count, sum_, mark)


@target
def timelines(data: bytes) -> None:
    """The timeline file of an archive; written and read again, it is the same."""
    found = ArchiveTimeline.parse(data, "timeline.json")
    assert ArchiveTimeline.parse(found.to_bytes(), "timeline.json") == found


@target
def manifests(data: bytes) -> None:
    """The manifest of an export, as JSON: it is refused, or its outputs have separate folders."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return
    check_manifest(found, "out")
