"""Where a group ended: the position to continue from."""

from __future__ import annotations

import numpy as np

from binlog_core._decode.executed import Executed
from binlog_core._decode.group import Group
from binlog_core.batch import TRANSACTION_DTYPE
from binlog_core.gtids import GtidSet
from binlog_core.position import Position

UUID = "00112233-4455-6677-8899-aabbccddeeff"
NONE = np.zeros(0, TRANSACTION_DTYPE)


def test_the_position_names_the_log_as_its_server_does() -> None:
    for path in ("/var/lib/mysql/bin.000007", "bin.000007", "backup/bin.000007.gz"):
        assert Group([], NONE, path, 900, 500).position == Position("bin.000007", 500)


def test_what_is_known_besides() -> None:
    before = GtidSet.parse(f"{UUID}:1-5")
    group = Group([], NONE, "bin.000007", 900, 500, [], Executed(before).snapshot(), 3, UUID)
    assert group.position == Position("bin.000007", 500, before, UUID, 3)
    unknown = Group([], NONE, "bin.000007", 900, 500, [], Executed().snapshot())
    assert unknown.position.gtids is None
