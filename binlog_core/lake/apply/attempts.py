"""Attempts to commit: their files have names of this attempt alone, and go if it fails."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import replace

from ...errors import CommitInDoubtError
from ..tables.table import FileTable
from .jobs import Folder


@contextlib.contextmanager
def attempt(table: FileTable, directory: Folder) -> Iterator[Folder]:
    """Give a commit's files a prefix that no others have; if it fails, delete those in no commit.

    Parameters
    ----------
    table : FileTable
        The table to commit to.
    directory : Folder
        Its directory, which is created.

    Yields
    ------
    Folder
        The directory, with this attempt's prefix for file names, and the table's partition.

    Raises
    ------
    CommitInDoubtError
        The commit may have been made; all files stay.
    """
    place = replace(directory, attempt=f"{uuid.uuid4().hex[:12]}-", partition=table.partition)
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
    """Delete an attempt's files that are in no commit: a commit that failed may have been made."""
    from pyarrow.fs import FileSelector

    # If the commits cannot be read, all files stay.
    with contextlib.suppress(Exception):  # of the store
        named = {file.name for file in table.reopened().files()}
        filesystem = place.open()
        for info in filesystem.get_file_info(FileSelector("")):
            if info.base_name.startswith(place.file_prefix) and info.base_name not in named:
                filesystem.delete_file(info.base_name)
