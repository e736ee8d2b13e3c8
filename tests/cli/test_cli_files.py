"""Output files are whole, or not there."""

from __future__ import annotations

import resource
import signal
import subprocess
from pathlib import Path

import pytest
from support.golden import DATA, golden_logs

pytest.importorskip("typer")

from support.cli import run, start

LOG = DATA / "mysql97" / "gtid.binlog"
GOLDEN = next(g for g in golden_logs() if g.name == "mysql97/gtid")


def test_output_exists(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("mine")
    ran = run("rows", LOG, "-o", path)
    assert ran.code == 1
    assert "--overwrite" in ran.err
    assert path.read_text() == "mine"
    assert run("rows", LOG, "-o", path, "--overwrite").code == 0
    assert len(path.read_text().splitlines()) == len(GOLDEN.truth)
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]
    assert run("rows", LOG, "-o", tmp_path / "no" / "out").code == 1


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_full_disk(form: str, tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    log = DATA / "mysql97" / "types_strings.binlog"
    golden = next(g for g in golden_logs() if g.path == log)
    command = ("rows", log, "-t", golden.truth[0]["table"], "-f", form, "-o", tmp_path / "out")
    process = start(*command, preexec_fn=small_files, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert said.startswith(b"error: File too large")
    assert said.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []
