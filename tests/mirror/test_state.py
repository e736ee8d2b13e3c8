"""The state of a mirror: stored and loaded, and refused where it is not valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from binlog_core.errors import MirrorError
from binlog_core.mirror.columns import ColumnRules
from binlog_core.mirror.copying import _note_healed
from binlog_core.mirror.lake import Lake, opened
from binlog_core.mirror.state import TableState, new_state

DEEP = "[" * 200_000


@pytest.mark.parametrize("text", [DEEP, "nothing", "5", "[]", "{}"])
def test_a_state_of_a_mirror_that_is_not_one_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "_mirror").mkdir()
    (tmp_path / "_mirror" / "state.json").write_text(text)
    with pytest.raises(MirrorError, match="state cannot be read"):
        Lake(str(tmp_path)).load()


def test_a_state_longer_than_any_of_ours_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "_mirror").mkdir()
    with (tmp_path / "_mirror" / "state.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(MirrorError, match="bytes long"):
        Lake(str(tmp_path)).load()


def test_a_state_is_kept_without_offsets_that_no_table_is_at(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert lake.load() is None
    state = new_state("mysql://root@db1", ("shop.*", "other.t"), "archive")
    state.exclude_tables = ("shop.tmp_*",)
    table = TableState("shop", "t", "following", 120, as_of=5.5)
    state.tables[table.full_name] = table
    state.offsets = {120: {"file": "bin.000001", "position": 120}, 4: {"file": "bin.000001", "position": 4}}
    lake.save(state)
    found = opened(lake)
    assert found == replace(state, offsets={120: state.offsets[120]})
    assert [path.name for path in (tmp_path / "_mirror").iterdir()] == ["state.json"]
    table.park("a row")
    table.failures = 2
    table.copy_anew()
    assert (table.stage, table.reason, table.failures, table.place) == ("copying", None, 0, 120)


def test_a_table_is_saved_as_it_is_now_not_as_it_was(tmp_path: Path) -> None:
    """The text of a table that has not changed is kept from save to save."""
    lake, state = Lake(str(tmp_path)), new_state("mysql://db1", ("shop.*",), "archive")
    one, other = state.begin("shop", "t"), state.begin("shop", "`t`.é")
    state.offsets = {place: {"file": "bin.000001", "position": place} for place in (4, 120, 150)}

    def healed() -> None:
        _note_healed(one, 10.0, 5)

    changes: list[Callable[[], object]] = [
        lambda: vars(one).update(stage="following", place=4, as_of=1.5, history=4),
        lambda: vars(one).update(place=120, as_of=1e17, history=None),
        lambda: vars(other).update(place=150, copy={"id": "a", "chunks": ["x < 1"]}),
        other.end_copy,
        lambda: vars(other).update(copy={"id": "b", "chunks": []}),
        lambda: other.copy_anew("the log does not show it"),
        lambda: one.note_rules(ColumnRules(lacks=("mail",), patterns=(("shop.t.mail",), ()))),
        one.forget_rules,
        healed,
        healed,
        lambda: one.park("full", again=True),
        one.try_again,
        one.pause,
        one.resume,
        lambda: vars(one).update(failures=1, unlogged=["c"], renamed=["x", "y"], suspect="s", gone=True),
        lambda: vars(one).update(failures=0, unlogged=[], compacted=2.5, proved=3.5, exact_from=7),
    ]
    for change in changes:
        change()
        lake.save(state)
        found = lake.load()
        assert found is not None
        assert [_plain(each) for each in found.tables.values()] == [_plain(each) for each in (one, other)]


def _plain(table: TableState) -> Any:
    return json.loads(json.dumps(asdict(table)))


def test_a_round_that_began_is_found_until_the_state_is_saved_again(tmp_path: Path) -> None:
    """It is saved alone: of thousands of tables, most have no change in it."""
    lake, state = Lake(str(tmp_path)), new_state("mysql://db1", ("shop.*",), "archive")
    lake.save(state)
    state.round = {"start": {"file": "bin.000001", "position": 4}, "end": {}, "tables": ["shop.t"]}
    lake.begin_round(state)
    began = (tmp_path / "_mirror" / "round.json").read_bytes()
    found = opened(Lake(str(tmp_path)))
    assert found.round == state.round
    again = Lake(str(tmp_path))
    found = opened(again)
    lake = again
    lake.begin_round(found)  # of a process that goes on with it
    assert opened(Lake(str(tmp_path))).round == state.round
    lake.save(replace(found, round=None))
    assert opened(Lake(str(tmp_path))).round is None
    (tmp_path / "_mirror" / "round.json").write_bytes(began)
    assert opened(Lake(str(tmp_path))).round is None, "of an earlier state"


@pytest.mark.parametrize("text", [DEEP, "nothing", "5", "[]", "{}"])
def test_a_round_that_is_not_one_is_an_error_that_names_its_file(text: str, tmp_path: Path) -> None:
    Lake(str(tmp_path)).save(new_state("mysql://db1", ("shop.*",), "archive"))
    (tmp_path / "_mirror" / "round.json").write_text(text)
    with pytest.raises(MirrorError, match=r"state cannot be read.*round\.json") as found:
        Lake(str(tmp_path)).load()
    assert found.value.path == str(tmp_path / "_mirror" / "round.json")


def test_secrets_of_a_catalog_are_not_kept(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    lake = Lake(str(tmp_path))
    state = new_state("mysql://root@db1", ("shop.*",), "archive")
    with pytest.raises(ValueError, match="only with format='iceberg'"):
        lake.use(state, {"type": "sql"})
    state.format = "iceberg"
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake.use(
        state, {"name": "prod", "type": "sql", "uri": uri, "token": "sEcReT", "s3.secret-access-key": "x"}
    )
    lake.save(state)
    assert opened(lake).catalog == {"name": "prod", "type": "sql", "uri": uri}
    assert b"sEcReT" not in (tmp_path / "_mirror" / "state.json").read_bytes()


def test_which_tables_are_meant() -> None:
    state = new_state("mysql://root@db1", ("shop.*",), "archive")
    state.tables = {f"shop.{name}": TableState("shop", name) for name in ("a", "ab", "b")}
    assert [state.wants(name) for name in ("shop.a", "other.a")] == [True, False]
    state.exclude_tables = ("shop.a?", "*.b")
    assert [state.wants(name) for name in ("shop.a", "shop.ab", "shop.b")] == [True, False, False]
    state.exclude_tables = ()
    assert [one.name for one in state.chosen(())] == ["a", "ab", "b"]
    assert [one.name for one in state.chosen(("shop.a*",))] == ["a", "ab"]
    with pytest.raises(MirrorError, match=r"has no table shop\.c"):
        state.chosen(("shop.c",))
    with pytest.raises(ValueError, match="expected names or patterns"):
        new_state("mysql://root@db1", (), "archive")
