"""MariaDB's .ibb files, written by a second hand, have the rows of the logs that they were made of."""

from __future__ import annotations

import gc
import gzip
import lzma
import os
import random
import struct
import threading
import tracemalloc
from contextlib import nullcontext
from mmap import ACCESS_READ
from mmap import mmap as Mapping
from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.innodb_logs import fed, made_of, one_file
from support.logs import all_rows
from support.writer import innodb_binlog as ibb
from support.writer.fragments import events_in

import binlog_core
from binlog_core._core._crc32 import crc32c
from binlog_core._core._innodb_binlog import (
    BYTES,
    DONE,
    ELSEWHERE,
    FIELDS,
    FULL,
    WRONG,
    Feed,
    Pages,
    TreeWalk,
)
from binlog_core._sources import innodb_pages
from binlog_core._sources.innodb_binlog import InnodbBinlogSource
from binlog_core._sources.sources import BufferSource, open_local

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


def values(changes: list[Any]) -> list[Any]:
    return [(c.op, c.database, c.table, c.before, c.after, c.timestamp, c.gtid) for c in changes]


def usable(golden: Golden) -> bool:
    events = list(events_in(golden.data))
    kinds = {event[4] for event in events}
    whole = sum(map(len, events)) == len(golden.data) - 4
    return whole and 164 not in kinds and 162 in kinds and "old_hires" not in golden.name


LOGS = [log for log in (*golden_logs("maria1011/*"), *golden_logs("maria118/*")) if usable(log)]


def transactions(golden: Golden) -> list[bytes]:
    with binlog_core.open(golden.data) as log:
        checksum = log.format.checksum == "crc32"
    return ibb.transactions_of(ibb.without_checksums(golden.data) if checksum else golden.data)


@pytest.mark.parametrize("golden", LOGS, ids=str)
def test_golden_logs(golden: Golden, tmp_path: Path) -> None:
    files = ibb.engine_files(transactions(golden), seed=random.Random(golden.name).randrange(1 << 30))
    paths = ibb.write_files(tmp_path, files)
    expected = values(all_rows(golden.data))
    assert values(all_rows(tmp_path)) == expected
    assert values(all_rows([str(path) for path in paths])) == expected
    assert values(all_rows(str(tmp_path / "*.ibb"), mmap=False, threads=2)) == expected
    assert [row for path in paths for row in values(all_rows(path))] == expected
    with binlog_core.open(golden.data) as log:
        wanted = [e.type_code for e in log.events() if e.type_code in range(23, 33)]
    with binlog_core.open(tmp_path) as log:
        assert [e.type_code for e in log.events() if e.type_code in range(23, 33)] == wanted


