// kernels/avx512/quantise_q8_avx512.c - activation rows to int8 per 32 columns. Contract:
// kernels.h.
#include "kernels/half.h"
#include "kernels/tables.h"

#include <immintrin.h>

#define TINY_BITS 0x0d800000u     // 2^-100
#define INFINITY_BITS 0x7f800000u // and above: infinity, NaN

// The greatest |x| of a block, as bits; as an integer, so that NaN is above everything.
static inline uint32_t amax_bits_of(__m512 low, __m512 high)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const __m512i a = _mm512_and_si512(_mm512_castps_si512(low), magnitude);
    const __m512i b = _mm512_and_si512(_mm512_castps_si512(high), magnitude);
    return (uint32_t)_mm512_reduce_max_epi32(_mm512_max_epi32(a, b));
}

void ps_quantise_q8_avx512(void *q8_row, const float *x, uint32_t n)
{
    const uint32_t blocks = n / PS_BLOCK_COLUMNS;
    int8_t *q = q8_row;
    float *d = (float *)(void *)(q + n);
    float *ds = d + blocks;
    int16_t *sums = (int16_t *)(void *)(ds + blocks);
    for (uint32_t b = 0; b < blocks; b++, q += PS_BLOCK_COLUMNS, x += PS_BLOCK_COLUMNS) {
        const __m512 x0 = _mm512_loadu_ps(x);
        const __m512 x1 = _mm512_loadu_ps(x + 16);
        const uint32_t amax_bits = amax_bits_of(x0, x1);
        __m512i q0 = _mm512_setzero_si512();
        __m512i q1 = _mm512_setzero_si512();
        d[b] = amax_bits >= INFINITY_BITS ? __builtin_nanf("") : 0.0f;
        ds[b] = d[b];
        sums[2 * b] = 0;
        sums[2 * b + 1] = 0;
        if (amax_bits >= TINY_BITS && amax_bits < INFINITY_BITS) {
            const float amax = ps_f32_from_bits(amax_bits);
            const __m512 inverse = _mm512_set1_ps(127.0f / amax);
            q0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse));
            q1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse));
            sums[2 * b] = (int16_t)_mm512_reduce_add_epi32(q0);
            sums[2 * b + 1] = (int16_t)_mm512_reduce_add_epi32(q1);
            d[b] = amax / 127.0f;
            ds[b] = d[b] * (float)(sums[2 * b] + sums[2 * b + 1]);
        }
        _mm_storeu_si128((__m128i *)(void *)q, _mm512_cvtepi32_epi8(q0));
        _mm_storeu_si128((__m128i *)(void *)(q + 16), _mm512_cvtepi32_epi8(q1));
    }
}
