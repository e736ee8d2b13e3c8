/* CRC-32 of binlog events: the polynomial 0x04C11DB7, reflected, as zlib.crc32 computes it.
 *
 * Header-only, no state: tables are constants, and the choice of an implementation depends only
 * on the processor, so any number of threads may call it. It reads no byte outside
 * [p, p + n) and needs no alignment.
 *
 * Three ways, all with the same result:
 *   portable   eight bytes per step through eight tables
 *   x86-64     carry-less multiplication, PCLMULQDQ or AVX-512's VPCLMULQDQ: the message is a
 *              polynomial over GF(2), and 16 bytes are moved D bits forward by multiplying their two
 *              halves with x^D mod P
 *   aarch64    the CRC32X instruction
 *
 * Every constant below is a power of x modulo P, bit-reflected, or Barrett's quotient.
 */
#ifndef BINLOG_CRC32_H
#define BINLOG_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define BINLOG_CRC_X86 1
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__GNUC__) && (defined(__linux__) || defined(__APPLE__))
#define BINLOG_CRC_ARM 1
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

typedef enum {
    BINLOG_CRC_PORTABLE = 0,
    BINLOG_CRC_PCLMUL = 1,
    BINLOG_CRC_VPCLMUL = 2,
    BINLOG_CRC_ARMV8 = 3
} binlog_crc_t;

/* ---- portable ---------------------------------------------------------------------------- */

/* A table's entry is linear in the bits of its index, so eight powers make all 256 entries:
 * bit b of a byte that has k bytes after it weighs x^(32 + 8k + 7 - b). */
#define BINLOG_CRC_1(i, a, b, c, d, e, f, g, h)                                              \
    (((i) & 1 ? a : 0u) ^ ((i) & 2 ? b : 0u) ^ ((i) & 4 ? c : 0u) ^ ((i) & 8 ? d : 0u) ^     \
     ((i) & 16 ? e : 0u) ^ ((i) & 32 ? f : 0u) ^ ((i) & 64 ? g : 0u) ^ ((i) & 128 ? h : 0u))
#define BINLOG_CRC_4(i, ...)                                                                 \
    BINLOG_CRC_1(i, __VA_ARGS__), BINLOG_CRC_1((i) + 1, __VA_ARGS__),                        \
    BINLOG_CRC_1((i) + 2, __VA_ARGS__), BINLOG_CRC_1((i) + 3, __VA_ARGS__)
#define BINLOG_CRC_16(i, ...)                                                                \
    BINLOG_CRC_4(i, __VA_ARGS__), BINLOG_CRC_4((i) + 4, __VA_ARGS__),                        \
    BINLOG_CRC_4((i) + 8, __VA_ARGS__), BINLOG_CRC_4((i) + 12, __VA_ARGS__)
#define BINLOG_CRC_64(i, ...)                                                                \
    BINLOG_CRC_16(i, __VA_ARGS__), BINLOG_CRC_16((i) + 16, __VA_ARGS__),                     \
    BINLOG_CRC_16((i) + 32, __VA_ARGS__), BINLOG_CRC_16((i) + 48, __VA_ARGS__)
#define BINLOG_CRC_256(...)                                                                  \
    BINLOG_CRC_64(0, __VA_ARGS__), BINLOG_CRC_64(64, __VA_ARGS__),                           \
    BINLOG_CRC_64(128, __VA_ARGS__), BINLOG_CRC_64(192, __VA_ARGS__)

