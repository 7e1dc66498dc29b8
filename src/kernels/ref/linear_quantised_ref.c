// kernels/ref/linear_quantised_ref.c - linears over q8 rows. Contract: kernels/kernels.h.
#include "kernels/packed_block.h"
#include "kernels/tables.h"

#include <math.h>

// One block of columns for one output and one token.
static float add_block(float acc, const ps_block_row *block, bool has_min, const void *x,
                       uint32_t inputs, uint32_t b)
{
    const int8_t *a = (const int8_t *)x + (size_t)b * PS_BLOCK_COLUMNS;
    int32_t dot[2] = {0, 0};
    for (uint32_t i = 0; i < PS_BLOCK_COLUMNS; i++) {
        dot[i / 16] += block->q[i] * a[i];
    }
    const int32_t sum = block->scale[0] * dot[0] + block->scale[1] * dot[1];
    acc = fmaf((float)sum, block->d * ps_q8_row_d(x, inputs)[b], acc);
    return has_min ? fmaf(block->m, ps_q8_row_ds(x, inputs)[b], acc) : acc;
}

static void linear(float *const *y, const void *w, size_t group_count, uint32_t inputs,
                   const void *const *x, uint32_t tokens, ps_dtype dtype)
{
    const bool has_min = ps_dtype_has_min(dtype);
    const uint64_t group_bytes = ps_packed_group_bytes(dtype, inputs);
    for (size_t o = 0; o < group_count * PS_GROUP_ROWS; o++) {
        const char *group = (const char *)w + o / PS_GROUP_ROWS * group_bytes;
        for (uint32_t t = 0; t < tokens; t++) {
            y[t][o] = 0.0f;
        }
        for (uint32_t b = 0; b < inputs / PS_BLOCK_COLUMNS; b++) {
            const ps_block_row block = ps_block_row_get(dtype, group, b, o % PS_GROUP_ROWS);
            for (uint32_t t = 0; t < tokens; t++) {
                y[t][o] = add_block(y[t][o], &block, has_min, x[t], inputs, b);
            }
        }
    }
}

#define LINEAR(name, dtype)                                                                        \
    void ps_linear_##name##_ref(float *const *y, const void *w, size_t group_count,                \
                                uint32_t inputs, const void *const *x, uint32_t tokens)            \
    {                                                                                              \
        linear(y, w, group_count, inputs, x, tokens, dtype);                                       \
    }

LINEAR(q4_0, PS_DTYPE_Q4_0)
LINEAR(q4_1, PS_DTYPE_Q4_1)
LINEAR(q5_0, PS_DTYPE_Q5_0)
LINEAR(q5_1, PS_DTYPE_Q5_1)
LINEAR(q8_0, PS_DTYPE_Q8_0)
LINEAR(q4_k, PS_DTYPE_Q4_K)
LINEAR(q5_k, PS_DTYPE_Q5_K)
LINEAR(q6_k, PS_DTYPE_Q6_K)
