"""Filters: which values pass, where a list is kept instead, and texts that end where a buffer does."""

from __future__ import annotations

import numpy as np
import pytest
from support.batches import column

from binlog_core._tables.column_types import SPAN_DTYPE, Kind
from binlog_core.index import filters

INT = column("id", Kind.INT, bytes_=4)
TEXT = column("code", Kind.TEXT, charset="utf8mb4")


def hashes(numbers: range) -> filters.Hashes:
    return filters.hashes_of_numbers(np.array(numbers, np.int64), 0)


@pytest.mark.parametrize("count", [1, 40, 5000])
def test_what_is_in_a_filter_passes_and_little_else(count: int) -> None:
    parts = filters.made_filter(hashes(range(count)))
    assert len(parts) == filters.PARTS

    def passed(number: int) -> bool:
        hash_ = filters.hash_of(number, INT, 0)
        return filters.passes(parts[filters.part_of(hash_)], hash_)

    assert all(passed(number) for number in range(count))
    assert sum(passed(number) for number in range(10**6, 10**6 + 4000)) < 4000 // 32


def test_a_part_that_is_empty_lets_all_pass() -> None:
    assert filters.passes(b"", 12345)
    assert not filters.passes(bytes(8), 12345)


def test_a_few_are_listed_and_more_are_not() -> None:
    few = filters.made_list(hashes(range(32)))
    assert few is not None and len(few) == 32 * 4
    assert all(filters.is_listed(few, filters.hash_of(number, INT, 0)) for number in range(32))
    assert not filters.is_listed(few, filters.hash_of(32, INT, 0))
    assert filters.made_list(np.repeat(hashes(range(32)), 9)) == few
    assert filters.made_list(hashes(range(33))) is None


def test_a_text_has_one_hash_wherever_it_lies() -> None:
    texts = [b"", b"a", b"b", b"1234567", b"12345678", b"123456789", b"x" * 40, b"x" * 41]
    buffer = b"?" * 3 + b"".join(texts)  # the last ends where the buffer does
    spans = np.zeros(len(texts), SPAN_DTYPE)
    spans["length"] = [len(text) for text in texts]
    spans["offset"] = 3 + np.cumsum(spans["length"]) - spans["length"]
    found = filters.hashes_of_texts(buffer, spans, 0, 1).tolist()
    assert found == [filters.hash_of(text, TEXT, 1) for text in texts]
    assert len(set(found)) == len(texts)
    assert found[1] != filters.hash_of(b"a", TEXT, 0)  # in another place of the key


def test_padded_bytes_are_equal_with_their_zeros() -> None:
    padded = column("b", Kind.BINARY, pad_to=20)
    assert filters.hash_of(b"ab", padded, 0) == filters.hash_of(b"ab\0\0", padded, 0)
    assert filters.hash_of(b"ab", TEXT, 0) != filters.hash_of(b"ab\0\0", TEXT, 0)
    assert filters.form_of(padded) == "BYTES 20" != filters.form_of(TEXT)
    assert filters.form_of(column("j", Kind.JSON)) is None


def test_unsigned_numbers_keep_their_order() -> None:
    keys = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    assert filters.as_signed(keys).tolist() == [-(2**63), 1 - 2**63, -1, 0, 2**63 - 1]


def test_dense_numbers_need_no_filter() -> None:
    """Their bounds say nearly as much: half of the numbers between them occur."""
    for parts in ([np.arange(0, 100, 2)], [np.arange(50, 100), np.arange(50)]):
        _, told = filters.of_key([filters.Values(INT, 0, parts)])
        assert told == 0
    found, told = filters.of_key([filters.Values(INT, 0, [np.arange(0, 500, 10), np.arange(500, 1000, 10)])])
    assert (told, found.tolist()) == (1, hashes(range(0, 1000, 10)).tolist())
    _, told = filters.of_key([filters.Values(INT, 0, [np.array([0, 9, 9, 9, 9, 9, 9])])])
    assert told == 1  # of ten numbers two occur, however often
    pair = [np.arange(100) * 1000, np.arange(100) * 7919 % 100_000]
    found, told = filters.of_key([filters.Values(INT, i, [values]) for i, values in enumerate(pair)])
    assert (told, len(found)) == (0b11 | filters.JOINED, 300)
    each = [filters.hash_of(int(values[7]), INT, ordinal) for ordinal, values in enumerate(pair)]
    assert filters.joined_hash(each) == int(found[207])
