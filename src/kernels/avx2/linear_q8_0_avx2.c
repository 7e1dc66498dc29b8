// kernels/avx2/linear_q8_0_avx2.c - Q8_0.
//
// Two products of 255 * 127 do not fit an i16, so the sign moves: |w| times the activation with the
// sign of w. |w| is at most 128 (the format does not exclude -128) and a pair at most 32,512.
#include "kernels/avx2/linear_quant_avx2.h"

INLINE void dots_q8_0(__m256i *dot, const uint8_t *weights, const uint8_t *scales,
                      const block_inputs *x, int tokens)
{
    UNROLL
    for (int t = 0; t < tokens; t++) {
        dot[t] = _mm256_setzero_si256();
    }
    UNROLL
    for (int g = 0; g < 8; g++) {
        const __m256i w = _mm256_xor_si256(load_bytes(weights + 64 * g), _mm256_set1_epi8(-128));
        const __m256i size = _mm256_abs_epi8(w);
        UNROLL
        for (int t = 0; t < tokens; t++) {
            const __m256i q = _mm256_sign_epi8(four_columns(x->q[t] + 4 * g), w);
            dot[t] = _mm256_add_epi32(dot[t], widen(_mm256_maddubs_epi16(size, q)));
        }
    }
}

LINEAR_QUANT(linear_q8_0, .block_bytes = 512, .unit_blocks = 1, .scale_bytes = 32,
             .open_unit = open_d, .dots = dots_q8_0)
