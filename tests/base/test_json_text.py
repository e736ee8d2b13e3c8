"""JSON that every reader takes, whatever names and numbers a log holds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from support.cli import run
from support.writer import Log, Table

from binlog_core._base.json_text import JsonText
from binlog_core.cli.text import csv_line
from binlog_core.lake.rows.fit import to_json

pytestmark = pytest.mark.sanitize_long

NUMBERS = [math.nan, math.inf, -math.inf, 1.5]


def strict(text: str | bytes) -> Any:
    """Parsed as the standard has it; bytes have to be UTF-8."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text.decode() if isinstance(text, bytes) else text, parse_constant=refuse)


def test_numbers_that_json_has_not() -> None:
    encode = JsonText().encode
    assert strict(encode({"a": NUMBERS, "b": (1, {"c": math.nan})})) == {
        "a": ["NaN", "Infinity", "-Infinity", 1.5],
        "b": [1, {"c": "NaN"}],
    }
    assert strict(to_json(NUMBERS)) == ["NaN", "Infinity", "-Infinity", 1.5]
    assert csv_line(NUMBERS) == b"NaN,Infinity,-Infinity,1.5\n"


def test_bytes_that_are_not_text() -> None:
    name = b"caf\xe9\xff".decode("utf-8", "surrogateescape")
    found = strict(JsonText().encode({name: name}))
    assert {key.encode("utf-8", "surrogateescape"): value for key, value in found.items()} == {
        b"caf\xe9\xff": name
    }
    assert strict(to_json({name: 1})) == {name: 1}
    csv_line([name]).decode()


def test_the_lines_of_a_hostile_log(tmp_path: Path) -> None:
    log = Log(checksum=False)
    log.begin("dbname")
    log.rows_query("INSERT statement")
    table = Table("dbname", "tabname", [("colname", "DOUBLE"), ("f", "FLOAT")])
    log.insert(table, [{"colname": 1.25, "f": 1.25}])
    log.commit()
    data = log.getvalue()
    for name in (b"dbname", b"tabname", b"colname", b"statement"):
        data = data.replace(name, name[:-2] + b"\xff\xfe")
    data = data.replace(b"\x00\x00\x00\x00\x00\x00\xf4\x3f", b"\x00\x00\x00\x00\x00\x00\xf8\x7f")
    data = data.replace(b"\x00\x00\xa0\x3f", b"\x00\x00\x80\xff")
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    for command in (
        ["rows", "-f", "jsonl"],
        ["events", "-f", "jsonl"],
        ["info", "--json"],
        ["verify", "--json"],
    ):
        ran = run(*command, path)
        assert ran.code == 0, ran.err
        text = ran.out
        found = strict(text) if "info" in command else [strict(line) for line in text.splitlines()]
        assert found
        if "rows" in command:
            ((change,),) = [found]
            assert list(change["after"].values()) == ["NaN", "-Infinity"]
            assert change["table"] == r"tabna\xff\xfe"


@pytest.mark.parametrize("form", ["csv", "sql"])
def test_other_formats_are_utf8(form: str, tmp_path: Path) -> None:
    log = Log(checksum=False)
    log.begin()
    log.insert(Table("d", "tabname", [("id", "INT")]), [{"id": 1}])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue().replace(b"tabname", b"tabna\xff\xfe"))
    out = tmp_path / "out"
    ran = run("rows", path, "-f", form, "-o", out)
    assert ran.code in (0, 1), ran.err
    if ran.code == 0:
        out.read_text(encoding="utf-8")
