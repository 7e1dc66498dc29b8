// kernels/avx2/linear_q8_0_avx2.c - Q8_0.
//
// Two products of 255 * 127 do not fit an i16, so the sign moves: |w| times the activation with the
// sign of w. |w| is at most 128 (the format does not exclude -128) and a pair at most 32,512.
#include "kernels/avx2/linear_quant_avx2.h"

INLINE void dots_q8_0(__m256i dot[][2], const uint8_t *weights, const uint8_t *scales,
                      const block_inputs *x, int tokens)
{
    set_zero(dot, tokens);
    UNROLL
    for (int g = 0; g < 8; g++) {
        __m256i w[2];
        __m256i size[2];
        UNROLL
        for (int half = 0; half < 2; half++) {
            const __m256i stored = load_bytes(weights + 64 * g + 32 * half);
            w[half] = _mm256_xor_si256(stored, _mm256_set1_epi8(-128));
            size[half] = _mm256_abs_epi8(w[half]);
        }
        UNROLL
        for (int t = 0; t < tokens; t++) {
            const __m256i q = four_columns(x->q[t] + 4 * g);
            UNROLL
            for (int half = 0; half < 2; half++) {
                const __m256i signed_q = _mm256_sign_epi8(q, w[half]);
                const __m256i pairs = _mm256_maddubs_epi16(size[half], signed_q);
                dot[t][half] = _mm256_add_epi32(dot[t][half], widen(pairs));
                pin(&dot[t][half]);
            }
        }
    }
}

LINEAR_QUANT(linear_q8_0, .block_bytes = 512, .unit_blocks = 1, .scale_bytes = 32,
             .open_unit = open_d, .dots = dots_q8_0)
