"""Splits: the units of work that a directory of logs is cut into; see ``binlog_core.splits``."""

from __future__ import annotations

from ..splits import FILE_NUMBER_SHIFT, Logs, Split, plan_splits

__all__ = ["FILE_NUMBER_SHIFT", "Logs", "Split", "plan_splits"]
