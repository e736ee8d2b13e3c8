"""Bytes whose end is watched: by the processor, or by a sanitizer."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

_PROT_NONE = 0


def exact(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A copy in an allocation of exactly its size: a sanitizer sees any read behind it.

    Behind a bytes object is a NUL, and small ones lie in blocks of Python's allocator.
    """
    return np.frombuffer(data, np.uint8).copy()


@contextmanager
def guarded(data: bytes) -> Iterator[memoryview]:
    """The bytes, directly before a page that cannot be read."""
    if sys.platform != "linux":
        pytest.skip("mprotect as Linux has it")
    page = mmap.PAGESIZE
    room = -(-len(data) // page) * page
    memory = mmap.mmap(-1, room + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    memory[room - len(data) : room] = data
    if mprotect(address + room, page, _PROT_NONE):
        raise OSError(ctypes.get_errno(), "mprotect")
    with memoryview(memory)[room - len(data) : room].toreadonly() as view:
        yield view
