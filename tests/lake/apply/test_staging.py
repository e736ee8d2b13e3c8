"""Row images into files, in buckets of their keys: what is kept of each, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from binlog_core.lake.apply.changes import labels_of  # noqa: E402
from binlog_core.lake.apply.jobs import Folder  # noqa: E402
from binlog_core.lake.apply.keys import hashes  # noqa: E402
from binlog_core.lake.apply.staging import CAME, DELETE, GONE, INSERT, PUT, AppliedStatement, Staged, Stager  # noqa: E402

SCHEMA = pa.schema({"id": pa.int32(), "a": pa.string()})
NAMES = ("_change_type", "_commit_version", "_change_ordinal", "id", "a", "_absent", "_statement")
TYPES = (pa.string(), pa.int64(), pa.int64(), pa.int32(), pa.string(), pa.list_(pa.string()), pa.string())
BEFORE, AFTER = "update_preimage", "update_postimage"


def changes(*rows: tuple[Any, ...]) -> Any:
    schema = pa.schema(list(zip(NAMES, TYPES, strict=True)))
    return pa.RecordBatch.from_pylist([dict(zip(NAMES, row, strict=False)) for row in rows], schema)


def images_of(stager: Stager, staged: Staged) -> list[tuple[int, str | None, int, list[bool] | None]]:
    """Key, value, kind and missing columns of all images, in the order of the changes."""
    found = []
    for name, buckets, sizes in staged.files:
        assert len(buckets) == len(sizes)
        for images in stager.read(name, range(len(buckets))):
            ids, values = (column.to_pylist() for column in images.columns)
            lacks = [None] * len(ids) if images.lacks is None else images.lacks.tolist()
            places = zip(images.version.tolist(), images.ordinal.tolist(), strict=True)
            found += zip(places, zip(ids, values, images.op.tolist(), lacks, strict=True), strict=True)
    return [image for _, image in sorted(found)]


@pytest.fixture
def stager(tmp_path: Path) -> Stager:
    return Stager(Folder(str(tmp_path)), SCHEMA, (0,))


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (["a"], ["a"], {"a"}),
        (["a"], ["id", "a"], {"a"}),
        (["a"], None, set()),  # logged in the postimage
        (None, ["a"], set()),  # unchanged, as in MariaDB's FULL_NODUP
        (None, None, set()),
    ],
)
def test_computed_columns_that_no_image_of_an_update_has_are_reported(
    old: list[str] | None, new: list[str] | None, names: set[str], stager: Stager
) -> None:
    rows = [
        ("insert", 1, 0, 1, "x"),
        (BEFORE, 2, 0, 1, None if old else "x", old),
        (AFTER, 2, 1, 1, None if new else "y", new),
        ("delete", 3, 0, 1, None, ["a"]),
    ]
    assert replace(stager, computed=(1,))([changes(*rows)]).unlogged == names
    assert stager([changes(*rows)]).unlogged == set()
    assert replace(stager, computed=(1,))([changes(*rows[:1], *rows[3:])]).unlogged == set()


WHOLE = [
    ("insert", 1, 0, 1, "x"),
    (BEFORE, 2, 0, 1, "x"),
    (AFTER, 2, 1, 1, "y"),
    (BEFORE, 2, 2, 2, "m"),
    (AFTER, 2, 3, 3, "m"),
    ("delete", 3, 0, 4, "z"),
]


def test_of_whole_images_the_last_of_a_key_is_kept(stager: Stager) -> None:
    staged = stager([changes(*WHOLE)])
    assert (staged.images, staged.torn, staged.partial, staged.moved) == (6, False, False, [])
    assert images_of(stager, staged) == [
        (1, "y", INSERT, None),  # its row was inserted here
        (2, "m", GONE, None),
        (3, "m", CAME, None),
        (4, "z", DELETE, None),
    ]


def test_between_statements_every_image_counts(stager: Stager) -> None:
    statement = ("truncate", 2, 9, None, None, None, "TRUNCATE t")
    staged = stager([changes(*WHOLE[:3], statement)])
    assert staged.statements == [AppliedStatement(2, 9, "truncate", "TRUNCATE t")]
    assert images_of(stager, staged) == [(1, "x", INSERT, None), (1, "y", PUT, None)]


def test_an_image_takes_what_it_lacks_from_before_the_update(stager: Stager) -> None:
    staged = stager([changes((BEFORE, 1, 0, 1, None, ["a"]), (AFTER, 1, 1, None, "z", ["id"]))])
    assert images_of(stager, staged) == [(1, "z", PUT, None)]
    assert not staged.partial


def test_partial_images_of_a_row_that_moves_meet_in_one_bucket(stager: Stager) -> None:
    rows = []
    for i in range(9):
        rows += [(BEFORE, 1, 2 * i, i, None, ["a"]), (AFTER, 1, 2 * i + 1, i + 1, None, ["a"])]
    staged = stager([changes(*rows)])
    assert staged.partial
    keys = hashes([pa.array(range(10), pa.int32())]).tolist()
    assert [pair for pairs in staged.moved for pair in pairs.tolist()] == [
        [keys[i], keys[i + 1]] for i in range(9)
    ]
    assert {lacks and tuple(lacks) for *_, lacks in images_of(stager, staged)} == {(False, True)}
    assert len(set(staged.files[0][1])) > 1
    labelled = Stager(stager.place, SCHEMA, (0,), labels=labels_of(staged.moved))
    again = labelled.again([staged])
    assert len(set(again.files[0][1])) == 1
    assert images_of(labelled, again) == images_of(stager, staged)


def test_an_update_is_not_torn_by_the_size_of_a_batch(
    stager: Stager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_core.lake.apply.staging._CHUNK_ROWS", 2)
    batches = [changes(*WHOLE[:2]), changes(), changes(*WHOLE[2:4]), changes(*WHOLE[4:])]
    staged = stager(batches)
    assert (staged.images, staged.torn) == (6, False)
    assert [image[0] for image in images_of(stager, staged)] == [1, 1, 2, 3, 4]  # each in its own chunks


def test_what_cannot_be_staged(stager: Stager) -> None:
    assert stager([changes(WHOLE[2])]).torn
    assert stager([changes(WHOLE[1])]).torn
    assert stager([changes(WHOLE[1], WHOLE[4])]).torn  # of two updates
    assert stager([changes((None, 1, 0, None, None))]).unreadable
    with pytest.raises(ValueError, match="the key id is null or not in a row image"):
        stager([changes(("insert", 1, 0, None, "x"))])
    assert stager([]).files == []
