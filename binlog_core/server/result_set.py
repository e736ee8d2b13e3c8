"""Rows of a result as they arrive over the connection: many at a time, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import _result_set as core
from ..errors import ProtocolError

RECEIVED = 4 << 20  # bytes at a time: more would no longer be in the processor's cache when it is parsed
_MOST = (1 << 31) - 1  # bytes of a row; a server sends none above 1 GiB (max_allowed_packet)
_LOST = 2013


class Rows:
    """Rows that were received together; valid until the next ones are taken.

    Attributes
    ----------
    count : int
        The number of rows.
    size : int
        Bytes of their packets.
    """

    def __init__(self, rows: core.ResultRows, buffer: bytearray) -> None:
        self._rows, self._buffer = rows, buffer
        self.count, self.size = rows.rows, rows.unread

    def column(
        self, number: int, format: int, **options: Any
    ) -> tuple[int, NDArray[np.uint8] | None, NDArray[np.int32] | None, NDArray[Any]]:
        """One column: how many are NULL, and Arrow's buffers: validity, offsets, values.

        Parameters
        ----------
        number : int
            Number of the column, from 0.
        format : int
            What the values are converted to: see ``_core._result_set``.
        **options
            Options of ``ResultRows.column``.

        Raises
        ------
        ValueError
            A value does not have the format.
        """
        return self._rows.column(self._buffer, number, format, **options)

    def tuples(self) -> Iterator[tuple[bytes | None, ...]]:
        """The rows, every value as the bytes that the server sent."""
        columns = []
        for number in range(self._rows.columns):
            _, validity, offsets, data = self.column(number, core.BYTES)
            assert offsets is not None
            ends, text = offsets.tolist(), data.tobytes()
            values: list[bytes | None] = [text[ends[i] : ends[i + 1]] for i in range(self.count)]
            if validity is not None:
                there = np.unpackbits(validity, count=self.count, bitorder="little")
                values = [one if ok else None for one, ok in zip(values, there, strict=True)]
            columns.append(values)
        return zip(*columns, strict=True)


def raise_refusal(packet: bytes) -> None:
    """Raise PyMySQL's error of an error packet, with the SQLSTATE as an attribute, which that lacks."""
    from pymysql import err

    if len(packet) < 4:
        raise ProtocolError("the server refuses, and does not say why")
    try:
        err.raise_mysql_exception(packet)
    except err.MySQLError as error:
        if packet[3:4] == b"#":
            error.sqlstate = packet[4:9].decode("ascii", "replace")
        raise


def result_rows(
    receive: Callable[[memoryview], int], *, most: int = RECEIVED, numbered: bool = True
) -> Iterator[Rows]:
    """The rows of the result set that comes next.

    Parameters
    ----------
    receive : callable
        Receives into a buffer and returns the number of bytes; 0: the connection is lost.
    most : int
        Bytes that are received together, if no row is longer.
    numbered : bool
        As for ``ResultRows``.

    Raises
    ------
    ProtocolError
        What comes is not a result set.
    pymysql.Error
        The server refuses, or the connection is lost.
    """
    from pymysql import err

    rows, buffer, fill = core.ResultRows(numbered=numbered), bytearray(most), 0
    status = core.MORE
    while status in (core.MORE, core.FULL):
        if status == core.FULL or fill == len(buffer):
            if rows.rows:
                yield Rows(rows, buffer)
            begin, rest = rows.unread, fill - rows.unread
            size = len(buffer)
            if not begin:  # a row that is longer than the buffer
                if size == _MOST:
                    raise ProtocolError("the server sends a row of more than 2 GiB")
                size = min(2 * size, _MOST)
            elif rest <= most // 2:
                size = most  # it is over: many short rows in its buffer would need many fields
            target = buffer if size == len(buffer) else bytearray(size)
            with memoryview(target) as to, memoryview(buffer) as view:
                to[:rest] = view[begin:fill]
            buffer, fill = target, rest
            rows.clear()
        if status == core.MORE:
            with memoryview(buffer) as view, view[fill:] as room:
                got = receive(room)
            if not got:
                raise err.OperationalError(_LOST, "Lost connection to MySQL server during query")
            fill += got
        status = rows.take(buffer, fill)
    if status == core.REFUSED:
        raise_refusal(bytes(buffer[rows.unread - rows.refusal_len : rows.unread]))
    if status != core.ENDED or fill != rows.unread:
        raise ProtocolError("what the server sends is not a result set of the text protocol")
    if rows.rows:
        yield Rows(rows, buffer)
