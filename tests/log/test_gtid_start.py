"""`open(start=GTIDs)` on files: what comes back is what the writer's list has behind them."""

from __future__ import annotations

import io
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from support.cli import run
from support.gtid_logs import UUID, archive, classic, in_innodb, made, of_mariadb, of_mysql, position_in
from support.logs import GTID, all_rows, path_of

import binlog_core
from binlog_core._sources.timeline import FAILOVER, RESET
from binlog_core.gtids import GtidSet, MariadbGtidSet, parse_gtid_set

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


FORMS = pytest.mark.parametrize("form", [classic, in_innodb])


def ids_of(target: Any, **options: Any) -> list[int]:
    return [change.after["id"] for change in all_rows(target, **options)]


@FORMS
@pytest.mark.parametrize("seed", range(12))
def test_behind_the_last_gtid_of_each_domain(form: Any, seed: int, tmp_path: Path) -> None:
    transactions, pick = made(seed, strict=seed % 3 > 0), random.Random(seed)
    paths = form(tmp_path, transactions, seed)
    for _ in range(4):
        text, rest = position_in(transactions, pick)
        gtids = MariadbGtidSet.parse(text)
        assert ids_of(tmp_path, start=gtids) == rest
        assert ids_of(paths, start=gtids, threads=2) == rest
        assert ids_of(tmp_path, start=binlog_core.Position("", 0, gtids)) == rest
        some = pick.choice(transactions)
        assert ids_of(tmp_path, start=gtids, exclude_gtids=some.gtid) == [
            i for i in rest if i not in some.ids
        ]


@FORMS
@pytest.mark.parametrize(("seed", "strict"), [*((seed, True) for seed in range(6)), (2, False), (10, False)])
def test_group_positions_lead_on(form: Any, seed: int, strict: bool, tmp_path: Path) -> None:
    """With the GTIDs of a group, alone or inside a transaction, another reader goes on without a file."""
    transactions, pick = made(seed, strict=strict), random.Random(seed)
    form(tmp_path, transactions, seed)
    text, rest = position_in(transactions, pick)
    limits = binlog_core.Limits(group_rows=4)
    got: list[int] = []
    with binlog_core.open(tmp_path, start=MariadbGtidSet.parse(text), limits=limits) as log:
        for group in log.groups():
            got += [i for batch in group.batches for i in batch.array["row"]["id"].tolist()]
            here = group.position
            if here.gtids is None:  # nothing is known before the first transactions
                continue
            again = binlog_core.Position("", 0, here.gtids, None, here.records, here.transaction)
            try:
                more = ids_of(tmp_path, start=again)
            except binlog_core.BinlogError as error:
                assert "does not come next" in str(error) and here.records
                continue
            assert got + more == rest
    assert got == rest


@FORMS
@pytest.mark.parametrize("seed", range(6))
def test_what_is_missing_is_an_error(form: Any, seed: int, tmp_path: Path) -> None:
    transactions = made(seed)
    paths = form(tmp_path, transactions, seed)
    last = {one.domain: one for one in transactions}
    end = ",".join(one.gtid for one in last.values())
    assert ids_of(tmp_path, start=MariadbGtidSet.parse(end)) == []
    assert (
        ids_of(tmp_path, start=MariadbGtidSet.parse(end + ",77-1-5")) == []
    )  # of a domain that is elsewhere
    with pytest.raises(binlog_core.BinlogError, match=r"not all of start='0-9-5' are in these logs"):
        ids_of(tmp_path, start=MariadbGtidSet.parse("0-9-5"))
    with pytest.raises(binlog_core.GtidError, match="vendor"):
        ids_of(tmp_path, start=GtidSet.parse("cbecc49e-e55e-11f1-b91d-02fc00000001:1-7"))
    everything = [i for one in transactions for i in one.ids]
    for nothing in (MariadbGtidSet(), GtidSet()):
        assert ids_of(tmp_path, start=nothing) == everything
        if len(paths) > 2 and form is classic:  # records of a later file may lie in an earlier one
            with pytest.raises(binlog_core.BinlogError, match="earlier logs are needed"):
                ids_of(paths[1:], start=nothing)


