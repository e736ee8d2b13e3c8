"""Output files that are complete or do not exist: written under a temporary name, renamed at the end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from .._base.new_files import unfinished
from ..errors import BinlogError
from .output import standard_output


@contextmanager
def output(path: Path | None, *, overwrite: bool, private: bool = False) -> Iterator[BinaryIO]:
    """The output of a command.

    Parameters
    ----------
    path : Path or None
        None or ``-``: standard output.
    overwrite : bool
        Replace an existing file.
    private : bool
        Readable only by its owner, like all output from encrypted logs; otherwise the umask applies.

    Yields
    ------
    binary file

    Raises
    ------
    BinlogError
        The output exists, or its directory does not.
    OSError
        The disk is full, the pipe broken …; nothing is left under the final name.
    """
    if path is None or str(path) == "-":
        file = standard_output()
        yield file
        file.flush()
        return
    if path.exists() and not path.is_file():  # a device or pipe: nothing to rename
        if path.is_dir():
            raise BinlogError("the output is a directory", path=str(path))
        with _device(path) as file:
            yield file
        return
    if path.exists() and not overwrite:
        raise BinlogError("the output exists: --overwrite replaces it", path=str(path))
    with ExitStack() as stack:
        try:
            made = stack.enter_context(unfinished(path))
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error.strerror}", path=str(path)) from None
        file = made.file
        yield file
        file.flush()
        os.fsync(file.fileno())
        if not private:
            os.fchmod(file.fileno(), 0o666 & ~_umask())  # it was created for its owner only
        try:
            made.finish(new=not overwrite)
        except FileExistsError:
            raise BinlogError("the output exists: --overwrite replaces it", path=str(path)) from None


def _device(path: Path) -> BinaryIO:
    """A device or pipe to write to; a file in its place, put there meanwhile, is left as it is."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # neither makes nor cuts a file
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BinlogError("the output was a device or a pipe, and is a file now", path=str(path))
    return open(descriptor, "wb")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
