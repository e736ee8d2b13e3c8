"""Seams: where results of splits disagree, and which split is read again."""

from __future__ import annotations

from typing import Any

import pytest

from binlog_core.errors import DecodeError
from binlog_core.splits import Split, SplitResult, check_seams

pytestmark = pytest.mark.sanitize_long


def test_seams() -> None:
    def result(start: int, end: int, first: int | None, after: int | None, **more: Any) -> SplitResult:
        return SplitResult(Split("a", start, end), first, after, **more)

    good = [
        result(0, 100, 4, 120),
        result(100, 200, 120, 450),
        result(200, 300, None, None),
        result(300, 400, None, None),
        result(400, 500, 450, None),
        result(500, 600, None, None),
    ]
    assert check_seams(good[::-1]) == []
    # A split that found something where nothing begins
    wrong = [*good[:2], result(200, 300, 222, 310), *good[3:]]
    assert check_seams(wrong) == [Split("a", 200, 300, anchor=None, trusted=True)]
    # … and one that found nothing, or another place
    for first in (None, 130):
        assert check_seams([good[0], result(100, 200, first, 450), *good[2:]]) == [
            Split("a", 100, 200, anchor=120, trusted=True)
        ]
    error = DecodeError("broken", path="a", offset=130)
    assert check_seams([good[0], result(100, 200, 130, None, error=error), *good[2:]])[0].anchor == 120
    with pytest.raises(DecodeError, match="broken"):
        check_seams([good[0], result(100, 200, 120, None, error=error), *good[2:]])
    with pytest.raises(ValueError, match="cover"):
        check_seams([*good[:2], *good[3:]])
    assert check_seams([]) == []
