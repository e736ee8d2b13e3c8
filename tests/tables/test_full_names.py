"""``database.table`` as one text: no two tables have the same, and each comes back."""

from __future__ import annotations

from itertools import product

import pytest

from binlog_core._tables.full_names import full_name, matches_names, own_name, split_name

pytestmark = pytest.mark.sanitize_long

NAMES = ["a", "b", "a.b", ".", "a.", ".b", "`", "``", "`a`", "a`.`b", "", "a.b.c", "*", "\n"]


def test_no_two_tables_have_the_same_name_and_each_comes_back() -> None:
    pairs = list(product(NAMES, repeat=2))
    assert len({full_name(*pair) for pair in pairs}) == len(pairs)
    assert [split_name(full_name(*pair)) for pair in pairs] == pairs


@pytest.mark.parametrize(
    ("pair", "name"),
    [
        (("shop", "t"), "shop.t"),
        (("a.b", "c"), "`a.b`.c"),
        (("a", "b.c"), "a.`b.c`"),
        (("shop", "we`ird"), "shop.we`ird"),
        (("shop", "`weird"), "shop.```weird`"),
    ],
)
def test_how_names_are_written(pair: tuple[str, str], name: str) -> None:
    assert (full_name(*pair), own_name(name)) == (name, pair[1])


def test_a_name_without_quotes_is_divided_at_its_first_dot() -> None:
    assert split_name("a.b.c") == ("a", "b.c")
    assert split_name("a") == ("a", "")


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("shop.we`ird", True),
        ("shop.`we``ird`", True),
        ("`we``ird`", True),
        ("`s*`.`we*`", True),
        ("we`*", True),
        ("`shop`.we", False),
        ("`shop", False),
    ],
)
def test_patterns_with_backquotes(pattern: str, fits: bool) -> None:
    assert matches_names("shop", "we`ird", pattern) is fits
