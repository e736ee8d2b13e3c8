"""A server in place of logs: every command that reads logs, and every way to give the password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.golden import DATA
from support.server import SERVER, connect
from support.server import run as ask

pytest.importorskip("typer")

from support.cli import run

import binlog_core
from binlog_core.cli import options

LOG = DATA / "mysql97" / "gtid.binlog"
PASSWORD = "s3cret"
TABLE = "console.orders"


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[str, str]]:
    """A server's address with a user that needs a password, and the log that three changes are in."""
    with connect() as connection:
        with suppress(connection.OperationalError):
            ask(connection, "DROP USER console@'%'")
        ask(
            connection,
            "DROP DATABASE IF EXISTS console",
            "CREATE DATABASE console",
            f"CREATE USER console@'%' IDENTIFIED BY '{PASSWORD}'",
            "GRANT REPLICATION SLAVE, SELECT ON *.* TO console@'%'",
            "FLUSH BINARY LOGS",
            f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, note VARCHAR(20))",
        )
        log = ask(connection, "SHOW BINARY LOGS")[-1][0]
        ask(connection, f"INSERT INTO {TABLE} VALUES (1, 'a')", f"INSERT INTO {TABLE} VALUES (2, 'b')")
        ask(connection, f"UPDATE {TABLE} SET note = 'c' WHERE id = 1")
        parts = urlsplit(SERVER)
        yield f"mysql://console@{parts.hostname}:{parts.port or 3306}", log


@pytest.mark.server
def test_every_command_that_reads_logs(
    place: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    server, log = place
    named = (server, "--schema", "server", "--start", f"{log}:4")

    found = run("rows", *named, "--table", TABLE)
    assert [json.loads(line)["after"] for line in found.lines] == [
        {"id": 1, "note": "a"}, {"id": 2, "note": "b"}, {"id": 1, "note": "c"}
    ]  # fmt: skip
    assert json.loads(run("info", *named, "--table", TABLE, "--json").text)["tables"]
    assert run("events", server, "--start", f"{log}:4", "--type", "Query", "--grep", "CREATE TABLE").lines
    assert len(run("transactions", *named, "--table", TABLE, "-f", "jsonl").lines) == 3
    assert run("sql", f"select count(*) n from changes('{TABLE}')", *named).lines == ["n", "4"]
    page = tmp_path / "page.html"
    assert run("report", *named, "-o", page).code == 0
    assert TABLE in page.read_text()
    found = run("history", TABLE, "id=1", *named, "-f", "jsonl")
    assert [json.loads(line)["op"] for line in found.lines] == ["insert", "update"]
    script = run("undo", *named, "--table", TABLE, "--op", "update").text
    assert "UPDATE `console`.`orders` SET" in script
    whole = run("verify", server, "--json")
    assert whole.code == 0
    verdicts = [json.loads(line) for line in whole.lines]
    assert {one["state"] for one in verdicts} == {"whole"}
    with connect() as connection:  # each log by its name, once, with the server's own size
        sizes = {row[0]: int(row[1]) for row in ask(connection, "SHOW BINARY LOGS")}
    assert {one["path"]: one["bytes"] for one in verdicts}.items() <= sizes.items()
    assert log in [one["path"] for one in verdicts]


@pytest.mark.server
def test_every_way_to_give_the_password(
    place: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    server, log = place
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "my.cnf").write_text(f"[client]\npassword={PASSWORD}\n")
    asked: list[str] = []
    monkeypatch.setattr(options, "_ask_password", lambda: asked.append("") or PASSWORD)
    commands: list[tuple[Any, ...]] = [
        ("verify", server),
        ("doctor", server),
        ("history", TABLE, "id=1", server, "--schema", "server", "--start", f"{log}:4"),
        ("rows", server, "--schema", "server", "--columns", "note", "--start", f"{log}:4"),
    ]
    for command in commands:
        refused = run(*command)
        assert refused.code != 0, command
        assert "check user, password and host" in refused.text + refused.err
        for way in (("--password-file", tmp_path / "password"), ("--defaults-file", tmp_path / "my.cnf")):
            done = run(*command, *way)
            assert done.code == 0, (command, way, done.err)
        asked.clear()
        assert run(*command, "-p").code == 0
        assert len(asked) == 1  # also of a command that reads the logs twice


def test_the_password_is_asked_for_on_a_terminal_alone() -> None:
    found = run("verify", "mysql://nobody@127.0.0.1:1", "--ask-password")
    assert found.code == 2
    assert "--ask-password needs a terminal" in " ".join(found.err.split())


def test_options_of_a_server_stand_in_every_command() -> None:
    for command in ("rows", "sql", "history", "undo", "verify", "export", "archive", "doctor"):
        found = run(command, "--help").text
        for option in ("--password-file", "--defaults-file", "--ask-password"):
            assert option in found, command


@pytest.mark.parametrize(
    "address, message",
    [
        ("mysql://u:s3cret@127.0.0.1:99999", "not a number from 1 to 65535"),
        ("mysql://u:s3cret@127.0.0.1:1/shop", "no path"),
        ("mysql://u:s3cret@127.0.0.1:1/?nonsense=1", "an option of the server is not known"),
        ("mysql://u:s3cret@127.0.0.1:1/?ssl_mode=ON", "VERIFY_IDENTITY"),
    ],
)
def test_a_wrong_address_is_wrong_usage(address: str, message: str) -> None:
    for command in (
        ("rows", address),
        ("info", address),
        ("events", address),
        ("transactions", address),
        ("sql", "select 1", address),
        ("history", "a.b", "id=1", address),
        ("undo", address, "--table", "a.b"),
        ("undo", LOG, "--table", "a.b", "--check", address),
        ("verify", address),
        ("doctor", address),
        ("archive", address, "nowhere"),
    ):
        found = run(*command)
        shown = " ".join(found.err.replace("│", " ").split())
        assert (found.code, message in shown) == (2, True), (command, shown)
        assert "s3cret" not in found.text + found.err


def test_a_server_is_read_alone() -> None:
    server = "mysql://u@127.0.0.1:1"
    assert "together with other logs" in run("rows", LOG, server).err
    assert "--keys is for files" in run("rows", server, "--keys", LOG).err
    for command in (("rows", LOG), ("history", "a.b", "id=1", LOG), ("undo", LOG, "--table", "a.b")):
        found = run(*command, "--schema", "server")
        assert (found.code, "is for servers" in found.err) == (2, True)


def test_usage_of_an_exported_server() -> None:
    server = "mysql://nobody@127.0.0.1:1"
    for arguments in (
        (LOG, server, "out"),
        (LOG, "out", "--archive", "logs"),
        (server, "out", "--state", "state"),
    ):
        assert run("export", *arguments).code == 2


@pytest.mark.server
def test_places_of_a_server(place: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    server, log = place
    with binlog_core.open(server, start=(log, 4), tables=TABLE, schema="server") as opened:
        last = list(opened.groups())[-1]
    assert run("rows", server, "--start", str(last.position)).lines == []
    assert run("rows", server, "--start", "now").lines == []
    assert run("rows", LOG, "--start", '{"file": "x"}').code == 2
