"""A directory of Parquet files as output, where others may have written anything."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from pyarrow.fs import LocalFileSystem  # noqa: E402
from support.export import file_of, written  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core._base import new_files as _new_files  # noqa: E402
from binlog_core._base.new_files import exchanged  # noqa: E402
from binlog_core.lake.exports.manifests import MANIFEST  # noqa: E402
from binlog_core.lake.tables import destination, parquet  # noqa: E402
from binlog_core.lake.tables.parquet import ParquetDirectory  # noqa: E402
from binlog_core.lake.tables.results import WrittenSplit  # noqa: E402
from binlog_core.splits import Split  # noqa: E402

DEEP = "[" * 200_000


@pytest.mark.parametrize("manifest", [DEEP, "nothing"])
def test_a_manifest_that_is_not_one_is_an_error(manifest: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(BinlogError, match="not a file that an export wrote"):
        ParquetDirectory(str(tmp_path), "run", overwrite=True).committed()


def test_a_manifest_without_what_it_ought_to_have_is_an_error(tmp_path: Path) -> None:
    table = {"database": "a", "table": "b", "directory": "a.b"}
    (tmp_path / MANIFEST).write_text(json.dumps({"run_id": "run", "tables": [table], "statements": []}))
    with pytest.raises(BinlogError, match="not one that an export wrote"):
        ParquetDirectory(str(tmp_path), "run").committed()


def test_a_manifest_longer_than_any_of_ours_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / MANIFEST).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BinlogError, match="bytes long"):
        ParquetDirectory(str(tmp_path), "run", overwrite=True).committed()


def run(output: Path, number: int) -> ParquetDirectory:
    """A run whose manifest differs from others'."""
    into = ParquetDirectory(str(output), f"run {number}", overwrite=True)
    into.begin()
    return into


def run_id(output: Path) -> str:
    found: str = json.loads((output / MANIFEST).read_text())["run_id"]
    return found


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_output_that_cannot_be_replaced_stays(
    tmp_path: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "exchanged", lambda *_: False)  # not every file system can
    output = tmp_path / "out"
    run(output, 1).commit([])
    into = run(output, 2)
    real, moves = into.filesystem, []

    class Failing:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def move(self, old: str, new: str) -> None:
            moves.append(new)
            if new == str(output) and len(moves) == 2:  # after that of the old output
                raise error
            real.move(old, new)

    into.filesystem = Failing()
    with pytest.raises((BinlogError, KeyboardInterrupt)):
        into.commit([])
    into.abort()
    assert moves[1] == str(output)
    assert run_id(output) == "run 1"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_run_left_that_was_killed_at_its_end_goes_when_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = run(tmp_path / "out", 1)
    monkeypatch.setattr(killed, "abort", lambda: os.close(killed._lock))
    killed.commit([])
    assert len(list(tmp_path.iterdir())) == 2
    assert ParquetDirectory(str(tmp_path / "out"), "run 1").committed() == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="directories are exchanged by Linux")
