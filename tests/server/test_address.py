"""Addresses, option files and passwords."""

import copy
import os
import pickle
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import binlog_core
from binlog_core import BinlogError
from binlog_core.server.address import Address
from binlog_core.server.target import ServerLog


def test_hosts_user_and_options_of_a_url():
    address = Address.of(
        "mysql://re%40pl:p%3Aw@db1:3307,[::1]:4,db3/?ssl_mode=verify_ca&server-id=7&heartbeat=2"
    )
    assert address.hosts == (("db1", 3307), ("::1", 4), ("db3", 3306))
    assert (address.user, address.password) == ("re@pl", "p:w")
    assert (address.ssl_mode, address.server_id, address.heartbeat) == ("VERIFY_CA", 7, 2.0)
    assert address.name == "mysql://db1:3307,[::1]:4,db3:3306"


def test_a_password_is_shown_nowhere():
    address = Address.of("mariadb://u:geheim@db1")
    assert "geheim" not in repr(address) + str(address)


def test_a_pickle_has_no_password(monkeypatch):
    url = "mysql://u:geheim@db1:3307/?ssl_mode=REQUIRED&heartbeat=3"
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYSQL_PWD", "geheim too")
        addresses = Address.of(url), Address.of("mysql://u@db1")
    log = ServerLog(addresses[0].name, address=addresses[0], options={"follow": False})
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps([*addresses, log, copy.copy(addresses[0])], protocol)
        assert b"geheim" not in data
        assert pickle.loads(data)[:2] == [replace(one, password=None) for one in addresses]
    monkeypatch.setenv("MYSQL_PWD", "of the worker")
    assert pickle.loads(data)[2].address == replace(addresses[0], password="of the worker")


