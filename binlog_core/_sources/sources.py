"""Sources of a log's bytes: memory, a mapped file, a file read piece by piece, a stream.

A `Source` is one log. It gives either the whole log as one buffer (`view`) or the next bytes of it
(`read`). Decompression, decryption and remote storage are sources around or beside these;
``log_files.resolve`` chooses them.
"""

from __future__ import annotations

import io
import mmap as _mmap
import os
import re
import threading
import time
from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from .._base.redaction import shown_url
from .._format.event_header import FIRST_EVENT, IN_USE_FLAG, begins_with_descriptor, flags_of
from .._format.magic import INNODB_MAGIC, MAGIC
from ..errors import BinlogError, cannot_read

if TYPE_CHECKING:
    from .._core._innodb_binlog import Feed
    from ..gtids import AnyGtidSet, Gtid, MariadbGtid
    from ..position import Position

# One read never allocates more, whatever size is requested.
MAX_READ_LEN = 64 << 20

# Mappings of these fault when the server disappears or the file shrinks: such files are read instead.
# fmt: off
_NETWORK_FILE_SYSTEMS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "prl_fs", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "fuse",
}
# fmt: on

READ_ONCE = "this can be read only once, and has been: save it to a file first"


class Source(ABC):
    """The bytes of one plain (decrypted, decompressed) log.

    Parameters
    ----------
    path : str
        The file's name in errors and output: a URL without user, password and signature.

    Attributes
    ----------
    position : int
        Offset in the plain log of the byte that `read` gives next.
    splittable : bool
        True for plain bytes that can be read from any position: several workers may share the log.
    seekable : bool
        Whether `seek` can also go backward.
    read_once : bool
        Whether it cannot be opened again: a pipe.
    finds_transactions : bool
        Whether it knows where transactions begin: `transaction_from` says so, and `seek` can go backward.
    feeds : bool
        Whether `feed` may have something: then little is read at a time.
    may_have_ended : bool
        Whether the log with the next number can be the one to go on with: False while more must come in this.
    begin : int
        Position of the first event that it has; before that, only `peek` can see the log's descriptor.
    done_records : int
        Row images after that place that were already read.
    done_gtid : Gtid, MariadbGtid or None
        The transaction that they belong to; None: the first one.
    lends : bool
        See `borrow`.
    awaited : bool
        A semi-synchronous server waits for the acknowledgement that the events are stored.
    decrypted : bool
        The events after MariaDB's START_ENCRYPTION event are already decrypted.
    gtids : GtidSet, MariadbGtidSet or None
        The transactions before `begin`, if they are known.
    server : str or None
        UUID of the MySQL server that sends the log.
    withheld_to : int
        Between transactions, everything before this position is known: a server that is read by GTIDs does
        not send what the reader has.
    """

    splittable: bool = False
    seekable: bool = False
    read_once: bool = False
    finds_transactions: bool = False
    feeds: bool = False
    begin: int = 4
    done_records: int = 0
    done_gtid: Gtid | MariadbGtid | None = None
    lends: bool = False
    awaited: bool = False
    decrypted: bool = False
    gtids: AnyGtidSet | None = None
    server: str | None = None
    withheld_to: int = 0

    def __init__(self, path: str) -> None:
        self.path = shown_url(path)
        self.position = 0
        self._ahead = b""  # peeked, not yet read

    @property
    def size(self) -> int | None:
        """Bytes of the plain log at present; None if that is not known."""
        return None

    @property
    def extent(self) -> int | None:
        """About how many bytes can be divided among workers; None: the log cannot be divided."""
        return self.size if self.splittable and self.seekable else None

    @property
    def withheld(self) -> int:
        """Bytes at the end of the log that exist but cannot be returned yet.

        The beginning of an encrypted event, shorter than its header: too short to decrypt.
        """
        return 0

    @property
    def begun(self) -> bool:
        """Whether anything has been written to the log."""
        return True

    @property
    def may_have_ended(self) -> bool:
        """Whether the log with the next number can be the one to go on with."""
        return True

    def check_size(self) -> None:  # noqa: B027 - most sources have nothing to check
        """Raise BinlogError if a mapped file has become shorter than its mapping.

        Reading the missing part would end the process (SIGBUS).
        """

    def view(self) -> memoryview | None:
        """The whole plain log as one read-only buffer; None if it must be read piece by piece.

        The buffer stays valid after `close` as long as anything refers to it.
        """
        return None

    def read(self, size: int) -> bytes:
        """The next bytes of the plain log.

        Parameters
        ----------
        size : int
            At most this many bytes.

        Returns
        -------
        bytes
            Empty if there is nothing more for now (a growing file may have more later).

        Raises
        ------
        BinlogError
            The bytes cannot be read, decompressed or decrypted.
        """
        if size <= 0:
            return b""
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = self._fetch(min(size, MAX_READ_LEN))
        self.position += len(data)
        return data

    def borrow(self, size: int) -> bytes | memoryview:
        """Like `read`; if the source `lends`, the result is valid only until the next call of anything."""
        return self.read(size)

    def fill(self, buffer: memoryview) -> int:
        """Like `read`, into the caller's memory; returns the number of bytes."""
        if self._ahead:
            return _put(self.read(len(buffer)), buffer)
        count = self._fetch_into(buffer[:MAX_READ_LEN])
        self.position += count
        return count

    def feed(self) -> Feed | None:
        """What lets the decoding loop itself take the bytes that come next; `took` must be told of them."""
        return None

    def took(self, feed: Feed, count: int) -> None:  # noqa: B027 - most sources feed nothing
        """Go on behind the bytes that were taken from a feed.

        Parameters
        ----------
        feed : Feed
            From the last call of `feed`; nothing was read since.
        count : int
            Bytes.
        """

    def peek(self, size: int) -> bytes:
        """The next bytes without moving on; fewer than `size` only if there are no more for now."""
        if len(self._ahead) < size:
            parts = [self._ahead]
            missing = size - len(self._ahead)
            while missing > 0:
                try:
                    part = self._fetch(min(missing, MAX_READ_LEN))
                finally:
                    self._ahead = b"".join(parts)  # an error must not lose the bytes before it
                if not part:
                    break
                parts.append(part)
                missing -= len(part)
            self._ahead = b"".join(parts)
        return self._ahead[:size]

    def seek(self, position: int) -> None:
        """Go to a position of the plain log.

        Parameters
        ----------
        position : int
            Forward is always possible, by reading; backward if `seekable`.

        Raises
        ------
        BinlogError
            The position is beyond the end, or before the current one in a stream that cannot go back.
        """
        size = self.size
        if position < 0 or (size is not None and position > size):
            raise BinlogError(f"position {position} is outside the log of {size} bytes", path=self.path)
        ahead = position - self.position
        if 0 <= ahead <= len(self._ahead):
            self._ahead = self._ahead[ahead:]
            self.position = position
        elif self.seekable:
            self._ahead = b""
            self._move(position)
            self.position = position
        elif ahead < 0:
            raise BinlogError(
                f"cannot go back from {self.position} to {position}: the source is a stream", path=self.path
            )
        else:
            while self.position < position:
                if not self.read(min(position - self.position, 1 << 20)):
                    raise BinlogError(
                        f"position {position} is outside the log of {self.position} bytes", path=self.path
                    )

    def wait(self, timeout: float, *, poll: float = 0.2, stop: threading.Event | None = None) -> bool:
        """Wait until `read` has more to give.

        Parameters
        ----------
        timeout : float
            Seconds.
        poll : float
            Seconds between two looks.
        stop : threading.Event or None
            Ends the waiting when set.

        Returns
        -------
        bool
            True: there is more. False: timeout, or stopped.
        """
        end = time.monotonic() + timeout
        while not self.peek(1):
            pause = min(poll, end - time.monotonic())
            if pause <= 0:
                return False
            if stop is None:
                time.sleep(pause)
            elif stop.wait(pause):
                return False
        return True

    @abstractmethod
    def _fetch(self, size: int) -> bytes:
        """The next bytes after those fetched before; empty: no more for now."""

    def _fetch_into(self, buffer: memoryview) -> int:
        """The same, into a buffer; returns the number of bytes."""
        return _put(self._fetch(len(buffer)), buffer)

    def _move(self, position: int) -> None:
        """Make `position` the next byte that `_fetch` gives; called only if `seekable`."""
        raise NotImplementedError

    def transaction_from(self, position: int) -> int | None:
        """Where the first transaction begins from a position on; reading goes on there. None: none does."""
        raise NotImplementedError

    def transaction_in_file(self, offset: int) -> int | None:
        """The same for an offset in the stored file, of a record."""
        raise NotImplementedError

    def twin(self) -> Source | None:
        """Another source of the same bytes, for another thread; None: the log must be opened again."""
        return None

    def pass_damage(self) -> bool:
        """After an error of `read`: make it go on behind the damage; False: that is not possible."""
        return False

    def acknowledge(self, position: Position) -> None:  # noqa: B027 - only servers wait for it
        """Tell the sender that everything before a position is stored safely."""

    @abstractmethod
    def close(self) -> None:
        """End reading; may be called again. Buffers that were returned stay valid."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _put(data: bytes, buffer: memoryview) -> int:
    """Put bytes at the beginning of a buffer; return their number."""
    buffer[: len(data)] = data
    return len(data)


class BufferSource(Source):
    """A log in memory, or mapped into it.

    Parameters
    ----------
    data : bytes-like
        Contiguous; not copied, and kept alive by whatever refers to `view`.
    path : str
    """

    splittable = True
    seekable = True

    def __init__(self, data: Any, path: str = "<bytes>") -> None:
        super().__init__(path)
        view = memoryview(data)
        self._view: memoryview | None = (view.cast("B") if view.nbytes else memoryview(b"")).toreadonly()
        self._mapping = data if isinstance(data, _mmap.mmap) else None
        self._next = 0

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return len(self._open_view())

    def check_size(self) -> None:
        """Raise BinlogError if the mapped file has become shorter than its mapping."""
        if self._mapping is None or self._view is None:
            return
        try:
            now = self._mapping.size()  # of the file
        except OSError:  # a network mount that went away, say: reading will show it
            return
        if now < len(self._view):
            raise BinlogError(
                f"the file shrank from {len(self._view)} to {now} bytes while it was mapped", path=self.path
            )

    def view(self) -> memoryview:
        """The log itself, as one read-only buffer."""
        return self._open_view()

    def _open_view(self) -> memoryview:
        if self._view is None:
            raise BinlogError("the log is closed", path=self.path)
        return self._view

    def _fetch(self, size: int) -> bytes:
        data = bytes(self._open_view()[self._next : self._next + size])
        self._next += len(data)
        return data

    def _move(self, position: int) -> None:
        self._next = position

    def twin(self) -> BufferSource:
        """Another source of the same bytes, for another thread; None: the log must be opened again."""
        return copy(self)

    def close(self) -> None:
        """Drop the buffer. A mapping ends with the last reference to it, not here."""
        self._view = self._mapping = None
        self._ahead = b""


class FileSource(Source):
    """A log read piece by piece from a binary file object.

    A file that shrinks while it is read ends early; one that grows has more after its end was reached.

    Parameters
    ----------
    handle : binary file object
        Needs ``read``. The log begins at its current position.
    path : str
    owned : bool
        Close the handle with the source.
    splittable : bool
        Whether the handle is a file that others can open and read, too.
    """

    def __init__(self, handle: BinaryIO, path: str, *, owned: bool = False, splittable: bool = False) -> None:
        super().__init__(path)
        self._handle: BinaryIO | None = handle
        self._owned = owned
        self.splittable = splittable
        self._start = 0
        try:
            self.seekable = bool(handle.seekable())
            if self.seekable:
                self._start = handle.tell()
        except (AttributeError, OSError, ValueError):
            self.seekable = False
        self.read_once = not self.seekable

    @property
    def size(self) -> int | None:
        """Bytes of the log at present; None for a pipe."""
        if not self.seekable:
            return None
        handle = self._open_handle()
        try:
            here = handle.tell()
            end = handle.seek(0, os.SEEK_END)
            handle.seek(here)
        except (OSError, ValueError) as exc:
            raise BinlogError(f"cannot be read: {exc}", path=self.path) from exc
        return max(end - self._start, 0)

    def _open_handle(self) -> BinaryIO:
        if self._handle is None:
            raise BinlogError("the log is closed", path=self.path)
        return self._handle

    def _fetch(self, size: int) -> bytes:
        handle = self._open_handle()
        try:
            given: Any = handle.read(size)  # a file object of the caller may give anything
        except (OSError, ValueError) as exc:
            raise BinlogError(f"cannot be read: {exc}", path=self.path) from exc
        if given is None:  # a non-blocking stream has nothing just now
            return b""
        if isinstance(given, str):
            raise BinlogError("the file object returns text: open it in binary mode", path=self.path)
        data = given if isinstance(given, bytes) else bytes(given)
        if len(data) > size:
            raise BinlogError(
                f"the file object returned {len(data)} bytes: expected at most {size}", path=self.path
            )
        return data

    def _move(self, position: int) -> None:
        try:
            self._open_handle().seek(self._start + position)
        except (OSError, ValueError) as exc:
            raise BinlogError(f"cannot go to {position}: {exc}", path=self.path) from exc

    def close(self) -> None:
        """Close the file, if this object owns it; may be called again."""
        handle, self._handle = self._handle, None
        self._ahead = b""
        if handle is not None and self._owned:
            handle.close()


class _DirectSource(FileSource):
    """The same; Python's own files read directly into memory."""

    def _fetch_into(self, buffer: memoryview) -> int:
        handle: Any = self._open_handle()
        if type(handle) not in (io.FileIO, io.BufferedReader, io.BytesIO):  # others may have `read` alone
            # Not the subclass's own `_fetch`, which takes the lock a second time.
            return _put(super()._fetch(len(buffer)), buffer)
        try:
            return handle.readinto(buffer) or 0
        except (OSError, ValueError) as exc:
            raise BinlogError(f"cannot be read: {exc}", path=self.path) from exc


