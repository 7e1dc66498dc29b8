// kernels/avx2/linear_q5_avx2.c - Q5_0, Q5_1 and Q5_K, which differ only in scales and zero point.
#include "kernels/avx2/linear_quant_avx2.h"

INLINE void dots_q5(__m256i *dot, const uint8_t *weights, const uint8_t *scales,
                    const block_inputs *x, int tokens)
{
    const __m256i fifth = load_bytes(weights + 256);
    UNROLL
    for (int t = 0; t < tokens; t++) {
        dot[t] = _mm256_setzero_si256();
    }
    UNROLL
    for (int g = 0; g < 4; g += 2) {
        __m256i pairs[TILE_TOKENS];
        UNROLL
        for (int t = 0; t < tokens; t++) {
            pairs[t] = _mm256_setzero_si256();
        }
        UNROLL
        for (int i = g; i < g + 2; i++) {
            __m256i w[2];
            unpack_nibbles(w, weights, i);
            w[0] = _mm256_or_si256(w[0], move_bits(fifth, i, 4, 0x10));
            w[1] = _mm256_or_si256(w[1], move_bits(fifth, 4 + i, 4, 0x10));
            UNROLL
            for (int t = 0; t < tokens; t++) {
                const __m256i a = _mm256_maddubs_epi16(w[0], four_columns(x->q[t] + 4 * i));
                const __m256i b = _mm256_maddubs_epi16(w[1], four_columns(x->q[t] + 16 + 4 * i));
                pairs[t] = _mm256_add_epi16(pairs[t], _mm256_add_epi16(a, b));
            }
        }
        UNROLL
        for (int t = 0; t < tokens; t++) {
            dot[t] = _mm256_add_epi32(dot[t], widen(pairs[t]));
        }
    }
}

INLINE void dots_q5_0(__m256i *dot, const uint8_t *weights, const uint8_t *scales,
                      const block_inputs *x, int tokens)
{
    dots_q5(dot, weights, scales, x, tokens);
    subtract_zero_point(dot, 16, x, tokens);
}

LINEAR_QUANT(linear_q5_0, .block_bytes = 320, .unit_blocks = 1, .scale_bytes = 32,
             .open_unit = open_d, .dots = dots_q5_0)
LINEAR_QUANT(linear_q5_1, .block_bytes = 320, .unit_blocks = 1, .scale_bytes = 64, .has_min = true,
             .open_unit = open_d_m, .dots = dots_q5)
LINEAR_QUANT(linear_q5_k, .block_bytes = 320, .unit_blocks = 8, .scale_bytes = 256, .has_min = true,
             .open_unit = open_k, .dots = dots_q5)
