"""The files that servers keep the keys of encrypted logs in."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest
from support.golden import golden_logs
from support.sources import opened, read_all

from binlog_core._sources.encryption_keys import read_key_file, read_keyring
from binlog_core.errors import EncryptionError

pytestmark = pytest.mark.sanitize_long

pytest.importorskip("cryptography.hazmat.primitives.ciphers")

MYSQL = golden_logs("mysql*/encrypted")
MARIADB = golden_logs("maria*/encrypted")


@pytest.mark.parametrize("log", MYSQL, ids=str)
def test_mysql_keys(log, tmp_path):
    elements = json.loads(Path(log.keys).read_text())["elements"]
    key_id = elements[0]["data_id"]
    key = bytes.fromhex(elements[0]["data"])
    plain = read_all(opened(log))
    assert read_keyring(log.keys)[key_id] == key
    assert read_all(opened(log, keys={key_id: key})) == plain
    with pytest.raises(EncryptionError, match=f"{key_id}.*keys="):
        opened(log, keys=None)
    with pytest.raises(EncryptionError, match=f"{key_id}.*not among the 1"):
        opened(log, keys={"other": key})
    with pytest.raises(EncryptionError, match=f"{key_id}.*wrong"):
        opened(log, keys={key_id: key[::-1]})
    with pytest.raises(EncryptionError, match="32 bytes"):
        opened(log, keys={key_id: key[:16]})
    with pytest.raises(EncryptionError, match="32 bytes"):
        opened(log, keys={key_id: key.hex()})


def plugin_keyring(keys: dict[str, bytes], version: bytes = b"2.0") -> bytes:
    """A file of the keyring_file plugin, by the server's source."""
    mask = b"*305=Ljt0*!@$Hnm(*-9-w;:" * 2
    data = b"Keyring file version:" + version
    for key_id, key in keys.items():
        hidden = bytes(a ^ b for a, b in zip(key, mask, strict=False))
        text = key_id.encode() + b"AES" + hidden
        text += bytes(-len(text) % 8)
        data += struct.pack("<5Q", 40 + len(text), len(key_id), 3, 0, len(key)) + text
    digest = hashlib.sha256(data).digest() if version == b"2.0" else b""
    return data + b"EOF" + digest


@pytest.mark.parametrize("version", [b"1.0", b"2.0"])
def test_keyring_of_the_plugin(tmp_path, version):
    log = MYSQL[0]
    keys = {"first": b"1" * 16} | read_keyring(log.keys)
    path = tmp_path / "keyring"
    good = plugin_keyring(keys, version)
    path.write_bytes(good)
    assert read_keyring(path) == keys
    assert read_all(opened(log, keys=path)) == read_all(opened(log))
    for cut in range(1, len(good)):
        path.write_bytes(good[:cut])
        with pytest.raises(EncryptionError):
            read_keyring(path)
    for at in (24, 32, 40, 48, 56):  # each length of the first record
        path.write_bytes(good[:at] + b"\xff" * 8 + good[at + 8 :])
        with pytest.raises(EncryptionError):
            read_keyring(path)
    path.write_bytes(good[:24] + bytes(8) + good[32:])
    with pytest.raises(EncryptionError):
        read_keyring(path)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b"[]",
        b"1;00",
        b'{"elements": [{"data_id": "a", "data": "xyz"}]}',
        b"[" * 10000,
    ],
)
def test_no_keyring(tmp_path, text):
    path = tmp_path / "keyring"
    path.write_bytes(text)
    with pytest.raises(EncryptionError, match="keyring"):
        opened(MYSQL[0], keys=path)
    with pytest.raises(EncryptionError, match="cannot be read"):
        opened(MYSQL[0], keys=tmp_path / "none")


@pytest.mark.parametrize("log", MARIADB, ids=str)
def test_mariadb_keys(log):
    key = bytes.fromhex(Path(log.keys).read_text().strip().partition(";")[2])
    plain = read_all(opened(log))
    for keys in ({1: key}, {"1": key, 2: b""}):
        assert read_all(opened(log, keys=keys)) == plain
    with pytest.raises(EncryptionError, match=r"key number 1 \(version 1\).*keys="):
        opened(log, keys=None)
    with pytest.raises(EncryptionError, match=r"key number 1.*not among the 1"):
        opened(log, keys={2: key})
    for other in (key[::-1], key + key):
        with pytest.raises(EncryptionError, match="key number 1 is wrong"):
            opened(log, keys={1: other})
    with pytest.raises(EncryptionError, match="16, 24 or 32"):
        opened(log, keys={1: key[:15]})


def test_key_file(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(b"# keys\n\n  1;" + b"0a" * 16 + b"\r\n2;" + b"FF" * 24 + b" # second\n33;" + b"7e" * 32)
    assert read_key_file(path) == {1: b"\n" * 16, 2: b"\xff" * 24, 33: b"~" * 32}


@pytest.mark.parametrize(
    "line", [b"1", b"1;", b";00", b"x;" + b"00" * 16, b"1;" + b"0" * 31, b"1;" + b"00" * 20, b"\xff"]
)
def test_no_key_file(tmp_path, line):
    path = tmp_path / "keys"
    path.write_bytes(b"2;" + b"00" * 16 + b"\n" + line + b"\n")
    with pytest.raises(EncryptionError, match="line 2"):
        read_key_file(path)


def test_a_key_file_that_is_encrypted_says_so(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(b"Salted__" + bytes(24))
    with pytest.raises(EncryptionError, match="itself encrypted"):
        read_key_file(path)
