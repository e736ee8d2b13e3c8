"""Files and directories that appear complete: written under a hidden name, and renamed at the end."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
_NOT_KNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)  # to the kernel, to the file system


@contextlib.contextmanager
def unfinished(path: str | os.PathLike[str]) -> Iterator[tuple[BinaryIO, str]]:
    """A file to write, and its hidden name beside a path; it is removed at the end unless it was renamed.

    Files that killed processes left for the same path are removed first: regular files of this user, with
    names as they are given here. Files of processes that still write are locked; a lock ends with its
    process.

    Raises
    ------
    OSError
    """
    folder, name = os.path.split(os.path.abspath(path))
    for left in _left(folder, name):
        with contextlib.suppress(OSError), open(left, "rb", opener=_itself) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_own(os.fstat(file.fileno())):
                os.unlink(left)
    descriptor, hidden = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    try:
        with open(descriptor, "w+b") as file:
            with contextlib.suppress(OSError):  # some file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file, hidden
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden)


def exchanged(one: str, other: str) -> bool:
    """Exchange the files at two paths in one step; False if the system or file system cannot do that.

    Raises
    ------
    OSError
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # of Linux
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_KNOWN:
        return False
    raise OSError(number, os.strerror(number), one, None, other)


def put_durably(path: str, data: bytes) -> None:
    """Replace a small file completely, or not at all.

    It is on disk at the end, and so is all that was written before it to the same file system: a file that
    says what others contain must not outlive them in a power failure.

    Raises
    ------
    OSError
    """
    hidden = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(hidden)
    with open(hidden, "xb") as file:  # it follows no link that is put there meanwhile
        file.write(data)
    sync_filesystem(os.path.dirname(path))
    os.replace(hidden, path)
    sync_directory(os.path.dirname(path))


def sync_filesystem(folder: str) -> None:
    """Return once all that was written to the file system of a folder would survive a power failure.

    Raises
    ------
    OSError
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)  # of Linux
    if call is None:
        os.sync()
        return
    with _opened(folder) as descriptor:
        if call(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), folder)


def sync_directory(folder: str) -> None:
    """Return once the names in a folder would survive a power failure.

    Raises
    ------
    OSError
    """
    with _opened(folder) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _left(folder: str, name: str) -> list[str]:
    own = re.compile(rf"\.{re.escape(name)}\.[a-z0-9_]{{8}}\.tmp")
    try:
        with os.scandir(folder) as entries:
            return [one.path for one in entries if own.fullmatch(one.name)]
    except OSError:  # it may be written to, but not read
        return []


def _itself(path: str, flags: int) -> int:
    """Open a file, not what a link leads to, and without waiting for the other end of a FIFO."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _is_own(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
