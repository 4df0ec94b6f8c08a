/* CRC-32 (IEEE 802.3, reflected), as zlib.crc32: eight bytes a step, or 64 where the processor multiplies without carry. */

#include "fast.h"

static uint32_t table[8][256];
static int multiplies;

static uint32_t by_table(uint32_t crc, const byte *at, size_t size) {
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^ table[0][at[7]];
    }
    for (; size; size--, at++) crc = crc >> 8 ^ table[0][(crc ^ *at) & 255];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <emmintrin.h>
#include <wmmintrin.h>

/* What stands 512 or 128 bits before its place is moved there: both halves of it are multiplied by a power of x modulo
   the polynomial (x^544 and x^480; x^160 and x^96; bits reflected), as in "Fast CRC Computation for Generic Polynomials
   Using PCLMULQDQ Instruction" (Gopal and others, Intel 2009). */
__attribute__((target("pclmul"))) static inline __m128i moved(__m128i from, __m128i by, __m128i to) {
    return _mm_xor_si128(
        _mm_xor_si128(_mm_clmulepi64_si128(from, by, 0x00), _mm_clmulepi64_si128(from, by, 0x11)), to);
}

static inline __m128i load(const byte *at) { return _mm_loadu_si128((const __m128i *)at); }

__attribute__((target("pclmul"))) static uint32_t by_multiplying(uint32_t crc, const byte *at, size_t size) {
    const __m128i by_512 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4), by_128 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    __m128i a = _mm_xor_si128(load(at), _mm_cvtsi32_si128((int)crc)), b = load(at + 16), c = load(at + 32), d = load(at + 48);
    for (size -= 64, at += 64; size >= 64; size -= 64, at += 64) {
        a = moved(a, by_512, load(at));
        b = moved(b, by_512, load(at + 16));
        c = moved(c, by_512, load(at + 32));
        d = moved(d, by_512, load(at + 48));
    }
    a = moved(moved(moved(a, by_128, b), by_128, c), by_128, d);
    for (; size >= 16; size -= 16, at += 16) a = moved(a, by_128, load(at));
    byte rest[16];
    _mm_storeu_si128((__m128i *)rest, a);
    return by_table(by_table(0, rest, sizeof rest), at, size);
}

uint32_t crc32_of(const byte *at, size_t size) {
    return ~(multiplies && size >= 64 ? by_multiplying(~0u, at, size) : by_table(~0u, at, size));
}

static int can_multiply(void) { return __builtin_cpu_supports("pclmul"); }

#else

uint32_t crc32_of(const byte *at, size_t size) { return ~by_table(~0u, at, size); }

static int can_multiply(void) { return 0; }

#endif

void make_crc_tables(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        table[0][value] = crc;
    }
    for (int row = 1; row < 8; row++)
        for (int value = 0; value < 256; value++) {
            uint32_t before = table[row - 1][value];
            table[row][value] = before >> 8 ^ table[0][before & 255];
        }
    multiplies = can_multiply();
}
