"""Files that appear whole: the next writer removes what a killed one left."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from binlog_core._base import new_files as _new_files
from binlog_core._base.new_files import exchanged, put_durably, sync_filesystem, unfinished

WRITER = """
import sys
from binlog_core._base.new_files import unfinished
with unfinished(sys.argv[1]):
    print(flush=True)
    sys.stdin.read()
"""


def test_what_killed_writers_left_goes_and_what_others_write_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    (tmp_path / ".other.x.tmp").write_bytes(b"not ours")
    pipe = subprocess.PIPE
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path], stdin=pipe, stdout=pipe) for _ in "ab"]
    for one in writers:
        assert one.stdout is not None
        one.stdout.readline()
    writers[0].send_signal(signal.SIGKILL)
    writers[0].communicate()
    assert len(list(tmp_path.glob(".out.*"))) == 2
    with unfinished(path) as made:
        made.file.write(b"whole")
        made.file.flush()
        made.finish()
        assert len(list(tmp_path.glob(".out.*"))) == 1
    writers[1].communicate()
    assert writers[1].returncode == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == [".other.x.tmp", "out"]
    assert path.read_bytes() == b"whole"


MANY_WRITERS = """
import sys
from binlog_core._base.new_files import unfinished
for number in range(200):
    with unfinished(sys.argv[1]) as made:
        made.file.write(b"whole")
        made.finish()
"""


def test_writers_of_one_path_do_not_take_each_other_s_files_for_left_ones(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY_WRITERS, tmp_path / "out"]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    assert [one.communicate()[1] for one in writers] == [b""] * 4
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_bytes() == b"whole"


def test_a_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), unfinished(tmp_path / "out") as made:
        made.file.write(b"half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="directories are exchanged by Linux")
def test_two_directories_change_names_or_neither(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert exchanged(str(tmp_path / "one"), str(tmp_path / "other"))
    assert (tmp_path / "one" / "file").read_text() == "other"
    assert (tmp_path / "other" / "file").read_text() == "one"
    with pytest.raises(FileNotFoundError):
        exchanged(str(tmp_path / "one"), str(tmp_path / "neither"))
    assert (tmp_path / "one" / "file").read_text() == "other"


def test_a_small_file_is_on_disk_with_all_that_was_written_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes before its name, its name before it returns."""
    done: list[str] = []

    def seen(name: str, real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> None:
            real(*arguments, **options)
            there = {one.name: one.read_text() for one in tmp_path.iterdir()}
            done.append(f"{name}: {' '.join(map('='.join, sorted(there.items())))}")

        return call

    path = tmp_path / "state"
    path.write_text("old")
    monkeypatch.setattr(_new_files, "sync_filesystem", seen("all", sync_filesystem))
    monkeypatch.setattr(os, "replace", seen("renamed", os.replace))
    monkeypatch.setattr(os, "fsync", seen("folder", os.fsync))
    put_durably(str(path), b"new")
    assert done == ["all: state=old state.new=new", "renamed: state=new", "folder: state=new"]


def test_a_folder_that_became_a_link_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is put there while a file is written: the file lies in the folder as it was."""
    for name in ("out", "foreign"):
        (tmp_path / name).mkdir()

    def swap(*_: Any) -> None:
        (tmp_path / "out").rename(tmp_path / "moved")
        (tmp_path / "out").symlink_to(tmp_path / "foreign")

    with unfinished(tmp_path / "out" / "file") as made:
        made.file.write(b"rows")
        swap()
        made.finish()
    assert (tmp_path / "moved" / "file").exists() and os.listdir(tmp_path / "foreign") == []
    (tmp_path / "out").unlink()
    (tmp_path / "moved").rename(tmp_path / "out")
    monkeypatch.setattr(_new_files, "sync_filesystem", swap)
    put_durably(str(tmp_path / "out" / "state"), b"new")
    assert sorted(os.listdir(tmp_path / "moved")) == ["file", "state"]
    assert os.listdir(tmp_path / "foreign") == []


def test_a_path_is_read_as_the_system_reads_it(tmp_path: Path) -> None:
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "inner")
    (tmp_path / "out").write_text("kept")
    with unfinished(tmp_path / "link" / ".." / "out") as made:
        made.file.write(b"new")
        made.file.flush()
        made.finish()
    assert (tmp_path / "far" / "out").read_bytes() == b"new"
    assert (tmp_path / "out").read_text() == "kept" and len(list(tmp_path.rglob("*out*"))) == 2


@pytest.mark.parametrize("new", [True, False])
def test_a_link_in_the_place_of_what_was_written_is_not_followed(tmp_path: Path, new: bool) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_text("kept")
    with unfinished(tmp_path / "out") as made:
        (hidden,) = tmp_path.glob(".out.*.tmp")
        hidden.unlink()
        hidden.symlink_to(foreign)
        made.finish(new=new)
    assert foreign.stat().st_nlink == 1 and (tmp_path / "out").is_symlink()


def test_a_small_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "foreign").write_text("kept")
    (tmp_path / "state.new").symlink_to(tmp_path / "foreign")
    put_durably(str(tmp_path / "state"), b"new")
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"foreign": "kept", "state": "new"}


def test_what_cannot_be_synced_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        @staticmethod
        def syncfs(descriptor: int) -> int:
            ctypes.set_errno(errno.EIO)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Library)
    (tmp_path / "state").write_text("old")
    with pytest.raises(OSError, match="Input/output error"):
        put_durably(str(tmp_path / "state"), b"new")
    assert (tmp_path / "state").read_text() == "old"
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())  # a system without that call
    monkeypatch.setattr(os, "sync", lambda: (tmp_path / "synced").touch())
    put_durably(str(tmp_path / "state"), b"new")
    assert (tmp_path / "synced").exists()


def test_only_what_killed_writers_left_goes(tmp_path: Path) -> None:
    """Others' files stay, links lead nowhere, and nothing waits for the other end of a FIFO."""
    (tmp_path / "foreign").write_bytes(b"mine")
    (tmp_path / ".out.abcd1234.tmp").symlink_to(tmp_path / "foreign")
    (tmp_path / ".out.my-own-notes.tmp").write_bytes(b"mine")
    os.mkfifo(tmp_path / ".out.fifo1234.tmp")
    (tmp_path / ".out.left1234.tmp").write_bytes(b"left")
    with unfinished(tmp_path / "out"):
        pass
    kept = [".out.abcd1234.tmp", ".out.fifo1234.tmp", ".out.my-own-notes.tmp", "foreign"]
    assert sorted(one.name for one in tmp_path.iterdir()) == kept


def test_files_of_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".out.left1234.tmp").write_bytes(b"left")
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with unfinished(tmp_path / "out"):
            pass
    assert (tmp_path / ".out.left1234.tmp").exists()
