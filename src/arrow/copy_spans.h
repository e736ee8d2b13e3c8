/* Copies values of variable length from a tile of records, one after the other; and tells whether bytes are ASCII.
 *
 * Header-only, no state. The loops are written once, in plain C with copies of a fixed 64 bytes, and compiled twice on
 * x86-64: for every processor (two moves of 16 bytes at a time), and for those with AVX2 (32 bytes). Elsewhere they
 * are compiled once.
 */
#ifndef BINLOG_COPY_SPANS_H
#define BINLOG_COPY_SPANS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "types/ascii.h"

enum {
    BINLOG_STEP = 64,      /* bytes of one copy: this many may be read and written after a value */
    BINLOG_SHORT = 256,    /* up to this many bytes, calling memcpy costs more than such steps */
    BINLOG_AHEAD = 24      /* values that are prefetched before they are copied */
};

typedef struct {
    const uint8_t* span;        /* of the first record: offset in 8 bytes, length in 4 */
    ptrdiff_t stride;
    int count;
    const uint8_t* nulls;       /* a bit per record, set if it is null; NULL: no record is */
    const uint8_t* buffer;      /* where offsets count from */
    uint64_t buffer_len;
    uint8_t* data;              /* the destination, */
    size_t room;                /* its bytes, of which BINLOG_STEP stay free, */
    size_t at;                  /* and how many of them are used */
    int32_t* offsets;           /* where each value ends */
} binlog_spans_t;

#if defined(__GNUC__)
#define BINLOG_ASK(p) __builtin_prefetch((p), 0, 3)
/* Like memcpy of 32 bytes, for which gcc does not generate a single move. */
typedef uint64_t binlog_32_t __attribute__((vector_size(32), aligned(1), may_alias));
#define BINLOG_MOVE_32(to, from) (*(binlog_32_t*) (to) = *(const binlog_32_t*) (from))
#else
#define BINLOG_ASK(p) ((void) (p))
#define BINLOG_MOVE_32(to, from) memcpy((to), (from), 32)
#endif

BINLOG_INLINE uint64_t binlog_span_offset(const uint8_t* span) {
    uint64_t offset;
    memcpy(&offset, span, 8);
    return offset;
}

BINLOG_INLINE void binlog_step(uint8_t* to, const uint8_t* from) {
    BINLOG_MOVE_32(to, from);
    BINLOG_MOVE_32(to + 32, from + 32);
}

/* Copies values from number i on, and returns where it stopped: at the end, or at a value that does not fit the room
 * or the buffer. */
BINLOG_INLINE int binlog_copy_spans_loop(binlog_spans_t* s, int i, int with_nulls) {
    const uint8_t* span = s->span + i * s->stride;
    const uint8_t* buffer = s->buffer;
    const uint8_t* value;
    const ptrdiff_t stride = s->stride;
    /* Offsets up to here: a value of BINLOG_SHORT bytes and the step past its end are inside the buffer. */
    const uint64_t fast = BINLOG_SHORT + BINLOG_STEP <= s->buffer_len
        ? s->buffer_len - BINLOG_SHORT - BINLOG_STEP + 1 : 0;
    uint8_t* out = s->data + s->at;
    uint8_t* const data = s->data;
    uint8_t* const last = s->data + s->room - BINLOG_STEP;
    int32_t* offsets = s->offsets;
    const int count = s->count, asked = count - BINLOG_AHEAD;
    uint64_t offset;
    uint32_t length, at, keep;
    for (; i < count; i++, span += stride) {
        if (i < asked) {
            const uint8_t* next = span + BINLOG_AHEAD * stride;
            /* Only a prefetch: a wrong offset does no harm. */
            BINLOG_ASK((const uint8_t*) ((uintptr_t) buffer + (uintptr_t) binlog_span_offset(next)));
        }
        offset = binlog_span_offset(span);
        memcpy(&length, span + 8, 4);
        if (with_nulls) {       /* no branch: it could not be predicted */
            keep = (uint32_t) (s->nulls[i >> 3] >> (i & 7) & 1) - 1;
            length &= keep;
            offset &= (uint64_t) (int64_t) (int32_t) keep;
        }
        if (length > (size_t) (last - out))
            break;
        if (length <= BINLOG_SHORT && offset < fast) {
            value = buffer + offset;
            binlog_step(out, value);
            for (at = BINLOG_STEP; at < length; at += BINLOG_STEP)
                binlog_step(out + at, value + at);
        } else if (length) {
            if (length > s->buffer_len || offset > s->buffer_len - length)
                break;
            memcpy(out, buffer + offset, length);
        }
        out += length;
        offsets[i] = (int32_t) (out - data);
    }
    s->at = (size_t) (out - data);
    return i;
}

