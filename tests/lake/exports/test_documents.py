"""Documents: the text comes out of the binary form as it went in."""

from __future__ import annotations

import pytest

from binlog_core._core._jsonb import jsonb_to_text
from binlog_core.lake.exports.documents import document_bytes

TEXTS = [
    "null",
    "true",
    "-1",
    "9223372036854775807",
    "18446744073709551615",
    "-9223372036854775808",
    "0.000001",
    "12.50",
    "-12345678901234567890.123456789012345678",
    "0.0",
    "1e20",
    "-0.0",
    '"it\'s \\"ü\\" 😀\\n"',
    "[]",
    "{}",
    '{"a": 1, "bc": [1.5, null, {"d": "2026-01-02"}], "de": false}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_it_is_printed_as_it_was(text: str) -> None:
    assert jsonb_to_text(document_bytes(text)).decode() == text


@pytest.mark.parametrize("size", [10, 70_000])
def test_of_any_size(size: int) -> None:
    long = f'["{"x" * size}", {{"k": "{"y" * size}"}}]'
    assert jsonb_to_text(document_bytes(long)).decode() == long


def test_a_long_text_in_as_many_levels_as_a_server_allows() -> None:
    text = '["' + "x" * 70_000 + '"]'
    for _ in range(49):
        text = f'[{{"k": {text}}}]'
    assert jsonb_to_text(document_bytes(text)).decode() == text


@pytest.mark.parametrize(
    "text", ["NaN", "{", "1" * 90 + ".5", f'{{"{"k" * 65536}": 1}}', "[" * 99_999], ids=len
)
def test_what_no_server_prints_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        document_bytes(text)
