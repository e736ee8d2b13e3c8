"""Exports of logs as a source of changes: what undo and history read where the logs are gone."""

from .reading import open_changes

__all__ = ["open_changes"]
