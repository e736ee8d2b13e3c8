"""How logs are opened, by the driver and by workers alike."""

from __future__ import annotations

import pickle
from mmap import mmap
from pathlib import Path

from support.writer import Log

from binlog_core.lake.access import Access


def test_a_log_is_opened_without_a_map_and_secrets_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes(Log("8.0.36").getvalue())
    access = pickle.loads(pickle.dumps(Access({1: "secret"}, {"key": "secret"})))
    assert access == Access({1: "secret"}, {"key": "secret"})
    assert "secret" not in repr(access)
    with access.file(str(path)).open() as source:
        assert source.splittable
        assert not any(isinstance(one, mmap) for one in vars(source).values())
