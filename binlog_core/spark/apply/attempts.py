"""An attempt to commit: the files that it writes, until a commit names them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import replace

from ..lake.table import CommitInDoubtError, FileTable
from .jobs import Folder


@contextlib.contextmanager
def attempt(table: FileTable, directory: Folder) -> Iterator[Folder]:
    """Give the files of a commit names of their own, and delete those that no commit names if it fails.

    Parameters
    ----------
    table : FileTable
        The table to commit to.
    directory : Folder
        Its directory; it is made.

    Yields
    ------
    Folder
        The directory, for the files of this attempt alone.

    Raises
    ------
    CommitInDoubtError
        The commit may have been made: all files stay.
    """
    place = replace(directory, attempt=f"{uuid.uuid4().hex[:12]}-")
    try:
        place.make()
        yield place
    except CommitInDoubtError:
        raise
    except BaseException:
        _delete_uncommitted(table, place)
        place.unmake()
        raise


def _delete_uncommitted(table: FileTable, place: Folder) -> None:
    """Delete an attempt's files that no commit names: one that failed or was interrupted may be made."""
    from pyarrow.fs import FileSelector

    # While the table's state is unknown, they stay.
    with contextlib.suppress(Exception):  # of the store
        named = {file.name for file in table.reopened().files()}
        filesystem = place.open()
        for info in filesystem.get_file_info(FileSelector("")):
            if info.base_name.startswith(place.file_prefix) and info.base_name not in named:
                filesystem.delete_file(info.base_name)
