"""A plain-Python reading of the binary log's format: slow, short, and independent of the decoder under test.

>>> log = read_log(Path("binlog.000001").read_bytes())
>>> log.headers[0].type_code, [change.op for change in log.changes]

Written from the servers' documentation for clarity. It shares no code with ``binlog_core``: where the two
disagree, one of them is wrong. Values are those of ``binlog_core.RowChange``.
"""

from __future__ import annotations

from .cursor import Malformed
from .decoder import Change, EventHeader, Log, read_log

__all__ = ["Change", "EventHeader", "Log", "Malformed", "read_log"]
