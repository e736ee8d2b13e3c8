"""The options of reading logs: every way in to which they are given has what the one table says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import binlog_core
from binlog_core._base.options import OPTIONS
from binlog_core.cli import app
from binlog_core.index import index
from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.lake.rows.reader import read_split
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.log.options import OpenOptions
from binlog_core.mirror import mirror

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
OF_THE_LAKE = {"images", "unnamed", "text_errors", "xa", "deletes", "file_size"}  # not options of `open`
ELSEWHERE = {  # other options of these names: the name of a log, and conditions by tables
    ("archive", "--start"),
    ("mirror run", "--where"),
}
OTHERWISE = {  # by intention: what each has instead
    ("SourceOptions", "on_error"): ("raise", "skip", "rows"),
    ("export", "images"): ("both", "after"),
}


def commands() -> dict[str, Any]:
    """All commands by their names, those within others too."""
    found = {name: app.command(name) for name in app.COMMANDS}
    inside = {f"{name} {of}": one for name, it in found.items() for of, one in _inside(it).items()}
    return {name: one for name, one in (found | inside).items() if not _inside(one)}


def _inside(command: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(command, "commands", {})
    return found


def parameters() -> Iterator[tuple[str, Any]]:
    """The options of each command, without its arguments."""
    for name, command in commands().items():
        for one in command.params:
            if one.param_type_name == "option":
                yield name, one


def test_open_has_the_options_of_the_table_with_their_defaults() -> None:
    given = inspect.signature(binlog_core.open).parameters
    assert given.keys() - {"target"} == OPTIONS.keys() - OF_THE_LAKE == OpenOptions.__annotations__.keys()
    assert {name: given[name].default for name in given if name in OPTIONS} == {
        name: one.default for name, one in OPTIONS.items() if name not in OF_THE_LAKE
    }


@pytest.mark.parametrize("function", [read_split, index, mirror])
def test_functions_have_the_same_defaults(function: Callable[..., Any]) -> None:
    given = {
        name: one.default
        for name, one in inspect.signature(function).parameters.items()
        if name in OPTIONS.keys() - {"exclude_tables", "limits"}  # empty ones, where others have None
        and one.default is not inspect.Parameter.empty
    }
    assert given
    assert given == {name: OPTIONS[name].default for name in given}


@pytest.mark.parametrize("kind", [ReadOptions, SourceOptions])
def test_fields_have_the_same_defaults_and_values(kind: type) -> None:
    shared = {one.name: one for one in fields(kind) if one.name in OPTIONS and one.default is not MISSING}
    assert len(shared) >= 12
    assert {name: one.default for name, one in shared.items()} == {
        name: OPTIONS[name].default for name in shared
    }
    few = {name: one.metadata["values"] for name, one in shared.items() if "values" in one.metadata}
    assert few.keys() >= {"images", "unnamed", "text_errors", "on_error"}
    assert few == {name: OTHERWISE.get((kind.__name__, name), get_args(OPTIONS[name].values)) for name in few}


def test_commands_have_the_table_s_texts_values_and_defaults() -> None:
    by_flag = {one.flags[0]: (name, one) for name, one in OPTIONS.items() if one.flags}
    seen = set()
    for command, one in parameters():
        for flag in one.opts:
            if flag not in by_flag or (command, flag) in ELSEWHERE:
                continue
            name, option = by_flag[flag]
            seen.add(name)
            assert one.help.startswith(option.text), (command, flag)
            assert tuple(one.opts) == option.flags, (command, flag)
            choices = get_args(one.type_descriptor.annotation)
            if isinstance(option.default, str):
                values = get_args(option.values)
                few = values if len(values) > 1 else ()  # others take any text
                assert choices == OTHERWISE.get((command, name), few)
                assert one.default == option.default
            elif isinstance(option.default, bool):
                assert one.default is False
                assert flag.startswith("--no-") is option.default
            else:
                assert one.default is None
    assert seen == {name for name, one in OPTIONS.items() if one.flags}


def test_the_page_has_each_option_that_several_commands_share() -> None:
    text = PAGE.read_text("utf-8")
    [table] = re.findall(r"^\| option \| \|\n((?:\|.*\n)+)", text, re.MULTILINE)
    told = {flag for row in table.splitlines() for flag in re.findall(r"`(--[a-z-]+)", row.split(" | ")[0])}
    known = {flag for _, one in parameters() for flag in one.opts}
    assert told <= known
    shared = {one.flags[0] for name, one in OPTIONS.items() if one.flags and name not in OF_THE_LAKE}
    assert shared <= told


def test_a_literal_of_the_table_is_that_of_the_function() -> None:
    """Types that only checkers read would drift unseen."""
    hints = get_type_hints(read_split, vars(inspect.getmodule(read_split)))
    for name in ("images", "unnamed", "text_errors", "on_error"):
        assert get_args(hints[name]) == get_args(OPTIONS[name].values)
