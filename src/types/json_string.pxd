# Text as a JSON string. Header-only; no Python.

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from memory.memory cimport memory_t, reserve
from types.utf8 cimport utf8_char_len
from wire.codes cimport DECODE_BAD_VALUE, DECODE_NO_MEMORY, DECODE_OK
from wire.cursor cimport load_u64


cdef inline size_t copy_plain(uint8_t* out, const uint8_t* p, size_t length) noexcept nogil:
    # Copies bytes that need no escape, ASCII except controls, quote and backslash, up to the first other one; returns
    # their number. Eight at a time; each term sets the high bit of a byte that it finds. A borrow can also set that of
    # a later byte, which only leaves the rest to the loop below. Writes within `length` bytes of `out`.
    cdef size_t i = 0
    cdef uint64_t ones = 0x0101010101010101u
    cdef uint64_t w, quote, backslash
    while length - i >= 8:
        w = load_u64(p + i)
        quote = w ^ (ones * 0x22)
        backslash = w ^ (ones * 0x5C)
        if (w | (w - ones * 0x20) | (quote - ones) | (backslash - ones)) & (ones * 0x80):
            break
        memcpy(out + i, &w, 8)
        i += 8
    while i < length and 0x20 <= p[i] < 0x80 and p[i] != c'"' and p[i] != c'\\':
        out[i] = p[i]
        i += 1
    return i


cdef inline int append_json_string(memory_t* out, const uint8_t* text, size_t length) noexcept nogil:
    # In quotes. The escapes are those of the server and of Python's json: short ones where JSON has them, else \u00xx.
    # DECODE_BAD_VALUE: not UTF-8; then the buffer holds a part of the string.
    cdef const char* hexadecimal = b"0123456789abcdef"
    cdef size_t run
    cdef uint8_t byte
    cdef uint8_t* place
    if reserve(out, length + 2) != DECODE_OK:
        return DECODE_NO_MEMORY
    out.data[out.length] = c'"'
    out.length += 1
    while True:
        # Most strings end here, in the first turn.
        run = copy_plain(out.data + out.length, text, length)
        out.length += run
        text += run
        length -= run
        if not length:
            out.data[out.length] = c'"'
            out.length += 1
            return DECODE_OK
        byte = text[0]
        if byte >= 0x80:
            while length and text[0] >= 0x80:
                run = utf8_char_len(text, length)
                if not run:
                    return DECODE_BAD_VALUE
                memcpy(out.data + out.length, text, run)
                out.length += run
                text += run
                length -= run
            continue
        if reserve(out, length + 7) != DECODE_OK:      # up to six bytes for this one, and the quote
            return DECODE_NO_MEMORY
        place = out.data + out.length
        place[0] = c'\\'
        out.length += 2
        if byte == c'"' or byte == c'\\':
            place[1] = byte
        elif byte == 0x08:
            place[1] = c'b'
        elif byte == 0x0C:
            place[1] = c'f'
        elif byte == 0x0A:
            place[1] = c'n'
        elif byte == 0x0D:
            place[1] = c'r'
        elif byte == 0x09:
            place[1] = c't'
        else:
            memcpy(place + 1, b"u00", 3)
            place[4] = hexadecimal[byte >> 4]
            place[5] = hexadecimal[byte & 15]
            out.length += 4
        text += 1
        length -= 1
