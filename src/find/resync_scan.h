/* The only loop of the resync that sees every byte. It is in C, written so that compilers vectorize it. */

#ifndef BINLOG_RESYNC_SCAN_H
#define BINLOG_RESYNC_SCAN_H

#include <stdint.h>
#include <string.h>

enum { BINLOG_SCAN_BLOCK = 256, BINLOG_SCAN_ROOM = 24 };

/* Does any of the BINLOG_SCAN_BLOCK headers that could begin at p, p + 1, … have a length and a next_position that
 * agree with its place? If `most` is not 0, next_position 0 agrees with lengths of `least` to `least` + `most` - 1.
 * Reads BINLOG_SCAN_ROOM bytes after the block. It has no branch, and treats each of the four alignments separately.
 */
static inline int binlog_scan_block(const uint8_t *p, uint32_t position, uint32_t least, uint32_t most)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const uint8_t *lengths = p + 9 + i;
        const uint8_t *nexts = p + 13 + i;
        const uint32_t here = position + i;
        for (uint32_t j = 0; j < BINLOG_SCAN_BLOCK / 4; j++) {
            uint32_t length, next;
            memcpy(&length, lengths + 4 * j, 4);
            memcpy(&next, nexts + 4 * j, 4);
            found |= (uint32_t)(next - length == here + 4 * j);
        }
        if (most)
            for (uint32_t j = 0; j < BINLOG_SCAN_BLOCK / 4; j++) {
                uint32_t length, next;
                memcpy(&length, lengths + 4 * j, 4);
                memcpy(&next, nexts + 4 * j, 4);
                found |= (uint32_t)(next == 0) & (uint32_t)(length - least < most);
            }
    }
    return found != 0;
}

#endif
