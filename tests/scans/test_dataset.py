"""A dataset of one table's changes, for libraries that scan Arrow datasets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from support import writer
from support.decoded import columns_decoded, conditions_asked
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
    from binlog_core.scans.dataset import _names_in

    assert _names_in(text, ["id", "n", "d", "a b", "größe"]) == want
    assert _names_in('(a" == "n"n)', ['a"', "n"]) == {'a"', "n"}


def test_a_filter_by_bytes_finds_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow compares the text's bytes, and prints b"x" as "78", like the text 78."""
    import pyarrow.dataset

    table = writer.Table("shop", "t", [("id", "INT"), ("v", "VARCHAR(20)")])
    made = writer.Log("8.0.36")
    made.begin()
    made.insert(table, [{"id": i, "v": v} for i, v in enumerate(("x", "78", None, "y"))])
    made.commit()
    asked = conditions_asked(monkeypatch)
    v, id_ = pyarrow.dataset.field("v"), pyarrow.dataset.field("id")
    with binlog_core.open(made.getvalue()) as opened:
        changes = binlog_core.dataset.changes(opened, "t")
        for wanted, ids, where in (
            (v == b"x", [0], None),
            (v != b"x", [1, 3], None),
            (v < b"y", [0, 1], None),
            ((v == b"78") & (id_ < 2), [1], "`id` < 2"),
            (v.isin([b"x"]) & (v == "78"), [], "`v` = '78'"),
            (v == "78", [1], "`v` = '78'"),
            (v == "x", [0], "`v` = 'x'"),
        ):
            assert changes.to_table(filter=wanted)["id"].to_pylist() == ids
            assert asked.pop() == where


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
