// kernels/avx2/quantise_q8_avx2.c - activation rows to int8 per 32 columns. Contract: kernels.h.
//
// AVX-512 has no form of its own: on a Zen 4 core it took 442 ns for 2048 values, this one 399
// (bench_rows).
#include "kernels/half.h"
#include "kernels/tables.h"

#include <immintrin.h>

#define TINY_BITS 0x0d800000u     // 2^-100
#define INFINITY_BITS 0x7f800000u // and above: infinity, NaN

// The greatest |x| of a block, as bits; as an integer, so that NaN is above everything.
static inline uint32_t amax_bits_of(const __m256 *x)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i max = _mm256_and_si256(_mm256_castps_si256(x[0]), magnitude);
    for (int v = 1; v < 4; v++) {
        max = _mm256_max_epi32(max, _mm256_and_si256(_mm256_castps_si256(x[v]), magnitude));
    }
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

// 32 quants in column order.
static inline __m256i quants_of(const __m256 *x, float inverse)
{
    const __m256 factor = _mm256_set1_ps(inverse);
    __m256i q[4];
    for (int v = 0; v < 4; v++) {
        q[v] = _mm256_cvtps_epi32(_mm256_mul_ps(x[v], factor));
    }
    // Packing works within halves of a register and leaves groups of four out of order.
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]),
                                              _mm256_packs_epi32(q[2], q[3]));
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// The sums of columns 0-15 and 16-31, in 16 bits each.
static inline uint32_t sums_of(__m256i q)
{
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
    const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    __m256i sum = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));
    const uint32_t low = (uint32_t)_mm256_cvtsi256_si32(sum);
    const uint32_t high = (uint32_t)_mm_cvtsi128_si32(_mm256_extracti128_si256(sum, 1));
    return (low & 0xffffu) | high << 16;
}

void ps_quantise_q8_avx2(void *q8_row, const float *x, uint32_t n)
{
    const uint32_t blocks = n / PS_BLOCK_COLUMNS;
    int8_t *q = q8_row;
    float *d = (float *)(void *)(q + n);
    float *ds = d + blocks;
    char *sums = (char *)(ds + blocks);
    for (uint32_t b = 0; b < blocks; b++, q += PS_BLOCK_COLUMNS, x += PS_BLOCK_COLUMNS) {
        const __m256 v[4] = {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8), _mm256_loadu_ps(x + 16),
                             _mm256_loadu_ps(x + 24)};
        const uint32_t amax_bits = amax_bits_of(v);
        __m256i quants = _mm256_setzero_si256();
        uint32_t sum = 0;
        d[b] = amax_bits >= INFINITY_BITS ? __builtin_nanf("") : 0.0f;
        ds[b] = d[b];
        if (amax_bits >= TINY_BITS && amax_bits < INFINITY_BITS) {
            const float amax = ps_f32_from_bits(amax_bits);
            quants = quants_of(v, 127.0f / amax);
            sum = sums_of(quants);
            d[b] = amax / 127.0f;
            ds[b] = d[b] * (float)((int16_t)sum + (int16_t)(sum >> 16));
        }
        _mm256_storeu_si256((__m256i *)(void *)q, quants);
        memcpy(sums + (size_t)b * sizeof sum, &sum, sizeof sum);
    }
}
