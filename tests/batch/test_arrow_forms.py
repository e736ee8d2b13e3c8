"""What batches of one form share on their way to Arrow."""

from __future__ import annotations

from typing import Any

import pytest
from support.batches import make_batch
from support.orders import INT, TEXT
from support.writer import Log, Table

import binlog_core
from binlog_core.batch import arrow_forms as forms

pytestmark = pytest.mark.sanitize

COMMON: dict[str, Any] = {
    "vectors": "fixed",
    "wide_decimals": "decimal256",
    "geometry": "struct",
    "text": "string",
}


def test_batches_of_one_plan_share_a_form_and_options_do_not() -> None:
    log, table = Log("8.4.0"), Table("shop", "t", [("id", "INT")])
    for number in (1, 2):
        log.begin("shop")
        log.insert(table, [{"id": number}])
        log.commit()
    with binlog_core.open(log.getvalue(), limits=binlog_core.Limits(group_rows=1)) as opened:
        one, other = opened.batches()
    first = forms.form_of(one, one.columns, (), **COMMON)
    assert forms.form_of(other, other.columns, (), **COMMON) is first
    assert forms.form_of(one, one.columns, ("_row",), **COMMON) is not first
    assert forms.form_of(one, one.columns, (), **COMMON | {"geometry": "ewkb"}) is not first


def test_few_forms_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_forms", {})
    for number in range(3 * forms._MOST):
        batch = make_batch([INT, TEXT], [{"id": number, "note": b"x"}])
        form = forms.form_of(batch, batch.columns, ("_row",), **COMMON)
        assert form.names == {"id", "note"}
        assert [field.name for field in form.layout.fields] == ["id", "note", "_row"]
        assert len(forms._forms) <= forms._MOST


def test_the_default_form_is_not_for_batches_of_other_columns() -> None:
    log, table = Log("8.4.0"), Table("shop", "t", [("id", "INT"), ("n", "INT")])
    for number in (1, 2):
        log.begin("shop")
        log.insert(table, [{"id": number, "n": -number}])
        log.commit()
    with binlog_core.open(log.getvalue(), limits=binlog_core.Limits(group_rows=1)) as opened:
        one, other = opened.batches()
    assert one.to_arrow().column_names[:2] == ["id", "n"]
    other.columns = other.columns[1:]
    assert other.to_arrow().column_names[:2] == ["n", "_change_type"]
