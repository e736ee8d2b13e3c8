"""Which transactions a pass has seen, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.writer import Log, Table

import binlog_core
from binlog_core._decode import executed
from binlog_core._decode.executed import Executed, last_of_domains
from binlog_core._tables.side_dtypes import GTID_RUN_DTYPE
from binlog_core.gtids import Gtid, GtidSet, MariadbGtid, MariadbGtidSet

pytestmark = pytest.mark.sanitize

UUID = "00112233-4455-6677-8899-aabbccddeeff"
RAW = bytes.fromhex(UUID.replace("-", ""))


def runs(*each: dict[str, Any]) -> bytes:
    found = np.zeros(len(each), GTID_RUN_DTYPE)
    for one, fields in zip(found, each, strict=True):
        for name, value in fields.items():
            one[name] = value
    return found.tobytes()


def mysql(first: int, last: int, tag: bytes = b"") -> dict[str, Any]:
    return {"kind": 1, "uuid": RAW, "tag": tag, "first": first, "last": last}


def maria(domain: int, server: int, first: int, last: int) -> dict[str, Any]:
    return {"kind": 2, "domain_id": domain, "server_id": server, "first": first, "last": last}


def test_runs_are_added_to_what_was_there() -> None:
    met = Executed(GtidSet.parse(f"{UUID}:1-5"))
    met.add(runs(mysql(6, 9), mysql(1, 1, b"blue")))
    met.add(b"")
    met.add(runs(mysql(12, 12)))
    assert met.snapshot().gtids() == GtidSet.parse(f"{UUID}:1-9:12:blue:1")


def test_the_transaction_that_runs_is_not_among_them() -> None:
    met = Executed(GtidSet.parse(f"{UUID}:1-5"))
    met.add(runs(mysql(6, 9)))
    assert met.snapshot(Gtid(UUID, "", 9)).gtids() == GtidSet.parse(f"{UUID}:1-8")
    assert met.snapshot(Gtid(UUID, "", 9)) != met.snapshot()


def test_a_snapshot_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executed, "_MOST_PARTS", 3)
    met = Executed(GtidSet.parse(f"{UUID}:1"))
    snapshots = []
    for number in range(2, 12):
        met.add(runs(mysql(number, number)))
        snapshots.append(met.snapshot())
    met.forget()
    assert [one.gtids() for one in snapshots] == [GtidSet.parse(f"{UUID}:1-{last}") for last in range(2, 12)]
    assert met.snapshot().gtids() is None


def test_the_last_of_each_domain_counts_on_mariadb() -> None:
    met = Executed(MariadbGtidSet.parse("0-1-5,3-1-9"))
    met.add(runs(maria(0, 1, 6, 8), maria(0, 2, 9, 10), maria(7, 4, 1, 1)))
    assert met.snapshot().gtids() == MariadbGtidSet.parse("0-2-10,3-1-9,7-4-1")
    assert met.snapshot(MariadbGtid(0, 2, 10)).gtids() == MariadbGtidSet.parse("0-2-9,3-1-9,7-4-1")
    # Its run is that transaction alone: the domain is not there yet.
    assert met.snapshot(MariadbGtid(7, 4, 1)).gtids() == MariadbGtidSet.parse("0-2-10,3-1-9")


def test_the_transaction_that_runs_is_left_out_after_any_number_of_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executed, "_MOST_PARTS", 3)
    of_mysql, of_mariadb = Executed(GtidSet.parse(f"{UUID}:1")), Executed(MariadbGtidSet.parse("0-1-1"))
    for number in range(2, 12):
        of_mysql.add(runs(mysql(number, number)))
        of_mariadb.add(runs(maria(0, 1, number, number)))
        before = number - 1
        assert of_mysql.snapshot(Gtid(UUID, "", number)).gtids() == GtidSet.parse(f"{UUID}:1-{before}")
        running = MariadbGtid(0, 1, number)
        assert of_mariadb.snapshot(running).gtids() == MariadbGtidSet.parse(f"0-1-{before}")


def test_what_is_not_known() -> None:
    assert Executed().snapshot().gtids() is None
    assert Executed(GtidSet.parse("")).snapshot().gtids() is None
    met = Executed(GtidSet.parse(f"{UUID}:1-5"))
    met.add(runs({"kind": 0}))  # an anonymous transaction
    assert met.snapshot().gtids() is None
    met = Executed(GtidSet.parse(f"{UUID}:1-5"))
    met.add(runs(maria(0, 1, 1, 1)))
    assert met.snapshot().gtids() is None


def test_a_log_begins_with_all_that_came_before() -> None:
    met = Executed(GtidSet.parse(f"{UUID}:1-5"))
    met.contain(GtidSet.parse(f"{UUID}:4-7"))
    assert met.snapshot().gtids() == GtidSet.parse(f"{UUID}:1-7")
    met = Executed(MariadbGtidSet.parse("0-1-5"))
    met.contain(MariadbGtidSet.parse("0-2-6"))
    assert met.snapshot().gtids() == MariadbGtidSet.parse("0-2-6")


def test_a_transaction_that_comes_again_is_not_one_that_came_before() -> None:
    """A server went away inside a transaction twice: its rows must be sent a third time."""
    met = Executed(MariadbGtidSet.parse("0-1-4"))
    for _ in range(3):
        met.add(runs(maria(0, 1, 5, 5)))
        met.begin(MariadbGtidSet.parse("0-1-4"))
        assert met.snapshot().gtids() == MariadbGtidSet.parse("0-1-4")
    met = Executed(GtidSet.parse(f"{UUID}:1-4"))
    met.add(runs(mysql(5, 5)))
    met.begin(GtidSet.parse(f"{UUID}:1-4"))
    assert met.snapshot().gtids() == GtidSet.parse(f"{UUID}:1-4")


def test_the_latest_of_a_domain_comes_last_in_a_list() -> None:
    state = [MariadbGtid(0, 1, 9), MariadbGtid(2, 1, 3), MariadbGtid(0, 5, 4)]
    assert last_of_domains(state) == MariadbGtidSet.parse("0-5-4,2-1-3")


def test_the_last_gtid_of_a_domain_is_the_last_in_the_log() -> None:
    """Without gtid_strict_mode a server's numbers may follow on those from before another server's."""
    log = Log("11.8.6-MariaDB")
    log.gtid_list()
    for domain, server, number in ((0, 2, 24), (0, 1, 25), (1, 1, 1), (0, 2, 25), (1, 1, 2), (0, 1, 26)):
        log.server_id = server
        log.maria_gtid(number, domain)
        log.commit()
    log.server_id = 2
    log.maria_gtid(26)
    log.insert(Table("shop", "t", [("id", "INT")]), [{"id": 1}])
    log.commit()
    with binlog_core.open(log.getvalue()) as opened:
        *_, last = opened.groups()
    assert last.position.gtids == MariadbGtidSet.parse("0-2-26,1-1-2")
