"""Addresses, option files and passwords."""

from pathlib import Path

import pytest

import binlog_core
from binlog_core import BinlogError
from binlog_core.server.address import Address


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
    "arguments", [{"mmap": True}, {"keys": "keyring"}, {"storage_options": {"anon": True}}], ids=str
)
def test_what_is_for_files_is_refused_with_a_server(arguments):
    with pytest.raises(ValueError, match="are for files"):
        binlog_core.open("mysql://db1", **arguments)


@pytest.mark.parametrize(
    "place", ["never", 4, ("bin.000001", -1), ("bin.000001", "4"), ("bin.000001", 1 << 63)]
)
def test_what_is_not_a_place_on_a_server_says_so(place):
    for argument in ("start", "stop"):
        with pytest.raises(TypeError, match=f"{argument}=.*a server takes"):
            binlog_core.open("mysql://db1", **{argument: place})


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


def test_an_option_file_that_includes_itself_is_an_error(tmp_path: Path):
    options = tmp_path / "my.cnf"
    options.write_text(f"!include {options}\n")
    with pytest.raises(BinlogError, match="includes itself"):
        Address.of("mysql://db1", defaults_file=options)
    with pytest.raises(BinlogError, match="cannot be read"):
        Address.of("mysql://db1", defaults_file=tmp_path / "none.cnf")
    with pytest.raises(BinlogError, match="cannot be read"):
        Address.of("mysql://db1", password_file=tmp_path / "none")


def test_a_server_among_logs_is_refused() -> None:
    with pytest.raises(ValueError, match="read alone"):
        binlog_core.open(["mysql://repl:s3cret@db1", "bin.000001"])
