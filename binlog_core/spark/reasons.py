"""Errors that Spark shows: it puts the frames of a worker before the reason, so few are left to show."""

from __future__ import annotations

from types import TracebackType

from ..errors import BinlogError


class _Brief:
    """A context that an error of the logs leaves with the frame of its `with` alone; all others as they are."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, BinlogError) and trace is not None:
            # One is kept: Spark shows its own frames if there is no other.
            trace.tb_next = None
            error.__cause__ = None


brief = _Brief()
