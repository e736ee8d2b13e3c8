"""Encrypted logs of real servers, MySQL's and MariaDB's: the same bytes in each way of reading."""

from __future__ import annotations

import io
import random
import zlib

import pytest
from support.golden import golden_logs
from support.sources import opened, read_all

from binlog_core._sources.log_files import LogFile, unwrap
from binlog_core._sources.mariadb_encryption import MariaDBDecryptedSource
from binlog_core._sources.mysql_encryption import MySQLDecryptedSource
from binlog_core._sources.resolve import resolve
from binlog_core._sources.sources import BufferSource, FileSource
from binlog_core.errors import BinlogError, EncryptionError, MissingExtraError

pytestmark = pytest.mark.sanitize_long

pytest.importorskip("cryptography.hazmat.primitives.ciphers")

LOGS = golden_logs("*/encrypted")
MYSQL = [log for log in LOGS if "mysql" in log.name]
MARIADB = [log for log in LOGS if "maria" in log.name]


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
    """What has been written is given at once, and the rest when it comes."""

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


def test_encrypted_files_are_recognized_in_each_way_of_opening(tmp_path):
    import gzip

    for log in LOGS:
        plain = read_all(opened(log))
        packed = tmp_path / "packed"
        packed.write_bytes(gzip.compress(log.data))
        for target, mmap in ((log.path, None), (log.path, True), (log.path, False), (packed, None)):
            [file] = resolve(target, keys=log.keys, mmap=mmap)
            with file.open() as source:
                assert read_all(source) == plain


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    for log in LOGS:
        with pytest.raises(MissingExtraError, match=r"cryptography.*binlog_core\[crypto\]"):
            opened(log)


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
