"""Definitions as plain values for JSON, and back."""

from __future__ import annotations

import json

import pytest
from support.golden import golden_logs

import binlog_core
from binlog_core._tables.described import describe, described_table

pytestmark = pytest.mark.sanitize_long


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("name", ["types_ints", "types_charsets", "types_enum_set", "meta_full"])
def test_each_definition_comes_back(name: str) -> None:
    seen = 0
    for golden in golden_logs():
        if golden.path.stem != name:
            continue
        with binlog_core.open(golden.path, **golden.open_arguments) as log:
            for table in log.tables().values():
                described = json.loads(json.dumps(describe(table)))
                assert described_table(table.database, table.name, described).columns == table.columns
                assert described_table(table.database, table.name, described).primary_key == table.primary_key
                seen += 1
    assert seen


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"key": None, "columns": [{"name": "a", "index": 0, "type_code": 3, "kind": "SOUP"}]},
        {"key": None, "columns": [{"name": "a", "index": 1, "type_code": 3, "kind": "INT"}]},
        {"key": None, "columns": [{"name": "a", "index": 0, "type_code": 77, "kind": "INT"}]},
        {"key": None, "columns": [{"name": "a", "index": 0, "kind": "INT", "soup": 1}]},
    ],
)
def test_anything_else_is_refused(described: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        described_table("shop", "t", described)
