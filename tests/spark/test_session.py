"""A session for the command line: output on the terminal, and errors without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binlog_core import MissingExtraError
from binlog_core.spark.session import quiet_java, start_session


def test_what_java_says_while_spark_starts_goes_to_a_file() -> None:
    with quiet_java() as path:
        subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('WARN: native')"], check=True)
    said = Path(path)
    assert said.read_text() == "WARN: native"
    with pytest.raises(ValueError, match="given"), quiet_java() as other:
        raise ValueError("given")
    subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('later')"], check=True)
    assert Path(other).read_text() == ""  # output goes to the terminal again
    said.unlink()
    os.unlink(other)


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"binlog_core\[spark\]|binlog-core\[spark\]"):
        start_session()
