"""Logs cut and flipped: whatever the bytes, reading gives a prefix of the truth or one of our errors.

Inputs are numpy copies of exactly their size, so that a sanitizer sees any read beyond the end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.guarded import exact
from support.hostile import SANITIZED
from support.known import known
from support.tally import tried

import binlog_core

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

# Cut at every byte: small logs, and one of each way in which bytes are wrapped.
CUT_EVERYWHERE = [g for g in golden_logs(max_bytes=2400) if "old_hires" not in g.name]
CUT_IN_PLACES = [g for g in golden_logs(max_bytes=40_000) if g not in CUT_EVERYWHERE and not g.needs_schema]
WITHOUT_ROWS = {2, 16, 33, 34, 162}  # QUERY, XID, both vendors' GTIDs
FLIPPED = [g for g in golden_logs(max_bytes=20_000) if not g.needs_schema]
FLIPS = 10
FLIPS_UNDER_CHECKSUM = 5  # it stops all
BUILD = " sanitized" if SANITIZED else ""  # which damages a log in other places than the wheel's tests do
HEADER, ENCRYPTED_HEADER = 19, 512


def values(change: Any) -> tuple[Any, ...]:
    return change.op, change.database, change.table, change.before, change.after, change.position, change.gtid


def decoded(data: bytes, golden: Golden, **options: Any) -> Iterator[tuple[Any, ...]]:
    with binlog_core.open(exact(data), **golden.open_arguments, **options) as log:
        for change in log.rows():
            yield values(change)


@cache
def changes_and_ends(golden: Golden) -> list[tuple[tuple[Any, ...], int]]:
    """The values of each change, and where its event ends in the file."""
    shift = ENCRYPTED_HEADER if golden.data[:4] == b"\xfdbin" else 0
    ends = {h.position: h.position + h.event_length + shift for h in known(golden).headers}
    return [(values(change), ends[change.position]) for change in known(golden).changes]


def check_cut(golden: Golden, size: int) -> None:
    data = golden.data[:size]
    got: list[tuple[Any, ...]] = []
    try:
        got += decoded(data, golden)
        tried(None)
    except binlog_core.BinlogError as error:
        tried(error)
        # Too short for a log, or for the header that names the key.
        assert size < (ENCRYPTED_HEADER + 4 if data[:4] == b"\xfdbin" else 4), f"cut at {size}"
    assert got == [change for change, end in changes_and_ends(golden) if end <= size], f"cut at {size}"


def cuts(golden: Golden) -> list[int]:
    """Every byte of headers, every seventh behind them: an event that is not complete is not read further.

    Of types that come all the time and have no rows, every seventh byte after the first event. A sanitizer
    sees others of them than the wheel's tests.
    """
    left_out, seen = set[int](), set[int]()
    for header in () if golden.data[:4] == b"\xfdbin" else known(golden).headers:
        begin = 1 if header.type_code in seen & WITHOUT_ROWS else HEADER + 1
        inside = range(header.position + begin, header.position + header.event_length)
        left_out |= {size for i, size in enumerate(inside) if i % 7 != (3 if SANITIZED else 0)}
        seen.add(header.type_code)
    return [size for size in range(len(golden.data)) if size not in left_out]


@pytest.mark.parametrize("golden", CUT_EVERYWHERE, ids=str)
def test_cut_at_every_byte(golden: Golden) -> None:
    for size in cuts(golden):
        check_cut(golden, size)


@pytest.mark.parametrize("golden", CUT_IN_PLACES, ids=str)
def test_cut_near_event_borders_and_at_random(golden: Golden) -> None:
    rng = random.Random(golden.name + BUILD)
    ends = [h.position + h.event_length for h in known(golden).headers]
    near = {end + shift for end in rng.sample(ends, min(2, len(ends))) for shift in (-1, 0, 1, 18, 19)}
    for size in sorted(near | {rng.randrange(len(golden.data)) for _ in range(5)}):
        check_cut(golden, min(size, len(golden.data)))


@pytest.mark.parametrize("golden", [g for g in FLIPPED if "checksum_none" not in g.name], ids=str)
def test_flipped_bytes_under_a_checksum(golden: Golden) -> None:
    """With checksums no value is wrong: right rows come, then perhaps one of our errors."""
    rng = random.Random(golden.name + BUILD)
    want = [values(change) for change in known(golden).changes]
    for _ in range(FLIPS_UNDER_CHECKSUM):
        data = bytearray(golden.data)
        places = [rng.randrange(len(data)) for _ in range(rng.choice((1, 1, 2, 8)))]
        for place in places:
            data[place] ^= rng.randrange(1, 256)
        got: list[tuple[Any, ...]] = []
        caught: binlog_core.BinlogError | None = None
        try:
            for change in decoded(bytes(data), golden):
                got.append(change)
        except binlog_core.BinlogError as error:
            caught = error
        tried(caught)
        assert caught is None or caught.offset is None or 0 <= caught.offset <= len(data)
        assert got == want[: len(got)], f"flipped at {places}"


@pytest.mark.parametrize("golden", FLIPPED, ids=str)
def test_flipped_bytes_without_a_checksum(golden: Golden) -> None:
    """Here wrong bytes may become other values, but never an error of others, a crash or an endless loop."""
    rng = random.Random(golden.name + " unchecked" + BUILD)
    for on_error in ("raise", "skip") * (FLIPS // 2):
        data = bytearray(golden.data)
        for _ in range(rng.choice((1, 2, 5, 30))):
            # Lengths, counts and types are at the beginning of events: go there more often.
            head = rng.choice(known(golden).headers).position
            place = rng.choice((rng.randrange(len(data)), min(head + rng.randrange(60), len(data) - 1)))
            data[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        drain(bytes(data), golden, on_error)


def drain(data: bytes, golden: Golden, on_error: str) -> None:
    """Read a log in every way."""
    ways = (
        lambda log: list(log.headers()),
        lambda log: list(log.events()),
        lambda log: list(log.rows()),
        lambda log: [batch.to_arrow() for batch in log.batches()],
    )
    options = {**golden.open_arguments, "verify_checksum": False, "on_error": on_error}
    for way in ways:
        try:
            with binlog_core.open(exact(data), **options) as log:
                way(log)
            tried(None)
        except binlog_core.BinlogError as error:
            tried(error)


@pytest.mark.parametrize("golden", golden_logs("*/killed") + golden_logs("*/types_ints"), ids=str)
def test_errors_are_passed_over_when_asked(golden: Golden) -> None:
    """on_error="skip": one damaged rows event costs its own rows only, and is counted."""
    at = next(c.position for c in known(golden).changes[3:])
    data = bytearray(golden.data)
    data[at + 40] ^= 0xFF
    with pytest.raises(binlog_core.ChecksumError) as caught:
        list(decoded(bytes(data), golden))
    assert caught.value.offset == at
    got = list(decoded(bytes(data), golden, on_error="skip"))
    assert got == [values(change) for change in known(golden).changes if change.position != at]


@pytest.mark.parametrize("data", [b"", b"\xfe", b"PK\3\4" + bytes(100), bytes(1000), b"\xfebi"])
def test_not_a_log(data: bytes) -> None:
    with pytest.raises(binlog_core.NotABinlogError):
        list(binlog_core.open(exact(data)).rows())


def test_just_the_magic() -> None:
    """A log of which the server has written only the magic."""
    assert list(binlog_core.open(exact(b"\xfebin")).rows()) == []
