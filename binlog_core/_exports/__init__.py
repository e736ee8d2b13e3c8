"""Exports of logs as a source of changes: what undo and history read where the logs are gone."""

from .reading import opener_of

__all__ = ["opener_of"]
