"""Table definitions by their places in the logs, for readers of parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._base.change_columns import FILE_NUMBER_SHIFT
from .._tables.tables import Table
from ..errors import BinlogError, SchemaError
from ..report import Report
from .definition_texts import NOT_OURS, packed, plain, table_of, unpacked
from .definitions import Definitions, SchemaSource
from .given import apply
from .table_definitions import TableSchema

if TYPE_CHECKING:
    from ..events import QueryEvent
    from .given import Schema

_NO_END = 1 << FILE_NUMBER_SHIFT

Steps = tuple[tuple[int, TableSchema | None], ...]


@dataclass(frozen=True)
class DefinitionTimeline:
    """Definitions by place.

    Parameters
    ----------
    tables : dict of "database.table" to steps
        For each table, in order: the version (see `_commit_version`: file number and offset) from which on it
        has a definition, and that definition; None if it is not known.
    """

    tables: dict[str, Steps]

    def part(self, base: int, start: int) -> DefinitionTimeline:
        """What the reader of a part of a log needs, by the log's first version and the part's offset."""
        start, end = base + start, base + _NO_END  # its last transaction may end after the part
        found: dict[str, Steps] = {}
        for name, steps in self.tables.items():
            if len(steps) == 1 and steps[0][0] < end:  # most often: nothing was defined anew
                found[name] = steps
                continue
            places = [version for version, _ in steps]
            # The one before, too: a statement that begins there may change the definition.
            first = max(bisect_left(places, start) - 1, 0)
            kept = tuple(step for step in steps[first:] if step[0] < end)
            if kept:
                found[name] = kept
        return DefinitionTimeline(found)

    def definitions(self, base: int, *, charset: str | None = None) -> Definitions:
        """The definitions that complete the tables of a log, by its first version; `charset` as there."""
        return _Located(self, base, charset)

    def definition(self, name: str, version: int) -> TableSchema | None:
        """The definition of a table at a version; None if it is not known."""
        steps = self.tables.get(name, ())
        place = bisect_right([at for at, _ in steps], version) - 1
        return steps[place][1] if place >= 0 else None

    def to_text(self) -> str:
        """The same as text; a definition that holds at several places is in it once."""
        places: dict[int, int] = {}
        definitions: list[TableSchema] = []
        for steps in self.tables.values():
            for _, one in steps:
                if one is not None and places.setdefault(id(one), len(definitions)) == len(definitions):
                    definitions.append(one)
        steps_of = {
            name: [(at, None if one is None else places[id(one)]) for at, one in steps]
            for name, steps in self.tables.items()
        }
        return packed({"definitions": [plain(one) for one in definitions], "tables": steps_of})

    @classmethod
    def from_text(cls, text: str) -> DefinitionTimeline:
        """The timeline whose `to_text` gave a text.

        Raises
        ------
        BinlogError
            The text is not one of this version.
        """
        try:
            known = unpacked(text)
            definitions = dict(enumerate(map(table_of, known["definitions"])))  # no place counts from the end
            return cls(
                {
                    name: tuple((int(at), None if no is None else definitions[no]) for at, no in steps)
                    for name, steps in known["tables"].items()
                }
            )
        except NOT_OURS as error:
            raise BinlogError("the split's definitions cannot be read: another version wrote them") from error


class _Located(Definitions):
    """Definitions by the offsets of one log."""

    def __init__(self, timeline: DefinitionTimeline, base: int, charset: str | None) -> None:
        super().__init__({}, charset=charset)
        self._timeline = timeline
        self._base = base

    @property
    def follows(self) -> bool:
        """Whether the decoder asks again after each statement."""
        return True

    def _defined(self, table: Table, report: Report, *, path: str, offset: int) -> Table:
        given = self._timeline.definition(table.full_name, self._base + offset)
        if given is None:
            return table
        try:
            return apply(table, given)
        except SchemaError as error:
            report.add(
                "schema_misfits", path=path, offset=offset, table=table.full_name, detail=error.message
            )
            return table

    def found_by(self, table: str, position: int) -> TableSchema | None:
        return self._timeline.definition(table, self._base + position - 1)

    def follow(
        self, event: QueryEvent, report: Report, *, mariadb: bool, path: str, transaction: int
    ) -> None:
        """Do nothing: the timeline has the effects of all statements."""


def definitions_of(
    schema: SchemaSource | Schema | DefinitionTimeline | None,
    base: int,
    start: SchemaSource | Schema | None = None,
) -> Definitions | None:
    """The definitions that complete the tables of a log: given ones, or those of a timeline by `base`."""
    if isinstance(schema, DefinitionTimeline):
        return schema.definitions(base)
    return Definitions(schema, start=start) if schema is not None else None
