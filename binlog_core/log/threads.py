"""One pass over logs by several threads, with the same groups as by one thread.

A log is divided into short parts. The thread that takes the groups also reads parts while no group is ready.
Each thread finds the first transaction that begins in its part, and reads up to the first that
begins after it; for both see ``_walk.anchors``. A chain of forged events in a BLOB can deceive a thread whose
part begins inside it. So if a part does not begin where the one before it ended, its groups are dropped, and
the thread that takes the groups reads the rest of the log. Threads note their reports, and the GTIDs and
names that they find; the notes are applied together with their groups.
"""

from __future__ import annotations

import os


def processors() -> int:
    """The number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
