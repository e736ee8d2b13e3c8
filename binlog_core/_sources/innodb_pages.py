"""The pages of MariaDB's .ibb files: read in runs, or mapped, and gone through chunk by chunk."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from .._core._innodb_binlog import Pages
from .._format.innodb_binlog import HEADER_LEN, Chunk, chunk_at, parse_file_header
from .._format.magic import MADE_BEFOREHAND
from ..errors import BinlogError, ChecksumError, DecodeError, FormatError, MissingFileError
from .sources import Source

Sibling = Callable[[int], Source]

_RUN_LEN = 1 << 20  # bytes of pages that are read together, if the file is not mapped
_CACHED_RUNS = 4  # for out-of-band records, which lie anywhere
_OPEN_FILES = 16
_MOST_HEAD_LEN = 2 << 16  # bytes of the header's page and the one behind it
_TORN_WAIT = 0.05  # seconds, before the last page of a file is read again if its checksum is wrong


def is_made_beforehand(stored: Source) -> bool:
    """Whether an .ibb file has zeros where its header will be; the source is then read again from there.

    Raises
    ------
    FormatError
        Only the header has zeros: a copy that was made while the server began to write, say.
    """
    if not _has_no_header(stored):
        return False
    if not any(_read_head(stored, _MOST_HEAD_LEN)):
        return True
    if _has_no_header(stored):  # the server writes it before what follows
        raise FormatError("the .ibb file has pages, and zeros for its header", path=stored.path, offset=0)
    return False


def _has_no_header(stored: Source) -> bool:
    return head_of(stored)[: len(MADE_BEFOREHAND)] == MADE_BEFOREHAND


def head_of(stored: Source) -> bytes:
    """The first 512 bytes, as they are now."""
    return _read_head(stored, HEADER_LEN)


def _read_head(stored: Source, size: int) -> bytes:
    stored.seek(0)
    head = b""
    while len(head) < size and (part := stored.read(size - len(head))):
        head += part
    return head


class PagedFile:
    """One .ibb file.

    Parameters
    ----------
    stored : Source
        Its bytes.

    Raises
    ------
    FormatError, ChecksumError
        It has no valid header.
    """

    def __init__(self, stored: Source) -> None:
        self.path = stored.path
        self.stored = stored
        self.header = parse_file_header(head_of(stored), self.path)
        view = stored.view()
        self._mapped = None if view is None else self._whole_pages(view, 0)
        self._runs: OrderedDict[int, Pages] = OrderedDict()
        self._seen_size = 0

    @property
    def size(self) -> int:
        """Its bytes at present."""
        return self.stored.size or 0

    def seen(self, size: int) -> int:
        """The bytes that it had when last asked; it is asked again if these are not more than `size`."""
        if size >= self._seen_size:
            self._seen_size = self.size
        return self._seen_size

    def pages(self, offset: int) -> Pages | None:
        """Some pages, of which the first or a later one is that of an offset; None behind the file's end."""
        if self._mapped is not None:
            return self._mapped if offset in self._mapped else None
        begin = offset - offset % _RUN_LEN
        run = self._runs.get(begin)
        if run is None or offset not in run:
            run = self._runs[begin] = self._whole_pages(self._read(begin, _RUN_LEN), begin)
            if len(self._runs) > _CACHED_RUNS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(begin)
        return run if offset in run else None

    def page(self, offset: int) -> memoryview | None:
        """The page of an offset; None behind the file's end.

        Raises
        ------
        ChecksumError
            It is damaged.
        """
        for last_try in (False, True):
            pages = self.pages(offset)
            if pages is None:
                return None
            if (page := pages.page(offset)) is not None:
                return page
            begin = offset - offset % self.header.page_len
            if not last_try:
                self.forget(offset)
                if not self.has_bytes(begin + self.header.page_len):
                    time.sleep(_TORN_WAIT)  # the server may be writing it
        raise ChecksumError(
            f"wrong checksum of page {begin // self.header.page_len}", path=self.path, offset=begin
        )

    def has_bytes(self, offset: int) -> bool:
        """Whether something has been written to the page at an offset, of which the file may have a part."""
        return any(self._read(offset, self.header.page_len))

    def forget(self, offset: int) -> None:
        """Read the pages of an offset again the next time: the server may write more of them."""
        self._runs.pop(offset - offset % _RUN_LEN, None)

    def close(self) -> None:
        """Close the stored bytes; a mapping ends here, unless someone else has pages of it."""
        self._mapped = None
        self._runs.clear()
        self.stored.close()

    def _whole_pages(self, data: memoryview, begin: int) -> Pages:
        page_len = self.header.page_len
        return Pages(data[: len(data) // page_len * page_len], page_len, begin)

    def _read(self, begin: int, size: int) -> memoryview:
        if (view := self.stored.view()) is not None:
            return view[begin : begin + size]
        if begin >= self.size:
            return memoryview(b"")
        self.stored.seek(begin)
        buffer = np.empty(size, np.uint8).data  # not filled with zeros first
        filled = 0
        while filled < size and (count := self.stored.fill(buffer[filled:])):
            filled += count
        return buffer[:filled]


class Cursor:
    """Goes through the chunks of a file, and of those that follow it.

    After an error it is where reading can go on: behind the damaged page.

    Parameters
    ----------
    file : PagedFile
    offset : int
        Where a chunk begins, or where the one before it ends.

    Attributes
    ----------
    ended : bool
        The file has no more pages, whatever is written later.
    cut : bool
        It has a part of one more.
    """

    def __init__(self, file: PagedFile, offset: int) -> None:
        self.file = file
        self.offset = offset
        self.ended = self.cut = False

    def next(self) -> Chunk | None:
        """The next chunk; None where nothing more has been written, and where the file has `ended`."""
        page_len = self.file.header.page_len
        looked = False  # at the page behind one that is not full
        while True:
            begin = self.offset - self.offset % page_len
            try:
                page = self.file.page(self.offset)
                self.ended = page is None
                self.cut = self.ended and self.file.has_bytes(begin)
                found = (
                    None
                    if page is None
                    else chunk_at(page, page_len, self.offset - begin, begin, self.file.path)
                )
            except BinlogError:
                self._leave_page()
                raise
            if isinstance(found, int):
                self.offset = begin + found
                continue
            if found is None:
                self.file.forget(self.offset)
                if page is not None and self.file.has_bytes(begin + page_len):
                    if not looked:  # the server writes pages in order: by now this one is full
                        looked = True
                        continue
                    at = self.offset
                    self._leave_page()
                    raise DecodeError(
                        "a page is not full, and a later one has been written", path=self.file.path, offset=at
                    )
            else:
                self.offset = found.end
            return found

    def enter(self, file: PagedFile) -> None:
        """Go on at the beginning of another file."""
        self.file, self.offset = file, file.header.page_len

    def _leave_page(self) -> None:
        page_len = self.file.header.page_len
        self.offset += page_len - self.offset % page_len


class PagedFiles:
    """The files that a file's records lead to, by number.

    Parameters
    ----------
    sibling : callable or None
        Opens the file with another number, as it is stored; raises MissingFileError if there is none.

    Attributes
    ----------
    own : PagedFile
        The file itself, once `begin` was called.
    """

    own: PagedFile

    def __init__(self, sibling: Sibling | None) -> None:
        self._sibling = sibling
        self._begun = False
        self._open: OrderedDict[int, PagedFile] = OrderedDict()

    def begin(self, stored: Source) -> PagedFile:
        """The file itself; its header is read once.

        Raises
        ------
        FormatError, ChecksumError
            It has no valid header.
        """
        if not self._begun:
            self.own = PagedFile(stored)
            self._begun = True
        return self.own

    def get(self, number: int) -> PagedFile | None:
        """A file; None: it does not exist, or has no header yet."""
        if number == self.own.header.number:
            return self.own
        if (file := self._open.get(number)) is not None:
            self._open.move_to_end(number)
            return file
        if self._sibling is None:
            return None
        try:
            stored = self._sibling(number)
        except MissingFileError:
            return None
        try:
            if is_made_beforehand(stored):
                stored.close()
                return None
            file = PagedFile(stored)
            if file.header.number != number:
                raise DecodeError(f"the header has number {file.header.number}", path=file.path)
        except BaseException:
            stored.close()
            raise
        self._open[number] = file
        if len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return file

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._open.popitem()[1].close()
        if self._begun:
            self.own.close()
