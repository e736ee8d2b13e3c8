"""The plans of one log's tables, as its decoding loop numbers them, and what the loop says of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .column_types import OLD_TEMPORAL_TYPES
from .errors import BinlogError, ChecksumError, DecodeError
from .event_types import EventType
from .plans import Plan, Plans
from .table_map import TableMaps
from .tables import Table

if TYPE_CHECKING:
    from ._rows import Decoder
    from .definitions import Definitions
    from .report import Report
    from .selection import Limits, Selection

_OF_ONE_TRANSACTION = 16  # times Limits.table_definitions, but no more than …
_MOST = 65536  # … unless the limit itself is larger


class LogPlans:
    """Makes the plans that a loop asks for.

    Parameters
    ----------
    path : str
    loop : Decoder
    selection : Selection
    limits : Limits
    report : Report
    definitions : Definitions or None
    skip_errors : bool
        The rows of a table whose definition cannot be read are stepped over.
    """

    def __init__(
        self,
        path: str,
        loop: Decoder,
        *,
        selection: Selection,
        limits: Limits,
        report: Report,
        definitions: Definitions | None,
        skip_errors: bool,
    ) -> None:
        self._path = path
        self._loop = loop
        self._selection = selection
        self._limits = limits
        self._report = report
        self._definitions = definitions
        self._skip_errors = skip_errors
        self._planned: list[tuple[Table, Plan] | None] = []
        self._weight = 0
        self._made = Plans()
        self._table_maps = TableMaps()

    def __getitem__(self, index: int) -> tuple[Table, Plan]:
        planned = self._planned[index]
        assert planned is not None
        return planned

    def has_room(self) -> bool:
        """Whether the plan that the loop asks for may be added, or all must be dropped before: those in use
        come back with their next table map.

        Raises
        ------
        DecodeError
            One transaction has too many.
        """
        kept = self._limits.table_definitions
        if self._weight < kept:
            return True
        # Between transactions no table id is needed any more; inside one it may be.
        if self._loop.table_maps <= 1:
            return False
        if self._weight < max(kept, min(_OF_ONE_TRANSACTION * kept, _MOST)):
            return True
        raise DecodeError(
            f"more than {len(self._planned)} table definitions in one transaction, which is what "
            f"Limits.table_definitions={kept} allows",
            path=self._path,
            offset=int(self._loop.event_position),
            type_code=EventType.TABLE_MAP,
        )

    def clear(self) -> None:
        """Drop all plans. The group must have been taken."""
        self._loop.drop_plans()
        self._planned.clear()
        self._weight = 0
        self._made.clear()
        self._table_maps.clear()

    def add(self, *, mariadb: bool) -> None:
        """The plan that the loop asks for."""
        loop, offset = self._loop, self._loop.event_position
        flags, body = loop.table_map()
        self._weight += 1 + len(body) // 4096
        try:
            table, notes = self._table_maps.table_of(body, flags=flags, mariadb=mariadb)
        except BinlogError as error:
            if not self._skip_errors:
                raise error.located(path=self._path, offset=offset, type_code=19) from None
            self._report.add("skipped_events", path=self._path, offset=offset, detail=str(error))
            self._add_none()
            return
        for note in notes:
            self._report.add(
                "metadata_misfits", path=self._path, offset=offset, table=table.full_name, detail=note
            )
        if not self._selection.wants_table(table):
            self._add_none()
            return
        if self._definitions is not None:
            table = self._definitions.complete(table, self._report, path=self._path, offset=offset)
        plan = self._made.plan_of(table, self._selection.wanted_columns(table))
        self._report_silence(table, plan, offset)
        self._weight += len(table.columns) // 32
        loop.add_plan(
            plan.ops,
            image_len=plan.image_len,
            record_len=plan.dtype.itemsize,
            json_columns=plan.json_columns,
            raw=plan.raw,
            nullable=plan.nullable,
        )
        self._planned.append((table, plan))

    def _add_none(self) -> None:
        """The rows of this table are stepped over."""
        self._loop.add_plan(b"", image_len=0, record_len=0, wanted=False)
        self._planned.append(None)

    def _report_silence(self, table: Table, plan: Plan, offset: int) -> None:
        where: dict[str, Any] = {"path": self._path, "offset": offset, "table": table.full_name}
        if table.undecodable is not None:
            self._report.add("undecodable_tables", detail=table.undecodable, **where)
            return
        for what, column in plan.silence:
            self._report.add(what, column=column, **where)

    def error_of(self, info: dict[str, Any], *, mariadb: bool) -> DecodeError:
        """What the loop says that went wrong (`Decoder.failure_info`), as an error."""
        planned = self._planned[info["plan"]] if info["plan"] is not None else None
        table = planned[0] if planned is not None else None
        column = None
        if table is not None and info["column"] < len(table.columns):
            column = table.columns[info["column"]].name
        kind = ChecksumError if info["status"] == "checksum" else DecodeError
        message = info["what"]
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


def _may_have_old_fractions(table: Table) -> bool:
    return any(c.type_code in OLD_TEMPORAL_TYPES and not c.old_fraction for c in table.columns)
