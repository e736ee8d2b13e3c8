"""What the statements among changes do in total to the rows before them."""

from __future__ import annotations

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from binlog_core.lake.apply.alterations import Check, From  # noqa: E402
from binlog_core.lake.apply.staging import AppliedStatement  # noqa: E402
from binlog_core.lake.apply.statements import ApplyStopped, Effects, Rules, follow  # noqa: E402

TYPES = {"id": pa.int32(), "a": pa.string(), "b": pa.string()}


def effects_of(*told: tuple[str, str], rows: int = 0, failed: Check | None = None, **rules: Any) -> Effects:
    statements = [AppliedStatement(7, i, kind, sql) for i, (kind, sql) in enumerate(told)]
    given: dict[str, Any] = {"keys": ("id",), "types": TYPES, **rules}
    return follow(statements, Rules(**given), lambda *_: (rows, failed))


def test_values_come_from_where_the_last_name_was_the_targets() -> None:
    found = effects_of(
        ("alter", "ALTER TABLE t RENAME COLUMN a TO c"),
        ("alter", "ALTER TABLE t RENAME COLUMN c TO d, ADD e INT DEFAULT 5"),
        ("alter", "ALTER TABLE t RENAME COLUMN e TO f"),
    )
    assert {name: found.values[name] for name in ("d", "f", "a")} == {"d": From("a"), "f": 5, "a": None}
    assert [one.place for one in found.altered] == [(7, 0), (7, 1), (7, 2)]
    assert found.cleared is None


def test_checks_are_of_the_targets_own_columns() -> None:
    found = effects_of(
        ("alter", "ALTER TABLE t CHANGE a c LONGTEXT"), ("alter", "ALTER TABLE t MODIFY c CHAR(9)")
    )
    assert [check.column for check in found.checks] == ["a"]
    with pytest.raises(ApplyStopped, match=r"char changes its values, column c"):
        effects_of(
            ("alter", "ALTER TABLE t ADD c VARCHAR(9) DEFAULT 'x '"),
            ("alter", "ALTER TABLE t MODIFY c CHAR(9)"),
        )
    check = found.checks[0]
    with pytest.raises(ApplyStopped, match=r"char changes its values"):  # a row of the batch
        effects_of(("alter", "ALTER TABLE t MODIFY a CHAR(9)"), failed=check)


def test_the_servers_columns_are_followed() -> None:
    """A column that was dropped is still among those of the lake."""
    again = "alter", "ALTER TABLE t ADD COLUMN IF NOT EXISTS a VARCHAR(9) DEFAULT '5'"
    drop = "alter", "ALTER TABLE t DROP a"
    present = dict.fromkeys(TYPES)
    assert effects_of(again, present=present).values == {}
    assert effects_of(drop, again, again, present=present).values == {"a": "5"}
    with pytest.raises(ApplyStopped, match="not known whether the column was there, column a"):
        effects_of(again)


def test_what_empties_the_table() -> None:
    found = effects_of(("alter", "ALTER TABLE t RENAME COLUMN a TO c"), ("truncate", "TRUNCATE t"))
    assert (found.cleared, found.values, found.checks) == ((7, 1), {}, ())
    assert [one.place for one in found.altered] == [(7, 0)]  # images before it have the old name
    dropped = ("drop", "DROP TABLE t")
    with pytest.raises(ApplyStopped, match=r"on_drop='empty'"):
        effects_of(dropped)
    assert effects_of(dropped, target_has_rows=lambda: False).cleared == (7, 0)
    with pytest.raises(ApplyStopped, match=r"on_drop='empty'"):
        effects_of(dropped, target_has_rows=lambda: False, rows=1)
    assert effects_of(("truncate", "TRUNCATE t"), dropped).cleared == (7, 1)
    assert effects_of(dropped, on_drop="empty").cleared == (7, 0)
    replaced = ("create", "CREATE OR REPLACE TABLE t (id INT)")
    assert effects_of(replaced, on_drop="empty").cleared == (7, 0)
    assert effects_of(("create", "CREATE TABLE t (id INT)")) == Effects()


def test_the_target_is_asked_for_rows_at_a_drop_alone() -> None:
    asked: list[int] = []

    def has_rows() -> bool:
        asked.append(1)
        return False

    altered, emptied = ("alter", "ALTER TABLE t ADD c INT"), ("truncate", "TRUNCATE t")
    dropped = ("drop", "DROP TABLE t")
    effects_of(altered, emptied, dropped, target_has_rows=has_rows)
    effects_of(dropped, on_drop="empty", target_has_rows=has_rows)
    assert asked == []
    effects_of(altered, dropped, target_has_rows=has_rows)
    assert asked == [1]


@pytest.mark.parametrize(
    ("what", "kind", "sql", "rules"),
    [
        ("alter of the table", "alter", "ALTER TABLE t DROP id", {}),
        ("alter of the table", "alter", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)", {}),
        ("alter of the table", "alter", "ALTER TABLE t DROP KEY IF EXISTS `PRIMARY`", {}),
        ("alter of the table", "alter", "ALTER TABLE t ADD c INT", {"on_alter": "stop"}),
        ("a statement", "unknown", "ALTER TABLE t DROP PARTITION p", {"on_alter": "ignore"}),
        ("rename of the table", "rename", "ALTER TABLE t RENAME TO u", {"on_alter": "ignore"}),
        ("a statement", "unknown", "UPDATE t SET a = 'open", {}),
    ],
)
def test_what_stops(what: str, kind: str, sql: str, rules: dict[str, Any]) -> None:
    with pytest.raises(ApplyStopped, match=f"^{what} is not applied") as caught:
        effects_of((kind, sql), **rules)
    assert sql in str(caught.value)


def test_a_primary_key_may_be_dropped_where_the_key_is_known_to_stay() -> None:
    dropped = "alter", "ALTER TABLE t DROP PRIMARY KEY, DROP INDEX a, ADD PRIMARY KEY (id)"
    assert effects_of(dropped, same_key=True).values == {}
    assert effects_of(("alter", "ALTER TABLE t DROP INDEX a, DROP CONSTRAINT b")).values == {}


def test_alters_may_be_ignored() -> None:
    assert effects_of(("unknown", "ALTER TABLE t MODIFY a INT"), on_alter="ignore") == Effects()
