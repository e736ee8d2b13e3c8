"""What `open` was given, as logs in order: directories, index files, patterns."""

from __future__ import annotations

import gzip
import os
import pickle
import shutil
from pathlib import Path

import pytest
from support.archive import FakeServer
from support.golden import golden_logs
from support.sources import read_all, written

import binlog_core
from binlog_core._sources.log_files import IndexFile
from binlog_core._sources.log_names import Gap
from binlog_core._sources.resolve import resolve
from binlog_core.errors import BinlogError, DecompressionError, MissingFileError, NotABinlogError
from binlog_core.splits import plan_splits, read_split_groups

pytestmark = pytest.mark.sanitize_long

KILLED = golden_logs("mysql97/killed")[0]  # its descriptor marks it as in use
LOG = golden_logs("mysql97/stop")[0].data  # any log will do


@pytest.mark.parametrize("target", [None, 3, 4.5, {"a"}, {"a": 1}, object()])
def test_values_that_are_not_targets(target):
    with pytest.raises(BinlogError, match=type(target).__name__):
        resolve(target)


def names(target: object, **options: object) -> list[str]:
    return [os.path.basename(file.path) for file in resolve(target, **options)]


def test_a_directory_in_order(tmp_path):
    for name in ("bin.000009", "bin.000010", "bin.999999", "bin.1000000", "relay.000002", "alone.binlog"):
        written(tmp_path, LOG, name)
    written(tmp_path, gzip.compress(LOG), "bin.000011.gz")
    written(tmp_path, b"./bin.000009\n./bin.000010\n", "bin.index")
    written(tmp_path, b"", "bin.000012")
    written(tmp_path, b"text", "notes.000001")
    written(tmp_path, gzip.compress(b"text"), "notes.gz")
    (tmp_path / "bin.000013").mkdir()
    found = resolve(tmp_path)
    expected = [
        "alone.binlog",
        "bin.000009",
        "bin.000010",
        "bin.000011.gz",
        "bin.999999",
        "bin.1000000",
        "relay.000002",
    ]
    assert [os.path.basename(file.path) for file in found] == expected
    assert found.gaps == (Gap(str(tmp_path / "bin"), 12, 999998),)
    assert read_all(found[3].open()) == LOG
    assert [f.path for f in found[1:3]] == [str(tmp_path / "bin.000009"), str(tmp_path / "bin.000010")]


def test_a_numbered_file_that_is_not_a_log_is_a_gap(tmp_path):
    for number in (3, 4, 6):
        written(tmp_path, LOG, f"bin.{number:06}")
    for number in (2, 5, 7):
        written(tmp_path, b"\0" * 100, f"bin.{number:06}")
    base = str(tmp_path / "bin")
    assert resolve(tmp_path).gaps == (Gap(base, 2, 2), Gap(base, 5, 5), Gap(base, 7, 7))


def test_a_log_and_its_compressed_copy_are_one(tmp_path):
    written(tmp_path, LOG, "bin.000001")
    written(tmp_path, gzip.compress(LOG), "bin.000001.gz")
    assert names(tmp_path) == ["bin.000001"]


def test_files_with_the_same_number_are_reported(tmp_path):
    """The one that is named as servers do is read, whichever sorts first."""
    plain = written(tmp_path, LOG, "bin.000001")
    written(tmp_path, LOG, "bin.0000001")
    written(tmp_path, gzip.compress(LOG), "bin.000001.gz")
    packed = written(tmp_path, gzip.compress(LOG), "bin.000002.gz")
    written(tmp_path, LOG, "bin.02")
    found = resolve(tmp_path)
    assert [f.path for f in found] == [plain, packed]
    assert [(os.path.basename(one.path), one.kept) for one in found.left_out] == [
        ("bin.000001.gz", plain),
        ("bin.0000001", plain),
        ("bin.02", packed),
    ]
    with binlog_core.open(tmp_path) as log, pytest.warns(binlog_core.BinlogWarning, match="same number"):
        log.headers()
    assert log.report.files_left_out == 3


def test_a_link_to_itself_does_not_hide_the_other_files(tmp_path):
    written(tmp_path, LOG, "bin.000001")
    (tmp_path / "bin.000002").symlink_to(tmp_path / "bin.000002")
    assert names(tmp_path) == ["bin.000001"]


def test_a_directory_without_logs(tmp_path):
    written(tmp_path, b"text", "readme.txt")
    with pytest.raises(NotABinlogError, match="no binary log") as caught:
        resolve(str(tmp_path))
    assert caught.value.path == str(tmp_path)


def test_encrypted_and_in_use_logs_belong_to_a_directory(tmp_path):
    for i, log in enumerate([*golden_logs("*/encrypted"), KILLED]):
        written(tmp_path, log.data, f"bin.{i:06}")
    assert len(resolve(tmp_path)) == 4


