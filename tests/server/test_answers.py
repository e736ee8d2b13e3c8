"""Answers that no server gives, to every statement that we send: only our own errors come out."""

from __future__ import annotations

from random import Random

import pytest
from support.direct import Direct
from support.hostile_answers import (
    SCENARIOS,
    asked,
    good,
    had,
    hostile_packets,
    hostile_rows,
    hostile_run,
    log_events,
    rotation,
)
from support.hostile_server import HostileServer, hostile

import binlog_core
from binlog_core.errors import ProtocolError
from binlog_core.server import answers
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection

CASES = [(name, mariadb) for name in SCENARIOS for mariadb in (False, True)]


@pytest.mark.parametrize("name, mariadb", CASES)
def test_only_our_own_errors_come_out(name: str, mariadb: bool) -> None:
    usual = asked(mariadb=mariadb)
    SCENARIOS[name](usual.client, had(mariadb=mariadb))  # with the usual answers it ends well
    ended = set[str | None]()
    for at in range(len(usual.noted)):
        for seed in range(6):
            ended.add(hostile_run(name, mariadb=mariadb, at=at, seed=100 * at + seed))
    assert "ProtocolError" in ended or "SchemaError" in ended or "DecodeError" in ended


@pytest.mark.parametrize("seed", range(40))
def test_a_mutated_result_or_stream_is_read_or_refused(seed: int) -> None:
    for i in range(25):
        hostile_rows(1000 * seed + i)
        hostile_packets(1000 * seed + i)


@pytest.mark.parametrize(
    "convert, good, bad",
    [
        (answers.text, ["", "a"], [None]),
        (
            answers.whole,
            [None, "0", "9223372036854775807"],
            ["", "-1", " 1", "1.0", "٣", str(1 << 63)],
        ),
        (answers.version, ["8.0.36", "10.11.6-MariaDB"], [None, "", "8\x1b[2J", "8" * 256]),
        (answers.uuid, [None, "3E11FA47-71CA-11E1-9E33-C80AA9429562"], ["", "x", "\x1b[2J"]),
        (
            answers.log_name,
            ["bin.000001", "log of ü.1"],
            [None, "", "-rf.000001", "a\nb.1", "a" * 513, "../b.1", "c\\b.1"],
        ),
    ],
)
def test_converters(convert: answers.Convert, good: list[str | None], bad: list[str | None]) -> None:
    for value in good:
        convert(value)
    for value in bad:
        with pytest.raises(ValueError, match="expected"):
            convert(value)


def test_the_error_says_what_was_asked_but_no_values() -> None:
    with hostile(answers={"SELECT": []}) as (_, url), Connection(Address.of(url)) as connection:
        with pytest.raises(ProtocolError, match=r"SELECT ROW_COUNT\(\) is not valid: 0 rows") as said:
            connection.query("SELECT ROW_COUNT() FROM t WHERE secret = 'geheim'", answers.whole, least=1)
        assert "secret" not in str(said.value)


@pytest.mark.parametrize(
    "columns, rows, most", [(65, 1, 4 << 20), (1, 33_000, 4 << 20), (2, 70_000, 8 << 20)], ids=str
)
def test_an_answer_has_so_many_columns_and_rows(columns: int, rows: int, most: int) -> None:
    given = [[None] * columns] * rows
    with (
        hostile(answers={"SHOW": given}) as (_, url),
        Connection(Address.of(url)) as connection,
        pytest.raises(ProtocolError, match="larger than any can be"),
    ):
        connection.query("SHOW LOGS", most=most)


def test_an_answer_has_the_columns_that_are_asked_for() -> None:
    with hostile(answers={"SELECT": [[b"1"] * 100]}) as (_, url), Connection(Address.of(url)) as connection:
        assert connection.query("SELECT a, …", *[answers.whole] * 100) == [(1,) * 100]


def test_a_second_connection_that_gets_another_log_is_an_error_of_ours() -> None:
    """The statements are read on a connection of their own, from the same place."""
    names = iter([b"bin.000002"])
    events = log_events(mariadb=False)[1:]
    server = HostileServer(
        answers=good(mariadb=False), log=lambda: [rotation(4, next(names, b"bin.000001")), *events]
    )
    options = {"world": Direct(server, Random(1)), "ssl_mode": "DISABLED", "reconnect": 0}
    with (
        pytest.raises(ProtocolError, match="does not send this log to a second connection"),
        binlog_core.open("mysql://me@db1", server=options, follow=False, schema="server") as log,
    ):
        list(log.rows())
