"""What a server's settings mean, and that the advice about them works."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.archive import OTHER, FakeServer
from support.writer import Log

from binlog_core.archive.archiver import Archiver
from binlog_core.archive.keeper import Keeper
from binlog_core.schema.definitions import load
from binlog_core.server import doctor
from binlog_core.server.address import Address
from binlog_core.server.answers import Answer, Convert, converted
from binlog_core.server.connection import Facts


@pytest.mark.parametrize("settings", [{}, {"binlog_row_metadata": "MINIMAL"}], ids=["old", "minimal"])
def test_the_cure_for_missing_names_is_a_schema_that_can_be_given(settings: dict[str, str]) -> None:
    facts: Any = None  # does not matter for the format of rows
    [finding] = [found for found in doctor._rows(settings, facts) if found.subject == "metadata"]
    assert finding.state == "note"
    assert ("SET GLOBAL" in finding.cure) == bool(settings)  # only where the server has the setting
    advised = re.search(r'schema="([^"]+)"', finding.cure)
    assert advised is not None
    assert load(advised[1]) == "server"  # what test_definitions reads with


@pytest.mark.parametrize(
    ("options", "state", "cure"),
    [
        ({}, "note", "ssl_mode=VERIFY_IDENTITY, with ssl_ca="),
        ({"ssl_mode": "DISABLED"}, "note", "ssl_mode=VERIFY_IDENTITY, with ssl_ca="),
        ({"ssl_mode": "REQUIRED"}, "note", "ssl_mode=VERIFY_IDENTITY, with ssl_ca="),
        ({"ssl_ca": "a.pem"}, "note", "ssl_mode=VERIFY_IDENTITY"),
        ({"ssl_mode": "VERIFY_IDENTITY"}, "ok", ""),
        ({"socket": "/run/a.sock"}, "ok", ""),
    ],
)
def test_a_server_that_is_not_verified_is_noted(options: dict[str, str], state: str, cure: str) -> None:
    found = doctor._connection(Address.of("mysql://db1", options))
    assert (found.state, found.cure[: len(cure)], bool(found.cure)) == (state, cure, bool(cure))


class Told:
    """A connection to a server with some logs."""

    def __init__(self, *logs: tuple[str, int]) -> None:
        self.logs = logs

    def query(self, sql: str, *columns: Convert, **_: Any) -> Answer:
        assert sql == "SHOW BINARY LOGS"
        return converted([(name, str(size)) for name, size in self.logs], columns, 0)


def findings(found: list[doctor.Finding]) -> dict[str, tuple[str, str]]:
    return {one.subject: (one.state, one.found + one.cure) for one in found}


class Managed:
    """A server of RDS, as its manual describes it."""

    def __init__(self, hours: str | None) -> None:
        self.hours = hours

    def query(self, sql: str, *columns: Convert, **_: Any) -> Answer:
        rows = [(self.hours,)] if "rds_configuration" in sql else [("bin.000007", "900")]
        return converted(rows, columns, 0)

    def variables(self, names: list[str]) -> dict[str, str]:
        return {}


@pytest.mark.parametrize("hours, state", [(None, "note"), ("2", "note"), ("72", "ok")])
def test_retention_on_rds_is_a_setting_of_its_own(hours: str | None, state: str) -> None:
    settings = {"basedir": "/rdsdbbin/mysql/", "binlog_expire_logs_seconds": "2592000"}
    found = findings(doctor._logs(Managed(hours), settings))["retention"]  # type: ignore[arg-type]
    assert found[0] == state
    assert "720 h" not in found[1]
    assert ("rds_set_configuration" in found[1]) == (state == "note")


def test_retention_by_size_and_without_purging_is_reported() -> None:
    told: Any = Managed(None)
    found = findings(doctor._logs(told, {"max_binlog_total_size": str(5 << 30)}))["retention"]
    assert "5,120 MiB" in found[1]
    never = {"binlog_expire_logs_seconds": "60", "binlog_expire_logs_auto_purge": "OFF"}
    assert "not purged" in findings(doctor._logs(told, never))["retention"][1]


def test_compression_fails_only_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    facts: Any = SimpleNamespace(server_id=1)
    settings = {"binlog_transaction_compression": "ON"}
    assert findings(doctor._others(settings, facts))["compression"][0] == "ok"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert findings(doctor._others(settings, facts))["compression"][0] == "fails"


def test_a_replica_that_logs_nothing_of_what_it_replicates() -> None:
    facts: Any = SimpleNamespace(server_id=1)
    settings = {"log_slave_updates": "OFF", "read_only": "ON"}
    assert findings(doctor._others(settings, facts))["replica"][0] == "note"
    assert "replica" not in findings(doctor._others({**settings, "read_only": "OFF"}, facts))


@pytest.mark.parametrize(("value", "noted"), [("0", True), ("OFF", True), ("1", False), (None, False)])
def test_backups_of_aurora_that_leave_the_logs_out(value: str | None, noted: bool) -> None:
    assert "binlog_backup" in doctor._NAMES  # or it is not asked for
    settings = {} if value is None else {"binlog_backup": value}
    facts: Any = SimpleNamespace(server_id=1)
    found = [one for one in doctor._others(settings, facts) if one.subject == "backups"]
    assert [(one.state, "archive" in one.cure) for one in found] == [("note", True)] * noted


@pytest.mark.parametrize(("image", "state"), [("FULL", "note"), ("NOBLOB", "fails"), ("MINIMAL", "fails")])
def test_partial_json_fails_where_images_lack_the_document(image: str, state: str) -> None:
    facts = Facts("9.7.0", False, 1, "uuid", "CRC32", True, "")
    settings = {"binlog_row_value_options": "PARTIAL_JSON", "binlog_row_image": image}
    found = findings(doctor._rows(settings, facts))["partial JSON"]
    assert found[0] == state
    assert "binlog_row_value_options" in found[1]


def test_an_archive_of_another_history_is_reported(tmp_path: Path) -> None:
    server = FakeServer()
    server.transaction()
    server.rotate()  # the head of a log lists earlier transactions
    Archiver(server.connect, str(tmp_path), keeper=Keeper(), until_now=True).run()

    def told(executed: str, uuid: str = server.uuid) -> list[str]:
        facts = Facts("8.0.36", False, 1, uuid, "CRC32", True, executed)
        found = doctor._history(facts, str(tmp_path))
        assert all(finding.state == "fails" for finding in found)
        return [finding.found for finding in found]

    assert told(str(server.executed)) == []
    assert told("") == [f"the server lacks transactions that it contains, for example {server.uuid}:1"]
    [found] = told(f"{OTHER}:1-9", OTHER)
    assert found.startswith(f"transactions of server {server.uuid} are expected, but this server never had")
    assert doctor._history(Facts("8.0.36", False, 1, OTHER, "CRC32", True, ""), str(tmp_path / "none")) == []


def test_of_a_domain_the_last_transaction_alone_is_asked_for(tmp_path: Path) -> None:
    version = "10.11.6-MariaDB-log"
    log = Log(version, in_use=True)
    log.gtid_list([(0, 1, 100), (0, 2, 50)])  # after a failover to a server that was behind
    (tmp_path / "mysql-bin.000001").write_bytes(log.getvalue())
    assert doctor._history(Facts(version, True, 2, None, "CRC32", True, "0-2-50"), str(tmp_path)) == []


def test_an_archive_that_cannot_continue_is_reported_beforehand(tmp_path: Path) -> None:
    server = FakeServer(base="bin")
    server.transaction()
    Archiver(server.connect, str(tmp_path), keeper=Keeper(), until_now=True).run()
    last = sorted(path.name for path in tmp_path.glob("bin.*"))[-1]
    number = int(last[-6:])

    def states(*logs: tuple[str, int]) -> dict[str, str]:
        found = doctor._archive(Told(*logs), {"max_binlog_size": "1000"}, str(tmp_path))  # type: ignore[arg-type]
        return {finding.subject: finding.state for finding in found}

    assert states((last, 1000)) == {"archive's disk": "ok"}
    assert states((f"bin.{number + 1:06}", 1000)) == {"archive's disk": "ok"}
    assert states((f"bin.{number + 2:06}", 1000)) == {"archive": "fails", "archive's disk": "ok"}
    assert states((last, 1 << 60)) == {"archive's disk": "fails"}
    (tmp_path / "timeline.json").write_text("{")
    assert states((last, 1000))["archive"] == "fails"