/* Row k: x^(39 + 8k) … x^(32 + 8k). */
static const uint32_t binlog_crc_table[8][256] = {
    {BINLOG_CRC_256(0x77073096u, 0xEE0E612Cu, 0x076DC419u, 0x0EDB8832u,
            0x1DB71064u, 0x3B6E20C8u, 0x76DC4190u, 0xEDB88320u)},
    {BINLOG_CRC_256(0x191B3141u, 0x32366282u, 0x646CC504u, 0xC8D98A08u,
            0x4AC21251u, 0x958424A2u, 0xF0794F05u, 0x3B83984Bu)},
    {BINLOG_CRC_256(0x01C26A37u, 0x0384D46Eu, 0x0709A8DCu, 0x0E1351B8u,
            0x1C26A370u, 0x384D46E0u, 0x709A8DC0u, 0xE1351B80u)},
    {BINLOG_CRC_256(0xB8BC6765u, 0xAA09C88Bu, 0x8F629757u, 0xC5B428EFu,
            0x5019579Fu, 0xA032AF3Eu, 0x9B14583Du, 0xED59B63Bu)},
    {BINLOG_CRC_256(0x3D6029B0u, 0x7AC05360u, 0xF580A6C0u, 0x30704BC1u,
            0x60E09782u, 0xC1C12F04u, 0x58F35849u, 0xB1E6B092u)},
    {BINLOG_CRC_256(0xCB5CD3A5u, 0x4DC8A10Bu, 0x9B914216u, 0xEC53826Du,
            0x03D6029Bu, 0x07AC0536u, 0x0F580A6Cu, 0x1EB014D8u)},
    {BINLOG_CRC_256(0xA6770BB4u, 0x979F1129u, 0xF44F2413u, 0x33EF4E67u,
            0x67DE9CCEu, 0xCFBD399Cu, 0x440B7579u, 0x8816EAF2u)},
    {BINLOG_CRC_256(0xCCAA009Eu, 0x4225077Du, 0x844A0EFAu, 0xD3E51BB5u,
            0x7CBB312Bu, 0xF9766256u, 0x299DC2EDu, 0x533B85DAu)},
};

#undef BINLOG_CRC_1
#undef BINLOG_CRC_4
#undef BINLOG_CRC_16
#undef BINLOG_CRC_64
#undef BINLOG_CRC_256

/* The functions below work on the bare register; binlog_crc32_with inverts it before and after. */
static inline uint32_t binlog_crc_portable(uint32_t crc, const uint8_t* p, size_t n) {
    const uint32_t(*t)[256] = binlog_crc_table;
    while (n >= 8) {
        uint32_t a, b; /* little-endian, as on every machine that the package builds for */
        memcpy(&a, p, 4);
        memcpy(&b, p + 4, 4);
        a ^= crc;
        crc = t[7][a & 0xFF] ^ t[6][a >> 8 & 0xFF] ^ t[5][a >> 16 & 0xFF] ^ t[4][a >> 24] ^
              t[3][b & 0xFF] ^ t[2][b >> 8 & 0xFF] ^ t[1][b >> 16 & 0xFF] ^ t[0][b >> 24];
        p += 8;
        n -= 8;
    }
    while (n > 0) {
        crc = crc >> 8 ^ t[0][(crc ^ *p++) & 0xFF];
        n--;
    }
    return crc;
}

/* ---- x86-64 -------------------------------------------------------------------------------- */

#ifdef BINLOG_CRC_X86

#define BINLOG_CRC_TARGET_PCLMUL __attribute__((target("pclmul,sse4.1")))
#define BINLOG_CRC_TARGET_VPCLMUL __attribute__((target("vpclmulqdq,pclmul,avx512f,avx512bw,avx512vl")))

/* Moving a register D bits forward takes x^(D + 63) for its first eight bytes and x^(D - 1) for its
 * last: one less than 64 + D and D, since the product of two reflected words lies one bit low. */