class SharedFile:
    """A caller's binary file object, which several sources can read side by side if it can seek.

    Parameters
    ----------
    handle : binary file object
        The log begins at its current position.
    path : str
    """

    def __init__(self, handle: BinaryIO, path: str) -> None:
        self.path = path
        self.handle = handle
        self.lock = threading.Lock()
        first = _DirectSource(handle, path)
        self.start: int | None = first._start if first.seekable else None
        self._first: FileSource | None = first

    def open(self) -> Source:
        """The log from its beginning.

        Raises
        ------
        BinlogError
            It cannot seek, and was opened before.
        """
        if self.start is not None:
            return _SharedSource(self)
        source, self._first = self._first, None
        if source is None:
            raise BinlogError(READ_ONCE, path=self.path)
        return source


class _SharedSource(_DirectSource):
    """A source of a `SharedFile`, with its own position in it."""

    def __init__(self, shared: SharedFile) -> None:
        super().__init__(shared.handle, shared.path)
        assert shared.start is not None
        self._start = shared.start
        self._lock = shared.lock
        self._next = 0

    @property
    def size(self) -> int | None:
        """Bytes of the log as of now."""
        with self._lock:
            return super().size

    def _fetch(self, size: int) -> bytes:
        with self._lock:
            super()._move(self._next)
            data = super()._fetch(size)
        self._next += len(data)
        return data

    def _fetch_into(self, buffer: memoryview) -> int:
        with self._lock:
            super()._move(self._next)
            count = super()._fetch_into(buffer)
        self._next += count
        return count

    def _move(self, position: int) -> None:
        self._next = position


