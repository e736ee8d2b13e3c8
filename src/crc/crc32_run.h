/* The CRC-32 of many consecutive messages, each followed by its own CRC.
 *
 * CRC-32 is linear. A message with the right CRC after it takes the register from all ones to one constant, K. So
 * the register over the whole run, begun with 0, depends only on where the messages end:
 *
 *     run = x^(8 L) * (ones + (K + ones) * sum of x^(-8 end)) + ones      (ends from the run's start, the last is L)
 *
 * The run is read once, at full speed; each message costs two look-ups and one product of them. Damage in one message
 * is found as surely as by its own CRC. Damage in several messages goes unnoticed once in 2^32 cases, as does damage
 * to more than a few bits of one. */

#ifndef BINLOG_CRC32_RUN_H
#define BINLOG_CRC32_RUN_H

#include "crc/crc32.h"

#define BINLOG_CRC_RUN_LEN 16384 /* most bytes of a run */
#define BINLOG_CRC_AFTER 0xDEBB20E3u /* K */

/* The register over n bytes, begun with 0. */
static inline uint32_t binlog_crc_bare(binlog_crc_t which, const uint8_t* p, size_t n) {
    return ~binlog_crc32_with(which, ~0u, p, n);
}

#ifdef BINLOG_CRC_X86

/* x^(-8 i), and x^(-8 * 256 i) */
static uint32_t binlog_crc_back[256];
static uint32_t binlog_crc_far_back[BINLOG_CRC_RUN_LEN / 256 + 1];

__attribute__((constructor)) static void binlog_crc_fill_back(void) {
    uint32_t power = 0x80000000u; /* x^0 */
    binlog_crc_far_back[0] = power;
    for (int i = 0; i < 256; i++) {
        binlog_crc_back[i] = power;
        for (int bit = 0; bit < 8; bit++) {
            power = power >> 31 ? (power ^ 0xEDB88320u) << 1 | 1 : power << 1;
        }
    }
    for (int i = 1; i <= BINLOG_CRC_RUN_LEN / 256; i++) { /* by `power` as it is now, x^(-8 * 256) */
        uint32_t shifted = binlog_crc_far_back[i - 1];
        uint32_t product = 0;
        for (int bit = 31; bit >= 0; bit--) {
            product ^= power >> bit & 1 ? shifted : 0;
            shifted = shifted & 1 ? shifted >> 1 ^ 0xEDB88320u : shifted >> 1;
        }
        binlog_crc_far_back[i] = product;
    }
}

BINLOG_CRC_TARGET_PCLMUL
static inline __m128i binlog_crc_product(uint32_t a, uint32_t b) {
    return _mm_clmulepi64_si128(_mm_cvtsi32_si128((int) a), _mm_cvtsi32_si128((int) b), 0x00);
}

/* The remainder of a sum of products. A product of reflected words lies one bit low. */
BINLOG_CRC_TARGET_PCLMUL
static inline uint32_t binlog_crc_rest(__m128i products) {
    return binlog_crc_reduce(_mm_slli_si128(_mm_slli_epi64(products, 1), 8));
}

BINLOG_CRC_TARGET_PCLMUL
static inline __m128i binlog_crc_back_by(size_t n) {
    return binlog_crc_product(binlog_crc_back[n % 256], binlog_crc_far_back[n / 256]);
}

/* Whether all CRCs agree. ends: where each message with its CRC ends, from p on; count >= 1. read: how many bytes of
 * the run, and of what follows it, are read in one go before anything else: at least ends[count - 1], at most
 * BINLOG_CRC_RUN_LEN. */
BINLOG_CRC_TARGET_PCLMUL
static int binlog_crc_run_holds(binlog_crc_t which, const uint8_t* p, uint32_t run, size_t read,
                                const uint16_t* ends, size_t count) {
    const size_t length = ends[count - 1];
    __m128i sum = _mm_setzero_si128();
    for (size_t i = 0; i < count; i++) {
        sum = _mm_xor_si128(sum, binlog_crc_back_by(ends[i]));
    }
    /* Remove what was read after the run; then both sides refer to the run's start. */
    run ^= binlog_crc_bare(which, p + length, read - length);
    uint32_t found = binlog_crc_rest(binlog_crc_product(run, binlog_crc_rest(binlog_crc_back_by(read))));
    uint32_t ones = binlog_crc_rest(binlog_crc_product(~0u, binlog_crc_rest(binlog_crc_back_by(length))));
    return (found ^ ones) == ~binlog_crc_rest(binlog_crc_product(~BINLOG_CRC_AFTER, binlog_crc_rest(sum)));
}

/* Without this, a CRC of each message is as fast. */
static inline int binlog_crc_has_runs(binlog_crc_t which) {
    return which == BINLOG_CRC_PCLMUL || which == BINLOG_CRC_VPCLMUL;
}

#else

static inline int binlog_crc_run_holds(binlog_crc_t which, const uint8_t* p, uint32_t run, size_t read,
                                       const uint16_t* ends, size_t count) {
    (void) which;
    (void) p;
    (void) run;
    (void) read;
    (void) ends;
    (void) count;
    return 0;
}

static inline int binlog_crc_has_runs(binlog_crc_t which) {
    (void) which;
    return 0;
}

#endif

#endif /* BINLOG_CRC32_RUN_H */