/* Values that follow their lengths, as on the wire. */
typedef struct {
    const uint8_t* const* at;   /* a place in each row, */
    uint32_t offset;            /* how far after it the length lies, */
    uint32_t width;             /* and the bytes of that length, 1 to 4 */
    int count;
    uint8_t* data;              /* as in binlog_spans_t */
    size_t room;
    size_t used;
    int32_t* offsets;
} binlog_values_t;

BINLOG_INLINE uint32_t binlog_length_at(const uint8_t* p, uint32_t width) {
    uint32_t length;
    uint16_t two;
    if (width == 1)
        return p[0];
    if (width == 2) {
        memcpy(&two, p, 2);
        return two;
    }
    memcpy(&length, p, 4);      /* with three bytes, the fourth is readable too: it is in the room after a row */
    return width == 3 ? length & 0xFFFFFF : length;
}

/* Like binlog_copy_spans_loop. The values lie in their rows, and BINLOG_STEP bytes are readable after each row. */
BINLOG_INLINE int binlog_copy_values_loop(binlog_values_t* s, int i, uint32_t width) {
    const uint8_t* const* at = s->at;
    const uint32_t offset = s->offset;
    const uint8_t* value;
    uint8_t* out = s->data + s->used;
    uint8_t* const data = s->data;
    uint8_t* const last = s->data + s->room - BINLOG_STEP;
    int32_t* offsets = s->offsets;
    const int count = s->count;
    uint32_t length, done;
    for (; i < count; i++) {
        value = at[i] + offset;
        length = binlog_length_at(value, width);
        if (length > (size_t) (last - out))
            break;
        value += width;
        if (length <= BINLOG_SHORT) {
            binlog_step(out, value);
            for (done = BINLOG_STEP; done < length; done += BINLOG_STEP)
                binlog_step(out + done, value + done);
        } else
            memcpy(out, value, length);
        out += length;
        offsets[i] = (int32_t) (out - data);
    }
    s->used = (size_t) (out - data);
    return i;
}

BINLOG_INLINE int binlog_copy_values_of(binlog_values_t* s, int i) {
    if (s->width == 1)
        return binlog_copy_values_loop(s, i, 1);
    if (s->width == 2)
        return binlog_copy_values_loop(s, i, 2);
    return binlog_copy_values_loop(s, i, s->width);
}

#define BINLOG_COMPILE(suffix, attributes)                                                           \
    attributes static int binlog_copy_spans_##suffix(binlog_spans_t* s, int i) {                     \
        return s->nulls != NULL ? binlog_copy_spans_loop(s, i, 1) : binlog_copy_spans_loop(s, i, 0); \
    }                                                                                                \
    attributes static int binlog_copy_values_##suffix(binlog_values_t* s, int i) {                   \
        return binlog_copy_values_of(s, i);                                                          \
    }                                                                                                \
    attributes static int binlog_are_ascii_##suffix(const uint8_t* p, size_t n) {                     \
        return binlog_is_ascii(p, n);                                                             \
    }

BINLOG_COMPILE(plain, )

#if defined(__x86_64__) && defined(__GNUC__)
BINLOG_COMPILE(avx2, __attribute__((target("avx2"))))

static int binlog_has_wide(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0;
}

static inline int binlog_copy_spans(int wide, binlog_spans_t* s, int i) {
    return wide ? binlog_copy_spans_avx2(s, i) : binlog_copy_spans_plain(s, i);
}

static inline int binlog_copy_values(int wide, binlog_values_t* s, int i) {
    return wide ? binlog_copy_values_avx2(s, i) : binlog_copy_values_plain(s, i);
}

static inline int binlog_are_ascii(int wide, const uint8_t* p, size_t n) {
    return wide ? binlog_are_ascii_avx2(p, n) : binlog_are_ascii_plain(p, n);
}
#else
static int binlog_has_wide(void) {
    return 0;
}

static inline int binlog_copy_spans(int wide, binlog_spans_t* s, int i) {
    (void) wide;
    return binlog_copy_spans_plain(s, i);
}

static inline int binlog_copy_values(int wide, binlog_values_t* s, int i) {
    (void) wide;
    return binlog_copy_values_plain(s, i);
}

static inline int binlog_are_ascii(int wide, const uint8_t* p, size_t n) {
    (void) wide;
    return binlog_are_ascii_plain(p, n);
}
#endif

#endif
