"""A disk that fails once: one of all calls that change a file or a name below a directory.

These are calls of the module `os` and of Python's files, through which lakes on local disks are written, too;
and commits of deltalake.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from collections.abc import Callable
from typing import Any

KILLED = 99  # exit code
KINDS = ("ENOSPC", "EIO", "EINTR", "ctrl-c", "kill")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Faults:
    """Replaces the real calls in this process from now on.

    Parameters
    ----------
    root : str
        Only calls for files below this directory count.
    at : int
        Number of the call that fails, from 1; 0: none fails.
    kind : str
        One of `KINDS`: a system error; a KeyboardInterrupt; or the process ends there. A write leaves half of
        its bytes. A commit of deltalake counts as two calls: before it, and after it was done.

    Attributes
    ----------
    calls : list of str
        The calls so far.
    failed : str or None
        The call that failed.
    """

    def __init__(self, root: str, at: int = 0, kind: str = "EIO") -> None:
        self.root, self.at, self.kind = os.path.realpath(root), at, kind
        self.calls: list[str] = []
        self.failed: str | None = None
        self._lock = threading.Lock()
        self._deep = threading.local()
        self._names()
        self._descriptors()
        self._files()
        self._exchanges()
        self._delta()

    def step(self, what: str, path: str, before: Callable[[], object] | None = None) -> None:
        """A call is about to be made; `before`: the part of it that happens although it fails."""
        if not (path == self.root or path.startswith(self.root + "/")):
            return
        with self._lock:
            self.calls.append(f"{what} {os.path.relpath(path, self.root)}")
            if len(self.calls) != self.at:
                return
            self.failed = self.calls[-1]
        if before is not None:
            before()
        if self.kind == "kill":
            os._exit(KILLED)
        if self.kind == "ctrl-c":
            raise KeyboardInterrupt
        number = getattr(errno, self.kind)
        raise OSError(number, os.strerror(number), path)

    # ------------------------------------------------------------ what is replaced

    def _names(self) -> None:
        for name in ("rename", "replace", "link", "unlink", "remove", "mkdir", "rmdir", "truncate", "chmod"):
            setattr(os, name, self._named(name, getattr(os, name)))
        real = os.open

        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if flags & _WRITES and not flags & getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY:
                self.step("open", _place(path, dir_fd))
            return real(path, flags, mode, dir_fd=dir_fd)

        os.open = opened

    def _named(self, name: str, real: Any) -> Any:
        def call(path: Any, *arguments: Any, **named: Any) -> Any:
            self.step(name, _place(path, named.get("dir_fd", named.get("src_dir_fd"))))
            return real(path, *arguments, **named)

        if real in os.supports_dir_fd:  # shutil looks
            os.supports_dir_fd.add(call)
        if real in os.supports_follow_symlinks:
            os.supports_follow_symlinks.add(call)
        return call

    def _descriptors(self) -> None:
        for name in ("fsync", "fdatasync", "ftruncate", "fchmod"):
            setattr(os, name, self._described(name, getattr(os, name)))
        for name in ("write", "pwrite"):
            setattr(os, name, self._written(name, getattr(os, name)))

    def _described(self, name: str, real: Any) -> Any:
        def call(descriptor: int, *arguments: Any) -> Any:
            self.step(name, _place_of(descriptor))
            return real(descriptor, *arguments)

        return call

    def _written(self, name: str, real: Any) -> Any:
        def call(descriptor: int, data: Any, *arguments: Any) -> Any:
            half = memoryview(data)[: len(data) // 2]
            self.step(name, _place_of(descriptor), lambda: real(descriptor, half, *arguments))
            return real(descriptor, data, *arguments)

        return call

    def _files(self) -> None:
        real = io.open

        def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if not set(mode) & set("wax+"):
                return real(file, mode, *arguments, **named)
            place = _place_of(file) if isinstance(file, int) else _place(file)
            if not isinstance(file, int):
                self.step("open", place)
            return _File(self, real(file, mode, *arguments, **named), place)

        builtins.open = opened
        io.open = opened

    def _exchanges(self) -> None:
        from binlog_core.lake.tables import parquet

        real = parquet.exchanged

        def exchanged(one: str, other: str) -> bool:
            self.step("exchange", _place(other))
            return real(one, other)

        parquet.exchanged = exchanged

    def _delta(self) -> None:
        try:
            import deltalake
            import deltalake.table
            import deltalake.transaction as made
        except ImportError:
            return
        table, alter = deltalake.DeltaTable, deltalake.table.TableAlterer
        for owner, name in (
            (made, "create_table_with_add_actions"),
            (table, "create_write_transaction"),
            (table, "delete"),
            (alter, "add_columns"),
            (alter, "add_feature"),
        ):
            setattr(owner, name, self._commit(name, getattr(owner, name)))

    def _commit(self, name: str, real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self.step(name, self.root)
            result = real(*arguments, **named)
            self.step(f"{name}: done", self.root)
            return result

        return call


class _File:
    """A file that is being written."""

    def __init__(self, faults: Faults, real: Any, path: str) -> None:
        self._faults, self._real, self._path = faults, real, path
        self._writes = 0

    def write(self, data: Any) -> Any:
        def half() -> None:
            self._real.write(data[: len(data) // 2])
            self._real.flush()

        self._writes += 1
        if self._writes & self._writes - 1 == 0:  # of many small ones the first, second, fourth, eighth …
            self._faults.step("write", self._path, half)
        return self._real.write(data)

    def close(self) -> None:
        if self._real.closed:
            return
        try:
            self._faults.step("close", self._path)
        finally:
            self._real.close()

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Any:
        return iter(self._real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _place(path: Any, directory: int | None = None) -> str:
    if isinstance(path, int):
        return _place_of(path)
    text = os.fsdecode(path)
    if directory is not None and not os.path.isabs(text):
        text = os.path.join(_place_of(directory), text)
    return os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(text))), os.path.basename(text))


def _place_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")
