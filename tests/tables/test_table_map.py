"""Metadata of table maps that no server writes."""

from __future__ import annotations

import pytest
from support.writer import Log, Table

import binlog_core

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


@pytest.mark.parametrize("kind", ["ENUM", "SET"])
def test_members_are_no_longer_than_a_server_makes_them(kind: str) -> None:
    """A row refers to one by a byte: a long one would be written out for each row."""
    for length, known in ((65535, True), (65536, False)):
        member = "x" * length
        log = Log()
        log.begin()
        value = member if kind == "ENUM" else [member]
        log.insert(Table("d", "t", [("e", f"{kind}('{member}')")]), [{"e": value}])
        log.commit()
        with binlog_core.open(log.getvalue()) as opened:
            (row,) = opened.rows()
            assert row.after == {"e": value if known else 1}
            assert opened.report.metadata_misfits == (0 if known else 1)
