"""Following a log while a server writes it: incomplete events, the next log, and checkpoints."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.golden import golden_logs
from support.sources import one, read_all, written
from support.writer import Log, Table

import binlog_core
from binlog_core._sources.follow import FileFollower, logs_after, next_log_after
from binlog_core._walk.resync import READ_LEN

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(100)")])
COUNT = 6
DATA = golden_logs("mysql97/stop")[0].data


def growing_log(name: str = "8.0.36") -> tuple[bytes, list[int]]:
    """A log in use of some transactions, and where each rows event begins."""
    log = Log(name, in_use=True)
    places = []
    for number in range(COUNT):
        log.begin()
        places.append(log.insert(TABLE, [{"id": number, "note": "n" * 50}]))
        log.commit(number)
    return log.getvalue(), places


class Reading:
    """A pass over a growing log in a separate thread."""

    def __init__(self, path: Path, what: str = "rows", **options: Any) -> None:
        self.what = what
        self.ids: list[int] = []  # of changes; of events their positions
        self.error: BaseException | None = None
        self.log = binlog_core.open(path, follow=True, **options)
        self._met = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            for one in self.log.rows() if self.what == "rows" else self.log.events():
                with self._met:
                    self.ids.append(one.after["id"] if self.what == "rows" else one.position)
                    self._met.notify()
        except BaseException as error:
            self.error = error
        with self._met:
            self._met.notify()

    def until(self, count: int) -> None:
        with self._met:
            assert self._met.wait_for(lambda: len(self.ids) >= count or self.error, 60), self.ids
        assert self.error is None, self.error

    def stop(self) -> None:
        self.log.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.log.close()


def torn(data: bytes, place: int) -> tuple[bytes, int]:
    """The log up to the end of the event at `place`, of which the last bytes are not written yet."""
    end = place + int.from_bytes(data[place + 9 : place + 13], "little")
    return data[: end - 20] + bytes(20), end


@pytest.mark.parametrize("at_once", [False, True], ids=["waits", "goes on at once"])
def test_an_event_that_is_still_being_written_is_read_again(tmp_path: Path, at_once: bool) -> None:
    data, places = growing_log()
    path = tmp_path / "bin.000001"
    begin, end = torn(data, places[3])
    path.write_bytes(begin)
    reading = Reading(tmp_path)
    try:
        reading.until(3)
        if not at_once:
            reading._thread.join(0.5)  # it has looked at the event more than once
        with path.open("r+b") as file:
            file.seek(end - 20)
            file.write(data[end - 20 :])
        reading.until(COUNT)
    finally:
        reading.stop()
    assert reading.ids == list(range(COUNT))
    assert reading.log.tail is None
    assert not reading.log.report.counts


@pytest.mark.parametrize("at_once", [False, True], ids=["waits", "goes on at once"])
@pytest.mark.parametrize("missing", [0, 20, 60], ids=["zeros", "a part", "most"])
def test_events_wait_for_one_that_is_still_being_written(tmp_path: Path, missing: int, at_once: bool) -> None:
    data, places = growing_log()
    path = tmp_path / "bin.000001"
    begin, end = torn(data, places[3])
    path.write_bytes(begin[: len(begin) - missing])
    want = [event.position for event in binlog_core.open(data).events()]
    reading = Reading(tmp_path, "events")
    try:
        reading.until(want.index(places[3]))
        if not at_once:
            reading._thread.join(0.5)
        with path.open("r+b") as file:
            file.seek(end - 80)
            file.write(data[end - 80 :])
        reading.until(len(want))
    finally:
        reading.stop()
    assert reading.ids == want
    assert reading.log.tail is None and not reading.log.report.counts


def test_a_torn_end_that_stays_is_reported_when_the_next_log_begins(tmp_path: Path) -> None:
    data, places = growing_log()
    (tmp_path / "bin.000001").write_bytes(torn(data, places[3])[0])
    reading = Reading(tmp_path)
    try:
        reading.until(3)
        (tmp_path / "bin.000002").write_bytes(data)
        reading.until(3 + COUNT)
    finally:
        reading.stop()
    assert reading.ids == [0, 1, 2, *range(COUNT)]
    assert reading.log.report.counts == {"wrong_in_use_checksum": 1}
    assert reading.log.tail is not None and reading.log.tail.offset == places[3]


def test_damage_in_the_midst_of_a_growing_log_ends_the_pass(tmp_path: Path) -> None:
    data, places = growing_log()
    at = places[3] + 30
    (tmp_path / "bin.000001").write_bytes(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
    reading = Reading(tmp_path)
    reading._thread.join(60)
    reading.stop()
    assert isinstance(reading.error, binlog_core.ChecksumError)
    assert (reading.error.offset, reading.ids) == (places[3], [0, 1, 2])


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_pass_from_a_checkpoint_reports_no_earlier_one(tmp_path: Path, mmap: bool, rows: int) -> None:
    """Not even where nothing follows: a reader that stores the position must not go back."""
    log = Log()
    begins = []
    for number in range(3):
        begins.append(log.begin())
        for row in range(rows):
            log.insert(TABLE, [{"id": 10 * number + row, "note": ""}])
        log.commit(number)
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    limits = binlog_core.Limits(group_rows=1)
    for start, wanted in zip([*begins[1:], log.position], [[10, 20], [20], []], strict=True):
        with binlog_core.open(path, mmap=mmap, start=start, limits=limits) as opened:
            groups = list(opened.groups())
        checkpoints = [group.resume_position for group in groups]
        assert checkpoints == sorted(checkpoints)
        assert all(start <= checkpoint <= log.position for checkpoint in checkpoints)
        found = [int(i) for g in groups for b in g.batches for i in b.array["row"]["id"]]
        assert found == [ten + row for ten in wanted for row in range(rows)]


def numbered(folder: Path, number: int, data: bytes | None = None) -> Path:
    path = folder / f"bin.{number:06}"
    path.write_bytes(growing_log()[0] if data is None else data)
    return path


def rotating(to: str) -> bytes:
    log = Log("8.0.36")
    log.begin()
    log.insert(TABLE, [{"id": 100, "note": ""}])
    log.commit()
    log.rotate(to)
    return log.getvalue()


def test_a_stray_file_leads_no_follower_away(tmp_path: Path) -> None:
    """It is reported, and the log that does come next is read."""
    numbered(tmp_path, 1)
    reading = Reading(tmp_path / "bin.000001")
    try:
        reading.until(COUNT)
        numbered(tmp_path, 99)
        reading._thread.join(0.6)
        assert len(reading.ids) == COUNT
        numbered(tmp_path, 2)
        reading.until(2 * COUNT)
    finally:
        reading.stop()
    assert reading.log.report.file_gaps == 2  # behind either log
    assert reading.log.report.first["file_gaps"].detail == f"{tmp_path / 'bin'} 2 to 98"


def test_a_follower_goes_where_the_rotate_event_says_and_tells_the_gap(tmp_path: Path) -> None:
    numbered(tmp_path, 1, rotating("bin.000007"))
    reading = Reading(tmp_path)
    try:
        reading.until(1)
        numbered(tmp_path, 7)
        reading.until(1 + COUNT)
    finally:
        reading.stop()
    assert reading.log.report.first["file_gaps"].detail == f"{tmp_path / 'bin'} 2 to 6"


@pytest.mark.parametrize("what", ["rows", "events"])
def test_a_log_that_was_removed_before_it_was_read_is_an_error(tmp_path: Path, what: str) -> None:
    numbered(tmp_path, 1, rotating("bin.000002"))
    reading = Reading(tmp_path / "bin.000001", what)
    try:
        reading.until(1)
        numbered(tmp_path, 3)
        reading._thread.join(60)
    finally:
        reading.stop()
    assert isinstance(reading.error, binlog_core.BinlogError)
    assert "number 2, is missing, but bin.000003 exists" in str(reading.error)


def test_renamed_copies_follow_by_their_own_numbers(tmp_path: Path) -> None:
    numbered(tmp_path, 1, rotating("bin.000042"))
    numbered(tmp_path, 2)
    reading = Reading(tmp_path / "bin.000001")
    try:
        reading.until(1 + COUNT)
    finally:
        reading.stop()


def test_a_relay_logs_source_names_no_next_log(tmp_path: Path) -> None:
    (tmp_path / "relay-bin.000001").write_bytes(rotating("mysql-bin.000077"))
    (tmp_path / "relay-bin.000002").write_bytes(growing_log()[0])
    reading = Reading(tmp_path / "relay-bin.000001")
    try:
        reading.until(1 + COUNT)
    finally:
        reading.stop()
    assert not reading.log.report.counts


def test_stopping_ends_what_runs_and_the_log_can_be_followed_again(tmp_path: Path) -> None:
    path = numbered(tmp_path, 1)
    with binlog_core.open(path, follow=True) as log:
        for _ in range(3):
            waiting = [log.rows(), log.events()]
            threads = [threading.Thread(target=list, args=(one,)) for one in waiting]
            for thread in threads:
                thread.start()
            log.stop()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive()
        seen: list[int] = []
        log.stop()
        again = log.rows()
        for change in again:
            seen.append(change.after["id"])  # type: ignore[index]
            if len(seen) == COUNT:
                numbered(tmp_path, 2)
            if len(seen) == 2 * COUNT:
                log.stop()
    assert seen == 2 * list(range(COUNT))


def test_stopping_ends_the_pass_over_each_file(tmp_path: Path) -> None:
    numbered(tmp_path, 1)
    numbered(tmp_path, 2)
    with binlog_core.open(tmp_path, follow=True) as log:
        for _ in range(2):
            names, seen = [], 0
            for one in log.each_file():
                names.append(Path(one.files[0].path).name)
                for _ in one.rows():
                    seen += 1
                    if seen == 2 * COUNT:
                        log.stop()
            assert (names, seen) == (["bin.000001", "bin.000002"], 2 * COUNT)


@pytest.mark.parametrize("what", ["rows", "events"])
def test_damage_in_an_event_as_long_as_what_is_read_at_once(tmp_path: Path, what: str) -> None:
    """An event with bytes after it is not taken for one that is still being written."""
    table = Table("shop", "large", [("id", "INT"), ("note", "LONGTEXT")])

    def log_with(size: int) -> tuple[bytearray, int, int]:
        log = Log("8.0.36", in_use=True)
        log.begin()
        place = log.insert(table, [{"id": 1, "note": "n" * size}])
        log.commit(1)
        log.begin()
        log.insert(TABLE, [{"id": 2, "note": "n"}])
        log.commit(2)
        data = bytearray(log.getvalue())
        return data, place, int.from_bytes(data[place + 9 : place + 13], "little")

    size = READ_LEN
    _, _, length = log_with(size)
    data, place, length = log_with(size - (length - READ_LEN))
    assert length == READ_LEN
    data[place + 5000] ^= 1
    (tmp_path / "bin.000001").write_bytes(data)
    reading = Reading(tmp_path, what)
    try:
        reading._thread.join(30)
        assert isinstance(reading.error, binlog_core.ChecksumError)
        assert reading.error.offset == place
    finally:
        reading.stop()


def test_stop_before_the_first_pass(tmp_path: Path) -> None:
    (tmp_path / "bin.000001").write_bytes(growing_log()[0])
    with binlog_core.open(tmp_path, follow=True) as log:
        log.stop()
        assert len(list(log.rows())) == COUNT
        rows = log.rows()
        assert next(rows).after["id"] == 0
        log.stop()
        assert len(list(rows)) == COUNT - 1


def test_waiting_for_more(tmp_path):
    path = written(tmp_path, DATA[:100])
    source = one(path, mmap=False)
    assert read_all(source) == DATA[:100]
    assert source.wait(0.01, poll=0.001) is False
    stop = threading.Event()
    stop.set()
    assert source.wait(60, stop=stop) is False

    def write() -> None:
        time.sleep(0.05)
        with open(path, "ab") as file:
            file.write(DATA[100:])

    writer = threading.Thread(target=write)
    writer.start()
    assert source.wait(60, poll=0.005) is True
    writer.join()
    assert read_all(source) == DATA[100:]


def test_following_from_log_to_log(tmp_path):
    first = written(tmp_path, DATA[:100], "bin.000009")
    source = one(first, mmap=False)
    stop = threading.Event()
    follower = FileFollower(source, poll=0.001, stop=stop)
    assert follower.wait(0) == "more"
    assert read_all(source) == DATA[:100]
    assert follower.wait(0.005) == "timeout"
    second = tmp_path / "bin.000010"
    second.write_bytes(b"\xfe")  # the server has only begun
    written(tmp_path, b"text", "bin.index")
    assert follower.wait(0.005) == "timeout"
    second.write_bytes(DATA)
    with open(first, "ab") as file:
        file.write(b"rotate")
    assert follower.wait() == "more"
    assert read_all(source) == b"rotate"
    assert follower.wait() == "next"
    assert follower.next_path == str(second)
    last = one(str(second), mmap=False)
    read_all(last)
    threading.Timer(0.05, stop.set).start()
    assert FileFollower(last, poll=0.001, stop=stop).wait() == "stopped"


def test_next_log(tmp_path, monkeypatch):
    for name in ("bin.999999", "bin.1000000", "bin.1000002", "other.1000001"):
        written(tmp_path, DATA, name)
    path = str(tmp_path / "bin.")
    assert next_log_after(path + "999999") == path + "1000000"
    assert next_log_after(path + "1000000") is None  # 1000002 is not the next
    assert logs_after(path + "1000000") == {1000002: path + "1000002"}
    assert next_log_after(path + "1000002") is None
    assert next_log_after(str(tmp_path / "alone.binlog")) is None
    monkeypatch.chdir(tmp_path)
    assert next_log_after("bin.999999") == "bin.1000000"
    encrypted = golden_logs("mysql97/encrypted")[0].data
    written(tmp_path, encrypted[:511], "bin.1000003")
    assert next_log_after("bin.1000002") is None
    written(tmp_path, encrypted[:512], "bin.1000003")
    assert next_log_after("bin.1000002") == "bin.1000003"
