# Tables that columns of ENUM and of text in other character sets are made with. Included by the targets.

cdef uint32_t[256] CODES
cdef uint32_t[256] WORDS
for _i in range(256):
    CODES[_i] = _i * 7 % 251
    WORDS[_i] = 1 << 24 | _i if _i < 128 else 2 << 24 | 0x80C3 if _i < 192 else 3 << 24 | 0xAC82E2 if _i < 255 else 0
