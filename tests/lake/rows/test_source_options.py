"""Options of the data source: from text to checked values."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import binlog_core
from binlog_core.lake.rows.read_options import LogOptions
from binlog_core.spark import ReadOptions, read_split

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
from binlog_core.lake.rows.source_options import (  # noqa: E402
    OPTIONS,
    SourceKeywords,
    SourceOptions,
    paths_of,
)

pytestmark = pytest.mark.oldest_spark

PAGE = Path(__file__).parents[3] / "docs" / "spark-datasource.md"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tabel": "a.b"}, "'tabel' is unknown; near: table"),
        (
            {"readChangeFeed": "true"},
            "'readChangeFeed' is unknown: each read gives the changes, leave it out",
        ),
        (
            {"startingVersion": "5"},
            "'startingVersion' is unknown: expected startOffset, startTime or a filter",
        ),
        (
            {"endingVersion": "5"},
            "'endingVersion' is unknown: expected endTime or a filter on _commit_version",
        ),
        ({"startingTimestamp": "2026-01-01"}, "'startingTimestamp' is unknown: expected startTime"),
        ({"endingTimestamp": "2026-01-01"}, "'endingTimestamp' is unknown: expected endTime"),
        ({"maxFilesPerTrigger": "5"}, "'maxFilesPerTrigger' is unknown: expected maxBytesPerTrigger"),
        ({"table": "orders"}, "database.table"),
        ({"table": "a.b", "images": "last"}, "images='last': expected one of both, after, keychange"),
        ({"table": "a.b", "splitSize": "many"}, "splitSize='many': expected a number of bytes"),
        ({"table": "a.b", "startTime": "yesterday"}, "ISO 8601"),
        ({"table": "a.b", "startOffset": "12"}, "FILE:POSITION"),
        ({"table": "a.b", "onError": "LENIENT"}, "raise, skip, rows"),
        ({"table": "a.b", "epoch": "128"}, "0 to 127"),
        ({"images": "keychange"}, "need option table"),
        ({"table": "a.b", "tables": "c.*"}, "give only one"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SourceOptions.parse(options)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"server": "mysql://root:secret-word@db1"}, "would be in Spark's plan"),
        ({"server": "mysql://root@db1?password=secret-word"}, "would be in Spark's plan"),
        ({"schema": "mysql://root:secret-word@db1/shop"}, "would be in Spark's plan"),
        ({"server": "db1"}, "expected mysql://user@host"),
    ],
)
def test_a_password_is_refused_in_an_option(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        SourceOptions.parse(given)
    assert "secret-word" not in str(refused.value)


@pytest.mark.parametrize("digits", ["²", "①", "9" * 5000], ids=["superscript", "circled", "long"])
@pytest.mark.parametrize(
    ("option", "before", "message"),
    [
        ("startTime", "", "ISO 8601"),
        ("startOffset", "bin.000001:", "FILE:POSITION"),
        ("epoch", "", "a number from 0 to"),
    ],
)
def test_digits_that_are_not_a_number_are_refused(
    option: str, before: str, message: str, digits: str
) -> None:
    with pytest.raises(ValueError, match=message):
        SourceOptions.parse({option: before + digits})


def test_options_of_source_and_functions_have_one_set_of_names() -> None:
    common = {one.name for one in fields(LogOptions)}
    source, functions = ({one.name for one in fields(kind)} for kind in (SourceOptions, ReadOptions))
    assert common == (source & functions) - {"absent"}
    given = inspect.signature(read_split).parameters.keys() - {"split"}
    assert given <= functions
    assert given & inspect.signature(binlog_core.open).parameters.keys() >= {"schema", "keys", "on_error"}
    parsed = SourceOptions.of({"schema": "ddl", "absent": "auto", "key_columns": ["a", "b"]}, table="d.t")
    texts = {"SCHEMA": "ddl", "keyColumns": "a,b", "table": "d.t"}
    assert parsed == SourceOptions.parse(texts)
    assert parsed.read_options(columns=["c"]).columns == {"d.t": ("c",)}
    with pytest.raises(ValueError, match="option 'onErrors' is unknown; near: onError"):
        SourceOptions.parse({"onErrors": "skip"})
    with pytest.raises(ValueError, match="schema_start needs schema=ddl"):
        SourceOptions.parse({"schemaStart": "shop.sql"})


def test_functions_take_every_option() -> None:
    assert set(SourceKeywords.__annotations__) == {one.name for one in fields(SourceOptions)} - {"table"}
    assert {one.name for one in OPTIONS.values()} == {one.name for one in fields(SourceOptions)} - {
        "storage_options"
    }


def test_the_page_has_every_option_with_its_values() -> None:
    """Those with a few values with all of them, the default first."""
    [table] = re.findall(r"^## Options\n\n((?:\|.*\n)+)", PAGE.read_text("utf-8"), re.MULTILINE)
    told = {}
    for row in table.splitlines()[2:]:
        names, values, _ = re.split(r"(?<!\\) \| ?", row.removeprefix("| ").removesuffix(" |") + " | ")[:3]
        told |= {name: re.findall(r"`(.+?)`", values) for name in re.findall(r"`(.+?)`", names)}
    assert set(told) == {*OPTIONS, "fs.NAME"}
    few = {name: one.metadata["values"] for name, one in OPTIONS.items() if "values" in one.metadata}
    kinds = get_type_hints(SourceKeywords)
    few |= {
        name: ("true", "false") if one.default else ("false", "true")
        for name, one in OPTIONS.items()
        if kinds.get(one.name) is bool
    }
    assert len(few) == 13
    assert {name: OPTIONS[name].default for name in few} == {
        name: values[0] == "true" if "true" in values else values[0] for name, values in few.items()
    }
    assert {name: tuple(told[name]) for name in few} == few


@pytest.mark.parametrize("kind", [ReadOptions, SourceOptions])
@pytest.mark.parametrize("name", ["images", "unnamed", "text_errors", "on_error"])
def test_a_value_that_an_option_does_not_have(kind: type, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}='other': expected \w+ or"):
        kind(**{name: "other"})


def test_values_of_options() -> None:
    parsed = SourceOptions.parse(
        {
            "TABLE": "a.b",
            "splitSize": "3k",
            "maxBytesPerTrigger": "2 MB",
            "startTime": "2026-01-02T00:00:00",
            "endTime": "2026-01-02T01:00:00+01:00",
            "startOffset": "C:bin.000001:120",
            "absent": "AUTO",
            "metadata": "_XID, _gtid",
            "fs.key": "x",
            "path": "not looked at",
        }
    )
    assert (parsed.split_size, parsed.max_bytes_per_trigger) == (3072, 2 << 20)
    assert parsed.start_time == parsed.end_time == 1_767_312_000
    assert parsed.start_offset == ("C:bin.000001", 120)
    assert (parsed.absent, parsed.metadata) == (None, ("_xid", "_gtid"))
    assert parsed.storage_options == {"key": "x"}
    assert SourceOptions.parse({"splitSize": "0"}).split_size is None


def test_which_tables_are_wanted() -> None:
    some = SourceOptions.parse({"tables": "shop.*", "excludeTables": "shop.tmp_*"})
    assert [some.wants(name) for name in ("shop.t", "shop.tmp_1", "other.t")] == [True, False, False]
    one = SourceOptions.parse({"table": "shop.[t]"})
    assert [one.wants(name) for name in ("shop.[t]", "shop.t")] == [True, False]
    assert one.read_options().tables == ("shop.[[]t]",)
    with pytest.raises(ValueError, match="no path"):
        paths_of({"table": "shop.t"})
    assert paths_of({"PATHS": '["a", "b"]', "path": "c"}) == ["a", "b"]
