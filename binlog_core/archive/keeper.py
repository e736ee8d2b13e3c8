"""Work on finished logs, parallel to the stream: they are compressed, uploaded, and removed when old."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import warnings
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from .._format.event_header import FIRST_EVENT, HEADER_LENGTH_V3, timestamp_of
from .._sources.log_files import LogFile
from ..errors import ArchiveError, BinlogError, MissingExtraError
from ..index.files import need_pyarrow
from ..index.making import index as index_logs
from ..report import BinlogWarning
from ..server.world import REAL, Started, World
from .files import Files, as_archive_error, hidden_name, write_all
from .names import logs_among

if TYPE_CHECKING:
    from .._sources.timeline import ArchiveTimeline, Segment
    from .store import Uploader

_PIECE = 4 << 20


class Archive(Protocol):
    """What a keeper needs to know of the archive that is written."""

    timeline: ArchiveTimeline

    @property
    def grows(self) -> bool:
        """Whether the last log is still being written."""

    def folder_of(self, segment: Segment) -> str:
        """The directory of a segment's logs."""


class Keeper:
    """Works on finished logs in a separate thread.

    Parameters
    ----------
    files : Files
    compress : bool
        Whether to compress by zstd; the log's bytes are compared before the plain log is removed.
    keep : float or None
        Seconds that a log is kept after the next one began, and after it was written; None: forever.
    index : bool
        Keep an index beside the logs.
    world : World
        Its clock, and what starts the thread.
    """

    def __init__(
        self,
        files: Files | None = None,
        *,
        compress: bool = False,
        keep: float | None = None,
        index: bool = False,
        world: World = REAL,
    ) -> None:
        if compress:
            _zstandard()  # fails early, and says how to install it
        if index:
            need_pyarrow()
        self._files = files or Files()
        self._compress = compress
        self._keep = keep
        self._index = index
        self._told = False  # that nothing can be removed
        self._indexed: set[str] = set()  # directories whose earlier logs are all in the index
        self._world = world
        self._jobs: deque[tuple[str, bool]] = deque()
        self._more = threading.Event()  # jobs, or the end
        self._ends = False
        self._thread: Started | None = None
        self._error: BaseException | None = None
        self._archive: Archive | None = None
        self._uploader: Uploader | None = None

    def begin(self, archive: Archive, uploader: Uploader | None = None) -> None:
        """Start, and first finish what an earlier run left undone."""
        self._uploader = uploader
        self._archive = archive
        if self._compress or self._index or self._keep is not None or uploader is not None:
            self._ends = False
            self._thread = self._world.start(self._work, "archive-keeper")
        if not self._compress and uploader is None:
            return
        for segment in archive.timeline.segments:
            folder = archive.folder_of(segment)
            with as_archive_error(folder, "read the archive's directory"):
                there = self._files.has_directory(folder)
                logs = logs_among(self._files.names(folder)) if there else []
            if segment is archive.timeline.last and archive.grows:
                logs = logs[:-1]
            for name in logs:
                self._add(os.path.join(folder, name), segment.until is None or name != segment.until[0])

    def keep(self, path: str) -> None:
        """Note that a log is finished."""
        self._add(path, True)

    def leave(self, path: str) -> None:
        """Note that a log no longer grows, because another server has taken over."""
        self._add(path, False)

    def _add(self, path: str, finished: bool) -> None:
        if self._thread is not None:  # otherwise there is nothing to do
            self._jobs.append((path, finished))
            self._more.set()

    def check(self) -> None:
        """Raise an error of the thread."""
        for error in (self._error, self._uploader.error if self._uploader is not None else None):
            if error is not None:
                raise error

    def finish(self) -> None:
        """Return once everything is done."""
        self._end()
        self.check()

    def abandon(self) -> None:
        """End after the current log; the next run does the rest."""
        self._jobs.clear()
        self._end()

    def _end(self) -> None:
        if self._thread is not None:
            self._ends = True
            self._more.set()
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (job := self._next()) is not None:
            path, finished = job
            if self._error is not None or not os.path.exists(path):  # old enough to be gone already
                continue
            try:
                if self._compress and finished and not path.endswith(".zst"):
                    path = self._compress_log(path)
                if self._index:
                    self._index_log(path)
                if self._uploader is not None:
                    self._uploader.upload_finished(path)
                self._remove_old()
            except BaseException as error:
                self._error = error

    def _next(self) -> tuple[str, bool] | None:
        """The next job; None: there will be none."""
        while True:
            self._more.clear()  # before looking: what comes meanwhile sets it again
            with contextlib.suppress(IndexError):
                return self._jobs.popleft()
            if self._ends:
                return None
            self._world.wait(self._more, None)

    # ------------------------------------------------------------ one log

    def _compress_log(self, path: str) -> str:
        zstandard = _zstandard()
        folder, name = os.path.split(path)
        hidden = os.path.join(folder, hidden_name(name + ".zst"))
        with as_archive_error(path, "compress the log"):
            with contextlib.suppress(FileNotFoundError):
                self._files.remove(hidden)
            source = self._files.open(path)
            try:
                target = self._files.open(hidden, new=True)
                try:
                    digest, size = self._pack(zstandard, source, target)
                    self._files.sync(target)
                    if self._unpacked_digest(zstandard, target) != digest:
                        raise ArchiveError("the compressed copy differs from the log", path=path, offset=size)
                finally:
                    self._files.close(target)
            finally:
                self._files.close(source)
            self._files.rename(hidden, path + ".zst")
            self._files.sync_directory(folder)
            self._files.remove(path)
        return path + ".zst"

    def _pack(self, zstandard: Any, source: int, target: int) -> tuple[bytes, int]:
        digest = hashlib.blake2b()
        position = written = 0
        packer = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj(
            size=self._files.size(source)
        )
        while piece := self._files.read(source, _PIECE, position):
            digest.update(piece)
            position += len(piece)
            packed = packer.compress(piece)
            write_all(self._files, target, packed, written)
            written += len(packed)
        packed = packer.flush()
        write_all(self._files, target, packed, written)
        return digest.digest(), position

    def _unpacked_digest(self, zstandard: Any, packed: int) -> bytes:
        digest = hashlib.blake2b()
        position = 0
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        while piece := self._files.read(packed, _PIECE >> 2, position):
            position += len(piece)
            digest.update(unpacker.decompress(piece))
        return digest.digest()

    def _index_log(self, path: str) -> None:
        folder, name = os.path.split(path)
        logs = [name]
        if folder not in self._indexed:  # left by an earlier run
            names = logs_among(self._files.names(folder))
            logs = names[: names.index(name) + 1]
        try:
            index_logs([os.path.join(folder, one) for one in logs])
        except BinlogError as error:  # readers do without it
            warnings.warn(
                f"the archive's index was not brought up to date: {error}", BinlogWarning, stacklevel=2
            )
            return
        self._indexed.add(folder)

    # ------------------------------------------------------------ retention

    def _remove_old(self) -> None:
        """Remove logs from the oldest on, while the log after each began long enough ago."""
        if self._keep is None:
            return
        limit = self._world.time() - self._keep
        for log, following in pairwise(self._kept()):
            begun = begun_at(following)
            if not begun or begun > limit:
                return
            # The server's clock may be wrong, or lie: the file is to be old enough, too.
            if self._uploader is not None:
                store, name = self._uploader.store, self._uploader.store.name_of(log.path)
                if not self._is_old(store.written_at(name), limit):
                    return
                store.remove(name)
                continue
            with as_archive_error(log.path, "remove the log"):
                if not self._is_old(self._files.changed_at(log.path), limit):
                    return
                self._files.remove(log.path)

    def _is_old(self, written_at: float | None, limit: float) -> bool:
        if written_at is None and not self._told:
            self._told = True
            warnings.warn(
                "old logs are not removed: the store does not say when they were written",
                BinlogWarning,
                stacklevel=2,
            )
        return written_at is not None and written_at <= limit

    def _kept(self) -> list[LogFile]:
        """All logs of the archive, in the order of its history."""
        assert self._archive is not None
        segments = self._archive.timeline.segments
        if self._uploader is not None:
            return [log for segment in segments for log in self._uploader.store.logs(segment.folder)]
        logs = []
        for folder in map(self._archive.folder_of, segments):
            with as_archive_error(folder, "read the archive's directory"):
                found = logs_among(self._files.names(folder))
            logs += [LogFile(os.path.join(folder, name), mmap=False) for name in found]
        return logs


def begun_at(log: LogFile) -> int:
    """When a log began: its descriptor's time, seconds since 1970 UTC; 0 if it has none."""
    try:
        with log.open() as source:
            return timestamp_of(source.peek(FIRST_EVENT + HEADER_LENGTH_V3), FIRST_EVENT)
    except BinlogError:
        return 0


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtraError.of("zstandard", "zstd", "--compress zstd") from error
    return zstandard
