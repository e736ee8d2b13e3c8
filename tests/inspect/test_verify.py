"""``binlog_core.inspect.verify`` of hostile logs: what it keeps is bounded, everything is counted."""

from __future__ import annotations

import gzip
import sys
import threading
import tracemalloc
import warnings
from pathlib import Path

import pytest
from support.cli import run
from support.golden import golden_logs
from support.innodb_logs import one_file
from support.writer import Log, Table
from support.writer import innodb_binlog as ibb
from support.writer import numbering as n

import binlog_core
from binlog_core import BinlogError, DecompressionError, Limits, MissingExtraError
from binlog_core._sources.log_files import LogFile
from binlog_core._sources.resolve import resolve
from binlog_core.events import Event
from binlog_core.inspect.verify import Damage, Places, Verdict, verify, verify_log

TABLE = Table("shop", "orders", [("id", "INT UNSIGNED")])

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def verdict(path: Path, limits: Limits | None = None) -> Verdict:
    (file,) = resolve(str(path))
    return verify_log(file, limits=limits or Limits())


def damaged(events: int) -> tuple[bytes, list[int]]:
    """Every second event has a byte changed."""
    log = Log()
    places = []
    for i in range(events):
        places.append(log.begin())
        log.insert(TABLE, [{"id": i}])
        log.commit()
    data = bytearray(log.getvalue())
    for at in places[1::2]:
        data[at + 30] ^= 1
    return bytes(data), places[1::2]


def test_the_lists_are_bounded_and_all_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bin.000001"
    data, places = damaged(40)
    path.write_bytes(data)
    whole = verdict(path)
    assert [damage.begin for damage in whole.damages] == places
    assert whole.damages.total == 20
    monkeypatch.setattr("binlog_core.inspect.verify.MOST_PLACES", 5)
    found = verdict(path)
    assert [damage.begin for damage in found.damages] == places[:5]
    assert found.damages.total == 20
    assert found.rows == whole.rows


def test_transactions_without_an_end_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log("8.4.0")
    for i in range(30):
        log.gtid("00112233-4455-6677-8899-aabbccddeeff", i + 1)
        log.begin()
        log.insert(TABLE, [{"id": i}])
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    monkeypatch.setattr("binlog_core.inspect.verify.MOST_PLACES", 5)
    found = verdict(path)
    assert (len(found.incomplete), found.incomplete_count, found.state) == (5, 30, "cut")


def test_the_contents_that_are_kept_to_skip_equal_events_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    for i in range(60):
        log.query(f"INSERT INTO notes VALUES ({i}, '{'x' * 200_000}')", "shop")
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())  # 12 MB
    monkeypatch.setattr("binlog_core.inspect.verify._CONTENT_BYTES", 1 << 20, raising=False)
    verdict(path)
    tracemalloc.start()
    assert verdict(path).state == "whole"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 << 20


def test_neighbours_are_one() -> None:
    places = Places()
    for begin, end, reason in ((4, 9, "a"), (9, 12, "a"), (12, 20, "b"), (21, 30, "b")):
        places.add(Damage(begin, end, reason))
    assert list(places) == [Damage(4, 12, "a"), Damage(12, 20, "b"), Damage(21, 30, "b")]
    assert places.total == 3


def test_the_temporary_file_has_a_limit(tmp_path: Path) -> None:
    log = Log()
    log.begin()
    log.insert(TABLE, [{"id": i} for i in range(100_000)])
    log.commit()
    data = log.getvalue()
    path = tmp_path / "bin.000001.gz"
    path.write_bytes(gzip.compress(data))
    assert verdict(path, Limits(spool_bytes=len(data))).rows == 100_000
    with pytest.raises(DecompressionError, match=r"Limits\.spool_bytes=100000") as caught:
        verdict(path, Limits(spool_bytes=100_000))
    assert caught.value.path == str(path)


def live(rows: int = 3) -> tuple[bytes, int]:
    """A log in use, and where its last event begins."""
    log = Log(in_use=True)
    last = 0
    for i in range(rows):
        log.begin()
        log.insert(TABLE, [{"id": i}])
        last = log.commit()
    return log.getvalue(), last


