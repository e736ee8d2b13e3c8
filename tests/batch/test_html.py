"""Batches as tables for notebooks."""

from __future__ import annotations

import pytest
from support.orders import orders

from binlog_core.log.batches import Batches

pytestmark = pytest.mark.sanitize


def test_batches_and_batch_as_html():
    batch = orders([b"<b>", None] + [b"x" * 200] * 10)
    shown = batch._repr_html_()
    assert "&lt;b&gt;" in shown and "<b>" not in shown
    assert "<i>NULL</i>" in shown and "x" * 80 + "…" in shown
    assert "<small>2 more</small>" in shown
    batches = Batches(lambda: iter([batch]), "shop.<orders>")
    assert repr(batches) == "<Batches of shop.<orders>: not read yet>"
    assert "shop.&lt;orders&gt;" in batches._repr_html_()
    next(batches)
    assert "partly read" in repr(batches)
    list(batches)
    assert "read to the end" in repr(batches)
