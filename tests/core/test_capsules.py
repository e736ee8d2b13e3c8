"""Arrow streams that we produce: an error must reach the consumer, and must never look like the end."""

from __future__ import annotations

import random
import signal
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from support.hostile import SANITIZED
from test_columns_memory import batch_of

from binlog_core._core._capsules import stream_capsule
from binlog_core.batch.arrow_types import struct_field

pytestmark = pytest.mark.sanitize_logs


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unencodable(Exception):
    def __str__(self) -> str:
        raise MemoryError


class Failing:
    """Some arrays, and then an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        fields, _ = batch_of(7, 0)[0].export().export()

        def arrays() -> Iterator[object]:
            yield batch_of(7, 0)[0].export().export()[1]
            raise self.error

        return stream_capsule(struct_field(fields), arrays())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("some\0text"), r"ValueError: some\?text"),
        (Unprintable(), "broke off"),
        (Unencodable(), "broke off"),
        (OSError("\ud800"), "OSError: "),
        (MemoryError(), "MemoryError"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_an_error(error: BaseException, text: str) -> None:
    reader = pa.RecordBatchReader.from_stream(Failing(error))
    assert reader.read_next_batch().num_rows == 7
    with pytest.raises((OSError, MemoryError), match=text):
        reader.read_next_batch()


def test_a_stream_that_broke_off_does_not_end() -> None:
    reader = pa.RecordBatchReader.from_stream(Failing(ValueError("half")))
    assert reader.read_next_batch().num_rows == 7
    for _ in range(3):
        with pytest.raises(OSError, match="half"):
            reader.read_next_batch()


def test_ctrl_c_comes_again_as_itself() -> None:
    """The consumer can only report an OSError; after it, Python raises what the user interrupted with."""
    reader = pa.RecordBatchReader.from_stream(Failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        try:
            reader.read_all()
        except OSError as error:
            assert "KeyboardInterrupt" in str(error)
        for _ in range(1000):
            pass
        pytest.fail("the interrupt is lost")


class Ends:
    """Runs Python's own code when it is dropped, as a file, a lock or a temporary folder does."""

    def __init__(self) -> None:
        self.items = list(range(20))
        weakref.finalize(self, sum, [1, 2])

    def __del__(self) -> None:
        for item in list(self.items):
            self.items.remove(item)


class Interrupted:
    """Arrays from generators within generators, whose ends run code, and Ctrl-C somewhere among them."""

    def __init__(self, at: int, depth: int, *, signaled: bool) -> None:
        self.at, self.depth, self.signaled = at, depth, signaled

    def _arrays(self, depth: int) -> Iterator[object]:
        held = Ends()
        try:
            if depth:
                yield from self._arrays(depth - 1)
            for number in range(9):
                if not depth and number == self.at and self.signaled:
                    signal.raise_signal(signal.SIGINT)
                elif not depth and number == self.at:
                    raise KeyboardInterrupt
                yield batch_of(7, 0)[0].export().export()[1]
        finally:
            for _ in held.items:
                len(held.items)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        fields, _ = batch_of(7, 0)[0].export().export()
        return stream_capsule(struct_field(fields), self._arrays(self.depth))


CONSUMERS: dict[str, Callable[[Any], object]] = {
    "read_all": lambda stream: pa.RecordBatchReader.from_stream(stream).read_all(),
    "table": pa.table,
    "loop": lambda stream: list(pa.RecordBatchReader.from_stream(stream)),
    "polars": lambda stream: pl.DataFrame(stream),
    "duckdb": lambda stream: duckdb.from_arrow(pa.RecordBatchReader.from_stream(stream)).fetchall(),
}


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_ctrl_c_is_never_lost(consumer: str, recwarn: pytest.WarningsRecorder) -> None:
    """Hundreds of times, with whatever finalizers: none of them may receive it in the consumer's place.

    What Python does with a signal is the same under a sanitizer.
    """
    chance = random.Random(consumer)

    def consume(stream: Interrupted) -> str:
        held = Ends()
        try:
            CONSUMERS[consumer](stream)
        except KeyboardInterrupt:  # where the consumer hands on Python's own errors
            return "interrupted"
        except Exception as error:
            text = str(error)
            if text == "Query interrupted":  # DuckDB asks for signals itself, and tells of them so
                return "interrupted"
            for _ in range(100):  # the interrupt comes at one of these at the latest
                len(held.items)
            return text
        return "the end"

    lost = []
    for _ in range(20 if SANITIZED else 200):
        stream = Interrupted(chance.randrange(9), chance.randrange(4), signaled=chance.random() < 0.5)
        try:
            result = consume(stream)
        except KeyboardInterrupt:
            result = "interrupted"
        if result != "interrupted":
            lost.append(result)
    assert lost == []
    assert [str(warning.message) for warning in recwarn] == []  # "Exception ignored in" a finalizer


def test_an_array_that_was_given_away_is_not_the_end() -> None:
    fields, array = batch_of(3, 0)[0].export().export()

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
            return stream_capsule(struct_field(fields), iter((array, array)))

    reader = pa.RecordBatchReader.from_stream(Stream())
    assert reader.read_next_batch().num_rows == 3
    with pytest.raises(OSError, match="already been exported"):
        reader.read_next_batch()
