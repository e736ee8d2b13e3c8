"""Ranges: where they are cut, what headers show about them, and where they end."""

from __future__ import annotations

import pytest
from support.indexed import UUID, T
from support.writer import Log

from binlog_core._sources.sources import BufferSource
from binlog_core._walk.track import Rules, Track
from binlog_core.index.ranges import Range, Ranges, known_of
from binlog_core.report import Report


def found_in(log: Log) -> tuple[list[Range], bool]:
    ranges = Ranges(Track(BufferSource(log.getvalue(), "log"), Rules(Report())))
    ranges.reach(1 << 64)
    return ranges.found[: ranges.sound], ranges.has_gtids


def written(*, gtids: bool) -> tuple[Log, list[int]]:
    """Ten transactions of more than 1000 bytes, of one server each, and where each begins."""
    log, begins = Log("8.4.0"), []
    for i in range(10):
        begins.append(log.position)
        log.timestamp, log.server_id = 1_700_000_000 + i, 1 + i
        if gtids:
            log.gtid(UUID, i + 1)
        log.begin("shop")
        log.insert(T, [{"id": n, "b": "x" * 190} for n in range(5)])
        log.commit()
    return log, begins


@pytest.mark.parametrize("gtids", [True, False])
def test_ranges_begin_where_transactions_do(gtids: bool) -> None:
    log, begins = written(gtids=gtids)
    log.rotate()
    ranges, has_gtids = found_in(log)
    assert has_gtids is gtids
    # Of 2000 bytes at least: the first, which begins with the descriptor, and then two transactions each.
    assert [one.begin for one in ranges] == [4, *begins[2::2]]
    assert [one.end for one in ranges] == [*begins[2::2], len(log.getvalue())]
    # The descriptor's time is not one of a change; the rotation is of the last server.
    assert [(one.first_timestamp, one.last_timestamp) for one in ranges] == [
        (1_700_000_000 + i, 1_700_000_001 + i) for i in range(0, 10, 2)
    ]
    assert [one.servers for one in ranges] == [{i + 1, i + 2} for i in range(0, 10, 2)]


def test_an_open_transaction_is_not_in_a_range() -> None:
    """A log that ends inside a transaction is read after its last whole range."""
    log, begins = written(gtids=True)
    begins.append(log.position)
    log.gtid(UUID, 11)
    log.begin("shop")
    assert [one.end for one in found_in(log)[0]] == begins[2::2]


def test_many_servers_are_not_known() -> None:
    assert known_of({1}, {2}) == {1, 2}
    assert known_of({1}, set()) == {1}
    assert known_of(None, {2}) is None
    assert known_of({1}, None) is None
    assert known_of(set(), set(range(1000))) == set(range(1000))
    assert known_of({1000}, set(range(1000))) is None
