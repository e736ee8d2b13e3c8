"""``binlog_core.inspect.verify`` of hostile logs: what it keeps is bounded, all of it is counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from support.writer import Log, Table

from binlog_core import DecompressionError, Limits
from binlog_core._sources.log_files import resolve
from binlog_core.inspect import verify
from binlog_core.inspect.verify import Damage, Places, Verdict

TABLE = Table("shop", "orders", [("id", "INT UNSIGNED")])

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def verdict(path: Path, limits: Limits | None = None) -> Verdict:
    (file,) = resolve(str(path))
    return verify.verify(file, limits=limits or Limits())


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
    monkeypatch.setattr(verify, "MOST_PLACES", 5)
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
    monkeypatch.setattr(verify, "MOST_PLACES", 5)
    found = verdict(path)
    assert (len(found.incomplete), found.incomplete_count, found.state) == (5, 30, "cut")


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
