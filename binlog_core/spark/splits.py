"""Splits: the units of work that a directory of logs is cut into; see ``binlog_core.splits``."""

from __future__ import annotations

from ..splits import (
    DEFAULT_SPLIT_SIZE,
    FILE_NUMBER_SHIFT,
    Logs,
    Split,
    check_seams,
    plan_splits,
    trust_split,
    trust_splits,
)

__all__ = [
    "DEFAULT_SPLIT_SIZE",
    "FILE_NUMBER_SHIFT",
    "Logs",
    "Split",
    "check_seams",
    "plan_splits",
    "trust_split",
    "trust_splits",
]
