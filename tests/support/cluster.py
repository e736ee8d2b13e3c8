"""A standalone Spark cluster on this machine, started from pip's pyspark, and Pythons for its executors."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

WORKERS = 2
_NEEDED = ("numpy", "pyarrow", "pandas", "python-dateutil", "pytz", "tzdata", "six")
_OF_SPARK = ("pyspark", "py4j")  # with a downloaded Spark they are in SPARK_HOME
# Those for short runs (conftest.py); what is set for Spark itself is not allowed for executors.
JAVA_OPTIONS = " ".join(
    one for one in os.environ.get("SPARK_SUBMIT_OPTS", "").split() if one.startswith("-X")
)


class Cluster:
    """A master and `WORKERS` workers of one core each, as long as its ``with`` lasts.

    Parameters
    ----------
    folder : Path
        Where they work, and what they say.
    """

    master: str

    def __init__(self, folder: Path) -> None:
        import pyspark

        from binlog_core.spark.java import ensure_java

        self._folder, self._home = folder, Path(pyspark.__file__).parent
        own = {"SPARK_HOME": str(self._home), "JAVA_HOME": ensure_java()}
        self._environment = {**os.environ, **own, "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS}
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        try:
            said = self._start("master", "master.Master", "--port", "0")
            self.master = _line(said, r"Starting Spark master at (spark://\S+)")
            memory = ["--cores", "1", "--memory", "1g"]
            workers = [
                self._start(name, "worker.Worker", *memory, "--work-dir", name, self.master)
                for name in (f"worker{number}" for number in range(WORKERS))
            ]
            for said in workers:
                _line(said, r"(Successfully registered) with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def connect(self) -> str:
        """Start a server of Spark Connect on it; its URL."""
        with socket.socket() as asked:
            asked.bind(("127.0.0.1", 0))
            port = asked.getsockname()[1]
        settings = {
            "spark.connect.grpc.binding.port": str(port),
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
        }
        said = self._run(
            "connect",
            "bin/spark-submit",
            *(
                "--master",
                self.master,
                *(word for one in settings.items() for word in ("--conf", "=".join(one))),
            ),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
        )
        _line(said, r"(Spark Connect server started)")
        return f"sc://127.0.0.1:{port}"

    def _start(self, name: str, role: str, *given: str) -> Path:
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        return self._run(name, "bin/spark-class", f"org.apache.spark.deploy.{role}", *place, *given)

    def _run(self, name: str, program: str, *given: str) -> Path:
        said = self._folder / f"{name}.log"
        with said.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [str(self._home / program), *given],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self._folder,
                    env=self._environment,
                    start_new_session=True,
                )
            )
        return said


def _line(said: Path, pattern: str) -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if found := re.search(pattern, said.read_text()):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{said.name} does not say {pattern!r}: {said.read_text()[-2000:]}")


def environment(folder: Path, *, version: str | None = None, package: bool = True) -> Path:
    """A Python environment for executors, and the path of its Python; only the package is copied into it.

    Parameters
    ----------
    folder : Path
        Where it is made.
    version : str or None
        Pretend that `binlog_core` has this version.
    package : bool
        Whether it has `binlog_core`.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (libraries,) = folder.glob("lib/python*/site-packages")
    for name in _NEEDED:
        _brought(name, libraries, os.symlink)
    if package:
        _brought("binlog_core", libraries, _copied)
    if package:
        import binlog_core

        source = Path(binlog_core.__file__).parent
        if not (libraries / "binlog_core").exists():  # an editable install has only a reference to it
            shutil.copytree(source, libraries / "binlog_core")
            shutil.copy(source.parent / "pyspark_binlog.py", libraries)
    if version is not None:
        (metadata,) = libraries.glob("binlog_core-*.dist-info/METADATA")
        metadata.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", metadata.read_text()))
    spark = folder / "spark"
    spark.mkdir()
    for name in _OF_SPARK:
        (spark / name).symlink_to(distribution(name).locate_file(name))  # type: ignore[arg-type]
    (libraries / "spark.pth").write_text(f"{spark}\n")
    return folder / "bin" / "python"


def _brought(name: str, libraries: Path, bring: Callable[[Path, Path], object]) -> None:
    try:
        found = distribution(name)
    except ImportError:
        return  # not every version of pandas needs each
    for top in {file.parts[0] for file in found.files or () if ".." not in file.parts}:
        source = Path(str(found.locate_file(top)))
        if source.is_dir() or source.suffix == ".py":
            bring(source, libraries / top)


def _copied(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def packed(folder: Path) -> Path:
    """The environment as an archive, as the docs say to make it."""
    archive = folder.with_name(f"{folder.name}.tar.gz")
    with tarfile.open(archive, "w:gz", compresslevel=1) as packing:
        for one in sorted(folder.iterdir()):
            packing.add(one, one.name)
    return archive
