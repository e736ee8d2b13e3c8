"""One lie in a binary log in InnoDB that is otherwise right: the mutator of the target `innodb_binlog`.

The pages' checksums would reject nearly every random change. Here a page is moved, or one chunk gets another
type, length, byte or reference: to a record before it, behind it, to itself, into the other file, to nothing.
The target makes the checksums anew.
"""

from __future__ import annotations

from random import Random

from lies import EXTREMES, changed

PAGE, HEADER, CHECKSUM = 512, 2, 4
AS_THEY_ARE = 64  # of the options: checksums are not made anew
CHUNK = 3  # type u8, length u16
COMMIT, PIECE = 1, 3
KINDS = (1, 2, 3, 4, 5, 6, 7, 0xFE, 0xFF)
Place = tuple[int, int, int]  # page, offset in it, offset of the chunk's end


def mutated(data: bytes, most: int, seed: int) -> bytes | None:
    """Options u8, pages of the first file u8, pages, one more of them a lie; None: more than `most` bytes."""
    chance = Random(seed)
    pages = [bytearray(data[at : at + PAGE].ljust(PAGE, b"\0")) for at in range(HEADER, len(data), PAGE)]
    if not pages:
        return None
    at, what = chance.randrange(len(pages)), chance.randrange(20)
    head = bytearray(data[:HEADER])
    if what == 0:
        pages.insert(chance.randrange(len(pages)), bytearray(pages[at]))
    elif what == 1:
        del pages[at]
    elif what == 2:
        other = chance.randrange(len(pages))
        pages[at], pages[other] = pages[other], pages[at]
    elif what == 3:
        if chance.randrange(2):
            head[0] ^= AS_THEY_ARE  # else a page with a wrong checksum is rare
        else:
            changed(head, 0, HEADER, chance, grows=False)
    elif what == 4:
        changed(pages[0], 0, 80, chance, grows=False)
    elif what == 5:
        pages[at][chance.randrange(PAGE) :] = b""
    elif (found := chunks(pages)) and what < 18:
        change_chunk(pages, chance.choice(found), found, head[1], chance)
    else:
        changed(pages[at], 0, PAGE, chance)
    out = bytes(head) + b"".join(bytes(page[:PAGE]).ljust(PAGE, b"\0") for page in pages)
    return out if len(out) <= most else None


def chunks(pages: list[bytearray]) -> list[Place]:
    found: list[Place] = []
    for number, page in enumerate(pages):
        at = 0
        while at + CHUNK <= PAGE - CHECKSUM and page[at] not in (0, 0xFF, 0xFE):
            end = at + CHUNK + int.from_bytes(page[at + 1 : at + CHUNK], "little")
            if end > PAGE - CHECKSUM:
                break
            found.append((number, at, end))
            at = end
    return found


def change_chunk(
    pages: list[bytearray], place: Place, others: list[Place], first_file: int, chance: Random
) -> None:
    number, begin, end = place
    page, what = pages[number], chance.randrange(6)
    if what == 0:
        page[begin] = chance.choice(KINDS) | chance.choice((0, 0x40, 0x80, 0xC0))
    elif what == 1:
        changed(page, begin + 1, begin + CHUNK, chance, grows=False)
    elif what == 2 or page[begin] & 63 not in (COMMIT, PIECE):
        changed(page, begin + CHUNK, end, chance)
    else:
        change_fields(page, begin, end, referred(chance.choice(others), first_file, chance), chance)


def referred(place: Place, first_file: int, chance: Random) -> tuple[int, int]:
    """A place as records have it: file, and offset of a chunk; now and then one that is a little wrong."""
    number, begin, _ = place
    file = int(number >= first_file)
    offset = PAGE * (number - first_file * file) + begin
    if chance.random() < 0.2:
        return chance.choice(((file, offset + 1), (file + 1, offset), (0, 0), (1 << 40, 1 << 60)))
    return file, offset


def change_fields(page: bytearray, begin: int, end: int, place: tuple[int, int], chance: Random) -> None:
    """Another count, or another reference, among the fields that the record begins with."""
    at, bounds = begin + CHUNK, []
    while len(bounds) < 6 and at < end:
        bounds.append(at)
        more = page[at] & 7
        at += 9 if more == 7 else 1 + more
    bounds.append(min(at, end))
    first = 1 + 2 * chance.randrange(2)
    if chance.random() < 0.3 or first + 2 >= len(bounds):
        new, which = packed(chance.choice((*EXTREMES, 1 << 20, 1 << 60))), (0, 1)
    else:
        new, which = packed(place[0]) + packed(place[1]), (first, first + 2)
    a, b = bounds[which[0]], bounds[min(which[1], len(bounds) - 1)]
    page[a:b] = new
    length = max(0, end - begin - CHUNK + len(new) - (b - a))
    page[begin + 1 : begin + CHUNK] = (length & 0xFFFF).to_bytes(2, "little")


def packed(value: int) -> bytes:
    """An integer whose low three bits tell how many bytes follow the first."""
    more = next((n for n in range(7) if value < 1 << (8 * n + 5)), 7)
    size = 9 if more == 7 else 1 + more
    return (value << 3 | more).to_bytes(size, "little")
