"""From text to Arrow: steps of the copying loop, both ways to compile it, and what is not UTF-8."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.batches import batch_with_null_spans, column, letters, make_batch

from binlog_core._core import _columns
from binlog_core._tables.column_types import Kind
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize

TEXT = [column("t", Kind.TEXT, charset="utf8mb4")]
STEP = 64  # bytes that the loop copies at a time
SHORT = 256  # bytes up to which it does


@pytest.fixture(params=[True, False], ids=["wide", "plain"], autouse=True)
def compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    before = _columns.use_wide(request.param)
    yield
    _columns.use_wide(before)


@pytest.mark.parametrize("count", [1, 2, 23, 24, 25, 511, 512, 513, 1025])
@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.BINARY])
def test_values_of_every_length(count: int, kind: Kind) -> None:
    """Lengths around the steps; the last value ends with the buffer."""
    lengths = [0, 1, 31, 32, 33, STEP - 1, STEP, STEP + 1, 2 * STEP, SHORT - 1, SHORT, SHORT + 1, 700]
    values = [letters(lengths[(i * 5 + count) % len(lengths)], i) for i in range(count)]
    batch = make_batch([column("v", kind, charset="utf8mb4")], [{"v": value} for value in values])
    found = batch.to_arrow(change_columns=False)["v"]
    found.validate(full=True)
    expected = [value.decode() for value in values] if kind is Kind.TEXT else values
    assert found.to_pylist() == expected


def test_null_among_lengths() -> None:
    """A NULL leaves no bytes, whatever its span says."""
    batch, values = batch_with_null_spans()
    assert batch.to_arrow()["t"].to_pylist() == [None if v is None else v.decode() for v in values]


def test_null_spans_while_room_is_made() -> None:
    """The first tile has no room yet: its NULLs count for nothing there either."""
    batch = make_batch(TEXT, [{"t": None}, {"t": b"abc"}, {"t": None}])
    batch.array["row"]["t"][[0, 2]] = (5, 2**31)
    assert batch.to_arrow()["t"].to_pylist() == [None, "abc", None]


@pytest.mark.parametrize("place", [*range(0, 140, 3), 31, 32, 63, 64, 127, 128])
def test_beyond_ascii_at_every_place(place: int) -> None:
    """Characters of two to four bytes, across the borders of the vectors that look for them."""
    for character in ("é", "€", "\U0001f40b"):
        text = "a" * place + character + "b" * (140 - place)
        batch = make_batch(TEXT, [{"t": b"before"}, {"t": text.encode()}, {"t": b"after"}])
        assert batch.to_arrow()["t"].to_pylist() == ["before", text, "after"]


@pytest.mark.parametrize("place", [*range(0, 140, 7), 31, 32, 63, 64, 127, 128])
@pytest.mark.parametrize(
    "bad", [b"\xff", b"\x80", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80"]
)
def test_invalid_utf8_at_every_place(place: int, bad: bytes) -> None:
    value = b"a" * place + bad + b"b" * (140 - place)
    batch = make_batch(TEXT, [*[{"t": b"good"}] * 513, {"t": value}, {"t": b"after"}])
    with pytest.raises(DecodeError, match="record 513") as info:
        batch.to_arrow()
    assert (info.value.column, info.value.table, info.value.path) == ("t", "shop.orders", "log.000001")
    assert batch.to_arrow(text_errors="binary")["t"][513].as_py() == value


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_character_cut_between_two_values(place: int) -> None:
    """Valid together, but not each alone."""
    whole = "\U0001f40b".encode()
    batch = make_batch(TEXT, [{"t": b"x" * 60 + whole[:place]}, {"t": b""}, {"t": whole[place:] + b"y"}])
    with pytest.raises(DecodeError, match="record 0"):
        batch.to_arrow()


@pytest.mark.parametrize("record", [0, 1, 511, 512, 600])
@pytest.mark.parametrize("span", [(2**64 - 1, 1), (0, 2**32 - 1), (2**63, 200), (10**9, 3)])
def test_a_span_outside_the_buffer(record: int, span: tuple[int, int]) -> None:
    batch = make_batch(TEXT, [{"t": letters(100, i)} for i in range(601)])
    batch.array["row"]["t"][record] = span
    with pytest.raises(DecodeError, match=f"record {record}: the value's span") as info:
        batch.to_arrow()
    assert info.value.offset == 1000 + 10 * record


def test_a_span_that_ends_a_byte_behind_the_buffer() -> None:
    for length in (1, STEP, SHORT, SHORT + 1, 5000):
        batch = make_batch(TEXT, [{"t": letters(length)}])
        offset, _ = batch.array["row"]["t"][0]
        batch.array["row"]["t"][0] = (offset, length + 1)
        with pytest.raises(DecodeError, match="span"):
            batch.to_arrow()


def test_an_empty_span_anywhere() -> None:
    batch = make_batch(TEXT, [{"t": b""}, {"t": b"abc"}])
    batch.array["row"]["t"][0] = (2**64 - 5, 0)
    assert batch.to_arrow()["t"].to_pylist() == ["", "abc"]


def test_room_is_made_wherever_it_ends() -> None:
    """Values that grow without end: what was reserved never suffices, at any record of a tile."""
    values = [letters(i * i // 300, i) for i in range(1400)]
    batch = make_batch(TEXT, [{"t": value} for value in values])
    assert batch.to_arrow()["t"].to_pylist() == [value.decode() for value in values]
