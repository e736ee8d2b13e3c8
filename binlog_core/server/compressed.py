"""A connection compressed by zstd: packets are sent in frames, each of which is compressed separately.

Source: MySQL server documentation, "Compression", "Protocol::HandshakeResponse41"; sql-common/net_serv.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import MissingExtraError, ProtocolError, ServerError

_CAPABILITY = 1 << 26  # CLIENT_ZSTD_COMPRESSION_ALGORITHM: MySQL 8.0.18 and later
_LEVEL = 3  # of the server's frames
_HEADER = 7  # the frame's length (3 bytes), its number (1), the length of what is in it (3; 0: as it is)
_LARGEST = 0xFFFFFF
_ROOM = 1 << 20


class Frames:
    """Decompresses the frames of a connection.

    Raises
    ------
    MissingExtraError
        zstandard is not installed.
    """

    def __init__(self) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError.of("zstandard", "zstd", "compression=zstd") from None
        self._content_size = zstandard.frame_content_size
        self._error = zstandard.ZstdError
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        self._raw = bytearray(_ROOM)
        self._begin = self._end = 0  # of the received bytes that are not decompressed
        self._plain = memoryview(b"")  # decompressed and not taken
        self._number = 0  # of the next frame
        self._may_restart = False

    def unpack(self, data: bytes | memoryview, size: int) -> bytes | memoryview:
        """The content of a frame; `size`: its bytes, 0 if it is not compressed.

        Raises
        ------
        ProtocolError
            The frame does not match its header.
        """
        if size == 0:
            return data
        try:
            # The decompressor trusts the size in the data, so that must be the one in the header.
            if self._content_size(data) in (size, -1):
                plain: bytes = self._unpacker.decompress(data, max_output_size=size)
                if len(plain) == size:
                    return plain
        except self._error:
            pass
        raise ProtocolError("a compressed frame does not match its header")

    # ------------------------------------------------------------ as a stream

    def expect(self, number: int, *, may_restart: bool = False) -> None:
        """Expect this number in the next frame, and in each further one the next number, modulo 256.

        With `may_restart` any number may be 0: a semi-synchronous server counts from 0 again after an event
        that it wants acknowledged. The packets in the frames show which events these are.
        """
        self._number = number
        self._may_restart = may_restart

    def room(self) -> memoryview:
        """Where the connection's next bytes are to be received."""
        held = self._end - self._begin
        length = int.from_bytes(self._raw[self._begin : self._begin + 3], "little") if held >= 3 else 0
        needed = max(_HEADER + length, held + _ROOM // 4)
        if self._begin + needed > len(self._raw):
            data = self._raw[self._begin : self._end]
            if needed > len(self._raw):
                self._raw = bytearray(needed)
            self._raw[:held] = data
            self._begin, self._end = 0, held
        return memoryview(self._raw)[self._end :]

    def received(self, count: int) -> None:
        """Count received bytes."""
        self._end += count

    def take(self, room: memoryview) -> int:
        """Decompress complete frames into `room`; how many bytes were written there. 0: more must come.

        Raises
        ------
        ProtocolError
            A frame is missing, comes twice or does not match its header.
        """
        taken = 0
        while taken < len(room):
            if not self._plain:
                head = self._raw[self._begin : min(self._begin + _HEADER, self._end)]
                length = int.from_bytes(head[:3], "little")
                if len(head) < _HEADER or self._end - self._begin < _HEADER + length:
                    return taken
                if head[3] != self._number and (head[3] or not self._may_restart):
                    raise ProtocolError("a compressed frame is missing or duplicated")
                self._number = (head[3] + 1) % 256
                begin = self._begin + _HEADER
                # A copy, since it may be taken later, when the received bytes have moved.
                data = bytes(memoryview(self._raw)[begin : begin + length])
                self._plain = memoryview(self.unpack(data, int.from_bytes(head[4:], "little")))
                self._begin = begin + length
                continue
            count = min(len(room) - taken, len(self._plain))
            room[taken : taken + count] = self._plain[:count]
            self._plain = self._plain[count:]
            taken += count
        return taken


def framed(data: bytes) -> bytes:
    """A command's packet in frames that are not compressed, since commands are short."""
    out = b""
    for number, at in enumerate(range(0, len(data), _LARGEST)):
        piece = data[at : at + _LARGEST]
        out += len(piece).to_bytes(3, "little") + bytes((number % 256, 0, 0, 0)) + piece
    return out


def compressed(kind: Any, count: Callable[[int], None]) -> Any:
    """A class of PyMySQL connections that are compressed after the login.

    Parameters
    ----------
    kind : type
        The class of connections to derive from.
    count : callable
        Called with the bytes that each frame decompresses to.
    """

    class Compressed(kind):  # type: ignore[misc]
        frames: Frames | None = None
        _login = False
        _plain = b""

        def _get_server_information(self) -> None:
            super()._get_server_information()
            if not self.server_capabilities & _CAPABILITY:
                raise ServerError("the server does not compress by zstd: MySQL 8.0.18 and later do")

        def _request_authentication(self) -> None:
            self.client_flag |= _CAPABILITY
            self._login = True
            super()._request_authentication()
            self.frames = Frames()

        def write_packet(self, payload: bytes) -> None:
            if self._login and len(payload) > 32:  # which is all that a request for TLS has
                self._login = False
                payload += bytes((_LEVEL,))
            super().write_packet(payload)

        def _write_bytes(self, data: bytes) -> None:
            super()._write_bytes(data if self.frames is None else framed(data))

        def _read_bytes(self, num_bytes: int) -> bytes:
            if self.frames is None:
                plain: bytes = super()._read_bytes(num_bytes)
                return plain
            while len(self._plain) < num_bytes:
                head = super()._read_bytes(_HEADER)
                data = super()._read_bytes(int.from_bytes(head[:3], "little"))
                size = int.from_bytes(head[4:], "little")
                count(size)
                self._plain += self.frames.unpack(data, size)
            plain, self._plain = self._plain[:num_bytes], self._plain[num_bytes:]
            return plain

    return Compressed
