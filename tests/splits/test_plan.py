"""Plans: which logs are read, in which order, under which number, and where they are cut."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from support.forged import transactions
from support.golden import golden_logs
from support.splits import cut, read, read_all, without_an_annotation, write
from support.truth import differences
from support.writer import Log

import binlog_core
from binlog_core import BinlogError, NotABinlogError
from binlog_core.splits import Split, plan_splits

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


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


def test_a_log_with_gaps_is_one_split(tmp_path: Path) -> None:
    """Where its events lie is not where they say, so a worker in the middle would find none."""
    [golden] = golden_logs("maria118/dml_mixed")
    path = without_an_annotation(golden, tmp_path / "bin.000001", behind=0)
    assert [split.whole for split in plan_splits(path, 500)] == [True]
    for splits in ([Split(str(path))], cut(path, 500)):
        changes, _ = read_all(splits)
        assert differences(changes, golden, golden.known, place=False) == []


def test_plan(tmp_path: Path) -> None:
    for number in (2, 10):
        log = Log("8.0.36")
        transactions(log)
        write(tmp_path / f"mysql-bin.{number:06}", log)
    size = os.path.getsize(tmp_path / "mysql-bin.000002")
    splits = plan_splits(tmp_path, 1000)
    assert [s.index for s in splits] == list(range(len(splits)))
    assert [s.file_number for s in splits] == sorted(s.file_number for s in splits)
    first = [s for s in splits if s.file_number == 2]
    assert [first[0].start, *(s.end for s in first)] == [*(s.start for s in first), size]
    lengths = [s.end - s.start for s in first if s.end is not None]
    assert max(lengths) <= 1000 and max(lengths) - min(lengths) <= 1
    assert len(first) == -(-size // 1000)
    assert first[1].version_base == 2 << 40 and not first[1].whole
    assert [s.whole for s in plan_splits(tmp_path)] == [True, True]
    assert plan_splits(tmp_path, 0) == plan_splits(tmp_path)
    assert pickle.loads(pickle.dumps(splits)) == splits
    with pytest.raises(ValueError, match="split_size=-1: expected bytes, or 0 for whole logs"):
        plan_splits(tmp_path, -1)


def old_log() -> bytes:
    log = Log("4.1.22", binlog_version=3)
    for i in range(30):
        log.query(f"INSERT INTO t VALUES ({i})", "shop")
    return log.getvalue()


def v1_log() -> bytes:
    log = Log("3.23.58", binlog_version=1)
    for i in range(30):
        log.query(f"INSERT INTO t VALUES ({i})", "shop")
    return log.getvalue()


def relay_log() -> bytes:
    source = Log("8.0.36")
    source.previous_gtids()
    transactions(source)
    log = Log("8.0.36")
    log.rotate("binlog.000007")
    log.raw(source.getvalue()[4:])
    return log.getvalue()


def packed_log() -> bytes:
    import gzip

    log = Log("8.0.36")
    transactions(log)
    return gzip.compress(log.getvalue(), 0)


@pytest.mark.parametrize("make", [v1_log, old_log, relay_log, packed_log])
def test_logs_that_cannot_be_split(make: Callable[[], bytes], tmp_path: Path) -> None:
    """One split; and if someone cuts them all the same, the first has everything."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(make())
    assert [s.whole for s in plan_splits(path, 200)] == [True]
    with binlog_core.open(path) as log:
        whole = [(c.position, c.after) for c in log.rows()]
    changes, results = read_all(cut(path, 200))
    assert [(c.position, c.after) for c in changes] == whole
    assert [r.first_anchor for r in results] == [4, *[None] * (len(results) - 1)]


@pytest.mark.parametrize("name", ["mysql97/encrypted", "maria1011/encrypted"])
def test_encrypted_logs_are_one_split(name: str) -> None:
    (golden,) = golden_logs(name)
    assert [s.whole for s in plan_splits(golden.path, 500)] == [True]


@pytest.mark.parametrize("data", [b"\xfebin", b"\xfebin" + bytes(8)])
def test_logs_just_begun(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    (split,) = plan_splits(path, 2)
    assert read(split)[0] == []


def test_the_same_targets_as_everywhere(tmp_path: Path) -> None:
    """Paths, patterns, directories, lists and open logs; what has no path cannot be a split."""
    [golden] = golden_logs("mysql97/dml_partitioned")
    for number in (1, 2, 3):
        (tmp_path / f"bin.00000{number}").write_bytes(golden.data)
    paths = [f"{tmp_path}/bin.00000{number}" for number in (1, 2, 3)]
    expected = [split.path for split in plan_splits(paths, 500)]
    assert [*dict.fromkeys(expected)] == paths
    for target in (tmp_path, f"{tmp_path}/bin.*", iter(paths), {*paths}, binlog_core.open(tmp_path)):
        assert [split.path for split in plan_splits(target, 500)] == expected
    with binlog_core.open(tmp_path, start=(paths[1], 4)) as log:
        assert [split.path for split in plan_splits(log)] == paths[1:]
        assert [split.path for split in plan_splits([log, paths[0]])] == paths
        with pytest.raises(TypeError, match="already open"):
            plan_splits(log, storage_options={})
    for target in (golden.data, BytesIO(golden.data), binlog_core.open(golden.data), [golden.data]):
        with pytest.raises(BinlogError, match="splits need a path"):
            plan_splits(target)
    with pytest.raises(BinlogError, match="not a server"):
        plan_splits("mysql://user@host")
