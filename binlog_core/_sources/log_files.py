"""Logs that are not opened yet: one, and several in order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, cast, overload

from .._base.redaction import shown_url
from .._format.magic import ENCRYPTED_MAGIC, INNODB_MAGIC, MADE_BEFOREHAND, MAGIC, compression_of
from ..errors import BinlogError, MissingFileError
from ..report import Report
from .log_names import Gap, LeftOut, numbered_like
from .places import StorePlace, is_server, is_url, place_of
from .sources import BufferSource, FileSource, SharedFile, Source

if TYPE_CHECKING:
    from ..position import Checkpoint
    from .follow import Follower
    from .timeline import Share

_COPIED_LEN = 1 << 20


@dataclass(frozen=True, repr=False)
class LogFile:
    """One log, not opened yet.

    Parameters
    ----------
    path : str
        Its path or URL; without one, ``<bytes>``, ``<stdin>`` or the file object's name.
    target : object
        The bytes, or a `SharedFile` of a file object; None for a path.
    keys, mmap, storage_options
        As `resolve` takes them.
    share : Share or None
        For a log in an archive: the part that belongs to the archive's history.
    """

    path: str
    target: Any = field(default=None, repr=False)
    keys: Any = field(default=None, repr=False)
    mmap: bool | None = None
    storage_options: dict[str, Any] | None = field(default=None, repr=False)
    share: Share | None = field(default=None, repr=False)

    chained: ClassVar[bool] = False  # the log after it is known only once it has been read

    @property
    def name(self) -> str:
        """Its path for display: a URL without user, password and signature."""
        return shown_url(self.path)

    def __repr__(self) -> str:
        return f"LogFile({self.name!r})"

    @property
    def divisible(self) -> bool:
        """Whether several threads may open it at any time: bytes, or a local file that is not a pipe."""
        if self.target is not None:
            return not isinstance(self.target, SharedFile)
        return not is_server(self.path) and not is_url(self.path) and os.path.isfile(self.path)

    def check_share(self) -> None:
        """Refuse to continue reading over a gap of its archive.

        Raises
        ------
        BinlogError
        """
        if self.share is not None and self.share.missing is not None:
            raise BinlogError(f"{self.share.missing}; give start= after it to read the rest", path=self.path)

    @property
    def begins_history(self) -> bool:
        """Whether its archive has another history from here on, in which a GTID is of another transaction."""
        return self.share is not None and self.share.unproved

    def open(self) -> Source:
        """Open it, decrypted and decompressed.

        Raises
        ------
        BinlogError
            It cannot be opened, its key is missing, or a library for it is.
        """
        return unwrap(self.open_stored(), self.keys, self._open_number)

    def _open_number(self, number: int) -> Source:
        """The log with another number beside this one, as it is stored.

        Raises
        ------
        MissingFileError
            There is none.
        """
        path = numbered_like(self.path, number) if self.target is None else None
        if path is None:
            raise MissingFileError(
                f"file number {number} is not known: open the log by its path", path=self.path
            )
        return replace(self, path=path).open_stored()

    def open_stored(self) -> Source:
        """Open it as it is stored."""
        if self.target is None:
            place = place_of(self.path, self.storage_options)
            try:
                return place.open(self.path, self.mmap)
            except MissingFileError:
                from .tails import open_tail

                found = open_tail(place, self.path) or _open_packed(place, self.path)
                if found is None:
                    raise
                return found
        if isinstance(self.target, SharedFile):
            return self.target.open()
        return BufferSource(self.target, self.path)

    def follower(self, source: Source, stop: threading.Event, report: Report) -> Follower:
        """The object that waits at the end of this log, which is open as `source`."""
        from .follow import FileFollower

        return FileFollower(source, stop=stop, report=report)

    def after(self, source: Source, path: str, done: Checkpoint) -> LogFile:
        """The log after this one, which was followed to its end.

        Parameters
        ----------
        source : Source
            This log, as it was read.
        path : str
            The log that its follower found.
        done : Checkpoint
            Which transactions have ended.
        """
        return replace(self, path=path)

    def behind(self, source: Source) -> LogFile | None:
        """For a stream of logs: the log after this one, whose `source` has been read to its end."""
        return None

    def following(self) -> LogFile | None:
        """The log with the next number, if it exists."""
        from .follow import next_log_after

        path = next_log_after(self.path) if self.target is None else None
        return replace(self, path=path) if path is not None else None


@dataclass(frozen=True)
class IndexFile:
    """An index file as a target, for one with a different name or with logs in other folders.

    A path that ends in ``.index`` is always read as an index file.

    Parameters
    ----------
    path : str or path
        A text file with the name of a log in each line. Each log is looked for beside the index file,
        whatever folder the line names.
    absolute : bool
        Follow an absolute path if there is no such log beside the index file. Use it only with an index file
        that you trust, since it decides which files are read.
    """

    path: str | os.PathLike[str]
    absolute: bool = False


class LogFiles(Sequence[LogFile]):
    """Logs in order.

    Parameters
    ----------
    files : iterable of LogFile

    Attributes
    ----------
    gaps : tuple of Gap
        Numbers that are missing between them: logs that were purged or lost, or files that are no longer
        logs.
    left_out : tuple of LeftOut
        Files of a directory with the same number as another: ``bin.000001.gz`` beside ``bin.000001``, or
        ``bin.0000001``. The one with the server's naming is read.
    """

    def __init__(
        self, files: Iterable[LogFile], gaps: Iterable[Gap] = (), left_out: Iterable[LeftOut] = ()
    ) -> None:
        self._files = tuple(files)
        self.gaps = tuple(gaps)
        self.left_out = tuple(left_out)

    def tell(self, report: Report) -> None:
        """Count gaps and files that were left out."""
        for gap in self.gaps:
            report.add("file_gaps", path=self._files[0].path, detail=str(gap))
        for path, kept in self.left_out:
            report.add("files_left_out", path=path, detail=f"{kept} has the same number")

    @overload
    def __getitem__(self, index: int) -> LogFile: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LogFile, ...]: ...
    def __getitem__(self, index: int | slice) -> LogFile | tuple[LogFile, ...]:
        return self._files[index]

    def __len__(self) -> int:
        return len(self._files)


def unwrap(source: Source, keys: Any = None, sibling: Callable[[int], Source] | None = None) -> Source:
    """Put decompression and decryption around the stored bytes of a log, as its first bytes require.

    Parameters
    ----------
    source : Source
        Closed if this fails.
    keys : path, dict or None
    sibling : callable, optional
        Opens the log with another number, as it is stored: MariaDB's .ibb files continue in one another.

    Returns
    -------
    Source
        `source` itself if it is a plain log, or not a log at all.
    """
    from .mariadb_encryption import MariaDBDecryptedSource, find_start_encryption

    try:
        kind = compression_of(source.peek(6))
        if kind is not None:
            from .compressed_files import DecompressedSource

            source = DecompressedSource(source, kind)
        magic = source.peek(4)
        if magic == ENCRYPTED_MAGIC:
            from .mysql_encryption import MySQLDecryptedSource

            return MySQLDecryptedSource(source, keys)
        if magic == INNODB_MAGIC or (magic == MADE_BEFOREHAND and source.path.endswith(".ibb")):
            from .innodb_binlog import InnodbBinlogSource

            return InnodbBinlogSource(source, sibling)
        if magic == MAGIC and (start := find_start_encryption(source)) is not None:
            return MariaDBDecryptedSource(source, keys, start)
    except BaseException:
        source.close()
        raise
    return source


def _open_packed(place: StorePlace, path: str) -> Source | None:
    """The uncompressed log, if its archive has compressed it since it was listed; None if not.

    Plans to read its bytes by range stay valid: the log is unpacked into a temporary file.
    """
    if not place.exists(f"{path}.zst"):
        return None
    import tempfile

    from .compressed_files import DecompressedSource

    file = tempfile.TemporaryFile()  # noqa: SIM115  (the source closes it)
    try:
        with DecompressedSource(place.open(f"{path}.zst", None), "zstd") as packed:
            while piece := packed.read(_COPIED_LEN):
                file.write(piece)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return FileSource(cast("BinaryIO", file), path, owned=True, splittable=True)
