"""A mirror's own data in the lake: its server, its tables, and the position of each."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

from .._base.options import Deletes
from .._decode.selection import is_wanted_name
from .._tables.full_names import full_name
from ..errors import MirrorError
from .columns import EVERY_COLUMN, ColumnRules, ColumnSettings
from .renaming import Names, renamed

_FORMAT = 1
HEAL = 10e9  # bytes
FORMATS = ("delta", "iceberg")
GTIDS = "gtids"  # in an offset

Stage = Literal["copying", "following", "parked", "paused", "dropped"]
Offset = dict[str, Any]


@dataclass
class TableState:
    """How far a table has come. What it refers to is replaced, never changed: see `StateTexts`.

    Parameters
    ----------
    database, name : str
        The names of the database and the table.
    stage : "copying", "following", "parked", "paused" or "dropped"
        Its first copy is not complete; it is kept up to date; it stopped for a reason; somebody stopped it;
        the server dropped it.
    place : int or None
        The place in the log up to which it has everything (file number * 2**40 + offset): a key of
        `MirrorState.offsets`.
    exact_from : int
        From this place on it is as it was on the server. Before it, a statement that changes its columns
        leads to a new copy.
    reason : str or None
        Why it stopped.
    failures : int
        How often in a row it could not be written.
    copy : dict or None
        The fields of the copy that is being made: see `copies.Copy`.
    keyless : bool
        Whether it has no key, so that it is copied again after changes.
    as_of : float or None
        It has everything that the server had committed by then, in seconds since 1970 UTC.
    history : int or None
        The place up to which its history has everything; if it is not `place`, the history has a gap.
    again : str or None
        For a parked table, the stage in which it is tried again; None if it is not. For a paused one, the
        stage in which it goes on.
    compacted : float
        When it was last checked for small files, in seconds since 1970 UTC.
    committed : int or None
        The place of its last commit in the lake, by which one that was removed or put back is noticed.
    left : list of str
        The ids of ended copies that may have left files behind.
    gone : bool
        Whether the log shows that it was dropped or renamed, after its last copy.
    suspect : str or None
        Why it may lack changes since its last copy, although it is followed.
    unlogged : list of str
        The names of its columns that are left out, and null, because the server does not log their changes.
    columns : dict
        What became of its columns in its last copy: the fields of `columns.ColumnRules`.
    had : dict
        The same, if `columns` was forgotten since.
    renamed : list of str
        The names of database and table in the lake, if they are others.
    healing : str or None
        Why it is to be copied again by itself: the log does not show all of its changes.
    proved : float or None
        When it was last compared with the server's and equal, in seconds since 1970 UTC; None: not since its
        last copy.
    healed : list of (float, int)
        When that was done before, in seconds since 1970 UTC, and the bytes of the copies.
    """

    database: str
    name: str
    stage: Stage = "copying"
    place: int | None = None
    exact_from: int = 0
    reason: str | None = None
    failures: int = 0
    copy: Mapping[str, Any] | None = None
    keyless: bool = False
    as_of: float | None = None
    history: int | None = None
    again: Stage | None = None
    compacted: float = 0.0
    committed: int | None = None
    left: Sequence[str] = ()
    gone: bool = False
    suspect: str | None = None
    unlogged: Sequence[str] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    had: Mapping[str, Any] = field(default_factory=dict)
    renamed: Sequence[str] = ()
    healing: str | None = None
    proved: float | None = None
    healed: Sequence[tuple[float, float]] = ()

    @property
    def names(self) -> Names:
        """The names of database and table in the lake."""
        database, name = self.renamed or (self.database, self.name)
        return database, name

    @property
    def rules(self) -> ColumnRules:
        """What becomes of its columns."""
        return ColumnRules.of_json(self.columns)

    @property
    def lake_rules(self) -> ColumnRules:
        """What became of the columns that the lake has."""
        return ColumnRules.of_json(self.columns or self.had)

    @property
    def newest_rules(self) -> ColumnRules:
        """The same in the copy that is being made, if there is one."""
        return self.rules if self.copy is None else ColumnRules.of_json(self.copy.get("columns", {}))

    def note_rules(self, rules: ColumnRules) -> None:
        """Note what becomes of its columns."""
        self.columns, self.had = {} if rules == EVERY_COLUMN else asdict(rules), {}

    def forget_rules(self) -> None:
        """Forget what became of its columns, which may be gone; the lake has them until the next copy."""
        self.columns, self.had = {}, self.columns or self.had

    @cached_property
    def full_name(self) -> str:
        """``database.table``."""
        return full_name(self.database, self.name)

    def park(self, reason: str, *, again: bool = False) -> None:
        """Stop this table while the others continue; `again`: try it again later."""
        self.again = self.stage if again else None
        self.stage, self.reason = "parked", reason

    def try_again(self) -> None:
        """Continue a parked table if it is to be tried again."""
        if self.stage == "parked" and self.again is not None:
            self.stage, self.again, self.failures = self.again, None, 0
            self.reason = self.healing if self.stage == "copying" else None

    def pause(self) -> None:
        """Stop it until `resume`; a table that stopped for good, or that the server dropped, stays so."""
        going_on = self.again if self.stage == "parked" else self.stage
        if going_on in ("copying", "following"):
            self.stage, self.again, self.reason = "paused", going_on, None

    def resume(self) -> None:
        """Continue a paused table from where it stopped."""
        if self.stage == "paused" and self.again is not None:
            self.stage, self.again, self.failures = self.again, None, 0

    def copy_anew(self, healing: str | None = None) -> None:
        """Have it copied from the beginning; `healing`: why, if nobody asked for it."""
        self.end_copy()
        self.stage, self.reason, self.failures = "copying", healing, 0
        self.healing = None if self.place is None else healing

    def end_copy(self) -> None:
        """End the copy that is being made; its files are still to be removed."""
        if self.copy is not None:
            self.left = (*self.left, self.copy["id"])
        self.copy = None


_FRESH = dict(vars(TableState("", "")))
_MOVING = ("place", "as_of", "history")  # in each round, also where no row changes
_of_still, _of_moving = itemgetter(*(set(_FRESH) - {*_MOVING})), itemgetter(*_MOVING)


class StateTexts:
    """The texts of tables as they were saved last: all are saved in each round, and few have changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[Any, ...], str]] = {}

    def of(self, table: TableState) -> str:
        """A table as JSON, without what is as in a new one."""
        fields = vars(table)
        still, known = _of_still(fields), self._known.get(table.full_name)
        if known is None or known[0] != still:
            kept = {
                name: fields[name]
                for name, fresh in _FRESH.items()
                if name not in _MOVING and fields[name] != fresh
            }
            known = self._known[table.full_name] = still, json.dumps(kept)[:-1]
        moving = zip(_MOVING, _of_moving(fields), strict=True)
        return known[1] + "".join([f', "{name}": {at!r}' for name, at in moving if at is not None]) + "}"