@FORMS
def test_only_the_logs_that_are_needed(form: Any, tmp_path: Path) -> None:
    """The log that begins with a position's GTIDs is the first that is read."""
    transactions = made(1)
    paths = form(tmp_path, transactions, 1)
    assert len(paths) > 2
    with binlog_core.open(paths[-1]) as log:
        (before,) = log.events(types=[163])
        behind = [change.after["id"] for change in log.rows()]
    last = {gtid.domain_id: gtid for gtid in before.gtids}  # type: ignore[attr-defined]
    gtids = MariadbGtidSet.parse(",".join(map(str, last.values())))
    damaged = bytearray(paths[0].read_bytes())
    at = 1 << 9 if form is classic else 2 << paths[0].read_bytes()[4]
    damaged[at : at + 40] = os.urandom(40)
    paths[0].write_bytes(damaged)
    assert ids_of(paths, start=gtids) == behind


@FORMS
@pytest.mark.parametrize("seed", range(3))
def test_other_doors(form: Any, seed: int, tmp_path: Path) -> None:
    """The command line, a followed log, a file object."""
    transactions, pick = made(seed), random.Random(seed)
    paths = form(tmp_path, transactions, seed)
    text, rest = position_in(transactions, pick)
    while text.count(",") < 1:
        text, rest = position_in(transactions, pick)
    told = run("rows", tmp_path, "--start", text, "--format", "jsonl")
    assert told.code == 0, told.text
    assert [int(line.split('"id":')[1].split(",")[0]) for line in told.lines] == rest
    with binlog_core.open(tmp_path, start=MariadbGtidSet.parse(text), follow=True) as log:
        got: list[int] = []
        if rest:
            for change in log.rows():
                got.append(change.after["id"])
                if len(got) == len(rest):
                    log.stop()
        assert got == rest
    if form is classic:
        one = paths[0].read_bytes()
        with binlog_core.open(paths[0]) as log:
            first = next(log.rows())
        gtids = MariadbGtidSet.parse(first.gtid)
        want = [i for o in transactions for i in o.ids][: len(ids_of(paths[0]))]
        own = [i for i in want if i not in transactions[0].ids]
        assert ids_of(one, start=gtids) == ids_of(io.BytesIO(one), start=gtids) == own


def test_mysql() -> None:
    """A set of MySQL: everything that is not in it; the log has 1 to 3 before it."""
    path, uuid = path_of(GTID), "cbecc49e-e55e-11f1-b91d-02fc00000001"
    every = [change.gtid for change in all_rows(path)]
    for text in (f"{uuid}:1-3", f"{uuid}:1-7", f"{uuid}:1-7:tagone:1", f"{uuid}:1-3:9"):
        have = GtidSet.parse(text)
        with binlog_core.open(path, start=have) as log:
            groups = list(log.groups())
            assert [c.gtid for c in log.rows()] == [one for one in every if one not in have]
        assert have <= groups[-1].position.gtids
    with pytest.raises(binlog_core.BinlogError, match=f"earlier logs are needed: start= lacks {uuid}:3"):
        all_rows(path, start=GtidSet.parse(f"{uuid}:1-2"))
    with pytest.raises(binlog_core.GtidError, match="vendor"):
        all_rows(path, start=MariadbGtidSet.parse("0-1-5"))


def test_a_log_that_is_read_once() -> None:
    reading, writing = os.pipe()
    with open(path_of(GTID), "rb") as file, os.fdopen(writing, "wb") as end:
        end.write(file.read(4000))
    with os.fdopen(reading, "rb") as pipe, pytest.raises(binlog_core.BinlogError, match="read twice"):
        all_rows(pipe, start=GtidSet())


@pytest.mark.parametrize("vendor", [of_mysql, of_mariadb])
def test_over_a_failover(vendor: Any, tmp_path: Path) -> None:
    """The second server's log has 15 to 20 too, but they are read in the first one's."""
    vendor(tmp_path, range(1, 9))
    last = vendor(tmp_path, range(9, 21), 8)
    vendor(tmp_path / "timeline-2", range(15, 31), 14)
    vendor(tmp_path / "timeline-2", range(31, 35), 30)
    mine = f"{UUID}:1-" if vendor is of_mysql else "0-1-1:"  # up to …
    parse: Any = GtidSet.parse if vendor is of_mysql else MariadbGtidSet.parse
    archive(tmp_path, (last, FAILOVER, f"{mine}20", "bin.000002"))
    assert ids_of(tmp_path) == list(range(1, 35))
    for n in range(1, 35):
        assert ids_of(tmp_path, start=parse(f"{mine}{n}")) == list(range(n + 1, 35))


