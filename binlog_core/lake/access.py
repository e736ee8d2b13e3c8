"""How a log is opened, by the driver and by workers alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._sources.log_files import LogFile


@dataclass(frozen=True, slots=True)
class Access:
    """The arguments for opening logs; sent to the workers.

    Parameters
    ----------
    keys : path, dict or None
        Keys of encrypted logs.
    storage_options : dict or None
        Options for fsspec.
    """

    keys: Any = field(default=None, repr=False)
    storage_options: dict[str, Any] | None = field(default=None, repr=False)

    def file(self, path: str) -> LogFile:
        """A log, to be opened."""
        # Not mapped: its pages would count as a worker's memory, and a file that shrinks kills it.
        return LogFile(path, keys=self.keys, mmap=False, storage_options=self.storage_options)
