"""Errors that Spark shows: it puts the frames of a worker before the reason, so few are left to show."""

from __future__ import annotations

from types import TracebackType

from ..errors import BinlogError


class _Brief:
    """A context that errors of the logs leave with one frame, that of its `with`; others with all."""

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
