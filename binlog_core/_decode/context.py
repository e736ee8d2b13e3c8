"""What the parts of a log's decoder share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .._core._rows import Decoder
    from .._walk.track import Track
    from ..schema.definitions import Definitions
    from .executed import Executed
    from .selection import Selection


class Context(NamedTuple):
    """One log that is being decoded, for the parts of its `LogDecoder`.

    Parameters
    ----------
    track : Track
        The log, with the limits, the report and the rules of the pass.
    loop : Decoder
        Decodes its rows, and stops at what it leaves to Python.
    selection : Selection
    executed : Executed
        The GTIDs of the pass so far.
    definitions : Definitions or None
        Given table definitions, which statements may change.
    """

    track: Track
    loop: Decoder
    selection: Selection
    executed: Executed
    definitions: Definitions | None
