"""What goes to workers arrives as what it holds."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

from binlog_core.spark.shipped import Shipped, ShippedFunction


class Reader(Shipped):
    def __init__(self) -> None:
        self.kept, self.left = [1, 2], "not sent"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "left": None}


def sent(held: Any) -> Any:
    pickler: Any = cloudpickle
    return pickle.loads(pickler.dumps(held))


def test_a_function_is_itself_here_and_alone_there() -> None:
    function = ShippedFunction(len)
    assert function("four") == 4
    assert sent(function) is len


def test_an_object_arrives_as_its_state_says() -> None:
    found = sent(Reader())
    assert type(found) is Reader
    assert (found.kept, found.left) == ([1, 2], None)
    assert type(sent(found)) is Reader  # again, as Spark does between its planner and its executors
