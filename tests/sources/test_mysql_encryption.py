"""Logs as MySQL encrypts them, made here by its documentation with the library's own modes."""

from __future__ import annotations

import hashlib

import pytest

from binlog_core._sources.log_files import unwrap
from binlog_core._sources.resolve import resolve
from binlog_core._sources.sources import BufferSource
from binlog_core.errors import EncryptionError

pytestmark = pytest.mark.sanitize_long

ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")


def mysql_log(plain: bytes, key: bytes, fields: bytes | None = None, version: int = 1) -> bytes:
    """A log as MySQL encrypts it, by the library's own CBC and CTR."""
    password, iv = hashlib.sha256(b"password").digest(), hashlib.md5(b"iv").digest()
    wrap = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CBC(iv)).encryptor()
    digest = hashlib.sha512(password).digest()
    cipher = ciphers.Cipher(ciphers.algorithms.AES(digest[:32]), ciphers.modes.CTR(digest[32:40] + bytes(8)))
    if fields is None:
        fields = b"\x01\x03key" + b"\x02" + wrap.update(password) + b"\x03" + iv
    header = b"\xfdbin" + bytes([version]) + fields
    return header.ljust(512, b"\0") + cipher.encryptor().update(plain)


def test_mysql_seek_over_4_gib(tmp_path):
    key = bytes(range(32))
    plain = b"\xfebin" + bytes(1000)
    path = tmp_path / "large"
    position = (5 << 30) + 7
    digest = hashlib.sha512(hashlib.sha256(b"password").digest()).digest()
    block = (position // 16).to_bytes(8, "big")
    cipher = ciphers.Cipher(ciphers.algorithms.AES(digest[:32]), ciphers.modes.CTR(digest[32:40] + block))
    with path.open("wb") as file:
        file.write(mysql_log(plain, key))
        file.seek(512 + position - position % 16)
        file.write(cipher.encryptor().update(bytes(7) + b"far away"))
    [log] = resolve(path, keys={"key": key})
    with log.open() as source:
        source.seek(position)
        assert source.read(100) == b"far away"
        source.seek(0)
        assert source.read(1004)[:1004] == plain


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (b"", "lacks its key id"),
        (b"\x01\x03key", "lacks its password"),
        (b"\x01\x03key\x02" + bytes(32), "lacks its init"),
        (b"\x01\x00\x02" + bytes(32) + b"\x03" + bytes(16), "lacks its key id"),
        (b"\x04\x01", "field 4"),
        (b"\x01\xff" + b"k" * 255 + b"\x01\xff" + b"k" * 240, "past"),
    ],
)
def test_mysql_header_that_cannot_be(fields, says):
    with pytest.raises(EncryptionError, match=says) as caught:
        unwrap(BufferSource(mysql_log(b"", bytes(32), fields), "log"), {"key": bytes(32)})
    assert caught.value.path == "log"


def test_mysql_header_of_another_version_or_cut():
    data = mysql_log(b"\xfebin", bytes(32))
    keys = {"key": bytes(32)}
    assert unwrap(BufferSource(data), keys).read(9) == b"\xfebin"
    with pytest.raises(EncryptionError, match="version 2"):
        unwrap(BufferSource(mysql_log(b"", bytes(32), version=2)), keys)
    for cut in range(4, 512):
        with pytest.raises(EncryptionError, match=f"cut off after {cut}"):
            unwrap(BufferSource(data[:cut]), keys)
    assert unwrap(BufferSource(data[:512]), keys).read(9) == b""
    assert unwrap(BufferSource(data[:514]), keys).read(9) == b"\xfeb"
