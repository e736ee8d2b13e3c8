"""Options of the source: text in, checked values out."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

import binlog_core
from binlog_core.spark import ReadOptions, read_split
from binlog_core.spark.rows.read_options import LogOptions

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
from binlog_core.spark.options import SourceOptions  # noqa: E402


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tabel": "a.b"}, r"'tabel' is unknown: table\?"),
        ({"table": "orders"}, "database.table"),
        ({"table": "a.b", "images": "last"}, "images='last': both, after, keychange are known"),
        ({"table": "a.b", "splitSize": "many"}, "splitSize='many': expected a number of bytes"),
        ({"table": "a.b", "startTime": "yesterday"}, "ISO 8601"),
        ({"table": "a.b", "startOffset": "12"}, "FILE:POSITION"),
        ({"table": "a.b", "onError": "LENIENT"}, "raise, skip, rows"),
        ({"table": "a.b", "epoch": "128"}, "0 to 127"),
        ({"images": "keychange"}, "need option table"),
        ({"table": "a.b", "tables": "c.*"}, "one of them"),
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


def test_options_of_source_and_functions_have_one_set_of_names() -> None:
    common = {one.name for one in fields(LogOptions)}
    source, functions = ({one.name for one in fields(kind)} for kind in (SourceOptions, ReadOptions))
    assert common == (source & functions) - {"absent", "on_error"}
    given = inspect.signature(read_split).parameters.keys() - {"split"}
    assert given <= functions
    assert given & inspect.signature(binlog_core.open).parameters.keys() >= {"schema", "keys", "on_error"}
    parsed = SourceOptions.of({"schema": "ddl", "absent": "auto", "key_columns": ["a", "b"]}, table="d.t")
    texts = {"SCHEMA": "ddl", "keyColumns": "a,b", "table": "d.t"}
    assert parsed == SourceOptions.parse(texts)
    assert parsed.read_options(columns=["c"]).columns == {"d.t": ("c",)}
    with pytest.raises(ValueError, match="option 'onErrors' is unknown: onError"):
        SourceOptions.parse({"onErrors": "skip"})
    with pytest.raises(ValueError, match="schema_start goes with schema=ddl"):
        SourceOptions.parse({"schemaStart": "shop.sql"})
