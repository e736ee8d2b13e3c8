"""Reports: missing information is counted, with one warning."""

from __future__ import annotations

import pytest
from support.golden import golden_logs
from support.logs import path_of

import binlog_core
from binlog_core import BinlogWarning
from binlog_core import Log as Opened


def test_what_the_log_does_not_tell_is_warned_of_once_where_the_user_stands() -> None:
    for read in (Opened.rows, Opened.batches, Opened.groups):
        with binlog_core.open(path_of(golden_logs("mysql56/types_ints")[0])) as log:
            with pytest.warns(BinlogWarning) as caught:
                for _ in read(log):
                    pass
            texts = [str(one.message) for one in caught]
            # Of signs, which such a log lacks too, it says nothing more: the remedy is the same.
            assert [text.split(":")[0] for text in texts] == ["tables whose column names are not in the log"]
            assert 'schema="ddl"' in texts[0]
            assert log.report.unknown_signs
            assert {one.filename for one in caught} == {__file__}
    with (
        binlog_core.open(path_of(golden_logs("mysql56/types_ints")[0])) as log,
        pytest.warns(BinlogWarning, match="they are called c0") as caught,
    ):
        log.batches("*").to_arrow()
    assert {one.filename for one in caught} == {__file__}
