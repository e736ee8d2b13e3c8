"""GTIDs made from the fields of records."""

from __future__ import annotations

import numpy as np

from binlog_core.batch.change_batch import TRANSACTION_DTYPE
from binlog_core.gtids import Gtid, MariadbGtid, gtid_of, gtid_text

UUID = bytes(range(16))
TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_of_each_kind() -> None:
    assert gtid_of((0, UUID, b"", 1, 2, 3)) is None
    assert gtid_of((1, UUID, b"", 0, 0, 7)) == Gtid(TEXT, "", 7)
    assert gtid_of((1, UUID, b"blue\0\0", 0, 0, 7)) == Gtid(TEXT, "blue", 7)
    assert gtid_of((2, bytes(16), b"", 1, 2, 2**64 - 1)) == MariadbGtid(1, 2, 2**64 - 1)


def test_of_records() -> None:
    records = np.zeros(4, TRANSACTION_DTYPE)
    records["gtid_kind"] = [0, 1, 1, 2]
    records["sequence_number"] = 2**63
    records["uuid"][1:3] = list(UUID)
    records["tag"][2] = b"blue"
    records["domain_id"][3], records["server_id"][3] = 2**32 - 1, 5
    assert [gtid_text(one) for one in records] == [
        None,
        f"{TEXT}:{2**63}",
        f"{TEXT}:blue:{2**63}",
        f"{2**32 - 1}-5-{2**63}",
    ]
