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

static void linear(const ps_linear *args, ps_dtype dtype)
{
    const uint64_t group_bytes = ps_packed_group_bytes(dtype, args->inputs);
    for (size_t o = 0; o < args->group_count * PS_GROUP_ROWS; o++) {
        const char *group = (const char *)args->w + o / PS_GROUP_ROWS * group_bytes;
        for (uint32_t t = 0; t < args->tokens; t++) {
            const float *row = args->x[t];
            float acc = 0.0f;
            for (size_t i = 0; i < args->inputs; i++) {
                acc = fmaf(weight(group, dtype, i * PS_GROUP_ROWS + o % PS_GROUP_ROWS), row[i],
                           acc);
            }
            args->y[t][o] = acc;
        }
    }
}

void ps_linear_f32_ref(const ps_linear *args)
{
    linear(args, PS_DTYPE_F32);
}

void ps_linear_f16_ref(const ps_linear *args)
{
    linear(args, PS_DTYPE_F16);
}

void ps_linear_bf16_ref(const ps_linear *args)
{
    linear(args, PS_DTYPE_BF16);
}