def open_local(path: str, *, mmap: bool | None = None) -> Source:
    """Open the stored bytes of a local file, neither decrypted nor decompressed.

    Parameters
    ----------
    path : str
    mmap : bool or None
        True maps the file, False reads it; None maps it if it is a plain log, unless that is still in use
        or lies on a network mount. Reading a mapped file that shrinks ends the process (SIGBUS).

    Returns
    -------
    Source
        With a `view` if the file was mapped.

    Raises
    ------
    BinlogError
        The file cannot be opened; `MissingFileError`: it does not exist.
    """
    try:
        handle: BinaryIO = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by its source
    except (OSError, ValueError) as exc:
        raise cannot_read(exc, f"cannot be opened: {_reason(exc)}", path) from exc
    regular = os.path.isfile(path)
    source = _DirectSource(handle, path, owned=True, splittable=regular)
    try:
        if not regular or mmap is False:
            return source
        if mmap is None:
            head = source.peek(23)
            # Compressed and encrypted logs are read piece by piece in any case.
            plain = head[:4] == MAGIC or (head[:4] == INNODB_MAGIC and _is_full(handle))
            if not plain or says_in_use(head) or on_network_mount(path):
                return source
        mapped = _map(handle, path)
    except BaseException:
        source.close()
        raise
    if mapped is None:
        return source
    source.close()
    return mapped


