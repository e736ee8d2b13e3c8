"""The keys of encrypted logs, from the files that servers keep them in (``open(..., keys=)``).

Source: MySQL server, ``component_keyring_file`` and ``Key::store_in_buffer`` of the keyring plugins;
MariaDB server, ``file_key_management``.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from itertools import cycle
from typing import Any

from ..errors import EncryptionError, MissingExtraError

BINLOG_KEY = 1  # the number of the key that MariaDB servers use for their logs
_KEYS_LIMIT = 16 << 20

# The plugin hides its keys from a casual look; they are not encrypted.
_PLUGIN_VERSION = b"Keyring file version:"
_PLUGIN_MASK = b"*305=Ljt0*!@$Hnm(*-9-w;:"


def mysql_key(keys: Any, key_id: str, path: str) -> bytes:
    """The key with an id among `keys` (a path or a mapping); the EncryptionError names it."""
    if keys is None:
        raise EncryptionError(
            f"the log is encrypted with key {key_id!r}: give the server's keyring file as keys=", path=path
        )
    known = keys if isinstance(keys, Mapping) else read_keyring(keys)
    key = known.get(key_id)
    if key is None:
        raise EncryptionError(
            f"the log needs key {key_id!r}, which is not among the {len(known)} keys given", path=path
        )
    if not isinstance(key, (bytes, bytearray)) or len(key) != 32:
        raise EncryptionError(f"key {key_id!r} is not 32 bytes long", path=path)
    return bytes(key)


def read_keyring(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """The keys of one of MySQL's keyring files.

    Parameters
    ----------
    path : path
        The JSON file of ``component_keyring_file``, or the file of the ``keyring_file`` plugin (up to 8.3).

    Returns
    -------
    dict of str to bytes
        By key id.

    Raises
    ------
    EncryptionError
        The file cannot be read or is not a keyring file.
    """
    import json

    data = _read_keys(path)
    try:
        if data.startswith(_PLUGIN_VERSION):
            return _plugin_keys(data)
        elements = json.loads(data)["elements"]
        return {e["data_id"]: bytes.fromhex(e["data"]) for e in elements}
    except (ValueError, KeyError, TypeError, RecursionError, struct.error) as exc:
        raise EncryptionError(
            "not a MySQL keyring file: expected that of component_keyring_file or of the keyring_file plugin",
            path=os.fspath(path),
        ) from exc


def _plugin_keys(data: bytes) -> dict[str, bytes]:
    """Version text, records of 8-byte words, ``EOF``, and in version 2.0 a SHA-256 digest."""
    pos = len(_PLUGIN_VERSION) + 3
    end = len(data) - 3 - (32 if data[pos - 3 : pos] == b"2.0" else 0)
    if data[end : end + 3] != b"EOF":
        raise ValueError("no EOF")
    keys: dict[str, bytes] = {}
    while pos < end:
        record_len, id_len, type_len, user_len, key_len = struct.unpack_from("<5Q", data, pos)
        if record_len > end - pos or 40 + id_len + type_len + user_len + key_len > record_len:
            raise ValueError("a record reaches past its end")
        key_id = data[pos + 40 : pos + 40 + id_len].decode()
        key = data[pos + 40 + id_len + type_len + user_len :][:key_len]
        keys[key_id] = bytes(byte ^ mask for byte, mask in zip(key, cycle(_PLUGIN_MASK), strict=False))
        pos += record_len
    return keys


def mariadb_key(keys: Any, version: int, path: str) -> bytes:
    """MariaDB's key for logs among `keys` (a path or a mapping); the EncryptionError names it."""
    needed = f"key number {BINLOG_KEY} (version {version})"
    if keys is None:
        raise EncryptionError(
            f"the log is encrypted with {needed}: give the server's key file as keys=", path=path
        )
    known: Mapping[Any, bytes] = keys if isinstance(keys, Mapping) else read_key_file(keys)
    key = known.get(BINLOG_KEY, known.get(str(BINLOG_KEY)))
    if key is None:
        raise EncryptionError(
            f"the log needs {needed}, which is not among the {len(known)} keys given", path=path
        )
    if not isinstance(key, (bytes, bytearray)) or len(key) not in (16, 24, 32):
        raise EncryptionError(f"{needed} is not 16, 24 or 32 bytes long", path=path)
    return bytes(key)


def read_key_file(path: str | os.PathLike[str]) -> dict[int, bytes]:
    """The keys of a key file of MariaDB's ``file_key_management``.

    Parameters
    ----------
    path : path
        Lines of ``number;hexadecimal key``; ``#`` begins a comment.

    Returns
    -------
    dict of int to bytes
        By key number.

    Raises
    ------
    EncryptionError
        The file cannot be read, is itself encrypted, or has a line that is not a key.
    """
    data = _read_keys(path)
    if data.startswith(b"Salted__"):
        raise EncryptionError(
            "the key file is itself encrypted: decrypt it first (openssl enc -d)", path=os.fspath(path)
        )
    keys: dict[int, bytes] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        line = line.strip()
        if not line or line.startswith(b"#"):
            continue
        match = re.match(rb"([0-9]{1,10});([0-9A-Fa-f]+)(?![0-9A-Za-z])", line)
        if not match or len(match[2]) not in (32, 48, 64):
            raise EncryptionError(
                f"line {number} is not a key: expected number, semicolon and 32, 48 or 64 hexadecimal digits",
                path=os.fspath(path),
            )
        keys[int(match[1])] = bytes.fromhex(match[2].decode())
    return keys


def _read_keys(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as handle:
            data = handle.read(_KEYS_LIMIT + 1)
    except (OSError, ValueError, TypeError) as exc:
        raise EncryptionError(f"the key file cannot be read: {exc}") from exc
    if len(data) > _KEYS_LIMIT:
        raise EncryptionError(f"the key file has more than {_KEYS_LIMIT} bytes", path=os.fspath(path))
    return data


def ciphers_of(path: str) -> Any:
    """The cipher module of cryptography; without it, a MissingExtraError with the log's path."""
    try:
        from cryptography.hazmat.primitives import ciphers
    except ImportError as exc:
        raise MissingExtraError.of("cryptography", "crypto", "an encrypted log", path=path) from exc
    return ciphers