@pytest.mark.parametrize("seed", range(40))
def test_random_shapes(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of up to some hundred records, several files, transactions side by side; few pages at once."""
    pick = random.Random(seed)
    rows = [
        [
            {"id": pick.randrange(1000), "note": "n" * pick.randrange(300)}
            for _ in range(pick.choice([1, 3, 60]))
        ]
        for _ in range(pick.randint(1, 30))
    ]
    ibb.write_files(tmp_path, ibb.engine_files(made_of(rows), seed=seed))
    expected = [row for one in rows for row in one]
    assert [c.after for c in all_rows(tmp_path)] == expected
    monkeypatch.setattr(innodb_pages, "_RUN_LEN", 1 << pick.randrange(14, 18))
    monkeypatch.setattr(innodb_pages, "_CACHED_RUNS", pick.choice([1, 2]))
    with fed(pick.choice([1, 9, 200, 1 << 16]), pick.choice([64, 300, 3000])):
        for mapped in (True, False):
            assert [c.after for c in all_rows(tmp_path, mmap=mapped)] == expected


def test_crc32c() -> None:
    """The check value of the standard, and the writer's own computation bit by bit."""
    assert crc32c(b"123456789") == crc32c(b"123456789", portable=True) == 0xE3069283
    pick = random.Random(1)
    for size in (0, 1, 7, 8, 9, 63, 64, 335, 959, 960, 961, 1000, 1920, 3071, 3072, 3080, 7000, 16380):
        data = pick.randbytes(size)
        assert crc32c(data) == crc32c(data, portable=True) == ibb.crc32c(data)
        assert crc32c(data[3:], crc32c(data[:3])) == crc32c(data)
    page = bytes(508) + struct.pack("<I", ibb.crc32c(bytes(508)))
    data = bytearray(page + bytes(512) + page + bytes(511) + b"\1" + page)
    pages = Pages(data, 512, 1024)
    for offset, number in ((1024, 0), (1535, 0), (1536, 1), (2048, 2), (3583, 4)):
        assert pages.page(offset) == data[512 * number :][:512]
    assert pages.page(2560) is None
    data[3 * 512 : 4 * 512] = page  # whoever writes it has written it whole
    assert pages.page(2560) == page
    for offset in (0, 1023, 1024 + len(data), 1 << 60):
        assert offset not in pages
        with pytest.raises(IndexError):
            pages.page(offset)


def test_cut_and_damaged_pages(tmp_path: Path) -> None:
    """A cut or zeros end the log after its last whole transaction; a wrong page is an error."""
    data = one_file()
    path = tmp_path / "binlog-000000.ibb"
    pages = len(data) // 512
    for keep in range(1, pages):
        for rest in (b"", bytes(512), data[keep * 512 : keep * 512 + 100]):
            path.write_bytes(data[: keep * 512] + rest)
            ids = [c.after["id"] for c in all_rows(path)]
            assert ids == list(range(len(ids)))
        damaged = bytearray(data)
        damaged[keep * 512 + 17] ^= 4
        path.write_bytes(damaged)
        got: list[int] = []
        with (
            binlog_core.open(path) as log,
            pytest.raises(binlog_core.ChecksumError, match=f"page {keep}") as caught,
        ):
            for change in log.rows():
                got.append(change.after["id"])
        assert caught.value.offset == keep * 512
        assert got == list(range(len(got)))
        assert len(got) >= len(ids) - 3


def test_every_byte_damaged(tmp_path: Path) -> None:
    """With page checksums made anew: only our own errors, and no endless loop."""
    files = ibb.engine_files(made_of([[{"id": i, "note": "x" * 200}] * 5 for i in range(8)]), seed=11)
    paths = ibb.write_files(tmp_path, files)
    pick = random.Random(4)
    outcomes = {True: 0, False: 0}
    for path, data in zip(paths, files, strict=True):
        page_len = 1 << data[4]
        for at in pick.sample(range(page_len, len(data)), min(400, len(data) - page_len)):
            broken = bytearray(data)
            broken[at] = pick.choice([0, 255, broken[at] ^ 1 << pick.randrange(8)])
            start = at // page_len * page_len
            broken[start + page_len - 4 : start + page_len] = struct.pack(
                "<I", ibb.page_crc(bytes(broken[start : start + page_len - 4]))
            )
            path.write_bytes(broken)
            try:
                all_rows(tmp_path)
                outcomes[True] += 1
            except binlog_core.BinlogError:
                outcomes[False] += 1
        path.write_bytes(data)
    assert min(outcomes.values()) > 10


def test_files_made_beforehand(tmp_path: Path) -> None:
    """Zeros, or a header and zeros, are logs without events: neither an error nor a gap."""
    data = one_file()
    (tmp_path / "binlog-000000.ibb").write_bytes(data)
    (tmp_path / "binlog-000001.ibb").write_bytes(bytes(8192))
    with binlog_core.open(tmp_path) as log:
        assert len(list(log.rows())) == 20
        assert log.report.file_gaps == 0
    empty = ibb.Writer(shift=9, pages=20)
    empty.files = [[bytearray(512), bytearray(512)]]
    (tmp_path / "binlog-000001.ibb").write_bytes(empty.contents()[0][:512].ljust(8192, b"\0"))
    with binlog_core.open(tmp_path / "binlog-000001.ibb") as log:
        assert not list(log.rows())


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(8, 2, "version 2"), (4, 8, "2\\*\\*8"), (4, 17, "2\\*\\*17"), (300, 1, "checksum of the .ibb")],
)
def test_headers(at: int, value: int, message: str, tmp_path: Path) -> None:
    data = bytearray(one_file())
    data[at] = value
    if at < 100:
        data[508:512] = struct.pack("<I", ibb.page_crc(bytes(data[:508])))
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(data)
    with pytest.raises(binlog_core.BinlogError, match=message), binlog_core.open(path) as log:
        list(log.rows())


def test_positions(tmp_path: Path) -> None:
    """A group's position continues there."""
    rows = [[{"id": i, "note": "x" * 50}] for i in range(200)]
    ibb.write_files(tmp_path, ibb.engine_files(made_of(rows), seed=4))
    with binlog_core.open(tmp_path, limits=binlog_core.Limits(group_rows=7)) as log:
        read = 0
        for group in log.groups():
            read += sum(len(batch.array) for batch in group.batches)
            with binlog_core.open(tmp_path, start=group.position) as rest:
                assert [c.after["id"] for c in rest.rows()] == list(range(read, 200))


