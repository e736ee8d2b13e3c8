"""Debezium's events, made of records: those made one by one of Python values, in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import debezium_events
from support.filled import DELETE, INSERT, POSTIMAGE, column, integer, make_batch
from support.golden import golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core._core._values import DebeziumEvents, EventTable, JsonTexts, RowReader
from binlog_core._decode.merge import ChangeReader
from binlog_core._tables.column_types import Kind
from binlog_core.errors import DecodeError
from binlog_core.lake.rows import debezium

NOW = 1_792_000_000_123_456_789
COLUMNS = [("a", "INT"), ("b", "VARCHAR(9)"), ("c", "DOUBLE"), ("d", "DATETIME(3)")]


def texts_of(texts: JsonTexts) -> Iterator[bytes]:
    data, offsets = texts.joined(), texts.offsets().tolist()
    return (data[offsets[i] : offsets[i + 1]] for i in range(len(texts)))


def compared(path: Path, monkeypatch: pytest.MonkeyPatch, *, mariadb: bool = False) -> int:
    """The number of a log's events, all of which are as expected."""
    monkeypatch.setattr("time.time_ns", lambda: NOW)
    made = debezium.Envelopes(mariadb=mariadb)
    reference = debezium_events.Envelopes(mariadb=mariadb, now=NOW)
    count = 0
    with binlog_core.open(path) as log:
        reader = ChangeReader(log.report, skip_errors=False)
        for group in log.groups():
            with reader.readers(group) as readers:
                want = [(e.batch, e.record, e.key or b"", e.value) for e in reference.of(group.path, readers)]
                got: list[Any] = []
                for some in made.of(group.path, readers):
                    places = some.batch.tolist(), some.record.tolist()
                    got += zip(*places, texts_of(some.keys), texts_of(some.values), strict=True)
            assert got == want
            count += len(got)
    return count


def test_golden_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    for golden in golden_logs(max_bytes=1_000_000):
        if not golden.open_arguments:
            count += compared(golden.path, monkeypatch, mariadb="maria" in golden.name)
    assert count > 5_000


@pytest.mark.parametrize("seed", range(40))
def test_keys_images_and_interleaved_tables(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of several columns, in an order of their own, in images that lack columns."""
    random_ = random.Random(seed)
    names = [name for name, _ in COLUMNS]
    tables = [
        Table("shop", f"t{i}", COLUMNS, primary_key=random_.sample(names, random_.randint(0, 3)))
        for i in range(3)
    ]
    log = Log("8.0.36")

    def row() -> dict[str, Any]:
        return {
            "a": random_.choice([None, 1, -5]),
            "b": random_.choice([None, "", "é", 'x"y']),
            "c": random_.choice([None, 0.5, 1e300]),
            "d": None,
        }

    def some() -> list[str]:
        return random_.sample(names, random_.randint(1, 4))

    for number in range(1, 6):
        if random_.random() < 0.7:
            log.gtid("3e11fa47-71ca-11e1-9e33-c80aa9429562", number)
        log.begin()
        for _ in range(random_.randint(1, 6)):
            table = random_.choice(tables)
            what = random_.random()
            if what < 0.3:
                log.insert(table, [row() for _ in range(random_.randint(1, 3))])
            elif what < 0.5:
                columns = some()
                log.delete(table, [{name: row()[name] for name in columns}], columns=columns)
            else:
                before, after = some(), some()
                pair = {name: row()[name] for name in before}, {name: row()[name] for name in after}
                log.update(table, [pair], before_columns=before, after_columns=after)
        log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    monkeypatch.setattr(debezium, "_ROWS", random_.choice([1, 2, 8192]))
    assert compared(path, monkeypatch) > 4


def events() -> DebeziumEvents:
    return DebeziumEvents(debezium_events.encode, debezium._encoder, b'{"ts_ms":', b"\n")


def test_dates_that_no_calendar_has() -> None:
    columns = [
        column(Kind.DATE, "d", 0, nullable=False),
        column(Kind.DATETIME, "t", 1, nullable=True),
        column(Kind.TIMESTAMP, "z", 2, nullable=False),
    ]
    never = np.datetime64("NaT")
    invalid = [(0, i, 2024, 2, 30, 0, 0, 0, 0) for i in range(3)]
    batch = make_batch(columns, [[never, never, never]], invalid=invalid)
    made = events()
    made.add(EventTable(RowReader(batch), np.array([], np.int64), "shop.orders"), np.arange(1), "log", NOW)
    (value,) = texts_of(made.values)
    assert value.startswith(b'{"before":null,"after":{"d":0,"t":null,"z":"1970-01-01T00:00:00Z"},')
    assert list(texts_of(made.keys)) == [b""]


def test_decimals_of_many_digits() -> None:
    number = 10**64 + 7  # more digits than a context of Python's decimal has
    stored = tuple((number >> 64 * i) & 2**64 - 1 for i in range(4))
    batch = make_batch([column(Kind.DECIMAL, precision=65, scale=30)], [[stored]])
    made = events()
    made.add(EventTable(RowReader(batch), np.array([], np.int64), "shop.orders"), np.arange(1), "log", NOW)
    (value,) = texts_of(made.values)
    want = debezium_events.encode(debezium_events.base64_text(number.to_bytes(27, "big")))
    assert value.startswith(b'{"before":null,"after":{"c":' + want + b"},")


@pytest.mark.parametrize("ops", [[POSTIMAGE], [0], [2, INSERT], [2]])
def test_images_that_make_no_change(ops: list[int]) -> None:
    batch = make_batch([integer(4)], [[1]] * len(ops), ops)
    table = EventTable(RowReader(batch), np.array([0]), "shop.orders")
    with pytest.raises(DecodeError, match="does not begin a change"):
        events().add(table, np.arange(1), "log", NOW)


def test_wrong_arguments() -> None:
    reader = RowReader(make_batch([integer(4)], [[1]], [DELETE]))
    for wrong in (1, -1):
        with pytest.raises(IndexError):
            EventTable(reader, np.array([wrong]), "shop.orders")
        with pytest.raises(IndexError):
            events().add(EventTable(reader, np.array([0]), "t"), np.array([wrong]), "log", NOW)
    batch = make_batch([integer(4)], [[1]])
    batch.array["image"]["transaction"] = 7
    with pytest.raises(DecodeError, match="transaction 7 of 1"):
        events().add(EventTable(RowReader(batch), np.array([0]), "t"), np.arange(1), "log", NOW)


def test_events_are_whole_after_an_error() -> None:
    columns = [integer(4, name="id"), column(Kind.VECTOR, "v", 1)]
    batch = make_batch(columns, [[1, b""], [2, b"abc"], [3, b""]])
    table = EventTable(RowReader(batch), np.array([0]), "shop.orders")
    made = events()
    with pytest.raises(DecodeError, match="VECTOR"):
        made.add(table, np.arange(3), "log", NOW)
    made.add(table, np.array([2]), "log", NOW)
    first, second = texts_of(made.values)
    assert first.startswith(b'{"before":null,"after":{"id":1,')
    assert second.startswith(b'{"before":null,"after":{"id":3,')
    assert made.values.joined() == first + second
    assert made.keys.joined() == b'{"id":1}{"id":3}'
    assert made.places().tolist() == [0, 2]


def test_places_are_those_of_events() -> None:
    reader = RowReader(make_batch([integer(4)], [[1], [2]]))
    made = events()
    made.values.add_objects(reader, np.arange(2))
    assert made.places().tolist() == []
