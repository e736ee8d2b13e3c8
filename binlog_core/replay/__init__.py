"""Row changes as SQL: to replay them on a server, or to take them back (flashback)."""

from .literals import quote_name, quote_text, time_text
from .scripts import FlashbackScript, ReplayScript, Script
from .statements import StatementMaker

__all__ = [
    "FlashbackScript",
    "ReplayScript",
    "Script",
    "StatementMaker",
    "quote_name",
    "quote_text",
    "time_text",
]
