"""Versions of servers, as servers write them."""

from __future__ import annotations

import pytest

from binlog_core._format.server_versions import split_server_version

pytestmark = pytest.mark.sanitize


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("5.6.1-labs", (5, 6, 1)),
        ("5.1beta", (5, 1, 0)),
        ("10.11.18-MariaDB-0+deb12u1-log", (10, 11, 18)),
        ("5-x", (0, 0, 0)),
        ("", (0, 0, 0)),
        ("log", (0, 0, 0)),
        ("5.300.1", (0, 0, 0)),
    ],
)
def test_split_server_version(version: str, numbers: tuple[int, int, int]) -> None:
    assert split_server_version(version) == numbers