def test_a_set_that_is_ahead_stays_in_positions(tmp_path: Path) -> None:
    """After an anonymous transaction nothing is known, until the next log says what is before it."""
    of_mysql(tmp_path, range(1, 9), anonymous=[4])
    of_mysql(tmp_path, range(9, 21), 8)
    start = GtidSet.parse(f"{UUID}:1-2:13-15")
    with binlog_core.open(tmp_path, start=start) as log:
        *_, last = log.groups()
    assert ids_of(tmp_path, start=start) == [3, -4, *range(4, 13), *range(16, 21)]
    assert last.position.gtids == GtidSet.parse(f"{UUID}:1-20")
    with binlog_core.open(tmp_path, start=start, limits=binlog_core.Limits(group_rows=1)) as log:
        got: list[int] = []
        for group in log.groups():
            got += [i for batch in group.batches for i in batch.array["row"]["id"].tolist()]
            if group.position.file == "bin.000002":
                ended = got[:-1] if group.position.records else got
                left = [i for i in (*range(9, 13), *range(16, 21)) if i not in ended]
                assert ids_of(tmp_path, start=group.position.gtids) == left
    assert got[-1] == 20


@pytest.mark.parametrize("text", [f"{UUID}:1-8:11", f"{UUID}:1-8,dbecc49e-e55e-11f1-b91d-02fc00000001:7"])
def test_a_set_that_ends_like_a_position(text: str, tmp_path: Path) -> None:
    of_mysql(tmp_path, range(1, 13))
    told = run("rows", tmp_path, "--start", text, "--format", "jsonl")
    assert told.code == 0, told.text
    want = [number for number in range(9, 13) if number != 11 or ":11" not in text]
    assert [int(line.split('"id":')[1].split(",")[0]) for line in told.lines] == want


def test_one_gtid_as_a_set(tmp_path: Path) -> None:
    of_mariadb(tmp_path, range(1, 13))
    told = run("rows", tmp_path, "--start", "0-1-1:10", "--format", "jsonl")
    assert told.code == 0, told.text
    assert [int(line.split('"id":')[1].split(",")[0]) for line in told.lines] == [11, 12]
    assert run("rows", tmp_path, "--start", "").code == 2


@pytest.mark.parametrize("way", ["rows", "groups", "each_file"])
@pytest.mark.parametrize(
    ("vendor", "start", "left", "whole"),
    [
        (of_mysql, f"{UUID}:1-2:13-15", [*range(3, 13), *range(16, 21)], f"{UUID}:1-17"),
        (of_mariadb, "0-1-5", range(6, 21), "0-1-17"),
    ],
)
def test_a_reset_uses_the_same_gtids_again(
    vendor: Any, start: str, left: Any, whole: str, way: str, tmp_path: Path
) -> None:
    """What `start` leaves out are transactions of the history before it, and so is what a position has."""
    vendor(tmp_path, range(1, 9))
    last = vendor(tmp_path, range(9, 21), 8)
    archive(tmp_path)

    class Waiting(threading.Event):
        """The server is reset at the first wait, and reading ends when nothing has come for a while."""

        times = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.times += 1
            if self.times == 1:
                vendor(tmp_path / "timeline-2", range(1, 10), 0)
                vendor(tmp_path / "timeline-2", range(10, 18), 9)
                archive(tmp_path, (last, RESET, None, "bin.000001"))
            return self.is_set()

        def is_set(self) -> bool:
            return self.times > 6

    got: list[int] = []
    with binlog_core.open(tmp_path, start=parse_gtid_set(start), follow=True) as log:
        log._stopping = Waiting()
        if way == "rows":
            got += [change.after["id"] for change in log.rows()]
        elif way == "groups":
            for group in log.groups():
                got += [i for batch in group.batches for i in batch.array["row"]["id"].tolist()]
                position = group.position
            assert str(position.gtids) == whole
        else:
            for one in log.each_file():
                got += [change.after["id"] for change in one.rows()]
    assert got == [*left, *range(1, 18)]
