"""``option("server", …)``: the driver keeps the archive that a query reads, as `binlog_core.archive` does.

Logs are read only after they were copied to disk: whatever ends the query or this process, the next one
continues where the archive ends.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .._base.redaction import shown_url
from .._sources.places import local_path
from .._sources.resolve import resolve
from ..archive import archive
from ..archive.files import locked
from ..errors import ArchiveError, BinlogError, PrivilegeError
from ..lake.rows.source_options import SourceOptions
from ..log.server_names import server_names

_PATIENCE = 20.0  # seconds to wait for the process of an earlier query, which may be about to end
_PAUSE = 0.2
_ENDING = 30.0


class ArchiveKeeper:
    """Keeps one archive, in this process.

    Parameters
    ----------
    options : SourceOptions
        Options that name a server.
    paths : sequence of str
        The archive.

    Raises
    ------
    ValueError
        The paths are not one directory or URL.
    """

    def __init__(self, options: SourceOptions, paths: Sequence[str]) -> None:
        assert options.server is not None
        if len(paths) != 1 or any(sign in paths[0] for sign in "*?["):
            raise ValueError("option server: expected one directory or URL, where the archive is kept")
        self._server = options.server
        self._folder = paths[0]
        self._settings: dict[str, Any] = {
            "password_file": options.password_file,
            "defaults_file": options.defaults_file,
            "storage_options": options.storage_options,
        }
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed: Exception | None = None

    def up_to_now(self) -> None:
        """Copy the server's present logs.

        Raises
        ------
        BinlogError
            As for `binlog_core.archive.archive`.
        """
        self._wait_for_another()
        archive(self._server, self._folder, until="now", stop=self._stop, **self._settings)

    def begin(self) -> None:
        """Make sure that there is something to read: copy the logs if there is no archive yet."""
        try:
            resolve(self._folder, storage_options=self._settings["storage_options"])
        except BinlogError:  # nothing is there yet
            self.up_to_now()

    def keep(self) -> None:
        """Make sure that a thread copies what the server writes.

        Raises
        ------
        BinlogError
            The error with which the thread has ended.
        """
        if self._failed is not None:
            raise self._failed
        if self._thread is None:
            self.begin()
            self._thread = threading.Thread(target=self._run, name="binlog_core archive", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; received events are put on disk first."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_ENDING)

    def _run(self) -> None:
        try:
            self._wait_for_another()
            archive(self._server, self._folder, stop=self._stop, **self._settings)
        except Exception as error:  # raised where the query asks next
            self._failed = error
        else:
            if not self._stop.is_set():
                self._failed = BinlogError("the archive is no longer kept up to date", path=self._folder)

    def _wait_for_another(self) -> None:
        folder, until = local_path(self._folder), time.monotonic() + _PATIENCE
        while folder is not None and os.path.isdir(folder) and time.monotonic() < until:
            try:
                with locked(folder):
                    return
            except ArchiveError:
                time.sleep(_PAUSE)


def bring_up_to_date(options: SourceOptions, paths: Sequence[str]) -> None:
    """With a server: copy its present logs into the archive that will be read.

    Raises
    ------
    BinlogError, ValueError
        As for `ArchiveKeeper`.
    """
    if options.server is not None:
        ArchiveKeeper(options, paths).up_to_now()


def with_names(options: SourceOptions) -> SourceOptions:
    """With a server that does not log column names: the definitions of its tables, unless others are given.

    They are those of now. If a table was altered within the logs, the error about it names ``schema=ddl``.

    Raises
    ------
    BinlogError
        The server cannot be asked, or its user sees none of the tables.
    """
    if options.server is None or options.schema is not None or options.unnamed != "refuse":
        return options
    names = server_names(
        options.server,
        options.wants,
        password_file=options.password_file,
        defaults_file=options.defaults_file,
    )
    if names is None:
        return options
    if not names:
        tables = options.table or "the tables"
        raise PrivilegeError(
            "the server does not log column names, and its user sees none of the tables: GRANT SELECT"
            f' ON {tables} TO the user, or schema="ddl" takes them from CREATE TABLE in the logs',
            path=shown_url(options.server),
        )
    return replace(options, schema=names)