def test_an_index_file(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("bin.000002", "bin.000001", "bin.000005", "bin.000006"):
        written(tmp_path, LOG, name)
    absolute = written(elsewhere, LOG, "bin.000004")
    lines = ["./bin.000001", "bin.000002", absolute, "/gone/away/bin.000005", r".\bin.000006"]
    for newline in ("\n", "\r\n"):
        index = written(tmp_path, newline.join([*lines, ""]).encode(), "bin.index")
        with pytest.raises(BinlogError, match=r"not beside it: .*bin\.000004"):
            resolve(index)
        found = resolve(IndexFile(index, absolute=True))
        assert [f.path for f in found] == [
            str(tmp_path / "bin.000001"),
            str(tmp_path / "bin.000002"),
            absolute,
            str(tmp_path / "bin.000005"),
            str(tmp_path / "bin.000006"),
        ]
        assert found[0].open().view() == LOG


def test_an_index_file_in_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, LOG, "bin.000001")
    written(tmp_path, LOG, "bin.000003")
    written(tmp_path, b"./bin.000001\n./bin.000003\n", "bin.index")
    found = resolve("bin.index")
    assert [f.path for f in found] == ["bin.000001", "bin.000003"]
    assert found.gaps == (Gap("bin", 2, 2),)


def test_an_index_file_whose_logs_are_gone(tmp_path):
    written(tmp_path, LOG, "bin.000002")
    index = written(tmp_path, b"./bin.000001\n./bin.000002\n./bin.000003\n", "bin.index")
    with pytest.raises(BinlogError, match=r"not beside it: \./bin\.000001, \./bin\.000003") as caught:
        resolve(index)
    assert caught.value.path == index


@pytest.mark.parametrize(
    "text", [b"", b"\n\n", b"a text\n", b"bin.000001\nand more\n", b"\xfebin", b"bin.000001\n\0"]
)
def test_text_that_is_not_an_index_file(tmp_path, text):
    path = written(tmp_path, text, "any")
    assert [f.path for f in resolve(path)] == [path]


