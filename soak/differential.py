# ruff: noqa: E402
"""Random tables and statements; each way of reading the log must give the rows that SELECT then returns.

    python soak/differential.py --logs 100                        # the machine's mariadbd
    python soak/differential.py --logs 100 --port 3306 --seed 7   # a server that runs, root has no password
    python soak/differential.py --logs 1 --seed 1234              # one log again

Each log has its own seed: tables of random columns of all types, with keys of all kinds or none, rows and
definitions that change, row images that are complete or partial (random_logs/). It is read with rows(),
arrays (support/arrays.py, by NumPy alone), Arrow batches (through records and straight into columns), Arrow
streams, three threads, splits, from the server, and from an archive. The changes, applied in order, must give
the server's rows, and all ways must have read the same changes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from archive_kills import connect
from server import port_of

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests" / one) for one in ("", "whole")]
from random_logs.values import Row, ours, shown
from random_logs.work import DATABASE, Work
from support.arrays import array_changes
from support.server import dump
from support.splits import cut, read_all
from test_arrow_truth import changes as arrow_changes

import binlog_core
from binlog_core._core import _rows
from binlog_core.archive import archive


def folded(changes: Iterable[Any], work: Work) -> dict[str, Counter[str]]:
    """The rows after all changes."""
    rows: dict[str, dict[Any, Row]] = {}
    bags: dict[str, Counter[str]] = {}
    keys = {table.name: table.key for table in work.tables}
    for change in changes:
        if change.database != DATABASE:
            continue
        key, kinds = keys.get(change.table, ()), work.kinds(change.table)

        def row(image: Row, kinds: dict[str, str] = kinds) -> Row:
            return {
                name: ours(value, kinds[name]) if name in kinds else value for name, value in image.items()
            }

        if not key:
            bag = bags.setdefault(change.table, Counter())
            if change.before is not None:
                old = shown(row(change.before))
                if not bag[old]:
                    raise AssertionError(f"{change.table}: no row {old}")
                bag[old] -= 1
            if change.after is not None:
                bag[shown(row(change.after))] += 1
            continue
        here = rows.setdefault(change.table, {})
        held: Row = {}
        if change.before is not None:
            held = here.pop(repr([change.before[name] for name in key]))
        if change.after is not None:
            # An image may lack columns that did not change; one of another definition has all of its columns.
            new = {**held, **change.after} if work.image != "FULL" else change.after
            here[repr([new.get(name) for name in key])] = new
    for table, left in rows.items():
        kinds = work.kinds(table)
        bags[table] = Counter(
            shown({name: ours(value, kinds[name]) for name, value in one.items()}) for one in left.values()
        )
    return {table.name: +bags.get(table.name, Counter()) for table in work.tables}


def places(changes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Changes, to be compared with those of another way that gives the same values."""
    return [
        (c.position, c.op, c.table, repr(c.before), repr(c.after)) for c in changes if c.database == DATABASE
    ]


def read(path: Path, url: str, name: str, folder: Path, work: Work) -> tuple[dict[str, Any], int]:
    """For each way of reading, the rows after all changes; and how many batches were decoded into columns."""
    given = {"schema": "ddl"}
    roads: dict[str, Any] = {}
    with binlog_core.open(path, **given) as log:
        rows = list(log.rows())
        roads["rows"] = folded(rows, work)
        roads["arrays"] = folded(array_changes(log.batches()), work)
        roads["arrow"] = folded(arrow_changes(log), work)
    same = {}
    with binlog_core.open(path, threads=3, **given) as log:
        same["threads"] = places(log.rows())
    with binlog_core.open(url, start=(name, 4), **given) as log:
        same["live"] = places(change for change in log.rows())
    archive(url, folder, start=name, until="now")
    with binlog_core.open(folder, **given) as log:
        same["archive"] = places(log.rows())
    wanted = places(rows)
    for road, found in same.items():
        roads[road] = roads["rows"] if found == wanted else difference(found, wanted)
    with binlog_core.open(path) as log:
        plain = places(log.rows())
    split = places(read_all(cut(path, 1500))[0])
    roads["splits"] = roads["rows"] if split == plain else difference(split, plain)
    wrong, at_once = arrow_differences(path, **given)
    roads["arrow"] = wrong or roads["arrow"]
    return roads, at_once


