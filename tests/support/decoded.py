"""Records which columns are decoded, and by which conditions rows are chosen."""

from __future__ import annotations

from typing import Any

import pytest

from binlog_core import Log
from binlog_core.log.batches import Batches


def columns_decoded(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The columns that are decoded from here on."""
    found: set[str] = set()
    take = Batches.take

    def watched(self: Batches, prepared: Any) -> Any:
        for batch in take(self, prepared):
            found.update(column.name for column in batch.columns)
            yield batch

    monkeypatch.setattr(Batches, "take", watched)
    return found


def conditions_asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The ``where`` of each call of ``Log.batches`` from here on."""
    asked: list[Any] = []
    batches = Log.batches

    def watched(self: Log, *given: Any, **options: Any) -> Any:
        asked.append(options.get("where"))
        return batches(self, *given, **options)

    monkeypatch.setattr(Log, "batches", watched)
    return asked
