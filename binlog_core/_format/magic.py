"""The four bytes with which a log begins."""

MAGIC = b"\xfebin"
ENCRYPTED_MAGIC = b"\xfdbin"  # MySQL 8.0.14 and later, binlog_encryption=ON
