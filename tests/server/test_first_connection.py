"""The first connection is lost, wherever: then the rows are those of a reader whose line is good."""

from __future__ import annotations

import datetime as dt
import random
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.archive import OTHER, FakeServer, assert_same
from support.line import Line
from support.log_server import log_server

import binlog_core
from binlog_core import GtidSet, MariadbGtidSet
from binlog_core.archive import archive
from binlog_core.errors import DivergedError, UnreachableError
from binlog_core.gtids import MariadbGtid

ROWS = (1, 1, 4, 1, 3, 1, 1, 5, 1, 2, 1)  # of each transaction
ROTATED = (2, 5, 8)  # transactions before the next log
CUTS = 6000  # bytes: login, answers, and the first logs
LOGIN = 700  # bytes: less than come before the first event

pytestmark = pytest.mark.filterwarnings("ignore:connections to the server were lost")

Row = tuple[int, str]


class Servers(NamedTuple):
    """A server, a replica of it with other logs, and the rows of both."""

    first: FakeServer
    second: FakeServer
    rows: list[Row]


@cache
def servers(version: str, gtids: bool) -> Servers:
    first = FakeServer(version, gtids=gtids)
    second = FakeServer(version, uuid=OTHER, server_id=2, base="replica", gtids=gtids)
    rows: list[Row] = []
    for number, count in enumerate(ROWS, 1):
        note = f"{number} " + "n" * (37 * number % 150)
        first.transaction(note, rows=count)
        gtid = None if first.mariadb else (first.uuid, number)
        log = second.logs[second.current]
        log.server_id = second.server_id = first.server_id  # as it is logged there
        second.transaction(note, rows=count, gtid=gtid, key=number)
        second.server_id = 2
        log.server_id = 2
        rows += [(number, note + "+" * i) for i in range(count)]
        if number in ROTATED:
            first.rotate()
        if number in (4, 9):
            second.rotate()
    return Servers(first, second, rows)


def opened(url: str, start: Any, **options: Any) -> Any:
    return binlog_core.open(url, start=start, server={"ssl_mode": "DISABLED", "reconnect": 4}, **options)


def found(url: str, start: Any, count: int | None = None, **options: Any) -> list[Row]:
    """The rows; `count`: of a log that is followed, at most so many."""
    with opened(url, start, follow=count is not None, **options) as log:
        return [(change.after["id"], change.after["note"]) for change in islice(log.rows(), count)]


def positions(url: str) -> list[tuple[binlog_core.Position, int]]:
    """The positions of small groups, and the rows before each."""
    done, out = 0, []
    with opened(url, None, limits=binlog_core.Limits(group_rows=1)) as log:
        for group in log.groups():
            done += sum(map(len, group.batches))
            out.append((group.position, done))
    return out


class Start(NamedTuple):
    """Where a reader begins, and how many rows come before."""

    start: Any
    before: int


def starts(made: Servers, url: str) -> Iterator[tuple[str, Start]]:
    """Each kind of start."""
    fake = made.first
    names = list(fake.logs)
    done = [sum(ROWS[:number]) for number in range(len(ROWS) + 1)]
    yield "none", Start(None, 0)
    yield "place", Start((names[2], 4), done[ROTATED[1]])
    chosen = random.Random(1)
    given = positions(url)
    for inside in (False, True):
        some = [one for one in given if bool(one[0].records) == inside and one[0].offset > 4]
        assert len(some) >= 3
        for position, before in chosen.sample(some, 2):
            yield f"position {position}", Start(position, before)
    if fake.with_gtids:
        gtids: Any = GtidSet.parse(f"{fake.uuid}:1-6") if not fake.mariadb else MariadbGtidSet.parse("0-1-6")
        yield "gtids", Start(gtids, done[6])
    # Each transaction has a second of its own, and a log begins in that of the one before it.
    moment = dt.datetime.fromtimestamp(1_700_000_000 + ROTATED[1], dt.UTC)
    yield "time", Start(moment, done[ROTATED[1] - 1])


KINDS = {
    "mysql": ("8.0.36", True),
    "mysql without GTIDs": ("8.0.36", False),
    "mariadb": ("10.11.6-MariaDB-log", True),
}


@pytest.fixture(params=KINDS, ids=lambda name: name.replace(" ", "-"))
def made(request: pytest.FixtureRequest) -> Servers:
    return servers(*KINDS[request.param])


def sampled(seed: int, count: int) -> list[int]:
    return sorted(random.Random(seed).sample(range(CUTS), count))


def test_a_good_line_gives_the_rows_that_were_written(made: Servers) -> None:
    with log_server(made.first) as url:
        for name, (start, before) in starts(made, url):
            assert found(url, start) == made.rows[before:], name
    with log_server(made.second) as url:
        assert found(url, None) == made.rows


