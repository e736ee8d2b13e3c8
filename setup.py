"""Build of the compiled core. Everything that is not compilation stands in pyproject.toml.

BINLOG_CORE_BUILD chooses a build for developers:

``debug``     bounds checks, -O0 -g, with the lines of the .pyx and .pxd files
``sanitize``  AddressSanitizer, UndefinedBehaviorSanitizer and libFuzzer's counters, with the modules that
              only the fuzzers call (for fuzz/build.py, which names clang)
``coverage``  gcov's counters, told by the lines of the .pyx and .pxd files (see ``make coverage``)
"""

import os
import sys
from pathlib import Path
from threading import Lock

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command import build_ext

if sys.byteorder != "little":
    sys.exit("binlog_core reads little-endian words in place: big-endian machines are not supported")

# Each is imported as binlog_core._core.NAME.
sources = [
    "src/wire/_table_map.pyx",
    "src/wire/_packets.pyx",
    "src/wire/_result_set.pyx",
    "src/wire/_innodb_binlog.pyx",
    "src/decode/_rows.pyx",
    "src/batch/_spans.pyx",
    "src/arrow/_columns.pyx",
    "src/arrow/_capsules.pyx",
    "src/objects/_values.pyx",
    "src/objects/_jsonb.pyx",
    "src/find/_headers.pyx",
    "src/find/_trail.pyx",
    "src/find/_resync.pyx",
    "src/find/_index.pyx",
    "src/crc/_crc32.pyx",
]

# Cython's own code for typed memoryviews, which it writes: two thirds of a small module that has a copy.
# _rows has one: gcc inlines in proportion to a module's size, and a short row took 20 % more instructions.
MEMORYVIEWS = "binlog_core/_core/_memoryviews.c"
WITH_A_COPY = "binlog_core._core._rows"

MODE = os.environ.get("BINLOG_CORE_BUILD", "")
if MODE not in ("", "debug", "sanitize", "coverage"):
    sys.exit(f"BINLOG_CORE_BUILD={MODE!r}: debug, sanitize and coverage are known")

# Given here, not through CFLAGS, which would replace the usual -O3. No -Wconversion: the C that Cython
# writes around our code (loops, memoryviews, tuples) sets it off thousands of times, and ours would drown.
# -g0, since Python's own flags have -g: what debuggers read would be four fifths of a module.
compile_args = ["-O3", "-g0", "-Wall", "-Wsign-compare", "-Wno-unreachable-code"]
link_args: list[str] = []
macros = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]
directives = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": True,
}
build_dir = f"build/cython-{MODE or 'release'}"  # C files of one mode must not serve another

if MODE == "debug":
    compile_args[0:2] = ["-O0", "-g"]
    directives["boundscheck"] = True
elif MODE == "sanitize":
    # -g1: functions and lines, as traces have them. With -O1, fuzzing takes 1.4 times as long. Two checks are
    # not for the C that Cython writes around our code: calls through pointers of another type, NULL + 0.
    # Linked without the sanitizers' runtime, which the program has that loads the modules.
    compile_args[0:2] = [
        "-O2", "-g1", "-fsanitize=address,undefined,fuzzer-no-link", "-fno-sanitize-recover=undefined",
        "-fno-sanitize=function,pointer-overflow", "-fno-omit-frame-pointer", "-Wno-unused-function",
    ]  # fmt: skip
    sources += ["fuzz/_rows_target.pyx", "fuzz/_loops.pyx"]
elif MODE == "coverage":
    compile_args[0:2] = ["-O0", "-g", "--coverage"]
    link_args += ["--coverage"]

# What lies in place is newer than its sources, in whichever mode it was built: another mode builds all anew.
another_mode = False
if {"--inplace", "editable_wheel", "develop"} & set(sys.argv):
    in_place = Path("build/in-place-mode")
    another_mode = (in_place.read_text() if in_place.exists() else "") != MODE
    in_place.parent.mkdir(exist_ok=True)
    in_place.write_text(MODE)


def module_name(source: str) -> str:
    return f"binlog_core._core.{Path(source).stem}"


class build_modules(build_ext.build_ext):
    """Translates a module when it is its turn, while another is compiled; for an sdist or metadata, none.

    Modules that no source of theirs has changed are neither translated nor compiled.
    """

    translating = Lock()  # Cython's compiler is not for several threads

    def build_extension(self, ext: Extension) -> None:
        with self.translating:
            (translated,) = cythonize(
                [ext],
                include_path=["src", "fuzz"],
                compiler_directives=directives,
                build_dir=build_dir,
                cache=os.environ.get(
                    "CYTHON_CACHE_DIR"
                ),  # set by .ci/run, which builds the same sources six times
                emit_linenums=MODE in ("debug", "coverage"),
                shared_utility_qualified_name=None if ext.name == WITH_A_COPY else module_name(MEMORYVIEWS),
            )
        ext.sources, ext.depends = translated.sources, translated.depends
        super().build_extension(ext)


setup(
    cmdclass={"build_ext": build_modules},
    ext_modules=[
        Extension(
            module_name(source),
            [source],
            include_dirs=["src", numpy.get_include()],
            depends=[
                "src/arrow/copy_spans.h",
                "src/arrow/views.h",
                "src/types/ascii.h",
                "src/crc/crc32.h",
                "src/crc/crc32c.h",
                "src/crc/crc32_run.h",
                "src/find/resync_scan.h",
            ],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
            define_macros=macros,
        )
        for source in [MEMORYVIEWS, *sources]
    ],
    options={"build_ext": {"parallel": os.cpu_count(), "force": another_mode}},
)
