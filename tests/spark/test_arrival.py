"""What a worker runs first: it says if the package is not there, or not in this version."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import binlog_core
from binlog_core.spark.arrival import unpacked


def test_what_was_packed_comes_out() -> None:
    assert unpacked(pickle.dumps([1, "a"]), binlog_core.__version__) == [1, "a"]


def test_another_version_is_refused() -> None:
    own = binlog_core.__version__
    with pytest.raises(RuntimeError, match=rf"has binlog_core {own}, the driver 9\.9; see"):
        unpacked(b"not a pickle", "9.9")


def test_a_worker_that_has_only_spark_says_so(tmp_path: Path) -> None:
    pyspark, py4j = pytest.importorskip("pyspark"), pytest.importorskip("py4j")
    pickler: Any = pytest.importorskip("pyspark.cloudpickle")
    from binlog_core.spark.shipped import ShippedFunction

    sent = pickler.dumps(ShippedFunction(binlog_core.open))
    for module in (pyspark, py4j):
        folder = Path(module.__file__).parent
        (tmp_path / folder.name).symlink_to(folder)
    code = "import pickle, sys; sys.path.insert(0, sys.argv[1]); pickle.loads(sys.stdin.buffer.read())"
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path)]  # -S: without site-packages
    done = subprocess.run(command, input=sent, capture_output=True, check=False)
    assert done.returncode == 1
    last = done.stderr.decode().strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: the Python of a Spark worker, ")
    assert "cannot load binlog_core: No module named 'binlog_core'; see 'Getting it onto a cluster'" in last


def test_an_archive_cannot_have_compiled_modules(tmp_path: Path) -> None:
    source = Path(binlog_core.__file__).parent
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", source.parent, source.name)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import binlog_core._core"
    command = [sys.executable, "-I", "-S", "-c", code, archive]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1] == (
        f"ImportError: {archive} is an archive, and Python cannot load compiled modules from one:"
        " install binlog_core"
    )
