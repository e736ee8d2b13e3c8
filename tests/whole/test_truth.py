"""Every golden log against its server's truth: ``rows()`` and arrays, each by itself; Parquet."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference import read_log
from support.arrays import array_changes
from support.golden import KNOWN_SCHEMA, Golden, golden_logs, old_logs
from support.hostile import SANITIZED
from support.truth import differences, header_differences

import binlog_core

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

ALL = golden_logs()
WITHOUT_FULL_METADATA = [g for g in ALL if g.known < 2 and g.schema is not None]
by_name = pytest.mark.parametrize("golden", ALL, ids=str)


def known_of(golden: Golden) -> int:
    return KNOWN_SCHEMA if golden.needs_schema else golden.known


@by_name
def test_rows(golden: Golden) -> None:
    with binlog_core.open(golden.path, **golden.open_arguments) as log:
        headers = log.headers()[["position", "server_id", "next_position", "event_length"]].tolist()
        assert differences(log.rows(), golden, known_of(golden)) == []
    assert header_differences(headers, golden) == []


@by_name
def test_arrays(golden: Golden) -> None:
    with binlog_core.open(golden.path, **golden.open_arguments) as log:
        changes = array_changes(log.batches())
    assert differences(changes, golden, known_of(golden)) == []


@pytest.mark.parametrize("golden", WITHOUT_FULL_METADATA, ids=str)
def test_rows_with_a_schema(golden: Golden) -> None:
    """With the CREATE TABLE statements everything is compared: names, signs, text, members, padding."""
    with binlog_core.open(golden.path, schema=golden.schema, **golden.open_arguments) as log:
        assert differences(log.rows(), golden, KNOWN_SCHEMA) == []


@by_name
@pytest.mark.skipif(SANITIZED, reason="test_views_hold_the_same makes the same columns")
def test_parquet(golden: Golden, tmp_path: Path) -> None:
    """What is written to Parquet is read back as it was; for that see test_arrow_truth.py."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    with binlog_core.open(golden.path, **golden.open_arguments) as log:
        for i, batch in enumerate(log.batches()):
            table = pyarrow.Table.from_batches([batch.to_arrow(change_columns=False)])
            parquet.write_table(table, tmp_path / f"{i}.parquet")
            stored = parquet.read_table(tmp_path / f"{i}.parquet")
            assert stored.schema == table.schema
            assert stored.equals(table)


@pytest.mark.parametrize("path", old_logs(), ids=lambda p: p.name)
def test_old_logs(path: Path) -> None:
    """Without truth, the two decoders agree."""
    if "10.0.17" in path.name:
        pytest.skip("holds MariaDB's own fractional types, which take a schema")
    want = read_log(path.read_bytes())
    with binlog_core.open(path) as log:
        got = list(log.rows())
        headers = log.headers()
    assert [(c.op, c.database, c.table, c.before, c.after, c.position, c.timestamp, c.gtid) for c in got] == [
        (c.op, c.database, c.table, c.before, c.after, c.position, c.timestamp, c.gtid) for c in want.changes
    ]
    assert headers["position"].tolist() == [h.position for h in want.headers]
    assert headers["type_code"].tolist() == [h.type_code for h in want.headers]
