"""Row images: which are handed over, what they lack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import partial, read  # noqa: E402

from binlog_core import SchemaError  # noqa: E402


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["_change_type"], row["id"], row["text"], row["_absent"]) for row in rows]


def test_partial_images_say_what_they_lack(tmp_path: Path) -> None:
    path = partial(tmp_path)
    assert told(read(path, table="shop.orders")) == [
        ("insert", 1, "a", None),
        ("insert", 2, "b", None),
        ("update_preimage", 1, None, ["text"]),
        ("update_postimage", None, "c", ["id"]),
        ("update_preimage", 2, None, ["text"]),
        ("update_postimage", 9, None, ["text"]),
        ("delete", 9, None, ["text"]),
    ]
    assert told(read(path, table="shop.orders", images="after")) == [
        ("insert", 1, "a", None),
        ("insert", 2, "b", None),
        ("update_postimage", 1, "c", None),
        ("update_postimage", 9, None, ["text"]),
        ("delete", 9, None, ["text"]),
    ]
    assert told(read(path, table="shop.orders", images="keychange")) == [
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
