"""Scripts with several rows in a statement."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from support.writer import Table

from binlog_core.replay.statements import SetByServer
from replay.test_undo import HEAP, log_of, plan, row

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def script(*changes: tuple[Any, ...], **options: Any) -> list[str]:
    """The statements between BEGIN and COMMIT."""
    out = io.BytesIO()
    plan(log_of(list(changes))).write(out, **options)
    return out.getvalue().decode().partition("BEGIN;\n")[2].partition("COMMIT;\n")[0].splitlines()


def test_inserts_and_deletes_share_a_statement_and_updates_do_not() -> None:
    assert script(("delete", [row(1), row(2, 5, "y"), row(3)])) == [
        "INSERT INTO `shop`.`t` (`id`, `a`, `b`) VALUES (3, 0, 'x'), (2, 5, 'y'), (1, 0, 'x');"
    ]
    [deleted] = script(("insert", [row(1), row(2, 5)]))
    same = "CAST(CONVERT(`b` USING utf8mb4) AS BINARY) = 'x'"
    assert deleted == (
        "DELETE FROM `shop`.`t` WHERE `id` IN (2, 1) AND CASE `id`"
        f" WHEN 2 THEN `id` = 2 AND `a` = 5 AND {same} WHEN 1 THEN `id` = 1 AND `a` = 0 AND {same} END;"
    )
    updates = script(("update", [(row(1), row(1, 9)), (row(2), row(2, 9))]))
    assert [line.partition(" WHERE")[0] for line in updates] == ["UPDATE `shop`.`t` SET `a` = 0"] * 2


def test_updates_share_a_statement_on_demand() -> None:
    changes = ("update", [(row(1, 5), row(1, 9, "z")), (row(2, 6), row(2, 9, "z")), (row(3, 7), row(3, 9))])
    [one] = script(changes, batch=10)
    assert one.partition(" WHERE")[0] == (
        "UPDATE `shop`.`t` SET `a` = CASE `id` WHEN 3 THEN 7 WHEN 2 THEN 6 WHEN 1 THEN 5 END, `b` = 'x'"
    )
    assert len(script(changes, batch=2)) == 2
    assert len(script(changes, batch=1)) == 3


@pytest.mark.parametrize(
    "changes",
    [
        ("update", [(row(1), row(11, 9)), (row(2), row(12, 9))]),  # the key may need an order
        ("update", [(row(1, b="é"), row(1, 9)), (row(2, b="y"), row(2, 9))]),  # a literal of its own charset
        ("delete", [{"a": 1, "b": "x"}, {"a": 1, "b": "x"}], HEAP),
    ],
    ids=["key", "text", "insertions"],
)
def test_what_may_mean_something_else_is_alone(changes: tuple[Any, ...]) -> None:
    assert len(script(changes, batch=10)) == (1 if changes[0] == "delete" else 2)


def test_rows_without_a_key_are_deleted_one_by_one() -> None:
    statements = script(("insert", [{"a": 1, "b": "x"}, {"a": 1, "b": "x"}], HEAP), batch=10)
    assert len(statements) == 2
    assert all(line.endswith(" LIMIT 1;") for line in statements)


def test_a_key_of_several_columns() -> None:
    lines = Table("shop", "l", [("o", "INT"), ("n", "INT"), ("q", "INT")], primary_key=["o", "n"])
    images = [({"o": 1, "n": i, "q": i}, {"o": 1, "n": i, "q": 0}) for i in (1, 2)]
    [one] = script(("update", images, lines), batch=10)
    assert re.search(
        r"SET `q` = CASE WHEN `o` = 1 AND `n` = 2 THEN 2 WHEN `o` = 1 AND `n` = 1 THEN 1 END", one
    )
    assert "WHERE ((`o` = 1 AND `n` = 2) OR (`o` = 1 AND `n` = 1)) AND CASE WHEN" in one


def test_a_statement_does_not_grow_with_its_values() -> None:
    long = Table("shop", "long", [("id", "INT"), ("b", "MEDIUMTEXT")], primary_key=["id"])
    statements = script(("delete", [{"id": i, "b": "v" * 100_000} for i in range(6)], long), batch=100)
    assert [line.count("'v") for line in statements] == [2, 2, 2]


def test_times_that_the_server_does_not_set_are_not_set() -> None:
    at = Table("shop", "t", [("id", "INT"), ("a", "INT"), ("made", "DATETIME"), ("seen", "DATETIME")],
               primary_key=["id"])  # fmt: skip
    noon = {"made": "2026-01-02 12:00:00", "seen": "2026-01-02 12:00:00"}
    data = log_of([("update", [({"id": 1, "a": 1} | noon, {"id": 1, "a": 2} | noon)], at)])
    for known, columns in (
        (SetByServer(), ["a", "made", "seen"]),  # the log does not say which times are ON UPDATE
        (SetByServer(at_updates=frozenset(("seen",))), ["a", "seen"]),
        (SetByServer(generated=frozenset(("a",)), at_updates=frozenset()), []),
    ):
        made = plan(data, ask=lambda database, table, known=known: known)
        [one] = made.rows
        assigned = one.statement().partition(" SET ")[2].partition(" WHERE")[0]
        assert re.findall(r"`(\w+)` =", assigned) == columns
