"""Logs that MySQL encrypted as whole files.

Source: MySQL server, ``rpl_log_encryption.h``.
"""

from __future__ import annotations

import hashlib
from typing import Any

from .._format.magic import ENCRYPTED_MAGIC, MAGIC
from ..errors import EncryptionError
from .encryption_keys import ciphers_of, mysql_key
from .sources import Source

_HEADER_LEN = 512
_BLOCK_LEN = 16


class MySQLDecryptedSource(Source):
    """A log that MySQL 8.0.14+ wrote with ``binlog_encryption=ON``.

    Parameters
    ----------
    inner : Source
        The encrypted file, at its beginning; closed with this source.
    keys : path or dict
        The JSON file of ``component_keyring_file``, or key id to 32 bytes.

    Raises
    ------
    EncryptionError
        The header is not valid, the key is missing (the message has its id) or wrong.

    Notes
    -----
    The file's own key is derived from its password, which the server's key decrypts. AES-CTR can begin
    at any block, so the source can seek wherever the file can.
    """

    def __init__(self, inner: Source, keys: Any) -> None:
        super().__init__(inner.path)
        self._inner = inner
        self.seekable = inner.seekable
        self.read_once = inner.read_once
        self._start = inner.position + _HEADER_LEN
        try:
            self._unlock(keys)
        except EncryptionError as error:
            if error.path == self.path:  # not the path of the key file
                error.located(offset=0)
            raise

    def _unlock(self, keys: Any) -> None:
        inner = self._inner
        header = inner.peek(_HEADER_LEN)
        key_id, password, iv = _parse_mysql_header(header, self.path)
        inner.read(len(header))
        key = mysql_key(keys, key_id, self.path)
        digest = hashlib.sha512(_decrypt_cbc(key, iv, password, self.path)).digest()
        self._key, self._nonce = digest[:32], digest[32:40]
        self._stream = self._stream_at(0)
        magic = self.peek(4)
        if magic != MAGIC[: len(magic)]:
            raise EncryptionError(
                f"key {key_id!r} is wrong: the decrypted bytes do not begin like a binary log", path=self.path
            )

    @property
    def size(self) -> int | None:
        """Bytes of the plain log at present."""
        size = self._inner.size
        return None if size is None else max(size - self._start, 0)

    def _fetch(self, size: int) -> bytes:
        return bytes(self._stream.update(self._inner.read(size)))

    def _move(self, position: int) -> None:
        self._inner.seek(self._start + position)
        self._stream = self._stream_at(position)

    def _stream_at(self, position: int) -> Any:
        block, into = divmod(position, _BLOCK_LEN)
        cipher = ciphers_of(self.path)
        counter = self._nonce + block.to_bytes(8, "big")
        stream = cipher.Cipher(cipher.algorithms.AES(self._key), cipher.modes.CTR(counter)).decryptor()
        stream.update(bytes(into))
        return stream

    def close(self) -> None:
        """Close the encrypted file; may be called again."""
        self._ahead = b""
        self._inner.close()


def _parse_mysql_header(header: bytes, path: str) -> tuple[str, bytes, bytes]:
    """Key id, encrypted password and its initialization vector."""
    if len(header) < _HEADER_LEN:
        raise EncryptionError(
            f"the header of an encrypted log is cut off after {len(header)} bytes", path=path
        )
    version = header[4]
    if header[:4] != ENCRYPTED_MAGIC or version != 1:
        raise EncryptionError(f"encryption version {version} is not known: expected 1", path=path)
    fields: dict[int, bytes] = {}
    pos = 5
    while pos < _HEADER_LEN and header[pos]:
        field = header[pos]
        pos += 1
        if field == 1:
            length = header[pos] if pos < _HEADER_LEN else 0
            pos += 1
        elif field in (2, 3):
            length = 32 if field == 2 else 16
        else:
            raise EncryptionError(
                f"field {field} of an encrypted log's header is not known", path=path, offset=pos
            )
        if length > _HEADER_LEN - pos:
            raise EncryptionError(
                f"field {field} reaches past an encrypted log's header", path=path, offset=pos
            )
        fields[field] = header[pos : pos + length]
        pos += length
    for field, name in ((1, "key id"), (2, "password"), (3, "initialisation vector")):
        if not fields.get(field):
            raise EncryptionError(f"the header of an encrypted log lacks its {name}", path=path)
    return fields[1].decode("utf-8", "backslashreplace"), fields[2], fields[3]


def _decrypt_cbc(key: bytes, iv: bytes, data: bytes, path: str) -> bytes:
    ciphers = ciphers_of(path)
    return bytes(ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CBC(iv)).decryptor().update(data))
