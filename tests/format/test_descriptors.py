"""Version detection, format descriptions and their corners, over hand-made bytes."""

from __future__ import annotations

import struct

import pytest
from support.descriptors import LENGTHS_50, LENGTHS_A_DROP6, event, fde

from binlog_core._format.descriptors import (
    LogState,
    detect,
    format_description_checksum,
    parse_format_description,
    parse_start_v3,
)
from binlog_core._format.event_types import EventType
from binlog_core.errors import ChecksumError, EncryptionError, FormatError, NotABinlogError

pytestmark = pytest.mark.sanitize

MAGIC = b"\xfebin"

LENGTHS_51 = LENGTHS_50[:14] + bytes([83, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2])
LENGTHS_97 = bytes(
    [0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]
) + bytes([10, 10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0, 0])
LENGTHS_MARIADB = (
    LENGTHS_50[:14]
    + bytes([228, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10, 10, 0, 0, 0, 0, 0, 0, 10, 10, 10, 0])
    + bytes(117)
    + bytes([0, 4, 19, 4, 0, 13, 8, 8, 8, 10, 10, 10])
)


def start(version: int, server: str, *, v1: bool) -> bytes:
    return event(1, struct.pack("<H50sI", version, server.encode(), 900000000), v1=v1)


# -- detection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [b"", b"\xfe", b"\xfebi", b"PK\x03\x04rest", b"\xfdxin"])
def test_files_that_are_not_binary_logs(head: bytes) -> None:
    with pytest.raises(NotABinlogError) as caught:
        detect(head, "some.file")
    assert (caught.value.path, caught.value.offset) == ("some.file", 0)


def test_an_encrypted_log_asks_for_its_key() -> None:
    with pytest.raises(EncryptionError, match="keys="):
        detect(b"\xfdbin" + bytes(508), "log")


def test_the_magic_alone_is_an_empty_log() -> None:
    found = detect(MAGIC)
    assert (found.state, found.format, found.first_event) == (LogState.EMPTY, None, 4)


def test_a_cut_first_event_is_not_an_error() -> None:
    whole = fde("8.0.30", LENGTHS_51, algorithm=1)
    for length in range(1, len(whole)):
        assert detect(MAGIC + whole[:length]).state is LogState.CUT
    assert detect(MAGIC + whole).state is LogState.OPEN


def test_v1() -> None:
    found = detect(MAGIC + start(1, "3.23.58-log", v1=True))
    description = found.format
    assert found.state is LogState.OPEN and description is not None
    assert (description.binlog_version, description.server_version) == (1, "3.23.58-log")
    assert (description.header_length, description.created) == (13, 900000000)
    assert description.header_length_of(EventType.ROTATE) == 13
    assert description.post_header_length(EventType.ROTATE) == 0
    assert description.post_header_length(EventType.QUERY) == 11
    assert (description.checksum, description.checksum_length_of(EventType.START_V3)) == ("none", 0)


@pytest.mark.parametrize(("version", "notes"), [(3, 0), (2, 1)])
def test_v3_and_v2(version: int, notes: int) -> None:
    description = detect(MAGIC + start(version, "4.0.0-alpha", v1=False)).format
    assert description is not None
    assert (description.binlog_version, description.header_length) == (version, 19)
    assert description.post_header_length(EventType.ROTATE) == 8
    assert len(description.notes) == notes
    assert description.from_file


def test_a_cut_start_event_still_tells_v1_from_v3() -> None:
    for v1, version in ((True, 1), (False, 3)):
        found = detect((MAGIC + start(version, "x", v1=v1))[:-1])
        assert found.state is LogState.CUT and found.format is not None
        assert found.format.binlog_version == version


@pytest.mark.parametrize("type_code", [2, 4, 5, 14])
def test_a_first_event_that_is_not_a_descriptor_is_v3(type_code: int) -> None:
    found = detect(MAGIC + event(type_code, bytes(30)))
    assert found.state is LogState.OPEN and found.format is not None
    assert (found.format.binlog_version, found.format.from_file) == (3, False)


