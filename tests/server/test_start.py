"""Where reading begins, in the words of the protocol."""

from __future__ import annotations

import pytest

from binlog_core import GtidSet
from binlog_core.errors import ServerError
from binlog_core.server.start import encoded

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def number(value: int) -> bytes:
    return value.to_bytes(8, "little")


def test_a_set_for_com_binlog_dump_gtid() -> None:
    source = bytes.fromhex(UUID.replace("-", ""))
    # Sources; of each its UUID, its intervals, and of each interval the first and the one behind its last.
    want = number(1) + source + number(2) + number(1) + number(6) + number(8) + number(9)
    assert encoded(GtidSet.parse(f"{UUID}:1-5:8"), tags=True) == want
    assert encoded(GtidSet(), tags=False) == number(0)


def test_tags_are_refused_where_the_server_does_not_know_them() -> None:
    tagged = GtidSet.parse(f"{UUID}:blue:1")
    # The first and the last byte of the count say that it is the form with tags; one's length is doubled.
    assert encoded(tagged, tags=True)[:8] == bytes((1, 1, 0, 0, 0, 0, 0, 1))
    assert encoded(tagged, tags=True)[24:29] == b"\x08blue"
    with pytest.raises(ServerError, match="have tags"):
        encoded(tagged, tags=False)
