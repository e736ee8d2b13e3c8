"""Option files, as the vendors' clients read them."""

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
