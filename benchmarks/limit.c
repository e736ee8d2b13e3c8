/* The least that a decoder moves: a log's bytes from memory once, and its output into memory once.
 *
 * The output goes to one block again and again, as large as that of a group: a decoder's blocks come back to it, too.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Reads `length` bytes and writes `written` bytes, in `groups` turns, into a block of written / groups bytes and 8 for
 * each turn's rest. Returns a value that depends on all that was read, so that no compiler leaves reading out. */
uint64_t limit_pass(const uint8_t* log, size_t length, uint8_t* block, size_t written, size_t groups) {
    const size_t in = length / groups / 64 * 64, out = written / groups / 8 * 8;
    uint64_t sums[8] = {0}, words[8], sum = 0;
    size_t k, i, j;
    for (k = 0; k < groups; k++) {
        const uint8_t* from = log + k * in;
        for (i = 0; i < in; i += 64) {
            memcpy(words, from + i, 64);
            for (j = 0; j < 8; j++)
                sums[j] += words[j];
        }
        for (i = 0; i < out; i += 8) {
            uint64_t word = sums[0] + i;
            memcpy(block + i, &word, 8);
        }
    }
    for (j = 0; j < 8; j++)
        sum += sums[j];
    return sum;
}
