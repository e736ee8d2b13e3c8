"""MariaDB's .ibb files, written by a second hand, have the rows of the logs that they were made of."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.logs import all_rows
from support.splits import read_all
from support.writer import Log, Table
from support.writer import innodb_binlog as ibb
from support.writer.fragments import events_in

import binlog_core
from binlog_core._core._crc32 import crc32c, first_wrong_page
from binlog_core._core._innodb_binlog import short_transactions
from binlog_core.splits import plan_splits

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "TEXT")])


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
def test_random_shapes(seed: int, tmp_path: Path) -> None:
    """Trees of up to some hundred records, several files, transactions side by side."""
    pick = random.Random(seed)
    rows = [
        [
            {"id": pick.randrange(1000), "note": "n" * pick.randrange(300)}
            for _ in range(pick.choice([1, 3, 60]))
        ]
        for _ in range(pick.randint(1, 30))
    ]
    ibb.write_files(tmp_path, ibb.engine_files(made_of(rows), seed=seed))
    assert [c.after for c in all_rows(tmp_path)] == [row for one in rows for row in one]


def made_of(rows: list[list[dict[str, Any]]]) -> list[bytes]:
    log = Log("11.8.1-MariaDB-log", checksum=False)
    for number, some in enumerate(rows, start=1):
        log.event(162, struct.pack("<QIB6x", number, 0, 0))
        log.insert(TABLE, some)
        log.commit()
    return ibb.transactions_of(log.getvalue())


def test_crc32c() -> None:
    """The check value of the standard, and the writer's own computation bit by bit."""
    assert crc32c(b"123456789") == crc32c(b"123456789", portable=True) == 0xE3069283
    pick = random.Random(1)
    for size in (0, 1, 7, 8, 9, 63, 64, 1000):
        data = pick.randbytes(size)
        assert crc32c(data) == crc32c(data, portable=True) == ibb.crc32c(data)
        assert crc32c(data[3:], crc32c(data[:3])) == crc32c(data)
    page = bytes(508) + struct.pack("<I", ibb.crc32c(bytes(508)))
    assert first_wrong_page(page + bytes(512) + page, 512) == -1
    assert first_wrong_page(page + bytes(511) + b"\1" + page, 512) == 1


def one_file(count: int = 20, **shape: Any) -> bytes:
    writer = ibb.Writer(**{"shift": 9, "pages": 1000, **shape})
    for events in made_of([[{"id": i, "note": "x" * 40}] for i in range(count)]):
        writer.record(ibb.COMMIT, ibb.packed(0) + events)
    (data,) = writer.contents()
    return data


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


def test_splits_positions_and_following(tmp_path: Path) -> None:
    """A file is one split, a group's position continues there, and a file cannot be followed."""
    rows = [[{"id": i, "note": "x" * 50}] for i in range(200)]
    ibb.write_files(tmp_path, ibb.engine_files(made_of(rows), seed=4))
    splits = plan_splits(str(tmp_path), 1000)
    assert len(splits) == len(list(tmp_path.iterdir()))
    assert [row.after["id"] for row in read_all(splits)[0]] == list(range(200))
    with binlog_core.open(tmp_path, limits=binlog_core.Limits(group_rows=7)) as log:
        read = 0
        for group in log.groups():
            read += sum(len(batch.array) for batch in group.batches)
            with binlog_core.open(tmp_path, start=group.position) as rest:
                assert [c.after["id"] for c in rest.rows()] == list(range(read, 200))
    with (
        pytest.raises(binlog_core.BinlogError, match="cannot be followed"),
        binlog_core.open(tmp_path, follow=True) as log,
    ):
        list(log.rows())


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


@pytest.mark.parametrize("seed", range(20))
def test_short_transactions_end_where_care_is_needed(seed: int) -> None:
    """The compiled part takes whole records only, whatever the room and the pages that it is given."""
    pick = random.Random(seed)
    rows = [[{"id": i, "note": "n" * pick.randrange(900)}] for i in range(30)]
    transactions = made_of(rows)
    writer = ibb.Writer(shift=9, pages=1000, interval=5)
    for events in transactions:
        if pick.random() < 0.2:
            writer.record(ibb.PIECE, ibb.packed(0) * 5 + pick.randbytes(pick.randrange(1500)))
        writer.record(ibb.COMMIT, ibb.packed(0) + events)
    (data,) = writer.contents()
    pages = data[512:]
    ends = {sum(map(len, transactions[:k])) for k in range(31)}
    whole = bytearray(len(data))
    end, written, any_record = short_transactions(pages, 512, 0, whole)
    assert whole[:written] == b"".join(transactions) and any_record
    for _ in range(50):
        some = pages[: 512 * pick.randrange(len(pages) // 512)]
        out = bytearray(pick.randrange(len(whole)))
        end, written, _ = short_transactions(some, 512, 0, out)
        assert written in ends and end <= len(some)
        assert out[:written] == whole[:written]
        rest = bytearray(len(data))
        _, more, _ = short_transactions(pages, 512, end, rest)
        assert out[:written] + rest[:more] == b"".join(transactions)


def test_short_transactions_of_wrong_arguments() -> None:
    assert short_transactions(b"", 512, 0, bytearray(9)) == (0, 0, False)
    assert short_transactions(bytes(512), 512, 10**9, bytearray(9)) == (10**9, 0, False)
    for pages, page_len in ((bytes(513), 512), (bytes(512), 0), (bytes(12), 4)):
        with pytest.raises(ValueError, match="expected pages of"):
            short_transactions(pages, page_len, 0, bytearray(9))
