"""The directory of a mirror: one process works on it, and what it says is on disk."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from socket import gethostname

import pytest

pytest.importorskip("pyarrow")

from binlog_core._base import new_files as _new_files
from binlog_core.errors import MirrorError
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import new_state

DEEP = "[" * 200_000


def test_one_process_works_on_a_mirror_at_a_time(tmp_path: Path) -> None:
    """The second says at once who it is that does."""
    lake = Lake(str(tmp_path))
    who = rf"on this mirror: process {os.getpid()} on {re.escape(gethostname())}, since 20\d\d-.* UTC"
    with (
        lake.locked(),
        pytest.raises(MirrorError, match=who),
        Lake(str(tmp_path)).locked(),
    ):
        pass
    with lake.locked():
        pass


def test_a_lock_that_leads_to_a_file_of_others_leaves_it_alone(tmp_path: Path) -> None:
    (tmp_path / "lake" / "_mirror").mkdir(parents=True)
    (tmp_path / "foreign").write_text("kept")
    lock = tmp_path / "lake" / "_mirror" / "lock"
    lock.symlink_to(tmp_path / "foreign")
    with (
        pytest.raises(MirrorError, match="the lake cannot be written"),
        Lake(str(tmp_path / "lake")).locked(),
    ):
        pass
    lock.unlink()
    lock.hardlink_to(tmp_path / "foreign")
    with Lake(str(tmp_path / "lake")).locked():
        assert (tmp_path / "foreign").read_text() == "kept"


def test_a_state_is_on_disk_after_what_the_tables_have_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure after a save: neither an empty state, nor one that is ahead of its tables."""
    synced: list[tuple[list[str], list[str]]] = []
    lake = Lake(str(tmp_path))
    state = new_state("mysql://root@db1", ("a.*",), "archive")
    lake.save(state)
    real = _new_files.sync_filesystem

    def sync(folder: int) -> None:
        real(folder)
        synced.append(
            (sorted(os.listdir(folder)), sorted(path.name for path in tmp_path.rglob("*") if path.is_file()))
        )

    monkeypatch.setattr(_new_files, "sync_filesystem", sync)
    (tmp_path / "part.parquet").touch()
    lake.save(state)
    assert synced == [(["state.json", "state.json.new"], ["part.parquet", "state.json", "state.json.new"])]
    assert os.listdir(tmp_path / "_mirror") == ["state.json"]


def test_an_archive_elsewhere_is_on_disk_before_a_state_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file system is not synced with that of the lake."""
    lake, synced = Lake(str(tmp_path / "lake")), list[int]()
    archive = tmp_path / "archive"
    archive.mkdir()
    state = new_state("mysql://root@db1", ("a.*",), str(archive))
    monkeypatch.setattr(_new_files, "sync_filesystem", lambda folder: synced.append(os.fstat(folder).st_ino))
    lake.save(state)
    within = (tmp_path / "lake" / "_mirror").stat().st_ino
    assert synced == [within]  # both are on one
    lake.save(replace(state, archive="/dev"))
    if os.stat("/dev").st_dev == tmp_path.stat().st_dev:
        pytest.skip("all is on one file system")
    assert synced[1:] == [os.stat("/dev").st_ino, within]


def test_a_lake_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(MirrorError, match="the lake cannot be written"),
        Lake(str(tmp_path / "file")).locked(),
    ):
        pass


def test_a_folder_that_cannot_be_made_is_a_mirrors_error(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    (tmp_path / "_mirror" / "changes").mkdir(parents=True)
    (tmp_path / "_mirror" / "changes" / "left").touch()
    lake.make("changes")
    assert list((tmp_path / "_mirror" / "changes").iterdir()) == []
    lake.remove("changes")
    (tmp_path / "_mirror" / "changes").touch()
    with pytest.raises(MirrorError, match="the lake cannot be written"):
        lake.make("changes")


def test_what_kills_a_mirror_finds_what_it_waits_for(tmp_path: Path) -> None:
    """By name: `soak/phases.py` is run by nothing else here."""
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    pytest.importorskip("pymysql")
    soak = Path(__file__).parents[2] / "soak"
    program = "import sys; sys.path.insert(0, sys.argv[1]); from phases import tell; tell(sys.argv[2])"
    subprocess.run([sys.executable, "-c", program, soak, tmp_path / "phase"], check=True)
    assert (tmp_path / "phase").read_text().rstrip() == "between"
