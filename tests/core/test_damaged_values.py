"""Damaged compressed values: their change is lost, or the error comes after what is before it."""

from __future__ import annotations

import io
import zlib
from typing import Any

import numpy as np
import pytest
from support.golden import golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core.batch.subsets import only
from binlog_core.errors import DecompressionError

pytestmark = [pytest.mark.sanitize, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

PACKED = Table("shop", "packed", [("id", "INT"), ("note", "VARCHAR(900) COMPRESSED")])
PLAIN = Table("shop", "plain", [("id", "INT")])
MAPPED = pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "read"])


def written() -> tuple[bytes, dict[int, int]]:
    """A log of six transactions, and where the rows event of each change to `packed` begins."""
    log = Log("10.11.6-MariaDB", checksum=False)
    places = {}
    for number in range(6):
        log.maria_gtid(number + 1)
        log.insert(PLAIN, [{"id": number}])
        rows = [{"id": 10 * number + k, "note": f"{number}{k}" * 100} for k in range(3)]
        if number == 3:
            places[number] = log.update(
                PACKED, [(row, row | {"note": f"after{row['id']}" * 50}) for row in rows]
            )
        else:
            places[number] = log.insert(PACKED, rows)
        log.commit(number)
    return log.getvalue(), places


def broken(data: bytes, text: str) -> bytes:
    """Make the length that a compressed value claims one less."""
    packer = zlib.compressobj(wbits=-15)
    stream = packer.compress(text.encode()) + packer.flush()
    assert data.count(stream) == 1
    at = data.index(stream) - 1
    return data[:at] + bytes((data[at] - 1,)) + data[at + 1 :]


def opened(data: bytes, mapped: bool, **options: Any) -> binlog_core.Log:
    return binlog_core.open(np.frombuffer(data, np.uint8).copy() if mapped else io.BytesIO(data), **options)


def seen(log: binlog_core.Log) -> list[tuple[str, int]]:
    return [(change.table, (change.after or change.before)["id"]) for change in log.rows()]


@MAPPED
@pytest.mark.parametrize("text", ["11" * 100, "31" * 100, "after31" * 50], ids=["insert", "before", "after"])
def test_only_the_change_is_lost(text: str, mapped: bool) -> None:
    data, places = written()
    with opened(data, mapped) as log:
        whole = seen(log)
    lost = 31 if "31" in text else 11
    with opened(broken(data, text), mapped, on_error="skip") as log:
        assert seen(log) == [change for change in whole if change != ("packed", lost)]
        assert log.report.counts == {"skipped_changes": 1}
        place = log.report.first["skipped_changes"]
    assert (place.offset, place.table, place.column) == (places[lost // 10], "shop.packed", "note")
    assert "claims" in str(place.detail)


@MAPPED
def test_both_images_of_an_update_are_one_change(mapped: bool) -> None:
    data, _ = written()
    with opened(broken(broken(data, "31" * 100), "after31" * 50), mapped, on_error="skip") as log:
        assert ("packed", 31) not in seen(log)
        assert log.report.skipped_changes == 1


@MAPPED
def test_what_lies_before_comes_before_the_error(mapped: bool) -> None:
    data, places = written()
    with opened(data, mapped) as log:
        whole = seen(log)
    with opened(broken(data, "21" * 100), mapped) as log:
        found = []
        with pytest.raises(DecompressionError) as caught:
            for change in log.rows():
                found.append((change.table, (change.after or change.before)["id"]))
    assert found == whole[: whole.index(("packed", 20))]
    error = caught.value
    assert (error.offset, error.table, error.column) == (places[2], "shop.packed", "note")


@MAPPED
def test_a_checkpoint_before_the_error_loses_nothing(mapped: bool) -> None:
    data, places = written()
    damaged = broken(data, "41" * 100)
    checkpoint = 4
    found = []
    with (
        opened(damaged, mapped, limits=binlog_core.Limits(group_rows=5)) as log,
        pytest.raises(DecompressionError),
    ):
        for group in log.groups():
            assert group.end_position <= places[4]
            checkpoint = group.resume_position
            found.append(checkpoint)
    assert len(found) > 2
    with opened(data, True, start=checkpoint) as log:
        assert {10 * n + k for n in (4, 5) for k in range(3)} <= {
            key for table, key in seen(log) if table == "packed"
        }


def test_what_belongs_to_a_record_goes_with_it() -> None:
    for golden in golden_logs("mysql97/types_*"):
        with binlog_core.open(golden.data) as log:
            batch = next((b for b in log.batches() if len(b.invalid) > 1), None)
        if batch is None:
            continue
        kept = np.ones(len(batch), np.bool_)
        kept[0] = False
        kept[batch.invalid["record"][-1]] = False
        places = np.flatnonzero(kept)
        part = only(batch, kept)
        assert len(part) == kept.sum()
        texts = [(int(places[d["record"]]), int(d["column"]), str(d["text"])) for d in part.invalid_dates]
        assert texts == [
            (int(d["record"]), int(d["column"]), str(d["text"]))
            for d in batch.invalid_dates
            if kept[d["record"]]
        ]
        return
    pytest.fail("no golden log has invalid dates")
