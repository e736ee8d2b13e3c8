"""Following a log while a server writes it: events that are not whole yet, and checkpoints."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

import binlog_core

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(100)")])
COUNT = 6


def written(name: str = "8.0.36") -> tuple[bytes, list[int]]:
    """A log in use of some transactions, and where each rows event begins."""
    log = Log(name, in_use=True)
    places = []
    for number in range(COUNT):
        log.begin()
        places.append(log.insert(TABLE, [{"id": number, "note": "n" * 50}]))
        log.commit(number)
    return log.getvalue(), places


class Reading:
    """A pass over a growing log in a thread of its own."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.ids: list[int] = []
        self.error: BaseException | None = None
        self.log = binlog_core.open(path, follow=True, **options)
        self._met = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            for change in self.log.rows():
                with self._met:
                    self.ids.append(change.after["id"])  # type: ignore[index]
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
    data, places = written()
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


def test_a_torn_end_that_stays_is_told_when_the_next_log_begins(tmp_path: Path) -> None:
    data, places = written()
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
    data, places = written()
    at = places[3] + 30
    (tmp_path / "bin.000001").write_bytes(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
    reading = Reading(tmp_path)
    reading._thread.join(60)
    reading.stop()
    assert isinstance(reading.error, binlog_core.ChecksumError)
    assert (reading.error.offset, reading.ids) == (places[3], [0, 1, 2])


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_pass_from_a_checkpoint_tells_no_earlier_one(tmp_path: Path, mmap: bool, rows: int) -> None:
    """Not even where nothing follows: a reader that stores it must not go back."""
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
