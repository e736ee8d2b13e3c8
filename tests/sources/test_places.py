"""Where a path leads to: this machine, a store or a server."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from binlog_core import MissingFileError
from binlog_core._sources.places import LocalFiles, is_server, is_url, local_path, logs_among

pytestmark = pytest.mark.sanitize_long


def test_addresses_of_servers_are_distinguished_from_files():
    assert is_server("MySQL://db1")
    assert not is_server("s3://bucket/mysql://")
    assert not is_server(b"mysql://db1")


@pytest.mark.parametrize(
    ("target", "url", "local"),
    [
        ("/var/lib/mysql/bin.000001", False, "/var/lib/mysql/bin.000001"),
        ("c:/logs/bin.000001", False, "c:/logs/bin.000001"),
        ("a:b", False, "a:b"),
        ("file:///logs/with%20space", True, "/logs/with space"),
        ("FILE:///logs/x", True, "/logs/x"),
        ("s3://bucket/bin.000001", True, None),
        ("simplecache::s3://bucket/bin.000001", True, None),
        ("/logs/http://x", False, "/logs/http://x"),
    ],
)
def test_urls_and_paths_of_this_machine(target: str, url: bool, local: str | None) -> None:
    assert is_url(target) is url
    assert local_path(target) == local


def test_logs_are_distinguished_from_other_files_by_their_first_bytes(tmp_path: Path) -> None:
    contents = {
        "plain": b"\xfebin" + bytes(20),
        "encrypted": b"\xfdbin" + bytes(20),
        "packed": gzip.compress(b"\xfebin" + bytes(20)),
        "text": b"bin.000001\n",
        "packed text": gzip.compress(b"bin.000001\n"),
        "no stream of gzip": b"\x1f\x8b" + bytes(20),
        "empty": b"",
        "cut": b"\xfebi",
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    place = LocalFiles()
    paths = place.files(str(tmp_path))
    assert paths is not None and sorted(paths) == sorted(str(tmp_path / name) for name in contents)
    logs = {str(tmp_path / name) for name in ("plain", "encrypted", "packed")}
    assert logs_among(place, paths) == logs


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_not_a_file_of_this_machine(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    place = LocalFiles()
    assert place.files(str(tmp_path)) == []  # a pipe is not a file that can be looked into
    assert place.head(str(tmp_path / "pipe"), 4) is None
    assert not place.exists(str(tmp_path / "pipe")) and not place.exists(str(tmp_path))
    assert place.files(str(tmp_path / "pipe")) is None


def test_a_hidden_file_may_be_gone_after_it_was_listed(tmp_path: Path) -> None:
    """An index or a log is written under a hidden name, beside logs that others open by their folder."""
    (tmp_path / "bin.000001").write_bytes(b"\xfebin")
    names = [str(tmp_path / name) for name in ("bin.000001", ".binlog-core-index.abcdefgh.tmp")]
    assert logs_among(LocalFiles(), names) == set(names[:1])
    with pytest.raises(MissingFileError):  # a log that is missing is not left out silently
        logs_among(LocalFiles(), [*names, str(tmp_path / "bin.000002")])
