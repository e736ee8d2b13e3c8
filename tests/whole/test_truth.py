"""Every golden log against its server's truth: ``rows()``, arrays, Arrow and Parquet, each by itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import read_log
from support.arrays import AFTER, BEFORE, DELETE, INSERT, array_changes, gtid_text
from support.golden import KNOWN_SCHEMA, Golden, golden_logs, old_logs
from support.known import read
from support.truth import Reader, differences

import binlog_core

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

ALL = golden_logs()
WITHOUT_FULL_METADATA = [g for g in ALL if g.known < 2 and g.schema is not None]
by_name = pytest.mark.parametrize("golden", ALL, ids=str)


def known_of(golden: Golden) -> int:
    return KNOWN_SCHEMA if golden.needs_schema else golden.known


def compiled(golden: Golden) -> tuple[list[Any], list[tuple[int, int, int, int]]]:
    """Changes, and of each header position, server id, next position and length."""
    with binlog_core.open(golden.path, **golden.open_arguments) as log:
        headers = log.headers()[["position", "server_id", "next_position", "event_length"]]
        return list(log.rows()), headers.tolist()


def plain(golden: Golden) -> tuple[list[Any], list[tuple[int, int, int, int]]]:
    """The same from the reference decoder in plain Python."""
    log = read(golden)
    headers = [(h.position, h.server_id, h.next_position, h.event_length) for h in log.headers]
    return log.changes, headers


by_decoder = pytest.mark.parametrize("decode", [compiled, plain], ids=["compiled", "plain"])


@by_decoder
@by_name
def test_rows(golden: Golden, decode: Any) -> None:
    known = known_of(golden) if decode is compiled else golden.known
    assert differences(decode(golden)[0], golden, known) == []


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


@by_decoder
@by_name
def test_headers(golden: Golden, decode: Any) -> None:
    """Against SHOW BINLOG EVENTS; events inside a compressed transaction are listed where it ends."""
    want = [(e["pos"], e["server_id"], e["end"]) for e in golden.events if e["pos"] != e["end"]]
    headers = decode(golden)[1]
    assert [h[:3] for h in headers][: len(want)] == want[: len(headers)]
    # Lists were taken of running servers: a clean shutdown's STOP follows, and a file cut later has less.
    assert abs(len(headers) - len(want)) <= 1
    for header, following in itertools.pairwise(headers):
        assert header[0] + header[3] == following[0]


@dataclass
class ArrowChange:
    op: str
    database: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    position: int
    timestamp: int
    gtid: str | None
    row: int


def arrow_changes(batch: Any, rows: list[dict[str, Any]]) -> Iterator[ArrowChange]:
    """Changes from the values of an Arrow table; the array says which record is which."""
    image = batch.array["image"]
    absent = np.unpackbits(image["absent_bitmap"], axis=1, bitorder="little").astype(bool)

    def record(i: int) -> dict[str, Any]:
        return {c.name: rows[i][c.name] for c in batch.columns if not absent[i, c.index]}

    for i, op in enumerate(image["op"].tolist()):
        if op != AFTER:
            yield ArrowChange(
                {INSERT: "insert", BEFORE: "update", DELETE: "delete"}[op],
                batch.table.database,
                batch.table.name,
                None if op == INSERT else record(i),
                None if op == DELETE else record(i + (op == BEFORE)),
                int(image["position"][i]),
                int(image["timestamp"][i]),
                gtid_text(batch.transactions[image["transaction"][i]]),
                int(image["row"][i]),
            )


def in_log_order(changes: list[ArrowChange]) -> list[ArrowChange]:
    return sorted(changes, key=lambda change: (change.position, change.row))


@by_name
def test_arrow_and_parquet(golden: Golden, tmp_path: Path) -> None:
    """The values of to_arrow(), and those of the same tables written to Parquet and read back."""
    pytest.importorskip("pyarrow")
    import pyarrow
    from pyarrow import parquet

    direct: list[ArrowChange] = []
    stored: list[ArrowChange] = []
    with binlog_core.open(golden.path, **golden.open_arguments) as log:
        for i, batch in enumerate(log.batches()):
            table = pyarrow.Table.from_batches([batch.to_arrow(change_columns=False)])
            table.validate(full=True)
            path = tmp_path / f"{i}.parquet"
            parquet.write_table(table, path)
            direct += arrow_changes(batch, table.to_pylist())
            stored += arrow_changes(batch, parquet.read_table(path).to_pylist())
    known = known_of(golden)
    assert differences(in_log_order(direct), golden, known, Reader.ARROW) == []
    assert differences(in_log_order(stored), golden, known, Reader.ARROW) == []


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
