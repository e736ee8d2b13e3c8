"""How logs are read: wrong values are refused before anything is opened."""

from __future__ import annotations

import pytest

from binlog_core.spark import ReadOptions, Split, read_split

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("option", ["images", "unnamed", "text_errors", "on_error"])
def test_unknown_options(option: str) -> None:
    with pytest.raises(ValueError, match=option):
        read_split(Split("x"), **{option: "nonsense"})


def test_what_an_option_may_be() -> None:
    with pytest.raises(
        ValueError, match="metadata='_place': expected one of _gtid, _file, _position, _server_id, _xid"
    ):
        ReadOptions(metadata=("_gtid", "_place"))
    with pytest.raises(ValueError, match="schema_start needs schema=ddl"):
        ReadOptions(schema="shop.sql", schema_start="start.sql")
    assert ReadOptions(schema="ddl", schema_start="start.sql").follows
    assert not ReadOptions(schema={"shop.t": ["id"]}).follows
    assert "secret" not in repr(ReadOptions(keys={1: "secret"}, storage_options={"key": "secret"}))
