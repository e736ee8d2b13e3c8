"""Files opened as themselves: links below a folder lead nowhere, also those put there while it is used."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog_core._base import own_files


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Somebody's folder."""
    (tmp_path / "foreign" / "inner").mkdir(parents=True)
    (tmp_path / "foreign" / "file").write_text("kept")
    (tmp_path / "foreign" / "inner" / "file").write_text("kept")
    return tmp_path / "foreign"


def _contents(folder: Path) -> dict[str, str]:
    return {str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*") if one.is_file()}


ACTS: dict[str, Callable[[str, str], object]] = {
    "open": lambda path, root: os.close(own_files.open_itself(path, os.O_RDWR, root=root)),
    "create": lambda path, root: own_files.create(path, root).close(),
    "rename": lambda path, root: own_files.rename(path, f"{path}.new", root),
    "remove": lambda path, root: own_files.remove(path, root),
    "remove a folder": lambda path, root: own_files.remove_folder(f"{os.path.dirname(path)}/inner", root),
    "make a folder": lambda path, root: own_files.make_folder(f"{os.path.dirname(path)}/new", root),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("depth", [1, 2])
def test_no_act_goes_through_a_folder_that_is_a_link(
    tmp_path: Path, foreign: Path, act: str, depth: int
) -> None:
    root, kept = tmp_path / "out", _contents(foreign)
    root.mkdir()
    inside = root / "table"
    if depth == 2:
        inside.mkdir()
        inside /= "part"
    inside.symlink_to(foreign)
    with pytest.raises(NotADirectoryError, match="is a link or a file"):
        ACTS[act](str(inside / "file"), str(root))
    assert _contents(foreign) == kept and sorted(os.listdir(foreign)) == ["file", "inner"]


@pytest.mark.parametrize("act", ACTS)
def test_the_root_may_be_a_link(tmp_path: Path, foreign: Path, act: str) -> None:
    (tmp_path / "out").symlink_to(foreign)
    before = _contents(foreign)
    ACTS[act](str(tmp_path / "out" / "file"), str(tmp_path / "out"))
    changes = act in ("create", "rename", "remove", "remove a folder")
    assert (_contents(foreign) != before) == changes
    assert (foreign / "new").is_dir() == (act == "make a folder")


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("root", ["", "."])
def test_the_root_may_be_the_working_directory(
    tmp_path: Path, foreign: Path, monkeypatch: pytest.MonkeyPatch, act: str, root: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inside").symlink_to(foreign)
    kept = _contents(foreign)
    with pytest.raises(NotADirectoryError, match="is a link or a file"):
        ACTS[act](os.path.join(root, "inside", "file"), root)
    assert _contents(foreign) == kept and sorted(os.listdir(foreign)) == ["file", "inner"]
    (tmp_path / "inside").unlink()
    foreign.rename(tmp_path / "inside")
    ACTS[act](os.path.join(root, "inside", "file"), root)


def test_what_is_created_takes_the_place_of_a_link(tmp_path: Path, foreign: Path) -> None:
    (tmp_path / "out").symlink_to(foreign / "file")
    with own_files.create(str(tmp_path / "out"), str(tmp_path)) as file:
        file.write(b"mine")
    assert (tmp_path / "out").read_text() == "mine" and not (tmp_path / "out").is_symlink()
    assert (foreign / "file").read_text() == "kept"


def test_a_folder_that_is_swapped_for_a_link_while_it_is_held(tmp_path: Path, foreign: Path) -> None:
    (tmp_path / "out").mkdir()
    with own_files.held(str(tmp_path / "out")) as folder:
        (tmp_path / "out").rename(tmp_path / "moved")
        (tmp_path / "out").symlink_to(foreign)
        os.close(own_files.open_inside(folder, "file", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    assert os.listdir(tmp_path / "moved") == ["file"] and (foreign / "file").read_text() == "kept"


def test_what_is_removed_with_a_folder_is_not_what_links_in_it_lead_to(tmp_path: Path, foreign: Path) -> None:
    kept = _contents(foreign)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(foreign)
    own_files.remove_folder(str(tmp_path / "out"), str(tmp_path))
    assert _contents(foreign) == kept and not (tmp_path / "out").exists()
    (tmp_path / "out").symlink_to(foreign)
    with pytest.raises(OSError):
        own_files.remove_folder(str(tmp_path / "out"), str(tmp_path))
    assert _contents(foreign) == kept


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "file")
    with pytest.raises(OSError, match="not a regular file"):
        own_files.open_itself(str(tmp_path / "file"), os.O_RDONLY)


def test_no_path_leads_up(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(OSError, match="leads out"), own_files.held(f"{tmp_path}/out/../x", str(tmp_path)):
        pass
    for act in (own_files.remove_folder, own_files.make_folder, own_files.create):
        for path in ("out/..", "out/../x", "out/../../x"):
            with pytest.raises(OSError, match="leads out"):
                act(f"{tmp_path}/{path}", str(tmp_path))
    assert (tmp_path / "out").is_dir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_only_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o300)
    try:
        own_files.create(f"{tmp_path}/file", str(tmp_path)).close()
        assert (tmp_path / "file").exists()
    finally:
        tmp_path.chmod(0o700)
