"""An event of an unknown type may hold rows: whatever reads it stops there, and has what comes before it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gtid_server import gtid_server
from support.writer import Log, Table

import binlog_core
from binlog_core import DecodeError
from binlog_core.archive import archive
from binlog_core.inspect.verify import Verdict, verify
from binlog_core.replay import plan_undo

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "TEXT")], primary_key=["id"])
SERVER = {"ssl_mode": "DISABLED", "reconnect": 2}
UNKNOWN, IGNORABLE = 201, 0x80
IDS = [1, 11, 2, 12, 3, 13, 4, 14, 5, 15]

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def log_of(flags: int) -> tuple[bytes, int]:
    """Transactions of two rows; the unknown event between those of the third, and its offset."""
    log, place = Log("12.3.1-MariaDB-log", checksum=False), 0
    for number in range(1, 6):
        log.event(162, struct.pack("<QIB6x", number, 0, 0))
        log.insert(TABLE, [{"id": number, "note": "a"}])
        if number == 3:
            place = log.event(UNKNOWN, b"of a later version", flags=flags)
        log.insert(TABLE, [{"id": 10 + number, "note": "b"}])
        log.commit()
    return log.getvalue(), place


@contextmanager
def in_a_file(data: bytes, folder: Path) -> Iterator[Any]:
    (folder / "bin.000001").write_bytes(data)
    yield folder / "bin.000001"


@contextmanager
def in_an_archive(data: bytes, folder: Path) -> Iterator[Any]:
    """It keeps the bytes, whatever they mean, so that a later version can read them."""
    with gtid_server(data, seed=1) as (_, url):
        status = archive(url, folder / "archive", options=SERVER, until="now")
    assert (status.state, status.gtids) == ("stopped", "0-1-1:5")
    yield folder / "archive"


@contextmanager
def live(data: bytes, folder: Path) -> Iterator[Any]:
    with gtid_server(data, seed=2) as (_, url):
        yield url


@pytest.mark.parametrize(
    ("way", "threads"), [(in_a_file, 1), (in_a_file, 2), (in_an_archive, 1), (in_an_archive, 2), (live, 0)]
)
def test_rows(way: Callable[[bytes, Path], Any], threads: int, tmp_path: Path) -> None:
    def read(target: Any, **options: Any) -> tuple[list[int], binlog_core.Report]:
        server = {"server": SERVER} if way is live else {"threads": threads}
        found: list[int] = []
        with binlog_core.open(target, **server, **options) as log:
            try:
                found += (change.after["id"] for change in log.rows())
            except DecodeError as error:
                assert f"unknown type {UNKNOWN}, not marked as ignorable" in error.message
                assert (error.type_code, bool(error.path)) == (UNKNOWN, True)
                if way is not live:
                    assert error.offset is not None
                    with open(error.path, "rb") as file:
                        file.seek(error.offset + 4)
                        assert file.read(1)[0] == UNKNOWN
                found.append(-1)
            return found, log.report

    data, _ = log_of(0)
    with way(data, tmp_path) as target:
        assert read(target)[0] == [*IDS[:5], -1]
        found, report = read(target, on_error="skip")
        assert (found, report.skipped_events) == (IDS, 1)
    (tmp_path / "marked").mkdir()
    with way(log_of(IGNORABLE)[0], tmp_path / "marked") as target:
        found, report = read(target, strict=True)
        assert (found, report.skipped_events) == (IDS, 0)


def test_verify_names_it(tmp_path: Path) -> None:
    data, place = log_of(0)
    with in_a_file(data, tmp_path) as path:
        (one,) = verify(path)
    assert isinstance(one, Verdict)
    assert [(damage.begin, str(UNKNOWN) in damage.reason) for damage in one.damages] == [(place, True)]


def test_undo_is_refused(tmp_path: Path) -> None:
    """It would take back a part of what the transaction did."""
    data, place = log_of(0)
    with pytest.raises(DecodeError) as raised:
        plan_undo(data, gtids="0-1-3")
    assert (raised.value.offset, raised.value.type_code) == (place, UNKNOWN)
    made = plan_undo(log_of(IGNORABLE)[0], gtids="0-1-3")
    assert len(list(made.ready())) == 2


def test_a_mirror_stops_before_it(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    from binlog_core.lake.runner import HERE
    from binlog_core.mirror.changes import LogPlan, decode
    from binlog_core.mirror.lake import Lake
    from binlog_core.schema.given import parse_create_table

    def files(flags: int) -> int:
        folder = tmp_path / f"archive-{flags}"
        folder.mkdir()
        (folder / "bin.000001").write_bytes(log_of(flags)[0])
        plan = LogPlan(str(folder), ["shop.orders"])
        definition = parse_create_table(
            "CREATE TABLE orders (id INT PRIMARY KEY, note TEXT)", "shop", "orders"
        )
        start = plan.begin((0, 0), [definition], {})
        end = plan.behind(start, None, plan.end())
        decoded = decode(HERE, Lake(str(tmp_path / f"lake-{flags}")), plan, start, end)
        return sum(sum(one.rows.values()) for one in decoded.files["shop.orders"])

    assert files(IGNORABLE) == len(IDS)
    with pytest.raises(DecodeError) as raised:
        files(0)
    assert (raised.value.type_code, raised.value.offset) == (UNKNOWN, log_of(0)[1])
