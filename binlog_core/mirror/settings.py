"""The settings of a run against those that a mirror's tables were copied with: what is copied again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache

from .._decode.selection import is_wanted_name
from .._tables.full_names import full_name
from ..errors import MirrorError, SchemaError
from ..lake.tables.partitions import parse_partition
from ..schema.ddl import DdlTracker
from .changes import definitions_at
from .columns import ColumnRules, ColumnSettings, Patterns, about_table, given_for, is_soft, patterns_of
from .renaming import renamed
from .state import MirrorState, TableState


def choose(state: MirrorState, tables: tuple[str, ...], excluded: tuple[str, ...]) -> str | None:
    """Note the names and patterns of a run, or go on with those of the last; how they differ, if they do."""
    before = state.patterns, state.exclude_tables
    state.patterns = tables or state.patterns
    state.exclude_tables = excluded if tables else excluded or state.exclude_tables
    after = state.patterns, state.exclude_tables
    if not state.tables or [*map(set, before)] == [*map(set, after)]:
        return None
    return f"the mirror's tables were {_chosen(*before)}, and are {_chosen(*after)} now"


def _chosen(patterns: tuple[str, ...], excluded: tuple[str, ...]) -> str:
    return ", ".join(patterns) + (f" without {', '.join(excluded)}" if excluded else "")


def rename(state: MirrorState, names: Mapping[str, str]) -> None:
    """Note new names of tables.

    Raises
    ------
    MirrorError
        A table is in the lake under another name than it would have.
    """
    for one in state.tables.values():
        new = renamed(one.database, one.name, names)
        if new == one.names or not state.wants(one.full_name):
            continue
        if one.place is not None or one.copy is not None:
            here, there = full_name(*one.names), full_name(*new)
            raise MirrorError(
                f"{one.full_name} is in the lake as {here}, and would be {there}: no table there is renamed."
                " Take it out (drop), run the mirror, and take it in again (add): it is then copied under"
                " the new name"
            )
        one.renamed = [*new] if new != (one.database, one.name) else []
    state.rename = dict(names)


def settle(state: MirrorState, settings: ColumnSettings) -> None:
    """Note settings, and have those tables copied again whose columns they leave out or mask otherwise.

    Raises
    ------
    MirrorError
        The key is not that of the hashes that a table has.
    """
    known = cache(lambda place: definitions_at(state.offsets[place]))  # read once for all tables there
    for one in state.tables.values():
        rows = _of_rows(one.full_name, settings)
        asked = settings.about(one.full_name), settings.bigints, settings.metadata, *rows
        about = about_table(one.full_name, state.exclude_columns, state.mask_columns)
        rows = _of_rows(one.full_name, state)
        before = about, state.bigints, state.metadata, *rows
        if one.copy is not None:
            begun = one.newest_rules
            if _asked(begun) != asked or begun.key not in ("", settings.mark):
                _copy_again(one)
        if one.stage == "parked" and before != asked:
            _copy_again(one)  # it may be what it was parked for
        elif one.place is not None and one.stage not in ("copying", "dropped"):
            if _asked(one.rules) != asked and not _stays(one, settings, known(one.place)):
                _copy_again(one)
            elif one.rules.masks and one.rules.key != settings.mark:
                raise MirrorError(
                    f"the key of mask_columns is not that of the hashes in {one.full_name}: give that key, or"
                    " copy all tables with masked columns again with the new one (resync)"
                )
    state.exclude_columns, state.mask_columns = settings.exclude, settings.mask
    state.bigints, state.metadata = settings.bigints, settings.metadata
    state.where, state.partition, state.soft = dict(settings.where), dict(settings.partition), settings.soft


def unused(state: MirrorState, settings: ColumnSettings) -> list[str]:
    """The patterns of columns and of tables with conditions that mean none, as far as that is known."""
    of_tables = (*settings.where, *settings.partition, *settings.soft)
    strange = [one for one in of_tables if not any(is_wanted_name(of, (one,), None) for of in state.tables)]
    left = dict.fromkeys((*settings.exclude, *settings.mask))
    for one in state.tables.values():
        if not left:  # as in most mirrors: this runs in every round
            break
        about = settings.about(one.full_name)
        if not any(about):
            continue
        rules = one.newest_rules
        meant = (*rules.lacks, *rules.masks)
        for pattern in [*left]:
            for column in patterns_of(one.full_name, (pattern,)):
                if rules.patterns != about or any(fnmatchcase(name, column) for name in meant):
                    del left[pattern]
    return [*left, *strange]


def _asked(rules: ColumnRules) -> tuple[Patterns, bool, tuple[str, ...], str, list[str], bool]:
    metadata, divided = (
        (name.lstrip("_") for name in rules.metadata),
        [str(one).lower() for one in rules.partition],
    )
    return rules.patterns, rules.bigints, tuple(metadata), rules.where, divided, rules.soft


def _of_rows(table: str, asked: ColumnSettings | MirrorState) -> tuple[str, list[str], bool]:
    """What is asked for a table's rows: their condition, their partition, and whether deleted ones stay."""
    text = given_for(table, asked.partition)
    divided = [str(one).lower() for one in parse_partition(text)] if text else []
    return given_for(table, asked.where), divided, is_soft(table, asked.soft)


def _copy_again(table: TableState) -> None:
    """Have a table copied again, once it goes on if it is paused."""
    paused = table.stage == "paused"
    table.copy_anew()
    if paused:
        table.pause()


def _stays(table: TableState, settings: ColumnSettings, known: DdlTracker) -> bool:
    """Whether other patterns mean the same columns of a table: then they are noted."""
    definition = known.definition(table.database, table.name)
    if definition is None:
        return False
    try:
        rules = settings.rules(definition)
    except SchemaError:  # a copy says it
        return False
    now = table.rules
    same = ("lacks", "masks", "longs", "where", "partition", "soft")
    if any(getattr(rules, name) != getattr(now, name) for name in same):
        return False
    if not {*now.metadata} <= {*rules.metadata}:  # a column more has nulls for what was before
        return False
    table.note_rules(replace(rules, key=table.rules.key))
    return True
