"""Files and directories that appear complete: written under a hidden name, and renamed at the end."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import string
from collections.abc import Iterator
from typing import Any, BinaryIO

from .own_files import held, locks, open_inside

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
_LETTERS = string.ascii_lowercase + string.digits + "_"
_NOT_KNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)  # to the kernel, to the file system


class Unfinished:
    """A file to write, under a hidden name in the folder of its path.

    Attributes
    ----------
    file : binary file
    """

    def __init__(self, file: BinaryIO, folder: int, hidden: str, name: str) -> None:
        self.file = file
        self._folder, self._hidden, self._name = folder, hidden, name

    def finish(self, *, new: bool = False) -> None:
        """Give it its name.

        Parameters
        ----------
        new : bool
            Fail if the name is taken; otherwise what has it is replaced.

        Raises
        ------
        OSError
        """
        at: Any = {"src_dir_fd": self._folder, "dst_dir_fd": self._folder}
        if new:
            # A link fails if the name has been taken in the meantime; some file systems have no links.
            try:
                os.link(self._hidden, self._name, **at, follow_symlinks=False)
            except FileExistsError:
                raise
            except OSError:
                pass
            else:
                os.unlink(self._hidden, dir_fd=self._folder)
                return
        os.replace(self._hidden, self._name, **at)


@contextlib.contextmanager
def unfinished(path: str | os.PathLike[str], root: str | None = None) -> Iterator[Unfinished]:
    """A file to write, with a hidden name beside a path; it is removed at the end unless it was finished.

    Files that killed processes left for the same path are removed first: regular files of this user, with
    names as they are given here. Files of processes that still write are locked; a lock ends with its
    process. All is done by the descriptor of the folder; `root`: see `held`.

    Raises
    ------
    OSError
    """
    # As the system reads it, "link/../x" is beside what the link leads to: `abspath` would lose that.
    above, name = os.path.split(path)
    with held(above, root) as folder:
        for left in _left(folder, name):
            with contextlib.suppress(OSError), _opened_inside(folder, left) as file:
                if locks(file) and os.fstat(file).st_uid == os.geteuid():
                    os.unlink(left, dir_fd=folder)
        begun, hidden = _begun(folder, name)
        try:
            with begun:
                yield Unfinished(begun, folder, hidden, name)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(hidden, dir_fd=folder)


def _begun(folder: int, name: str) -> tuple[BinaryIO, str]:
    """A new locked file, and its hidden name."""
    while True:
        hidden = f".{name}.{_random()}.tmp"
        file = open(open_inside(folder, hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")  # noqa: SIM115
        alone = locks(file)
        if alone is None or (alone and os.fstat(file.fileno()).st_nlink):
            return file, hidden
        file.close()  # a writer that begins at the same moment took it for one that was left, and removed it


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


def put_durably(path: str, data: bytes, root: str | None = None) -> None:
    """Replace a small file completely, or not at all.

    It is on disk at the end, and so is all that was written before it to the same file system: a file that
    says what others contain must not outlive them in a power failure.

    Parameters
    ----------
    path : str
    data : bytes
    root : str or None
        See `held`.

    Raises
    ------
    OSError
    """
    above, name = os.path.split(path)
    hidden = f"{name}.new"
    with held(above, root) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden, dir_fd=folder)
        with open(open_inside(folder, hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(data)
        sync_filesystem(folder)
        os.replace(hidden, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def sync_filesystem(folder: int) -> None:
    """Return once all that was written to the file system of a folder would survive a power failure.

    Raises
    ------
    OSError
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)  # of Linux
    if call is None:
        os.sync()
    elif call(folder) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def sync_directory(folder: str) -> None:
    """Return once the names in a folder would survive a power failure.

    Raises
    ------
    OSError
    """
    with held(folder) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def _opened_inside(folder: int, name: str) -> Iterator[int]:
    descriptor = open_inside(folder, name, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _left(folder: int, name: str) -> list[str]:
    own = re.compile(rf"\.{re.escape(name)}\.[a-z0-9_]{{8}}\.tmp")
    try:
        with os.scandir(folder) as entries:
            return [one.name for one in entries if own.fullmatch(one.name)]
    except OSError:  # it may be written to, but not read
        return []


def _random() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(8))
