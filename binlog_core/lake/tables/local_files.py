"""The local file system for lakes and exports: what is written or removed is never reached through a link.

The folder that the user names may be a link; what is below it is opened as itself. Reading is pyarrow's own.
"""

from __future__ import annotations

from typing import Any

from pyarrow import PythonFile
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from ..._base import own_files


class _AsItself:
    """What writes and removes, in place of pyarrow's."""

    root: str

    def _path(self, name: str) -> str:
        return name

    def open_output_stream(self, path: str, **_: Any) -> PythonFile:
        """A new file to write, in place of what had its name before."""
        return PythonFile(own_files.create(self._path(path), self.root), mode="w")

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        """Make a directory, and those above it."""
        own_files.make_folder(self._path(path), self.root)

    def move(self, source: str, target: str) -> None:
        """Rename a file or directory."""
        own_files.rename(self._path(source), self._path(target), self.root)

    def delete_file(self, path: str) -> None:
        """Remove a file."""
        own_files.remove(self._path(path), self.root)

    def delete_dir(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        own_files.remove_folder(self._path(path), self.root)


class LocalFiles(_AsItself, LocalFileSystem):  # type: ignore[misc]
    """All local files; below `root` no folder may be a link."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self.root = root

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalFiles, (self.root,)


class LocalFolder(_AsItself, SubTreeFileSystem):  # type: ignore[misc]
    """The files in a folder, by their paths there."""

    def __init__(self, root: str) -> None:
        super().__init__(root, LocalFileSystem())
        self.root = root

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalFolder, (self.root,)

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"
