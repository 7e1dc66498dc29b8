// kernels/avx2/kv_store_avx2.c - one token into a KV block. Contract: kernels/kernels.h.
#include "kernels/half.h"
#include "kernels/tables.h"

#include <immintrin.h>

#define LANES 8
#define INFINITY_BITS 0x7f800000u // and above: infinity, NaN
#define HALF_NAN 0x7e00u

static inline __m128i halves(const float *from)
{
    return _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT);
}

void ps_kv_store_k_f16_avx2(void *part, const float *x, uint32_t head_dim, uint32_t slot)
{
    uint16_t *keys = (uint16_t *)part + slot;
    for (uint32_t d = 0; d < head_dim; d += LANES) {
        uint16_t column[LANES];
        _mm_storeu_si128((__m128i *)(void *)column, halves(x + d));
        for (uint32_t i = 0; i < LANES; i++) {
            keys[(size_t)(d + i) * PS_KV_BLOCK_TOKENS] = column[i];
        }
    }
}

void ps_kv_store_v_f16_avx2(void *part, const float *x, uint32_t head_dim, uint32_t slot)
{
    uint16_t *values = (uint16_t *)part + (size_t)slot * head_dim;
    for (uint32_t d = 0; d < head_dim; d += LANES) {
        _mm_storeu_si128((__m128i *)(void *)(values + d), halves(x + d));
    }
}

// The greatest |x| of 32 values, as bits; as an integer, so that NaN is above everything.
static inline uint32_t amax_bits_of(const __m256 *x)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i max = _mm256_setzero_si256();
    for (int v = 0; v < 4; v++) {
        max = _mm256_max_epi32(max, _mm256_and_si256(_mm256_castps_si256(x[v]), magnitude));
    }
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

// 32 values as quants in order, and their scale, an f16.
static inline __m256i quantise(const float *from, uint16_t *out_scale)
{
    const __m256 x[4] = {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8),
                         _mm256_loadu_ps(from + 16), _mm256_loadu_ps(from + 24)};
    const uint32_t amax_bits = amax_bits_of(x);
    if (amax_bits >= INFINITY_BITS) {
        *out_scale = HALF_NAN;
        return _mm256_setzero_si256();
    }
    *out_scale = _cvtss_sh(ps_f32_from_bits(amax_bits) / 127.0f, _MM_FROUND_TO_NEAREST_INT);
    const float d = _cvtsh_ss(*out_scale);
    if (!(d > 0.0f && d < __builtin_inff())) {
        return _mm256_setzero_si256();
    }
    const __m256 inverse = _mm256_set1_ps(1.0f / d);
    __m256i q[4];
    for (int v = 0; v < 4; v++) {
        q[v] = _mm256_cvtps_epi32(_mm256_mul_ps(x[v], inverse));
    }
    // Packing saturates at 127 and -128. It works within halves of a register and leaves groups of
    // four out of order.
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]),
                                              _mm256_packs_epi32(q[2], q[3]));
    const __m256i clamped = _mm256_max_epi8(packed, _mm256_set1_epi8(-127));
    return _mm256_permutevar8x32_epi32(clamped, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

void ps_kv_store_k_q8_0_avx2(void *part, const float *x, uint32_t head_dim, uint32_t slot)
{
    char *group = part;
    for (uint32_t first = 0; first < head_dim; first += PS_BLOCK_COLUMNS) {
        uint16_t scale;
        int8_t column[PS_BLOCK_COLUMNS];
        _mm256_storeu_si256((__m256i *)(void *)column, quantise(x + first, &scale));
        memcpy(group + slot * sizeof scale, &scale, sizeof scale);
        int8_t *q = (int8_t *)group + PS_KV_BLOCK_TOKENS * sizeof scale + slot;
        for (uint32_t i = 0; i < PS_BLOCK_COLUMNS; i++) {
            q[i * PS_KV_BLOCK_TOKENS] = column[i];
        }
        group += PS_KV_K_GROUP_BYTES;
    }
}

void ps_kv_store_v_q8_0_avx2(void *part, const float *x, uint32_t head_dim, uint32_t slot)
{
    const uint32_t groups = head_dim / PS_BLOCK_COLUMNS;
    uint16_t *scales = (uint16_t *)part + (size_t)slot * groups;
    int8_t *q = (int8_t *)part + PS_KV_BLOCK_TOKENS * groups * sizeof *scales +
                (size_t)slot * head_dim;
    for (uint32_t g = 0; g < groups; g++) {
        const __m256i quants = quantise(x + (size_t)g * PS_BLOCK_COLUMNS, &scales[g]);
        _mm256_storeu_si256((__m256i *)(void *)(q + (size_t)g * PS_BLOCK_COLUMNS), quants);
    }
}
