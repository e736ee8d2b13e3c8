"""How text becomes UTF-8: which loop does it, and the table of a one-byte character set."""

from __future__ import annotations

import pytest
from support.batches import column

from binlog_core._tables.column_types import Kind
from binlog_core._tables.transcoding import converter, encoding_of, utf8_table
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize_long


@pytest.mark.parametrize(
    ("charset", "encoding"),
    [
        ("utf8mb4", "utf8"),
        ("utf8mb3", "utf8"),
        ("ucs2", "utf16be"),
        ("utf16le", "utf16le"),
        ("utf32", "utf32be"),
        ("latin1", "table"),
        ("sjis", "object"),
    ],
)
def test_what_turns_a_character_set_into_utf8(charset: str, encoding: str) -> None:
    assert encoding_of(charset) == encoding


@pytest.mark.parametrize("charset", [None, "", "nope", "binary"])
def test_what_cannot_be_decoded(charset: str | None) -> None:
    with pytest.raises(DecodeError, match="cannot be decoded"):
        encoding_of(charset)


def test_the_table_of_a_one_byte_set() -> None:
    # MySQL's latin1 is cp1252: 0x80 is the euro sign, E2 82 AC in UTF-8; 0xE9 is é, C3 A9.
    table, keeps_ascii = utf8_table("latin1")
    assert keeps_ascii
    assert table[0x41] == 1 << 24 | 0x41
    assert table[0x80] == 3 << 24 | 0xAC82E2
    assert table[0xE9] == 2 << 24 | 0xA9C3
    ascii_, _ = utf8_table("ascii")
    assert ascii_[0x80] == 0


def test_one_value_after_the_other() -> None:
    def text(charset: str, value: bytes, errors: str = "raise") -> str:
        return converter(column("a", Kind.TEXT, charset=charset), errors)(value).decode()  # type: ignore[arg-type]

    assert text("sjis", b"\x83e\x83X\x83g") == "テスト"
    assert text("latin1", b"caf\xe9") == "café"
    for charset, broken in (("utf8mb4", b"a\xff"), ("ascii", b"a\x80"), ("sjis", b"a\x83")):
        with pytest.raises(UnicodeDecodeError):
            text(charset, broken)
        assert text(charset, broken, "replace") == "a\ufffd"
    # {"a": 1} in binary JSON
    document = converter(column("j", Kind.JSON), "raise")(
        b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"
    )
    assert document == b'{"a": 1}'
