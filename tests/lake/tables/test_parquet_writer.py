"""The codec and the encodings of a Parquet file."""

from __future__ import annotations

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from binlog_core.lake.tables.parquet_writer import parquet_writer  # noqa: E402


def written(rows: Any, codec: str | None) -> Any:
    """The file with some rows."""
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, rows.schema, rows, delta=False, codec=codec) as writer:
        writer.write_table(rows)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue()))


@pytest.mark.parametrize(
    ("count", "codec", "expected"),
    [
        (10, None, "SNAPPY"),  # starting zstd takes longer than these rows
        (40_000, None, "ZSTD"),
        *((count, codec, codec.upper()) for count in (10, 40_000) for codec in ("snappy", "zstd", "gzip")),
        (10, "none", "UNCOMPRESSED"),
    ],
)
def test_the_codec_is_the_one_that_was_asked_for(count: int, codec: str | None, expected: str) -> None:
    rows = pa.table({"id": pa.array(range(count), pa.int64()), "state": ["new", "paid"] * (count // 2)})
    file = written(rows, codec)
    columns = [file.metadata.row_group(0).column(i) for i in range(2)]
    assert {one.compression for one in columns} == {expected}
    assert "RLE_DICTIONARY" in columns[1].encodings
    assert ("RLE_DICTIONARY" in columns[0].encodings) is (count == 10)
    assert file.read() == rows
