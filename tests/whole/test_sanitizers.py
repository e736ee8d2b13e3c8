"""The sanitizers see what they are there for: without this, a build that lacks them would pass as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.hostile import SANITIZED

import binlog_core

pytestmark = [
    pytest.mark.sanitize,
    pytest.mark.skipif(not SANITIZED, reason="the compiled modules are those without sanitizers"),
]

# Sixteen bytes of the heap, whose checksum is asked for as if there were SIZE.
PLANTED = """
import ctypes
import numpy as np
from binlog_core._core._crc32 import crc32c

def planted(data):
    libc = ctypes.CDLL(None)
    libc.calloc.restype = ctypes.POINTER(ctypes.c_uint8)
    crc32c(np.ctypeslib.as_array(libc.calloc(1, 16), (int(data or b"16"),)))
"""


@pytest.mark.parametrize("program", ["python", "fuzz"])
@pytest.mark.parametrize("size", [16, 17, 4096])
def test_an_overflow_is_found(program: str, size: int, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    given = tmp_path / "given"
    given.write_bytes(b"%d" % size)
    lib = Path(binlog_core.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{lib}"}
    if program == "python":
        command = [sys.executable, "-c", f"import planted; planted.planted(b'{size}')"]
    else:
        del environment["LD_PRELOAD"]  # the program has hooks of its own
        environment |= {"BINLOG_FUZZ_PYTHON": sys.executable, "BINLOG_FUZZ_TARGET": "planted:planted"}
        command = [str(lib.parent / "fuzz"), str(given)]
    end = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (end.returncode == 0) == (size == 16), end.stderr
    assert ("heap-buffer-overflow" in end.stderr) == (size != 16)
