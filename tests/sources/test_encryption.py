"""Encrypted logs: those of real servers, and ones encrypted here by the book with the library's own modes."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import zlib
from pathlib import Path

import pytest
from support.golden import Golden, golden_logs

from binlog_core._sources.encryption_keys import read_key_file, read_keyring
from binlog_core._sources.log_files import LogFile, resolve, unwrap
from binlog_core._sources.mariadb_encryption import MariaDBDecryptedSource
from binlog_core._sources.mysql_encryption import MySQLDecryptedSource
from binlog_core._sources.sources import BufferSource, FileSource, Source
from binlog_core.errors import BinlogError, EncryptionError, MissingExtraError

ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")

LOGS = golden_logs("*/encrypted")
MYSQL = [log for log in LOGS if "mysql" in log.name]
MARIADB = [log for log in LOGS if "maria" in log.name]


def opened(log: Golden, data: bytes | None = None, keys: object = "golden") -> Source:
    return unwrap(
        BufferSource(log.data if data is None else data, "log"), log.keys if keys == "golden" else keys
    )


def read_all(source: Source, size: int = 1000) -> bytes:
    data = b""
    while part := source.read(size):
        assert len(part) <= size
        data += part
    return data


def walk(plain: bytes) -> list[tuple[int, int]]:
    """Begin and end of each event; every checksum is compared."""
    found = []
    at = 4
    while at < len(plain):
        length = int.from_bytes(plain[at + 9 : at + 13], "little")
        event = bytearray(plain[at : at + length])
        if event[4] == 15:
            event[17] &= 0xFE
        assert zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little"), at
        found.append((at, at + length))
        at += length
    return found


@pytest.mark.parametrize("log", LOGS, ids=str)
def test_every_event_of_a_servers_log(log):
    plain = read_all(opened(log))
    assert walk(plain) == [(event["pos"], event["end"]) for event in log.events]


@pytest.mark.parametrize("log", LOGS, ids=str)
@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_reads_of_any_size_are_the_same(log, size):
    assert read_all(opened(log), size) == read_all(opened(log))


@pytest.mark.parametrize("log", LOGS, ids=str)
def test_seek(log):
    plain = read_all(opened(log))
    source = opened(log)
    assert source.size == len(plain)
    assert source.seekable and not source.splittable and source.view() is None
    rng = random.Random(5)
    for _ in range(500):
        at = rng.randrange(len(plain) + 1)
        source.seek(at)
        assert source.position == at
        part = source.read(rng.randrange(1, 300))
        assert plain.startswith(part, at)
        assert part or at == len(plain)
        assert source.position == at + len(part)
    with pytest.raises(BinlogError):
        source.seek(len(plain) + 1)


@pytest.mark.parametrize("log", LOGS, ids=str)
def test_a_pipe_is_decrypted_too(log):
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.inner = io.BytesIO(log.data)

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            return self.inner.read(min(size, 100))

    source = unwrap(FileSource(Pipe(), "pipe"), log.keys)
    plain = read_all(opened(log))
    source.seek(5000)
    assert read_all(source) == plain[5000:]
    with pytest.raises(BinlogError, match="stream"):
        source.seek(0)


@pytest.mark.parametrize("log", LOGS, ids=str)
def test_a_log_cut_anywhere_gives_what_is_whole(log):
    data, plain = log.data, read_all(opened(log))
    shift = len(data) - len(plain)
    for cut in [*range(300, 900), *range(len(data) - 100, len(data))]:
        try:
            source = opened(log, data[:cut])
        except EncryptionError:
            assert cut < 512 and log in MYSQL
            continue
        found = read_all(source)
        assert plain.startswith(found)
        missing = cut - shift - len(found)
        if log in MYSQL:
            assert missing == 0
        else:
            assert missing == source.withheld < 20


@pytest.mark.parametrize("log", LOGS, ids=str)
def test_a_growing_log(log):
    """Whatever has been written is given at once, and the rest when it comes."""

    class Growing(FileSource):
        limit = 600

        def _fetch(self, size: int) -> bytes:
            return super()._fetch(min(size, self.limit - self._handle.tell()))

    plain = read_all(opened(log))
    inner = Growing(io.BytesIO(log.data), "growing")
    source = unwrap(inner, log.keys)
    found = read_all(source)
    rng = random.Random(3)
    while inner.limit < len(log.data):
        inner.limit = min(inner.limit + rng.randrange(1, 60), len(log.data))
        found += read_all(source)
        assert plain.startswith(found)
        assert len(plain) - len(found) <= len(log.data) - inner.limit + 20
    assert found == plain


def test_files_are_found_encrypted_whatever_the_road(tmp_path):
    import gzip

    for log in LOGS:
        plain = read_all(opened(log))
        packed = tmp_path / "packed"
        packed.write_bytes(gzip.compress(log.data))
        for target, mmap in ((log.path, None), (log.path, True), (log.path, False), (packed, None)):
            [file] = resolve(target, keys=log.keys, mmap=mmap)
            with file.open() as source:
                assert read_all(source) == plain


# Keys


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


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    for log in LOGS:
        with pytest.raises(MissingExtraError, match=r"cryptography.*binlog_core\[crypto\]"):
            opened(log)


# MySQL's header


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
        with pytest.raises(EncryptionError, match=f"cut after {cut}"):
            unwrap(BufferSource(data[:cut]), keys)
    assert unwrap(BufferSource(data[:512]), keys).read(9) == b""
    assert unwrap(BufferSource(data[:514]), keys).read(9) == b"\xfeb"


# MariaDB's events


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
    clear = data[4:9] + data[:4] + data[13:]  # what stands at 4 and after once the timestamp stands at 9
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


def test_plain_logs_stay_as_they_are():
    for log in golden_logs("*/stop"):
        source = LogFile(str(log.path)).open()
        assert type(source) is BufferSource
        assert source.view() == log.data
        source.close()


def test_source_classes():
    assert all(isinstance(opened(log), MySQLDecryptedSource) for log in MYSQL)
    assert all(isinstance(opened(log), MariaDBDecryptedSource) for log in MARIADB)
    assert MYSQL and MARIADB


@pytest.mark.parametrize("log", LOGS, ids=str)
def test_flipped_bytes_never_give_anything_but_our_errors(log):
    rng = random.Random(8)
    for _ in range(300):
        data = bytearray(log.data[:3000])
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(rng.choice((150, 400, len(data))))] = rng.randrange(256)
        try:
            found = read_all(opened(log, bytes(data)))
        except BinlogError:
            continue
        assert len(found) <= len(data)
