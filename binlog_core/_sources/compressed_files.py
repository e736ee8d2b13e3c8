"""Whole files compressed by gzip, zstd or xz, read as a stream."""

from __future__ import annotations

import lzma
import zlib
from typing import Any

from .._format.compression import ZSTD_STEP_LEN, new_zstd_frame, zstd_step
from ..errors import BinlogError, DecompressionError
from .sources import Source

_INPUT_LEN = 64 << 10
_XZ_MEMORY_LEN = 512 << 20  # xz -9 needs 65 MiB


class DecompressedSource(Source):
    """A compressed file as the log inside it; several frames, members or streams in a row are one log.

    Parameters
    ----------
    inner : Source
        The compressed file; closed with this source.
    kind : str
        gzip, zstd or xz.

    Going back starts again at the beginning of the file. Whatever the file claims, one step holds
    at most 16 MiB of decompressed bytes (and the windows that zstd and xz need: at most 128 and 512 MiB).
    """

    def __init__(self, inner: Source, kind: str) -> None:
        super().__init__(inner.path)
        self.seekable = inner.seekable
        self.read_once = inner.read_once
        self._inner = inner
        self._kind = kind
        self._begin()

    def _begin(self) -> None:
        self._frame: Any = None  # None: between two frames
        self._input = memoryview(b"")
        self._output = memoryview(b"")
        self._fetched = 0

    def _fetch(self, size: int) -> bytes:
        while not self._output:
            if self._frame is None and not self._next_frame():
                return b""
            self._output = memoryview(self._step(max(size, _INPUT_LEN)))
        data = bytes(self._output[:size])
        self._output = self._output[size:]
        self._fetched += len(data)
        return data

    def _more(self) -> bool:
        if not self._input:
            self._input = memoryview(self._inner.read(_INPUT_LEN))
        return bool(self._input)

    def _next_frame(self) -> bool:
        """Begin the next frame; False at the end of the file."""
        if self._kind != "zstd":
            while self._more() and self._input[0] == 0:  # padding between or after streams
                self._input = memoryview(bytes(self._input).lstrip(b"\0"))
        if not self._more():
            return False
        if self._kind == "gzip":
            self._frame = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif self._kind == "zstd":
            self._frame = new_zstd_frame("a zstd file", path=self.path)
        else:
            self._frame = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_LEN)
        return True

    def _step(self, size: int) -> bytes:
        """Decompress a little: perhaps nothing yet."""
        frame = self._frame
        piece = memoryview(b"")
        if self._kind != "xz" or frame.needs_input:
            if not self._more():
                raise DecompressionError(
                    f"the {self._kind} file is cut off", path=self.path, offset=self._inner.position
                )
            piece = self._input[: ZSTD_STEP_LEN if self._kind == "zstd" else None]
            self._input = self._input[len(piece) :]
        try:
            data: bytes
            if self._kind == "zstd":
                data = zstd_step(frame, piece, path=self.path)
            else:
                data = frame.decompress(piece, size)
        except (zlib.error, lzma.LZMAError) as exc:
            raise DecompressionError(f"the {self._kind} file is damaged: {exc}", path=self.path) from exc
        rest = frame.unused_data if frame.eof else b""
        if self._kind == "gzip" and not frame.eof:
            rest = frame.unconsumed_tail
        if rest:
            self._input = memoryview(rest + self._input)
        if frame.eof:
            self._frame = None
        return data

    def _move(self, position: int) -> None:
        if position < self._fetched:
            self._inner.seek(0)
            self._begin()
        while self._fetched < position:
            if not self._fetch(min(position - self._fetched, 1 << 20)):
                raise BinlogError(
                    f"position {position} is outside the log of {self._fetched} bytes", path=self.path
                )

    def close(self) -> None:
        """Close the compressed file; may be called again."""
        self._begin()
        self._ahead = b""
        self._inner.close()
