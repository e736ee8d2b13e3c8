"""Which tables a change of settings has copied again, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

from binlog_core import MirrorError
from binlog_core.lake.plan.definitions import to_text
from binlog_core.mirror.columns import ColumnSettings
from binlog_core.mirror.settings import choose, settle
from binlog_core.mirror.state import MirrorState, Stage, StateTexts, TableState
from binlog_core.schema.ddl import DdlTracker
from binlog_core.schema.given import parse_create_table

KEY = b"0123456789abcdef"
T = parse_create_table("CREATE TABLE t (id INT PRIMARY KEY, mail TEXT, n INT)", "shop", "t")


def copied(settings: ColumnSettings, stage: Stage = "following") -> MirrorState:
    """A mirror of one table that was copied with some settings."""
    state = MirrorState("id", "mysql://db1", ("shop.*",), "archive")
    state.exclude_columns, state.mask_columns = settings.exclude, settings.mask
    state.where = dict(settings.where)
    state.offsets[7] = {"definitions": to_text(DdlTracker([T]))}
    one = state.tables["shop.t"] = TableState("shop", "t", stage, 7)
    one.note_rules(settings.rules(T))
    return MirrorState.of_json(json.loads(state.to_json(StateTexts(), 0.0)))


@pytest.mark.parametrize(
    ("before", "after", "again"),
    [
        ({}, {}, False),
        ({}, {"exclude": ("shop.t.mail",)}, True),
        ({}, {"exclude": ("shop.t.none",)}, True),  # it is parked for that
        ({}, {"exclude": ("shop.t.x*", "other.*.mail")}, False),
        ({"exclude": ("shop.t.mail",)}, {"exclude": ("*.*.MAIL",)}, False),
        ({"exclude": ("shop.t.mail",)}, {"mask": ("shop.t.mail",), "key": KEY}, True),
        ({"mask": ("shop.t.mail",), "key": KEY}, {"mask": ("shop.*.mai?",), "key": KEY}, False),
        ({"mask": ("shop.t.mail",), "key": KEY}, {}, True),
        ({}, {"bigints": True}, False),  # it has no such column
        ({"bigints": True, "exclude": ("shop.t.n",)}, {"bigints": True}, True),
        ({"mask": ("shop.t.x*",), "key": KEY}, {"mask": ("shop.t.x*",), "key": KEY[::-1]}, False),
        ({}, {"where": {"shop.*": "n > 1"}}, True),
        ({"where": {"shop.t": "n > 1"}}, {"where": {"other.t": "n > 2", "*.t": "n > 1"}}, False),
        ({"where": {"shop.t": "n > 1"}}, {"where": {"shop.t": "n > 2"}}, True),
        ({"where": {"shop.t": "n > 1"}}, {}, True),
    ],
)
@pytest.mark.parametrize("stage", ["following", "paused"])
def test_a_table_is_copied_again_where_its_columns_change(
    before: dict[str, Any], after: dict[str, Any], again: bool, stage: Stage
) -> None:
    state = copied(ColumnSettings(**before))
    one = state.tables["shop.t"]
    if stage == "paused":
        one.pause()
    settle(state, ColumnSettings(**after))
    if stage == "paused":
        assert one.stage == "paused"
        one.resume()
    assert one.stage == ("copying" if again else "following")
    assert again or one.rules.patterns == ColumnSettings(**after).about("shop.t")
    assert state.exclude_columns == after.get("exclude", ())


def test_another_key_is_refused_until_the_table_is_copied_again() -> None:
    settings = ColumnSettings((), ("shop.t.mail",), KEY)
    state, other = copied(settings), ColumnSettings((), ("*.t.mail",), b"another key, also long")
    for _ in range(2):
        with pytest.raises(MirrorError, match=r"not that of the hashes in shop\.t"):
            settle(state, ColumnSettings((), settings.mask, other.key))
        with pytest.raises(MirrorError, match=r"not that of the hashes in shop\.t"):
            settle(state, other)
    state.tables["shop.t"].copy_anew()
    settle(state, other)


def test_a_copy_that_was_begun_otherwise_begins_again() -> None:
    for copy, again in (({"id": "c"}, True), ({"id": "c", "columns": {}}, True)):
        state = copied(ColumnSettings(), "copying")
        state.tables["shop.t"].copy = copy
        settle(state, ColumnSettings())
        assert state.tables["shop.t"].copy == copy
        settle(state, ColumnSettings(("shop.t.mail",)))
        assert (state.tables["shop.t"].copy is None) is again


def test_a_parked_table_is_tried_again_when_its_settings_change() -> None:
    state = copied(ColumnSettings(("shop.t.m*",)), "parked")
    settle(state, ColumnSettings(("shop.t.m*",)))
    assert state.tables["shop.t"].stage == "parked"
    settle(state, ColumnSettings())
    assert state.tables["shop.t"].stage == "copying"


def test_a_run_without_tables_goes_on_with_those_of_the_last() -> None:
    state = copied(ColumnSettings())
    assert choose(state, ("shop.*",), ()) is None
    assert choose(state, (), ()) is None
    said = choose(state, ("shop.*", "hr.p"), ("shop.tmp_*",))
    assert said == "the mirror's tables were shop.*, and are shop.*, hr.p without shop.tmp_* now"
    assert choose(state, (), ()) is None
    assert (state.patterns, state.exclude_tables) == (("shop.*", "hr.p"), ("shop.tmp_*",))
    choose(state, (), ("shop.t",))
    assert (state.patterns, state.exclude_tables) == (("shop.*", "hr.p"), ("shop.t",))
    choose(state, ("shop.*",), ())
    assert (state.patterns, state.exclude_tables) == (("shop.*",), ())
    new = MirrorState("id", "mysql://db1", ("shop.*",), "archive")
    assert choose(new, ("shop.*",), ("shop.t",)) is None
    assert new.exclude_tables == ("shop.t",)
