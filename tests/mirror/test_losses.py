"""Changes missing in a server's log are refused or reported."""

from __future__ import annotations

from typing import Any

import pytest
from support.answering import Server

pytest.importorskip("deltalake")

from binlog_core import BinlogWarning, ServerError, UnsafeServerError
from binlog_core.mirror.losses import (
    check_filters,
    check_settings,
    warn_of_cascades,
    warn_of_engines,
    warn_of_generated_columns,
    warn_of_partial_json,
)
from binlog_core.mirror.unlogged import reach_of
from binlog_core.server.connection import Facts

SAFE = {"binlog_format": "row", "binlog_row_image": "FULL", "log_slave_updates": "OFF"}
MASTER_STATUS = "SHOW BINARY LOG STATUS"


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [("binlog_format", "MIXED", "ROW"), ("binlog_row_image", "NOBLOB", "FULL")],
)
def test_settings_that_lose_changes_are_refused(setting: str, value: str, expected: str) -> None:
    server: Any = Server(SAFE | {})
    check_settings(server)
    server.answers[setting] = value
    with pytest.raises(UnsafeServerError, match=f"{setting} is {value}: expected {expected}"):
        check_settings(server)


def replica_status(applying: str) -> list[tuple[str, ...]]:
    return [("", "db1", "repl", "3306", "60", "bin.1", "4", "relay.1", "4", "bin.1", "Yes", applying)]


@pytest.mark.parametrize(
    ("answers", "replica"),
    [
        (
            {"SHOW GLOBAL STATUS LIKE 'Slave%running'": [("Slave_running", "ON"), ("Slaves_running", "1")]},
            True,
        ),
        (
            {"SHOW GLOBAL STATUS LIKE 'Slave%running'": [("Slave_running", "OFF"), ("Slaves_running", "2")]},
            True,
        ),
        (
            {"SHOW GLOBAL STATUS LIKE 'Slave%running'": [("Slave_running", "OFF"), ("Slaves_running", "0")]},
            False,
        ),
        ({"SHOW REPLICA STATUS": replica_status("Yes")}, True),
        ({"SHOW REPLICA STATUS": replica_status("No")}, False),
        (
            {
                "SHOW REPLICA STATUS": ServerError("syntax", code=1064),
                "SHOW SLAVE STATUS": replica_status("Yes"),
            },
            True,
        ),
        ({}, False),
    ],
)
def test_a_replica_that_does_not_log_what_it_replicates_is_refused(answers: Any, replica: bool) -> None:
    server: Any = Server(SAFE | answers)
    if replica:
        with pytest.raises(UnsafeServerError, match="log_slave_updates is OFF on a replica"):
            check_settings(server)
    else:
        check_settings(server)
    server.answers["log_slave_updates"] = "ON"
    check_settings(server)


@pytest.mark.parametrize(
    ("logged", "ignored", "lost"),
    [
        ("", "", None),
        ("", "test,shop", "binlog_ignore_db"),
        ("a,shop", "", None),
        ("a,b", "", "binlog_do_db"),
    ],
)
def test_a_database_that_is_not_logged_is_refused(logged: str, ignored: str, lost: str | None) -> None:
    server: Any = Server({MASTER_STATUS: [("bin.000001", "4", logged, ignored, "")]})
    if lost is None:
        check_filters(server, {"shop"})
    else:
        with pytest.raises(UnsafeServerError, match=f"{lost} leaves the database shop out"):
            check_filters(server, {"shop"})
    check_filters(server, ())
    check_filters(Server({}), {"shop"})  # type: ignore[arg-type]  # the user may not ask


@pytest.mark.parametrize(
    ("version", "settings", "silent"),
    [
        ("10.11.6-MariaDB", {}, True),
        ("8.4.3", {}, True),
        ("9.7.0", {"innodb_native_foreign_keys": "OFF"}, False),
        ("9.7.0", {"innodb_native_foreign_keys": "ON"}, True),
    ],
)
def test_rows_that_a_foreign_key_changes_without_a_log_are_warned_of(
    version: str, settings: dict[str, str], silent: bool, recwarn: pytest.WarningsRecorder
) -> None:
    rows = [
        (database, "fk", table, "shop", "parents", "CASCADE", "RESTRICT")
        for database, table in (("shop", "items"), ("shop", "parts"), ("other", "t"))
    ]
    server: Any = Server({"SELECT CONSTRAINT_SCHEMA": rows, **settings})
    facts = Facts(version, "MariaDB" in version, 1, None, "CRC32", True, "")
    warn_of_cascades(reach_of(server, facts), lambda name: name.startswith("shop."))
    told = [str(one.message) for one in recwarn if issubclass(one.category, BinlogWarning)]
    assert [one.partition(" (")[0] for one in told] == [
        "foreign keys change rows of shop.items, shop.parts"
    ] * silent


@pytest.mark.parametrize(
    ("version", "warns"), [("10.11.18-MariaDB", False), ("11.8.6-MariaDB", True), ("9.7.4", False)]
)
def test_generated_columns_that_updates_do_not_log_are_warned_of(
    version: str, warns: bool, recwarn: pytest.WarningsRecorder
) -> None:
    rows = [("shop", "parts"), ("shop", "items"), ("other", "t")]
    server: Any = Server({"SELECT DISTINCT TABLE_SCHEMA": rows})
    facts = Facts(version, "MariaDB" in version, 1, None, "CRC32", True, "")
    warn_of_generated_columns(server, facts, lambda name: name.startswith("shop."))
    told = [str(one.message) for one in recwarn if issubclass(one.category, BinlogWarning)]
    assert [one.partition(" are left")[0].rpartition(": ")[2] for one in told] == [
        "those of shop.items, shop.parts"
    ] * warns


def test_tables_without_rows_of_their_own_are_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    rows = [("shop", "both"), ("other", "t")]
    server: Any = Server({"SELECT t.TABLE_SCHEMA": rows})
    warn_of_engines(
        server,
        Facts("9.7.4", False, 1, None, "CRC32", True, ""),
        lambda name: name.startswith("shop."),
    )
    (told,) = [str(one.message) for one in recwarn if issubclass(one.category, BinlogWarning)]
    assert told.startswith("shop.both have no rows of their own")
    assert "'MRG_MYISAM'" in server.asked[-1]


def test_partial_json_is_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    for given in ({}, {"binlog_row_value_options": ""}):
        server: Any = Server(given)
        warn_of_partial_json(server)
    assert not len(recwarn)
    server = Server({"binlog_row_value_options": "PARTIAL_JSON"})
    with pytest.warns(BinlogWarning, match="^binlog_row_value_options=PARTIAL_JSON: .*new copy"):
        warn_of_partial_json(server)
