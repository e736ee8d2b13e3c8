"""The CRC-32 of the core against zlib's, by every implementation that the machine has."""

from __future__ import annotations

import time
import zlib
from itertools import pairwise

import numpy as np
import pytest
from support.guarded import exact
from support.hostile import SANITIZED
from support.writer import Log, Table

import binlog_core
from binlog_core._core._crc32 import (
    MOST_OF_A_RUN,
    crc32,
    crc32_implementation,
    crc32_implementations,
    run_holds,
)

pytestmark = pytest.mark.sanitize_logs

implementations = pytest.mark.parametrize("implementation", crc32_implementations())


def random_bytes(length: int) -> np.ndarray:
    """`length` seeded bytes in an allocation of exactly that size, so that a sanitizer sees an over-read."""
    return np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)


def test_portable_is_always_there_and_the_one_in_use_is_listed() -> None:
    names = crc32_implementations()
    assert names[0] == "portable"
    assert crc32_implementation() == names[-1]


@implementations
def test_check_value_of_the_catalogue(implementation: str) -> None:
    # "123456789" is the check input that distinguishes algorithms in CRC catalogs.
    assert crc32(b"123456789", implementation=implementation) == 0xCBF43926


@implementations
def test_every_length(implementation: str) -> None:
    for length in range(601):
        data = random_bytes(length)
        assert crc32(data, implementation=implementation) == zlib.crc32(data), length


@implementations
def test_every_alignment(implementation: str) -> None:
    data = random_bytes(1024)
    for start in range(64):
        for length in (0, 1, 7, 8, 15, 16, 17, 31, 63, 64, 65, 127, 255, 256, 257, 300, 511, 700):
            part = data[start : start + length]
            assert crc32(part, implementation=implementation) == zlib.crc32(part), (start, length)


@implementations
@pytest.mark.parametrize("fill", [0x00, 0xFF])
def test_constant_bytes(implementation: str, fill: int) -> None:
    for length in (1, 15, 16, 63, 64, 255, 256, 4096):
        data = bytes([fill]) * length
        assert crc32(data, implementation=implementation) == zlib.crc32(data), length


@implementations
def test_a_crc_is_continued(implementation: str) -> None:
    data = random_bytes(1500)
    whole = zlib.crc32(data)
    for cut in (0, 1, 5, 16, 19, 64, 200, 256, 1000, 1499, 1500):
        first = crc32(data[:cut], implementation=implementation)
        assert first == zlib.crc32(data[:cut])
        assert crc32(data[cut:], first, implementation=implementation) == whole, cut


@implementations
def test_every_start_value_bit(implementation: str) -> None:
    data = random_bytes(333)
    for bit in range(32):
        assert crc32(data, 1 << bit, implementation=implementation) == zlib.crc32(data, 1 << bit), bit


@implementations
def test_a_megabyte(implementation: str) -> None:
    data = random_bytes(1 << 20)
    assert crc32(data, implementation=implementation) == zlib.crc32(data)


def test_an_unknown_implementation_is_refused() -> None:
    with pytest.raises(ValueError, match="portable"):
        crc32(b"", implementation="abacus")


# -- Many messages at once