@pytest.mark.parametrize("type_code", [0, 16, 19, 30, 160, 255])
def test_a_first_event_of_a_later_type_is_an_error(type_code: int) -> None:
    with pytest.raises(FormatError) as caught:
        detect(MAGIC + event(type_code, bytes(30)), "log")
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == ("log", 4, type_code)


def test_a_first_event_longer_than_the_head_is_not_cut() -> None:
    # A LOAD DATA block of megabytes may begin a log of 4.1; the head holds only its beginning.
    found = detect((MAGIC + event(9, bytes(100_000)))[:512])
    assert found.state is LogState.OPEN and found.format is not None
    assert found.format.binlog_version == 3


@pytest.mark.parametrize("length", [0, 13, 68, 337, 2**32 - 1])
def test_start_event_of_an_impossible_length(length: int) -> None:
    whole = bytearray(start(3, "4.1.22", v1=False))
    whole[9:13] = struct.pack("<I", length)
    with pytest.raises(FormatError, match=f"START_EVENT_V3 of {length} bytes"):
        detect(MAGIC + bytes(whole))


def test_start_event_that_cannot_be() -> None:
    with pytest.raises(FormatError, match="START_EVENT_V3 of 60 bytes"):
        parse_start_v3(bytes(60), 4, "log")
    with pytest.raises(FormatError, match="binlog_version 7"):
        parse_start_v3(start(7, "4.0", v1=False), 4, "log")


# -- format description ------------------------------------------------------------------------


def test_5_0_has_no_checksum() -> None:
    description = parse_format_description(fde("5.0.91-log", LENGTHS_50), 4)
    assert description.raw_post_header_lengths == LENGTHS_50
    assert (description.checksum, description.has_checksum_field, description.notes) == ("none", False, ())
    assert (description.server_version_tuple, description.created) == ((5, 0, 91), 1600000000)
    assert description.post_header_lengths[EventType.QUERY] == 13
    assert description.post_header_length(EventType.XA_PREPARE) is None


@pytest.mark.parametrize(("algorithm", "name", "length"), [(0, "none", 0), (1, "crc32", 4)])
def test_9_7(algorithm: int, name: str, length: int) -> None:
    whole = fde("9.7.4-2", LENGTHS_97, algorithm=algorithm)
    assert len(whole) == 123
    description = parse_format_description(whole, 4)
    assert description.raw_post_header_lengths == LENGTHS_97
    assert (description.checksum, description.checksum_length) == (name, length)
    # The descriptor itself ends with a CRC, whatever its algorithm.
    assert description.checksum_length_of(EventType.FORMAT_DESCRIPTION) == 4
    assert description.checksum_length_of(EventType.QUERY) == length


def test_lengths_that_are_not_what_the_array_lists() -> None:
    description = parse_format_description(fde("9.7.4", LENGTHS_97, algorithm=1), 4)
    assert description.raw_post_header_lengths[EventType.TRANSACTION_PAYLOAD - 1] == 40
    assert description.post_header_lengths[EventType.TRANSACTION_PAYLOAD] == 0
    assert description.post_header_lengths[EventType.GTID] == 0
    for code in range(EventType.PRE_GA_WRITE_ROWS, EventType.DELETE_ROWS_V1 + 1):
        assert description.post_header_lengths[code] == 8
    assert description.post_header_lengths[EventType.LOAD] == 18


def test_rows_events_beyond_the_array_have_a_length_and_others_have_none() -> None:
    description = parse_format_description(fde("5.0.91", LENGTHS_50), 4)
    lengths = [description.post_header_length(code) for code in (19, 20, 25, 30, 32, 39)]
    assert lengths == [8, 8, 8, 10, 10, 10]
    assert [description.post_header_length(code) for code in (26, 29, 33, 40, 162)] == [None] * 5


@pytest.mark.parametrize("version", ["10.11.18-MariaDB-log", "5.5.36-MariaDB", "5.3.0-maria-x"])
def test_mariadb_knows_checksums_from_5_3(version: str) -> None:
    whole = fde(version, LENGTHS_MARIADB, algorithm=1)
    assert len(whole) == 252
    description = parse_format_description(whole, 4)
    assert (description.is_mariadb, description.checksum, description.notes) == (True, "crc32", ())
    assert description.post_header_lengths[EventType.MARIADB_GTID] == 19


