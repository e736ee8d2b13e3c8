/* Is it all ASCII? In C, so that copy_spans.h can compile it once more, for wider vectors. */

#ifndef BINLOG_ASCII_H
#define BINLOG_ASCII_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define BINLOG_INLINE static inline __attribute__((always_inline))
#else
#define BINLOG_INLINE static inline
#endif

/* To the end always: a loop without a way out is one that compilers make wide steps of. */
BINLOG_INLINE int binlog_is_ascii(const uint8_t* p, size_t n) {
    uint64_t high = 0, word;
    size_t i;
    for (i = 0; i + 8 <= n; i += 8) {
        memcpy(&word, p + i, 8);
        high |= word;
    }
    for (; i < n; i++)
        high |= p[i];
    return (high & 0x8080808080808080u) == 0;
}

#endif
