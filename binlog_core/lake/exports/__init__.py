"""Exports of logs as a source of changes, which undo and history read when the logs are gone."""

from .reading import opener_of

__all__ = ["opener_of"]
