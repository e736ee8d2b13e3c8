"""Columns that updates may have changed and do not log: the apply stops, or completes what did not change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

from deltalake import DeltaTable  # noqa: E402
from support.source import batch_of  # noqa: E402

from binlog_core.errors import ApplyStopped  # noqa: E402
from binlog_core.spark import apply_changes  # noqa: E402

COLUMNS: list[Any] = [
    ("id", "INT", {"null": False}),
    ("k", "INT", {"null": False}),
    ("a", "INT"),
    ("b", "VARCHAR(20)"),
    ("t", "TEXT"),
    ("g", "INT"),  # AS (a * 2)
    ("h", "VARCHAR(20)"),  # AS (CONCAT('h', a))
]
NAMES = [column[0] for column in COLUMNS]
WAS = {"id": 1, "k": 7, "a": 4, "b": "b", "t": "t", "g": 8, "h": "h4"}
NOW = WAS | {"a": 5}
BUT_G = [name for name in NAMES if name != "g"]
BUT_GENERATED = NAMES[:5]


def after(
    tmp_path: Path,
    before: list[str] | None,
    changed: list[str] | None,
    *,
    was: dict[str, Any] = WAS,
    now: dict[str, Any] = NOW,
    key: tuple[str, ...] = ("id",),
    logged_key: bool = True,
) -> dict[str, Any]:
    """The target's row after its insert and an update with these columns in its images."""
    table = Table("shop", "t", COLUMNS, primary_key=list(key) if logged_key else None)
    log = Log("11.8.6-MariaDB")
    log.begin("shop")
    log.insert(table, [was])
    log.commit()
    target = str(tmp_path / "target")
    apply_changes(batch_of(log, tmp_path / "bin.000001"), target, key_columns=key)
    log = Log("11.8.6-MariaDB")
    log.begin("shop")
    log.update(table, [(was, now)], before_columns=before, after_columns=changed)
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000002"), target, key_columns=key)
    (row,) = DeltaTable(target).to_pyarrow_table().to_pylist()
    return dict(row)


@pytest.mark.parametrize(
    ("before", "changed"),
    [
        (BUT_GENERATED, BUT_GENERATED),
        (BUT_GENERATED, ["a"]),  # FULL_NODUP
        (NAMES[:4], NAMES[:4]),  # NOBLOB
        (BUT_G, BUT_G),
    ],
)
@pytest.mark.parametrize("key", [("id",), ("id", "k")])
def test_an_update_that_shows_that_a_column_is_missing_stops(
    before: list[str], changed: list[str], key: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(ApplyStopped, match="both images of an update lack g, so"):
        after(tmp_path, before, changed, key=key)
    assert DeltaTable(str(tmp_path / "target")).to_pyarrow_table().to_pylist() == [WAS]


@pytest.mark.parametrize("logged_key", [True, False])
@pytest.mark.parametrize(
    ("key", "before", "changed"),
    [
        (("id",), ["id"], ["a"]),
        (("id",), ["id"], ["id", "a"]),
        (("id", "k"), ["id", "k"], ["a"]),
        (("id",), [name for name in NAMES if name != "t"], [name for name in NAMES if name != "t"]),
        (("id",), None, ["a"]),
        (("id",), None, None),
    ],
    ids=["MINIMAL", "key set", "composite key", "NOBLOB", "FULL_NODUP", "FULL"],
)
def test_what_an_update_leaves_as_it_is_is_completed(
    key: tuple[str, ...],
    before: list[str] | None,
    changed: list[str] | None,
    logged_key: bool,
    tmp_path: Path,
) -> None:
    assert after(tmp_path, before, changed, key=key, logged_key=logged_key) == NOW


def test_a_minimal_image_by_a_key_that_the_log_does_not_have_is_completed(tmp_path: Path) -> None:
    """The server logs by UNIQUE (id, k), and the target has the key id."""
    assert after(tmp_path, ["id", "k"], ["a"], logged_key=False) == NOW


def test_a_minimal_image_before_an_added_column_is_completed(tmp_path: Path) -> None:
    """The batch has a column that the image's definition does not have, and so does not lack."""
    old, new = (Table("shop", "t", columns, primary_key=["id"]) for columns in (COLUMNS[:-1], COLUMNS))
    short = {name: WAS[name] for name in NAMES[:-1]}
    log = Log("8.4.0")
    log.begin("shop")
    log.insert(old, [short])
    log.update(old, [(short, short | {"a": 5})], before_columns=["id"], after_columns=["a"])
    log.commit()
    log.query("ALTER TABLE t ADD h VARCHAR(20)", "shop")
    log.begin("shop")
    log.insert(new, [WAS | {"id": 2}])
    log.commit()
    apply_changes(batch_of(log, tmp_path / "bin.000001"), str(tmp_path / "target"))
    rows = DeltaTable(str(tmp_path / "target")).to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == [NOW | {"h": None}, WAS | {"id": 2}]
