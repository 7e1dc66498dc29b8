// kernels/avx2/rope_avx2.c - rotary positions. Contract: kernels/kernels.h.
#include "kernels/tables.h"

#include <immintrin.h>

static inline void rotate(float *a, float *b, float cosine, float sine)
{
    const float a0 = *a;
    const float b0 = *b;
    *a = __builtin_fmaf(a0, cosine, -(b0 * sine));
    *b = __builtin_fmaf(a0, sine, b0 * cosine);
}

// Four pairs (2i, 2i+1): even lanes become a * cos - b * sin, odd ones a * sin + b * cos.
static inline __m256 rotate_pairs(__m256 x, __m128 cosine, __m128 sine)
{
    const __m256 direct = _mm256_set_m128(_mm_unpackhi_ps(cosine, sine),
                                          _mm_unpacklo_ps(cosine, sine));
    const __m256 crossed = _mm256_permute_ps(direct, 0xb1);
    const __m256 b = _mm256_mul_ps(_mm256_movehdup_ps(x), crossed);
    return _mm256_fmaddsub_ps(_mm256_moveldup_ps(x), direct, b);
}

void ps_rope_norm_avx2(float *x, const float *table, uint32_t heads, uint32_t head_dim,
                       uint32_t rotary_dim)
{
    const uint32_t half = rotary_dim / 2;
    const float *sine = table + half;
    for (uint32_t h = 0; h < heads; h++, x += head_dim) {
        uint32_t i = 0;
        for (; half - i >= 4; i += 4) {
            const __m256 pairs = _mm256_loadu_ps(x + 2 * i);
            _mm256_storeu_ps(x + 2 * i,
                             rotate_pairs(pairs, _mm_loadu_ps(table + i), _mm_loadu_ps(sine + i)));
        }
        for (; i < half; i++) {
            rotate(&x[2 * i], &x[2 * i + 1], table[i], sine[i]);
        }
    }
}

void ps_rope_neox_avx2(float *x, const float *table, uint32_t heads, uint32_t head_dim,
                       uint32_t rotary_dim)
{
    const uint32_t half = rotary_dim / 2;
    const float *sine = table + half;
    for (uint32_t h = 0; h < heads; h++, x += head_dim) {
        uint32_t i = 0;
        for (; half - i >= 8; i += 8) {
            const __m256 a = _mm256_loadu_ps(x + i);
            const __m256 b = _mm256_loadu_ps(x + half + i);
            const __m256 c = _mm256_loadu_ps(table + i);
            const __m256 s = _mm256_loadu_ps(sine + i);
            _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
            _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
        }
        for (; i < half; i++) {
            rotate(&x[i], &x[half + i], table[i], sine[i]);
        }
    }
}
