/* Views of values, as Arrow's types "string view" and "binary view" have them, and whether the values are ASCII.
 *
 * A view is 16 bytes: the length in 4, then a value of up to 12 bytes itself, or its first 4 bytes, the number of the
 * buffer that it lies in, and its place there. Places have 31 bits, so what is longer is several buffers.
 *
 * Header-only, no state. The loop is compiled twice on x86-64, as in copy_spans.h.
 * Source: Apache Arrow documentation, "Variable-size Binary View Layout".
 */
#ifndef BINLOG_VIEWS_H
#define BINLOG_VIEWS_H

#include "arrow/copy_spans.h"

enum {
    BINLOG_VIEW = 16,      /* bytes of a view */
    BINLOG_INLINED = 12    /* bytes of the longest value that lies in its view */
};

typedef struct {
    const uint8_t* const* at;   /* a place in each row, */
    uint32_t offset;            /* how far after it the length lies, */
    uint32_t width;             /* and the bytes of that length, 1 to 4; 0: `at` is the values', see lengths */
    const uint32_t* lengths;
    int count;
    int part_bits;              /* a buffer begins at each multiple of 1 << part_bits */
    int text;                   /* whether `high` is wanted */
    const uint8_t* base;        /* where the first of them begins */
    uint8_t* views;             /* the destination */
    uint64_t used;              /* bytes of all values; */
    uint64_t first;             /* from base to the first that does not lie in its view, if width is 0; */
    uint64_t end;               /* and to the end of the last; 0: there is none */
    uint64_t high;              /* not 0: a byte is not ASCII */
} binlog_views_t;

/* From 64 - n on: n bytes that are kept, then 64 that are not */
static const uint8_t binlog_kept[128] = {
#define BINLOG_8 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF
    BINLOG_8, BINLOG_8, BINLOG_8, BINLOG_8, BINLOG_8, BINLOG_8, BINLOG_8, BINLOG_8
#undef BINLOG_8
};

