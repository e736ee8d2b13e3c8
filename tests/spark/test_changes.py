"""From a part of a log to rows of a DataFrame's schema."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.indexed import UUID, Read, folder, write_log  # noqa: E402
from support.questions import without_index  # noqa: E402
from support.source import damaged, orders, partial, read  # noqa: E402

from binlog_core import BinlogError, SchemaError  # noqa: E402
from binlog_core._base.change_columns import LAKE_COLUMNS  # noqa: E402
from binlog_core.conditions.pushed import Predicate  # noqa: E402
from binlog_core.index import ranges  # noqa: E402
from binlog_core.index.making import index  # noqa: E402
from binlog_core.lake.plan.parts import plan_parts  # noqa: E402
from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.spark.changes import ChangeReader, check_types, infer_schema  # noqa: E402

pytestmark = pytest.mark.oldest_spark


def test_damage_by_mode(tmp_path: Path) -> None:
    path, position = damaged(tmp_path)
    with pytest.raises(BinlogError) as caught:
        read(path, table="shop.orders")
    assert (caught.value.path, caught.value.offset) == (str(path), position)
    dropped = read(path, table="shop.orders", onError="skip")
    assert [row["id"] for row in dropped] == [i for i in range(80) if i not in (20, 21)]
    permissive = read(path, table="shop.orders", onError="rows", metadata="_position")
    (corrupt,) = (row for row in permissive if row["_corrupt"])
    told = json.loads(corrupt["_corrupt"])
    assert (told["file"], told["offset"], corrupt["_position"]) == (str(path), position, position)
    assert corrupt["id"] is None
    assert len(permissive) == 79
    everything = read(path, onError="rows")
    assert [row["_corrupt"] is None for row in everything].count(False) == 1


def test_columns_by_what_is_asked_for(tmp_path: Path) -> None:
    def names(**options: str) -> list[str]:
        parsed = SourceOptions.parse({"table": "shop.orders", **options})
        return list(infer_schema([str(partial(tmp_path))], parsed).names)

    own = ["id", "text", *LAKE_COLUMNS]
    assert names() == [*own, "_absent"]  # the first images need it
    assert names(absent="false") == own
    every = names(metadata="_xid,_gtid", onSchemaChange="rescue", onError="rows", ddl="rows")
    assert every == [*own, "_absent", "_xid", "_gtid", "_rescued", "_corrupt", "_statement"]


def test_columns_that_are_not_wanted_are_not_decoded(tmp_path: Path) -> None:
    options = SourceOptions.parse({"table": "shop.orders"})
    schema = pa.schema({"text": pa.string(), "_file": pa.string()})
    reader = ChangeReader.of(options, schema, projected=True)
    assert reader.reading.columns == {"shop.orders": ("text",)}
    assert reader.reading.metadata == ("_file",)
    assert ChangeReader.of(options, schema, projected=False).reading.columns is None
    rescued = pa.schema([*schema, ("_rescued", pa.string())])  # has what no other column has
    assert ChangeReader.of(options, rescued, projected=True).reading.columns is None
    moved = SourceOptions.parse({"table": "shop.orders", "images": "keychange"})
    assert ChangeReader.of(moved, schema, projected=True).reading.columns is None  # the key may be any
    keyed = SourceOptions.parse({"table": "shop.orders", "images": "keychange", "keyColumns": "id"})
    assert ChangeReader.of(keyed, schema, projected=True).reading.columns == {"shop.orders": ("text", "id")}
    (part,) = plan_parts([str(orders(tmp_path, count=2))], options)
    rows = [row for batch in reader.read(part) for row in batch.to_pylist()]
    path = str(tmp_path / "bin.000007")
    assert rows == [{"text": text, "_file": path} for text in ("t0", None, "t1", None)]


def test_a_schema_whose_columns_of_ours_have_other_types() -> None:
    one = SourceOptions.parse({"table": "shop.orders"})
    check_types(pa.schema({"id": pa.string(), "_xid": pa.int64()}), one)
    with pytest.raises(SchemaError, match="the column is int64, the schema has int32") as caught:
        check_types(pa.schema({"_Xid": pa.int32()}), one)
    assert caught.value.column == "_Xid"
    everything = SourceOptions.parse({})
    check_types(pa.schema({"after": pa.string()}), everything)
    with pytest.raises(
        SchemaError, match="without option table, expected only the columns _database, _table"
    ):
        check_types(pa.schema({"id": pa.int64()}), everything)


# ---------------------------------------------------------------- indexes


@pytest.fixture
def indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four logs with an index of small ranges; the second's is stale, the third's is another log's."""
    monkeypatch.setattr(ranges, "RANGE_BYTES", 2000)
    logs = folder(tmp_path, 4)
    whole = (logs / "bin.000002").read_bytes()
    (logs / "bin.000002").write_bytes(whole[: len(whole) // 2])
    index(logs)
    (logs / "bin.000002").write_bytes(whole)
    write_log(logs / "bin.000003", 17)
    return logs


def test_an_index_leaves_out_parts_and_ranges_but_no_row(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pick, got = random.Random(18), Read(monkeypatch)
    keys = [row["id"] for row in read(indexed, table="shop.t")]
    times = [1_700_000_000 + 1000 * i + n for i in (0, 1, 3, 17) for n in (0, 60, 199)]
    least = most = 0
    for _ in range(25):
        options: dict[str, str] = {"splitSize": pick.choice(("0", "20k", "30k"))}
        pushed = []
        if pick.random() < 0.8:
            options["table"] = pick.choice(("shop.t", "shop.t", "shop.lines"))
        key, form = pick.choice(keys) + pick.choice((0, 0, 1)), pick.choice(("=", "=", "<", ">="))
        if options.get("table") == "shop.t" and pick.random() < 0.7:
            if pick.random() < 0.5:
                pushed.append(Predicate("ID", form, (key,)))
            else:
                options["where"] = f"id {form} {key}"
        if pick.random() < 0.2:
            options["tables" if "table" not in options else "images"] = (
                "shop.l*" if "table" not in options else "after"
            )
        for end in ("startTime", "endTime"):
            if pick.random() < 0.2:
                options[end] = str(pick.choice(times))
        got.bytes = 0
        found = read(indexed, pushed, **options)
        exact = form == "=" and bool(pushed or "where" in options)
        least, got.bytes = least + exact * got.bytes, 0
        assert found == without_index(lambda: read(indexed, pushed, **options)), (options, pushed)  # noqa: B023
        most += exact * got.bytes
    assert least < most * 2 // 3


def test_splits_without_a_match_have_no_task(indexed: Path) -> None:
    def parts(**options: str) -> int:
        parsed = SourceOptions.parse({"table": "shop.t", "splitSize": "5k", **options})
        reader = ChangeReader.of(parsed, infer_schema([str(indexed)], parsed), projected=False)
        return len(reader.wanted(plan_parts([str(indexed)], parsed)))

    (key,) = {row["id"] for row in read(indexed, table="shop.t", where=f"_gtid = '{UUID}:1'")}
    every, some = parts(), parts(where=f"id = {key}")
    unknown = without_index(lambda: parts(where=f"id = {key}"))
    assert every == unknown
    # What is not in the index, half of the second log and the third, and a split of the first.
    assert every / 4 < some < every * 2 / 3
    assert parts(where=f"id = {key}", ddl="rows") == every  # statements are rows there
