"""Records which columns are decoded."""

from __future__ import annotations

from typing import Any

import pytest

from binlog_core.batches import Batches


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