def test_a_transaction_that_was_lost_is_told_where_another_has_its_number() -> None:
    made = servers(*KINDS["mariadb"])
    with log_server(made.first) as url:
        inside = [(one, done) for one, done in positions(url) if one.records]
        assert len(inside) > 5
        for position, before in inside:  # the group with the rest has later ones
            assert found(url, position) == made.rows[before:]
            own = position.transaction
            assert isinstance(own, MariadbGtid)
            with pytest.raises(DivergedError, match=f"{replace(own, server_id=9)} were read"):
                found(url, replace(position, transaction=replace(own, server_id=9)))


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_goes_on_where_it_was_to_begin(made: Servers, seed: int) -> None:
    with log_server(made.first) as url:
        for name, (start, before) in starts(made, url):
            for cut in sampled(seed, 12):
                with Line(url, seed=seed, cuts=1, least=cut, most=1) as line:
                    assert found(line.url, start) == made.rows[before:], (name, cut)


def test_a_dump_may_be_lost_after_each_of_its_events(made: Servers) -> None:
    """Also at the end of a log, before the next one is named."""
    cuts: list[int] = []
    with log_server(made.first, cuts=cuts) as url:
        for name, (start, before) in starts(made, url):
            for cut in range(0, 90, 1 if name == "gtids" else 7):
                cuts[:] = [cut]
                if name != "time":  # asks for the logs' first events, too
                    assert found(url, start) == made.rows[before:], (name, cut)


@pytest.mark.parametrize("seed", range(3))
def test_now_is_the_time_of_the_first_answer(made: Servers, seed: int) -> None:
    """What is written while the line is lost comes, too."""
    fake = made.first
    file = list(fake.logs)[1]
    with log_server(fake, now=(file, len(fake.bytes_of(file)))) as url:
        wanted = made.rows[sum(ROWS[: ROTATED[1]]) :]
        for cut in sampled(seed, 12):
            with Line(url, seed=seed, cuts=1, least=cut, most=1) as line:
                assert found(line.url, "now", len(wanted)) == wanted, cut


@pytest.mark.parametrize("seed", range(3))
def test_another_host_may_take_over_before_the_first_event(made: Servers, seed: int) -> None:
    with log_server(made.first) as url, log_server(made.second) as other:
        for name, (start, before) in starts(made, url):
            if name == "place" or (name.startswith("position") and not made.first.with_gtids):
                continue  # means nothing there
            for cut in sampled(seed, 12):
                # The first connection lives so long, all others of this host not at all.
                with Line(url, seed=seed, cuts=10**6, least=cut, most=1) as line:
                    both = f"{line.url},{other.rpartition('@')[2]}"
                    try:
                        assert found(both, start) == made.rows[before:], (name, cut)
                    except DivergedError:  # without GTIDs only before the first event
                        assert not made.first.with_gtids and cut > LOGIN, (name, cut)


@pytest.mark.parametrize("seed", range(2))
def test_an_archiver_that_starts_on_a_bad_line_comes_up(made: Servers, seed: int, tmp_path: Path) -> None:
    fake = made.first
    with log_server(fake) as url:
        for cut in sampled(seed, 12):
            with Line(url, seed=seed, cuts=1, least=cut, most=1) as line:
                options = {"ssl_mode": "DISABLED", "reconnect": 4}
                archive(line.url, tmp_path / str(cut), until="now", options=options)
                assert_same(fake, tmp_path / str(cut))


def test_what_looks_like_a_wrong_address_fails_at_once(tmp_path: Path) -> None:
    """With the default `reconnect`, in which it would be tried again for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        silent = f"mysql://root@127.0.0.1:{port}/?connect_timeout=0.5"
        for work in (binlog_core.open, lambda url: archive(url, tmp_path)):
            with pytest.raises(UnreachableError) as told:
                work(silent)
            assert not told.value.lost
    refused = f"mysql://root@127.0.0.1:{port}"
    for work in (binlog_core.open, lambda url: archive(url, tmp_path)):
        with pytest.raises(UnreachableError) as told:
            work(refused)
        assert not told.value.lost


def test_a_first_connection_that_does_not_come_back_is_an_error(made: Servers, tmp_path: Path) -> None:
    with log_server(made.first) as url, Line(url, seed=1, cuts=10**9, least=300, most=1) as line:
        options = {"ssl_mode": "DISABLED", "reconnect": 0.5}
        for work in (
            lambda: binlog_core.open(line.url, server=options),
            lambda: archive(line.url, tmp_path, options=options),
        ):
            with pytest.raises(UnreachableError):
                work()
