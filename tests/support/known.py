"""Golden logs as the reference decoder reads them: the server's truth, as Python values."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from reference import Log, read_log

from support.golden import Golden
from support.truth import differences


def read(golden: Golden) -> Log:
    """What the reference decoder makes of a golden log."""
    return read_log(golden.data, Path(golden.keys).read_bytes() if golden.keys else None, golden.old_digits)


@cache
def known(golden: Golden) -> Log:
    """The same, compared with the server's truth."""
    log = read(golden)
    assert differences(log.changes, golden) == []
    return log


def value(change: Any) -> tuple[Any, ...]:
    """What a change says and where, with its position at the end."""
    return change.op, change.database, change.table, change.before, change.after, change.position