def messages(lengths: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Messages of these lengths, each followed by zlib's CRC of it, and where they end."""
    made = b""
    ends = []
    for length in lengths:
        message = random_bytes(length + seed)[:length].tobytes()
        made += message + zlib.crc32(message).to_bytes(4, "little")
        ends.append(len(made))
    return np.frombuffer(made, np.uint8).copy(), np.array(ends, np.uint16)


def runs(data: np.ndarray, ends: np.ndarray) -> set[bool]:
    """The answers of the implementations that check whole runs."""
    said = {run_holds(data, ends, implementation=name) for name in crc32_implementations()}
    return said - {None}


def test_a_run_of_messages_holds_or_not() -> None:
    lengths = [0, 1, 15, 100, 16, 252, 19, 255, 1000, 3, 64]
    data, ends = messages(lengths)
    assert runs(data, ends) <= {True}
    for count in range(1, len(ends)):  # what follows is read with it
        assert runs(data, ends[:count]) <= {True}
        assert runs(data[: ends[count] - 1], ends[:count]) <= {True}
    for place in range(len(data)):
        for bit in (0, 3, 7):
            data[place] ^= 1 << bit
            assert runs(data, ends) <= {False}, (place, bit)
            assert runs(data, ends[:1]) <= {place >= ends[0]}
            data[place] ^= 1 << bit


def test_runs_of_every_length() -> None:
    for length in [*range(70), 4000, MOST_OF_A_RUN - 4 - 104]:
        data, ends = messages([100, length], seed=1)
        assert runs(data, ends) <= {True}, length
        ends[0] += 1
        assert runs(data, ends) <= {False}, length
    data, ends = messages([15] * (MOST_OF_A_RUN // 19))
    assert runs(data, ends) <= {True}


def test_some_machine_checks_runs() -> None:
    names = set(crc32_implementations())
    data, ends = messages([100, 200])
    assert runs(data, ends) == ({True} if names & {"pclmul", "vpclmul"} else set())


def test_a_run_that_cannot_be() -> None:
    data, ends = messages([100, 200])
    if runs(data, ends):
        for wrong in (ends[:0], ends + np.uint16(1)):
            with pytest.raises(ValueError, match="messages"):
                run_holds(data, wrong)


# -- Logs, whose events are checked by runs where they are short


TABLE = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(3000)")])


def log_of_short_and_long_events(notes: list[int], **options: object) -> bytes:
    log = Log(**options)
    for number, length in enumerate(notes):
        log.begin()
        log.insert(TABLE, [{"id": number, "note": "x" * length}])
        log.commit(number)
    return log.getvalue()


def starts_of(data: bytes) -> list[int]:
    starts = [4]
    while starts[-1] < len(data):
        starts.append(starts[-1] + int.from_bytes(data[starts[-1] + 9 : starts[-1] + 13], "little"))
    return starts


def read(data: bytes, **options: object) -> tuple[list[int], binlog_core.BinlogError | None]:
    """Positions of the changes, and the error that ended them."""
    found: list[int] = []
    try:
        with binlog_core.open(exact(data), **options) as log:
            for change in log.rows():
                found.append(change.position)
    except binlog_core.BinlogError as error:
        return found, error
    return found, None


@pytest.mark.parametrize("notes", [[1, 2, 3, 4], [5, 2100, 1], [700] * 12], ids=["short", "long", "two runs"])
def test_a_flipped_bit_names_its_event(notes: list[int]) -> None:
    data = log_of_short_and_long_events(notes)
    starts = starts_of(data)
    whole, error = read(data)
    assert len(whole) == len(notes) and error is None
    step = 3 if len(data) < 1500 else 29
    for start, end in pairwise(starts[1:]):  # a descriptor that is damaged is another matter
        for place in [*range(start, start + 4), *range(start + 5, start + 9), *range(start + 13, end, step)]:
            damaged = bytearray(data)
            damaged[place] ^= 1 << place % 8
            found, error = read(damaged)
            assert isinstance(error, binlog_core.ChecksumError), place
            assert error.offset == start
            assert found == [position for position in whole if position < start]


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_several_wrong_events_and_the_rest() -> None:
    data = bytearray(log_of_short_and_long_events([10] * 40))
    starts = starts_of(data)
    whole, _ = read(data)
    wrong = [position for position in whole if position in (whole[3], whole[4], whole[30])]
    for position in wrong:
        damaged_at = starts[starts.index(position) + 1] - 1
        data[damaged_at] ^= 0x10
    found, error = read(data, on_error="skip")
    assert error is None
    assert found == [position for position in whole if position not in wrong]
    assert read(data, verify_checksum=False) == (whole, None)


def test_a_wrong_checksum_behind_the_place_to_stop_at() -> None:
    data = bytearray(log_of_short_and_long_events([10] * 6))
    whole, _ = read(data)
    data[-1] ^= 1
    found, error = read(data, stop=starts_of(data)[-3])
    assert error is None
    assert found == whole[: len(found)] and found


def test_a_log_cut_at_every_byte_ends_before_the_cut() -> None:
    data = log_of_short_and_long_events([10] * 3)
    starts = starts_of(data)
    whole, _ = read(data)
    ends = dict(pairwise(starts))
    for size in range(starts[1], len(data)):
        found, error = read(data[:size])
        assert error is None
        assert found == [position for position in whole if ends[position] <= size]


def test_logs_without_checksums() -> None:
    data = bytearray(log_of_short_and_long_events([10] * 3, checksum=False))
    whole, error = read(data)
    assert len(whole) == 3 and error is None


# -- Rotations among short events: a run ends before them


def pattern_of(pattern: str) -> bytes:
    """Events without positions, so that they can be repeated: commits (x), rotations (r)."""
    log = Log(next_positions=False)
    head = len(log.getvalue())
    for kind in pattern:
        if kind == "x":
            log.commit()
        else:
            log.rotate()
    return log.getvalue()[head:]


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize(
    "pattern", ["xr", "rx", "xxxr", "xxxxxr", "x" * 32 + "r", "x" * 33 + "r", "x" * 40 + "rr"]
)
def test_damage_around_rotations_names_its_event(pattern: str) -> None:
    data = Log().getvalue() + pattern_of(pattern * (4 if len(pattern) < 32 else 2))
    assert read(data) == ([], None)
    starts = starts_of(data)
    for start, end in pairwise(starts[1:]):
        for place in (start + 2, start + 5, end - 6, end - 1):
            damaged = bytearray(data)
            damaged[place] ^= 1 << place % 8
            _, error = read(damaged)
            assert isinstance(error, binlog_core.ChecksumError), place
            assert error.offset == start
            with binlog_core.open(exact(bytes(damaged)), on_error="skip") as log:
                assert len(log.headers()) == len(starts) - 2


@pytest.mark.skipif(SANITIZED, reason="a ratio of times means nothing under a sanitizer")
@pytest.mark.parametrize("pattern", ["xr", "r", "xxxxr", "x" * 10 + "r"])
@pytest.mark.parametrize("way", ["headers", "rows"])
def test_rotations_do_not_make_checksums_slow(pattern: str, way: str) -> None:
    """One by one they take up to twice as long; a run that was read for each made it thirty times."""

    def seconds(data: bytes) -> float:
        begin = time.process_time()
        with binlog_core.open(data) as log:
            list(getattr(log, way)())
        return time.process_time() - begin

    head, count = Log().getvalue(), 100_000
    among = head + pattern_of(pattern) * (count // len(pattern))
    alone = head + pattern_of("x") * count
    ratio = min(seconds(among) for _ in range(5)) / min(seconds(alone) for _ in range(5))
    assert ratio < 5