@pytest.mark.parametrize("missing", [1, 12, 25])
@pytest.mark.parametrize("filled", [False, True], ids=["cut", "not written yet"])
def test_the_torn_end_of_a_live_log_is_a_tail(missing: int, filled: bool, tmp_path: Path) -> None:
    data, last = live()
    path = tmp_path / "bin.000001"
    missing = min(missing, 8) if filled else missing  # the header is there
    path.write_bytes(data[:-missing] + bytes(missing if filled else 0))
    found = verdict(path)
    assert (found.state, list(found.damages), list(found.unreadable)) == ("cut", [], [])
    assert found.tail is not None and (found.tail.begin, found.tail.end) == (last, path.stat().st_size)
    # In a closed log the same bytes are damage.
    closed = Log()
    for i in range(3):
        closed.begin()
        closed.insert(TABLE, [{"id": i}])
        closed.commit()
    path.write_bytes(closed.getvalue()[:-missing] + bytes(missing))
    assert verdict(path).state == "damaged"


@pytest.mark.parametrize("packed", [False, True])
def test_every_event_is_decoded(packed: bool, tmp_path: Path) -> None:
    """A malformed table map that no rows event uses; a GTID list that ends inside a GTID."""
    log = Log()
    log.begin()
    if packed:
        with log.compressed_transaction() as inner:
            inner.event(n.TABLE_MAP, BAD_TABLE_MAP)
        at = next(event.position for event in opened(log) if event.type_code == n.TRANSACTION_PAYLOAD)
    else:
        at = log.event(n.TABLE_MAP, BAD_TABLE_MAP)
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    found = verdict(path)
    assert [place.begin for place in found.unreadable] == [at]
    assert found.state == "whole" and found.unreadable.total == 1


def test_a_log_that_needs_a_library_is_not_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without zstandard, the rows of a compressed transaction have not been read."""
    log = Log()
    with log.compressed_transaction() as inner:
        inner.begin()
        inner.insert(TABLE, [{"id": 1}])
        inner.commit()
    (tmp_path / "bin.000001").write_bytes(log.getvalue())
    assert verdict(tmp_path / "bin.000001").rows == 1
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"binlog_core\[zstd\]"):
        verdict(tmp_path / "bin.000001")
    ran = run("verify", tmp_path)
    assert (ran.code, ran.text) == (2, "")
    assert "binlog_core[zstd]" in ran.err


def opened(log: Log) -> list[Event]:
    with binlog_core.open(log.getvalue(), on_error="skip") as made:
        return list(made.events())


# Two columns are said to follow, and there is the type of one.
BAD_TABLE_MAP = bytes((7, 0, 0, 0, 0, 0, 1, 0)) + b"\4shop\0\3odd\0" + b"\2\3"


def test_a_damaged_descriptor_is_reported(tmp_path: Path) -> None:
    data = bytearray(live()[0])
    data[4 + 19 + 2 + 50] ^= 1  # its time
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    found = verdict(path)
    end = 4 + int.from_bytes(data[13:17], "little")
    assert [(one.begin, one.end) for one in found.damages] == [(4, end)]
    assert found.damages[0].reason.startswith("the CRC32 of the format description")
    assert (found.state, found.rows) == ("damaged", 3)


def test_warnings_of_other_threads_are_left_alone(tmp_path: Path) -> None:
    """Silencing warnings would do so for the whole process."""
    path = tmp_path / "bin.000001"
    path.write_bytes(damaged(6)[0])
    (file,) = resolve(str(path))
    before = warnings.filters[:], warnings.showwarning
    seen = []

    def look(_: str, __: int) -> None:
        seen.append((warnings.filters[:], warnings.showwarning) == before)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        before = warnings.filters[:], warnings.showwarning
        verify_log(file, look)
    assert seen and all(seen) and not told


@pytest.mark.parametrize("command", ["verify", "info"])
def test_so_has_what_comes_by_standard_input(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = damaged(10)
    monkeypatch.setattr("binlog_core.cli.options.DEFAULT_LIMITS", Limits(spool_bytes=len(data) - 1))
    ran = run(command, "-", stdin=data)
    assert ran.code
    assert f"Limits.spool_bytes={len(data) - 1}" in ran.err
    monkeypatch.setattr("binlog_core.cli.options.DEFAULT_LIMITS", Limits(spool_bytes=len(data)))
    assert "Limits.spool_bytes" not in run(command, "-", stdin=data).err


def test_several_logs_are_read_at_once(tmp_path: Path) -> None:
    """Results come in the logs' order; an error belongs to one file; leaving early waits for none."""
    files = [Path(golden.path) for golden in golden_logs("mysql97/types_*")]
    damaged = tmp_path / "bin.000002"
    damaged.write_bytes(files[0].read_bytes()[:-30])
    other = tmp_path / "bin.000003"
    other.write_bytes(b"not a log")
    logs = [file for path in [files[0], damaged, *files[1:]] for file in resolve(str(path))]
    logs.insert(2, LogFile(str(other)))
    one, several = list(verify(logs, threads=1)), list(verify(logs, threads=3))
    assert [str(found) for found in several] == [str(found) for found in one]
    assert [getattr(found, "state", None) for found in several[:4]] == ["whole", "cut", None, "whole"]
    assert isinstance(several[2], BinlogError)

    taken = verify(logs, threads=3)
    next(taken)
    taken.close()
    assert not [thread for thread in threading.enumerate() if "binlog_core-verify" in thread.name]


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    for number in (1, 3):
        (tmp_path / f"bin.{number:06}").write_bytes(damaged(1)[0])
    ran = run("verify", tmp_path)
    assert ran.code == 0 and ran.text.count(": whole") == 2
    assert f"note: numbers missing between the files: {tmp_path / 'bin'} 2 (file " in ran.err


