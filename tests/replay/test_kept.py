"""Statements that wait in a temporary file."""

from __future__ import annotations

import tempfile

import pytest

from binlog_core import BinlogError
from binlog_core.replay.kept import Kept


def test_statements_come_back_in_any_order() -> None:
    kept = Kept(1000)
    kept.add("first;")
    assert kept[0] == "first;"
    kept.add("")
    kept.add("x" * 100)
    kept.add("last;")
    assert len(kept) == 4
    assert [kept[i] for i in (3, 1, 0, 2, 3)] == ["last;", "", "first;", "x" * 100, "last;"]
    kept.close()


def test_no_more_than_the_limit() -> None:
    kept = Kept(10)
    kept.add("12345")
    kept.add("67890")
    with pytest.raises(BinlogError, match=r"take more than Limits\.spool_bytes=10"):
        kept.add("1")
    assert (len(kept), kept[1]) == (2, "67890")
    kept.close()


def test_text_beyond_ascii_is_not_taken_for_a_statement() -> None:
    """Clients would read them in their own character set."""
    kept = Kept(1000)
    with pytest.raises(UnicodeEncodeError):
        kept.add("SELECT 'é';")
    kept.close()


def test_a_full_disk_is_named() -> None:
    for begun in (b"", b"x"):
        kept = Kept(1 << 30)
        kept._file.close()
        kept._file = open("/dev/full", "w+b")  # noqa: SIM115  (closed below)
        kept._file.write(begun)
        with pytest.raises(BinlogError, match=r"No space left on device: .* TMPDIR") as caught:
            kept.add("x" * (1 << 20))
            kept[0]
        assert caught.value.path == tempfile.gettempdir()
        kept.close()
