"""Logs that MariaDB encrypted event by event.

Source: MariaDB server, ``Log_event::read_log_event``, ``my_crypt.cc`` and ``file_key_management``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._format.event_header import (
    FIRST_EVENT,
    HEADER_LENGTH_V1,
    HEADER_LENGTH_V3,
    IGNORABLE_FLAG,
    LENGTH_AT,
    NEXT_POSITION_AT,
    TYPE_AT,
    begins_with_descriptor,
    ends_with_checksum,
    flags_of,
    length_of,
    next_position_of,
    type_of,
)
from .._format.event_types import EventType
from ..errors import BinlogError, DecodeError, EncryptionError
from .encryption_keys import BINLOG_KEY, ciphers_of, mariadb_key
from .sources import Source

_BLOCK_LEN = 16
_KIND_LEN = LENGTH_AT - TYPE_AT  # of type code and server_id, which come before the time after decryption
_LAST_TYPE = 175  # a little above what servers write today
_READ_LEN = 1 << 20
_LEAST_RUN = 4  # fewer events are decrypted faster one by one


class StartEncryption(NamedTuple):
    """MariaDB's START_ENCRYPTION_EVENT: the events after it are encrypted.

    Parameters
    ----------
    offset : int
        Offset of the event.
    key_version : int
    nonce : bytes
        12 bytes; an event's initialization vector is made of these and its position.
    end : int
        Where the first encrypted event begins.
    checksum : bool
        Events end with a CRC32.
    """

    offset: int
    key_version: int
    nonce: bytes
    end: int
    checksum: bool


def find_start_encryption(source: Source) -> StartEncryption | None:
    """Check whether a plain log continues with MariaDB's START_ENCRYPTION_EVENT after its descriptor.

    Parameters
    ----------
    source : Source
        The log, at its beginning; nothing of it is read.

    Returns
    -------
    StartEncryption or None
        None: the log is not encrypted (nor are copies that ``mariadb-binlog --raw`` fetched, although
        they keep the event), or ends too early to know.

    Raises
    ------
    EncryptionError
        The event names an unknown scheme or has a wrong length.
    """
    head = source.peek(FIRST_EVENT + HEADER_LENGTH_V3)
    if not begins_with_descriptor(head):
        return None
    length = length_of(head, FIRST_EVENT)
    if not 76 < length < 4096:  # the longest that a server wrote has 252
        return None
    start = FIRST_EVENT + length
    event = source.peek(start + HEADER_LENGTH_V3 + 21)
    if len(event) < start + HEADER_LENGTH_V3 or type_of(event, start) != EventType.MARIADB_START_ENCRYPTION:
        return None
    if flags_of(event, start) & IGNORABLE_FLAG:
        # A server that sends an encrypted log to a client decrypts it, which this flag shows.
        return None
    event_length = length_of(event, start)
    checksum = event_length == HEADER_LENGTH_V3 + 17 + 4
    if not checksum and event_length != HEADER_LENGTH_V3 + 17:
        raise EncryptionError(
            f"a START_ENCRYPTION event of {event_length} bytes: expected 36 or 40",
            path=source.path, offset=start, type_code=EventType.MARIADB_START_ENCRYPTION,
        )  # fmt: skip
    if len(event) < start + event_length:
        return None
    body = event[start + HEADER_LENGTH_V3 : start + event_length]
    if body[0] != 1:
        raise EncryptionError(
            f"encryption scheme {body[0]} is not known: expected 1",
            path=source.path, offset=start, type_code=EventType.MARIADB_START_ENCRYPTION,
        )  # fmt: skip
    version = int.from_bytes(body[1:5], "little")
    return StartEncryption(start, version, body[5:17], start + event_length, checksum)


class MariaDBDecryptedSource(Source):
    """A log that MariaDB 10.1.7+ wrote with ``encrypt_binlog=ON``.

    Parameters
    ----------
    inner : Source
        The encrypted log, at its beginning; closed with this source.
    keys : path or dict
        The key file of ``file_key_management``, or key number to 16, 24 or 32 bytes.
    start : StartEncryption
        As `find_start_encryption` found it.

    Raises
    ------
    EncryptionError
        Key number 1 is missing or wrong.

    Notes
    -----
    Each event is encrypted separately and keeps its place and length; the length is not encrypted, so
    seeking goes from event to event. Large events are decrypted piece by piece.
    The server's AES mode (``file_key_management_encryption_algorithm``) is not in the log: the mode
    that decrypts the first event to a valid one is used.
    """

    decrypted = True

    def __init__(self, inner: Source, keys: Any, start: StartEncryption) -> None:
        super().__init__(inner.path)
        self._inner = inner
        self.seekable = inner.seekable
        self.read_once = inner.read_once
        self._start = start
        try:
            key = mariadb_key(keys, start.key_version, inner.path)
        except EncryptionError as error:
            if error.path == self.path:  # not the path of the key file
                error.located(offset=start.offset, type_code=EventType.MARIADB_START_ENCRYPTION)
            raise
        self._mode: _Cbc | _Ctr = _Cbc(key, inner.path)
        self._restart(0, start.end)
        telling = self._peek_telling_event()
        if telling is not None and not self._makes_an_event(*telling):
            self._mode = _Ctr(key, inner.path)
            if not self._makes_an_event(*telling):
                raise EncryptionError(
                    f"key number {BINLOG_KEY} is wrong: the decrypted bytes are not an event",
                    path=self.path, offset=telling[0],
                )  # fmt: skip

    @property
    def size(self) -> int | None:
        """Bytes of the plain log at present."""
        return self._inner.size

    @property
    def withheld(self) -> int:
        """Bytes at the end that cannot be decrypted yet: less than one block of an event."""
        return len(self._raw) - self._at

    def _restart(self, event: int, length: int) -> None:
        self._raw = b""  # read from inner
        self._at = 0  # this many of these bytes are used
        self._plain = memoryview(b"")  # decrypted, not fetched yet
        self._event = event  # where the current event begins; the plain beginning counts as one event
        self._length = self._left = length  # its length, and how much is still missing; 0: not known yet

    def _available(self, size: int) -> int:
        """Read until `size` bytes are available, or there are no more for now; return how many are."""
        have = len(self._raw) - self._at
        while have < size and (more := self._inner.read(max(size - have, _READ_LEN))):
            self._raw = self._raw[self._at :] + more
            self._at = 0
            have = len(self._raw)
        return min(size, have)

    def _take(self, size: int) -> bytes:
        data = self._raw[self._at : self._at + size]
        self._at += size
        return data

    def _fetch(self, size: int) -> bytes:
        if not self._plain:
            pieces = []
            ready = 0
            while ready < size and (piece := self._next_piece()):
                pieces.append(piece)
                ready += len(piece)
            self._plain = memoryview(b"".join(pieces))
        data = bytes(self._plain[:size])
        self._plain = self._plain[size:]
        return data

    def _next_piece(self) -> bytes:
        """The next event, or a part of it if it is large or incomplete."""
        begin = not self._left
        if begin:
            run = self._next_run()
            if run:
                return run
            length = self._next_length()
            if length is None:
                return b""
            self._length = self._left = length
        size = self._available(min(self._left, _READ_LEN))
        last = size == self._left
        clear = self._event < self._start.end
        if not (last or clear):
            size -= (size - 4 if begin else size) % _BLOCK_LEN
        if size <= (4 if begin and not last else 0):  # none of it can be decrypted yet
            self._left = 0 if begin else self._left
            return b""
        data = self._take(size)
        if begin:
            data = self._decrypt_begin(self._mode, data, self._event, last=last)
        elif not clear:
            data = self._mode.decrypt(data, last=last)
        self._left -= size
        if not self._left:
            self._event += self._length
        return data

    def _next_run(self) -> bytes:
        """The complete events read so far, decrypted together; empty: take a single one."""
        if not isinstance(self._mode, _Cbc) or self._available(HEADER_LENGTH_V3) < HEADER_LENGTH_V3:
            return b""
        end = len(self._raw)
        starts = [self._at]
        while starts[-1] + HEADER_LENGTH_V3 <= end:
            length = length_of(self._raw, starts[-1])
            # The shortest event has no complete block, and _next_length reports impossible lengths.
            if length <= HEADER_LENGTH_V3 or length > end - starts[-1]:
                break
            starts.append(starts[-1] + length)
        if len(starts) <= _LEAST_RUN:
            return b""
        data = self._take(starts[-1] - starts[0])
        position = self._event
        self._event += len(data)
        return self._mode.decrypt_run(
            data, [start - starts[0] for start in starts], position, self._start.nonce
        )

    def _next_length(self) -> int | None:
        """The length of the next event; None if it is not there yet."""
        if self._available(HEADER_LENGTH_V1) < HEADER_LENGTH_V1:
            return None
        length = length_of(self._raw, self._at)
        if length < HEADER_LENGTH_V3:
            raise DecodeError(
                f"an encrypted event of {length} bytes is shorter than its header",
                path=self.path,
                offset=self._event,
            )
        return length

    def _decrypt_begin(self, mode: _Cbc | _Ctr, data: bytes, position: int, *, last: bool) -> bytes:
        """Decrypt the beginning of an event, or the whole."""
        # Positions wrap at 4 GiB. The length has swapped places with the first four bytes.
        mode.begin(self._start.nonce + (position & 0xFFFFFFFF).to_bytes(4, "little"))
        plain = mode.decrypt(data[TYPE_AT:LENGTH_AT] + data[:TYPE_AT] + data[NEXT_POSITION_AT:], last=last)
        return (
            plain[_KIND_LEN:LENGTH_AT]
            + plain[:_KIND_LEN]
            + data[LENGTH_AT:NEXT_POSITION_AT]
            + plain[LENGTH_AT:]
        )

    def _peek_telling_event(self) -> tuple[int, bytes] | None:
        """The first encrypted event that shows the mode, and its position; at most 1 MiB of it.

        An event of less than a block is the same in both modes. None: there is none yet.
        """
        position = self._start.end
        while self._available(position + 20) == position + 20:
            length = length_of(self._raw, position)
            if length < HEADER_LENGTH_V3:
                break
            if length > HEADER_LENGTH_V3:
                end = self._available(position + min(length, _READ_LEN))
                return position, self._raw[position:end]
            position += length
        return None

    def _makes_an_event(self, position: int, data: bytes) -> bool:
        length = length_of(data)
        last = len(data) == length
        if not last:
            data = data[: len(data) - (len(data) - 4) % _BLOCK_LEN]
        event = self._decrypt_begin(self._mode, data, position, last=last)
        type_code, next_position = type_of(event), next_position_of(event)
        if 0 < type_code <= _LAST_TYPE and next_position in (0, (position + length) & 0xFFFFFFFF):
            return True
        # In a relay log positions are those of the source.
        if self._start.checksum:
            return last and ends_with_checksum(event)
        if type_code == EventType.ROTATE:  # its position in the next log: a small number
            return len(event) >= 27 and event[24:27] == b"\0\0\0"
        return type_code == EventType.FORMAT_DESCRIPTION and event[HEADER_LENGTH_V3:].startswith(b"\x04\0")

    def _move(self, position: int) -> None:
        event, known = self._event, self._length
        if position < event or event < self._start.end:
            event, known = (0, self._start.end) if position < self._start.end else (self._start.end, 0)
        self._inner.seek(event)
        self._restart(event, known if event == 0 else 0)
        while (
            self._event and (length := self._next_length()) is not None and self._event + length <= position
        ):
            self._event += length
            if length <= len(self._raw) - self._at:
                self._at += length
            else:
                self._inner.seek(self._event)
                self._restart(self._event, 0)
        ahead = position - self._event
        while ahead:
            data = self._fetch(min(ahead, _READ_LEN))
            if not data:
                raise BinlogError(
                    f"position {position} cannot be decrypted: the log is cut off", path=self.path
                )
            ahead -= len(data)

    def close(self) -> None:
        """Close the encrypted log; may be called again."""
        self._restart(0, 0)
        self._ahead = b""
        self._inner.close()


class _Cbc:
    """AES-CBC without padding: the part of a block at the end is XORed with the encrypted IV."""

    def __init__(self, key: bytes, path: str) -> None:
        ciphers = ciphers_of(path)
        # ECB and a separate XOR: a new CBC context for each event costs more than a small event itself.
        cipher = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.ECB())
        self._decryptor, self._encryptor = cipher.decryptor(), cipher.encryptor()

    def decrypt_run(self, data: bytes, starts: list[int], position: int, nonce: bytes) -> bytes:
        """Decrypt complete events together, with one call of AES and XOR for all.

        Parameters
        ----------
        data : bytes
            The events, one after the other, each longer than 19 bytes.
        starts : list of int
            Where each begins in `data`, and the end of the last.
        position : int
            Position of `data` in the log.
        nonce : bytes
        """
        ivs: list[bytes] = []
        secrets: list[bytes] = []  # whole blocks
        befores: list[bytes] = []  # what they are XORed with
        parts: list[bytes] = []  # what is left after the last whole block
        for start, end in pairwise(starts):
            whole = end - (end - start - 4) % _BLOCK_LEN
            secret = (
                data[start + TYPE_AT : start + LENGTH_AT]
                + data[start : start + TYPE_AT]
                + data[start + NEXT_POSITION_AT : whole]
            )
            ivs.append(nonce + ((position + start) & 0xFFFFFFFF).to_bytes(4, "little"))
            secrets.append(secret)
            befores += (ivs[-1], secret[:-_BLOCK_LEN])
            parts.append(data[whole:end])
        plain = _xor(self._decryptor.update(b"".join(secrets)), b"".join(befores))
        masks = self._encryptor.update(b"".join(ivs))
        mask = b"".join(masks[i * _BLOCK_LEN : i * _BLOCK_LEN + len(part)] for i, part in enumerate(parts))
        part_plain = _xor(b"".join(parts), mask)

        events: list[bytes] = []
        at = part_at = 0
        for start, secret, part in zip(starts, secrets, parts, strict=False):
            end, part_end = at + len(secret), part_at + len(part)
            events += (plain[at + _KIND_LEN : at + LENGTH_AT], plain[at : at + _KIND_LEN])
            events += (data[start + LENGTH_AT : start + NEXT_POSITION_AT], plain[at + LENGTH_AT : end])
            events.append(part_plain[part_at:part_end])
            at, part_at = end, part_end
        return b"".join(events)

    def begin(self, iv: bytes) -> None:
        self._iv = self._before = iv

    def decrypt(self, data: bytes, *, last: bool) -> bytes:
        full = len(data) - len(data) % _BLOCK_LEN
        blocks = data[:full]
        plain = _xor(self._decryptor.update(blocks), (self._before + blocks)[:full])
        if full:
            self._before = blocks[-_BLOCK_LEN:]
        if last and full < len(data):
            plain += _xor(data[full:], self._encryptor.update(self._iv)[: len(data) - full])
        return plain


class _Ctr:
    """AES-CTR, counting from the IV."""

    def __init__(self, key: bytes, path: str) -> None:
        self._key, self._path = key, path

    def begin(self, iv: bytes) -> None:
        ciphers = ciphers_of(self._path)
        self._stream = ciphers.Cipher(ciphers.algorithms.AES(self._key), ciphers.modes.CTR(iv)).decryptor()

    def decrypt(self, data: bytes, *, last: bool) -> bytes:
        return bytes(self._stream.update(data))


def _xor(a: bytes, b: bytes) -> bytes:
    return (np.frombuffer(a, np.uint8) ^ np.frombuffer(b, np.uint8)).tobytes()