def test_there_is_an_output_while_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    run(output, 1).commit([])
    into = run(output, 2)
    seen = []

    def watched(one: str, other: str) -> bool:
        seen.append((run_id(output), run_id(Path(one))))
        done = exchanged(one, other)
        seen.append((run_id(output), run_id(Path(one))))
        return done

    monkeypatch.setattr(parquet, "exchanged", watched)
    into.commit([])
    assert seen == [("run 1", "run 2"), ("run 2", "run 1")]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_output_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the names: a state that says that the run is done is written after it."""
    done: list[str] = []
    output = tmp_path / "out"
    into = run(output, 1)
    (Path(into.notes) / "a.parquet").touch()

    def seen(name: str, real: Any) -> Any:
        def call(folder: int | str) -> None:
            real(folder)
            there = sorted(name for name in os.listdir(folder) if not name.startswith("."))
            done.append(f"{name}: {' '.join(there)}")

        return call

    monkeypatch.setattr(_new_files, "sync_filesystem", seen("all", _new_files.sync_filesystem))
    monkeypatch.setattr(parquet, "sync_directory", seen("names", _new_files.sync_directory))
    into.commit([])
    assert done == [f"all: {MANIFEST}.new", "names: out"]


def test_what_killed_runs_left_goes_and_what_they_were_replacing_comes_back(tmp_path: Path) -> None:
    output = tmp_path / "out"
    run(output, 1).commit([])
    killed = run(output, 2)
    os.close(killed._lock)  # as the end of its process does
    assert output.rename(Path(killed.notes).parent / "replaced").exists()
    with pytest.raises(BinlogError, match="the output exists"):
        ParquetDirectory(str(output), "run 3")
    assert run_id(output) == "run 1"
    run(output, 4).commit([])
    assert run_id(output) == "run 4"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_two_exports_at_once_to_one_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    run(output, 1).commit([])
    late = ParquetDirectory(str(output), "late", overwrite=True)
    into = run(output, 2)
    real = into.filesystem

    def refused() -> None:
        with pytest.raises(BinlogError, match="another export writes to this output"):
            late.begin()
        late.abort()
        with pytest.raises(BinlogError, match="another export writes to this output"):
            ParquetDirectory(str(output), "run 3", overwrite=True)

    class Between:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def move(self, old: str, new: str) -> None:
            refused()
            real.move(old, new)

    refused()
    into.filesystem = Between()
    monkeypatch.setattr(parquet, "exchanged", lambda *_: False)
    into.commit([])
    assert run_id(output) == "run 2"
    late.begin()
    late.commit([])
    assert run_id(output) == "late"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_of_two_exports_that_begin_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [ParquetDirectory(str(tmp_path / "out"), name) for name in ("one", "two")]
    check, both, ended = ParquetDirectory._check, threading.Barrier(2), []

    def together(self: ParquetDirectory, overwrite: bool) -> bool:
        with contextlib.suppress(threading.BrokenBarrierError):  # the other one waits
            both.wait(1)
        return check(self, overwrite)

    def begin(output: ParquetDirectory) -> None:
        try:
            output.begin()
        except BinlogError as error:
            ended.append(error.message)

    monkeypatch.setattr(ParquetDirectory, "_check", together)
    threads = [threading.Thread(target=begin, args=(output,)) for output in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [text.partition(":")[0] for text in ended] == ["another export writes to this output"]


def test_an_output_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    output = tmp_path / "out"
    late = ParquetDirectory(str(output), "late")
    run(output, 1).commit([])
    with pytest.raises(BinlogError, match="the output exists"):
        late.begin()
    late.abort()
    assert run_id(output) == "run 1"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


class Store:
    """A local directory as a store: no locks, no names of directories to rename, only whole objects."""

    type_name = "store"

    def __init__(self) -> None:
        self._real = LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def move(self, old: str, new: str) -> None:
        Path(new).parent.mkdir(parents=True, exist_ok=True)
        self._real.move(old, new)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination, "open_filesystem", lambda path, options=None: (Store(), path))


def exported(output: Path, number: int, into: ParquetDirectory | None = None) -> list[WrittenSplit]:
    """A run's files, of which two have the same rows in all runs."""
    into = into or run(output, number)
    schema = pa.schema([("id", pa.int32())])
    files = []
    for i in range(3):
        name = f"{into.prefix}{i}.parquet"
        (Path(into.notes) / name).write_bytes(b"x" * (10 + (i == 2) * number))
        files.append(file_of(name, f"t{i}", schema, bytes=10 + (i == 2) * number))
    return [written(Split("bin.000001"), files=tuple(files))]


def whose(output: Path) -> str | None:
    """The run that an output is of; None if its files are not those that its manifest names."""
    if not (output / MANIFEST).exists():
        return None
    manifest = json.loads((output / MANIFEST).read_text())
    named = {
        output / one["directory"] / file["name"]: file["bytes"]
        for one in manifest["tables"]
        for file in one["files"]
    }
    there = {path: path.stat().st_size for path in output.rglob("*.parquet")}
    found: str = manifest["run_id"]
    return found if there == named else None


