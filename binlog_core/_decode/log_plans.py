"""The plans of one log's tables, as its decoding loop numbers them, and reports about tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._core import _rows
from .._core._rows import Definition, Wishes
from .._format.event_types import EventType
from .._tables.column_types import OLD_TEMPORAL_TYPES
from .._tables.table_map import TableMaps
from .._tables.tables import Table
from ..batch.subsets import only, with_columns
from ..errors import BinlogError, ChecksumError, ConditionError, DecodeError
from .plans import Plan, Plans

if TYPE_CHECKING:
    from ..batch.change_batch import ChangeBatch
    from ..conditions.language import Condition
    from ..conditions.pushed import PushedFilters
    from ..limits import Limits
    from .context import Context

_OF_ONE_TRANSACTION = 16  # times Limits.table_definitions, but no more than …
_MOST = 65536  # … unless the limit itself is larger

_What = tuple[str, str | None, str | None]  # kind in the report, column, detail


def definitions_of_transaction(limits: Limits) -> int:
    """The limit of definitions in one transaction, by weight."""
    kept = limits.table_definitions
    return max(kept, min(_OF_ONE_TRANSACTION * kept, _MOST))


class Known:
    """Definitions made from table maps, shared by the loops of all threads that read one log.

    Parameters
    ----------
    where : Condition, PushedFilters or None
    """

    def __init__(self, where: Condition | PushedFilters | None = None) -> None:
        self.plans = Plans(where)
        self.table_maps = TableMaps()
        self.wishes = Wishes()


class LogPlans:
    """Makes the plans that a loop asks for.

    Parameters
    ----------
    context : Context
    known : Known
        Shared definitions of the log.

    Attributes
    ----------
    repeats : bool
        Whether the transaction is in an earlier log of the archive. Given definitions may be too new for it.
    are_of_repeated : bool
        Whether there are plans of such a transaction's table maps: they step over rows that others also have.
    """

    def __init__(self, context: Context, known: Known) -> None:
        track, self._loop, self._selection = context.track, context.loop, context.selection
        self._path, self._limits, self._report = track.path, track.limits, track.report
        self._definitions, self._skip_errors = context.definitions, track.skip_errors
        # Tables of one shape share a plan, unless something depends on their names.
        tables, columns = self._selection.tables, self._selection.columns
        self._shared = self._definitions is None and tables is None and all(p == "*" for p in columns)
        self._known = known
        self.repeats = self.are_of_repeated = False
        self._filtered: dict[int, Plan] = {}  # those with a condition, by the identity of their columns
        self._indexes: dict[int, tuple[Plan, int]] = {}  # of a plan in the loop, by its id
        self._skipped: int | None = None  # index of the plan of rows that are stepped over
        self._silent: dict[int, _Silence] = {}  # by shape: what is reported of each of its definitions

    def has_room(self) -> bool:
        """Whether the definition that the loop asks for may be added, or all must be dropped first.

        Definitions in use come back with their next table map.

        Raises
        ------
        DecodeError
            One transaction has too many definitions.
        """
        loop = self._loop
        if loop.has_room:
            return True
        # Between transactions no table id is needed any more; inside one it may be.
        if loop.table_maps <= 1:
            return False
        raise DecodeError(
            f"more than {loop.definition_count} table definitions in one transaction: "
            f"Limits.table_definitions={self._limits.table_definitions}",
            path=self._path,
            offset=int(loop.event_position),
            type_code=EventType.TABLE_MAP,
        )

    def clear(self) -> None:
        """Drop all plans. The group must have been taken."""
        self.count_silence()
        self._loop.drop_plans()
        self._known = Known(self._selection.where)  # others still share it
        self._filtered.clear()
        self._indexes.clear()
        self._skipped = None
        self._silent.clear()
        self.are_of_repeated = False

    def add(self, *, mariadb: bool) -> None:
        """Add the definition that the loop asks for."""
        loop, offset = self._loop, self._loop.event_position
        flags, body = loop.table_map()
        try:
            shape, names = self._known.table_maps.shape_of(body, flags=flags, mariadb=mariadb)
        except BinlogError as error:
            if not self._skip_errors:
                raise error.located(path=self._path, offset=offset, type_code=19) from None
            self._report.add("skipped_events", path=self._path, offset=offset, detail=str(error))
            self._add_skipped()
            return
        table = shape.table_of(names)
        rest = body[len(names) :], flags
        told = _Silence(rest, [("metadata_misfits", None, note) for note in shape.notes])
        self._report_silence(told, table, offset, names)
        of_repeated = self.repeats and self._definitions is not None
        self.are_of_repeated |= of_repeated
        if of_repeated or not self._selection.wants_table(table):
            self._add_skipped()
            return
        if self._definitions is not None:
            table = self._definitions.complete(table, self._report, path=self._path, offset=offset)
        if self._selection.table_maps is not None:
            self._selection.table_maps[id(table)] = table, flags, bytes(body)
        try:
            plan = self._known.plans.plan_of(table, self._selection.wanted_columns(table))
        except ConditionError as error:
            self._selection.met.unfit(table.full_name, error)
            if table.undecodable is not None:  # its rows may match
                self._report_silence(_Silence(rest, _silence_of(table)), table, offset, names)
            self._add_skipped()
            return
        if plan.condition is not None:
            self._selection.met.fits(table)
            if plan.scan is None:
                self._filtered[id(plan.columns)] = plan
        silence = _Silence(rest, _silence_of(table, plan.silence))
        self._report_silence(silence, table, offset, names)
        index = loop.add_definition(
            self._index_of(plan), Definition(plan, shape, names, table), shared=self._shared
        )
        if self._shared and (told.what or silence.what):
            self._silent[index] = _Silence(rest, told.what + silence.what)

    def matching(self, batches: list[ChangeBatch]) -> list[ChangeBatch]:
        """The records of some batches that match the condition, with the wanted columns."""
        if not self._filtered:
            return batches
        left = [self._matching(batch, self._filtered.get(id(batch.columns))) for batch in batches]
        return [batch for batch in left if len(batch)]

    @staticmethod
    def _matching(batch: ChangeBatch, plan: Plan | None) -> ChangeBatch:
        if plan is None or plan.condition is None:
            return batch
        kept = plan.condition.kept(batch)
        batch = batch if kept.all() else only(batch, kept)
        return batch if plan.handed_over is None else with_columns(batch, plan.handed_over)

    def _index_of(self, plan: Plan) -> int:
        if (known := self._indexes.get(id(plan))) is None:
            scan, json_columns, nullable = plan.scan, plan.json_columns, plan.nullable
            index = self._loop.add_plan(
                plan.ops,
                image_len=plan.image_len,
                record_len=plan.dtype.itemsize,
                json_columns=json_columns,
                raw=plan.raw,
                nullable=nullable,
                compressed=plan.compressed,
                scan=None
                if scan is None
                else self._loop.add_plan(
                    scan.ops,
                    image_len=plan.image_len,
                    record_len=scan.dtype.itemsize,
                    json_columns=json_columns,
                    nullable=nullable,
                ),
                condition=None if scan is None else scan.condition,
            )
            known = self._indexes[id(plan)] = plan, index
        return known[1]

    def _add_skipped(self) -> None:
        """Skip the rows of this table."""
        if self._skipped is None:
            self._skipped = self._loop.add_plan(b"", image_len=0, record_len=0, wanted=False)
        self._loop.add_definition(self._skipped)

    def _report_silence(self, silence: _Silence, table: Table, offset: int, names: bytes) -> None:
        for kind, column, detail in silence.what:
            self._report.add_each(
                [(names, silence.rest)],
                kind,
                path=self._path,
                offset=offset,
                table=table.full_name,
                column=column,
                detail=detail,
            )

    def count_silence(self) -> None:
        """Count reports about definitions that were not asked for, because their shape was known.

        The first of the shape was reported with its place, or raised the error.
        """
        for shape, silence in self._silent.items():
            count = self._loop.definitions_of(shape)
            if count == silence.definitions:
                continue
            names = self._loop.names_of(shape, silence.definitions)
            definitions = [(name, silence.rest) for name in names]
            for kind, column, detail in silence.what:
                self._report.add_each(definitions, kind, path=self._path, column=column, detail=detail)
            silence.definitions = count

    def error_of(self, info: dict[str, Any], *, mariadb: bool) -> DecodeError:
        """The loop's failure (`Decoder.failure`) as an error."""
        definition: Definition | None = info["definition"]
        table: Table | None = definition.table if definition is not None else None
        column = None
        if table is not None and info["column"] < len(table.columns):
            column = table.columns[info["column"]].name
        kind = ChecksumError if info["fault"] == _rows.WRONG_CHECKSUM else DecodeError
        message = _rows.FAULTS[info["fault"]]
        if table is not None:
            message += f", row {info['row']} of the event"
            if mariadb and _may_have_old_fractions(table):
                message += "; MariaDB's own fractional TIME, DATETIME and TIMESTAMP take schema= to decode"
        return kind(
            message,
            path=self._path,
            offset=info["position"],
            type_code=info["type_code"],
            table=table.full_name if table is not None else None,
            column=column,
        )


@dataclass(slots=True, eq=False, repr=False)
class _Silence:
    """What the log lacks about the tables of a shape."""

    rest: tuple[bytes, int]  # the shape's identity: a table map without its names, and its flags
    what: list[_What]
    definitions: int = 1  # of which it was reported


def _silence_of(table: Table, of_columns: Iterable[tuple[str, str | None]] = ()) -> list[_What]:
    if table.undecodable is not None:
        return [("undecodable_tables", None, table.undecodable)]
    return [(what, column, None) for what, column in of_columns]


def _may_have_old_fractions(table: Table) -> bool:
    return any(c.type_code in OLD_TEMPORAL_TYPES and not c.old_fraction for c in table.columns)
