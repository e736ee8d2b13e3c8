"""Row changes as SQL: to replay them on a server, or to take them back (flashback)."""

from .literals import quote_name, quote_text, time_text
from .scripts import FlashbackScript, ReplayScript, Script
from .server_undo import ServerUndo
from .statements import StatementMaker
from .undo import UndoPlan, UndoRow, plan_undo

__all__ = [
    "FlashbackScript",
    "ReplayScript",
    "Script",
    "ServerUndo",
    "StatementMaker",
    "UndoPlan",
    "UndoRow",
    "plan_undo",
    "quote_name",
    "quote_text",
    "time_text",
]
