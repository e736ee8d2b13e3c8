"""An archive in an object store: kept in a local spool, and uploaded from there."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

from .._redaction import shown_url
from .._sources.log_files import LogFile
from .._sources.object_stores import arrow_filesystem
from .._sources.places import Place, place_of
from .._sources.timeline import NAME, Timeline
from ..errors import ArchiveError, BinlogError
from .files import Files, put
from .names import logs_among

_PIECE = 8 << 20
_LOCK = "archiver.json"
_CLAIM = {"id", "process", "host", "updated", "valid"}  # what it tells
_CLAIM_PAUSE = 1.0  # seconds in which the claim of another that began at the same time comes
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds between two tries
T = TypeVar("T")


class Store:
    """Objects below a URL. What fails is tried again for a while.

    Parameters
    ----------
    url : str
    storage_options : dict or None
    patience : float
        Seconds to go on trying.
    stop : threading.Event
        Ends waiting when set.
    """

    def __init__(
        self, url: str, storage_options: dict[str, Any] | None, *, patience: float, stop: threading.Event
    ) -> None:
        self.url = url.rstrip("/")
        self._storage_options = storage_options
        self._place: Place = place_of(url, storage_options)
        self._patience = patience
        self._stop = stop
        found = arrow_filesystem(self.url, storage_options)
        if found is not None:
            self._arrow, self._root = found
            self._fsspec = None
        else:
            import fsspec

            self._arrow = None
            self._fsspec, self._root = fsspec.core.url_to_fs(self.url, **(storage_options or {}))

    def names(self, folder: str = "") -> list[str]:
        """Names of the objects in a folder."""

        def listed() -> list[str]:
            try:
                found = self._place.files(self._url_of(folder).rstrip("/") + "/")
            except BinlogError as error:
                if isinstance(error.__cause__, FileNotFoundError) or "FileNotFound" in str(error):
                    return []
                raise
            return sorted(path.rpartition("/")[2] for path in found or ())

        return self._tried(listed, "list", folder)

    def read(self, name: str) -> Iterator[bytes]:
        """An object, piece by piece."""
        with self._place.open(self._url_of(name), None) as source:
            while piece := source.read(_PIECE):
                yield piece

    def size(self, name: str) -> int:
        """Bytes of an object."""
        with self._place.open(self._url_of(name), None) as source:
            return source.size or 0

    def write(self, name: str, source: BinaryIO, size: int) -> None:
        """Make an object of the first so many bytes of a file."""

        def written() -> None:
            source.seek(0)
            left = size
            with self._writer(name) as target:
                while left and (piece := source.read(min(left, _PIECE))):
                    target.write(piece)
                    left -= len(piece)

        self._tried(written, "write", name)

    def remove(self, name: str) -> None:
        """Remove an object."""
        inner = f"{self._root}/{name}"
        remove = self._fsspec.rm_file if self._fsspec is not None else self._arrow.delete_file
        self._tried(lambda: remove(inner), "remove", name)

    def logs(self, folder: str) -> list[LogFile]:
        """The logs in a folder, by number."""
        names = logs_among(self.names(folder))
        return [
            LogFile(
                self._url_of(f"{folder}/{name}" if folder else name), storage_options=self._storage_options
            )
            for name in names
        ]

    def name_of(self, url: str) -> str:
        """The name of an object."""
        return url.removeprefix(self.url + "/")

    def _writer(self, name: str) -> Any:
        inner = f"{self._root}/{name}"
        if self._fsspec is not None:
            return self._fsspec.open(inner, "wb")
        return self._arrow.open_output_stream(inner, compression=None)  # by default the name decides

    def _url_of(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def _tried(self, work: Callable[[], T], doing: str, name: str) -> T:
        end = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return work()
            except Exception as error:  # each store has errors of its own
                if time.monotonic() + pause >= end or self._stop.is_set():
                    shown = shown_url(self._url_of(name))
                    raise ArchiveError(
                        f"the store fails to {doing}: {type(error).__name__}: {error}", path=shown
                    ) from None
            self._stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


class Uploader:
    """Brings what the spool has to the store: finished logs, the timeline, and the growing log's beginning.

    Parameters
    ----------
    store : Store
    spool : str
        The local directory.
    interval : float
        Seconds between two uploads of the growing log.
    """

    def __init__(self, store: Store, spool: str, interval: float) -> None:
        self.store = store
        self._spool = spool
        self._interval = interval
        self._id = secrets.token_hex(8)
        self._timeline = b""  # as the store has it
        self._tail: tuple[str, int] | None = None  # as the store has it
        self._finished: set[str] = set()  # logs whose beginning is not to be uploaded any more
        self.error: BaseException | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = (
            threading.Lock()
        )  # one upload at a time: of the log that grows, and of the one that ended

    @property
    def name(self) -> str:
        """The store's address, as it is shown."""
        return shown_url(self.store.url)

    # ------------------------------------------------------------ begin and end

    def begin(self) -> None:
        """Refuse where another archiver keeps the store; fetch what the spool lacks.

        Raises
        ------
        ArchiveError
        """
        names = self.store.names()
        if _LOCK in names:
            told = self._claim()
            if told is not None and time.time() - told["updated"] < told["valid"]:
                raise ArchiveError(
                    f"another archiver keeps this archive (process {told['process']} on {told['host']}):"
                    f" stop it, or wait for {told['valid']:.0f} s if it is dead",
                    path=shown_url(self.store.url),
                )
        self._write_lock()
        # Stores compare and write in two steps: of two that began at once the later claim stands.
        self._ended.wait(_CLAIM_PAUSE)
        self._check_claim()
        try:
            self._take_up(names)
        except BaseException:
            self.end()
            raise

    def _take_up(self, names: list[str]) -> None:
        if NAME not in names:
            if logs := logs_among(names):
                raise ArchiveError(
                    f"holds logs ({logs[0]}, …) and is not an archive: expected an empty place, or one"
                    f" with {NAME}",
                    path=shown_url(self.store.url),
                )
            return
        self._timeline = b"".join(self.store.read(NAME))
        timeline = Timeline.parse(self._timeline, shown_url(self.store.url))
        for segment in reversed(timeline.segments):  # the last may have been lost before its first log came
            folder = segment.folder
            logs = logs_among(self.store.names(folder)) if folder else logs_among(names)
            if logs:
                if not self._has(folder, logs[-1]):
                    self._fetch(folder, logs[-1])
                return

    def _has(self, folder: str, name: str) -> bool:
        """Whether the spool is of this archive and as far as the store."""
        try:
            with open(os.path.join(self._spool, NAME), "rb") as file:
                timeline = Timeline.parse(file.read(), self._spool)
            mine = logs_among(os.listdir(os.path.join(self._spool, folder)))
        except (OSError, BinlogError):
            return False
        known = [one.folder for one in timeline.segments]
        if folder not in known:
            return False
        if known.index(folder) < len(known) - 1:
            return True
        if not mine or _bare(mine[-1]) != _bare(name):
            return bool(mine) and _bare(mine[-1]) > _bare(name)
        if mine[-1] != name:  # one of them is compressed: that one is finished
            return mine[-1].endswith(".zst")
        return os.path.getsize(os.path.join(self._spool, folder, name)) >= self.store.size(
            f"{folder}/{name}" if folder else name
        )

    def _fetch(self, folder: str, name: str) -> None:
        """The timeline and the last log, for an archiver on another machine.

        What the spool still has is in the store, which is further: logs are uploaded one after another.
        """
        files = Files()
        for path, _, names in os.walk(self._spool):
            for old in logs_among(names):
                files.remove(os.path.join(path, old))
        target = os.path.join(self._spool, folder)
        files.make_directory(target)
        with open(os.path.join(target, name), "wb") as file:
            for piece in self.store.read(f"{folder}/{name}" if folder else name):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        put(files, os.path.join(self._spool, NAME), self._timeline)

    def end(self) -> None:
        """Let another archiver have the store."""
        with contextlib.suppress(BinlogError):
            self._check_claim()
            self.store.remove(_LOCK)

    def _claim(self) -> dict[str, Any] | None:
        """Who keeps the store; None: what stands there is not to be read."""
        try:
            told = json.loads(b"".join(self.store.read(_LOCK)))
            return told if isinstance(told, dict) and told.keys() >= _CLAIM else None
        except (BinlogError, OSError, ValueError, RecursionError):
            return None

    def _check_claim(self) -> None:
        """Who slept for so long that another took over must not write any more."""
        told = self._claim()
        if told is not None and told["id"] != self._id:
            raise ArchiveError(
                f"another archiver has taken over this archive (process {told['process']} on {told['host']})",
                path=shown_url(self.store.url),
            )

    def _write_lock(self) -> None:
        told = {
            "id": self._id,
            "process": os.getpid(),
            "host": socket.gethostname(),
            "updated": time.time(),
            "valid": 3 * self._interval + 60,
        }
        self._write_small(_LOCK, json.dumps(told).encode())

    def _write_small(self, name: str, data: bytes) -> None:
        self.store.write(name, io.BytesIO(data), len(data))

    # ------------------------------------------------------------ uploads

    def upload_timeline(self) -> None:
        """The timeline, where it has changed."""
        with open(os.path.join(self._spool, NAME), "rb") as file:
            text = file.read()
        if text != self._timeline:
            self._write_small(NAME, text)
            self._timeline = text

    def upload_finished(self, path: str) -> None:
        """A log that does not grow any more; then the spool lets go of it."""
        with self._lock:
            self._check_claim()
            self.upload_timeline()
            name = os.path.relpath(path, self._spool)
            with open(path, "rb") as source:
                self.store.write(name, source, os.path.getsize(path))
            self._finished.add(path.removesuffix(".zst"))
            if name.endswith(".zst"):  # its beginning went before it, as it grew
                folder, _, plain = name.removesuffix(".zst").rpartition("/")
                if plain in self.store.names(folder):
                    self.store.remove(name.removesuffix(".zst"))
            os.unlink(path)

    def upload_tail(self, place: tuple[str, int] | None) -> None:
        """The growing log as far as it is on disk.

        Parameters
        ----------
        place : (str, int) or None
            Its path, and how much of it.
        """
        with self._lock:
            self._check_claim()
            self._write_lock()
            if place is None or place == self._tail or place[0] in self._finished:
                return
            path, size = place
            try:
                source = open(path, "rb")  # noqa: SIM115 - closed below
            except FileNotFoundError:  # it is finished, and compressed; it comes by itself
                return
            with source:
                self.upload_timeline()
                self.store.write(os.path.relpath(path, self._spool), source, size)
            self._tail = place

    # ------------------------------------------------------------ beside the stream

    def start(self, place: Callable[[], tuple[str, int] | None]) -> None:
        """Upload the growing log from now on, once in an interval."""

        def work() -> None:
            while not self._ended.wait(self._interval):
                try:
                    self.upload_tail(place())
                except BaseException as error:
                    self.error = error
                    return

        self._thread = threading.Thread(target=work, name="archive-upload", daemon=True)
        self._thread.start()

    def finish(self, place: tuple[str, int] | None) -> None:
        """Upload what is left."""
        self.stop()
        self.upload_tail(place)

    def stop(self) -> None:
        """End the uploads; may be called again."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _bare(name: str) -> str:
    return name.removesuffix(".zst")
