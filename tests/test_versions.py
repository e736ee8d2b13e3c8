"""Versions for a report of a bug."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from binlog_core.versions import show_versions, versions


def test_versions() -> None:
    found = versions()
    assert list(found)[:5] == ["binlog_core", "python", "platform", "numpy", "crc32"]
    assert (found["python"], found["numpy"]) == (platform.python_version(), np.__version__)
    assert "nothing-like-that" not in found


def test_what_is_not_installed_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("binlog_core.versions.LIBRARIES", ("no-such-library", "numpy"))
    show_versions()
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["binlog_core", "python", "platform", "numpy", "crc32"]
