"""Option files, as the vendors' clients read them."""

import os
from pathlib import Path

import pytest

from binlog_core import BinlogError
from binlog_core.server.address import Address
from binlog_core.server.option_files import read_options


def test_an_option_file_that_includes_itself_is_an_error(tmp_path: Path):
    options = tmp_path / "my.cnf"
    options.write_text(f"!include {options}\n")
    with pytest.raises(BinlogError, match="includes itself"):
        Address.of("mysql://db1", defaults_file=options)
    with pytest.raises(BinlogError, match="cannot be read"):
        Address.of("mysql://db1", defaults_file=tmp_path / "none.cnf")
    with pytest.raises(BinlogError, match="cannot be read"):
        Address.of("mysql://db1", password_file=tmp_path / "none")


def test_an_option_file_reads_a_bounded_number_of_others(tmp_path: Path) -> None:
    """Ten files, each of which includes the next one twenty times, would be 20**9 reads."""
    for number in range(9):
        (tmp_path / f"{number}.cnf").write_text(f"!include {tmp_path}/{number + 1}.cnf\n" * 20)
    (tmp_path / "9.cnf").write_text("[client]\nuser=me\n")
    with pytest.raises(BinlogError, match="more than 256"):
        read_options(tmp_path / "0.cnf")


def test_an_option_file_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    """As mysql and mariadb ignore it (mysys/my_default.cc): its writer would choose server and password."""
    (tmp_path / "inner.cnf").write_text("[client]\nhost=evil\n")
    (tmp_path / "my.cnf").write_text(f"!include {tmp_path}/inner.cnf\n")
    assert read_options(tmp_path / "my.cnf") == {"host": "evil"}
    for name in ("inner.cnf", "my.cnf"):
        (tmp_path / name).chmod(0o646)
        with pytest.raises(BinlogError, match="everybody may write") as refused:
            read_options(tmp_path / "my.cnf")
        assert refused.value.path == str(tmp_path / name)
        (tmp_path / name).chmod(0o644)


@pytest.mark.parametrize("kind", ["a NUL", "a FIFO", "a folder", "another file"])
def test_what_an_option_file_includes_is_read_or_an_error_of_ours(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "secret").write_text("root:$6$geheim\n[geheim\ngeheim=1\n!geheim\n")
    name = {"a NUL": "my\0.cnf", "a FIFO": "fifo", "a folder": "", "another file": "secret"}[kind]
    (tmp_path / "my.cnf").write_text(f"[client]\nuser=me\n!include {tmp_path}/{name}\n")
    if kind == "another file":
        assert read_options(tmp_path / "my.cnf") == {"user": "me"}  # and nothing of it is shown
        return
    with pytest.raises(BinlogError, match="the option file cannot be read"):
        read_options(tmp_path / "my.cnf")


def test_the_last_value_of_a_clients_groups_counts(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "b.cnf").write_text("[client]\nhost=last\n")
    (tmp_path / "conf.d" / "a.cnf").write_text("[client]\nhost=first\nUSER=me\n")
    (tmp_path / "conf.d" / "c.txt").write_text("[client]\nhost=not read\n")
    options = tmp_path / "my.cnf"
    options.write_text(
        "user=before any group\n"
        "[client]\nhost=own\nssl_mode=REQUIRED\nport\ncolour=red\n"
        "# host=comment\n; host=comment\n"
        "[ mysqld ]\nhost=server\n"
        "[MySQL]\nconnect-timeout = 7\n"
        f"!includedir {tmp_path}/conf.d\n!includedir {tmp_path}/nowhere\n"
    )
    assert read_options(options) == {
        "host": "last",
        "user": "me",
        "ssl_mode": "REQUIRED",
        "connect_timeout": "7",
    }


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("plain # comment", "plain"),
        ("with#out", "with#out"),
        ("'quoted # not a comment'", "quoted # not a comment"),
        ('"it\'s" # comment', "it's"),
        (r"a\sb\tc\\d\n", "a b\tc\\d\n"),
        ('"', '"'),
        ("", ""),
    ],
)
def test_values_as_the_manual_says(tmp_path: Path, written: str, value: str) -> None:
    options = tmp_path / "my.cnf"
    options.write_text(f"[client]\npassword={written}\n")
    assert read_options(options) == {"password": value}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("ssl-verify-server-cert", {"ssl_mode": "VERIFY_IDENTITY"}),
        ("ssl_verify_server_cert=ON\nssl-mode=REQUIRED", {"ssl_mode": "VERIFY_IDENTITY"}),
        ("ssl-mode=VERIFY_CA\nssl-verify-server-cert=0", {"ssl_mode": "VERIFY_CA"}),
        ("ssl-verify-server-cert=1\nskip-ssl-verify-server-cert", {}),
        ("disable-ssl-verify-server-cert", {}),
        ("ssl", {"ssl_mode": "REQUIRED"}),
        ("loose-ssl=1", {"ssl_mode": "REQUIRED"}),
        ("skip-ssl", {"ssl_mode": "DISABLED"}),
        ("ssl=0", {"ssl_mode": "DISABLED"}),
        ("skip-ssl\nssl-mode=verify_identity", {"ssl_mode": "VERIFY_IDENTITY"}),
        ("enable-cleartext-plugin", {"cleartext": "true"}),
        ("enable_cleartext_plugin=0", {"cleartext": "false"}),
        ("get-server-public-key=TRUE", {"get_server_public_key": "true"}),
        ("server-public-key-path=/a.pem", {"server_public_key": "/a.pem"}),
        ("ssl-capath=", {}),
    ],
)
def test_options_of_tls_and_authentication(tmp_path: Path, written: str, expected: dict[str, str]) -> None:
    options = tmp_path / "my.cnf"
    options.write_text(f"[client]\n{written}\n")
    assert read_options(options) == expected
    Address.of("mysql://db1", defaults_file=options)


# MySQL 9.7's `mysql --help` and MariaDB 11.8's `mariadb --help`, without those that are obeyed.
_REFUSED = (
    "ssl-capath ssl-cipher ssl-crl ssl-crlpath ssl-fips-mode ssl-session-data tls-version tls-ciphersuites"
    " ssl-session-data-continue-on-failed-reuse tls-sni-servername ssl-fp ssl-fplist tls-fp ssl-passphrase"
    " ssl-what-comes-next skip-tls-version loose-ssl-crl SSL_CRL"
)


@pytest.mark.parametrize("name", _REFUSED.split())
def test_other_options_of_tls_are_refused_by_name(tmp_path: Path, name: str) -> None:
    options = tmp_path / "my.cnf"
    options.write_text(f"[client]\n{name}=geheim\n")
    shown = name.replace("_", "-").lower().removeprefix("loose-")
    with pytest.raises(BinlogError, match=f"{shown} in the option file is not supported") as refused:
        read_options(options)
    assert "geheim" not in str(refused.value)
    options.write_text(f"[mysqld]\n{name}=geheim\n")
    assert read_options(options) == {}