#define BINLOG_CRC_MOVE(high, low) ((long long) ((uint64_t) (high) << 32)), ((long long) ((uint64_t) (low) << 32))
static const long long binlog_crc_move_128[2] = {BINLOG_CRC_MOVE(0x65673B46, 0x9BA54C6F)};
static const long long binlog_crc_move_256[2] = {BINLOG_CRC_MOVE(0x9570D495, 0x01B5FD1D)};
static const long long binlog_crc_move_384[2] = {BINLOG_CRC_MOVE(0x69CCFC0D, 0x2A283862)};
static const long long binlog_crc_move_512[2] = {BINLOG_CRC_MOVE(0x653D9822, 0xCAD38E8F)};
static const long long binlog_crc_move_2048[2] = {BINLOG_CRC_MOVE(0x7CC8E1E7, 0x03F9F863)};
/* 16 bytes with 15, 14 … 0 times 16 more after them: moved to the message's end, and 32 bits on. */
static const long long binlog_crc_move_to_end[32] = {
    BINLOG_CRC_MOVE(0xE95C1271, 0x0077F00D), BINLOG_CRC_MOVE(0x1F0C2CDD, 0x4A28BD43),
    BINLOG_CRC_MOVE(0xFE807BBD, 0x682BDD4F), BINLOG_CRC_MOVE(0x3C656CED, 0x596C8D81),
    BINLOG_CRC_MOVE(0xF5E48C85, 0x5A1BB05D), BINLOG_CRC_MOVE(0xD1DF2327, 0xE3543BE0),
    BINLOG_CRC_MOVE(0x9026D5B1, 0x26B70C3D), BINLOG_CRC_MOVE(0x3F41287A, 0x33FFF533),
    BINLOG_CRC_MOVE(0x910EEEC1, 0x31F8303F), BINLOG_CRC_MOVE(0x0CBEC0ED, 0xDF068DC2),
    BINLOG_CRC_MOVE(0x57C54819, 0x1C279815), BINLOG_CRC_MOVE(0xAE0B5394, 0x8F352D95),
    BINLOG_CRC_MOVE(0x1D9513D7, 0x3DB1ECDC), BINLOG_CRC_MOVE(0xAF449247, 0xF1DA05AA),
    BINLOG_CRC_MOVE(0x81256527, 0xAE689191), BINLOG_CRC_MOVE(0xCCAA009E, 0x00000001),
};
#undef BINLOG_CRC_MOVE

BINLOG_CRC_TARGET_PCLMUL
static inline __m128i binlog_crc_load(const void* p) {
    return _mm_loadu_si128((const __m128i*) p);
}

/* state * x^D + next */
BINLOG_CRC_TARGET_PCLMUL
static inline __m128i binlog_crc_fold(__m128i state, __m128i move, __m128i next) {
    __m128i high = _mm_clmulepi64_si128(state, move, 0x00);
    __m128i low = _mm_clmulepi64_si128(state, move, 0x11);
    return _mm_xor_si128(_mm_xor_si128(high, low), next);
}

/* The remainder of the 96 upper bits of `state`: the 32-bit register. */
BINLOG_CRC_TARGET_PCLMUL
static inline uint32_t binlog_crc_reduce(__m128i state) {
    /* in 64 bits: x^63 */
    const __m128i shorten = _mm_set_epi64x(0, (long long) (0xB8BC6765ull << 32));
    state = _mm_srli_si128(_mm_xor_si128(_mm_clmulepi64_si128(state, shorten, 0x00), state), 8);
    /* Barrett: the quotient by x^64 / P, then the remainder */
    const __m128i barrett = _mm_set_epi64x(0x1DB710641ll, 0x1F7011641ll);
    const __m128i low_32 = _mm_set_epi32(0, 0, 0, -1);
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(state, low_32), barrett, 0x00);
    __m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_32), barrett, 0x10);
    return (uint32_t) _mm_extract_epi32(_mm_xor_si128(state, product), 1);
}

/* The end of a message: `state` stands for all bytes before p; n of them are left, and at least
 * 16 - n % 16 more lie before p in the same buffer. Gives the 32-bit register. */
