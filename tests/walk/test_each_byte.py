"""Each byte of small logs set to others: what is right before and behind comes, or one of our errors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.guarded import exact
from support.hostile import SANITIZED
from support.known import known, value
from support.tally import tried

import binlog_core

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

TABLE_MAP = 19
HEADER = 19  # bytes of an event's header
EXTREMES = (b"\0", b"\1", b"\x7f", b"\x80", b"\xff")
SMALL = [
    golden
    for name in (
        "mysql97/killed",
        "mysql56/xa",
        "mysql97/checksum_none",
        "maria118/checksum_none",
        "maria1011/killed",
    )
    for golden in golden_logs(name)
]


def opened(data: bytes, **options: Any) -> binlog_core.Log:
    return binlog_core.open(exact(data), **{"on_error": "skip", **options})


def known_checksum(golden: Golden) -> bool:
    return bool(golden.meta["settings"]["binlog_checksum"] == "CRC32")


def damaged_places(golden: Golden) -> Iterator[tuple[int, int]]:
    """(position of the event, byte of it) of headers, table maps and row starts; a sample of the events."""
    headers = known(golden).headers
    by_type: dict[int, int] = {}
    for i, header in enumerate(headers):
        seen = by_type[header.type_code] = by_type.get(header.type_code, 0) + 1
        if seen > 1 or i == 0:  # the first of each type; the descriptor has its own tests
            continue
        length = header.event_length
        most = min(length, 90 if header.type_code == TABLE_MAP else 48)
        yield from ((header.position, byte) for byte in range(most))


PACKED = golden_logs("mysql97/gtid_trx_compression")[0]


@pytest.mark.parametrize("verify", [True, False], ids=["verified", "unverified"])
def test_each_byte_of_a_packed_transaction(verify: bool) -> None:
    """What is damaged inside costs its own transaction, and nothing else."""
    at = next(e["pos"] for e in PACKED.events if e["type"] == "Transaction_payload")
    end = transaction_end(PACKED, at)
    want = [value(change) for change in known(PACKED).changes]
    data = bytearray(PACKED.data)
    for byte in (*range(9, 60), *range(60, end - at, 37)):
        original, data[at + byte] = data[at + byte], data[at + byte] ^ 0xFF
        with opened(bytes(data), verify_checksum=verify) as log:
            got = [value(change) for change in log.rows()]
        data[at + byte] = original
        assert [c for c in got if c[-1] < at] == [c for c in want if c[-1] < at], byte
        assert [c for c in got if c[-1] >= end] == [c for c in want if c[-1] >= end], byte


@pytest.mark.parametrize(
    "golden, verify",
    [
        pytest.param(
            golden,
            verify,
            id=f"{golden}-{'verified' if verify else 'unverified'}",
            marks=pytest.mark.skipif(SANITIZED and verify, reason="without checksums, damage gets further"),
        )
        for golden in SMALL
        for verify in (False, True)
        if known_checksum(golden) or not verify  # without checksums there is nothing to verify
    ],
)
def test_each_byte_set_to_extremes(golden: Golden, verify: bool) -> None:
    want = [value(change) for change in known(golden).changes]
    data = bytearray(golden.data)
    summed = known_checksum(golden)
    for position, byte in damaged_places(golden):
        at = position + byte
        before = [change for change in want if change[-1] < position]
        original = data[at]
        for number, extreme in enumerate(extremes(byte, verify=verify)):
            if extreme[0] == original:
                continue
            data[at] = extreme[0]
            on_error = ("raise", "skip")[(byte + number) % 2]  # a byte, and an extreme, is met by both
            got: list[Any] = []
            try:
                with opened(bytes(data), on_error=on_error, verify_checksum=verify) as log:
                    for change in log.rows():
                        got.append(value(change))
                tried(None)
            except binlog_core.BinlogError as error:
                tried(error)
                assert error.offset is None or error.offset <= len(data)
                assert on_error == "raise" or not verify, (at, extreme, error)
            where = (position, byte, extreme, on_error)
            assert got[: len(before)] == before, where
            if verify and summed:
                # Nothing wrong gets out, and after the damaged event's transaction nothing is lost.
                assert all(change in want for change in got), where
                if on_error == "skip":
                    end = transaction_end(golden, position)
                    behind = [change for change in want if change[-1] >= end]
                    assert got[len(got) - len(behind) :] == behind, where
        data[at] = original


def extremes(byte: int, *, verify: bool) -> tuple[bytes, ...]:
    """Which values a byte is set to.

    To a checksum every wrong byte behind the header is the same. Without one, all are tried under
    the sanitizers.
    """
    return EXTREMES if SANITIZED or (verify and byte < HEADER) else EXTREMES[::4]


@cache
def begins(golden: Golden) -> tuple[int, ...]:
    """Where transactions begin, as the server lists them."""
    return tuple(
        e["pos"]
        for e in golden.events
        if e["type"] in ("Gtid", "Anonymous_Gtid") or (e["info"] or "").startswith(("BEGIN", "XA START"))
    )


def transaction_end(golden: Golden, position: int) -> int:
    return next((p for p in begins(golden) if p > position), len(golden.data))


def test_each_byte_of_a_descriptor() -> None:
    data = bytearray(golden_logs("mysql97/killed")[0].data)
    for at in range(4, 130):
        original = data[at]
        for number, extreme in enumerate(EXTREMES):
            data[at] = extreme[0]
            for on_error in ("raise", "skip"):
                verify = (at + number + (on_error == "skip")) % 2 == 0
                try:
                    with opened(bytes(data), on_error=on_error, verify_checksum=verify) as log:
                        list(log.rows())
                except binlog_core.BinlogError:
                    pass
        data[at] = original