@pytest.mark.parametrize("step", range(7))
def test_of_two_exports_that_replace_an_output_in_a_store_the_last_tells(
    tmp_path: Path, store: None, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The second begins after the first, and commits between two steps of the first's commit."""
    monkeypatch.setattr(parquet, "_MOVING_THREADS", 1)
    output = tmp_path / "out"
    first = run(output, 0)
    first.commit(exported(output, 0, first))
    assert whose(output) == "run 0"
    one, other = run(output, 1), run(output, 2)
    splits, theirs = exported(output, 1, one), exported(output, 2, other)
    steps = 0

    class Between(Store):
        def _step(self) -> None:
            nonlocal steps
            steps += 1
            if steps == step + 1:
                with contextlib.suppress(BinlogError):
                    other.commit(theirs)

        def delete_dir_contents(self, path: str) -> None:
            self._step()
            self._real.delete_dir_contents(path)

        def move(self, old: str, new: str) -> None:
            self._step()
            super().move(old, new)

        def open_output_stream(self, path: str) -> Any:
            self._step()
            return self._real.open_output_stream(path)

        def get_file_info(self, what: Any) -> Any:
            if steps > 4:
                self._step()
            return self._real.get_file_info(what)

    one.filesystem = Between()
    try:
        one.commit(splits)
    except BinlogError as error:
        assert "another export wrote to this output at the same time" in error.message
        assert whose(output) != "run 1"
    else:
        assert whose(output) == "run 1"
    assert steps > step
    last = run(output, 3) if whose(output) else None
    if last is not None:
        last.commit(exported(output, 3, last))
        assert whose(output) == "run 3"


def test_files_that_were_removed_from_under_an_export_leave_the_earlier_one(
    tmp_path: Path, store: None
) -> None:
    output = tmp_path / "out"
    first = run(output, 0)
    first.commit(exported(output, 0, first))
    into = run(output, 1)
    splits = exported(output, 1, into)
    next(Path(into.notes).glob("*.parquet")).unlink()
    with pytest.raises(BinlogError, match="1 files that the export wrote were removed"):
        into.commit(splits)
    assert whose(output) == "run 0"


def test_a_staging_directory_in_a_store_goes_when_it_is_old(tmp_path: Path, store: None) -> None:
    """A run that writes to it may be on another machine."""
    killed = Path(run(tmp_path / "out", 1).notes).parent
    (killed / "written" / "a.parquet").touch()
    run(tmp_path / "out", 2)
    assert killed.exists()
    long_ago = time.time() - 2 * 86_400
    for path in (killed, *killed.rglob("*")):
        os.utime(path, (long_ago, long_ago))
    run(tmp_path / "out", 3)
    assert not killed.exists()


@pytest.mark.parametrize("name", ["README", "shop.t0/_delta_log/00.json", "shop.t0/mine.parquet", "mine/x"])
def test_files_of_others_in_an_output_are_not_removed(tmp_path: Path, name: str) -> None:
    output = tmp_path / "out"
    first = run(output, 1)
    first.commit(exported(output, 1, first))
    (output / name).parent.mkdir(parents=True, exist_ok=True)
    (output / name).write_text("kept")
    with pytest.raises(BinlogError, match=f"the output has {name}, which the earlier export did not write"):
        ParquetDirectory(str(output), "run 2", overwrite=True)
    assert (output / name).read_text() == "kept"
    assert run_id(output) == "run 1"
    (output / name).unlink()
    into = run(output, 2)
    into.commit(exported(output, 2, into))
    assert whose(output) == "run 2"


def test_directories_with_nearly_the_name_of_ours_stay(tmp_path: Path) -> None:
    output, foreign = tmp_path / "out", tmp_path / "foreign"
    (foreign / "replaced").mkdir(parents=True)
    (foreign / "kept").touch()
    near = tmp_path / ".out.mine.staging"
    near.mkdir()
    link = tmp_path / f".out.{'0' * 32}.staging"
    link.symlink_to(foreign)
    run(output, 1).commit([])
    assert run_id(output) == "run 1"
    assert near.is_dir() and link.is_symlink() and (foreign / "kept").exists()


def test_links_and_directories_of_others_are_not_what_killed_runs_left(tmp_path: Path) -> None:
    """A link would lead to somebody's output, which would be taken for the one that is to come back."""
    foreign = tmp_path / "foreign"
    (foreign / "replaced").mkdir(parents=True)
    (tmp_path / f".out.{'a' * 32}.staging").symlink_to(foreign)
    (tmp_path / ".out.mine.staging").mkdir()
    run(tmp_path / "out", 1).commit([])
    assert (foreign / "replaced").is_dir()
    assert (tmp_path / f".out.{'a' * 32}.staging").is_symlink()
    assert (tmp_path / ".out.mine.staging").is_dir()
