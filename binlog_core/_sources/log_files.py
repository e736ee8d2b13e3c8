"""The logs of a target of `open`, in order: of a path, URL, directory, index file, stream or bytes."""

from __future__ import annotations

import glob
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, overload

from .._format.magic import ENCRYPTED_MAGIC, INNODB_MAGIC, MADE_BEFOREHAND, MAGIC, compression_of
from .._redaction import shown_url
from ..errors import BinlogError, MissingFileError, NotABinlogError
from ..report import Report
from .follow import FileFollower, Follower, next_log_after
from .log_names import Gap, LeftOut, find_gaps, numbered_like, order_logs
from .places import LocalFiles, Place, is_server, is_url, logs_among, place_of
from .sources import BufferSource, SharedFile, Source
from .tails import open_tail

if TYPE_CHECKING:
    from ..position import Checkpoint
    from .timeline import Share

_PATTERN = re.compile(r"[*?\[]")
_INDEX_ENDING = ".index"
_INDEX_LIMIT = 16 << 20
_TOLD = 10  # names that an error lists


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

    def continue_history(self, report: Report) -> None:
        """The same; count what is not proved about the beginning of a new history.

        Raises
        ------
        BinlogError
        """
        self.check_share()
        if self.share is not None and self.share.unproved:
            report.add("unproved_seams", path=self.path)

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
                from .compressed_files import open_packed

                found = open_tail(place, self.path) or open_packed(place, self.path)
                if found is None:
                    raise
                return found
        if isinstance(self.target, SharedFile):
            return self.target.open()
        return BufferSource(self.target, self.path)

    def follower(self, source: Source, stop: threading.Event, report: Report) -> Follower:
        """The object that waits at the end of this log, which is open as `source`.

        Raises
        ------
        BinlogError
            Such a log cannot be followed.
        """
        if not source.growing:
            raise BinlogError("an .ibb file cannot be followed: follow its server", path=self.path)
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


def resolve(
    target: Any,
    *,
    keys: Any = None,
    mmap: bool | None = None,
    storage_options: dict[str, Any] | None = None,
) -> LogFiles:
    """The logs of a target.

    Parameters
    ----------
    target : str, path, file object, bytes-like, or a list of them
        A log, ``"-"`` for standard input, a URL that fsspec knows (``s3://``, ``s3a://``, ``gs://``,
        ``https://``, ``file://`` …), a directory of logs, an index file, or a glob pattern of local files. A
        log may be compressed by gzip, zstd or xz, and encrypted by its server.
    keys : path, dict or None
        MySQL's keyring file or MariaDB's key file of encrypted logs, or a mapping of key id (MySQL) or
        number (MariaDB) to bytes.
    mmap : bool or None
        As in ``sources.open_local``.
    storage_options : dict or None
        Options for fsspec; without them, credentials come from the environment.

    Returns
    -------
    LogFiles
        At least one. Those of a directory or pattern by base name and number, an index file's in its order.

    Raises
    ------
    NotABinlogError
        The directory has no log.
    BinlogError
        The target cannot be read, or an index file names logs that are not there; `MissingFileError`: it does
        not exist.
    """

    def log(path: str, found: Any = None) -> LogFile:
        return LogFile(path, found, keys, mmap, storage_options)

    check_no_server(target)
    if isinstance(target, LogFiles):
        return target
    if isinstance(target, LogFile):
        return LogFiles([target])
    if isinstance(target, (list, tuple)):
        return _joined([resolve(t, keys=keys, mmap=mmap, storage_options=storage_options) for t in target])
    if not isinstance(target, (str, os.PathLike, IndexFile)):
        if hasattr(target, "read"):
            name = getattr(target, "name", None)
            path = name if isinstance(name, str) and name else "<stream>"
            return LogFiles([log(path, SharedFile(target, path))])
        try:
            memoryview(target)
        except TypeError:
            raise BinlogError(
                f"expected a path, a URL, a binary file object or bytes, not {type(target).__name__}"
            ) from None
        return LogFiles([log("<bytes>", target)])
    index = target if isinstance(target, IndexFile) else None
    path = _text(index.path if index is not None else target)
    if path == "-":
        return LogFiles([log("<stdin>", SharedFile(sys.stdin.buffer, "<stdin>"))])
    if index is None and (matching := _matching(path)) is not None:
        ordered = order_logs(matching, matching)  # a log and its compressed copy may both match
        if not ordered.logs:
            raise MissingFileError("no log matches the pattern", path=path)
        return LogFiles(map(log, ordered.logs), ordered.gaps, ordered.left_out)
    place = place_of(path, storage_options)
    if index is None and path.lower().endswith(_INDEX_ENDING) and place.files(path) is None:
        index = IndexFile(path)
    if index is not None:
        listed = _read_index(place, path, absolute=index.absolute)
        return LogFiles(map(log, listed), find_gaps(listed))
    names = place.files(path)
    if names is None:
        return LogFiles([log(path)])
    from .archives import archived_logs, timeline_among

    timeline = timeline_among(place, names)
    if timeline is not None:
        from .archived import ArchivedLog

        def archived(one: str) -> LogFile:
            return ArchivedLog(one, None, keys, mmap, storage_options, archive=path)

        return LogFiles(archived_logs(place, path, names, timeline, archived))
    found = order_logs(names, logs_among(place, names))
    if not found.logs:
        raise NotABinlogError("the directory has no binary log", path=path)
    return LogFiles(map(log, found.logs), found.gaps, found.left_out)


