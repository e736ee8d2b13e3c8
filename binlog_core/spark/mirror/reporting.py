"""What a mirror says of its tables."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ...splits import FILE_NUMBER_SHIFT
from ..lake.delta import DeltaLakeTable
from .state import GTIDS, Lake, MirrorState


@dataclass(frozen=True, slots=True)
class TableStatus:
    """How a table of a mirror is.

    Parameters
    ----------
    table : str
        ``database.table``.
    stage : str
        "copying": its first copy is being made; "following": it is kept up to date; "parked": it stopped;
        "dropped": the server has it no more, and it is empty.
    reason : str or None
        Why it stopped.
    uri : str
    lag_seconds : float or None
        What the server had committed so long ago is in it; None: not known yet.
    log, position : int or None
        Number of the server's log and offset in it: up to there the log is in the table.
    gtids : str or None
        Transactions up to there, as far as the log tells.
    rows : int or None
    version : int or None
        Of the Delta table.
    committed : float or None
        Of its last commit: seconds since 1970.
    """

    table: str
    stage: str
    reason: str | None
    uri: str
    lag_seconds: float | None = None
    log: int | None = None
    position: int | None = None
    gtids: str | None = None
    rows: int | None = None
    version: int | None = None
    committed: float | None = None


def statuses(lake: Lake, state: MirrorState, *, quick: bool = False) -> list[TableStatus]:
    """Of all tables.

    Parameters
    ----------
    lake : Lake
    state : MirrorState
    quick : bool
        Leave out what takes a look into the tables.
    """
    now = time.time()
    out = []
    for name, one in sorted(state.tables.items()):
        uri = lake.table(one)
        known: dict[str, Any] = {} if quick else _committed(lake.opened(one))
        place = one.place
        if place is not None:
            known |= {
                "log": place >> FILE_NUMBER_SHIFT & 0xFFFF,
                "position": place % (1 << FILE_NUMBER_SHIFT),
                "gtids": state.offsets.get(place, {}).get(GTIDS),
            }
        lag = None if one.as_of is None else now - one.as_of
        out.append(TableStatus(name, one.stage, one.reason, uri, lag, **known))
    return out


def _committed(table: DeltaLakeTable) -> dict[str, Any]:
    if not table.exists:
        return {}
    last = table.last_commit()
    return {
        "rows": table.dataset().count_rows(),
        "version": table.version,
        "committed": last["timestamp"] / 1000 if last else None,
    }
