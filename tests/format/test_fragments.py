"""Rows events in fragments: joined in every way of reading, and refused where they do not make one event."""

from __future__ import annotations

import io
import random
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from reference import read_log
from support.golden import Golden, golden_logs
from support.guarded import exact
from support.logs import all_rows
from support.splits import cut, read_all
from support.writer import Log, Table
from support.writer.fragments import FRAGMENT, ROWS, event_of, events_in, fragments_of, in_fragments

import binlog_core
from binlog_core._core._rows import columns_from, fragments_from
from binlog_core._decode import other_events
from binlog_core._format import fragments
from binlog_core._format.fragments import Fragments

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "TEXT")])


@contextmanager
def in_place() -> Iterator[None]:
    """Fragments of any size are decoded where they lie, as those of 64 KiB and more are."""
    least, fragments._LEAST_VIEW = fragments._LEAST_VIEW, 0
    before = fragments_from(0)
    try:
        yield
    finally:
        fragments_from(before)
        fragments._LEAST_VIEW = least


@pytest.fixture(params=["joined", "in place"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways in which a mapped log's fragments are decoded."""
    if request.param == "joined":
        yield request.param
        return
    with in_place():
        yield request.param


def readable(golden: Golden) -> bool:
    whole = sum(map(len, events_in(golden.data))) == len(golden.data) - 4
    encrypted = any(event[4] == 164 for event in events_in(golden.data))
    return whole and not encrypted and "old_hires" not in golden.name  # whose values need schema=


LOGS = [
    log
    for log in (*golden_logs("maria1011/*"), *golden_logs("maria118/*"))
    if readable(log) and any(event[4] in ROWS for event in events_in(log.data))
]


def values(changes: list[Any]) -> list[Any]:
    return [(c.op, c.database, c.table, c.before, c.after, c.timestamp, c.gtid) for c in changes]


def log_of(rows: list[dict[str, Any]], **options: Any) -> bytes:
    log = Log("12.3.1-MariaDB-log", **options)
    log.begin()
    log.insert(TABLE, rows[:-1])
    log.insert(TABLE, rows[-1:])
    log.commit()
    log.insert(TABLE, [{"id": 99, "note": "after"}])
    return log.getvalue()


def noted(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "note": f"note {i} " * (i % 7)} for i in range(count)]


@pytest.mark.parametrize("golden", LOGS, ids=str)
def test_golden_logs_in_fragments(golden: Golden) -> None:
    """The rows that the servers' own logs have, whatever the pieces, through every way of reading."""
    pick = random.Random(golden.name)
    whole = golden.data
    checksum = read_sums(whole)
    data = in_fragments(
        whole, seed=pick.randrange(1 << 30), most=pick.choice([1, 2, 5, 40]), checksum=checksum
    )
    expected = values(all_rows(whole))
    assert values(all_rows(data)) == expected
    assert values(all_rows(io.BytesIO(data))) == expected
    assert values(all_rows(data, threads=2)) == expected
    assert values(all_rows(data, on_error="skip")) == expected
    with in_place():
        assert values(all_rows(exact(data))) == expected
        assert values(all_rows(data, threads=2)) == expected
    assert [(c.op, c.before, c.after) for c in read_log(data).changes] == [
        (c.op, c.before, c.after) for c in read_log(whole).changes
    ]


def read_sums(data: bytes) -> bool:
    with binlog_core.open(data) as log:
        return log.format.checksum == "crc32"


def test_the_logs_have_fragments() -> None:
    """No empty comparison: pieces of all kinds of rows events came up, compressed ones too."""
    kinds = set()
    for golden in LOGS:
        data = in_fragments(golden.data, seed=3, checksum=read_sums(golden.data))
        with binlog_core.open(data) as log:
            kinds |= {event.type_code for event in log.events() if event.type_code in ROWS}
            assert (log.headers()["type_code"] == FRAGMENT).any()
    assert {23, 24, 25, 166, 167, 168} <= kinds


@pytest.mark.parametrize("into_columns", [1, 1 << 30])
def test_arrow_conditions_and_groups(into_columns: int, way: str) -> None:
    """Many rows an event, several groups an event, conditions, Arrow both ways."""
    log = Log("12.3.1-MariaDB-log")
    rows = noted(3000)
    log.begin()
    log.insert(TABLE, rows[:2000])
    log.insert(TABLE, rows[2000:])
    log.commit()
    data = in_fragments(log.getvalue(), seed=1, most=9)
    before = columns_from(into_columns)
    try:
        with binlog_core.open(data, limits=binlog_core.Limits(group_rows=700)) as opened:
            assert [c.after for c in opened.rows()] == rows
            assert opened.batches("shop.orders").to_arrow().column("id").to_pylist() == list(range(3000))
            assert [c.after for c in opened.rows(where="id = 2345")] == [rows[2345]]
    finally:
        columns_from(before)


@pytest.mark.parametrize("into_columns", [1, 1 << 30])
def test_batches_keep_large_events(into_columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined events are not copied a second time; rows before, between and after them are as before."""
    monkeypatch.setattr(other_events, "_KEPT_LEN", 4000)
    log = Log("12.3.1-MariaDB-log")
    rows, few = noted(600), noted(9)
    log.begin()
    for some in (few, rows[:250], few, rows[250:], few):
        log.insert(TABLE, some)
    log.commit()
    log.insert(TABLE, few)
    expected = [*few, *rows[:250], *few, *rows[250:], *few, *few]
    before = columns_from(into_columns)
    try:
        for seed in range(4):
            data = in_fragments(log.getvalue(), seed=seed, most=9)
            for limit in (7, 300, 65536):
                with binlog_core.open(exact(data), limits=binlog_core.Limits(group_rows=limit)) as opened:
                    batches = list(opened.batches())
                    found = [row for batch in batches for row in batch.to_pylist()]
                    assert [{"id": row["id"], "note": row["note"]} for row in found] == expected
                    tables = [batch.to_arrow() for batch in opened.batches()]
                    assert [i for one in tables for i in one.column("id").to_pylist()] == [
                        row["id"] for row in expected
                    ]
            assert [c.after for c in all_rows(io.BytesIO(data))] == expected
            assert [c.after for c in all_rows(exact(data), threads=2)] == expected
            assert [c.after for c in all_rows(exact(data), where="id = 333")] == [rows[333]]
            buffers = [bytes(batch.buffer) for batch in batches]
            kept = [
                one for one in buffers if one[4] in ROWS and struct.unpack_from("<I", one, 9)[0] == len(one)
            ]
            assert kept and all(len(one) >= 4000 for one in kept)
    finally:
        columns_from(before)


def test_positions_and_row_numbers(way: str) -> None:
    """A row's position is that of its event's first fragment; rows of an event are numbered through."""
    data = in_fragments(log_of(noted(40)), seed=5, most=6)
    with binlog_core.open(data) as log:
        firsts, series = [], 0
        for event in log.events():
            if event.type_code == FRAGMENT and event.seq_no == 1:
                firsts.append(event.position)
            elif event.type_code in ROWS:
                series += 1
                assert event.position in firsts or event.event_length < 100
        assert series == 3
        at = {(int(b.array["image"]["position"][0])) for b in log.batches()}
        assert {change.position for change in log.rows()} >= at and at & set(firsts)
        numbers = [int(n) for b in log.batches() for n in b.array["image"]["row"]]
    assert numbers == [*range(39), 0, 0]


def test_splits(tmp_path: Path, way: str) -> None:
    """Every plan of splits gives each row once."""
    log = Log("12.3.1-MariaDB-log")
    for i in range(60):
        log.begin()
        log.insert(TABLE, noted(1 + i % 9))
        log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(in_fragments(log.getvalue(), seed=2, most=5))
    expected = [c.after["note"] for c in all_rows(path)]
    for size in (100, 777, 5000):
        rows, _ = read_all(cut(path, size))
        assert [row.after["note"] for row in rows] == expected


def test_events_have_pieces_and_the_whole() -> None:
    data = in_fragments(log_of(noted(40)), seed=5, most=6)
    plain = log_of(noted(40))
    with binlog_core.open(data) as log, binlog_core.open(plain) as whole:
        rows = [e.rows for e in log.events() if e.type_code in ROWS]
        assert rows == [e.rows for e in whole.events() if e.type_code in ROWS]
        assert [e.rows for e in log.events(types=sorted(ROWS))] == rows
        assert {e.type_code for e in log.events(types=sorted(ROWS))} == {23}


@pytest.mark.parametrize("seed", range(20))
def test_pieces_that_last_are_joined_in_their_order(seed: int) -> None:
    """Small ones are copied as they come, large ones at the end."""
    pick = random.Random(seed)
    (event,) = (e for e in events_in(log_of(noted(3000)[-2000:])) if e[4] in ROWS and len(e) > 9000)
    size = len(event) - 4
    cuts = sorted({pick.randrange(1, size) for _ in range(pick.choice([1, 4, 40]))})
    joined = Fragments(1 << 30, "log")
    *before, last = fragments_of(event, True, cuts)
    assert [joined.add(body, 4, lasts=True) for body in before] == [None] * len(before)
    whole = joined.add(last, 4, lasts=True)
    assert whole is not None and whole[13:] == event[13:-4] and joined.begin is None


WIDE = Table(
    "shop",
    "wide",
    [
        ("id", "INT"),
        *((f"c{i}", "VARCHAR(300)") for i in range(90)),
        ("price", "DECIMAL(10,2)"),
        ("note", "TEXT"),
    ],
)


def wide_rows(pick: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows with a bitmap of 12 bytes, from empty to longer than many fragments."""
    rows = []
    for i in range(count):
        row: dict[str, Any] = {"id": i, "price": None if i % 3 else Decimal(i) / 4, "note": None}
        for k in range(90):
            row[f"c{k}"] = (
                None if pick.random() < pick.choice((0.1, 0.99)) else "x" * pick.choice((0, 1, 3, 200))
            )
        if i % 5 == 0:
            row["note"] = "long " * pick.choice((1, 100, 2000))
        rows.append(row)
    return rows


@pytest.mark.parametrize("op", ["insert", "update", "delete"])
@pytest.mark.parametrize("seed", range(6))
def test_rows_over_the_ends_of_fragments(seed: int, op: str) -> None:
    """Bitmaps, lengths and values over an end, rows over many; one batch each for what is put together."""
    pick = random.Random(f"{seed} {op}")
    rows = wide_rows(pick, 60)
    log = Log("12.3.1-MariaDB-log")
    log.begin()
    if op == "update":
        log.update(WIDE, list(zip(rows, rows[::-1], strict=True)))
    else:
        getattr(log, op)(WIDE, rows)
    log.insert(WIDE, rows[:2])
    log.commit()
    whole = log.getvalue()
    data = in_fragments(whole, seed=seed, most=pick.choice((2, 9, 300)))
    expected = values(all_rows(whole))
    assert len(expected) == 62
    for limit in (3, 65536):
        limits = binlog_core.Limits(group_rows=limit)
        with in_place():
            assert values(all_rows(exact(data), limits=limits)) == expected
            with binlog_core.open(exact(data), limits=limits) as opened:
                ids = [row["id"] for batch in opened.batches() for row in batch.to_pylist()]
            assert ids == [
                row["id"] for batch in binlog_core.open(whole).batches() for row in batch.to_pylist()
            ]
            found = values(all_rows(exact(data), where="id = 7"))
            assert found == values(all_rows(whole, where="id = 7"))


def test_large_fragments_are_decoded_in_place() -> None:
    """Batches keep the log's own bytes, but for the rows over an end."""
    log = Log("12.3.1-MariaDB-log")
    rows = [{"id": i, "note": f"note {i} " * 20} for i in range(3000)]
    log.begin()
    log.insert(TABLE, rows)
    log.commit()
    whole = log.getvalue()
    (event,) = (e for e in events_in(whole) if e[4] in ROWS)
    size = len(event) - 4
    data = b"\xfebin"
    for one in events_in(whole):
        head = struct.unpack_from("<IBIIIH", one)
        bodies = (
            fragments_of(one, True, list(range(1 << 17, size, 1 << 17))) if one == event else [one[19:-4]]
        )
        for body in bodies:
            code = FRAGMENT if one == event else head[1]
            data += one if head[1] == 15 else event_of((head[0], code, *head[2:]), body, len(data), True)
    with binlog_core.open(data) as opened:
        batches = list(opened.batches())
    assert [row["note"] for batch in batches for row in batch.to_pylist()] == [row["note"] for row in rows]
    own = [batch for batch in batches if len(bytes(batch.buffer)) == len(data)]
    assert len(own) == len(range(0, size, 1 << 17)) and sum(map(len, own)) > 2900
    with (
        binlog_core.open(data, limits=binlog_core.Limits(record_bytes=1 << 14)) as opened,
        pytest.raises(binlog_core.DecodeError),
    ):
        list(opened.batches())


@pytest.mark.parametrize("size", [0, 1, 3000])
def test_memory_of_tiny_fragments(size: int) -> None:
    """A series takes its bytes, however many fragments it has: the limit is for bytes."""
    bodies = [memoryview(struct.pack("<IIB", 5000, i, 0) + bytes(size)) for i in range(1, 5000)]
    joined = Fragments(1 << 30, "log")
    tracemalloc.start()
    try:
        for body in bodies:
            joined.add(body, 4, lasts=True)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1.2 * 5000 * size + 20_000


# ------------------------------------------------------------ series that cannot be joined


def series(change: Callable[[list[bytes]], list[bytes]], *, cuts: int = 3) -> tuple[bytes, int, int]:
    """A log of three rows events, the middle one in fragments that were changed; where it begins and ends."""
    out = bytearray(b"\xfebin")
    seen = begin = end = 0
    for event in events_in(log_of(noted(40))):
        head = struct.unpack_from("<IBIIIH", event)
        if head[1] in ROWS:
            seen += 1
        if head[1] in ROWS and seen == 1:
            begin = len(out)
            size = len(event) - 4
            for piece in change(fragments_of(event, True, [size * i // cuts for i in range(1, cuts)])):
                out += event_of((head[0], FRAGMENT, *head[2:]), piece, len(out), True)
            end = len(out)
        else:
            out += event if head[1] == 15 else event_of(head, event[19:-4], len(out), True)
    return bytes(out), begin, end


def numbered(piece: bytes, *, total: int | None = None, number: int | None = None) -> bytes:
    old_total, old_number = struct.unpack_from("<II", piece)
    return struct.pack("<II", total or old_total, old_number if number is None else number) + piece[8:]


BROKEN = {
    "the second is missing": lambda p: [p[0], p[2]],
    "the first is missing": lambda p: p[1:],
    "the last is missing": lambda p: p[:2],
    "only the first": lambda p: p[:1],
    "another total": lambda p: [p[0], numbered(p[1], total=4), p[2]],
    "total 0": lambda p: [numbered(p[0], total=2**32 - 1, number=1)],
    "twice": lambda p: [p[0], p[1], p[1], p[2]],
    "begins again": lambda p: [p[0], p[0], p[1], p[2]],
    "number 0": lambda p: [numbered(p[0], number=0), p[1], p[2]],
    "another size": lambda p: [p[0][:9] + struct.pack("<Q", 2**63) + p[0][17:], p[1], p[2]],
    "one byte too few": lambda p: [p[0], p[1], p[2][:-1]],
    "one byte too many": lambda p: [p[0], p[1], p[2] + b"x"],
    "no header at all": lambda p: [b"\1\0\0\0\1\0\0\0\0"],
    "shorter than its fields": lambda p: [p[0], b"\3\0\0\0", p[2]],
    "size cut off": lambda p: [p[0][:12]],
    "not a rows event": lambda p: [p[0][:21] + b"\x02" + p[0][22:], p[1], p[2]],
    "fragments in fragments": lambda p: [p[0][:21] + b"\xac" + p[0][22:], p[1], p[2]],
    "a payload in fragments": lambda p: [p[0][:21] + b"\x28" + p[0][22:], p[1], p[2]],
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_series_is_an_error(name: str, threads: int, way: str) -> None:
    data, begin, end = series(BROKEN[name])
    for target in (data, exact(data)):
        with (
            binlog_core.open(target, threads=threads) as log,
            pytest.raises(binlog_core.DecodeError) as caught,
        ):
            list(log.rows())
        assert begin <= caught.value.offset < end
        assert caught.value.type_code == FRAGMENT


@pytest.mark.parametrize("name", BROKEN)
def test_broken_series_is_skipped_and_counted(name: str, way: str) -> None:
    """All other rows are delivered, in rows and events, and the report has the lost bytes."""
    data, begin, _ = series(BROKEN[name])
    with binlog_core.open(data, on_error="skip") as log:
        assert [c.after["id"] for c in log.rows()] == [39, 99]
        assert log.report.skipped_events >= 1
        assert log.report.lost_ranges[0][1] >= begin
    with binlog_core.open(data, on_error="skip") as log:
        assert sum(e.type_code in ROWS for e in log.events()) == 2
        assert log.report.skipped_events >= 1


def test_the_claimed_size_allocates_nothing(way: str) -> None:
    """A size of many gigabytes is refused at the first fragment; the limit holds for what comes, too."""
    data, begin, _ = series(BROKEN["another size"])
    with (
        binlog_core.open(data) as log,
        pytest.raises(binlog_core.DecodeError, match=r"Limits\.event_bytes") as caught,
    ):
        list(log.rows())
    assert caught.value.offset == begin
    good, _, _ = series(lambda p: [piece[:8] + b"\0" + piece[17:] if piece[8] else piece for piece in p])
    assert [c.after["id"] for c in all_rows(good)] == [*range(40), 99]
    small = binlog_core.Limits(event_bytes=300)
    with pytest.raises(binlog_core.DecodeError, match=r"Limits\.event_bytes"):
        all_rows(good, limits=small)


def test_cut_at_every_byte(way: str) -> None:
    """A cut leaves whole rows events and a tail, also between two fragments."""
    data, begin, end = series(lambda p: p)
    sizes = set()
    for length in range(begin, end + 1):
        with binlog_core.open(exact(data[:length])) as log:
            assert len(list(log.rows())) == (39 if length == end else 0)
            if begin < length < end:
                assert log.tail is not None and log.tail.offset >= begin
                sizes.add(log.tail.offset)
            list(log.events())
            assert (log.tail is None) == (length in (begin, end))
    assert begin in sizes


def test_bytes_set_to_extremes(way: str) -> None:
    """Each byte of the fragments damaged, without checksums: an error or rows, never a crash."""
    data, begin, end = series(lambda p: p)
    with pytest.raises(binlog_core.ChecksumError):
        all_rows(data[:begin] + bytes((data[begin] ^ 255,)) + data[begin + 1 :])
    for at in range(begin, end):
        for value in (0, 255):
            broken = exact(data[:at] + bytes((value,)) + data[at + 1 :])
            for skip in ("raise", "skip"):
                try:
                    all_rows(broken, verify_checksum=False, on_error=skip)
                except binlog_core.BinlogError:
                    assert skip == "raise"


def test_reading_that_begins_inside_the_transaction(way: str) -> None:
    """As for rows whose table map was not read: counted, and the next transaction is whole."""
    data, begin, _ = series(lambda p: p)
    second = [e.position for e in binlog_core.open(data).events() if e.type_code == FRAGMENT][1]
    for start in (begin, second):
        with binlog_core.open(data, start=start) as log:
            assert [c.after["id"] for c in log.rows()] == [39, 99]
            assert log.report.rows_without_table_map >= 1


@pytest.mark.parametrize("beyond", [0, 100])
@pytest.mark.parametrize("per_piece", [1, 7, 25])
def test_the_limit_of_records_is_that_of_a_whole_event(per_piece: int, beyond: int) -> None:
    """Whatever part a row is in, and with on_error="skip" none of the rows comes, as from a whole event."""
    log = Log("12.3.1-MariaDB-log")
    rows = [{"id": i, "note": "n" * 1500} for i in range(60)]  # longer than what is joined beyond an end
    log.begin()
    log.insert(TABLE, rows)
    log.commit()
    log.insert(TABLE, [{"id": 99, "note": "after"}])
    whole = log.getvalue()
    data = bytearray(whole[:4])
    row_len = 1 + 4 + 2 + 1500
    for event in events_in(whole):
        head = struct.unpack_from("<IBIIIH", event)
        if event[4] not in ROWS or len(event) < 60 * row_len:
            data += event_of(head, event[19:-4], len(data), True) if event[4] != 15 else event
            continue
        before = len(event) - 4 - 60 * row_len
        ends = [before + n * row_len + beyond for n in range(per_piece, 60, per_piece)]  # of rows, or behind
        for body in fragments_of(event, True, ends):
            data += event_of((head[0], FRAGMENT, *head[2:]), body, len(data), True)
    with binlog_core.open(whole) as opened:
        record_len = next(opened.batches()).array.itemsize
    for most in (1, 20, 58, 59, 60):
        limits = binlog_core.Limits(record_bytes=most * record_len - 1)
        with in_place():
            for one in (whole, bytes(data)):
                if most == 60:
                    assert len(all_rows(one, limits=limits)) == 61
                    continue
                with pytest.raises(binlog_core.DecodeError, match=r"Limits\.record_bytes"):
                    all_rows(one, limits=limits)
                with binlog_core.open(one, limits=limits, on_error="skip") as opened:
                    assert [change.after["id"] for change in opened.rows()] == [99]
                    assert opened.report.skipped_events == 1


@pytest.mark.parametrize("kind", ["insert", "update"])
@pytest.mark.parametrize("seed", range(4))
def test_columns_that_are_asked_for_while_an_event_is_read(seed: int, kind: str) -> None:
    """An event's later parts are read in another group, whose batches may become columns directly."""
    pick = random.Random(seed)
    log = Log("12.3.1-MariaDB-log")
    notes = [f"{i} {'n' * pick.randrange(200)}" for i in range(80)]
    rows = [{"id": i, "note": note} for i, note in enumerate(notes)]
    log.begin()
    for begin, end in ((0, 5), (5, 70), (70, 80)):
        if kind == "insert":
            log.insert(TABLE, rows[begin:end])
        else:
            log.update(TABLE, [({"id": -1, "note": "before"}, row) for row in rows[begin:end]])
    log.commit()
    data = in_fragments(log.getvalue(), seed=seed, most=pick.choice([4, 20]))
    before = columns_from(1)
    try:
        with in_place():
            for group_rows in (1, pick.randrange(2, 12), 30, 1000):
                limits = binlog_core.Limits(group_rows=group_rows)
                with binlog_core.open(exact(data), limits=limits) as opened:
                    tables = [batch.to_arrow() for batch in opened.batches()]
                found = [row for one in tables for row in one.to_pylist()]
                after = [(row["id"], row["note"]) for row in found if row["id"] >= 0]
                assert after == list(enumerate(notes))
    finally:
        columns_from(before)
