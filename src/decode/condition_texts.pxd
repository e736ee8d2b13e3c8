# Tests of text and bytes.

from libc.stdint cimport uint32_t, uint8_t
from libc.string cimport memcmp, memcpy

from decode.condition_words cimport (
    FORM_PADDED, HAS_HIGH, HAS_LOW, OPEN_HIGH, OPEN_LOW, PATTERN_ANY, PATTERN_ONE, TEST_LIKE, TEST_TEXTS, UTF8,
    test_t,
)


cdef inline int compare_bytes(const uint8_t* a, size_t a_len, const uint8_t* b, size_t b_len) noexcept nogil:
    # An empty one may have no address, which memcmp would not take.
    cdef size_t least = min(a_len, b_len)
    cdef int order = memcmp(a, b, least) if least else 0
    if order:
        return order
    return (a_len > b_len) - (a_len < b_len)


cdef inline bint in_texts(const test_t* test, const uint8_t* pool, const uint8_t* text, size_t length) noexcept nogil:
    # The pool holds where each text begins, where the last one ends, and then the texts.
    cdef uint32_t low = 0
    cdef uint32_t high = test.count
    cdef uint32_t middle
    cdef uint32_t[2] ends
    cdef const uint8_t* texts = pool + 4 * (<size_t> test.count + 1)
    cdef int order
    while low < high:
        middle = low + (high - low) // 2
        memcpy(ends, pool + 4 * <size_t> middle, 8)
        order = compare_bytes(texts + ends[0], ends[1] - ends[0], text, length)
        if order == 0:
            return True
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return False


cdef inline size_t character_end(const uint8_t* text, size_t i, size_t length, bint utf8) noexcept nogil:
    i += 1
    while utf8 and i < length and text[i] & 0xc0 == 0x80:
        i += 1
    return i


cdef inline bint is_like(const test_t* test, const uint8_t* pool, const uint8_t* text, size_t length) noexcept nogil:
    # A part between two % is matched where it first occurs, and not tried again further on.
    cdef const uint8_t* kinds = pool + test.count
    cdef bint utf8 = test.flags & UTF8
    cdef size_t i = 0
    cdef uint32_t k = 0
    cdef size_t again = 0           # where the part after the last % is tried next
    cdef uint32_t any_at = test.count
    while i < length:
        if k < test.count and kinds[k] == PATTERN_ANY:
            any_at = k
            again = i
            k += 1
        elif k < test.count and kinds[k] == PATTERN_ONE:
            i = character_end(text, i, length, utf8)
            k += 1
        elif k < test.count and pool[k] == text[i]:
            i += 1
            k += 1
        elif any_at < test.count:
            again = character_end(text, again, length, utf8)
            i = again
            k = any_at + 1
        else:
            return False
    while k < test.count and kinds[k] == PATTERN_ANY:
        k += 1
    return k == test.count


cdef inline bint accepts_text(const test_t* test, const uint8_t* pool, const uint8_t* text,
                              size_t length) noexcept nogil:
    cdef int order
    if test.form == FORM_PADDED:
        while length and not text[length - 1]:
            length -= 1
    if test.code == TEST_TEXTS:
        return in_texts(test, pool, text, length)
    if test.code == TEST_LIKE:
        return is_like(test, pool, text, length)
    if test.flags & HAS_LOW:
        order = compare_bytes(text, length, pool, test.count)
        if order < 0 or (order == 0 and test.flags & OPEN_LOW):
            return False
    if test.flags & HAS_HIGH:
        order = compare_bytes(text, length, pool + test.count, test.count2)
        if order > 0 or (order == 0 and test.flags & OPEN_HIGH):
            return False
    return True
