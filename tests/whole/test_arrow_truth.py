"""Arrow columns of the golden logs, compared with the servers' truth, without rows()."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from support.golden import KNOWN_FULL, KNOWN_SCHEMA, Golden, full_name, golden_logs
from support.hostile import SANITIZED
from support.truth import change_differences, differences

import binlog_core
from binlog_core._core._jsonb import parse_json_diffs
from binlog_core.batch.change_batch import ChangeBatch

pytestmark = pytest.mark.sanitize_logs

ALL = golden_logs()
OPS = {"insert": "insert", "update_postimage": "update", "delete": "delete"}


@dataclass
class Change:
    """One changed row, made of Arrow values."""

    op: str
    database: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    position: int
    timestamp: int
    gtid: str | None = None


def images(batch: ChangeBatch) -> list[dict[str, Any]]:
    """The batch's records as Arrow has them; what Arrow cannot say is null there, and looked up."""
    arrow = batch.to_arrow(change_columns=["_change_type", "_position", "_row", "_timestamp"])
    arrow.validate(full=True)
    records = arrow.to_pylist()
    for column in batch.columns:
        for record, absent in zip(records, batch.is_absent(column.name).tolist(), strict=True):
            if absent:
                assert record.pop(column.name) is None
            elif isinstance(record[column.name], UUID):
                record[column.name] = record[column.name].bytes
    names = [column.name for column in batch.table.columns]
    for number, index, text in batch.invalid_dates.tolist():
        assert records[number][names[index]] is None
        records[number][names[index]] = text
    for number, index in batch.json_diffs.tolist():
        if records[number][names[index]] is None:
            # Nothing to apply the changes to: the preimage does not have the document.
            assert batch.is_absent(names[index])[number - 1]
            offset, length = batch.array["row"][names[index]][number].tolist()
            records[number][names[index]] = parse_json_diffs(batch.buffer[offset : offset + length])
    return records


def changes(log: binlog_core.Log) -> list[Change]:
    found: list[tuple[int, int, Change]] = []
    for batch in log.batches():
        before = None
        for record in images(batch):
            kind, position, row, moment = (
                record.pop(name) for name in ("_change_type", "_position", "_row", "_timestamp")
            )
            if kind == "update_preimage":
                before = record
                continue
            change = Change(
                OPS[kind],
                batch.table.database,
                batch.table.name,
                record if kind == "delete" else before,
                None if kind == "delete" else record,
                position,
                int(moment.timestamp()),
            )
            found.append((position, row, change))
            before = None
    # Batches hold one table each: the log's order is that of the events, and of the rows in them.
    found.sort(key=lambda item: item[:2])
    return [change for _, _, change in found]


@pytest.mark.parametrize("golden", ALL, ids=str)
@pytest.mark.skipif(SANITIZED, reason="test_views_hold_the_same makes the same columns")
def test_arrow_holds_against_the_server(golden: Golden) -> None:
    with binlog_core.open(golden.path, **golden.open_arguments) as log:
        got = changes(log)
    known = KNOWN_SCHEMA if golden.needs_schema else None
    assert differences(got, golden, known, place=False) == []
    assert {change.position for change in got} <= golden.row_positions


def stored(column: pa.Array) -> pa.Array:
    """What an extension type such as arrow.json, which Arrow does not cast to views, lies on."""
    return column.storage if isinstance(column, pa.ExtensionArray) else column


@pytest.mark.parametrize("golden", ALL, ids=str)
def test_views_hold_the_same(golden: Golden) -> None:
    with (
        binlog_core.open(golden.path, **golden.open_arguments) as log,
        binlog_core.open(golden.path, **golden.open_arguments) as other,
    ):
        for batch, same in zip(log.batches(), other.batches(), strict=True):
            views = batch.to_arrow(text="view")
            views.validate(full=True)
            strings = same.to_arrow()
            assert views.schema.names == strings.schema.names
            for view, string in zip(map(stored, views), map(stored, strings), strict=True):
                assert view.cast(string.type).equals(string)


@pytest.mark.parametrize("golden", [golden for golden in ALL if golden.schema], ids=str)
def test_arrow_with_the_schema_given(golden: Golden) -> None:
    arguments = {**golden.open_arguments, "schema": golden.schema}
    # Where the log has the members' names itself, they are better than those of information_schema.
    known = KNOWN_FULL if golden.known == KNOWN_FULL else KNOWN_SCHEMA
    with binlog_core.open(golden.path, **arguments) as log:
        assert differences(changes(log), golden, known, place=False) == []


def test_a_log_is_an_arrow_stream() -> None:
    golden = golden_logs("mysql97/types_ints")[0]
    table = full_name(golden.truth[0]["db"], golden.truth[0]["table"])
    truth = [row for row in golden.truth if full_name(row["db"], row["table"]) == table]
    with binlog_core.open(golden.path) as log:
        stream = log.batches(table)
        for _ in range(2):  # asked for again, it reads again
            kinds = pa.table(stream)["_change_type"].to_pylist()
            assert kinds.count("insert") == sum(row["op"] == "insert" for row in truth)
            assert kinds.count("update_preimage") == sum(row["op"] == "update" for row in truth)
            assert kinds.count("delete") == sum(row["op"] == "delete" for row in truth)


def test_the_comparison_sees_a_wrong_value() -> None:
    golden = golden_logs("mysql97/types_ints")[0]
    with binlog_core.open(golden.path) as log:
        change = changes(log)[0]
    assert change_differences(change, golden, 0, place=False) == []
    assert change.after is not None
    name = next(name for name, value in change.after.items() if isinstance(value, int))
    change.after[name] += 1
    assert change_differences(change, golden, 0, place=False) != []


@pytest.mark.parametrize("golden", golden_logs("*/types_*"), ids=str)
def test_streams_and_pickles_hold_the_same(golden: Golden) -> None:
    with binlog_core.open(golden.path, **golden.open_arguments) as log:
        for batch in log.batches():
            arrow = batch.to_arrow()
            assert pa.table(batch).to_batches()[0].equals(arrow)
            assert pickle.loads(pickle.dumps(batch)).to_arrow().equals(arrow)


@pytest.mark.parametrize("option", ["geometry", "text", "vectors", "wide_decimals"])
def test_an_unknown_way_is_refused(option: str) -> None:
    with binlog_core.open(golden_logs("mysql97/types_ints")[0].path) as log:
        batch = next(iter(log.batches()))
        with pytest.raises(ValueError, match=f"{option}='upside down'"):
            batch.to_arrow(**{option: "upside down"})
