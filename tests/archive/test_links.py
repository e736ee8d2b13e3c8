"""Links, FIFOs and foreign files in an archive's folder: nothing outside it is touched or waited for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.archive import FakeServer, archive, busy, segments

from binlog_core.archive.files import Files, locked
from binlog_core.archive.store import Store, Uploader
from binlog_core.errors import ArchiveError


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Somebody's folder, with files that look like the archiver's."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name in ("letter.txt", "bin.000001", ".unfinished-x"):
        (folder / name).write_bytes(b"of somebody else")
    return folder


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to], ids=["symbolic", "hard"])
def test_a_lock_that_is_a_link_is_refused(
    tmp_path: Path, foreign: Path, make: Callable[[Path, Path], None]
) -> None:
    kept = _contents(foreign)
    make(tmp_path / ".lock", foreign / "letter.txt")
    with pytest.raises(ArchiveError, match="cannot lock"), locked(str(tmp_path)):
        pass
    assert _contents(foreign) == kept


def test_a_lock_that_is_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(ArchiveError, match="cannot lock"), locked(str(tmp_path)):
        pass


def test_a_growing_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    server, folder = busy(FakeServer(), 5), tmp_path / "archive"
    archive(server, folder)
    other = tmp_path / "other.log"
    (folder / server.current).rename(other)
    (folder / server.current).symlink_to(other)
    held = other.read_bytes()
    busy(server, 3)
    with pytest.raises(ArchiveError, match="symbolic link"):
        archive(server, folder)
    assert other.read_bytes() == held


def test_a_timeline_that_is_a_link_is_refused(tmp_path: Path) -> None:
    server, folder = busy(FakeServer(), 5), tmp_path / "archive"
    archive(server, folder)
    (folder / "timeline.json").rename(tmp_path / "timeline.json")
    (folder / "timeline.json").symlink_to(tmp_path / "timeline.json")
    with pytest.raises(ArchiveError, match=r"timeline\.json is a symbolic link"):
        archive(server, folder)


def test_a_segment_that_is_a_link_is_refused(tmp_path: Path, foreign: Path) -> None:
    """A server with another history begins a segment, where a link waits."""
    server, folder, kept = busy(FakeServer(), 8), tmp_path / "archive", _contents(foreign)
    archive(server, folder)
    (folder / "timeline-2").symlink_to(foreign)
    server.reset()
    busy(server, 4, seed=5)
    with pytest.raises(ArchiveError, match="start a segment"):
        archive(server, folder)
    assert _contents(foreign) == kept


def test_the_last_segment_that_became_a_link_is_refused(tmp_path: Path, foreign: Path) -> None:
    server, folder, kept = busy(FakeServer(), 8), tmp_path / "archive", _contents(foreign)
    archive(server, folder)
    server.reset()
    busy(server, 4, seed=5)
    archive(server, folder)
    last = folder / segments(folder)[-1]["folder"]
    last.rename(tmp_path / "moved")
    last.symlink_to(foreign)
    with pytest.raises(ArchiveError, match="read the archive's directory"):
        archive(server, folder)
    assert _contents(foreign) == kept


def test_files_in_a_new_segments_folder_stay(tmp_path: Path) -> None:
    server, folder = busy(FakeServer(), 8), tmp_path / "archive"
    archive(server, folder)
    (folder / "timeline-2").mkdir()
    (folder / "timeline-2" / "letter.txt").write_text("mine")
    (folder / "timeline-2" / "other.000001").write_text("mine, too")
    server.reset()
    busy(server, 4, seed=5)
    with pytest.raises(ArchiveError, match=r"holds logs \(other\.000001"):
        archive(server, folder)
    (folder / "timeline-2" / "other.000001").rename(tmp_path / "other.000001")
    archive(server, folder)
    assert (folder / "timeline-2" / "letter.txt").read_text() == "mine"
    assert len(segments(folder)) == 2


@pytest.mark.parametrize("act", ["open", "new", "remove", "rename", "names", "sync"])
def test_no_call_goes_through_a_segment_that_is_a_link(tmp_path: Path, foreign: Path, act: str) -> None:
    """As if it were put there between the archiver's look and its act."""
    files, kept = Files(), _contents(foreign)
    segment = tmp_path / "timeline-2"
    segment.symlink_to(foreign)
    inside = str(segment / "bin.000001")
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: files.open(inside),
        "new": lambda: files.open(inside + "9", new=True),
        "remove": lambda: files.remove(inside),
        "rename": lambda: files.rename(inside, inside + "9"),
        "names": lambda: files.names(str(segment)),
        "sync": lambda: files.sync_directory(str(segment)),
    }
    with pytest.raises(NotADirectoryError):
        calls[act]()
    assert _contents(foreign) == kept


def test_the_archives_own_folder_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "archive").symlink_to(tmp_path / "disk")
    server = busy(FakeServer(), 5)
    archive(server, tmp_path / "archive")
    assert (tmp_path / "disk" / server.current).read_bytes() == server.bytes_of(server.current)


def test_a_spool_is_cleared_of_its_own_logs_only(tmp_path: Path, foreign: Path) -> None:
    spool = tmp_path / "spool"
    for folder in (spool, spool / "timeline-2", spool / "mine"):
        folder.mkdir()
        (folder / "bin.000001").write_bytes(b"old")
    (spool / "timeline-3").symlink_to(foreign)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "bin.000002").write_bytes(b"new")
    store = Store(f"file://{tmp_path}/store", None, patience=1.0, stop=threading.Event())
    uploader = Uploader(store, str(spool), 30.0)
    uploader._timeline = b"{}"
    uploader._fetch("", "bin.000002")
    assert sorted(path.name for path in spool.glob("bin.*")) == ["bin.000002"]
    assert not (spool / "timeline-2" / "bin.000001").exists()
    assert (spool / "mine" / "bin.000001").exists() and (foreign / "bin.000001").exists()
