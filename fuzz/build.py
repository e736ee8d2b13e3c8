"""Builds the core for the sanitizers and for libFuzzer, and libFuzzer's program.

    CLANG=clang-19 python fuzz/build.py

The package goes into build/sanitized/lib, with two modules that only the fuzzers call, and the program into
build/sanitized/fuzz. The modules find the sanitizers' hooks in the program; Python has them if clang's shared
runtime is preloaded (see `make sanitize`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sanitized"


def main() -> None:
    compiler = os.environ.get("CLANG", "clang")
    if shutil.which(compiler) is None:
        sys.exit(f"{compiler} is missing: apt-get install clang libclang-rt-dev")
    os.chdir(ROOT)
    for path in BUILD.glob("lib/**/*.py*"):  # of an earlier tree
        path.unlink()
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build", "--build-base", BUILD, "--build-lib", BUILD / "lib"],
        # Python's own flags may be such as only gcc knows.
        env={
            **os.environ, "BINLOG_CORE_BUILD": "sanitize", "CC": compiler, "LDSHARED": f"{compiler} -shared",
            "CFLAGS": "-fPIC",
        },
        check=True,
    )  # fmt: skip
    variable = sysconfig.get_config_var
    library = variable("LIBDIR")
    subprocess.run(
        [
            compiler, "-g", "-fsanitize=fuzzer,address,undefined", "-rdynamic", "fuzz/main.c",
            f"-I{variable('INCLUDEPY')}", f"-L{library}", f"-Wl,-rpath,{library}",
            f"-lpython{variable('LDVERSION')}", "-o", BUILD / "fuzz",
        ],
        check=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
