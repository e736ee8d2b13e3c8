"""Counts the damaged inputs that tests tried, by result; printed at the end of a run."""

from __future__ import annotations

from collections import Counter

TRIED: Counter[str] = Counter()


def tried(caught: BaseException | None) -> None:
    """Count one reading of a damaged log, by the error that ended it."""
    TRIED["read to the end" if caught is None else type(caught).__name__] += 1


def summary() -> str:
    """One line."""
    outcomes = ", ".join(f"{name} {count:,}" for name, count in TRIED.most_common())
    return f"damaged inputs read: {TRIED.total():,} ({outcomes})"
