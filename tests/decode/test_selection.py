"""Selections: tables, columns, operations, servers."""

from __future__ import annotations

from fnmatch import fnmatchcase
from glob import escape

import pytest
from support.golden import golden_logs
from support.logs import DDL, GTID, META_FULL, all_rows, path_of

import binlog_core
from binlog_core import SchemaError
from binlog_core._decode.selection import is_wanted_name, matches, unmatched
from binlog_core._tables import full_names

pytestmark = pytest.mark.sanitize


def test_tables_by_name_and_pattern() -> None:
    whole = all_rows(path_of(DDL))
    names = sorted({f"{c.database}.{c.table}" for c in whole})
    assert len(names) > 1
    one = names[0]
    assert all_rows(path_of(DDL), tables=one) == [c for c in whole if f"{c.database}.{c.table}" == one]
    table = one.split(".")[1]
    assert all_rows(path_of(DDL), tables=table) == [c for c in whole if c.table == table]
    assert all_rows(path_of(DDL), tables=["nothing.*"]) == []
    with binlog_core.open(path_of(DDL)) as log:
        assert list(log.rows(tables=one)) == all_rows(path_of(DDL), tables=one)


def test_columns_are_projected_and_misspelt_ones_reported() -> None:
    with binlog_core.open(path_of(META_FULL)) as log:
        whole = list(log.rows())
        table = f"{whole[0].database}.{whole[0].table}"
        wanted = list(whole[0].after or {})[1:3]
        for batch in log.batches(table, columns={table: wanted}):
            assert batch.array.dtype["row"].names == tuple(
                n for n in wanted if n in batch.array.dtype["row"].names
            )
        with pytest.raises(SchemaError, match="misspelt"):
            list(log.batches(table, columns={table: ["misspelt"]}))
    projected = all_rows(path_of(META_FULL), tables=table, columns={table: wanted})
    of_table = [c for c in whole if f"{c.database}.{c.table}" == table]
    for got, full in zip(projected, of_table, strict=True):
        for image, all_of_it in ((got.before, full.before), (got.after, full.after)):
            assert image == (
                None if all_of_it is None else {k: v for k, v in all_of_it.items() if k in wanted}
            )


@pytest.mark.parametrize("op", ["insert", "update", "delete"])
def test_ops(op: str) -> None:
    whole = all_rows(path_of(DDL))
    assert all_rows(path_of(DDL), ops=op) == [c for c in whole if c.op == op]


def test_server_id() -> None:
    with binlog_core.open(path_of(GTID)) as log:
        server_id = int(log.headers()["server_id"][0])
        whole = list(log.rows())
    assert all_rows(path_of(GTID), server_id=server_id) == whole
    assert all_rows(path_of(GTID), server_id=server_id + 1) == []


def test_columns_without_a_table_are_those_of_every_table() -> None:
    path = golden_logs("mysql97/types_ints")[0].path
    with binlog_core.open(path, columns=["id", "flag_int"]) as log:
        assert {tuple(change.after) for change in log.rows() if change.after} == {("id", "flag_int")}
        assert {batch.array["row"].dtype.names for batch in log.batches(columns="id")} == {("id",)}
        with pytest.raises(binlog_core.SchemaError, match="nope"):
            list(log.batches(columns=["nope"]))


def test_names_with_dots() -> None:
    table, other = binlog_core.Table("a.b", "c", ()), binlog_core.Table("a", "b.c", ())
    assert matches(other, "a.b.c") and matches(other, "a.*") and matches(other, "`b.c`")
    for one, two in ((table, other), (other, table)):
        assert matches(one, one.full_name) and not matches(one, two.full_name)
        assert is_wanted_name(one.full_name, ("a.b.c",), None)
        assert not is_wanted_name(one.full_name, (two.full_name,), None)
        for pattern in ("a.b.c", one.full_name, one.full_name.replace("c", "?")):
            assert is_wanted_name(one.full_name, (pattern,), None)
        assert not is_wanted_name(one.full_name, (two.full_name,), None)
    assert matches(table, "`a.*`.c") and not matches(table, "`a.*`.d") and not matches(table, "`c.`")
    assert matches(table, "a.b.c") and matches(table, "c") and matches(table, "a.b.*")
    assert not matches(table, "b.c")


def test_a_pattern_that_is_one_name_is_not_held_against_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror may name thousands of tables."""
    names = [f"shop.t{i}" for i in range(500)] + ["shop.[a]*", "shop.a?", "shop.b", "a.b.c"]
    patterns = tuple(map(escape, names))
    asked = 0

    def counted(name: str, pattern: str) -> bool:
        nonlocal asked
        asked += 1
        return fnmatchcase(name, pattern)

    monkeypatch.setattr(full_names, "fnmatchcase", counted)
    assert all(is_wanted_name(name, patterns, None) for name in names)
    assert not any(is_wanted_name(f"{name}x", patterns, None) for name in names)
    assert asked == len(names)
    assert unmatched((*patterns, "shop.c", "shop.d*", "t7"), names) == ["shop.c", "shop.d*"]
    assert asked < 4 * len(names)


@pytest.mark.parametrize("pattern", ["b", "a.b", "a.*", "*", "?", "[ab]", "[*]", "a.[*]", "a.[[]", "[[]"])
def test_patterns_and_names_match_as_fnmatch_says(pattern: str) -> None:
    for name in ("a.b", "a.*", "a.[", "a.x", "b.a", "a.[*]"):
        found = fnmatchcase(name if "." in pattern else name.partition(".")[2], pattern)
        assert is_wanted_name(name, ("none", pattern), None) == found
        assert is_wanted_name(name, None, ("none", pattern)) != found
