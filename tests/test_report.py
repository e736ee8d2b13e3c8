"""Reports: missing information is counted, with one warning."""

from __future__ import annotations

import pytest
from support.golden import golden_logs
from support.logs import path_of

import binlog_core
from binlog_core import BinlogWarning
from binlog_core import Log as Opened
from binlog_core.report import Report

pytestmark = pytest.mark.sanitize_long


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


def test_a_report_is_short_and_says_where() -> None:
    report = Report(warn=False)
    assert (repr(report), str(report)) == ("<Report: nothing to report>", "nothing to report")
    assert report._repr_html_() == "<p>nothing to report</p>"
    report.add("unnamed_columns", path="a.1", offset=9, table="<s>.t")
    report.add("unnamed_columns", path="a.000002", offset=9, table="s.u", count=1999)
    report.add("skipped_events", path="a.000002", offset=7, detail="wrong checksum")
    assert repr(report) == "<Report: unnamed_columns=2000, skipped_events=1>"
    assert str(report).splitlines() == [
        "tables whose column names are not in the log: 2,000, the first (file a.1, offset 9, table <s>.t)",
        "damaged events were skipped: 1, the first: wrong checksum (file a.000002, offset 7)",
    ]
    page = report._repr_html_()
    assert "<td>tables whose column names are not in the log: 2,000</td>" in page
    assert "<td>file a.1, offset 9, table &lt;s&gt;.t</td>" in page