BINLOG_CRC_TARGET_PCLMUL
static inline uint32_t binlog_crc_finish(__m128i state, const uint8_t* p, size_t n) {
    const __m128i move_128 = binlog_crc_load(binlog_crc_move_128);
    while (n >= 16) {
        state = binlog_crc_fold(state, move_128, binlog_crc_load(p));
        p += 16;
        n -= 16;
    }
    if (n > 0) {
        /* Shift so that state and tail together end at a register's end: the state's first n bytes
         * are moved on, its others are joined by the tail, read as the buffer's last 16 bytes. */
        static const uint8_t shift[48] = {
            0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
            0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
            0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
        const __m128i later = binlog_crc_load(shift + n);
        const __m128i earlier = binlog_crc_load(shift + 16 + n);
        const __m128i tail = binlog_crc_load(p + n - 16);
        const __m128i joined = _mm_blendv_epi8(_mm_shuffle_epi8(state, earlier), tail, earlier);
        state = binlog_crc_fold(_mm_shuffle_epi8(state, later), move_128, joined);
    }
    /* state * x^32 in 96 bits: x^95 */
    const __m128i shorten = _mm_set_epi64x(0, (long long) (0xCCAA009Eull << 32));
    state = _mm_xor_si128(_mm_clmulepi64_si128(state, shorten, 0x00), _mm_slli_si128(_mm_srli_si128(state, 8), 4));
    return binlog_crc_reduce(state);
}

/* n >= 16 */
BINLOG_CRC_TARGET_PCLMUL
static inline uint32_t binlog_crc_pclmul(uint32_t crc, const uint8_t* p, size_t n) {
    __m128i a = _mm_xor_si128(binlog_crc_load(p), _mm_cvtsi32_si128((int) crc));
    if (n < 64) {
        return binlog_crc_finish(a, p + 16, n - 16);
    }
    /* Four registers at once hide the multiplier's latency. */
    __m128i b = binlog_crc_load(p + 16);
    __m128i c = binlog_crc_load(p + 32);
    __m128i d = binlog_crc_load(p + 48);
    const __m128i move_512 = binlog_crc_load(binlog_crc_move_512);
    p += 64;
    n -= 64;
    while (n >= 64) {
        a = binlog_crc_fold(a, move_512, binlog_crc_load(p));
        b = binlog_crc_fold(b, move_512, binlog_crc_load(p + 16));
        c = binlog_crc_fold(c, move_512, binlog_crc_load(p + 32));
        d = binlog_crc_fold(d, move_512, binlog_crc_load(p + 48));
        p += 64;
        n -= 64;
    }
    d = binlog_crc_fold(a, binlog_crc_load(binlog_crc_move_384), d);
    d = binlog_crc_fold(b, binlog_crc_load(binlog_crc_move_256), d);
    d = binlog_crc_fold(c, binlog_crc_load(binlog_crc_move_128), d);
    return binlog_crc_finish(d, p, n);
}

/* Most events are shorter than 256 bytes, and each of another length: a loop over them, or a tail of its own
 * kind, is a branch that is mispredicted. So a message is treated as if it ended where a block of 256 bytes ends:
 * its first block is filled up with leading zeros, which leave a zero register unchanged, and the start value is
 * added where the message begins. A masked load touches no byte that its mask leaves out. */

/* Start values: the read begins as many bytes in as the first block has. */
static const uint8_t binlog_crc_ones[512] = {[256] = 0xFF, [257] = 0xFF, [258] = 0xFF, [259] = 0xFF};

/* The 64 bytes before `end`, of which the last n are the message's; any n, more than 64 and negative too. */
BINLOG_CRC_TARGET_VPCLMUL
static inline __m512i binlog_crc_last(const uint8_t* end, ptrdiff_t n) {
    uint64_t mask = n >= 64 ? ~0ull : n <= 0 ? 0 : ~0ull << (64 - n);
    return _mm512_maskz_loadu_epi8(mask, (const void*) ((uintptr_t) end - 64));
}

/* The 64 bytes that begin i registers into the first block, with the start value added. */
BINLOG_CRC_TARGET_VPCLMUL
static inline __m512i binlog_crc_first(const uint8_t* end, ptrdiff_t n, const uint8_t* start, int i) {
    __m512i part = binlog_crc_last(end - 64 * (3 - i), n - 64 * (3 - i));
    return _mm512_xor_si512(part, _mm512_loadu_si512(start + n + 64 * i));
}

BINLOG_CRC_TARGET_VPCLMUL
static inline __m512i binlog_crc_multiply(__m512i state, __m512i move) {
    return _mm512_xor_si512(_mm512_clmulepi64_epi128(state, move, 0x00), _mm512_clmulepi64_epi128(state, move, 0x11));
}

/* Register i of the last block, moved to the message's end. */
BINLOG_CRC_TARGET_VPCLMUL
static inline __m512i binlog_crc_to_end(__m512i state, int i) {
    return binlog_crc_multiply(state, _mm512_loadu_si512(binlog_crc_move_to_end + 8 * i));
}

BINLOG_CRC_TARGET_VPCLMUL
static inline uint32_t binlog_crc_reduce_512(__m512i state) {
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(state), _mm512_extracti64x4_epi64(state, 1));
    return binlog_crc_reduce(_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}

/* n >= 4 */
BINLOG_CRC_TARGET_VPCLMUL
static inline uint32_t binlog_crc_vpclmul(uint32_t crc, const uint8_t* p, size_t n) {
    const uint8_t* start = binlog_crc_ones;
    uint8_t other[512];
    const uint8_t* last = p + n;
    ptrdiff_t first = (ptrdiff_t) ((n - 1) % 256 + 1);
    if (first < 4 && n > 256) { /* else the start value would reach into the next block */
        crc = binlog_crc_portable(crc, p, (size_t) first);
        p += first;
        first = 256;
    }
    if (crc != ~0u) {
        memset(other, 0, sizeof other);
        memcpy(other + 256, &crc, 4);
        start = other;
    }
    p += first;
    __m512i d = binlog_crc_first(p, first, start, 3);
    if (n <= 64) {
        return binlog_crc_reduce_512(binlog_crc_to_end(d, 3));
    }
    __m512i c = binlog_crc_first(p, first, start, 2);
    if (n <= 128) {
        return binlog_crc_reduce_512(_mm512_xor_si512(binlog_crc_to_end(c, 2), binlog_crc_to_end(d, 3)));
    }
    __m512i b = binlog_crc_first(p, first, start, 1);
    __m512i a = binlog_crc_first(p, first, start, 0);
    const __m512i move_2048 = _mm512_broadcast_i32x4(binlog_crc_load(binlog_crc_move_2048));
    for (; p < last; p += 256) {
        a = _mm512_xor_si512(binlog_crc_multiply(a, move_2048), _mm512_loadu_si512(p));
        b = _mm512_xor_si512(binlog_crc_multiply(b, move_2048), _mm512_loadu_si512(p + 64));
        c = _mm512_xor_si512(binlog_crc_multiply(c, move_2048), _mm512_loadu_si512(p + 128));
        d = _mm512_xor_si512(binlog_crc_multiply(d, move_2048), _mm512_loadu_si512(p + 192));
    }
    a = _mm512_xor_si512(binlog_crc_to_end(a, 0), binlog_crc_to_end(b, 1));
    c = _mm512_xor_si512(binlog_crc_to_end(c, 2), binlog_crc_to_end(d, 3));
    return binlog_crc_reduce_512(_mm512_xor_si512(a, c));
}

#endif /* BINLOG_CRC_X86 */

/* ---- aarch64 ------------------------------------------------------------------------------- */

#ifdef BINLOG_CRC_ARM

#if defined(__clang__)
#define BINLOG_CRC_TARGET_ARM __attribute__((target("crc")))
#define BINLOG_CRC_X(crc, word) __builtin_arm_crc32d(crc, word)
#define BINLOG_CRC_B(crc, byte) __builtin_arm_crc32b(crc, byte)
#else
#define BINLOG_CRC_TARGET_ARM __attribute__((target("+crc")))
#define BINLOG_CRC_X(crc, word) __builtin_aarch64_crc32x(crc, word)
#define BINLOG_CRC_B(crc, byte) __builtin_aarch64_crc32b(crc, byte)
#endif

BINLOG_CRC_TARGET_ARM
static inline uint32_t binlog_crc_arm(uint32_t crc, const uint8_t* p, size_t n) {
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        crc = BINLOG_CRC_X(crc, word);
        p += 8;
        n -= 8;
    }
    while (n > 0) {
        crc = BINLOG_CRC_B(crc, *p++);
        n--;
    }
    return crc;
}

