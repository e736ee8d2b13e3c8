"""A dataset of one table's changes, for libraries that scan Arrow datasets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from support.decoded import columns_decoded
from support.logs import GTID

import binlog_core
from binlog_core import Log, SchemaError

pytest.importorskip("pyarrow")


@pytest.fixture
def log() -> Iterator[Log]:
    with binlog_core.open(GTID.path) as found:
        yield found


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    return columns_decoded(monkeypatch)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('(n == "id")', {"n"}),
        ('(n == "\\"id\\" d")', {"n"}),
        ("and((a b > 3), is_valid(id))", {"a b", "id"}),
        ("FieldRef.Nested(FieldRef.Name(größe) FieldRef.Name(x))", {"größe"}),
        ("(nd < 3)", set()),
    ],
)
def test_names_in_an_expression(text: str, want: set[str]) -> None:
    from binlog_core.dataset import _names_in

    assert _names_in(text, ["id", "n", "d", "a b", "größe"]) == want
    assert _names_in('(a" == "n"n)', ['a"', "n"]) == {'a"', "n"}


def test_dataset(log: Log, decoded: set[str]) -> None:
    polars = pytest.importorskip("polars")
    import pyarrow.dataset

    from binlog_core import dataset

    changes = dataset.changes(log, "naïve_table_a")
    assert isinstance(changes, pyarrow.dataset.Dataset)
    field = pyarrow.dataset.field
    deletes = [c["before"] for c in GTID.truth if c["op"] == "delete"]
    found = changes.to_table(columns={"x": field("id") + 1}, filter=field("_change_type") == "delete")
    assert found.to_pylist() == [{"x": row["id"] + 1} for row in deletes]
    assert decoded == {"id"}
    lazy = polars.scan_pyarrow_dataset(changes).filter(polars.col("_change_type") == "delete").select("n")
    assert lazy.collect()["n"].to_list() == [row["n"] for row in deletes]
    assert decoded == {"id", "n"}
    assert changes.count_rows() == changes.to_table().num_rows
    with pytest.raises(SchemaError, match=r"near: .*naïve_table_a"):
        dataset.changes(log, "naive_table_a")
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(changes)
