"""The CRC-32 of the core against zlib's, by every implementation that the machine has."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from binlog_core._core._crc32 import crc32, crc32_implementation, crc32_implementations

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
    # "123456789" is the check input by which CRC catalogues tell their algorithms apart.
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


def test_an_implementation_that_is_none() -> None:
    with pytest.raises(ValueError, match="portable"):
        crc32(b"", implementation="abacus")
