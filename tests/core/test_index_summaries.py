"""What an index receives in one pass, compared with many passes of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from binlog_core._core import _index
from binlog_core._core._headers import HEADER_DTYPE
from binlog_core._tables.column_types import SPAN_DTYPE
from binlog_core._tables.side_dtypes import TRANSACTION_DTYPE

pytestmark = pytest.mark.sanitize

PICK = np.random.default_rng(18)


def headers(count: int) -> np.ndarray:
    found = np.zeros(count, HEADER_DTYPE)
    found["position"] = 4 + 100 * np.arange(count)
    found["timestamp"] = PICK.integers(1, 1 << 32, count)
    found["type_code"] = PICK.choice([2, 16, 19, 30, 33], count)
    found["server_id"] = PICK.integers(0, 3, count)
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_headers(packed: bool) -> None:
    given = headers(500)
    given["type_code"][77] = 40 if packed else 2  # TRANSACTION_PAYLOAD_EVENT
    times = given["timestamp"]
    assert _index.summarize_headers(given) == (times.min(), times.max(), packed, {0, 1, 2})
    assert _index.summarize_headers(given[:0]) == (0xFFFFFFFF, 0, False, set())


def test_the_next_header_of_a_type() -> None:
    given = headers(500)
    wanted = np.zeros(256, np.uint8)
    wanted[33] = 1
    at = np.flatnonzero(given["type_code"] == 33)
    for first, least in ((0, 0), (at[3] + 1, 0), (0, int(given["position"][at[9]])), (at[-1] + 1, 0)):
        expected = at[(at >= first) & (given["position"][at] >= least)]
        assert _index.find_header(given, wanted, first, least) == (expected[0] if len(expected) else 500)


def transactions(numbers: list[int], kind: int = 1) -> np.ndarray:
    found = np.zeros(len(numbers), TRANSACTION_DTYPE)
    found["sequence_number"] = numbers
    found["gtid_kind"] = kind
    found["commit_time"] = -1
    found["timestamp"] = 1000 + np.arange(len(numbers))
    return found


def facts_of(records: np.ndarray, most: int = 10) -> tuple[int, int, set[int], list[int] | None]:
    return _index.summarize_transactions(records.view(np.uint8), most)


def test_transactions() -> None:
    given = transactions([1, 2, 3, 7, 8, 4])
    given["commit_time"][2] = 5
    given["thread_id"] = [7, 7, 8, 7, 9, 9]
    assert facts_of(given) == (5, 1005 * 10**6, {7, 8, 9}, [0, 3, 5])
    assert facts_of(given, most=3)[3] == [0, 3, 5]
    assert facts_of(given, most=2)[3] is None  # they are too many apart
    given["gtid_kind"][4] = 2
    assert facts_of(given)[3] is None  # two vendors'
    assert facts_of(transactions([1], kind=0))[3] is None
    with pytest.raises(ValueError, match="at least one"):
        facts_of(given[:0])


@pytest.mark.parametrize("kind, name", [(1, "uuid"), (1, "tag"), (2, "domain_id"), (2, "server_id")])
def test_another_source_begins_a_run(kind: int, name: str) -> None:
    given = transactions([1, 2, 3, 4], kind)
    given[name][2:] = b"new" if name == "tag" else 1
    assert facts_of(given)[3] == [0, 2]
    other = "domain_id" if kind == 1 else "uuid"  # a field of the other vendor
    given = transactions([1, 2, 3, 4], kind)
    given[other][2:] = 1
    assert facts_of(given)[3] == [0]


def test_bits_of_records() -> None:
    records = np.zeros((9, 5), np.uint8)
    records[4, 3] = 4
    assert _index.any_bits(records, 3, 4, 4) == (True, False)
    assert _index.any_bits(records, 4, 3, 4) == (False, True)
    assert _index.any_bits(records, 3, 3, 2) == (False, False)
    with pytest.raises(IndexError):
        _index.any_bits(records, 5, 0, 1)


@pytest.mark.parametrize(
    "parts, ascending",
    [
        ([[1, 2], [3]], True),
        ([[-(2**63), 2], [2**63 - 1]], True),
        ([[1, 1]], False),
        ([[1, 2], [], [2, 3]], False),
        ([[3, 1]], False),
    ],
)
def test_spread(parts: list[list[int]], ascending: bool) -> None:
    numbers = [number for part in parts for number in part]
    found = _index.spread([np.array(part, np.int64) for part in parts])
    assert found == (min(numbers), max(numbers), ascending)


def mixed(x: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> 33) * factor & (1 << 64) - 1
    return x ^ x >> 33


def test_hashes() -> None:
    numbers = np.array([0, 1, 1 << 63, (1 << 64) - 1], np.uint64)
    found = _index.hashes_of_numbers(numbers, 5)
    assert found.tolist() == [mixed((int(one) + 5) & (1 << 64) - 1) for one in numbers]
    both = _index.joined(found, found[::-1].copy())
    pairs = zip(found.tolist(), found[::-1].tolist(), strict=True)
    assert both.tolist() == [mixed((a + b) & (1 << 64) - 1) for a, b in pairs]


def test_texts_end_where_their_buffer_does() -> None:
    spans = np.array([(3, 2), (3, 200), (9, 1), (1 << 63, 1 << 31)], SPAN_DTYPE)
    found = _index.hashes_of_texts(np.frombuffer(b"abcde", np.uint8), spans, False, 7).tolist()
    assert found[0] == found[1] == mixed(mixed(2 + 7) ^ int.from_bytes(b"de", "little"))
    assert found[2] == found[3] == mixed(7)
    assert _index.hashes_of_texts(np.empty(0, np.uint8), spans[:1], True, 7).tolist() == [mixed(7)]


def test_marks_and_filters() -> None:
    hashes = PICK.integers(0, 1 << 64, 3000, np.uint64, endpoint=False)
    assert _index.count_marks(hashes, 9) == len(set((hashes >> np.uint64(55)).tolist()))
    bits = np.frombuffer(_index.made_filter(hashes, 37, 3), np.uint8)
    expected = set()
    for one in hashes.tolist():
        place, step = one & 0xFFFFFFFF, one >> 28 & 0xFFFFFFFF | 1
        expected |= {
            (one >> 60) * 8 * 37 + ((place + n * step & 0xFFFFFFFF) * 8 * 37 >> 32) for n in range(3)
        }
    assert set(np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist()) == expected
    for arguments in ((hashes, 0, 3), (hashes, 1 << 28, 3)):
        with pytest.raises(ValueError, match="part_len"):
            _index.made_filter(*arguments)
    with pytest.raises(ValueError, match="bits"):
        _index.count_marks(hashes, 2)


def test_changes_are_counted_by_what_they_are() -> None:
    ops = PICK.integers(1, 5, 1000).astype(np.uint8)  # insert, preimage, postimage, delete
    expected = tuple(int((ops == op).sum()) for op in (1, 3, 4))
    assert _index.count_changes(ops) == expected
    assert _index.count_changes(ops[:0]) == (0, 0, 0)