def test_the_array_decides_where_the_version_misleads() -> None:
    # 6.0 alphas are newer than 5.6.1 by number, but had no checksums.
    description = parse_format_description(fde("6.0.14-alpha", LENGTHS_51), 4)
    assert (description.has_checksum_field, len(description.raw_post_header_lengths)) == (False, 26)
    assert len(description.notes) == 1
    # And a checksum after an old version's name.
    description = parse_format_description(fde("5.1.63-google", LENGTHS_51, algorithm=1), 4)
    assert (description.checksum, len(description.raw_post_header_lengths)) == ("crc32", 26)
    assert len(description.notes) == 1


def test_an_array_that_agrees_with_neither_follows_the_version() -> None:
    lengths = LENGTHS_51[:14] + b"\0" + LENGTHS_51[15:]
    description = parse_format_description(fde("5.7.30", lengths, algorithm=0), 4)
    assert (description.has_checksum_field, description.raw_post_header_lengths) == (True, lengths)
    assert len(description.notes) == 1


def test_the_array_entry_wraps_at_256() -> None:
    lengths = LENGTHS_MARIADB + bytes(255 - 171)
    lengths = lengths[:14] + bytes([(57 + 255) % 256]) + lengths[15:]
    description = parse_format_description(fde("13.1.0-MariaDB", lengths, algorithm=1), 4)
    assert (len(description.raw_post_header_lengths), description.notes) == (255, ())


def test_extra_header_bytes_but_not_for_frozen_events() -> None:
    description = parse_format_description(fde("5.1.63-google-log", LENGTHS_51, header_length=23), 4)
    assert description.header_length == description.header_length_of(EventType.QUERY) == 23
    for code in (EventType.START_V3, EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
        assert description.header_length_of(code) == 19


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        (fde("5.7.1", LENGTHS_51, algorithm=1, header_length=18), "header_length .* found 18"),
        (fde("5.7.1", LENGTHS_51, algorithm=1, binlog_version=5), "binlog_version .* found 5"),
        (fde("5.7.1", LENGTHS_51, algorithm=2), "checksum algorithm .* found 2 "),
        (fde("5.7.1", LENGTHS_51, algorithm=255), "checksum algorithm .* found 255 "),
        (fde("5.7.1", b"", algorithm=1), "empty"),
        (fde("5.0.1", b""), "found 76 "),
        (fde("5.7.1", bytes(256), algorithm=1), "event_length"),
        (fde("5.1.4-a_drop6p1", LENGTHS_A_DROP6 + b"\0"), "22 event types, found 23"),
    ],
)
def test_descriptions_that_cannot_be(whole: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_format_description(whole, 8000, "log")
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == ("log", 8000, 15)
    with pytest.raises(FormatError, match=message):
        detect(MAGIC + whole, "log")


def test_in_use_flag_is_outside_the_checksum() -> None:
    whole = fde("8.0.30", LENGTHS_97, algorithm=1, flags=1)
    assert parse_format_description(whole, 4).in_use
    stored, computed = format_description_checksum(whole)
    assert stored == computed
    stored, computed = format_description_checksum(whole[:30] + b"x" + whole[31:])
    assert stored != computed


def test_a_wrong_checksum_of_the_description() -> None:
    whole = fde("8.0.30", LENGTHS_97, algorithm=1)
    wrong = whole[:72] + bytes([whole[72] ^ 1]) + whole[73:]
    assert detect(MAGIC + wrong, "log").state is LogState.OPEN
    assert detect(MAGIC + whole, "log", verify_checksum=True).state is LogState.OPEN
    with pytest.raises(ChecksumError) as caught:
        detect(MAGIC + wrong, "log", verify_checksum=True)
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == ("log", 4, 15)
    # If the algorithm is none, it is not verified.
    off = fde("8.0.30", LENGTHS_97, algorithm=0)[:-1] + b"?"
    assert detect(MAGIC + off, verify_checksum=True).state is LogState.OPEN
