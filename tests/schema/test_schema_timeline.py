"""Definitions by place: what a table is at an offset of a log, and what the reader of a part is given."""

from __future__ import annotations

import pytest
from support.batches import column

from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import Table
from binlog_core.errors import BinlogError
from binlog_core.report import Report
from binlog_core.schema.definition_texts import packed, unpacked
from binlog_core.schema.given import parse_create_table
from binlog_core.schema.table_definitions import TableSchema
from binlog_core.schema.timeline import DefinitionTimeline, definitions_of

LOG = 3 << 40  # the file number is above the offset


def definition(name: str) -> TableSchema:
    return parse_create_table(f"CREATE TABLE t ({name} INT)", "shop", "t")


A, B, C = (definition(name) for name in "abc")
STEPS = ((0, A), (LOG + 500, B), (LOG + 900, None), ((4 << 40) + 4, C))
TIMELINE = DefinitionTimeline({"shop.t": STEPS, "shop.later": (((4 << 40) + 9, A),)})


def test_a_definition_holds_from_its_place_on() -> None:
    places = (4, LOG + 499, LOG + 500, LOG + 899, LOG + 900, (4 << 40) + 4)
    assert [TIMELINE.definition("shop.t", place) for place in places] == [A, A, B, B, None, C]
    assert TIMELINE.definition("shop.later", LOG) is None
    assert TIMELINE.definition("shop.other", LOG) is None


def test_a_timeline_as_text() -> None:
    text = TIMELINE.to_text()
    assert DefinitionTimeline.from_text(text) == TIMELINE
    assert len(unpacked(text)["definitions"]) == 3  # A holds at two places
    steps: list[list[object]] = [[4, 0], [4, -4], [float("inf"), None]]  # of three definitions
    others = [packed({"definitions": [], "tables": {"shop.t": [steps[0]]}})]
    others += [packed(unpacked(text) | {"tables": {"shop.t": [step]}}) for step in steps[1:]]
    others += [packed(unpacked(text) | {"tables": {"shop.t": [[4, -1]]}})]
    for other in ("", packed([]), *others):
        with pytest.raises(BinlogError, match="definitions cannot be read: another version wrote them"):
            DefinitionTimeline.from_text(other)


def test_a_part_is_given_what_its_log_may_ask_for() -> None:
    part = TIMELINE.part(LOG, 600)
    assert part.tables == {"shop.t": STEPS[1:3]}  # its last transaction may end after the part


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_columns_are_named_by_the_definition_of_their_place() -> None:
    found = definitions_of(TIMELINE, LOG)
    assert found is not None
    table = Table("shop", "t", (column("c0", Kind.INT, bytes_=4, named=False),))
    two = Table("shop", "t", (*table.columns, column("c1", Kind.INT, bytes_=4, named=False, index=1)))
    report = Report()

    def names(table: Table, offset: int) -> list[str]:
        return [one.name for one in found.complete(table, report, path="bin.000003", offset=offset).columns]

    assert [names(table, offset) for offset in (4, 500, 900)] == [["a"], ["b"], ["c0"]]
    assert report.as_dict() == {}
    assert names(two, 500) == ["c0", "c1"]
    assert report.as_dict() == {"schema_misfits": 1}
    assert report.first["schema_misfits"].offset == 500
