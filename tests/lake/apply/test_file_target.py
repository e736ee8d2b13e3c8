"""Changes into tables that are sets of files: what is refused, and what a lost answer leaves."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.lake_forms import Form, IcebergForm
from support.rest_catalog import rest_catalog
from support.s3 import CREDENTIALS, store

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from binlog_core import BinlogError  # noqa: E402
from binlog_core.lake.tables.iceberg import load_iceberg_catalog  # noqa: E402
from binlog_core.spark import IcebergTarget, apply_changes  # noqa: E402


def inserts(*keys: int, first: int = 1) -> Any:
    """A transaction for each row."""
    count = len(keys)
    return pa.table(
        {
            "id": pa.array(keys, pa.int32()),
            "_change_type": ["insert"] * count,
            "_commit_version": list(range(first, first + count)),
            "_change_ordinal": [0] * count,
        }
    )


APPLY: dict[str, Any] = {"key_columns": ["id"], "without_statements": True}


def test_a_table_that_is_not_there_needs_a_place(tmp_path: Path) -> None:
    form = IcebergForm(tmp_path)
    with pytest.raises(ValueError, match=r"no table shop\.t: give location="):
        IcebergTarget("shop.t", form.catalog)
    apply_changes(inserts(1), form.target(tmp_path / "t"), **APPLY)
    apply_changes(inserts(2), IcebergTarget("shop.t", form.catalog), **APPLY)  # it is in the catalog
    assert sorted(form.read(tmp_path / "t")["id"].to_pylist()) == [1, 2]


def test_a_partitioned_table_is_left_to_spark(tmp_path: Path) -> None:
    form = IcebergForm(tmp_path)
    apply_changes(inserts(1), form.target(tmp_path / "t"), **APPLY)
    with form.table(tmp_path / "t").update_spec() as update:
        update.add_identity("id")
    with pytest.raises(BinlogError, match=r"has partitions.*SparkTarget"):
        form.target(tmp_path / "t")


def test_a_truncate_leaves_the_columns_of_a_delta_table_as_they_were_declared(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    field = deltalake.Field("id", "integer", nullable=False, metadata={"comment": "the key"})
    deltalake.DeltaTable.create(str(tmp_path), deltalake.Schema([field]))
    apply_changes(inserts(1), tmp_path, **APPLY)
    emptied = inserts(2, 3, first=5).set_column(1, "_change_type", pa.array(["truncate", "insert"]))
    assert apply_changes(emptied, tmp_path, **APPLY).truncated
    found = deltalake.DeltaTable(str(tmp_path))
    assert (found.to_pyarrow_table()["id"].to_pylist(), found.schema().fields) == ([3], [field])


def test_a_table_that_is_dropped_and_made_anew_has_its_new_types(form: Form, tmp_path: Path) -> None:
    def batch(first: int, kinds: list[str], values: Any) -> Any:
        keys = [None if kind == "drop" else first + i for i, kind in enumerate(kinds)]
        rows = pa.table({"id": pa.array(keys, pa.int32()), "a": values, "_change_type": kinds})
        texts = ["DROP TABLE t" if kind == "drop" else None for kind in kinds]
        places = {"_commit_version": range(first, first + len(kinds)), "_change_ordinal": [0] * len(kinds)}
        for name, numbers in places.items():
            rows = rows.append_column(name, pa.array(numbers, pa.int64()))
        return rows.append_column("_statement", pa.array(texts, pa.string()))

    into, key = tmp_path / "t", ["id"]
    days = pa.array([dt.date(2026, 1, 2)])
    apply_changes(batch(1, ["insert"], days), form.target(into), key_columns=key)
    numbers = pa.array([None, 7], pa.int32())
    later = batch(5, ["drop", "insert"], numbers)
    apply_changes(later, form.target(into), key_columns=key, on_drop="empty")
    assert form.read(into).select(["id", "a"]).to_pylist() == [{"id": 6, "a": 7}]


def test_files_stay_where_the_outcome_of_the_commit_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitStateUnknownException
    from pyiceberg.table import Transaction

    form = IcebergForm(tmp_path)
    target = tmp_path / "t"
    apply_changes(inserts(1), form.target(target), **APPLY)
    before = set(target.glob("*.parquet"))

    def lost(self: Any) -> None:
        raise CommitStateUnknownException("502 Bad Gateway")

    with monkeypatch.context() as patch, pytest.raises(BinlogError, match="does not say whether the commit"):
        patch.setattr(Transaction, "commit_transaction", lost)
        apply_changes(inserts(2), form.target(target), **APPLY)
    assert len(set(target.glob("*.parquet")) - before) == 1
    apply_changes(inserts(2), form.target(target), **APPLY)
    assert sorted(form.read(target)["id"].to_pylist()) == [1, 2]


def test_files_stay_where_the_line_is_cut_and_the_commit_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    form = IcebergForm(tmp_path)
    apply_changes(inserts(1), form.target(tmp_path / "t"), **APPLY)
    commit, sent = SqlCatalog.commit_table, []

    def cut(*arguments: Any) -> None:
        sent.append(arguments)
        raise ConnectionError("reset by peer")

    with monkeypatch.context() as patch, pytest.raises(BinlogError, match=r"does not say .* reset by peer"):
        patch.setattr(SqlCatalog, "commit_table", cut)
        apply_changes(inserts(2), form.target(tmp_path / "t"), **APPLY)
    commit(*sent[0])
    assert sorted(form.read(tmp_path / "t")["id"].to_pylist()) == [1, 2]


def test_a_table_in_a_store_has_its_credentials_from_the_options(tmp_path: Path) -> None:
    catalog = IcebergForm(tmp_path).catalog
    with store("lakes") as endpoint:
        options = {**CREDENTIALS, "endpoint_override": endpoint}
        place: dict[str, Any] = {"location": "s3://lakes/shop.t", "storage_options": options}
        for first, keys in ((1, (1, 2)), (10, (2, 3))):
            target = IcebergTarget("shop.t", catalog, **place)
            told = apply_changes(inserts(*keys, first=first), target, app_id="a", batch_id=first, **APPLY)
            assert told.puts == 2
        loaded = load_iceberg_catalog(catalog, options).load_table("shop.t")
        assert sorted(loaded.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def batches(seed: int) -> Iterator[tuple[Any, list[int]]]:
    """Random inserts and deletes, and the keys that there are after each batch."""
    choose, there, version = random.Random(seed), set[int](), 0
    for _ in range(5):
        rows = []
        for key in choose.sample(range(60), 20):
            version += 1
            rows.append((key, "delete" if key in there else "insert", version, 0))
            there ^= {key}
        kinds = (pa.int32(), pa.string(), pa.int64(), pa.int64())
        names = ("id", "_change_type", "_commit_version", "_change_ordinal")
        columns = zip(names, kinds, zip(*rows, strict=True), strict=True)
        yield pa.table({name: pa.array(values, kind) for name, kind, values in columns}), sorted(there)


@pytest.mark.parametrize("chooses", [True, False], ids=["chooses", "asked"])
@pytest.mark.parametrize("given", [True, False], ids=["a location", "no location"])
def test_a_rest_catalog_that_chooses_the_location_of_tables(
    tmp_path: Path, chooses: bool, given: bool
) -> None:
    wanted = str(tmp_path / "wanted") if given else None
    with rest_catalog(tmp_path / "catalog", chooses=chooses) as rest:
        properties = {"type": "rest", "uri": rest.uri}
        for number, (batch, keys) in enumerate(batches(seed=2 * chooses + given)):
            for skipped in (False, True):
                target = IcebergTarget("shop.t", properties, location=wanted)
                told = apply_changes(batch, target, app_id="a", batch_id=number, **APPLY)
                assert told.skipped is skipped
            table = rest.sql.load_table("shop.t")
            assert sorted(table.scan().to_arrow()["id"].to_pylist()) == keys
        assert (table.location() == wanted) is (given and not chooses)
        named = {file["file_path"] for file in table.inspect.files().to_pylist()}
        assert named and all(name.startswith(f"{table.location()}/") for name in named)
        assert given is False or (tmp_path / "wanted").exists() is not chooses
        if given:
            other = IcebergTarget("shop.t", properties)  # whoever names it without a place has this table
            assert other.columns.names == ["id"]
            with pytest.raises(BinlogError, match=r"has another table shop\.t"):
                IcebergTarget("shop.t", properties, location=str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 502, 503, 504, 408])
def test_a_commit_is_in_doubt_unless_the_catalog_refuses_it(tmp_path: Path, status: int) -> None:
    """4xx: nothing was done, and the files go. 5xx: they stay, as the commit was made here after all."""
    refused = status < 500 and status != 408

    def on_commit(method: str, path: str) -> int | None:
        return status if method == "POST" and path.endswith("/tables/t") else None

    def apply(*keys: int) -> None:
        target = IcebergTarget("shop.t", {"type": "rest", "uri": rest.uri})
        apply_changes(inserts(*keys, first=keys[0]), target, app_id="a", batch_id=keys[0], **APPLY)

    def there() -> tuple[list[int], int]:
        table = rest.sql.load_table("shop.t")
        return sorted(table.scan().to_arrow()["id"].to_pylist()), len(list(rest.root.rglob("part-*.parquet")))

    with rest_catalog(tmp_path / "catalog", chooses=True) as rest:
        apply(1)
        setattr(rest, "before" if refused else "after", on_commit)
        message = "the catalog refuses the commit" if refused else "does not say whether the commit was made"
        with pytest.raises(BinlogError, match=message):
            apply(2)
        assert there() == (([1], 1) if refused else ([1, 2], 2))
        rest.before = rest.after = lambda method, path: None
        apply(2)
        apply(3)
        assert there() == ([1, 2, 3], 3)


def test_a_table_that_a_catalog_does_not_make_is_an_error(tmp_path: Path) -> None:
    with rest_catalog(tmp_path / "catalog", chooses=True) as rest:
        rest.before = lambda method, path: 403 if method == "POST" else None
        with pytest.raises(BinlogError, match=r"does not make the table: ForbiddenError") as failed:
            IcebergTarget("shop.t", {"type": "rest", "uri": rest.uri}, location=str(tmp_path / "t"))
        assert failed.value.path == str(tmp_path / "t")


def test_a_table_of_glue(tmp_path: Path) -> None:
    boto3 = pytest.importorskip("boto3")
    with store("lakes") as endpoint:
        login = {"region": CREDENTIALS["region"], "access-key-id": "user", "secret-access-key": "secret"}
        properties = {f"glue.{name}": value for name, value in login.items()}
        properties |= {"type": "glue", "glue.endpoint": endpoint}
        options = {**CREDENTIALS, "endpoint_override": endpoint}
        place: dict[str, Any] = {"location": "s3://lakes/shop.t", "storage_options": options}
        for number, (batch, keys) in enumerate(batches(seed=7)):
            target = IcebergTarget("shop.t", properties, **place)
            apply_changes(batch, target, app_id="a", batch_id=number, **APPLY)
            table = load_iceberg_catalog(properties, options).load_table("shop.t")
            assert sorted(table.scan().to_arrow()["id"].to_pylist()) == keys
        glue = boto3.client(
            "glue", "us-east-1", endpoint_url=endpoint, aws_access_key_id="u", aws_secret_access_key="s"
        )
        described = glue.get_table(DatabaseName="shop", Name="t")["Table"]
        assert described["Parameters"]["table_type"] == "ICEBERG"
