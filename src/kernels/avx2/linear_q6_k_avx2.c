// kernels/avx2/linear_q6_k_avx2.c - Q6_K: the scales of sub-blocks are integers and join the dot.
#include "kernels/avx2/linear_quant_avx2.h"

INLINE void open_q6_k(unit_scales *unit, const uint8_t *scales)
{
    open_d(unit, scales);
    UNROLL
    for (int b = 1; b < UNIT_BLOCKS_MAX; b++) {
        memcpy(unit->d[b], unit->d[0], sizeof unit->d[0]);
    }
}

// Eight rows' scales of a sub-block as i16, each twice, to multiply pairs in place of ones.
INLINE __m256i twice_i16(const uint8_t *scales)
{
    int64_t eight;
    memcpy(&eight, scales, sizeof eight);
    const __m256i lanes = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(eight));
    const __m256i low_halves = _mm256_setr_epi64x(0x0504050401000100, 0x0d0c0d0c09080908,
                                                  0x0504050401000100, 0x0d0c0d0c09080908);
    return _mm256_shuffle_epi8(lanes, low_halves);
}

INLINE void dots_q6_k(__m256i *dot, const uint8_t *weights, const uint8_t *scales,
                      const block_inputs *x, int tokens)
{
    const __m256i factor[2] = {twice_i16(scales + 32), twice_i16(scales + 32 + PS_GROUP_ROWS)};
    const __m256i top[2] = {load_bytes(weights + 256), load_bytes(weights + 320)};

    // The weights carry + 32; both sub-blocks' corrections are one madd.
    const __m256i factors = _mm256_blend_epi16(factor[0], factor[1], 0xaa);
    UNROLL
    for (int t = 0; t < tokens; t++) {
        const __m256i sums = _mm256_madd_epi16(factors, both_sums(x->sum[t]));
        dot[t] = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(sums, 5));
    }
    UNROLL
    for (int g = 0; g < 4; g += 2) {
        __m256i w[2][2];
        UNROLL
        for (int i = 0; i < 2; i++) {
            unpack_nibbles(w[i], weights, g + i);
            UNROLL
            for (int h = 0; h < 2; h++) {
                w[i][h] = _mm256_or_si256(w[i][h], move_bits(top[h], 2 * (g + i), 4, 0x30));
            }
        }
        UNROLL
        for (int t = 0; t < tokens; t++) {
            UNROLL
            for (int h = 0; h < 2; h++) {
                const int8_t *q = x->q[t] + 16 * h + 4 * g;
                const __m256i a = _mm256_maddubs_epi16(w[0][h], four_columns(q));
                const __m256i b = _mm256_maddubs_epi16(w[1][h], four_columns(q + 4));
                const __m256i pairs = _mm256_add_epi16(a, b);
                dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(pairs, factor[h]));
            }
        }
    }
}

LINEAR_QUANT(linear_q6_k, .block_bytes = 384, .unit_blocks = 8, .scale_bytes = 288,
             .open_unit = open_q6_k, .dots = dots_q6_k)
