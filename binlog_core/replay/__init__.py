"""Row changes as SQL: to replay them on a server, or to undo them (flashback)."""

from .server_undo import ServerUndo, set_by_server
from .undo import UndoPlan, plan_undo
from .undo_rows import UndoRow

__all__ = ["ServerUndo", "UndoPlan", "UndoRow", "plan_undo", "set_by_server"]