#endif /* BINLOG_CRC_ARM */

/* ---- the choice ---------------------------------------------------------------------------- */

/* Whether this machine can run the implementation. */
static inline int binlog_crc32_has(binlog_crc_t which) {
    switch (which) {
    case BINLOG_CRC_PORTABLE:
        return 1;
#ifdef BINLOG_CRC_X86
    case BINLOG_CRC_PCLMUL:
        return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    case BINLOG_CRC_VPCLMUL:
        return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("pclmul");
#endif
#ifdef BINLOG_CRC_ARM
    case BINLOG_CRC_ARMV8:
#if defined(__APPLE__) || defined(__ARM_FEATURE_CRC32)
        return 1;
#else
        return (getauxval(AT_HWCAP) & (1ul << 7)) != 0; /* HWCAP_CRC32 */
#endif
#endif
    default:
        return 0;
    }
}

static inline binlog_crc_t binlog_crc32_best(void) {
    /* x86: two loads from what the C runtime found out at start. aarch64: a short walk in libc. */
    if (binlog_crc32_has(BINLOG_CRC_VPCLMUL)) {
        return BINLOG_CRC_VPCLMUL;
    }
    if (binlog_crc32_has(BINLOG_CRC_PCLMUL)) {
        return BINLOG_CRC_PCLMUL;
    }
    if (binlog_crc32_has(BINLOG_CRC_ARMV8)) {
        return BINLOG_CRC_ARMV8;
    }
    return BINLOG_CRC_PORTABLE;
}

