"""Build of the compiled core. Everything that is not compilation stands in pyproject.toml.

BINLOG_CORE_BUILD chooses a build for developers:

``debug``     bounds checks, -O0 -g, with the lines of the .pyx and .pxd files
``sanitize``  AddressSanitizer and UndefinedBehaviorSanitizer (see ``make sanitize``)
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

# Each lies in its folder of src/ and is imported as binlog_core._core.NAME.
MODULES = [
    "wire/_table_map",
    "wire/_packets",
    "wire/_result_set",
    "wire/_innodb_binlog",
    "decode/_rows",
    "batch/_spans",
    "arrow/_columns",
    "arrow/_capsules",
    "objects/_values",
    "objects/_jsonb",
    "find/_headers",
    "find/_trail",
    "find/_resync",
    "find/_index",
    "crc/_crc32",
]

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
    # gcc's own constant-folded shifts in Cython's utility code are fine; ours must be, too.
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
    compile_args[0:2] = ["-O1", "-g1", *flags]  # -g1: functions and lines, as traces have them
    link_args += flags
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


class build_modules(build_ext.build_ext):
    """Translates a module when it is its turn, while another is compiled; for an sdist or metadata, none.

    Modules that no source of theirs has changed are neither translated nor compiled.
    """

    translating = Lock()  # Cython's compiler is not for several threads

    def build_extension(self, ext: Extension) -> None:
        with self.translating:
            (translated,) = cythonize(
                [ext],
                include_path=["src"],
                compiler_directives=directives,
                build_dir=build_dir,
                cache=os.environ.get(
                    "CYTHON_CACHE_DIR"
                ),  # set by .ci/run, which builds the same sources six times
                emit_linenums=MODE in ("debug", "coverage"),
            )
        ext.sources, ext.depends = translated.sources, translated.depends
        super().build_extension(ext)


setup(
    cmdclass={"build_ext": build_modules},
    ext_modules=[
        Extension(
            f"binlog_core._core.{name.rpartition('/')[2]}",
            [f"src/{name}.pyx"],
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
        for name in MODULES
    ],
    options={"build_ext": {"parallel": os.cpu_count(), "force": another_mode}},
)
