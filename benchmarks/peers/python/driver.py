"""python-mysql-replication on one log for some seconds. Prints rows, images and CPU seconds of each round.

It can read only from servers. Here its packet class gets the events of a file, one after another, so that it
pays neither for a socket nor for a server's queries.
"""

from __future__ import annotations

import struct
import sys
import time
from types import SimpleNamespace

from pymysql.protocol import MysqlPacket
from pymysqlreplication.event import FormatDescriptionEvent
from pymysqlreplication.packet import BinLogPacketWrapper
from pymysqlreplication.row_event import DeleteRowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

ROWS = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)
EVENTS = frozenset((FormatDescriptionEvent, TableMapEvent, *ROWS))


def decode(data: bytes) -> tuple[int, int]:
    connection = SimpleNamespace(charset="utf8mb4", _get_dbms=lambda: "mariadb")
    tables: dict[int, object] = {}
    post_header_lengths = None
    rows = images = 0
    position = 4
    while position < len(data):
        (size,) = struct.unpack_from("<I", data, position + 9)
        event = BinLogPacketWrapper(
            MysqlPacket(b"\0" + data[position : position + size], "utf8mb4"),
            tables,
            connection,
            mysql_version=(10, 11, 0),
            use_checksum=True,
            allowed_events=EVENTS,
            only_tables=None,
            ignored_tables=None,
            only_schemas=None,
            ignored_schemas=None,
            freeze_schema=False,
            ignore_decode_errors=False,
            verify_checksum=False,
            optional_meta_data=True,
            enable_logging=False,
            post_header_lengths=post_header_lengths,
        ).event
        position += size
        if isinstance(event, TableMapEvent):
            tables[event.table_id] = event.get_table()
        elif isinstance(event, ROWS):
            count = len(event.rows)
            rows += count
            images += count * (2 if isinstance(event, UpdateRowsEvent) else 1)
        elif isinstance(event, FormatDescriptionEvent):
            post_header_lengths = event.post_header_len
    return rows, images


def main(path: str, limit: float) -> None:
    with open(path, "rb") as file:
        data = file.read()
    begin = time.perf_counter()
    while True:
        start = time.process_time()
        rows, images = decode(data)
        print(rows, images, time.process_time() - start, flush=True)
        if time.perf_counter() - begin > limit:
            break


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
