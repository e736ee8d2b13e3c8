"""Definitions: the key that identifies rows, and character sets that change."""

from __future__ import annotations

from binlog_core.schema.given import parse_create_table


def test_row_key_is_the_first_unique_key_without_nulls() -> None:
    def row_key(body: str) -> tuple[str, ...] | None:
        return parse_create_table(f"CREATE TABLE t ({body})", "d").row_key

    assert row_key("a int, b int not null, unique (a), unique (b)") == ("b",)
    assert row_key("a int, b varchar(9) not null, unique (b(3))") is None
    assert row_key("a int not null unique, b int primary key") == ("b",)
