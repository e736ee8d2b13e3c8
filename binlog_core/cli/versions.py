"""``binlog-core versions``: the versions for a bug report."""

from __future__ import annotations

from ..versions import show_versions
from ..versions import versions as all_versions
from .output import errors_as_lines


def versions() -> None:
    """Print the versions of binlog_core, Python and the libraries, and how checksums are computed here.

    Example:

      binlog-core versions
    """
    with errors_as_lines():
        show_versions()


def own_version() -> str:
    """The version of binlog_core."""
    return all_versions()["binlog_core"]
