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

// Columns 16h + 4g of eight rows.
INLINE __m256i unpack_q6(const uint8_t *weights, int g, int h)
{
    const __m256i both = load_bytes(weights + 128 + 64 * g);
    const __m256i low = _mm256_and_si256(h == 0 ? both : _mm256_srli_epi16(both, 4),
                                         _mm256_set1_epi8(15));
    return _mm256_or_si256(low, move_bits(load_bytes(weights + 64 * h), 2 * g, 4, 0x30));
}

INLINE void dots_q6_k(__m256i dot[][2], const uint8_t *weights, const uint8_t *scales,
                      const block_inputs *x, int tokens)
{
    // The weights carry + 32; the corrections of both sub-blocks are one madd.
    __m256i factor[2][2];
    UNROLL
    for (int half = 0; half < 2; half++) {
        factor[0][half] = twice_i16(scales + 32 + 8 * half);
        factor[1][half] = twice_i16(scales + 48 + 8 * half);
        const __m256i factors = _mm256_blend_epi16(factor[0][half], factor[1][half], 0xaa);
        UNROLL
        for (int t = 0; t < tokens; t++) {
            const __m256i sums = _mm256_madd_epi16(factors, both_sums(x->sum[t]));
            dot[t][half] = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(sums, 5));
        }
    }
    UNROLL
    for (int h = 0; h < 2; h++) {
        UNROLL
        for (int g = 0; g < 4; g += 2) {
            const __m256i w[2][2] = {
                {unpack_q6(weights, g, h), unpack_q6(weights, g + 1, h)},
                {unpack_q6(weights + 32, g, h), unpack_q6(weights + 32, g + 1, h)}};
            UNROLL
            for (int t = 0; t < tokens; t++) {
                const __m256i first = four_columns(x->q[t] + 16 * h + 4 * g);
                const __m256i second = four_columns(x->q[t] + 16 * h + 4 * g + 4);
                UNROLL
                for (int half = 0; half < 2; half++) {
                    __m256i pairs = _mm256_maddubs_epi16(w[half][0], first);
                    add_pairs(&pairs, w[half][1], second);
                    dot[t][half] = _mm256_add_epi32(dot[t][half],
                                                    _mm256_madd_epi16(pairs, factor[h][half]));
                    pin(&dot[t][half]);
                }
            }
        }
    }
}

LINEAR_QUANT(linear_q6_k, .block_bytes = 384, .unit_blocks = 8, .scale_bytes = 288,
             .open_unit = open_q6_k, .dots = dots_q6_k)
