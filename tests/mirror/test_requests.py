"""The queue of requests in a lake: who asks is told if nobody answers."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

from binlog_core import MirrorError
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.reporting import TableStatus
from binlog_core.mirror.requests import Requests
from binlog_core.mirror.requests import told as answered


def test_a_mirror_that_ends_answers_nothing(tmp_path: Path) -> None:
    """Who asked is told; the request is not there for the next run, which would be a surprise."""
    lake = Lake(str(tmp_path))
    with lake.locked():
        lake.held.answers()
        assert lake.held.holder is not None and Lake(str(tmp_path)).worker()[0] == lake.held.holder
        asking = threading.Timer(0.3, lake.held.end)
        asking.start()
        with pytest.raises(MirrorError, match="ended before it answered pause"):
            Requests(Lake(str(tmp_path))).ask("pause", ())
        asking.join()
    assert Requests(lake).waiting() == []


def test_what_is_no_request_is_removed(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    folder = tmp_path / "_mirror" / "requests"
    folder.mkdir(parents=True)
    for name, text in {
        "a": "[]",
        "b": '{"kind": 5, "tables": []}',
        "c": '{"kind": "add", "tables": "x"}',
    }.items():
        (folder / f"{name}.json").write_text(text)
    queue = Requests(lake)
    assert queue.waiting() == ["a", "b", "c"]
    for name in queue.waiting():
        assert queue.read(name) is None
        queue.answer(name, [])
    assert queue.waiting() == []
    assert not (tmp_path / "_mirror" / "answers").exists()


def test_a_pipe_or_a_link_is_no_request(tmp_path: Path) -> None:
    """Reading a pipe would wait for ever; through a link, files of others would be removed."""
    lake, outside = Lake(str(tmp_path)), tmp_path / "outside"
    folder = tmp_path / "_mirror" / "requests"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "a.json")
    (folder / "b.json").symlink_to("/dev/zero")
    (folder / "c.json").mkdir()
    queue = Requests(lake)
    assert queue.waiting() == []
    outside.mkdir()
    (outside / "d.json").write_text("{}")
    (tmp_path / "_mirror" / "answers").symlink_to(outside)
    queue.forget()
    assert [one.name for one in outside.iterdir()] == ["d.json"]


def test_another_version_is_told(tmp_path: Path) -> None:
    queue = Requests(Lake(str(tmp_path)))
    queue._write("requests", "a", {"kind": "compress", "tables": []})
    queue.answer("a", [])
    told = queue._read("answers", "a")
    assert (queue.waiting(), told["answer"]) == ([], [])
    assert told["error"].startswith(
        "the process that runs this mirror does not know 'compress': it has another"
    )
    with pytest.raises(MirrorError, match="answer cannot be read: it has another version"):
        answered(TableStatus, [{"table": "a", "colour": "red"}])


@pytest.mark.parametrize("text", ["[]", "{}", '{"answer": 5, "error": null}', '"x"'])
def test_what_is_no_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    lake = Lake(str(tmp_path))
    folder = tmp_path / "_mirror" / "answers"
    folder.mkdir(parents=True)
    write = Requests._write

    def answered_at_once(self: Requests, place: str, name: str, found: dict[str, Any]) -> None:
        write(self, place, name, found)
        (folder / f"{name}.json").write_text(text)

    monkeypatch.setattr(Requests, "_write", answered_at_once)
    with lake.locked(), pytest.raises(MirrorError, match="answer cannot be read"):
        Requests(Lake(str(tmp_path))).ask("pause", ())
    assert not list(folder.iterdir())


def test_an_answer_that_nobody_fetches_is_removed(tmp_path: Path) -> None:
    queue = Requests(Lake(str(tmp_path)))
    for name in ("old", "new"):
        queue._write("answers", name, {"answer": [], "error": None})
    os.utime(tmp_path / "_mirror" / "answers" / "old.json", (1, 1))
    queue.forget_unfetched()
    assert queue._names("answers") == {"new"}
