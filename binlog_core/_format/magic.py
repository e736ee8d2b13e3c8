"""The bytes with which a log begins, or a compressed file."""

MAGIC = b"\xfebin"
ENCRYPTED_MAGIC = b"\xfdbin"  # MySQL 8.0.14 and later, binlog_encryption=ON
INNODB_MAGIC = b"\xfe\xfe\x0d\x01"  # MariaDB 12.3, binlog_storage_engine=innodb
MADE_BEFOREHAND = bytes(4)  # an .ibb file that the server has not begun to write
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}


def compression_of(head: bytes) -> str | None:
    """How a file is compressed, from its first 6 bytes: gzip, zstd, xz or None."""
    return next((kind for magic, kind in _COMPRESSED.items() if head.startswith(magic)), None)
