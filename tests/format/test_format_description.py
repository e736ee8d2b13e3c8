"""Descriptions: lengths and numbering, as Python and the core have them."""

from __future__ import annotations

import pytest
from support.descriptors import LENGTHS_5117, LENGTHS_A_DROP6, fde

from binlog_core._format.descriptors import parse_format_description
from binlog_core._format.format_description import artificial_description

pytestmark = pytest.mark.sanitize


@pytest.mark.parametrize(
    "version", ["5.1.1-a_drop5p3", "5.1.5-a_drop5", "5.1.4-a_drop6p2", "5.2.2-a_drop6p13-log"]
)
def test_renumbered(version: str) -> None:
    description = parse_format_description(fde(version, LENGTHS_A_DROP6), 4)
    codes = {file_code: description.canonical(file_code) for file_code in (2, 15, *range(16, 24), 255)}
    assert codes == {2: 2, 15: 15, 16: 19, 17: 20, 18: 21, 19: 22, 20: 16, 21: 17, 22: 18, 23: 0, 255: 0}
    assert description.post_header_lengths[16:23] == (0, 4, 26, 6, 6, 6, 6)
    assert description.raw_post_header_lengths == LENGTHS_A_DROP6


@pytest.mark.parametrize(
    "version", ["5.1.1-alpha", "5.1.15-ndb", "5.1.6-a_drop5", "5.2.3-a_drop6", "5.1.17-beta"]
)
def test_not_renumbered(version: str) -> None:
    description = parse_format_description(fde(version, LENGTHS_5117), 4)
    assert description.renumbering is None
    assert description.canonical(16) == 16


def test_core_arrays() -> None:
    description = parse_format_description(fde("5.2.2-a_drop6p13", LENGTHS_A_DROP6, header_length=23), 4)
    header_length, lengths, canonical, algorithm = description.core_arrays()
    assert (header_length, algorithm, lengths.shape, canonical.shape) == (23, 0, (256,), (256,))
    assert (lengths[19], lengths[2], lengths[16], lengths[30]) == (6, 13, 0, 10)
    assert (canonical[16], canonical[20], canonical[15], canonical[23]) == (19, 16, 15, 0)
    header_length, lengths, canonical, _ = artificial_description(1).core_arrays()
    assert (header_length, lengths[2], lengths[4]) == (13, 11, 0)
    assert canonical.tolist() == list(range(256))