static inline const char* binlog_crc32_name(binlog_crc_t which) {
    switch (which) {
    case BINLOG_CRC_PCLMUL:
        return "pclmul";
    case BINLOG_CRC_VPCLMUL:
        return "vpclmul";
    case BINLOG_CRC_ARMV8:
        return "armv8";
    default:
        return "portable";
    }
}

/* By an implementation for which binlog_crc32_has is true. A loop asks for the best once, before it begins. */
static inline uint32_t binlog_crc32_with(binlog_crc_t which, uint32_t crc, const uint8_t* p, size_t n) {
    crc = ~crc;
#ifdef BINLOG_CRC_X86
    if (which == BINLOG_CRC_VPCLMUL && n >= 4) {
        return ~binlog_crc_vpclmul(crc, p, n);
    }
    if (which != BINLOG_CRC_PORTABLE && n >= 16) {
        return ~binlog_crc_pclmul(crc, p, n);
    }
#endif
#ifdef BINLOG_CRC_ARM
    if (which == BINLOG_CRC_ARMV8) {
        return ~binlog_crc_arm(crc, p, n);
    }
#endif
    (void) which;
    return ~binlog_crc_portable(crc, p, n);
}

/* zlib's crc32: `crc` is 0, or the CRC of the bytes before p. */
static inline uint32_t binlog_crc32(uint32_t crc, const uint8_t* p, size_t n) {
    return binlog_crc32_with(binlog_crc32_best(), crc, p, n);
}

#endif /* BINLOG_CRC32_H */
