"""Encrypted logs: MySQL's whole-file and MariaDB's event-wise encryption."""

from __future__ import annotations

import hashlib
import json
import struct

from .cursor import Cursor, Malformed


def decrypt_mysql(data: bytes, keyring: bytes) -> bytes:
    """The plain log, which follows the 512-byte header."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cur = Cursor(data[5:512])
    fields: dict[int, bytes] = {}
    while kind := cur.little(1):
        fields[kind] = cur.take(cur.little(1) if kind == 1 else {2: 32, 3: 16}[kind])
    elements = json.loads(keyring)["elements"]
    key = next((bytes.fromhex(e["data"]) for e in elements if e["data_id"] == fields[1].decode()), None)
    if key is None:
        raise Malformed(f"no key {fields[1].decode()}")
    unlock = Cipher(algorithms.AES(key), modes.CBC(fields[3])).decryptor()
    digest = hashlib.sha512(unlock.update(fields[2])).digest()
    stream = Cipher(algorithms.AES(digest[:32]), modes.CTR(digest[32:40] + bytes(8))).decryptor()
    return stream.update(data[512:])


class MariadbCipher:
    """What a START_ENCRYPTION event sets up for the events after it."""

    def __init__(self, body: bytes, key_file: bytes) -> None:
        _scheme, _version, self.nonce = struct.unpack("<BI12s", body[:17])
        lines = (line.partition("#")[0].strip() for line in key_file.decode().splitlines())
        keys = dict(line.split(";") for line in lines if line)
        self.key = bytes.fromhex(keys["1"])

    def decrypt(self, event: bytes, position: int) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        length = event[9:13]
        mixed = event[4:9] + event[:4] + event[13:]
        iv = self.nonce + struct.pack("<I", position & 0xFFFFFFFF)
        whole = len(mixed) // 16 * 16
        cipher = algorithms.AES(self.key)
        plain = Cipher(cipher, modes.CBC(iv)).decryptor().update(mixed[:whole])
        mask = Cipher(cipher, modes.ECB()).encryptor().update(iv)
        plain += bytes(a ^ b for a, b in zip(mixed[whole:], mask, strict=False))
        return plain[5:9] + plain[:5] + length + plain[9:]
