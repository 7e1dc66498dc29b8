// kernels/ref/rope_ref.c - rotary positions. Contract: kernels/kernels.h.
#include "kernels/tables.h"

#include <math.h>

static void rotate(float *a, float *b, float cosine, float sine)
{
    const float a0 = *a;
    const float b0 = *b;
    *a = fmaf(a0, cosine, -(b0 * sine));
    *b = fmaf(a0, sine, b0 * cosine);
}

void ps_rope_norm_ref(float *x, const float *table, uint32_t heads, uint32_t head_dim,
                      uint32_t rotary_dim)
{
    const uint32_t half = rotary_dim / 2;
    for (uint32_t h = 0; h < heads; h++, x += head_dim) {
        for (uint32_t i = 0; i < half; i++) {
            rotate(&x[2 * i], &x[2 * i + 1], table[i], table[half + i]);
        }
    }
}

void ps_rope_neox_ref(float *x, const float *table, uint32_t heads, uint32_t head_dim,
                      uint32_t rotary_dim)
{
    const uint32_t half = rotary_dim / 2;
    for (uint32_t h = 0; h < heads; h++, x += head_dim) {
        for (uint32_t i = 0; i < half; i++) {
            rotate(&x[i], &x[half + i], table[i], table[half + i]);
        }
    }
}
