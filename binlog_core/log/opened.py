"""Targets that may be open already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from .._sources.log_files import LogFiles
from .._sources.places import is_server
from .._sources.resolve import resolve
from ..limits import DEFAULT_LIMITS
from .log import Log
from .opening import open as open_log

if TYPE_CHECKING:
    from .options import AnyTarget, OpenOptions, StoredOptions


def log_of(target: AnyTarget, **options: Unpack[OpenOptions]) -> Log:
    """A target's log: the target itself if it is already open.

    Raises
    ------
    TypeError
        There are options for a log that is open already.
    """
    if not isinstance(target, Log):
        return open_log(target, **options)
    if options:
        raise TypeError(f"the log is already open: {', '.join(options)} cannot be set")
    return target


def in_all_threads(target: AnyTarget, options: OpenOptions) -> OpenOptions:
    """The options of a target that is not open yet; by default they use all processors."""
    return options if isinstance(target, Log) else {"threads": 0, **options}


@contextmanager
def opened(target: AnyTarget, **options: Unpack[OpenOptions]) -> Iterator[Log]:
    """`log_of` for as long as it is needed; a log that was already open stays open."""
    log = log_of(target, **options)
    if log is target:
        yield log
        return
    with log:
        yield log


def files_of(target: AnyTarget, **options: Unpack[StoredOptions]) -> LogFiles:
    """The logs of a target, one by one; for a `Log`, those in its range.

    Raises
    ------
    BinlogError
        As in ``resolve``, or a server refuses.
    TypeError
        There are options for a log that is open already.
    """
    given: Any = {name: value for name, value in options.items() if value is not None}
    if isinstance(target, Log):
        files = log_of(target, **given).files
        first, last = target.opened.file_range
        return LogFiles(files[first : last + 1], files.gaps, files.left_out)
    if is_server(target):
        from ..server.target import server_logs

        return server_logs(
            target,
            given.pop("server", None),
            start=None,
            stop=None,
            follow=False,
            limits=DEFAULT_LIMITS,
            **given,
        )[0]
    if others := given.keys() - {"keys", "storage_options"}:
        raise ValueError(f"{', '.join(sorted(others))}: only for servers, mysql://… or mariadb://…")
    return resolve(target, **given)
