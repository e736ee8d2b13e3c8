"""Builds the core for libFuzzer: clang, AddressSanitizer, UndefinedBehaviorSanitizer, coverage counters.

    CC=clang python fuzz/build.py

Modules and a copy of the Python files go into build/fuzz/lib, the program into build/fuzz/fuzz. The hooks
of the sanitizers are in the program; the modules find them there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Distribution, Extension

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
MODULES = sorted((ROOT / "src").rglob("*.pyx"))
SANITIZERS = "address,undefined"
# Not for the C that Cython writes around our code: calls through pointers of another type, NULL + 0.
FLAGS = [
    "-O2", "-g1", f"-fsanitize={SANITIZERS},fuzzer-no-link", "-fno-sanitize-recover=undefined",
    "-fno-sanitize=function,pointer-overflow", "-fno-omit-frame-pointer", "-Wno-unreachable-code",
    "-Wno-unused-function",
]  # fmt: skip
DIRECTIVES = {
    "language_level": 3, "boundscheck": False, "wraparound": False, "initializedcheck": False,
    "cdivision": True, "embedsignature": True,
}  # fmt: skip
HEADERS = [
    *(str(path) for kind in ("h", "pxi") for path in sorted((ROOT / "src").rglob(f"*.{kind}"))),
    "fuzz/_code_tables.pxi",
]
INCLUDED = {
    "binlog_core._core._rows_target": [
        "src/decode/_rows.pyx",
        "fuzz/_rows_columns.pxi",
        "fuzz/_rows_conditions.pxi",
    ],
    "_loops": ["src/find/_resync.pyx"],
}


def main() -> None:
    compiler = os.environ.setdefault("CC", "clang")
    if shutil.which(compiler) is None:
        sys.exit(f"{compiler} is missing: apt-get install clang libclang-rt-dev")
    os.environ["LDSHARED"] = f"{compiler} -shared"
    os.environ["CFLAGS"] = "-fPIC"
    os.chdir(ROOT)
    lib = BUILD / "lib" / "binlog_core"
    sources = {f"binlog_core._core.{path.stem}": str(path.relative_to(ROOT)) for path in MODULES} | {
        "binlog_core._core._rows_target": "fuzz/_rows_target.pyx",
        "_loops": "fuzz/_loops.pyx",
    }
    extensions = [
        Extension(
            name,
            [source],
            include_dirs=["src", numpy.get_include()],
            depends=[*HEADERS, *INCLUDED.get(name, ())],
            extra_compile_args=FLAGS,
            define_macros=[
                ("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"),
                ("CYTHON_CLINE_IN_TRACEBACK", "0"),
            ],
        )
        for name, source in sources.items()
    ]
    distribution = Distribution(
        {
            "name": "binlog_core_fuzz",
            "packages": [],
            "ext_modules": cythonize(
                extensions,
                include_path=["src", "fuzz"],
                compiler_directives=DIRECTIVES,
                build_dir=str(BUILD / "c"),
                cache=os.environ.get("CYTHON_CACHE_DIR"),
            ),
        }
    )
    command = distribution.get_command_obj("build_ext")
    command.build_lib = str(BUILD / "lib")
    command.build_temp = str(BUILD / "o")
    command.parallel = int(os.environ.get("JOBS", os.cpu_count() or 1))
    distribution.run_command("build_ext")
    shutil.copytree(
        ROOT / "binlog_core",
        lib,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("*.so", "*.pyi", "__pycache__"),
    )
    link()


def link() -> None:
    """The program: libFuzzer's main and the sanitizers' runtime, whose names the modules find in it."""
    variable = sysconfig.get_config_var
    library = variable("LIBDIR")
    subprocess.run(
        [
            os.environ["CC"], "-g", f"-fsanitize=fuzzer,{SANITIZERS}", "-rdynamic", "fuzz/main.c",
            f"-I{variable('INCLUDEPY')}", f"-L{library}", f"-Wl,-rpath,{library}",
            f"-lpython{variable('LDVERSION')}", "-o", str(BUILD / "fuzz"),
        ],
        check=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
