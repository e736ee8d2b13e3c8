"""Where the work of an apply is done, and where its files are meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

from binlog_core.lake.apply.jobs import Folder, Here, InMemory  # noqa: E402


def test_a_workspace_is_gone_at_the_end(tmp_path: Path) -> None:
    place = Folder(str(tmp_path / "t"), {"secret": "x"})
    assert "x" not in repr(place).replace(str(tmp_path), "")
    with pytest.raises(ValueError, match="stop"), place.workspace() as inner:
        with inner.open().open_output_stream("a.arrow") as sink:
            sink.write(b"abc")
        (found,) = (tmp_path / "t").iterdir()
        assert found.name.startswith("_binlog_")
        assert (found / "a.arrow").read_bytes() == b"abc"
        raise ValueError("stop")
    assert not (tmp_path / "t").exists()  # nothing else was there
    place.make()
    (tmp_path / "t" / "kept").touch()
    with place.workspace():
        pass
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["kept"]


def test_work_in_this_process_sees_the_changes_in_order() -> None:
    changes = pa.table({"_commit_version": [7, 3, 7], "_change_ordinal": [1, 0, 0], "id": [3, 1, 2]})
    jobs = Here(changes)
    (found,) = jobs.stage(lambda batches: [i for batch in batches for i in batch["id"].to_pylist()])
    assert found == [1, 2, 3]
    assert jobs.run(lambda task: task * 2, [2, 1]) == [4, 2]


def test_memory_holds_files_as_a_directory_does() -> None:
    place = InMemory("")
    with place.open().open_output_stream("a") as sink:
        sink.write(b"one")
        assert sink.tell() == 3
    with place.open().open_input_file("a") as source:
        assert source.read() == b"one"
    with pytest.raises(KeyError):
        place.open().open_input_file("b")


def test_changes_in_order_are_not_sorted_again() -> None:
    changes = pa.table({"_commit_version": [1, 1, 2], "_change_ordinal": [0, 1, 0], "v": ["a", "b", "c"]})
    (same,) = Here(changes).stage(lambda batches: pa.Table.from_batches(list(batches)))
    assert same["v"].chunk(0).buffers()[2].address == changes["v"].chunk(0).buffers()[2].address
    (sorted_,) = Here(changes.take([2, 1, 0])).stage(lambda batches: pa.Table.from_batches(list(batches)))
    assert sorted_ == changes
