// kernels/avx2/linear_q5_avx2.c - Q5_0, Q5_1 and Q5_K, which differ only in scales and zero point.
#include "kernels/avx2/linear_quant_avx2.h"

// Columns 4g and 16 + 4g of eight rows.
INLINE void unpack_q5(__m256i out[2], const uint8_t *weights, int g)
{
    const __m256i fifth = load_bytes(weights);
    unpack_nibbles(out, weights + 64, g);
    out[0] = _mm256_or_si256(out[0], move_bits(fifth, g, 4, 0x10));
    out[1] = _mm256_or_si256(out[1], move_bits(fifth, 4 + g, 4, 0x10));
}

INLINE void dots_q5(__m256i dot[][2], const uint8_t *weights, const uint8_t *scales,
                    const block_inputs *x, int tokens)
{
    __m256i pairs[TILE_TOKENS][2];
    set_zero(dot, tokens);
    set_zero(pairs, tokens);
    UNROLL
    for (int g = 0; g < 4; g++) {
        __m256i w[2][2];
        unpack_q5(w[0], weights, g);
        unpack_q5(w[1], weights + 32, g);
        UNROLL
        for (int t = 0; t < tokens; t++) {
            const __m256i low = four_columns(x->q[t] + 4 * g);
            const __m256i high = four_columns(x->q[t] + 16 + 4 * g);
            UNROLL
            for (int half = 0; half < 2; half++) {
                add_pairs(&pairs[t][half], w[half][0], low);
                add_pairs(&pairs[t][half], w[half][1], high);
                if (g % 2 == 1) {
                    dot[t][half] = _mm256_add_epi32(dot[t][half], widen(pairs[t][half]));
                    pairs[t][half] = _mm256_setzero_si256();
                }
            }
        }
    }
}

INLINE void dots_q5_0(__m256i dot[][2], const uint8_t *weights, const uint8_t *scales,
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