@pytest.mark.parametrize(
    "url",
    [
        "db1:3306",
        "http://me:geheim@db1",
        "mysql://db1:0",
        "mysql://db1:x",
        "mysql://db1:99999",
        "mysql://db1/shop",
        "mysql://db1/?colour=red",
        "mysql://db1/?ssl_mode=maybe",
        "mysql://db1/?server_id=0",
        "mysql://db1/?heartbeat=0",
        "mysql://db1/?heartbeat=-1",
        "mysql://db1/?reconnect=soon",
        "mysql://db1/?semi_sync=perhaps",
    ],
)
def test_what_is_not_an_address_says_so(url):
    with pytest.raises(ValueError) as refused:
        Address.of(url)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("server_id=x", "server_id: expected 1 to 4294967295"),
        ("server_id=0", "server_id: expected 1 to 4294967295"),
        ("heartbeat=soon", "heartbeat: expected seconds, from 0.001 to 31536000"),
        ("heartbeat=0", "heartbeat: expected seconds, from 0.001 to 31536000"),
        ("reconnect=nan", "reconnect: expected seconds, from 0 to 31536000"),
    ],
)
def test_a_value_that_is_not_valid_says_what_was_expected(option: str, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        Address.of(f"mysql://db1/?{option}")


def test_the_port_of_an_option_file_is_checked(tmp_path: Path) -> None:
    options = tmp_path / "my.cnf"
    options.write_text("[client]\nhost = db1\nport = 99999\n")
    with pytest.raises(ValueError, match="not a number from 1 to 65535"):
        Address.of("mysql://", defaults_file=options)


def test_options_go_before_the_url_and_the_url_before_files(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("MYSQL_PWD", "environment")
    options = tmp_path / "my.cnf"
    options.write_text(
        "[mysqld]\nuser=wrong\n[client]\nuser = 'repl'\nhost=db9\nport=3310 # there\npassword=\"fi#le\"\n"
        "[mysql]\nssl_ca=/etc/ca.pem\n"
    )
    address = Address.of("mysql://", defaults_file=options)
    assert (address.hosts, address.user, address.password) == ((("db9", 3310),), "repl", "fi#le")
    assert address.ssl_ca == "/etc/ca.pem"
    address = Address.of("mysql://me@db1/?heartbeat=3", {"heartbeat": 4}, defaults_file=options)
    assert (address.hosts, address.user, address.heartbeat) == ((("db1", 3306),), "me", 4.0)
    assert Address.of("mysql://me@db1").password == "environment"
    assert Address.of("mysql://me:url@db1").password == "url"
    secret = tmp_path / "secret"
    secret.write_text("line one\nline two\n")
    assert Address.of("mysql://me:url@db1", password_file=secret).password == "line one"


@pytest.mark.parametrize("value", [0, 1, True, b"path", ["path"], 1.5, {"path"}])
@pytest.mark.parametrize("option", ["password_file", "defaults_file", "server"])
def test_values_of_another_type(option: str, value: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """A number is no path: as one of an open file it would be read, and closed."""
    with pytest.raises(TypeError, match=rf"^{option}= takes a (path|dict), not {type(value).__name__}$"):
        binlog_core.open("mysql://me@127.0.0.1:1", **{option: value})
    os.fstat(0), os.fstat(1)


def test_a_password_file_that_is_no_path() -> None:
    with pytest.raises(binlog_core.BinlogError, match="the password file cannot be read: not a path"):
        Address.of("mysql://me@db1", password_file="no\0path")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://repl:12?Zq9secret@db1",
        "mysql://repl:12?Zq9secret=1@db1",
        "mysql://repl:12?password=Zq9secret@db1",
        "mysql://repl:12?heartbeat=Zq9secret@db1",
        "mysql://repl:Zq9secret?x@db1",
        "mysql://repl:x?ssl-mode=Zq9secret",
        "mysql://db1?ssl-mode=REQUIRED;password=Zq9secret",
        "mysql://db1?Zq9secret",
        "mysql://repl:Zq9secret",
    ],
)
def test_a_password_with_a_question_mark_is_not_quoted(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        Address.of(url)
    assert "Zq9" not in str(refused.value) + repr(refused.value)
    assert "%3F" in str(refused.value) or "ssl_mode" in str(refused.value)
    with pytest.raises((ValueError, BinlogError)) as refused_too:
        binlog_core.open(url)
    assert "Zq9" not in str(refused_too.value)


def test_unknown_options_are_not_quoted() -> None:
    with pytest.raises(ValueError, match="%3F") as refused:
        Address.of("mysql://db1", {"Zq9secret": 1})
    assert "Zq9" not in str(refused.value)


@pytest.mark.parametrize("mode", ["PREFERRED", "REQUIRED"])
def test_a_ca_means_that_it_is_verified(mode: str) -> None:
    assert Address.of("mysql://db1?ssl_ca=a.pem").ssl_mode == "VERIFY_CA"
    assert Address.of(f"mysql://db1?ssl_ca=a.pem&ssl_mode={mode}").ssl_mode == "VERIFY_CA"
    assert Address((("db1", 1),), ssl_ca="a.pem", ssl_mode=mode).ssl_mode == "VERIFY_CA"
    for kept in ("DISABLED", "VERIFY_IDENTITY"):
        assert Address.of("mysql://db1?ssl_ca=a.pem", {"ssl_mode": kept}).ssl_mode == kept


def test_options_of_authentication() -> None:
    address = Address.of("mysql://db1?cleartext=true&get-server-public-key=on&server_public_key=/a/b.pem")
    assert (address.cleartext, address.get_server_public_key) == (True, True)
    assert address.server_public_key == "/a/b.pem"
    assert not Address.of("mysql://db1").cleartext
    assert not Address.of("mysql://db1").get_server_public_key


def test_the_page_has_each_option_with_its_default() -> None:
    page = Path(__file__).parents[2] / "docs" / "live-servers.md"
    [table] = re.findall(r"^\| option \| default \| \|\n((?:\|.*\n)+)", page.read_text("utf-8"), re.MULTILINE)
    told = {}
    for row in table.splitlines()[1:]:
        names, default = row.removeprefix("| ").split(" | ")[:2]
        told |= dict.fromkeys(re.findall(r"`(.+?)`", names), default.strip(" |").removesuffix(" s"))
    elsewhere = {"hosts", "user", "password", "world"}  # in the address itself, or no option
    assert told.keys() == {one.name for one in fields(Address)} - elsewhere
    known = {one.name: one.default for one in fields(Address) if one.default not in (None, ())}
    assert {name: default for name, default in told.items() if name in known} == {
        name: f"{default:g}" if isinstance(default, float) else str(default).replace("False", "false")
        for name, default in known.items()
        if name in told
    }
