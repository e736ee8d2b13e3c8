"""A writer of MariaDB's .ibb files, by the format's description: nothing is shared with the reader."""

from __future__ import annotations

import random
import struct
from pathlib import Path

from .fragments import events_in

COMMIT, STATE, PIECE, FILLER = 1, 2, 3, 4
NONE = 2**64 - 1


def crc32c(data: bytes) -> int:
    """Bit by bit, with the polynomial as the standard has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


_TABLE = [
    crc32c(bytes((i,))) ^ crc32c(b"\0") for i in range(256)
]  # of one byte, without the begin and end values


def page_crc(data: bytes) -> int:
    """The same, fast enough for many pages."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def packed(value: int) -> bytes:
    """The low three bits of the first byte say how many bytes follow it, 7 that eight do."""
    for more in range(7):
        if value < 1 << (8 * (more + 1) - 3):
            return (value << 3 | more).to_bytes(more + 1, "little")
    return ((value << 3 | 7) & (2**72 - 1)).to_bytes(9, "little")


class Writer:
    """Writes records into pages of files.

    Parameters
    ----------
    shift : int
        log2 of the page size.
    pages : int
        Pages of a file.
    interval : int
        Pages between two state records.
    """

    def __init__(self, shift: int = 9, pages: int = 8, interval: int = 4) -> None:
        self.page_len = 1 << shift
        self.shift, self.pages, self.interval = shift, pages, interval
        self.files: list[list[bytearray]] = []
        # The last number by domain and server; a domain's last comes last.
        self.state: dict[tuple[int, int], int] = {}
        self._new_file()

    def _new_file(self) -> None:
        self.files.append([bytearray(self.page_len)])
        self._new_page()

    def _new_page(self) -> None:
        """The next page, or the next file; with a state record where one is due."""
        if len(self.files[-1]) >= self.pages:
            self._new_file()
            return
        number = len(self.files[-1])
        self.files[-1].append(bytearray())
        if number == 1 or number % self.interval == 0:
            state = packed(len(self.state)) + packed(0)
            state += b"".join(packed(one) for key, number in self.state.items() for one in (*key, number))
            if self.room > len(state) + 3:
                self._put(STATE | 0x40, state)

    @property
    def room(self) -> int:
        """Bytes left in the page before its checksum."""
        return self.page_len - 4 - len(self.files[-1][-1])

    def _put(self, kind: int, data: bytes) -> None:
        self.files[-1][-1] += struct.pack("<BH", kind, len(data)) + data

    def record(self, kind: int, data: bytes) -> tuple[int, int]:
        """Append a record; returns (file, offset) of its first chunk."""
        place = None
        at = 0
        while place is None or at < len(data):
            if self.room < 4:
                self.fill()
                continue
            if place is None:
                place = (
                    len(self.files) - 1,
                    (len(self.files[-1]) - 1) * self.page_len + len(self.files[-1][-1]),
                )
                first = True
            piece = data[at : at + self.room - 3]
            at += len(piece)
            self._put(kind | (0 if first else 0x80) | (0x40 if at == len(data) else 0), piece)
            first = False
        return place

    def fill(self) -> None:
        """The rest of the page is filler."""
        if self.room:
            self.files[-1][-1] += b"\xff" * self.room
        self._new_page()

    def flush(self, *, new_file: bool) -> None:
        """As FLUSH does: a filler record, and a shorter file."""
        if self.room >= 8:
            self._put(FILLER | 0x40, bytes(self.room - 3))
        self.files[-1][-1] += b"\xff" * self.room
        if new_file:
            self._new_file()
        else:
            self._new_page()

    def contents(self) -> list[bytes]:
        """The files, with headers and checksums."""
        out = []
        for number, pages in enumerate(self.files):
            head = struct.pack(
                "<4sIIIQQQQQQ",
                b"\xfe\xfe\x0d\x01",
                self.shift,
                1,
                0,
                number,
                self.pages,
                12345,
                self.interval,
                NONE,
                NONE,
            )
            head = head.ljust(508, b"\0")
            head += struct.pack("<I", page_crc(head))
            pages = [bytearray(head.ljust(self.page_len, b"\0")), *pages[1:]]
            if self.page_len > 512:
                pages[0][-4:] = struct.pack("<I", page_crc(bytes(pages[0][:-4])))
            for page in pages[1:]:
                page += bytes(self.page_len - len(page))
                if any(page):
                    page[-4:] = struct.pack("<I", page_crc(bytes(page[:-4])))
            out.append(b"".join(pages))
        return out


