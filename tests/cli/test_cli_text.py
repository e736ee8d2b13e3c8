"""Values as JSON and CSV: the same texts in both."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from decimal import Decimal

import pytest
from support.golden import golden_logs

pytest.importorskip("typer")

import binlog_core
from binlog_core._base.json_text import encode_plain
from binlog_core._core._values import JsonTexts
from binlog_core._decode.merge import ChangeReader
from binlog_core.cli.text import csv_field, csv_line, csv_values, json_line, json_lines


def test_jsonl_of_other_types() -> None:
    """Types that JSON lacks; by hand."""
    moment = dt.datetime(2026, 11, 21, 8, 0, 5, 250000, dt.UTC)
    record = {
        "d": Decimal("-0.50"),
        "b": b"\x00\xff",
        "t": -dt.timedelta(hours=838, minutes=59, seconds=59, microseconds=500000),
        "day": dt.date(1, 2, 3),
        "at": moment,
        "naive": dt.datetime(2026, 1, 1),
        "set": ["a", "b"],
        "none": None,
        "text": 'say "hi",\n',
    }
    assert json.loads(json_line(record)) == {
        "d": "-0.50",
        "b": {"hex": "00ff"},
        "t": "-838:59:59.500000",
        "day": "0001-02-03",
        "at": "2026-11-21 08:00:05.250000+00:00",
        "naive": "2026-01-01 00:00:00",
        "set": ["a", "b"],
        "none": None,
        "text": 'say "hi",\n',
    }
    fields = next(csv.reader(io.StringIO(csv_line(record.values()).decode(), newline="")))
    assert fields[:4] == ["-0.50", "00ff", "-838:59:59.500000", "0001-02-03"]
    assert fields[6:] == ['["a", "b"]', "", 'say "hi",\n']
    assert csv_line(["", None, " x"]) == b'"",," x"\n'


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, ""),
        ("", '""'),
        ("plain", "plain"),
        ("two words", "two words"),
        (" x", '" x"'),
        ("x\t", '"x\t"'),
        ("a,b", '"a,b"'),
        ('say "hi"', '"say ""hi"""'),
        ("a\nb", '"a\nb"'),
        (True, "true"),
        (-5, "-5"),
        (0.1, "0.1"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("1E+2"), "100"),
        (b"\x00\xff", "00ff"),
        (b"", '""'),
        ([], "[]"),
        ({"hex": "00"}, "00"),
        ("数", "数"),
    ],
)
def test_fields_of_csv(value: object, field: str) -> None:
    assert csv_field(value) == field
    assert csv_values([value, "x"]) == [field, "x"]  # the way of whole columns


def test_lines_of_csv_are_utf8() -> None:
    assert csv_line(["é", "\udcff", None]) == b"\xc3\xa9,\\udcff,\n"


def test_lines_are_those_of_the_changes() -> None:
    """Every golden log: lines made of a group at once are those made of each change, in the same order."""
    checked = several = 0
    for golden in golden_logs(max_bytes=1_000_000):
        if golden.open_arguments:
            continue
        texts = JsonTexts("readable", encode_plain)
        got = []
        with binlog_core.open(golden.path) as log:
            reader = ChangeReader(log.report, skip_errors=False)
            for group in log.groups():
                with reader.readers(group) as readers:
                    several += len(readers) > 1
                    got.append(json_lines(texts, group, readers))
        names = ("op", "database", "table", "before", "after", "timestamp", "gtid", "path", "position")
        with binlog_core.open(golden.path) as log:
            want = [
                json_line({"file" if name == "path" else name: getattr(change, name) for name in names})
                for change in log.rows()
            ]
        assert b"".join(got) == b"".join(want)
        checked += len(want)
    assert checked > 5_000
    assert several > 50
