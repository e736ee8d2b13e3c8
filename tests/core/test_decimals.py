"""Decimals of every precision and scale. Expected values are those that the writer was given."""

from __future__ import annotations

from decimal import Decimal

import pytest
from support.guarded import exact
from support.writer import Log, Table
from support.writer.types import encode_decimal

import binlog_core
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize_logs

MAX_SCALE = 38  # MariaDB's; MySQL's is 30


def number(unscaled: int, scale: int) -> Decimal:
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def unscaled_values(precision: int) -> list[int | None]:
    """Both ends of the range, zero, all digits different, and a one in each place."""
    most = 10**precision - 1
    digits = int(("1234567890" * 7)[:precision])
    values = [0, most, digits, *(10**i for i in range(0, precision, 4))]
    return [None, *values, None, *(-value for value in values)]


@pytest.mark.parametrize("apart", [True, False], ids=["row by row", "at once"])
@pytest.mark.parametrize("precision", range(1, 66))
def test_every_scale(precision: int, apart: bool) -> None:
    scales = range(min(precision, MAX_SCALE) + 1)
    table = Table("shop", "prices", [(f"s{scale}", f"DECIMAL({precision},{scale})") for scale in scales])
    values = [value for value in unscaled_values(precision) if apart or value is not None]
    rows = [{f"s{s}": None if v is None else number(v, s) for s in scales} for v in values]
    log = Log()
    for event in [[row] for row in rows] if apart else [rows]:
        log.insert(table, event)
    with binlog_core.open(exact(log.getvalue())) as opened:
        (batch,) = opened.batches()
        for scale in scales:
            assert batch.column(f"s{scale}").tolist() == values, scale


@pytest.mark.parametrize(
    ("precision", "scale", "groups"),
    [
        (18, 2, (4, 4, 1)),
        (18, 8, (1, 4, 4)),
        (18, 9, (4, 4)),
        (19, 1, (4, 4, 1)),
        (20, 6, (3, 4, 3)),
        (28, 9, (1, 4, 4, 4)),
        (38, 0, (1, 4, 4, 4, 4)),
        (38, 10, (1, 4, 4, 4, 4, 1)),
        (38, 38, (4, 4, 4, 4, 1)),
        (65, 30, (4, 4, 4, 4, 4, 4, 4, 2)),
    ],
)
def test_a_group_of_more_than_its_digits(precision: int, scale: int, groups: tuple[int, ...]) -> None:
    table = Table("shop", "prices", [("price", f"DECIMAL({precision},{scale})")])
    value = number(10**precision - 2, scale)
    wire = encode_decimal(value, precision, scale)
    log = Log()
    log.insert(table, [{"price": value}])
    data = log.getvalue()
    place = data.index(wire)
    for i, length in enumerate(groups):
        wrong = bytearray(data)
        begin = place + sum(groups[:i])
        wrong[begin : begin + length] = b"\xff" * length
        with (
            binlog_core.open(exact(wrong), verify_checksum=False) as opened,
            pytest.raises(DecodeError, match="price"),
        ):
            list(opened.batches())