class OutOfBand:
    """The out-of-band records of one transaction: a forest of binary trees, written from left to right."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.roots: list[tuple[int, tuple[int, int]]] = []  # height, place
        self.places: list[tuple[int, int]] = []

    def append(self, data: bytes) -> None:
        if len(self.roots) >= 2 and self.roots[-1][0] == self.roots[-2][0]:
            (height, right), (_, left) = self.roots.pop(), self.roots.pop()
            height += 1
        else:
            height, left = 0, (0, 0)
            right = self.roots[-1][1] if self.roots else (0, 0)
        fields = (len(self.places), *left, *right)
        place = self.writer.record(PIECE, b"".join(map(packed, fields)) + data)
        self.roots.append((height, place))
        self.places.append(place)

    def reference(self) -> bytes:
        """What the commit record has of it."""
        if not self.places:
            return packed(0)
        return b"".join(map(packed, (len(self.places), *self.places[0], *self.places[-1])))


def transactions_of(log: bytes) -> list[bytes]:
    """Groups of events of a log of MariaDB without checksums, each from its GTID event to the next."""
    out: list[bytes] = []
    for event in events_in(log):
        if event[4] == 162:
            out.append(b"")
        if out and event[4] not in (4, 3):
            out[-1] += event[:13] + bytes(4) + event[17:]  # end_log_pos is 0
    return out


def without_checksums(log: bytes) -> bytes:
    """A log of MariaDB as it would be without checksums; its descriptor is not adapted."""
    head, *events = events_in(log)
    out = log[:4] + head
    for event in events:
        out += event[:9] + struct.pack("<I", len(event) - 4) + event[13:-4]
    return out


def engine_files(transactions: list[bytes], *, seed: int) -> list[bytes]:
    """Files in which the transactions commit in this order, with everything that may stand between them."""
    pick = random.Random(seed)
    writer = Writer(pick.choice([9, 9, 10, 12, 14]), pick.randint(5, 30), pick.randint(2, 9))
    undone = [OutOfBand(writer) for _ in range(3)]
    coming = [(one, OutOfBand(writer), OutOfBand(writer)) for one in transactions]
    split = [pick.random() < 0.5 for _ in coming]
    left = []
    for (events, _, _), outside in zip(coming, split, strict=True):
        gtid = int.from_bytes(events[9:13], "little")
        rest = events[gtid:] if outside else b""
        most = max(1, len(rest) // pick.choice([1, 3, 30]))
        pieces = []
        while rest:
            size = pick.randint(1, most)
            pieces.append(rest[:size])
            rest = rest[size:]
        left.append(pieces)
    for i, (events, first, second) in enumerate(coming):
        # Pieces of this one and of those that commit later come up side by side.
        while left[i]:
            j = i if pick.random() < 0.6 else pick.randrange(i, min(i + 4, len(coming)))
            if left[j]:
                # Only the last may be in the second tree, since its bytes come after the first's.
                tree = coming[j][2] if len(left[j]) == 1 and coming[j][1].places and j % 2 else coming[j][1]
                tree.append(left[j].pop(0))
            if pick.random() < 0.1:
                pick.choice(undone).append(pick.randbytes(pick.randint(1, 900)))
            if pick.random() < 0.05:
                writer.record(pick.choice([5, 6]), pick.randbytes(20))
        trees = packed(0)
        if first.places:
            trees = first.reference() + second.reference()
        gtid = int.from_bytes(events[9:13], "little")
        number, domain = struct.unpack_from("<QI", events, 19)
        source = domain, int.from_bytes(events[5:9], "little")
        state = {**{one: last for one, last in writer.state.items() if one != source}, source: number}
        if seed % 2:  # a state within the record, or before it, has the transaction already
            writer.state = state
        writer.record(COMMIT, trees + (events[:gtid] if split[i] else events))
        writer.state = state
        if pick.random() < 0.05:
            writer.flush(new_file=pick.random() < 0.5)
    return writer.contents()


def write_files(folder: Path, files: list[bytes]) -> list[Path]:
    """The files under the server's names."""
    paths = [folder / f"binlog-{i:06}.ibb" for i in range(len(files))]
    for path, data in zip(paths, files, strict=True):
        path.write_bytes(data)
    return paths