def test_a_text_file_named_like_a_log_leads_nowhere(tmp_path):
    """Not even where each line names a log: the named files would be opened."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    secret = written(elsewhere, LOG, "bin.000007")
    for name in ("bin.000001", "list.txt"):
        path = written(tmp_path, f"{secret}\n".encode(), name)
        assert [f.path for f in resolve(path)] == [path]
        with pytest.raises(NotABinlogError):
            binlog_core.open(path)


@pytest.mark.parametrize(
    "line",
    [
        "http://localhost:1/bin.000001",
        "file:///{}/bin.000001",
        "simplecache::file://{}/bin.000001",
        "reference://bin.000001::file://{}/x.000001",
    ],
)
def test_an_index_file_names_no_urls(tmp_path, line):
    written(tmp_path, LOG, "bin.000001")
    index = written(tmp_path, line.format(tmp_path).encode(), "bin.index")
    for target in (index, IndexFile(index, absolute=True)):
        with pytest.raises(BinlogError, match="names a URL"):
            resolve(target)


def test_an_index_file_names_logs_beside_it_only(tmp_path):
    inner, outer = tmp_path / "logs", tmp_path / "outside"
    inner.mkdir()
    outer.mkdir()
    written(outer, LOG, "bin.000001")
    written(inner, LOG, "bin.000002")
    for line in ("../outside/bin.000001", str(outer / "bin.000001")):
        index = written(inner, line.encode(), "bin.index")
        with pytest.raises(BinlogError, match="not beside it"):
            resolve(index)
    index = written(inner, b"../outside/bin.000002\n", "logs.txt")
    assert [f.path for f in resolve(IndexFile(index))] == [str(inner / "bin.000002")]
    with pytest.raises(NotABinlogError, match="not an index file"):
        resolve(IndexFile(written(inner, LOG, "some")))


def test_log_files_are_a_picklable_sequence(tmp_path):
    written(tmp_path, LOG, "bin.000001")
    written(tmp_path, LOG, "bin.000002")
    found = resolve(tmp_path, mmap=False)
    assert len(found) == 2 and found[-1].path.endswith("2") and len(found[:1]) == 1
    assert read_all(pickle.loads(pickle.dumps(found[1])).open()) == LOG


def test_a_missing_file_is_a_file_not_found_error_too(tmp_path: Path) -> None:
    for target in (tmp_path / "nowhere.000001", str(tmp_path / "nowhere.*"), f"file://{tmp_path}/nowhere"):
        for read in (binlog_core.open, lambda target: binlog_core.splits.plan_splits(target, 1 << 20)):
            with pytest.raises(FileNotFoundError) as caught:
                read(target)
            error = caught.value
            assert isinstance(error, binlog_core.BinlogError)
            assert (error.errno, error.filename) == (2, error.path)
            assert "nowhere" in str(error)
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again), again.filename) == (type(error), str(error), error.filename)


def test_a_pattern_stands_for_the_logs_that_it_matches(tmp_path: Path) -> None:
    log = golden_logs("mysql97/types_ints")[0].path
    for name in ("log.000001", "log.000003", "log.index", "log.000001.json", "[x].000007"):
        shutil.copy(log, tmp_path / name)
    with binlog_core.open(f"{tmp_path}/log.*") as opened:
        assert [Path(file.path).name for file in opened.files] == ["log.000001", "log.000003"]
        assert [(gap.first, gap.last) for gap in opened.files.gaps] == [(2, 2)]
    with binlog_core.open(tmp_path / "[x].000007") as opened:  # the name of an existing file is not a pattern
        assert len(opened.files) == 1
    assert len(binlog_core.splits.plan_splits(f"{tmp_path}/log.*")) == 2


def test_a_pattern_that_matches_a_log_and_its_copy(tmp_path: Path) -> None:
    """Each log is read once, and in the order of the numbers, like those of a directory."""
    (first,) = golden_logs("mysql97/types_ints")
    data = Path(first.path).read_bytes()
    for name in ("log.1000000", "log.999999", "log.999999.orig"):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "log.999999.gz").write_bytes(gzip.compress(data))
    with binlog_core.open(first.path) as opened:
        count = sum(1 for _ in opened.rows())
    with binlog_core.open(f"{tmp_path}/log.*[0-9z]") as opened:
        assert [Path(file.path).name for file in opened.files] == ["log.999999", "log.1000000"]
        with pytest.warns(binlog_core.BinlogWarning, match="same number"):
            assert sum(1 for _ in opened.rows()) == 2 * count
        assert opened.report.files_left_out == 1
    with binlog_core.open(f"{tmp_path}/*.orig") as opened:
        assert sum(1 for _ in opened.rows()) == count
    (tmp_path / "notes.json").touch()
    (tmp_path / "binlog-core-index").write_bytes(b"not a log")
    assert [file.path for file in resolve(f"{tmp_path}/*")] == [
        file.path for file in resolve(f"{tmp_path}/log*")
    ]
    with pytest.raises(binlog_core.MissingFileError, match="no log matches the pattern"):
        binlog_core.open(f"{tmp_path}/*.json")


def test_what_a_shell_makes_of_a_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list also has copies, and the index file, which names the logs again: each is read once."""
    for number in (1, 2):
        written(tmp_path, LOG, f"bin.{number:06}")
    written(tmp_path, gzip.compress(LOG), "bin.000001.gz")
    written(tmp_path, b"./bin.000001\n./bin.000002\n", "bin.index")
    written(tmp_path, b"not a log", "binlog-core-index")
    found = resolve(sorted(str(path) for path in tmp_path.glob("bin*")))
    assert [os.path.basename(file.path) for file in found] == ["bin.000001", "bin.000002"]
    assert [(os.path.basename(path), os.path.basename(kept)) for path, kept in found.left_out] == [
        ("bin.000001.gz", "bin.000001")
    ]
    monkeypatch.chdir(tmp_path)
    again = resolve(["bin.000002", tmp_path, "./bin.000002", LOG, LOG])
    assert [file.name for file in again] == ["bin.000002", f"{tmp_path}/bin.000001", "<bytes>", "<bytes>"]


def test_splits_of_a_log_that_was_compressed_since_they_were_planned(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    server = FakeServer()
    for _ in range(200):
        server.transaction("n" * 100)
    path = tmp_path / server.current
    path.write_bytes(server.bytes_of(server.current))
    splits = plan_splits(path, 8 << 10)

    def keys() -> list[list[str]]:
        found = [[batch for group in read_split_groups(split) for batch in group.batches] for split in splits]
        return [[repr(row) for batch in batches for row in batch.to_pylist()] for batches in found]

    planned = keys()
    assert len(splits) > 2
    assert sum(map(len, planned)) == 200
    packed = zstandard.ZstdCompressor().compress(path.read_bytes())
    (tmp_path / f"{path.name}.zst").write_bytes(packed)
    path.unlink()
    assert keys() == planned
    (tmp_path / f"{path.name}.zst").write_bytes(packed[:-9])
    with pytest.raises(DecompressionError, match="cut"):
        read_split_groups(splits[1])
    (tmp_path / f"{path.name}.zst").unlink()
    with pytest.raises(MissingFileError):
        read_split_groups(splits[1])
