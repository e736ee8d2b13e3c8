"""Where a group ended: the position to continue from."""

from __future__ import annotations

import numpy as np
import pytest
from support.golden import Golden, golden_logs
from support.logs import all_rows
from support.writer import Log, Table

import binlog_core
from binlog_core import Limits
from binlog_core._decode.executed import Executed
from binlog_core._decode.group import Group
from binlog_core._decode.merge import ChangeReader
from binlog_core.batch.change_batch import TRANSACTION_DTYPE
from binlog_core.gtids import GtidSet
from binlog_core.position import Position
from binlog_core.report import Report

pytestmark = pytest.mark.sanitize

UUID = "00112233-4455-6677-8899-aabbccddeeff"
NONE = np.zeros(0, TRANSACTION_DTYPE)


def test_the_position_names_the_log_as_its_server_does() -> None:
    for path in ("/var/lib/mysql/bin.000007", "bin.000007", "backup/bin.000007.gz"):
        assert Group([], NONE, path, 900, 500).position == Position("bin.000007", 500)


def test_a_repr_is_one_short_line() -> None:
    """Of a group, not all its arrays; of a descriptor, not every length."""
    golden = golden_logs("mysql97/dml_mixed")[0]
    with binlog_core.open(golden.path) as log:
        [group] = log.groups()
        images = sum(1 if change["op"] != "update" else 2 for change in golden.truth)
        end = f"{golden.path} to {group.end_position}: {len(group.batches)} batches, {images} records, "
        assert repr(group).startswith(f"<Group {end}")
        assert len(repr(group)) < 80 + len(str(golden.path))
        assert repr(log.format) == (
            "FormatDescription(binlog_version=4, server_version='9.7.4-2', checksum='crc32')"
        )


def test_what_is_known_besides() -> None:
    before = GtidSet.parse(f"{UUID}:1-5")
    group = Group([], NONE, "bin.000007", 900, 500, [], Executed(before).snapshot(), 3, UUID)
    assert group.position == Position("bin.000007", 500, before, UUID, 3)
    unknown = Group([], NONE, "bin.000007", 900, 500, [], Executed().snapshot())
    assert unknown.position.gtids is None


LOGS = {*golden_logs("*/types_*", max_bytes=30_000), *golden_logs("*/*compress*")}


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("golden", sorted(LOGS, key=str), ids=str)
def test_reading_continues_with_the_same_values(golden: Golden) -> None:
    """Also inside an event, where the first rows of a batch are dropped."""
    whole = all_rows(golden.path, **golden.open_arguments)
    limits = Limits(group_rows=3)
    with binlog_core.open(golden.path, limits=limits, **golden.open_arguments) as log:
        reader, found, inside = ChangeReader(Report(warn=False), skip_errors=False), [], 0
        for number, group in enumerate(log.groups()):
            found += reader.changes([group])
            if group.position.records and number % 3 == 0:
                inside += 1
                rest = all_rows(golden.path, start=group.position, **golden.open_arguments)
                assert [c.after for c in found + rest] == [c.after for c in whole]
                assert [c.before for c in found + rest] == [c.before for c in whole]
    assert inside or len(whole) < 9


def test_the_middle_of_a_compressed_transaction_whose_gtid_was_not_read() -> None:
    table, log, at = Table("shop", "t", [("id", "INT")]), Log("8.0.36"), []
    for number in range(3):
        log.gtid(UUID, number + 1)
        at.append(log.position)
        with log.compressed_transaction() as inner:
            inner.begin()
            for row in range(8):
                inner.insert(table, [{"id": 10 * number + row}])
            inner.commit()
    data = log.getvalue()
    whole = all_rows(data, start=at[1])
    assert [c.after["id"] for c in whole if c.after] == [*range(10, 18), *range(20, 28)]
    with binlog_core.open(data, start=at[1], limits=Limits(group_rows=3)) as opened:
        reader, found = ChangeReader(Report(), skip_errors=False), []
        for group in opened.groups():
            found += reader.changes([group])
            assert found + all_rows(data, start=group.position) == whole
