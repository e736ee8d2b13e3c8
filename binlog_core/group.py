"""What a pass over a log hands over at a time, and where it ended early."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .batch import ChangeBatch


@dataclass(frozen=True, slots=True)
class Tail:
    """Where and why reading ended before the end of the file.

    Parameters
    ----------
    path : str
    offset : int
        Of the event that is not whole.
    reason : str
    """

    path: str
    offset: int
    reason: str


@dataclass(slots=True)
class Group:
    """Batches that were gathered together: all changes between two places of a log.

    Parameters
    ----------
    batches : list of ChangeBatch
        One per table definition, in the order in which they were first met.
    transactions : ndarray, TRANSACTION_DTYPE
        Of all of them.
    path : str
    end_position : int
        Everything before it has been delivered.
    resume_position : int
        The last transaction boundary up to there: the checkpoint.
    """

    batches: list[ChangeBatch]
    transactions: np.ndarray
    path: str
    end_position: int
    resume_position: int