@pytest.mark.parametrize("target", ["a file", "folder", "list"])
@pytest.mark.parametrize("seed", range(6))
def test_followed_while_it_is_written(seed: int, target: str, tmp_path: Path) -> None:
    """The server makes files beforehand, writes pages in order, and the last one again and again."""
    pick = random.Random(seed)
    rows = [
        [{"id": i, "note": "x" * pick.randrange(400)}] * pick.choice([1, 2, 9])
        for i in range(pick.randint(20, 60))
    ]
    files = ibb.engine_files(made_of(rows), seed=seed)
    states = []  # of the folder, as one file after the other is filled
    for number, data in enumerate(files):
        page_len = 1 << data[4]
        for end in range(page_len * pick.randint(0, 3), len(data), page_len * pick.randint(1, 3)):
            states.append((number, data[:end] + bytes(len(data) - end)))
            if end and any(data[end : end + page_len]):  # a page of which half is written
                page = data[end : end + page_len]
                used = pick.randrange(1, page_len)
                states.append((number, data[:end] + half(page, used) + bytes(len(data) - end - page_len)))
        states.append((number, data))
    made = [1]
    for number, data in enumerate(files[:2]):
        (tmp_path / f"binlog-{number:06}.ibb").write_bytes(bytes(len(data)))

    def go_on() -> None:
        """The next state of the folder."""
        number, data = states.pop(0)
        (tmp_path / f"binlog-{number:06}.ibb").write_bytes(data)
        if number + 1 > made[0] and number + 1 < len(files):
            made[0] += 1
            (tmp_path / f"binlog-{number + 1:06}.ibb").write_bytes(bytes(4096))

    wanted = [row["id"] for one in rows for row in one]
    got: list[int] = []
    logs: Any = tmp_path / "binlog-000000.ibb"
    if target != "a file":
        logs = tmp_path if target == "folder" else sorted(tmp_path.iterdir())
    with binlog_core.open(logs, follow=True) as log:

        class Steps(threading.Event):
            """Waiting lets the server go on; in the end nothing is left to wait for."""

            def wait(self, timeout: float | None = None) -> bool:
                if not states:
                    return True
                go_on()
                return False

        log._stopping = Steps()
        with fed(50) if seed % 2 else nullcontext():
            for change in log.rows():
                got.append(change.after["id"])
        assert log.tail is None
    assert got == wanted


def half(page: bytes, used: int) -> bytes:
    """A page of which only the chunks before an offset have been written."""
    at = 0
    while at + 4 <= len(page) - 4 and page[at] not in (0, 255):
        end = at + 3 + int.from_bytes(page[at + 1 : at + 3], "little")
        if end > used:
            break
        at = end
    written = page[:at].ljust(len(page) - 4, b"\0")
    return written + struct.pack("<I", ibb.page_crc(written)) if any(written) else bytes(len(page))