def arrow_of(
    path: Path, least: int, tables: str | None = None, **given: Any
) -> tuple[list[tuple[str, pa.RecordBatch, list[Any]]], int]:
    """Batches of a few records, straight into columns from `least` records on; and how many were."""
    before = _rows.columns_from(least)
    found, at_once = [], 0
    try:
        with binlog_core.open(path, limits=binlog_core.Limits(group_rows=8), **given) as log:
            for batch in log.batches(tables):
                made = batch.to_arrow()
                made.validate(full=True)
                at_once += batch.run_list is not None
                found.append((batch.table.full_name, made, batch.invalid_dates.tolist()))
    finally:
        _rows.columns_from(before)
    return found, at_once


def arrow_differences(path: Path, **given: Any) -> tuple[str, int]:
    """How columns and streams differ from batches through records; how many batches there were of columns."""
    records, none = arrow_of(path, 1 << 30, **given)
    columns, at_once = arrow_of(path, 1, **given)
    assert not none
    if columns != records:
        return f"columns at once: {difference(columns, records)}", at_once
    for table in {name for name, _, _ in records}:
        # Rows of a compressed transaction are numbered among those that are read.
        parts = [part for _, part, _ in arrow_of(path, 1 << 30, table, **given)[0]]
        places = [(row["_position"], row["_row"]) for part in parts for row in part.to_pylist()]
        if places != sorted(places):
            return f"rows of {table} are not in the order of the log", at_once
        if any(part.schema != parts[0].schema for part in parts):
            continue  # a stream has one schema
        for least, threads in ((1, 1), (1, 3), (1 << 30, 1)):
            before = _rows.columns_from(least)
            try:
                with binlog_core.open(
                    path, threads=threads, limits=binlog_core.Limits(group_rows=8), **given
                ) as log:
                    stream = pa.table(log.batches(table))
            finally:
                _rows.columns_from(before)
            if stream != pa.Table.from_batches(parts):
                return f"stream of {table}, {threads} threads, at once from {least}", at_once
    return "", at_once


def difference(found: list[Any], wanted: list[Any]) -> str:
    first = next((pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]), None)
    return f"{len(found)} changes of {len(wanted)}; {first!r:.600}"


def log_of(port: int, seed: int) -> tuple[list[str], Counter[str]]:
    """What is wrong with a log; its rows at the end, its bytes, its batches decoded into columns."""
    url = f"mysql://root@127.0.0.1:{port}"
    with (
        closing(connect(port)) as connection,
        connection.cursor() as cursor,
        tempfile.TemporaryDirectory(prefix="differ") as folder,
    ):
        work = Work(cursor, connection.get_server_info(), seed)
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        name = cursor.fetchall()[-1][0]
        work.begin()
        work.work(work.pick.choice((10, 30, 80)))
        truth = work.truth()
        cursor.execute("FLUSH BINARY LOGS")
        path = Path(folder) / name
        path.write_bytes(b"\xfebin" + b"".join(dump(name, url)))
        roads, at_once = read(path, url, name, Path(folder) / "archive", work)
        wrong = []
        for road, found in roads.items():
            if isinstance(found, str):
                wrong.append(f"{road}: {found}")
                continue
            for table, rows in truth.items():
                if found[table] != rows:
                    more, less = found[table] - rows, rows - found[table]
                    wrong.append(
                        f"{road}: {table}: {list(more)[:1]!r:.900} instead of {list(less)[:1]!r:.900}"
                    )
        return wrong, Counter(rows=sum(map(len, truth.values())), size=path.stat().st_size, at_once=at_once)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int)
    parser.add_argument("--keep-going", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    bad: list[int] = []
    figures: Counter[str] = Counter()
    began = time.monotonic()
    with port_of(arguments.port) as port:
        for seed in range(arguments.seed, arguments.seed + arguments.logs):
            try:
                wrong, found = log_of(port, seed)
                figures += found
            except KeyboardInterrupt:
                seed -= 1
                break
            except Exception:
                wrong = [traceback.format_exc()]
            if wrong:
                bad.append(seed)
                print(f"seed {seed}:", *wrong, sep="\n  ", flush=True)
                if not arguments.keep_going:
                    break
    seconds = time.monotonic() - began
    done = seed - arguments.seed + 1
    print(
        f"{done} logs from seed {arguments.seed}, {figures['size']:,} bytes, {figures['rows']:,} rows",
        f"at the end, {figures['at_once']:,} batches as columns at once, {seconds:.0f} s;",
        f"wrong: {bad or 'none'}",
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
