"""What goes to workers arrives as what it holds."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
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


class Empty(Shipped):
    pass


class Slotted(Shipped):
    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = "in a slot"


class Restored(Reader):
    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, left="made again")


class Rebuilt(Shipped):
    def __init__(self, kept: str) -> None:
        self.kept = kept

    def __reduce__(self) -> tuple[Any, ...]:
        return Rebuilt, ("by its own way",)


def sent(held: Any) -> Any:
    pickler: Any = cloudpickle
    return pickle.loads(pickler.dumps(held))


def plainly(held: Any) -> Any:
    return pickle.loads(pickle.dumps(held))


WAYS = [sent, plainly, copy.copy, copy.deepcopy]


def test_a_function_is_itself_here_and_alone_there() -> None:
    function = ShippedFunction(len)
    assert function("four") == 4
    assert sent(function) is len


@pytest.mark.parametrize("way", WAYS)
def test_an_object_arrives_as_its_state_says(way: Callable[[Any], Any]) -> None:
    found = way(Reader())
    assert type(found) is Reader
    assert (found.kept, found.left) == ([1, 2], None)
    assert type(way(found)) is Reader  # again, as Spark does between its planner and its executors


@pytest.mark.parametrize("way", WAYS)
def test_a_class_says_how_it_is_pickled_as_it_does_elsewhere(way: Callable[[Any], Any]) -> None:
    assert type(way(Empty())) is Empty
    assert way(Slotted()).kept == "in a slot"
    assert way(Restored()).left == "made again"
    assert way(Rebuilt("otherwise")).kept == "by its own way"