@pytest.mark.parametrize("seed", range(12))
def test_reading_goes_on_behind_damage(seed: int, tmp_path: Path) -> None:
    """With on_error="skip" all transactions come of which no byte is in a damaged page."""
    pick = random.Random(seed)
    rows = [[{"id": i, "note": "x" * pick.randrange(300)}] * pick.choice([1, 2]) for i in range(60)]
    writer = ibb.Writer(shift=9, pages=1000, interval=5)
    pages_of: dict[int, set[int]] = {}
    for i, events in enumerate(made_of(rows)):
        gtid = int.from_bytes(events[9:13], "little")
        places = []
        trees = ibb.packed(0)
        if pick.random() < 0.4:
            tree = ibb.OutOfBand(writer)
            for begin in range(gtid, len(events), 90):
                places += span(writer, tree.append, events[begin : begin + 90])
            trees, events = tree.reference() + ibb.packed(0), events[:gtid]
        places += span(writer, writer.record, ibb.COMMIT, trees + events)
        pages_of[i] = set(places)
    (data,) = writer.contents()
    damaged = set(pick.sample(range(1, len(data) // 512), pick.choice([1, 2, 5])))
    damaged |= {1} if seed % 3 == 0 else set()  # where the file's first records are
    broken = bytearray(data)
    for page in damaged:
        broken[512 * page + pick.randrange(512)] ^= 1 << pick.randrange(8)
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(broken)
    whole = {i for i, places in pages_of.items() if not places & damaged}
    for mmap in (True, False):
        with (
            fed(100) if seed % 2 else nullcontext(),
            binlog_core.open(path, on_error="skip", mmap=mmap) as log,
        ):
            got = [change.after["id"] for change in log.rows()]
            report = log.report
        assert {i for i in got if got.count(i) == len(rows[i])} >= whole
        assert got == sorted(got)
        assert report.skipped_events >= 1
        assert report.first["skipped_events"].offset // 512 in damaged
        assert sum(end - begin for _, begin, end in report.lost_ranges) >= 512
        with binlog_core.open(path, on_error="skip", mmap=mmap) as log:
            kinds = [event.type_code for event in log.events()]
            assert kinds.count(162) >= len(whole)
            assert len(log.headers()) == len(kinds)
    with pytest.raises(binlog_core.ChecksumError) as caught:
        all_rows(path)
    assert caught.value.offset is not None and caught.value.offset // 512 in damaged


def span(writer: ibb.Writer, write: Any, *arguments: Any) -> range:
    """The pages that a record takes."""
    writer_pages = writer.files[-1]
    first = len(writer_pages) - 1
    write(*arguments)
    return range(first, len(writer_pages))


def test_reading_goes_on_behind_a_wrong_record(tmp_path: Path) -> None:
    """A record that is not whole, a reference that leads nowhere, a type that is not known."""
    events = made_of([[{"id": i, "note": "x" * 40}] for i in range(9)])
    writer = ibb.Writer(shift=9, pages=1000)
    for i, one in enumerate(events):
        if i == 2:
            writer._put(ibb.COMMIT, ibb.packed(0) + one[:60])  # without its end
        if i == 4:
            trees = b"".join(map(ibb.packed, (3, 0, 520, 0, 600, 0)))
            writer.record(ibb.COMMIT, trees + one[:38])
        if i == 6:
            writer.record(11, b"of a later version")
            writer.fill()
        writer.record(ibb.COMMIT, ibb.packed(0) + one)
    (data,) = writer.contents()
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(data)
    with pytest.raises(binlog_core.DecodeError, match="not whole when another begins"):
        all_rows(path)
    with binlog_core.open(path, on_error="skip") as log:
        assert [change.after["id"] for change in log.rows()] == list(range(9))
        assert log.report.skipped_events == 3


def test_reading_goes_on_behind_a_damaged_event_before_a_damaged_page(tmp_path: Path) -> None:
    """The next event is looked for over the end of what can be read."""
    rows = [[{"id": i, "note": "x" * 900}] for i in range(20)]
    writer = ibb.Writer(shift=9, pages=1000)
    pages = {}
    for i, events in enumerate(made_of(rows)):
        if i == 9:  # the length of its table map is not possible
            gtid = int.from_bytes(events[9:13], "little")
            events = events[: gtid + 9] + b"\x05\x00\x00\x00" + events[gtid + 13 :]
        pages[i] = span(writer, writer.record, ibb.COMMIT, ibb.packed(0) + events)
    (data,) = writer.contents()
    broken = bytearray(data)
    broken[512 * pages[11][-1] + 9] ^= 1
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(broken)
    for mmap in (True, False):
        with binlog_core.open(path, on_error="skip", mmap=mmap) as log:
            got = [change.after["id"] for change in log.rows()]
            assert log.report.skipped_events >= 2
        assert [*range(9), *range(13, 20)] == [i for i in got if i not in (9, 10, 11, 12)]
    with pytest.raises(binlog_core.BinlogError):
        all_rows(path)


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_header_ends_nothing_but_its_file(number: int, tmp_path: Path) -> None:
    files = ibb.engine_files(made_of([[{"id": i, "note": "x" * 300}] for i in range(40)]), seed=5)
    paths = ibb.write_files(tmp_path, files)
    broken = bytearray(files[number])
    broken[20] ^= 1
    paths[number].write_bytes(broken)
    with pytest.raises(binlog_core.ChecksumError, match=rf"header \(file .*00{number}.ibb"):
        all_rows(tmp_path)
    with binlog_core.open(paths[2], on_error="skip") as log:  # its next one is damaged, or an earlier one
        assert list(log.rows())


def test_positions_have_the_gtids_before_the_file(tmp_path: Path) -> None:
    """From the state record on page 1: a group's position can be continued at on the server."""
    rows = [[{"id": i, "note": "x" * 900}] for i in range(12)]
    paths = ibb.write_files(tmp_path, ibb.engine_files(made_of(rows), seed=2))
    before = 0
    for path in paths:
        with binlog_core.open(path) as log:
            groups = list(log.groups())
            first = next(iter(log.events([163])), None)
        if path != paths[0] and first is not None:
            # The transaction before may end in this file, behind the state.
            states = [[f"0-1-{n}"] if n > 0 else [] for n in (before - 1, before)]
            assert [str(gtid) for gtid in first.gtids] in states
        ids = [c.after["id"] for c in all_rows(path)]
        before = ids[-1] + 1 if ids else before
        if ids:
            assert str(groups[-1].position.gtids) == f"0-1-{before}"
    assert before == 12


def test_records_that_several_transactions_refer_to(tmp_path: Path) -> None:
    """Forged: many commit records with the same tree would give more bytes than any disk has."""
    (events,) = made_of([[{"id": 1, "note": "x" * 200}] * 20])
    gtid = int.from_bytes(events[9:13], "little")
    writer = ibb.Writer(shift=9, pages=10000)
    tree = ibb.OutOfBand(writer)
    for begin in range(gtid, len(events), 300):
        tree.append(events[begin : begin + 300])
    for _ in range(1000):
        writer.record(ibb.COMMIT, tree.reference() + ibb.packed(0) + events[:gtid])
    path = tmp_path / "binlog-000000.ibb"
    (data,) = writer.contents()
    path.write_bytes(data)
    read = 0
    with pytest.raises(binlog_core.DecodeError, match="several transactions refer"):
        for batch in binlog_core.open(path).batches():
            read += len(batch.array)
    assert read * 200 <= len(data)


class Counted(TreeWalk):
    """Sums up what all walks look at."""

    looks = 0

    def go_on(self, *arguments: Any) -> tuple[int, int, int]:
        status, count, looks = super().go_on(*arguments)
        Counted.looks += looks
        return status, count, looks


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_records_without_bytes_that_several_transactions_refer_to(
    seed: int, more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forged: they give nothing, so that only the looks at them can be counted."""
    (events,) = made_of([[{"id": 1, "note": "x"}]])
    pick = random.Random(seed)
    writer = ibb.Writer(shift=pick.choice([9, 12, 14]), pages=10000, interval=10000)
    tree = ibb.OutOfBand(writer)
    for _ in range(1500):
        tree.append(b"")
    reference = ibb.packed(1500 + more) + tree.reference()[len(ibb.packed(1500)) :]
    for _ in range(600):
        writer.record(ibb.COMMIT, reference + ibb.packed(0) + events)
    path = tmp_path / "binlog-000000.ibb"
    (data,) = writer.contents()
    path.write_bytes(data)
    with pytest.raises(binlog_core.DecodeError, match="1500 out-of-band" if more else "several transactions"):
        all_rows(path)
    for mmap in (True, False):
        monkeypatch.setattr(Counted, "looks", 0)
        monkeypatch.setattr("binlog_core._sources.innodb_trees.TreeWalk", Counted)
        monkeypatch.setattr("binlog_core._sources.innodb_binlog.TreeWalk", Counted)
        with binlog_core.open(path, on_error="skip", mmap=mmap) as log:
            list(log.batches())
            assert log.report.skipped_events > 400
        assert 1500 < Counted.looks <= len(data) + 10_000


def test_chunks_without_bytes_that_several_transactions_refer_to(tmp_path: Path) -> None:
    """Forged: fields that end behind a thousand fillers, of a record that each transaction refers to."""
    (events,) = made_of([[{"id": 1, "note": "x"}]])
    writer = ibb.Writer(shift=9, pages=10000, interval=10000)
    place = (0, (len(writer.files[0]) - 1) * 512 + len(writer.files[0][1]))
    writer._put(ibb.PIECE, ibb.packed(0) * 2)
    for _ in range(4000):
        if writer.room < 4:
            writer.fill()
        writer._put(ibb.FILLER | 0x40, b"")
    if writer.room < 8:
        writer.fill()
    writer._put(ibb.PIECE | 0xC0, ibb.packed(0) * 3)
    for _ in range(1000):
        reference = b"".join(map(ibb.packed, (1, *place, *place)))
        writer.record(ibb.COMMIT, reference + ibb.packed(0) + events)
    path = tmp_path / "binlog-000000.ibb"
    (data,) = writer.contents()
    path.write_bytes(data)
    with pytest.raises(binlog_core.DecodeError, match="several transactions refer"):
        all_rows(path)


def test_a_state_in_a_million_pieces(tmp_path: Path) -> None:
    """The GTIDs before a file are read however its record is divided."""
    writer = ibb.Writer(shift=9, pages=10000, interval=10000)
    writer.files[0][1] = bytearray()
    state = (
        ibb.packed(300)
        + ibb.packed(0)
        + b"".join(ibb.packed(domain) + ibb.packed(7) + ibb.packed(10**12 + domain) for domain in range(300))
    )
    for at, byte in enumerate(state):
        if writer.room < 4:
            writer.fill()
        kind = ibb.STATE | (0x80 if at else 0) | (0x40 if at == len(state) - 1 else 0)
        writer._put(kind, bytes((byte,)))
    for events in made_of([[{"id": 1, "note": "x"}]]):
        writer.record(ibb.COMMIT, ibb.packed(0) + events)
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(writer.contents()[0])
    with binlog_core.open(path) as log:
        (gtids,) = (e.gtids for e in log.events() if e.type_code == 163)
    assert len(gtids) == 300 and str(gtids[299]) == f"299-7-{10**12 + 299}"


def test_memory_of_a_dense_state(tmp_path: Path) -> None:
    """Of three bytes a GTID the list makes 16, and a few copies of them."""
    writer = ibb.Writer(shift=14, pages=10000, interval=10000)
    writer.files[0][1] = bytearray()
    writer.record(ibb.STATE, ibb.packed(100_000) + ibb.packed(0) + bytes(300_000))
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(writer.contents()[0])
    with InnodbBinlogSource(open_local(str(path))) as source:
        tracemalloc.start()
        try:
            assert len(source.read(1000)) == 1000
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 100_000 * 80


def test_walks_are_made_once() -> None:
    """A second __init__ would go on behind the first one's records, and behind the memory for them."""
    walk = TreeWalk(1, (0, 600), (0, 600))
    for _ in range(1000):
        walk.__init__(1, (0, 600), (0, 600))  # type: ignore[misc]
    pages = Pages(bytes(1024), 512)
    assert walk.give(0, (0, 0), (0, 0), 5) and walk.give(0, (0, 0), (0, 0), 5)
    assert walk.go_on(pages, 0, None)[0] == BYTES
    walk.skip()
    assert walk.go_on(pages, 0, None)[0] == DONE


def test_missing_files_and_streams(tmp_path: Path) -> None:
    """A record that continues in a file that is not there ends the log; references to one are an error."""
    files = ibb.engine_files(made_of([[{"id": i, "note": "x" * 900}] * 9 for i in range(12)]), seed=2)
    paths = ibb.write_files(tmp_path, files)
    assert len(paths) > 3
    expected = [c.after["id"] for c in all_rows(paths[0])]
    with paths[0].open("rb") as handle, binlog_core.open(handle) as log:
        try:
            assert [c.after["id"] for c in log.rows()] == expected
        except binlog_core.BinlogError as error:
            assert "file number" in str(error)
    paths[1].unlink()
    with binlog_core.open(paths[0]) as log:
        found = [c.after["id"] for c in log.rows()]
        assert found == expected[: len(found)]


def in_pages() -> bytes:
    """A file of eight pages of 4096 bytes, each with a transaction or more that begins in it."""
    writer = ibb.Writer(shift=12, pages=1000, interval=5)
    for events in made_of([[{"id": i, "note": "x" * 300}] for i in range(60)]):
        writer.record(ibb.COMMIT, ibb.packed(0) + events)
    (data,) = writer.contents()
    assert len(data) == 8 * 4096
    return data


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("page", [0, 1, 2, 6])
def test_a_copy_that_was_made_while_the_server_wrote(page: int, mapped: bool, tmp_path: Path) -> None:
    """A page without its bytes, or half of them, and one behind it with all: an error, not the log's end."""
    data, size = in_pages(), 4096
    before = bytes(512) if page == 0 else half(data[page * size : (page + 1) * size], 2000)
    for there in {before.ljust(size, b"\0"), bytes(size)}:
        folder = tmp_path / str(any(there))
        folder.mkdir()
        (folder / "binlog-000000.ibb").write_bytes(data)
        path = folder / "binlog-000001.ibb"
        path.write_bytes(data[: page * size] + there + data[(page + 1) * size :])
        for target in (path, folder, [folder / "binlog-000000.ibb", path]):
            with pytest.raises(binlog_core.BinlogError) as raised:
                all_rows(target, mmap=mapped)
            assert raised.value.path == str(path)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_file_that_is_cut_inside_a_page(mapped: bool, tmp_path: Path) -> None:
    """What is left of the page cannot be checked, but the log is said to end early."""
    data = in_pages()
    whole = [change.after["id"] for change in all_rows(data)]
    assert whole == list(range(60))
    for size in range(4096 + 1, len(data), 1500):
        path = tmp_path / "binlog-000000.ibb"
        path.write_bytes(data[:size])
        with binlog_core.open(path, mmap=mapped) as log:
            found = [change.after["id"] for change in log.rows()]
            assert found == whole[: len(found)]
            assert log.tail is not None
        with InnodbBinlogSource(open_local(str(path))) as source:
            assert source.begun
        with pytest.raises(binlog_core.TruncatedError):
            all_rows(path, mmap=mapped, strict=True)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, None])
def test_what_cannot_be_read_from_any_position(pack: Any, tmp_path: Path) -> None:
    """Packed or from a pipe: an error, and not a log without rows."""
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(one_file() if pack is None else pack(one_file()))
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as end:
        end.write(path.read_bytes())
    with os.fdopen(reading, "rb") as pipe:
        for target in [pipe] if pack is None else [pipe, path, path.read_bytes()]:
            with pytest.raises(binlog_core.BinlogError, match="save it to a plain file first"):
                all_rows(target)


def test_a_transaction_that_began_in_a_missing_file(tmp_path: Path) -> None:
    files = ibb.engine_files(made_of([[{"id": i, "note": "x" * 900}] * 9 for i in range(12)]), seed=2)
    paths = ibb.write_files(tmp_path, files)
    paths[0].unlink()
    with pytest.raises(binlog_core.DecodeError, match=r"began in a file that is missing \(file number 0\)"):
        all_rows(tmp_path)


@pytest.mark.parametrize("part", ["rows", "a record", "a tree"])
def test_mappings_end_with_the_log(part: str, tmp_path: Path) -> None:
    """At once, not when Python looks for circles: a worker opens a large file for each of its splits."""
    rows = [[{"id": i, "note": "x" * 900}] * 9 for i in range(12)]
    files = ibb.engine_files(made_of(rows), seed=2)
    mappings = [open_mapping(path) for path in ibb.write_files(tmp_path, files)]
    gc.disable()
    try:
        for own in mappings:
            source = InnodbBinlogSource(
                BufferSource(own, "own"), lambda number: BufferSource(mappings[number], "sibling")
            )
            while (data := source.read(1000)) and part == "rows":
                pass
            if part == "a tree":
                source.read(5000)
            del data
            source.close()
        for mapping in mappings:
            mapping.close()  # a BufferError if anyone has a view of it
        assert (source.read(1000), source.feed()) == (b"", None)
    finally:
        gc.enable()


def open_mapping(path: Path) -> Mapping:
    with path.open("rb") as file:
        return Mapping(file.fileno(), 0, access=ACCESS_READ)


@pytest.mark.parametrize("seed", range(30))
def test_walks_end_and_go_on_anywhere(seed: int) -> None:
    """Records come in order, whatever the room, the pages at hand, and the part that Python takes."""
    pick = random.Random(seed)
    writer = ibb.Writer(shift=9, pages=10000, interval=3)
    tree = ibb.OutOfBand(writer)
    pieces = [pick.randbytes(pick.choice([1, 90, 2000])) for _ in range(pick.randint(1, 40))]
    for piece in pieces:
        if pick.random() < 0.3:
            writer.record(ibb.PIECE, ibb.packed(0) * 5 + pick.randbytes(700))  # of another transaction
        tree.append(piece)
    (data,) = writer.contents()
    expected = b"".join(pieces)
    cut = 512 * pick.randrange(1, len(data) // 512)
    halves = Pages(data[:cut], 512), Pages(data[cut:], 512, cut)
    walk = TreeWalk(len(pieces), tree.places[0], tree.places[-1])
    got = 0
    while not walk.done:
        half = halves[walk.place[1] >= cut]
        room = pick.choice([0, 1, 50, 3000])
        if pick.random() < 0.3:
            status, count, _ = walk.go_on(half, 0, None, room)
        else:
            out = bytearray(room)
            status, count, _ = walk.go_on(half, 0, out)
            assert out[:count] == expected[got : got + count]
        assert count <= room
        got += count
        if status == FIELDS:  # they go over the end of a page
            number, *fields, length = fields_of(data, walk.place[1])
            assert walk.give(number, tuple(fields[:2]), tuple(fields[2:]), length)
        elif status == BYTES:  # the record goes on in the other half
            got = sum(map(len, pieces[: tree.places.index(walk.place) + 1]))
            walk.skip()
        else:
            assert status in (DONE, ELSEWHERE, FULL)
    assert got == len(expected)
    with pytest.raises(ValueError, match="looked at"):
        walk.skip()


def fields_of(data: bytes, at: int) -> list[int]:
    """The five integers that an out-of-band record begins with, which may go over a page, and their bytes."""
    head = b""
    while len(head) < 45:
        end = at // 512 * 512 + 508
        if at + 4 > end:
            at = end + 4
            continue
        length = int.from_bytes(data[at + 1 : at + 3], "little")
        head += data[at + 3 : at + 3 + length] if data[at] & 63 == ibb.PIECE else b""
        if data[at] & 64 and data[at] & 63 == ibb.PIECE:
            break
        at += 3 + length
    fields, pos = [], 0
    for _ in range(5):
        size = 1 + (head[pos] & 7)
        fields.append(int.from_bytes(head[pos : pos + size], "little") >> 3)
        pos += size
    return [*fields, pos]


def test_walks_of_wrong_trees() -> None:
    """Fields that Python gives are checked as those in the pages are."""
    pages, here = Pages(bytes(512), 512), (0, 512)
    assert TreeWalk(3, (0, 600), here).go_on(pages, 0, None)[0] == ELSEWHERE
    assert TreeWalk(3, (0, 600), (0, 100)).go_on(pages, 0, None)[0] == FIELDS  # in the file's header
    for left, right, message in (
        (here, (0, 0), "not before it"),
        ((0, 513), (0, 0), "not before it"),
        ((0, 0), (1, 0), "not before it"),
    ):
        walk = TreeWalk(3, (0, 600), here)
        assert not walk.give(0, left, right, 5)
        found, place = walk.fault()
        assert message in found and place == here
    walk = TreeWalk(1, (0, 600), (0, 900))
    for at in range(899, 880, -1):
        if not walk.give(0, (0, at), (0, 0), 5):
            break
    assert "too many levels" in walk.fault()[0]
    walk = TreeWalk(1, (0, 600), (0, 900))
    for at in range(899, 880, -1):
        if not walk.give(0, (0, 0), (0, at), 5):
            break
    assert "more roots than 1" in walk.fault()[0]
    walk = TreeWalk(1, (0, 600), here)
    assert walk.give(0, (0, 0), (0, 0), 5) and walk.give(7, (0, 0), (0, 0), 5)
    assert walk.go_on(Pages(bytes(512), 512, 512), 0, None)[0] == WRONG
    assert walk.fault() == ("the first out-of-band record is at (0, 600)", here)
    with pytest.raises(ValueError, match="looked at"):
        walk.skip()
    with pytest.raises(ValueError, match="no fields are missing"):
        walk.give(0, (0, 0), (0, 0), 0)
    with pytest.raises(OverflowError):
        TreeWalk(1 << 64, here, here)


def fit(writer: ibb.Writer) -> None:
    """Make room for a record's fields in one page: those that go over into the next are left to Python."""
    if writer.room < 120:
        writer.fill()


def undo(writer: ibb.Writer, pick: random.Random) -> None:
    """Now and then a record of a transaction that is rolled back; some fill pages that nobody reads."""
    if pick.random() < 0.2:
        writer.record(ibb.PIECE, ibb.packed(0) * 5 + pick.randbytes(pick.choice([5, 600, 3000])))


def numbered(pick: random.Random, pages: int, shift: int = 9) -> tuple[bytes, list[bytes]]:
    """A file of short transactions and of larger ones with out-of-band records; and these transactions."""
    rows = [[{"id": i, "note": "n" * pick.choice([10, 300, 900, 9000])}] for i in range(30)]
    transactions = made_of(rows)
    writer = ibb.Writer(shift=shift, pages=pages, interval=5)
    for events in transactions:
        gtid, tree = int.from_bytes(events[9:13], "little"), ibb.OutOfBand(writer)
        fit(writer)
        undo(writer, pick)
        if len(events) > 800:
            for at in range(gtid, len(events), size := pick.choice([700, 3000, 8000])):
                fit(writer)
                tree.append(events[at : at + size])
                undo(writer, pick)
            fit(writer)
            writer.record(ibb.COMMIT, tree.reference() + ibb.packed(0) + events[:gtid])
        else:
            writer.record(ibb.COMMIT, ibb.packed(0) + events)
    (data,) = writer.contents()
    return data, transactions


@pytest.mark.parametrize("seed", range(20))
def test_feeds_end_where_care_is_needed(seed: int) -> None:
    """The compiled part takes whole commit records and their trees, whatever the room and the pages."""
    pick = random.Random(seed)
    data, transactions = numbered(pick, 1000)
    expected = b"".join(transactions)
    whole = bytearray(len(data))
    feed = Feed(Pages(data, 512), 512)
    assert whole[: feed.copy(whole)] == expected and feed.any and not feed.full and feed.walk is None
    assert Feed(Pages(data, 512), 512).skip(len(data), len(data)) == len(expected)
    for _ in range(50):
        some = data[: 512 * pick.randrange(2, len(data) // 512)]
        out = bytearray(pick.randrange(1, len(whole)))
        feed = Feed(Pages(some, 512), 512)
        written = feed.copy(out)
        assert out[:written] == expected[:written]
        assert feed.offset is not None and feed.offset <= len(some)
        passing = Feed(Pages(some, 512), 512)
        assert passing.skip(len(out), len(data)) == written and passing.offset == feed.offset
        rest = bytearray(len(data))
        if feed.offset < len(some):
            more = Feed(Pages(data, 512), feed.offset, feed.walk).copy(rest)
            assert out[:written] + rest[:more] == expected


@pytest.mark.parametrize("seed", range(20))
def test_pages_that_references_lead_to_are_checked(seed: int) -> None:
    """Each page is checked before anything that comes after it is handed out, or is one of the tree's."""
    pick = random.Random(seed)
    data, transactions = numbered(pick, 1000)
    expected = b"".join(transactions)
    pages = [at for at in range(512, len(data), 512) if any(data[at : at + 512])]
    for at in pages:
        broken = bytearray(data)
        broken[pick.choice([at, at + 1, at + 3, pick.randrange(at, at + 512)])] ^= 1 << pick.randrange(8)
        out = bytearray(len(data))
        feed = Feed(Pages(broken, 512), 512)
        written = feed.copy(out)
        assert out[:written] == expected[:written] and written < len(expected)
        assert feed.walk is not None or (feed.offset or 0) < at + 512
        ends = [sum(map(len, transactions[:k])) for k in range(31)]
        assert feed.walk is not None or written in ends


def test_pages_of_wrong_arguments() -> None:
    assert 0 not in Pages(b"", 512)
    assert 10**9 not in Pages(bytes(512), 512)
    assert Feed(Pages(bytes(512), 512), 0).copy(bytearray(9)) == 0
    assert Feed(Pages(bytes(512), 512), None).copy(bytearray(9)) == 0
    for pages, page_len in ((bytes(513), 512), (bytes(512), 0), (bytes(12), 4), (bytes(24), 12)):
        with pytest.raises(ValueError, match="expected pages of"):
            Pages(pages, page_len)