BINLOG_INLINE uint64_t binlog_word(const uint8_t* p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

BINLOG_INLINE const uint8_t* binlog_kept_of(uint32_t length) {
    return binlog_kept + BINLOG_STEP - (length < BINLOG_STEP ? length : BINLOG_STEP);
}

/* At least BINLOG_INLINED bytes must be readable at the value; returns those that lie in the view, ORed. */
BINLOG_INLINE uint64_t binlog_put_inlined(uint8_t* view, const uint8_t* value, uint32_t length) {
    const uint8_t* kept = binlog_kept_of(length);
    const uint64_t low = binlog_word(value) & binlog_word(kept);
    const uint64_t rest = binlog_word(value + 4) & binlog_word(kept + 4);
    const uint64_t head = length | low << 32;
    memcpy(view, &head, 8);
    memcpy(view + 8, &rest, 8);
    return low | rest;
}

BINLOG_INLINE void binlog_put_place(uint8_t* view, uint64_t place, int part_bits) {
    const uint64_t rest = (place >> part_bits) | (place & (((uint64_t) 1 << part_bits) - 1)) << 32;
    memcpy(view + 8, &rest, 8);
}

static inline void binlog_put_view(uint8_t* view, const uint8_t* value, uint32_t length, uint64_t place,
                                   int part_bits) {
    (void) binlog_put_inlined(view, value, length);
    if (length > BINLOG_INLINED)
        binlog_put_place(view, place, part_bits);
}

#if defined(__GNUC__)
#define BINLOG_OR_32(to, from) ((to) |= *(const binlog_32_t*) (from))
#define BINLOG_OR_KEPT(to, from, kept) ((to) |= *(const binlog_32_t*) (from) & *(const binlog_32_t*) (kept))
#else
typedef struct { uint64_t words[4]; } binlog_32_t;
#define BINLOG_OR_32(to, from) binlog_or_words(&(to), (from), NULL)
#define BINLOG_OR_KEPT(to, from, kept) binlog_or_words(&(to), (from), (kept))
static void binlog_or_words(binlog_32_t* to, const uint8_t* from, const uint8_t* kept) {
    int i;
    for (i = 0; i < 4; i++)
        to->words[i] |= binlog_word(from + 8 * i) & (kept == NULL ? ~(uint64_t) 0 : binlog_word(kept + 8 * i));
}
#endif

BINLOG_INLINE const uint8_t* binlog_value_of(const binlog_views_t* s, int i, uint32_t width, uint32_t* length) {
    const uint8_t* at = s->at[i] + s->offset;
    *length = width ? binlog_length_at(at, width) : s->lengths[i];
    return at + width;
}

/* Views of values that lie in them, up to the first that does not; returns its number. */
BINLOG_INLINE int binlog_inlined_views(binlog_views_t* s, int i, uint32_t width) {
    uint8_t* view = s->views + (size_t) i * BINLOG_VIEW;
    const uint8_t* value;
    const int count = s->count;
    uint64_t used = 0, high = 0;
    uint32_t length;
    for (; i < count; i++, view += BINLOG_VIEW) {
        value = binlog_value_of(s, i, width, &length);
        if (length > BINLOG_INLINED)
            break;
        high |= binlog_put_inlined(view, value, length);
        used += length;
    }
    s->used += used;
    s->high |= high & 0x8080808080808080u;
    return i;
}

/* Views of values from number i on, as if there were one buffer; returns where it stopped: at the end, or at a value
 * that is too long for a view. */
BINLOG_INLINE int binlog_any_views(binlog_views_t* s, int i, uint32_t width, int text) {
    const uint8_t* const base = s->base;
    const uint8_t* value;
    const uint8_t* kept;
    uint8_t* view = s->views + (size_t) i * BINLOG_VIEW;
    const int count = s->count;
    uint64_t used = 0, first = s->first, end = s->end, place, head, here, rest, words[4];
    uint32_t length, done;
    int inlined;
    binlog_32_t high;
    memset(&high, 0, sizeof(high));
    for (; i < count; i++, view += BINLOG_VIEW) {
        value = binlog_value_of(s, i, width, &length);
        if (length > INT32_MAX)
            break;
        kept = binlog_kept_of(length);
        place = (uint64_t) ((uintptr_t) value - (uintptr_t) base);
        inlined = length <= BINLOG_INLINED;
        head = length | (binlog_word(value) & binlog_word(kept)) << 32;
        here = binlog_word(value + 4) & binlog_word(kept + 4);
        rest = inlined ? here : place << 32;        /* in the first buffer: see binlog_make_views_of */
        memcpy(view, &head, 8);
        memcpy(view + 8, &rest, 8);
        used += length;
        if (!width)
            first = !inlined && place < first ? place : first;
        end = !inlined && (width || place + length > end) ? place + length : end;
        if (text) {
            /* The first 64 bytes without a branch on the length, which could not be predicted */
            BINLOG_OR_KEPT(high, value, kept);
            BINLOG_OR_KEPT(high, value + 32, kept + 32);
            if (length > BINLOG_STEP) {
                for (done = BINLOG_STEP; done + 32 <= length; done += 32)
                    BINLOG_OR_32(high, value + done);
                BINLOG_OR_32(high, value + length - 32);
            }
        }
    }
    memcpy(words, &high, 32);
    s->high |= (words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u;
    s->used += used;
    s->first = first;
    s->end = end;
    return i;
}

/* Makes views from number i on, and returns where it stopped: at the end, or at a value that is too long for a view.
 * BINLOG_STEP bytes are readable after each value. With a width, values are in the order of their places. */
BINLOG_INLINE int binlog_make_views_of(binlog_views_t* s, int i) {
    const uint8_t* value;
    uint32_t length;
    int k = i, last;
#define BINLOG_VIEWS(width)                                                                   \
    i = binlog_inlined_views(s, i, width);                                                    \
    if (i < s->count)                                                                         \
        i = s->text ? binlog_any_views(s, i, width, 1) : binlog_any_views(s, i, width, 0);
    if (s->width == 1) {
        BINLOG_VIEWS(1)
    } else if (s->width == 2) {
        BINLOG_VIEWS(2)
    } else {
        BINLOG_VIEWS(s->width)
    }
#undef BINLOG_VIEWS
    if (s->end >> s->part_bits)
        for (last = i; k < last; k++) {
            value = binlog_value_of(s, k, s->width, &length);
            if (length > BINLOG_INLINED)
                binlog_put_place(s->views + (size_t) k * BINLOG_VIEW, (uint64_t) (value - s->base), s->part_bits);
        }
    return i;
}

static int binlog_make_views_plain(binlog_views_t* s, int i) {
    return binlog_make_views_of(s, i);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static int binlog_make_views_avx2(binlog_views_t* s, int i) {
    return binlog_make_views_of(s, i);
}

static inline int binlog_make_views(int wide, binlog_views_t* s, int i) {
    return wide ? binlog_make_views_avx2(s, i) : binlog_make_views_plain(s, i);
}
#else
static inline int binlog_make_views(int wide, binlog_views_t* s, int i) {
    (void) wide;
    return binlog_make_views_plain(s, i);
}
#endif

#endif