def test_the_same_targets_as_everywhere(tmp_path: Path) -> None:
    data = golden_logs("mysql97/types_ints")[0].data
    for number in (1, 2, 3):
        (tmp_path / f"bin.00000{number}").write_bytes(data)
    paths = [f"{tmp_path}/bin.00000{number}" for number in (1, 2, 3)]
    for target in (tmp_path, f"{tmp_path}/bin.*", paths, binlog_core.open(tmp_path), tmp_path / "bin.000001"):
        found = [verdict.path for verdict in verify(target) if isinstance(verdict, Verdict)]
        assert found == (paths if target != tmp_path / "bin.000001" else paths[:1])
    with binlog_core.open(tmp_path, start=(paths[1], 4)) as log:
        assert [verdict.path for verdict in verify(log) if isinstance(verdict, Verdict)] == paths[1:]
    with pytest.raises(BinlogError, match="no file matches the pattern"):
        verify(f"{tmp_path}/other.*")


def test_files_with_pages(tmp_path: Path) -> None:
    """MariaDB's binary log in InnoDB: damage has its place in the log, and its page in the file."""
    data = one_file(60)
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(data)
    whole = verdict(path)
    assert (whole.state, whole.rows, whole.checksums, whole.paged) == ("whole", 60, 0, True)
    torn = next(at for at in range(3 * 512, len(data), 512) if data[at] & 0x80)  # inside a record
    path.write_bytes(data[:torn])
    cut = verdict(path)
    assert cut.state == "cut" and cut.tail is not None and cut.rows < 60
    writer = ibb.Writer(shift=9, pages=1000)
    writer.record(ibb.PIECE, ibb.packed(0) * 5 + bytes(900))
    path.write_bytes(writer.contents()[0][:1024])
    cut = verdict(path)
    assert cut.tail == Damage(cut.size, cut.size, "the file ends inside a record")
    broken = bytearray(data)
    for page in (6, 9):
        broken[512 * page + 40] ^= 1
    path.write_bytes(broken)
    found = verdict(path)
    assert found.state == "damaged"
    assert [one.reason for one in found.damages] == [
        "wrong checksum of page 6, at 3072 in the file",
        "wrong checksum of page 9, at 4608 in the file",
    ]
    with binlog_core.open(path, on_error="skip") as log:
        headers = log.headers()
        assert 45 <= found.rows == len(list(log.rows())) < 60
    for one in found.damages:
        inside = (headers["position"] >= one.begin) & (headers["position"] < one.end)
        assert one.end - one.begin == 512 and not inside.any()
    ran = run("verify", path)
    assert ran.code == 1
    assert "page checksums compared" in ran.text and "wrong checksum of page 9" in ran.text


@pytest.mark.parametrize("pages", [(1,), (3, 49, 62), (18, 40), (31, 32), (50,)])
def test_rows_behind_damaged_pages(pages: tuple[int, ...], tmp_path: Path) -> None:
    """They are those that the file's reader gives, no more and no fewer: it knows where records begin."""
    data = bytearray(one_file(150, interval=5))
    for page in pages:
        data[512 * page + 40] ^= 1
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(data)
    with binlog_core.open(path, on_error="skip") as log:
        expected = len(list(log.rows()))
    found = verdict(path)
    assert 138 <= found.rows == expected < 150
    assert [one.reason for one in found.damages] == [
        f"wrong checksum of page {page}, at {512 * page} in the file" for page in pages
    ]
