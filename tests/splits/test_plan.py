"""Plans: which logs are read, in which order, under which number."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.writer import Log

from binlog_core import BinlogError, NotABinlogError
from binlog_core.splits import Split, plan_splits


def make(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(Log("8.0.36").getvalue())


def plan(target: object) -> list[tuple[str, int]]:
    splits = plan_splits(target)  # type: ignore[arg-type]
    assert [split.index for split in splits] == list(range(len(splits)))
    assert all(split.whole for split in splits)
    return [(Path(split.path).name, split.file_number) for split in splits]


def test_a_directory_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    make(tmp_path, "bin.999999", "bin.1000000", "bin.000042")
    (tmp_path / "bin.index").write_text("./bin.000042\n./bin.999999\n./bin.1000000\n")
    assert plan(tmp_path) == [("bin.000042", 42), ("bin.999999", 999_999), ("bin.1000000", 1_000_000)]


def test_an_index_file_and_a_pattern_and_a_list_read_each_log_once(tmp_path: Path) -> None:
    make(tmp_path, "bin.000001", "bin.000002", "bin.000003")
    (tmp_path / "bin.index").write_text("./bin.000001\n./bin.000002\n")
    both = [("bin.000001", 1), ("bin.000002", 2)]
    assert plan(tmp_path / "bin.index") == both
    assert plan(str(tmp_path / "bin.00000[12]")) == both
    assert plan([tmp_path / "bin.000002", tmp_path / "bin.index"]) == both
    assert len(plan(str(tmp_path / "bin.*"))) == 3


def test_logs_without_numbers_are_counted(tmp_path: Path) -> None:
    make(tmp_path, "b.binlog", "a.binlog")
    assert plan(tmp_path) == [("a.binlog", 1), ("b.binlog", 2)]


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "bin.000001")
    monkeypatch.chdir(tmp_path)
    assert plan_splits("bin.000001") == [Split(str(tmp_path / "bin.000001"), file_number=1)]


def test_a_path_that_looks_like_a_pattern(tmp_path: Path) -> None:
    make(tmp_path / "a[1]", "bin.000001")
    assert plan(str(tmp_path / "a[1]")) == [("bin.000001", 1)]


def test_two_logs_with_one_number_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "a", "bin.000001")
    make(tmp_path / "b", "bin.000001")
    with pytest.raises(BinlogError, match="number 1") as caught:
        plan_splits([tmp_path / "a", tmp_path / "b"])
    assert caught.value.path == str(tmp_path / "b" / "bin.000001")


def test_a_number_too_large_for_the_version(tmp_path: Path) -> None:
    make(tmp_path, "bin.8388607", "bin.8388608")
    assert plan(tmp_path / "bin.8388607") == [("bin.8388607", 2**23 - 1)]
    with pytest.raises(BinlogError, match="8388608"):
        plan_splits(tmp_path)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(NotABinlogError):
        plan_splits(tmp_path)
    with pytest.raises(BinlogError):
        plan_splits(tmp_path / "missing")
    with pytest.raises(BinlogError):
        plan_splits(str(tmp_path / "*.binlog"))
    with pytest.raises(BinlogError):
        plan_splits([])
