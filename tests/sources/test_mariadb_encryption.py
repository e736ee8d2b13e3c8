"""Logs as MariaDB encrypts them, made here by its documentation with the library's own modes."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from support.sources import read_all

from binlog_core._sources.log_files import unwrap
from binlog_core._sources.mariadb_encryption import MariaDBDecryptedSource
from binlog_core._sources.resolve import resolve
from binlog_core._sources.sources import BufferSource
from binlog_core.errors import BinlogError, EncryptionError

pytestmark = pytest.mark.sanitize_long

ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")


def event(
    type_code: int, body: bytes, position: int, *, checksum: bool, next_position: int | None = None
) -> bytes:
    length = 19 + len(body) + 4 * checksum
    end = (position + length) & 0xFFFFFFFF if next_position is None else next_position
    data = struct.pack("<IBIIIH", 1_700_000_000, type_code, 7, length, end, 0) + body
    return data + struct.pack("<I", zlib.crc32(data)) if checksum else data


def encrypt(data: bytes, position: int, key: bytes, nonce: bytes, mode: str) -> bytes:
    """One event as the server encrypts it: its length changes places with the timestamp, in clear."""
    iv = nonce + (position & 0xFFFFFFFF).to_bytes(4, "little")
    aes = ciphers.algorithms.AES(key)
    clear = data[4:9] + data[:4] + data[13:]  # the bytes from 4 on, once the timestamp is at 9
    if mode == "ctr":
        secret = ciphers.Cipher(aes, ciphers.modes.CTR(iv)).encryptor().update(clear)
    else:
        full = len(clear) // 16 * 16
        secret = ciphers.Cipher(aes, ciphers.modes.CBC(iv)).encryptor().update(clear[:full])
        mask = ciphers.Cipher(aes, ciphers.modes.ECB()).encryptor().update(iv)
        secret += bytes(a ^ b for a, b in zip(clear[full:], mask, strict=False))
    # The bytes that came out at 9 to 12 go to the front, the length takes their place.
    return secret[5:9] + secret[:5] + data[9:13] + secret[9:]


def mariadb_head(
    *, checksum: bool = True, scheme: int = 1, flags: int = 0, nonce: bytes = b"n" * 12
) -> bytes:
    """Magic, descriptor and START_ENCRYPTION."""
    lengths = bytes(172)
    body = struct.pack("<H50sIB", 4, b"10.11.18-MariaDB-log", 0, 19) + lengths + bytes([checksum])
    data = b"\xfebin" + event(15, body, 4, checksum=True)
    start = event(164, struct.pack("<BI12s", scheme, 1, nonce), len(data), checksum=checksum)
    if flags:
        start = start[:17] + bytes([flags, 0]) + start[19:]
    return data + start


def mariadb_log(
    bodies: list[bytes], key: bytes, *, mode: str = "cbc", checksum: bool = True, zero_next: bool = False
):
    plain = secret = mariadb_head(checksum=checksum)
    for body in bodies:
        one = event(2, body, len(plain), checksum=checksum, next_position=0 if zero_next else None)
        secret += encrypt(one, len(plain), key, b"n" * 12, mode)
        plain += one
    return secret, plain


@pytest.mark.parametrize("mode", ["cbc", "ctr"])
@pytest.mark.parametrize("key_len", [16, 24, 32])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("zero_next", [True, False])
def test_mariadb_modes_and_lengths(mode, key_len, checksum, zero_next):
    key = bytes(range(key_len))
    bodies = [bytes([n]) * (n * 7 % 53) for n in range(107)]  # lengths of 0 to 52, those of 0 among them
    secret, plain = mariadb_log(bodies, key, mode=mode, checksum=checksum, zero_next=zero_next)
    assert secret != plain
    source = unwrap(BufferSource(secret), {1: key})
    assert isinstance(source, MariaDBDecryptedSource)
    assert read_all(source) == plain
    for at in range(0, len(plain), 13):
        source.seek(at)
        assert plain.startswith(source.read(50), at)
    with pytest.raises(EncryptionError, match="wrong"):
        unwrap(BufferSource(secret), {1: bytes(key_len)})


@pytest.mark.parametrize("mode", ["cbc", "ctr"])
def test_mariadb_events_larger_than_one_piece(mode):
    key = b"k" * 16
    rng = random.Random(1)
    bodies = [
        rng.randbytes(n) for n in (50, (3 << 20) + 5, 10, (1 << 20) - 23, (1 << 20) - 22, (1 << 20) - 19, 7)
    ]
    secret, plain = mariadb_log(bodies, key, mode=mode)
    for size in (4097, 5 << 20):
        assert read_all(unwrap(BufferSource(secret), {1: key}), size) == plain
    source = unwrap(BufferSource(secret), {1: key})
    for at in (2 << 20, 100, (3 << 20) + 900, 0, 400, len(plain) - 3):
        source.seek(at)
        assert plain.startswith(source.read(1000), at)
    first_large, _ = mariadb_log(bodies[1:], key, mode=mode)
    assert unwrap(BufferSource(first_large), {1: key}).read(4) == b"\xfebin"


def test_mariadb_positions_wrap_at_4_gib(tmp_path):
    key = b"k" * 16
    secret, plain = mariadb_log([b"first"], key)
    path = tmp_path / "large"
    position = len(secret)
    with path.open("wb") as file:
        file.write(secret)
        for length in (3 << 30, 2 << 30):  # sparse
            file.seek(position + 9)
            file.write(length.to_bytes(4, "little"))
            position += length
        last = b""
        file.seek(position)
        for n in range(30):  # so many that they are decrypted together
            far = event(2, b"far away" * n, position + len(last), checksum=True)
            file.write(encrypt(far, position + len(last), key, b"n" * 12, "cbc"))
            last += far
    assert position > 5 << 30
    [log] = resolve(path, keys={1: key})
    with log.open() as source:
        assert source.size == position + len(last)
        source.seek(position)
        assert read_all(source) == last
        source.seek(position + 23 + 19)
        assert source.read(8) == b"far away"
        source.seek(0)
        assert source.read(len(plain)) == plain


@pytest.mark.parametrize(
    ("checksum", "type_code", "body"),
    [
        (True, 160, b"x" * 30),
        (False, 4, struct.pack("<Q", 4) + b"bin.000001"),
        (False, 15, struct.pack("<H50sIB", 4, b"10.11.18-MariaDB-log", 0, 19) + bytes(172)),
    ],
)
def test_mariadb_relay_log_has_the_sources_positions(checksum, type_code, body):
    key = b"k" * 16
    plain = secret = mariadb_head(checksum=checksum)
    for code, content, next_position in ((type_code, body, 99), (2, b"x" * 30, 12345)):
        one = event(code, content, len(plain), checksum=checksum, next_position=next_position)
        secret += encrypt(one, len(plain), key, b"n" * 12, "cbc")
        plain += one
    assert read_all(unwrap(BufferSource(secret), {1: key})) == plain
    with pytest.raises(EncryptionError, match="wrong"):
        unwrap(BufferSource(secret), {1: b"K" * 16})


def test_mariadb_copies_that_a_server_decrypted_are_plain():
    data = mariadb_head(flags=0x80)
    data += event(2, b"clear", len(data), checksum=True)
    assert isinstance(unwrap(BufferSource(data)), BufferSource)


def test_mariadb_start_encryption_that_cannot_be():
    data = mariadb_head(scheme=2)
    with pytest.raises(EncryptionError, match="scheme 2") as caught:
        unwrap(BufferSource(data, "log"), {1: bytes(16)})
    assert (caught.value.path, caught.value.type_code, caught.value.offset) == (
        "log",
        164,
        4 + 76 + 172 + 1 + 4,
    )
    data = bytearray(mariadb_head())
    data[len(data) - 40 + 9] = 39
    with pytest.raises(EncryptionError, match="39 bytes"):
        unwrap(BufferSource(data, "log"), {1: bytes(16)})


def test_mariadb_event_shorter_than_its_header():
    key = b"k" * 16
    secret, plain = mariadb_log([b"first"], key)
    source = unwrap(BufferSource(secret + bytes(9) + (18).to_bytes(4, "little") + bytes(30), "log"), {1: key})
    assert source.read(len(plain)) == plain
    with pytest.raises(BinlogError, match="18 bytes") as caught:
        source.read(100)
    assert caught.value.offset == len(plain)
