"""Versions, as a report of a bug should have them."""

from __future__ import annotations

import re
import sys

import pytest

import binlog_core

pytest.importorskip("typer")

from support.cli import run


def test_versions() -> None:
    ran = run("versions")
    assert ran.code == 0
    found = dict(line.split(None, 1) for line in ran.lines)
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["crc32"]
    assert binlog_core.show_versions is not None


def test_version() -> None:
    ran = run("--version")
    assert ran.code == 0
    assert re.fullmatch(r"binlog-core (\d+\.\d+\S*|not installed)\n", ran.text)
