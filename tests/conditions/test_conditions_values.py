"""Values that conditions compare with: those that do not fit a column."""

from __future__ import annotations

import pytest
from support.conditions import ORDERS

import binlog_core
from binlog_core import ConditionError
from binlog_core.conditions import values as condition_values

pytestmark = [pytest.mark.sanitize, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("k = 'abc'", "INT: expected a number at character 5"),
        ("k like '1%'", "like is for text"),
        ("v = 5", "TEXT: expected text in quotes at character 5"),
        ("w = 5 and nothing = 1", "does not have the column 'nothing'"),
        ("_server_id = 'a'", "_server_id: expected a number at character 14"),
        (
            "_change_type = 'upsert'",
            "expected one of insert, update_preimage, .*, update at character 16",
        ),
        ("_commit_timestamp > 5", "_commit_timestamp: expected text such as"),
    ],
)
def test_what_does_not_fit_the_table(where: str, message: str) -> None:
    with binlog_core.open(ORDERS) as log, pytest.raises(ConditionError, match=message):
        list(log.rows("shop.uq", where=where))


def test_like_takes_no_time() -> None:
    """It does not try every way to divide a text among the %."""
    test = condition_values._like_regex(tuple(condition_values.like_tokens("%a" * 40 + "b", "\\")))
    assert test.fullmatch("a" * 5000) is None
    assert test.fullmatch("a" * 5000 + "b") is not None
