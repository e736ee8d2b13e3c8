"""Lets the API pages show what our docstrings end with: ``Source:``, where a layout is documented.

To numpydoc that line would be one more item of the section before it; as a section of its own it is a note.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SOURCE = re.compile(r"\n\s*\n(?=Source: )")


class SourceNotes(griffe.Extension):
    """Puts a heading before the source."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = _SOURCE.sub("\n\nNotes\n-----\n", obj.docstring.value)
