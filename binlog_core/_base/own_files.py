"""Files and folders opened as themselves: a link in their place, also one put there meanwhile, is refused.

A folder that the caller names may be reached by links. What lies below it is opened relative to its
descriptor, name by name, so that nobody who can write there leads a file to another place.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from typing import BinaryIO

_ITSELF = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO would wait for its other end
_BUFFER = 1 << 18


def locks(descriptor: int | BinaryIO, *, shared: bool = False) -> bool | None:
    """Lock a file or folder until it is closed; False: others do, None: its file system has no locks."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextlib.contextmanager
def held(folder: str, root: str | None = None) -> Iterator[int]:
    """A descriptor of a folder.

    Parameters
    ----------
    folder : str
        Its path.
    root : str or None
        The folder above it, or itself, that may be reached by links; those below it may not. None: itself.

    Raises
    ------
    OSError
        It is not there, or a folder below `root` is a link.
    """
    names = _below(folder, root)
    found = _folder((folder if names is None or root is None else root) or ".")
    try:
        for name in names or ():
            _check(name)
            try:
                inner = _folder(name, os.O_NOFOLLOW, found)
            except NotADirectoryError:  # Linux's answer for a link, too
                raise OSError(errno.ENOTDIR, f"{name} is a link or a file, not a folder") from None
            os.close(found)
            found = inner
        yield found
    finally:
        os.close(found)


def _below(path: str, root: str | None) -> list[str] | None:
    """The names that lead from a folder to a path; None: it is not below the folder."""
    if root is None:
        return None
    if root == "":  # the working directory
        begin = 0 if not path.startswith("/") else None
    else:
        begin = len(root.rstrip("/")) if path.startswith(root.rstrip("/") + "/") else None
    return None if begin is None else [name for name in path[begin:].split("/") if name]


def _check(name: str) -> str:
    if name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "a path that ends in a folder, or leads out of one", name)
    return name


def _folder(path: str, flags: int = 0, above: int | None = None) -> int:
    flags |= os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_RDONLY, dir_fd=above)
    except PermissionError:  # it may be written to, but not read
        if not hasattr(os, "O_PATH"):
            raise
        return os.open(path, flags | os.O_PATH, dir_fd=above)


def open_itself(path: str, flags: int, mode: int = 0o640, *, root: str | None = None) -> int:
    """A descriptor of a regular file, not of what a link or a FIFO in its place leads to.

    Parameters
    ----------
    path : str
    flags, mode : int
        As for `os.open`.
    root : str or None
        See `held`.
    """
    with held(os.path.dirname(path), root) as folder:
        return open_inside(folder, _check(os.path.basename(path)), flags, mode)


def open_inside(folder: int, name: str, flags: int, mode: int = 0o640) -> int:
    """The same, by the descriptor of its folder."""
    descriptor = os.open(name, flags | _ITSELF, mode, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


def create(path: str, root: str | None = None) -> BinaryIO:
    """A new file to write, in place of what had its name before; `root`: see `held`."""
    with held(os.path.dirname(path), root) as folder:
        name = _check(os.path.basename(path))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        descriptor = open_inside(folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    return open(descriptor, "wb", buffering=_BUFFER)


def make_folder(path: str, root: str) -> None:
    """Make a folder, and missing ones above it, unless it is there; `root`: see `held`."""
    names = _below(path, root)
    if names is None:
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(root or ".", exist_ok=True)
    at = root
    for name in names:
        _check(name)
        with held(at, root) as above, contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
        at = os.path.join(at, name)
    with held(at, root):
        pass


def rename(old: str, new: str, root: str | None = None) -> None:
    """Rename a file, replacing the file of that name; `root`: see `held`."""
    names = _check(os.path.basename(old)), _check(os.path.basename(new))
    with held(os.path.dirname(old), root) as at, held(os.path.dirname(new), root) as to:
        os.replace(*names, src_dir_fd=at, dst_dir_fd=to)


def remove(path: str, root: str | None = None) -> None:
    """Remove a file, or a link; `root`: see `held`."""
    with held(os.path.dirname(path), root) as folder:
        os.unlink(_check(os.path.basename(path)), dir_fd=folder)


def remove_folder(path: str, root: str | None = None) -> None:
    """Remove a folder with all that is in it, and nothing that a link leads to; `root`: see `held`."""
    with held(os.path.dirname(path), root) as folder:
        shutil.rmtree(_check(os.path.basename(path)), dir_fd=folder)