def _map(handle: BinaryIO, path: str) -> Source | None:
    if os.fstat(handle.fileno()).st_size == 0:  # an empty mapping cannot be made
        return BufferSource(b"", path)
    try:
        return BufferSource(_mmap.mmap(handle.fileno(), 0, access=_mmap.ACCESS_READ), path)
    except (
        OSError,
        ValueError,
    ):  # some file systems do not support mappings, and the file may have become empty
        return None


def _is_full(handle: BinaryIO) -> bool:
    """Whether an .ibb file's last page has its checksum: until then FLUSH can make the file shorter."""
    here = handle.tell()
    handle.seek(-4, os.SEEK_END)
    last = handle.read(4)
    handle.seek(here)
    return any(last)


def says_in_use(head: bytes) -> bool:
    """Whether the first 23 bytes of a plain log say that a server has it open, or crashed with it."""
    return begins_with_descriptor(head) and bool(flags_of(head, FIRST_EVENT) & IN_USE_FLAG)


def on_network_mount(path: str, mounts: str | None = None) -> bool:
    """Whether a file is on a network file system, as far as Linux shows.

    Parameters
    ----------
    path : str
    mounts : str or None
        A file to read instead of ``/proc/self/mounts``.
    """
    if mounts is None:
        try:
            with open("/proc/self/mounts", errors="surrogateescape") as file:
                mounts = file.read()
        except OSError:  # not Linux
            return False
    mounted = [fields for line in mounts.splitlines() if len(fields := line.split(" ")) > 2]
    # What follows takes as long as all other work of opening
    if not any(_is_network(fields[2]) for fields in mounted):
        return False
    real = os.path.realpath(path)
    best, best_type = "", ""
    for fields in mounted:
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[1])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # a later mount on the same point hides the earlier
            best, best_type = point, fields[2]
    return _is_network(best_type)


def _is_network(kind: str) -> bool:
    return kind in _NETWORK_FILE_SYSTEMS or kind.startswith("fuse.")  # fuseblk is a local disk


def _reason(exc: Exception) -> str:
    return (isinstance(exc, OSError) and exc.strerror) or str(exc)