@dataclass
class MirrorState:
    """What is kept between two runs.

    Parameters
    ----------
    id : str
        The mirror's id in the tables' commits.
    server : str
        The server's address, with the user and without a password.
    patterns : tuple of str
        The names and patterns of the tables.
    archive : str
        The directory or URL of the archive of the server's logs.
    format : "delta" or "iceberg"
        The format of the tables.
    catalog : dict of str to str
        Properties of Iceberg's catalog that are not secret.
    tables : dict of str to TableState
        The tables, by ``database.table``.
    offsets : dict of int to dict
        What is known about the logs at the tables' places: definitions, open XA transactions, GTIDs.
    round : dict or None
        The part of the log that is being applied. If it is interrupted, exactly this part is repeated.
    history : bool
        Whether all versions of rows are kept too.
    exclude_tables : tuple of str
        The names and patterns of tables that are left out, although a pattern names them.
    amended : tuple of (str, bool)
        Names and patterns that were added (True) or dropped since, at any run: the last that matches decides.
    paused : bool
        Whether all tables are paused, also those that come.
    exclude_columns, mask_columns : tuple of str
        The names and patterns of columns that are left out, and of those that are hashed.
    bigints : bool
        Whether the lake has BIGINT UNSIGNED as BIGINT.
    metadata : tuple of str
        Which columns about the last change of a row it has.
    where : dict of str to str
        Conditions of the rows that the lake has, by names and patterns of tables.
    partition : dict of str to str
        Partitions of files, in the same way.
    soft : tuple of str
        Names and patterns of tables whose deleted rows stay.
    rename : dict of str to str
        New names for tables in the lake: see `renaming`.
    deletes : "copy" or "vectors"
        Whether files whose rows change are written again, or get deletion vectors.
    heal : float
        The most bytes that are copied again by itself for a table in a day.
    behind : dict of str to str
        The tables that are no longer wanted, by the names that they have in the lake, where they stay.
    """

    id: str
    server: str
    patterns: tuple[str, ...]
    archive: str
    format: str = "delta"
    catalog: dict[str, str] = field(default_factory=dict)
    tables: dict[str, TableState] = field(default_factory=dict)
    offsets: dict[int, Offset] = field(default_factory=dict)
    round: dict[str, Any] | None = None
    history: bool = False
    exclude_tables: tuple[str, ...] = ()
    amended: tuple[tuple[str, bool], ...] = ()
    paused: bool = False
    exclude_columns: tuple[str, ...] = ()
    mask_columns: tuple[str, ...] = ()
    bigints: bool = False
    metadata: tuple[str, ...] = ()
    where: dict[str, str] = field(default_factory=dict)
    partition: dict[str, str] = field(default_factory=dict)
    soft: tuple[str, ...] = ()
    rename: dict[str, str] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)
    deletes: Deletes = "copy"
    heal: float = HEAL

    @property
    def has_copies(self) -> bool:
        """Whether the copy of a table was made, or begun."""
        return any(one.place is not None or one.copy is not None for one in self.tables.values())

    def wants(self, table: str) -> bool:
        """Whether a table is to be mirrored."""
        for pattern, wanted in reversed(self.amended):
            if is_wanted_name(table, (pattern,), None):
                return wanted
        return is_wanted_name(table, self.patterns, self.exclude_tables)

    def amend(self, pattern: str, *, wanted: bool) -> None:
        """Want some tables from now on, or do not want them any more, whatever `patterns` say."""
        self.amended = (*(one for one in self.amended if one[0] != pattern), (pattern, wanted))

    def column_settings(self, key: bytes | None) -> ColumnSettings:
        """Which columns are left out or masked, or have another type, and which are added.

        Raises
        ------
        MirrorError
            The key is missing or short.
        """
        try:
            return ColumnSettings(
                exclude=self.exclude_columns,
                mask=self.mask_columns,
                key=key,
                bigints=self.bigints,
                metadata=self.metadata,
                where=self.where,
                partition=self.partition,
                derives=self.format == "delta",
                soft=self.soft,
            )
        except ValueError as error:
            raise MirrorError(str(error)) from None

    def by_names(self) -> dict[Names, list[str]]:
        """The tables by the names that they have in the lake; none if all have their own."""
        found: dict[Names, list[str]] = {}
        for one in self.tables.values() if self.rename else ():
            found.setdefault(one.names, []).append(one.full_name)
        return found

    def begin(self, database: str, table: str) -> TableState:
        """A table that was not known."""
        one = TableState(database, table)
        if (names := renamed(database, table, self.rename)) != (database, table):
            one.renamed = [*names]
        self.tables[one.full_name] = one
        return one

    def leave_unwanted(self) -> list[TableState]:
        """Forget the tables that are no longer wanted, and return them; in the lake they stay as they are."""
        left = [self.tables.pop(name) for name in [*self.tables] if not self.wants(name)]
        self.behind |= {full_name(*one.names): one.full_name for one in left if one.place is not None}
        return left

    def chosen(self, tables: tuple[str, ...]) -> list[TableState]:
        """The tables with some names or patterns; all if none is given.

        Raises
        ------
        MirrorError
            No table matches.
        """
        if not tables:
            return list(self.tables.values())
        found = [one for name, one in self.tables.items() if is_wanted_name(name, tables, None)]
        if not found:
            raise MirrorError(f"the mirror has no table {', '.join(tables)}")
        return found

    def to_json(self, texts: StateTexts, saved: float) -> str:
        """The form that is stored; offsets of no table are left out.

        `texts`: of the last time; `saved`: the time of this one.
        """
        used = {one.place for one in self.tables.values()}
        found = {**vars(self), "version": _FORMAT, "saved": saved}
        found["offsets"] = {str(place): one for place, one in self.offsets.items() if place in used}
        del found["tables"]
        tables = [f"{json.dumps(name)}: {texts.of(one)}" for name, one in self.tables.items()]
        return f'{json.dumps(found)[:-1]}, "tables": {{{", ".join(tables)}}}}}'

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> MirrorState:
        """The state from what `to_json` gave."""
        version = found.pop("version")
        if version != _FORMAT:
            raise ValueError(f"version {version}")
        del found["saved"]
        found["patterns"] = tuple(found["patterns"])
        for name in ("exclude_tables", "exclude_columns", "mask_columns", "metadata", "soft"):
            found[name] = tuple(found.get(name, ()))
        found["amended"] = tuple((pattern, wanted) for pattern, wanted in found.get("amended", ()))
        found["tables"] = {name: TableState(**one) for name, one in found["tables"].items()}
        found["offsets"] = {int(place): one for place, one in found["offsets"].items()}
        return cls(**found)


def new_state(server: str, patterns: tuple[str, ...], archive: str) -> MirrorState:
    """The state of a new mirror."""
    if not patterns:
        raise ValueError("tables=(): expected names or patterns of tables")
    return MirrorState(uuid.uuid4().hex, server, patterns, archive)
