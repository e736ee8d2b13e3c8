"""Row images: which are returned, and which columns they lack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.batches import ABSENT, column, make_batch
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import partial, read  # noqa: E402

from binlog_core import SchemaError  # noqa: E402
from binlog_core._tables.column_types import Kind  # noqa: E402
from binlog_core.batch.change_batch import ChangeBatch  # noqa: E402
from binlog_core.lake.rows.images import absent_names, select_images  # noqa: E402

pytestmark = pytest.mark.oldest_spark


def facts_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["_change_type"], row["id"], row["text"], row["_absent"]) for row in rows]


def test_partial_images_say_what_they_lack(tmp_path: Path) -> None:
    path = partial(tmp_path)
    assert facts_of(read(path, table="shop.orders")) == [
        ("insert", 1, "a", None),
        ("insert", 2, "b", None),
        ("update_preimage", 1, None, ["text"]),
        ("update_postimage", None, "c", ["id"]),
        ("update_preimage", 2, None, ["text"]),
        ("update_postimage", 9, None, ["text"]),
        ("delete", 9, None, ["text"]),
    ]
    assert facts_of(read(path, table="shop.orders", images="after")) == [
        ("insert", 1, "a", None),
        ("insert", 2, "b", None),
        ("update_postimage", 1, "c", None),
        ("update_postimage", 9, None, ["text"]),
        ("delete", 9, None, ["text"]),
    ]
    assert facts_of(read(path, table="shop.orders", images="keychange")) == [
        ("insert", 1, "a", None),
        ("insert", 2, "b", None),
        ("update_postimage", 1, "c", None),
        ("delete", 2, None, ["text"]),
        ("update_postimage", 9, None, ["text"]),
        ("delete", 9, None, ["text"]),
    ]
    assert "_absent" not in read(path, table="shop.orders", absent="false")[0]


def test_keychange_compares_text_by_its_bytes(tmp_path: Path) -> None:
    table = Table("d", "t", [("k", "VARCHAR(10)"), ("n", "INT")])
    log = Log("8.0.36")
    log.begin()
    pairs = [("ab", "ab"), ("ab", "ac"), ("ab", "abc"), (None, "x"), (None, None)]
    log.update(table, [({"k": a, "n": i}, {"k": b, "n": i + 10}) for i, (a, b) in enumerate(pairs)])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    rows = read(path, table="d.t", images="keychange", keyColumns="k")
    assert [(row["_change_type"], row["n"]) for row in rows] == [
        ("update_postimage", 10),
        ("delete", 1),
        ("update_postimage", 11),
        ("delete", 2),
        ("update_postimage", 12),
        ("delete", 3),
        ("update_postimage", 13),
        ("update_postimage", 14),
    ]
    with pytest.raises(SchemaError, match=r"primary key"):
        read(path, table="d.t", images="keychange")


def updates() -> ChangeBatch:
    """An insert; an update, one of the key, one whose image after it lacks the key; a delete."""
    ids = [1, 5, 5, 6, 7, 8, ABSENT, 9]
    columns = [column("id", Kind.INT, bytes_=4), column("text", Kind.TEXT, charset="utf8mb4")]
    return make_batch(columns, [{"id": one, "text": b"x"} for one in ids], ops=[1, 2, 3, 2, 3, 2, 3, 4])


def test_images_are_chosen_by_what_an_update_does_to_the_key() -> None:
    assert select_images(updates(), "both").rows is None
    after = select_images(updates(), "after")
    assert after.rows is not None
    assert (after.rows.tolist(), after.ops.tolist()) == ([0, 2, 4, 6, 7], [1, 3, 3, 3, 4])
    moved = select_images(updates(), "keychange", ["id"])
    assert moved.rows is not None
    assert (moved.rows.tolist(), moved.ops.tolist()) == ([0, 2, 3, 4, 6, 7], [1, 3, 4, 3, 3, 4])
    with pytest.raises(SchemaError, match="the log does not have the primary key"):
        select_images(updates(), "keychange")
    with pytest.raises(SchemaError, match="not in the table") as caught:
        select_images(updates(), "keychange", ["number"])
    assert caught.value.column == "number"


def test_what_an_image_lacks_is_named() -> None:
    lacking = [None] * 6 + [["id"], None]
    assert absent_names(updates(), None, filled=False).to_pylist() == lacking
    assert absent_names(updates(), None, filled=True).to_pylist() == [None] * 8  # its preimage has it
    assert absent_names(updates(), np.array([6, 0]), filled=False).to_pylist() == [["id"], None]
