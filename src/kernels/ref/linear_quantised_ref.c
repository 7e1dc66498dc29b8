// kernels/ref/linear_quantised_ref.c - linears over q8 rows. Contract: kernels/kernels.h.
#include "kernels/packed_block.h"
#include "kernels/tables.h"

#include <math.h>

// One block of columns for one output and one token; `at` is its place in a tile of `columns`.
static float add_block(float acc, const ps_block_row *block, bool has_min, const void *tile,
                       uint32_t columns, size_t at)
{
    const int8_t *a = (const int8_t *)tile + at * PS_BLOCK_COLUMNS;
    int32_t dot[2] = {0, 0};
    for (uint32_t i = 0; i < PS_BLOCK_COLUMNS; i++) {
        dot[i / 16] += block->q[i] * a[i];
    }
    const int32_t sum = block->scale[0] * dot[0] + block->scale[1] * dot[1];
    acc = fmaf((float)sum, block->d * ps_q8_row_d(tile, columns)[at], acc);
    return has_min ? fmaf(block->m, ps_q8_row_ds(tile, columns)[at], acc) : acc;
}

static void linear(const ps_linear *args, ps_dtype dtype)
{
    const bool has_min = ps_dtype_has_min(dtype);
    const uint64_t group_bytes = ps_packed_group_bytes(dtype, args->inputs);
    for (size_t o = 0; o < args->group_count * PS_GROUP_ROWS; o++) {
        const char *group = (const char *)args->w + o / PS_GROUP_ROWS * group_bytes;
        for (uint32_t t = 0; t < args->tokens; t++) {
            args->y[t][o] = 0.0f;
        }
        for (uint32_t b = 0; b < args->inputs / PS_BLOCK_COLUMNS; b++) {
            const ps_block_row block = ps_block_row_get(dtype, group, b, o % PS_GROUP_ROWS);
            for (uint32_t t = 0; t < args->tokens; t++) {
                const uint32_t left = args->tokens - t / PS_TILE_TOKENS * PS_TILE_TOKENS;
                const uint32_t count = left < PS_TILE_TOKENS ? left : PS_TILE_TOKENS;
                args->y[t][o] = add_block(args->y[t][o], &block, has_min,
                                          args->x[t / PS_TILE_TOKENS], count * args->inputs,
                                          (size_t)b * count + t % PS_TILE_TOKENS);
            }
        }
    }
}

#define LINEAR(name, dtype)                                                                        \
    void ps_linear_##name##_ref(const ps_linear *args)                                             \
    {                                                                                              \
        linear(args, dtype);                                                                       \
    }

LINEAR(q4_0, PS_DTYPE_Q4_0)
LINEAR(q4_1, PS_DTYPE_Q4_1)
LINEAR(q5_0, PS_DTYPE_Q5_0)
LINEAR(q5_1, PS_DTYPE_Q5_1)
LINEAR(q8_0, PS_DTYPE_Q8_0)
LINEAR(q4_k, PS_DTYPE_Q4_K)
LINEAR(q5_k, PS_DTYPE_Q5_K)
LINEAR(q6_k, PS_DTYPE_Q6_K)
