"""Errors of servers as our own, with texts from the servers' sources and from real servers."""

import pickle

import pytest
from support.hostile_server import hostile

from binlog_core import errors
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection
from binlog_core.server.refusals import clean_text, refusal

_PURGED = "but the master has purged binary logs containing GTIDs that the slave requires."
_TEXTS = {
    "Could not find first log file name in binary log index file": errors.PurgedError,
    "could not find next log; the first event 'bin.000074' at 4": errors.PurgedError,
    f"The slave is connecting using MASTER_AUTO_POSITION = 1, {_PURGED}": errors.PurgedError,
    "Could not find GTID state requested by slave in any binlog files.": errors.PurgedError,
    "Slave has more GTIDs than the master has, using the master's SERVER_UUID.": errors.DivergedError,
    "requested to start from GTID 0-1-2, which is not in the master's binlog": errors.DivergedError,
    "A slave with the same server_uuid/server_id as this slave has connected": errors.IdentityError,
    "Client requested master to start replication from position > file size": errors.PositionError,
    "log event entry exceeded max_allowed_packet; Increase max_allowed_packet": errors.PositionError,
    "bogus data in log event": errors.PositionError,
    "event read from binlog did not pass crc check": errors.PositionError,
    "cannot start in AUTO_POSITION mode: this server has GTID_MODE = OFF": errors.ServerError,
    "Slave can not handle replication events with the checksum": errors.ServerError,
}


@pytest.mark.parametrize("text", _TEXTS)
def test_error_1236_by_its_text(text):
    error = refusal(1236, text, "HY000", path="bin.000001", offset=4)
    assert type(error) is _TEXTS[text]
    assert text in error.message
    assert len(error.message) > len(text) + 50  # and how to solve it


@pytest.mark.parametrize(
    "code, logged_in, kind",
    [
        (1045, False, errors.AuthenticationError),
        (1045, True, errors.PrivilegeError),
        (1227, True, errors.PrivilegeError),
        (1130, False, errors.AuthenticationError),
        (3118, False, errors.AuthenticationError),  # the account is locked: a privilege does not help
        (3118, True, errors.AuthenticationError),
        (4052, True, errors.IdentityError),
        (1941, True, errors.PositionError),
        (9999, True, errors.ServerError),
    ],
)
def test_other_errors_by_their_number(code, logged_in, kind):
    assert type(refusal(code, "no", logged_in=logged_in)) is kind


@pytest.mark.parametrize(
    "code, cure",
    [
        (1045, "MYSQL_PWD"),
        (1130, "CREATE USER user@'host'"),
        (1862, "ALTER USER … IDENTIFIED BY"),
        (3118, "ACCOUNT UNLOCK"),
        (3159, "ssl_mode=REQUIRED"),
        (2061, "IDENTIFIED WITH"),
    ],
)
def test_a_refused_login_names_its_cure(code: int, cure: str) -> None:
    assert cure in refusal(code, "no", logged_in=False).message


def test_an_error_keeps_its_attributes_on_the_way_to_another_process():
    error = pickle.loads(pickle.dumps(refusal(1236, "bogus data", "HY000", path="b.1", offset=9)))
    assert isinstance(error, errors.PositionError)
    assert (error.code, error.sqlstate, error.path, error.offset) == (1236, "HY000", "b.1", 9)


def test_a_servers_text_is_shown_without_control_characters_and_not_at_length():
    assert clean_text("\x1b[31mred\n\x07") == "\\x1b[31mred\\x0a\\x07"
    assert len(clean_text("x" * 100_000)) < 1000


def test_texts_that_may_hold_values_are_cut() -> None:
    said = "Duplicate entry 'someone@example.com' for key 'PRIMARY'"
    error = refusal(1062, said, "23000")
    assert error.message == "the server refuses (error 1062, SQLSTATE 23000)"
    assert (error.code, error.sqlstate, getattr(error, "__notes__", [])) == (1062, "23000", [])
    assert refusal(1062, said, texts=True).__notes__ == [f"the server says: {said}"]


def test_a_refused_query_has_the_servers_state() -> None:
    packet = b"\xff" + (1062).to_bytes(2, "little") + b"#23000Duplicate entry 'geheim'"
    for option, notes in (("", []), ("?error_texts=true", ["the server says: Duplicate entry 'geheim'"])):
        with (
            hostile(answers={"INSERT": packet}) as (_, url),
            Connection(Address.of(url + option)) as connection,
        ):
            with pytest.raises(errors.ServerError) as refused:
                connection.query("INSERT INTO t VALUES ('geheim')")
            with pytest.raises(errors.ServerError) as streamed:
                list(connection.stream("INSERT INTO t VALUES ('geheim')"))
        for one in (refused.value, streamed.value):
            assert (one.code, one.sqlstate) == (1062, "23000")
            assert "geheim" not in str(one)
            assert getattr(one, "__notes__", []) == notes
