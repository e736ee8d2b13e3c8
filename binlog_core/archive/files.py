"""The file system calls of an archive; tests replace them with unreliable disks.

A link in the archive may lead to the files of others: none is followed. A segment's folder is opened as
itself, and its files relative to that descriptor, so that a link put in its place later changes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from .._base import own_files
from .._sources.log_names import archive_of
from .._sources.timeline import NAME
from ..errors import ArchiveError
from .names import logs_among

_MODE = 0o640  # a log contains the data of the tables
_SYNCING = ThreadPoolExecutor(1, "archive-sync")  # its thread starts with the first sync
_HIDDEN = ".unfinished-"  # files with such names were left by a crash


class Files:
    """The local file system. Every call may raise OSError."""

    def open(self, path: str, *, new: bool = False) -> int:
        """A descriptor to read and write; `new` creates the file, which must not exist."""
        return open_itself(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if new else 0))

    def write(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        """Write at a position; return the number of bytes written."""
        return os.pwrite(descriptor, data, position)

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """Up to `size` bytes from a position."""
        return os.pread(descriptor, size, position)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(descriptor, size)

    def size(self, descriptor: int) -> int:
        """Bytes of a file."""
        return os.fstat(descriptor).st_size

    def sync(self, descriptor: int) -> None:
        """Return once the bytes of a file would survive a power failure."""
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync ends at the disk's own cache
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(descriptor)

    def sync_soon(self, descriptor: int) -> Future[None]:
        """Start to sync, beside the caller."""
        return _SYNCING.submit(self.sync, descriptor)

    def sync_directory(self, path: str) -> None:
        """Return once the names in a directory would survive a power failure."""
        with held(path) as descriptor:
            os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing the file of that name."""
        own_files.rename(old, new, archive_of(os.path.dirname(new)))

    def remove(self, path: str) -> None:
        """Remove a file."""
        own_files.remove(path, archive_of(os.path.dirname(path)))

    def changed_at(self, path: str) -> float:
        """When a file was last written, by this machine's clock; seconds since 1970 UTC."""
        with held(os.path.dirname(path)) as folder:
            return os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False).st_mtime

    def make_directory(self, path: str) -> None:
        """Make a directory, and missing ones above it."""
        os.makedirs(path, mode=0o750, exist_ok=True)

    def names(self, path: str) -> list[str]:
        """Names of the files in a directory; a log that is a link is an error."""
        with held(path) as folder, os.scandir(folder) as entries:
            found = list(entries)
            for entry in found:
                if entry.is_symlink() and (entry.name == NAME or logs_among([entry.name])):
                    raise OSError(errno.ELOOP, f"{entry.name} is a symbolic link")
            return sorted(entry.name for entry in found if entry.is_file(follow_symlinks=False))

    def has_directory(self, path: str) -> bool:
        """Whether a directory is there; a link in the place of a segment's is an error."""
        try:
            with held(path):
                return True
        except FileNotFoundError:
            return False


def held(folder: str) -> contextlib.AbstractContextManager[int]:
    """A descriptor of a directory; the archive's own may be reached by a link, a segment's may not."""
    return own_files.held(folder, archive_of(folder))


def open_itself(path: str, flags: int) -> int:
    """A descriptor of a regular file, not of what a link or a FIFO in its place leads to."""
    return own_files.open_itself(path, flags, _MODE, root=archive_of(os.path.dirname(path)))


def put(files: Files, path: str, data: bytes, *, durable: bool = True) -> None:
    """Replace a small file completely, or not at all.

    Parameters
    ----------
    files : Files
    path : str
    data : bytes
    durable : bool
        Whether it must survive a power failure.

    Raises
    ------
    OSError
    """
    folder, name = os.path.split(path)
    folder = folder or "."
    hidden = os.path.join(folder, _HIDDEN + name)
    with contextlib.suppress(FileNotFoundError):
        files.remove(hidden)
    descriptor = files.open(hidden, new=True)
    try:
        write_all(files, descriptor, data, 0)
        if durable:
            files.sync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(hidden, path)
    if durable:
        files.sync_directory(folder)


def put_on_disk(files: Files, path: str) -> None:
    """Sync a file that an earlier process wrote, and its name."""
    try:
        descriptor = files.open(path)
    except PermissionError:  # finished logs may have been made read-only
        descriptor = open_itself(path, os.O_RDONLY)
    try:
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    files.sync_directory(os.path.dirname(path) or ".")


def write_all(files: Files, descriptor: int, data: bytes | memoryview, position: int) -> None:
    """Write all the bytes; a single call may write fewer."""
    rest = memoryview(data)
    while rest:
        written = files.write(descriptor, rest, position)
        position += written
        rest = rest[written:]


def hidden_name(name: str) -> str:
    """The name of an unfinished file."""
    return _HIDDEN + name


def remove_unfinished(files: Files, folder: str) -> None:
    """Remove half-written files that a crash left."""
    for name in files.names(folder):
        if name.startswith(_HIDDEN):
            files.remove(os.path.join(folder, name))


@contextlib.contextmanager
def as_archive_error(path: str, doing: str) -> Iterator[None]:
    """An OSError as an ArchiveError that names the file and the failed action."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArchiveError(f"cannot {doing}: {reason}", path=path) from error


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Lock a directory for one archiver; a second one gets an ArchiveError.

    It is a lock of the operating system, which ends with the process, however that ends.
    """
    path = os.path.join(folder, ".lock")
    with as_archive_error(path, "lock the archive"):
        descriptor = open_itself(path, os.O_RDWR | os.O_CREAT)
    try:
        if os.fstat(descriptor).st_nlink > 1:  # its other name may be somebody's file, which this would cut
            raise ArchiveError("cannot lock the archive: the file has other names (hard links)", path=path)
        alone = own_files.locks(descriptor)
        if alone is False:
            owner = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip()
            raise ArchiveError(
                f"another archiver keeps this archive{f' (process {owner})' if owner else ''}: stop it, or"
                " give another destination",
                path=folder,
            )
        if alone is None:
            raise ArchiveError("cannot lock the archive: its file system has no locks", path=path)
        with contextlib.suppress(OSError):  # a full disk; the lock still holds
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
