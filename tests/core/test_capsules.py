"""Arrow streams that we produce: an error must reach the consumer, and must never look like the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from test_columns_memory import batch_of

from binlog_core._core._capsules import stream_capsule
from binlog_core.arrow.types import struct_field


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


def test_an_array_that_was_given_away_is_not_the_end() -> None:
    fields, array = batch_of(3, 0)[0].export().export()

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
            return stream_capsule(struct_field(fields), iter((array, array)))

    reader = pa.RecordBatchReader.from_stream(Stream())
    assert reader.read_next_batch().num_rows == 3
    with pytest.raises(OSError, match="already been exported"):
        reader.read_next_batch()
