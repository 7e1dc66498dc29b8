// kernels/ref/linear_float_ref.c - linears over f32 rows. Contract: kernels/kernels.h.
#include "kernels/half.h"
#include "kernels/tables.h"

#include <math.h>

static float weight(const void *group, ps_dtype dtype, size_t index)
{
    switch (dtype) {
    case PS_DTYPE_F32:
        return ((const float *)group)[index];
    case PS_DTYPE_F16:
        return ps_f16_to_f32(((const uint16_t *)group)[index]);
    default:
        return ps_bf16_to_f32(((const uint16_t *)group)[index]);
    }
}

static void linear(float *const *y, const void *w, size_t group_count, uint32_t inputs,
                   const void *const *x, uint32_t tokens, ps_dtype dtype)
{
    const uint64_t group_bytes = ps_packed_group_bytes(dtype, inputs);
    for (size_t o = 0; o < group_count * PS_GROUP_ROWS; o++) {
        const char *group = (const char *)w + o / PS_GROUP_ROWS * group_bytes;
        for (uint32_t t = 0; t < tokens; t++) {
            const float *row = x[t];
            float acc = 0.0f;
            for (size_t i = 0; i < inputs; i++) {
                acc = fmaf(weight(group, dtype, i * PS_GROUP_ROWS + o % PS_GROUP_ROWS), row[i],
                           acc);
            }
            y[t][o] = acc;
        }
    }
}

void ps_linear_f32_ref(float *const *y, const void *w, size_t group_count, uint32_t inputs,
                       const void *const *x, uint32_t tokens)
{
    linear(y, w, group_count, inputs, x, tokens, PS_DTYPE_F32);
}

void ps_linear_f16_ref(float *const *y, const void *w, size_t group_count, uint32_t inputs,
                       const void *const *x, uint32_t tokens)
{
    linear(y, w, group_count, inputs, x, tokens, PS_DTYPE_F16);
}

void ps_linear_bf16_ref(float *const *y, const void *w, size_t group_count, uint32_t inputs,
                        const void *const *x, uint32_t tokens)
{
    linear(y, w, group_count, inputs, x, tokens, PS_DTYPE_BF16);
}
