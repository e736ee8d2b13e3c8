"""Archives that grow while they are read: the next log of the same server, or the next server's."""

from __future__ import annotations

import threading
import time
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from support.archive import FakeServer, archive, busy, ids, replica_of

import binlog_core
from binlog_core.errors import DivergedError
from binlog_core.position import Position


class Following:
    """Reading an archive while it grows."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.ids: list[int] = []
        self.error: BaseException | None = None
        self.position: str | None = None
        self._log = binlog_core.open(folder, follow=True, **options)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            for group in self._log.groups():
                for batch in group.batches:
                    self.ids += batch.array["row"]["id"].tolist()
                self.position = str(group.position)
        except BaseException as error:
            self.error = error

    def until(self, count: int) -> None:
        end = time.monotonic() + 30
        while len(self.ids) < count and self._thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)

    def stop(self) -> None:
        self._log.stop()
        self._thread.join(30)
        self._log.close()


@pytest.mark.parametrize("compress", [None, "zstd"])
def test_following_continues_in_the_next_segment(tmp_path: Path, compress: str | None) -> None:
    server = busy(FakeServer(base="replica"), 20)
    archive(server, tmp_path)
    reading = Following(tmp_path)
    try:
        reading.until(20)
        # The lost server had not ended its last transaction, whose row was read already.
        last, replica = server.next_id, replica_of(server)
        server.transaction()
        del server.logs[server.current]._out[-31:]
        archive(server, tmp_path, compress=compress)
        reading.until(21)
        replica.transaction(gtid=(server.uuid, last), key=last)
        replica.next_id = server.next_id
        for _ in range(5):
            replica.transaction()
        archive(replica, tmp_path, compress=compress)
        reading.until(26)
        position = reading.position
        replica.rotate()
        replica.transaction()
        archive(replica, tmp_path, compress=compress)
        reading.until(27)
    finally:
        reading.stop()
    assert reading.error is None
    assert reading.ids == list(range(1, 28)) == ids(tmp_path)
    assert position is not None and "timeline-2/replica.000003" in position
    assert ids(tmp_path, start=Position.parse(position)) == [27]


@pytest.mark.parametrize("comes", [True, False], ids=["which comes later", "which is lost"])
def test_a_transaction_that_was_cut_takes_no_rows_of_others(tmp_path: Path, comes: bool) -> None:
    server = busy(FakeServer(), 3)
    archive(server, tmp_path)
    reading = Following(tmp_path)
    try:
        reading.until(3)
        replica = replica_of(server)
        server.transaction()
        del server.logs[server.current]._out[-31:]  # the lost server had not ended it
        archive(server, tmp_path)
        reading.until(4)
        replica.transaction(key=101)  # its own
        replica.rotate()
        if comes:
            replica.transaction(gtid=(server.uuid, 4), key=4)
        replica.transaction(key=102)
        archive(replica, tmp_path)
        reading.until(6)
    finally:
        reading.stop()
    assert reading.error is None
    assert reading.ids == [1, 2, 3, 4, 101, 102]


def test_a_lost_transaction_of_mariadb_whose_number_another_has_is_reported(tmp_path: Path) -> None:
    server = busy(FakeServer("10.11.6-MariaDB-log"), 3)
    archive(server, tmp_path)
    reading = Following(tmp_path)
    try:
        reading.until(3)
        replica = FakeServer(server.version, server_id=2, base="replica")
        for name in server.logs:  # a replica's log holds the source's GTIDs
            replica.logs[name], replica.before[name] = copy(server.logs[name]), server.before[name]
            replica.logs[name]._out = server.logs[name]._out[:]
        replica.executed, replica.next_id, replica.clock = server.executed, server.next_id, server.clock
        replica.rotate()
        server.transaction()
        del server.logs[server.current]._out[-31:]
        archive(server, tmp_path)
        reading.until(4)
        replica.transaction()
        archive(replica, tmp_path)
        reading._thread.join(30)
    finally:
        reading.stop()
    assert isinstance(reading.error, DivergedError)
    assert "0-1-4" in reading.error.message
    assert reading.ids == [1, 2, 3, 4]


def test_following_stops_at_a_gap(tmp_path: Path) -> None:
    server = busy(FakeServer(), 5)
    archive(server, tmp_path)
    reading = Following(tmp_path)
    try:
        reading.until(5)
        for _ in range(3):
            server.rotate()
            server.transaction()
        for name in list(server.logs)[:-1]:
            del server.logs[name]
        archive(server, tmp_path, start=(server.current, 4))
        reading._thread.join(30)
    finally:
        reading.stop()
    assert reading.ids == [1, 2, 3, 4, 5]
    assert "gap" in str(reading.error)
