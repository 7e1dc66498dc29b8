// kernels/avx2/linear_q4_avx2.c - Q4_0, Q4_1 and Q4_K, which differ only in scales and zero point.
#include "kernels/avx2/linear_quant_avx2.h"

INLINE void dots_q4(__m256i dot[][2], const uint8_t *weights, const uint8_t *scales,
                    const block_inputs *x, int tokens)
{
    __m256i pairs[TILE_TOKENS][2];
    set_zero(pairs, tokens);
    UNROLL
    for (int g = 0; g < 4; g++) {
        __m256i w[2][2];
        unpack_nibbles(w[0], weights, g);
        unpack_nibbles(w[1], weights + 32, g);
        UNROLL
        for (int t = 0; t < tokens; t++) {
            const __m256i low = four_columns(x->q[t] + 4 * g);
            const __m256i high = four_columns(x->q[t] + 16 + 4 * g);
            UNROLL
            for (int half = 0; half < 2; half++) {
                add_pairs(&pairs[t][half], w[half][0], low);
                add_pairs(&pairs[t][half], w[half][1], high);
            }
        }
    }
    UNROLL
    for (int t = 0; t < tokens; t++) {
        dot[t][0] = widen(pairs[t][0]);
        dot[t][1] = widen(pairs[t][1]);
    }
}

INLINE void dots_q4_0(__m256i dot[][2], const uint8_t *weights, const uint8_t *scales,
                      const block_inputs *x, int tokens)
{
    dots_q4(dot, weights, scales, x, tokens);
    subtract_zero_point(dot, 8, x, tokens);
}

LINEAR_QUANT(linear_q4_0, .block_bytes = 256, .unit_blocks = 1, .scale_bytes = 32,
             .open_unit = open_d, .dots = dots_q4_0)
LINEAR_QUANT(linear_q4_1, .block_bytes = 256, .unit_blocks = 1, .scale_bytes = 64, .has_min = true,
             .open_unit = open_d_m, .dots = dots_q4)
LINEAR_QUANT(linear_q4_k, .block_bytes = 256, .unit_blocks = 8, .scale_bytes = 256, .has_min = true,
             .open_unit = open_k, .dots = dots_q4)
