/* Are all bytes ASCII? In C, so that copy_spans.h can compile it a second time, for wider vectors. */

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

/* It always runs to the end: compilers vectorize only a loop without an early exit. */
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
