"""The last changes of rows that had a key, without keeping all of them."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

from binlog_core.inspect.history import history
from binlog_core.inspect.lives import Lives

T = Table("shop", "t", [("id", "INT"), ("b", "VARCHAR(200)")], primary_key=["id"])

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


@dataclass
class Change:
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass
class Version:
    change: Change


def changes_of(seed: int) -> list[tuple[int, Version]]:
    """Random changes of rows that exchange their keys, each with the number of its row."""
    chance = random.Random(seed)
    there: dict[int, int] = {}  # key, row
    made: list[tuple[int, Version]] = []
    rows = 0
    for _ in range(60):
        free = [key for key in range(4) if key not in there]
        if free and chance.random() < 0.3:
            there[free[0]] = row = rows
            rows += 1
            made.append((row, Version(Change(None, {"id": free[0]}))))
        elif there:
            key = chance.choice(sorted(there))
            row = there.pop(key)
            if chance.random() < 0.3:
                made.append((row, Version(Change({"id": key}, None))))
            else:
                new = chance.choice([key, *free])
                there[new] = row
                made.append((row, Version(Change({"id": key}, {"id": new}))))
    return made


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("most", [None, 1, 3, 7])
def test_the_last_changes_of_rows_that_had_the_key(seed: int, most: int | None) -> None:
    made = changes_of(seed)
    lives: Lives[Any] = Lives(lambda image: (image and image["id"],), lambda key: key == (0,), most)
    for _, version in made:
        lives.add(version)
    had = {
        row
        for row, version in made
        for image in (version.change.before, version.change.after)
        if image is not None and image["id"] == 0
    }
    expected = [version for row, version in made if row in had]
    found, earlier = lives.chosen()
    assert [id(one) for one in found] == [id(one) for one in expected[-(most or len(made)) :]]
    assert earlier == len(expected) - len(found)


def test_memory_is_bounded_by_what_is_asked_for() -> None:
    log = Log("8.4.0")
    images = [{"id": 1, "b": f"{i:0200d}"} for i in range(20_001)]
    for i in range(0, 20_000, 100):
        log.begin("shop")
        log.update(T, list(zip(images[i : i + 100], images[i + 1 : i + 101], strict=True)))
        log.commit()
    data = log.getvalue()

    def peak(most: int | None) -> tuple[int, list[Any]]:
        tracemalloc.start()
        try:
            found = history(data, "shop.t", {"id": 1}, most=most, mmap=False)
            return tracemalloc.get_traced_memory()[1], found
        finally:
            tracemalloc.stop()

    whole, everything = peak(None)
    little, last = peak(5)
    assert len(everything) == 20_000
    assert [one.change.after for one in last] == images[-5:]
    assert [one.transaction for one in last] == [one.transaction for one in everything[-5:]]
    assert little < whole / 3


def test_names_come_from_a_create_table_in_an_earlier_log(tmp_path: Path) -> None:
    silent = Table("shop", "t", [("id", "INT"), ("b", "VARCHAR(200)")], metadata=None)
    for number in (1, 2, 3):
        log = Log("10.11.6-MariaDB")
        if number == 1:
            log.query("CREATE TABLE shop.t (id INT PRIMARY KEY, b VARCHAR(200) CHARACTER SET utf8mb4)")
        if number == 3:
            log.query("ALTER TABLE shop.t RENAME COLUMN b TO c")
        log.begin("shop")
        log.insert(silent, [{"id": number, "b": "x"}, {"id": 10 + number, "b": "y"}])
        log.commit()
        (tmp_path / f"bin.00000{number}").write_bytes(log.getvalue())
    for number, name in ((2, "b"), (3, "c")):
        [version] = history(tmp_path, "shop.t", {"id": number}, schema="ddl")
        assert version.change.after == {"id": number, name: "x"}
