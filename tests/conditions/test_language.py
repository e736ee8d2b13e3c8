"""Conditions: their text, and text that is refused."""

from __future__ import annotations

import pickle

import pytest
from support.conditions import ORDERS

import binlog_core
from binlog_core import Condition, ConditionError, Limits

pytestmark = [pytest.mark.sanitize, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            "id =",
            "expected a number, text in quotes, or NULL at character 5 of the condition, found the end",
        ),
        ("= 5", "expected the name of a column at character 1"),
        ("id = 5 5", "expected and, or, or the end at character 8 of the condition, found 5"),
        ("id == 5", "expected a number, text in quotes, or NULL at character 5"),
        ("id in ()", "at character 8"),
        ("id in (1, 2", r"expected '\)' at character 12"),
        ("(id = 5", r"expected '\)' at character 8"),
        ("id between 1", "expected and at character 13"),
        ("id like 5", "expected text in quotes at character 9"),
        ("id like 'a' escape 'xy'", "expected one character in quotes"),
        ("id is 5", "expected null at character 7"),
        ("id not = 5", "expected in, between or like at character 8"),
        ("id = 'a", "the quote ' is not closed at character 6"),
        ("`id = 5", "the quote ` is not closed at character 1"),
        ("id = 5; drop table x", "unexpected ';' at character 7"),
        ("id = \x00", r"unexpected '\\x00' at character 6"),
        ("before. = 5", "expected the name of a column at character 9"),
        ("shop.id = 5", "expected a comparison, in, between, like or is null at character 5"),
        ("changed(before.id)", r"changed\(\) at character 9 takes the name of a column"),
        ("changed id", "expected a comparison"),
        ("id = - 'a'", "expected a number at character 8"),
        ("id = 1e999999", "the number at character 6 of the condition is too long"),
        ("id = " + "9" * 200, "the number at character 6 of the condition is too long"),
        ("(" * 65 + "id = 1" + ")" * 65, "more than Limits.condition_depth=64 parentheses"),
        ("not " * 3, "expected the name of a column at character 13"),
        ("a = 1 or " * 200_000, "Limits.condition_length=1048576"),
    ],
)
def test_what_is_not_a_condition(where: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        Condition(where)
    with pytest.raises(ValueError, match=message):
        binlog_core.open(ORDERS, where=where)


def test_types_of_where() -> None:
    with binlog_core.open(ORDERS, where=Condition("k = 1")) as log:
        one = list(log.rows())
        assert one == list(log.rows(where="K = 1")) == [c for c in log.rows(where="") if c in one] != []
        assert list(log.rows(where="k = 1 and k = 2")) == []
    with pytest.raises(TypeError, match="expected a condition's text, not int"):
        binlog_core.open(ORDERS, where=5)
    both = Condition("k = 1") & Condition("w = 2")
    assert pickle.loads(pickle.dumps(both)) == both == Condition("(k = 1) and (w = 2)")
    with pytest.raises(ConditionError):
        binlog_core.open(ORDERS, where="(k = 1)", limits=Limits(condition_length=6))
