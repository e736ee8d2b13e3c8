"""The queue of requests in a lake: who asks is told if nobody answers."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

from binlog_core import MirrorError
from binlog_core.mirror.requests import Requests
from binlog_core.mirror.state import Lake


def test_a_mirror_that_ends_answers_nothing(tmp_path: Path) -> None:
    """Who asked is told; the request is not there for the next run, which would be a surprise."""
    lake = Lake(str(tmp_path))
    with lake.locked():
        lake.held.answers()
        assert lake.held.holder is not None and Lake(str(tmp_path)).worker()[0] == lake.held.holder
        asking = threading.Timer(0.3, lake.held.end)
        asking.start()
        with pytest.raises(MirrorError, match="ended before it answered to pause"):
            Requests(Lake(str(tmp_path))).ask("pause", ())
        asking.join()
    assert Requests(lake).waiting() == []


def test_what_is_no_request_is_removed(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    folder = tmp_path / "_mirror" / "requests"
    folder.mkdir(parents=True)
    for name, text in {
        "a": "[]",
        "b": '{"kind": "rm", "tables": []}',
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
