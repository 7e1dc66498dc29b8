// base/layout.c - sizes of the packed layout.
#include "base/layout.h"

static const ps_packed_format FORMATS[PS_DTYPE_COUNT] = {
    [PS_DTYPE_F32] = {2048, 0, 0},     [PS_DTYPE_F16] = {1024, 0, 0},
    [PS_DTYPE_BF16] = {1024, 0, 0},    [PS_DTYPE_Q4_0] = {256, 32, 32},
    [PS_DTYPE_Q4_1] = {256, 32, 64},   [PS_DTYPE_Q5_0] = {320, 32, 32},
    [PS_DTYPE_Q5_1] = {320, 32, 64},   [PS_DTYPE_Q8_0] = {512, 32, 32},
    [PS_DTYPE_Q4_K] = {256, 256, 256}, [PS_DTYPE_Q5_K] = {320, 256, 256},
    [PS_DTYPE_Q6_K] = {384, 256, 288},
};

const ps_packed_format *ps_packed_format_get(ps_dtype dtype)
{
    ps_assert((unsigned)dtype < PS_DTYPE_COUNT && FORMATS[dtype].block_bytes > 0);
    return &FORMATS[dtype];
}

uint64_t ps_packed_group_bytes(ps_dtype dtype, uint64_t inputs)
{
    // Every format is as large as in the file, so the file's own row size is the measure.
    return PS_GROUP_ROWS * ps_dtype_row_bytes(dtype, inputs);
}

uint64_t ps_packed_bytes(ps_dtype dtype, uint64_t outputs, uint64_t inputs)
{
    return ps_divide_up(outputs, PS_GROUP_ROWS) * ps_packed_group_bytes(dtype, inputs);
}
