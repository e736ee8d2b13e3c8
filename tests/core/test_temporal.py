"""Times at the edge of what their type holds. Expected values are what MariaDB 10.11 SELECTs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from support.writer import Log, Table
from support.writer.numbering import WRITE

import binlog_core
from binlog_core._core import _rows

pytestmark = [pytest.mark.sanitize, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
HALF = EPOCH + dt.timedelta(milliseconds=500)
LEAST = EPOCH + dt.timedelta(microseconds=1)
ZERO = "0000-00-00 00:00:00"


@pytest.fixture(autouse=True, params=[1, 1 << 30], ids=["columns", "records"])
def way_to_arrow(request: pytest.FixtureRequest) -> Iterator[None]:
    before = _rows.columns_from(request.param)
    yield
    _rows.columns_from(before)


def test_the_first_second_of_1970() -> None:
    """A TIMESTAMP of MariaDB can hold its fractions; only 0.0 is the zero date."""
    table = Table("shop", "t", [("id", "INT"), ("a", "TIMESTAMP(6)"), ("b", "TIMESTAMP(3)")])
    log = Log("10.11.6-MariaDB")
    values: list[tuple[dt.datetime | str, dt.datetime | str]] = [(HALF, HALF), (LEAST, ZERO), (ZERO, HALF)]
    for _ in range(40):
        log.begin()
        log.insert(table, [{"id": i, "a": a, "b": b} for i, (a, b) in enumerate(values)])
        log.commit()
    with binlog_core.open(log.getvalue(), limits=binlog_core.Limits(group_rows=30)) as opened:
        rows = [(row.after["a"], row.after["b"]) for row in opened.rows() if row.after]
        assert rows == [(HALF, HALF), (LEAST, f"{ZERO}.000"), (f"{ZERO}.000000", HALF)] * 40
        for batch in opened.batches():
            arrow = batch.to_arrow()
            some = len(batch) // 3
            assert arrow.column("a").to_pylist() == [HALF, LEAST, None] * some
            assert arrow.column("b").to_pylist() == [HALF, None, HALF] * some
            assert batch["a"].astype("i8").tolist()[:2] == [500_000, 1]
            assert {text for _, _, text in batch.invalid_dates.tolist()} == {f"{ZERO}.000000", f"{ZERO}.000"}
        found = opened.rows(where="a > '1970-01-01 00:00:00' and a < '1970-01-01 00:00:00.5'")
        assert [row.after["id"] for row in found if row.after] == [1] * 40


def test_the_first_second_of_1970_in_mariadbs_own_layout() -> None:
    table = Table("shop", "t", [("a", "OLD TIMESTAMP")])
    log = Log("10.11.6-MariaDB")
    log.begin()
    log.table_map(table)
    micros = (0, 1, 500_000)  # a bitmap, seconds, and microseconds
    area = b"".join(b"\xfe" + bytes(4) + us.to_bytes(3, "big") for us in micros)
    log.rows_event(WRITE, table, area, [True])
    log.commit()
    schema = {"shop.t": "CREATE TABLE t (a timestamp(6) /* mariadb-5.3 */)"}
    with binlog_core.open(log.getvalue(), schema=schema) as opened:
        assert [row.after["a"] for row in opened.rows() if row.after] == [f"{ZERO}.000000", LEAST, HALF]
