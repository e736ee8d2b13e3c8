"""Errors that Spark shows: it puts the frames of a worker before the reason, so few are left to show.

The error of a job that failed has all of them in its text, of which the reason is one line.
"""

from __future__ import annotations

from types import TracebackType

from ..errors import BinlogError

_CALLING = "An error occurred while calling "


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


def spark_failure(error: Exception) -> BinlogError:
    """The error of a failed job, with the reason in one line."""
    _, found, trace = str(error).rpartition("Traceback (most recent call last):")
    lines = trace.splitlines()
    if found:  # of a worker; the line that is not indented says what happened
        lines = [line for line in lines if not line.startswith((" ", "\t"))]
    said = [line.strip() for line in lines if line.strip()] or [type(error).__name__]
    if said[0].startswith(_CALLING) and len(said) > 1:  # Java's own words are in the next line
        del said[0]
    reason = said[0].removeprefix(": ")
    return BinlogError(f"the Spark job failed: {reason}")