def check_no_server(target: object) -> None:
    """Refuse a server where files are expected."""
    if is_server(target):
        raise BinlogError(
            "expected files, not a server: archive the server's logs first (binlog-core archive)",
            path=shown_url(target),
        )


def _matching(path: str) -> list[str] | None:
    """Local files that match a pattern, without index files and notes beside logs; None: not a pattern."""
    if is_url(path) or not _PATTERN.search(path) or os.path.exists(path):
        return None
    found = sorted(one for one in glob.glob(path, recursive=True) if os.path.isfile(one))
    if not found:
        raise MissingFileError("no file matches the pattern", path=path)
    return [one for one in found if not one.endswith((".index", ".json"))]


def _text(path: Any) -> str:
    found = os.fspath(path)
    return found if isinstance(found, str) else os.fsdecode(found)  # a PathLike of bytes


def _joined(parts: Sequence[LogFiles]) -> LogFiles:
    """The logs of several targets, in the given order; gaps are those between all of them."""
    files = [file for part in parts for file in part]
    if not files:
        raise BinlogError("no logs given")
    if len(parts) == 1:
        return parts[0]
    left_out = [one for part in parts for one in part.left_out]
    kept, copies = _each_once(files)
    gaps = find_gaps(file.path for file in kept if file.target is None)
    return LogFiles(kept, gaps, left_out + copies)


def _each_once(files: Iterable[LogFile]) -> tuple[list[LogFile], list[LeftOut]]:
    """Each log once, and the copies that are left out.

    Of ``binlog.*`` a shell makes a list with compressed copies and the index file, which names all logs.
    """
    by_path: dict[object, LogFile] = {}
    for file in files:
        plain = file.target is None
        path = os.path.abspath(file.path) if plain and not is_url(file.path) else file.path
        by_path.setdefault(path if plain else id(file), file)
    paths = [path for path in by_path if isinstance(path, str)]
    copies = order_logs(paths, paths).left_out
    for path, _ in copies:
        del by_path[path]
    return list(by_path.values()), copies


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


def _read_index(place: Place, path: str, *, absolute: bool) -> list[str]:
    """The logs that an index file names."""
    text = place.head(path, _INDEX_LIMIT) or b""
    lines = [line.strip() for line in os.fsdecode(text).splitlines() if line.strip()]
    if not lines or re.search(rb"[\x00-\x08\x0e-\x1f]", text):
        raise NotABinlogError("not an index file: expected the name of a log on each line", path=path)
    folder = re.split(r"[^/\\]*$", path, maxsplit=1)[0]
    logs, missing = [], []
    for line in lines:
        name = re.split(r"[/\\]", line)[-1]
        if is_url(line) and line != folder + name:
            raise BinlogError(
                f"the index file names a URL, {shown_url(line)!r}: expected names of logs beside it",
                path=path,
            )
        if name and place.exists(folder + name):
            logs.append(folder + name)
        elif absolute and os.path.isabs(line) and isinstance(place, LocalFiles) and place.exists(line):
            logs.append(line)
        else:
            missing.append(line)
    if missing:
        told = ", ".join(missing[:_TOLD]) + (
            f" and {len(missing) - _TOLD} more" if len(missing) > _TOLD else ""
        )
        raise BinlogError(f"the index file names logs that are not beside it: {told}", path=path)
    return logs
