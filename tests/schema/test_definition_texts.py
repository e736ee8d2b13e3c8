"""Definitions as text: nothing of a definition is lost, and what is not ours is told apart."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from binlog_core.schema.definition_texts import NOT_OURS, packed, plain, table_of, unpacked
from binlog_core.schema.given import parse_create_table

TEXT = (
    "CREATE TABLE t (id BIGINT UNSIGNED NOT NULL, e ENUM('a','b') CHARACTER SET latin1, d DECIMAL(9,2),"
    " g POINT SRID 4326, v INT AS (id + 1) STORED INVISIBLE, z INT ZEROFILL, PRIMARY KEY (id),"
    " UNIQUE KEY two (d, z), UNIQUE KEY (e)) CHARSET utf8mb4"
)


def test_a_definition_comes_back() -> None:
    table = parse_create_table(TEXT, "shop", "t")
    sent = unpacked(packed(plain(table)))
    assert table_of(sent) == table
    assert sent["columns"][0] == {
        "name": "id",
        "type_name": "bigint",
        "unsigned": True,
        "nullable": False,
    }  # what is not said is as by default
    assert sent["unique_keys"][0] == {"name": "two", "columns": ["d", "z"]}


@pytest.mark.parametrize(
    "known", [[], {}, {"columns": 1}, {"columns": [{"nothing": 1}]}, {"columns": [], "name": "t"}], ids=str
)
def test_what_is_not_a_definition(known: object) -> None:
    with pytest.raises(NOT_OURS):
        table_of(unpacked(packed(known)))


@pytest.mark.parametrize("text", ["", "no base64", base64.b64encode(b"[]").decode()])
def test_what_is_not_packed(text: str) -> None:
    with pytest.raises(NOT_OURS):
        unpacked(text)


def test_the_text_is_compressed_json_in_base64() -> None:
    assert json.loads(zlib.decompress(base64.b64decode(packed({"a": [1, None]})))) == {"a": [1, None]}
