"""Cost of a round of updates of random keys: files written again (copy), or deletion vectors, whose rows are
found by reading (vectors) or by the key index (index).

    python benchmarks/bench_merge.py [ROWS [ROWS [UPDATES]]]

Makes Delta tables of so many rows (1,000,000 and 10,000,000), in files of a million rows in the order of the
key, as copies do. Prints the CPU time of a round of updates (100,000) on each, the best of three, the bytes
that it writes, and how often the smaller table's cost the larger one's is. Then the time of `deltalake` for a
sum over the table, before the rounds and after them.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from binlog_core.lake.apply.batch import apply_images
from binlog_core.lake.apply.file_target import FileTarget
from binlog_core.lake.apply.files import FileWriter
from binlog_core.lake.apply.jobs import Folder
from binlog_core.lake.apply.key_index import KeyIndex
from binlog_core.lake.tables.delta import DeltaLakeTable
from binlog_core.lake.tables.table import DataFile

SIZES, UPDATES, TRIES = (1_000_000, 10_000_000), 100_000, 3
WAYS = "copy", "vectors", "index"
FILE_ROWS, GROUP_ROWS = 1_000_000, 100_000
SCHEMA = pa.schema({"id": pa.int64(), "k": pa.int32(), "pad": pa.string()})


def rows_of(ids: Any, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    numbers = chance.integers(0, 1 << 31, len(ids))
    pads = pa.array(chance.integers(1 << 60, 1 << 62, len(ids))).cast(pa.string())
    return pa.table([pa.array(ids, pa.int64()), pa.array(numbers, pa.int32()), pads], schema=SCHEMA)


def make(path: Path, rows: int) -> None:
    """A table of even keys."""
    place, files = Folder(str(path), delta=True), list[DataFile]()
    place.make()
    for first in range(0, rows, FILE_ROWS):
        with FileWriter(place, SCHEMA) as writer:
            for start in range(first, min(first + FILE_ROWS, rows), GROUP_ROWS):
                ids = np.arange(start, min(start + GROUP_ROWS, rows)) * 2
                writer.write(rows_of(ids, start))
            files += writer.finish()
    DeltaLakeTable(str(path)).replace(files, SCHEMA, None)


def updates(rows: int, count: int, version: int) -> pa.Table:
    """Updates of keys anywhere in the table, both images."""
    chosen = random.Random(version).sample(range(rows), count)
    ids = np.repeat(np.array(chosen) * 2, 2)
    table = rows_of(ids, version)
    kinds = pa.array(["update_preimage", "update_postimage"] * count)
    table = table.append_column("_change_type", kinds)
    table = table.append_column("_commit_version", pa.array(np.repeat(np.arange(count) + version, 2)))
    return table.append_column("_change_ordinal", pa.array([0, 1] * count, pa.int64()))


def bytes_in(path: Path) -> int:
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())


def read(path: Path) -> float:
    """CPU seconds of a sum over a column, by deltalake."""
    from deltalake import DeltaTable, QueryBuilder

    began = time.process_time()
    QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT sum(k) FROM t").read_all()
    return time.process_time() - began


def measure(path: Path, rows: int, count: int, way: str) -> tuple[float, float, int]:
    """CPU seconds of the first round and of the best of some, and the bytes that one writes."""
    found = []
    keys = KeyIndex(f"{path}-keys", str(path.parent), b"of this benchmark") if way == "index" else None
    for number in range(TRIES):
        batch = updates(rows, count, 1 + number * 10 * count)
        before, began = bytes_in(path), time.process_time()
        place = Folder(str(path), delta=True)
        into = FileTarget(DeltaLakeTable(str(path)), place, vectors=way != "copy", index=keys)
        apply_images(batch, into, ("id",), primary_key=("id",), same_key=True)
        found.append((time.process_time() - began, bytes_in(path) - before))
    return found[0][0], *min(found)


def main() -> None:
    given = [int(one.replace("_", "")) for one in sys.argv[1:]]
    sizes, count = given[:2] or SIZES, (given[2:] or [UPDATES])[0]
    cost: dict[tuple[str, int], float] = {}
    for rows in sizes:
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "t"
                make(path, rows)
                before = read(path)
                first, cost[way, rows], written = measure(path, rows, min(count, rows), way)
                size = bytes_in(Path(f"{path}-keys"))
                made = f", the first {first:.2f} s with {size / 1e6:.0f} MB of index" if size else ""
                print(
                    f"{rows:>12,} rows, {count:,} updates, {way:>7}: {cost[way, rows]:.2f} s CPU{made},"
                    f" {written / 1e6:.1f} MB written; a sum {before:.2f} s before, {read(path):.2f} s after",
                    flush=True,
                )
    for way in WAYS:
        print(f"{way}: {cost[way, sizes[-1]] / cost[way, sizes[0]]:.1f} times")


if __name__ == "__main__":
    main()
