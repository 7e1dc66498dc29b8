// base/dtype.c - the table made from dtype.def.
#include "base/dtype.h"

static const ps_dtype_info INFOS[PS_DTYPE_COUNT] = {
#define X(NAME, text, id, columns, bytes) {text, id, columns, bytes},
#include "base/dtype.def"
#undef X
};

const ps_dtype_info *ps_dtype_get(ps_dtype dtype)
{
    ps_assert((unsigned)dtype < PS_DTYPE_COUNT);
    return &INFOS[dtype];
}

ps_dtype ps_dtype_by_gguf_id(uint32_t gguf_id)
{
    for (unsigned i = 0; i < PS_DTYPE_COUNT; i++) {
        if (INFOS[i].gguf_id >= 0 && (uint32_t)INFOS[i].gguf_id == gguf_id) {
            return (ps_dtype)i;
        }
    }
    return PS_DTYPE_COUNT;
}

bool ps_dtype_is_planned_only(ps_dtype dtype)
{
    return dtype == PS_DTYPE_I8 || dtype == PS_DTYPE_I4;
}

bool ps_dtype_is_quantised(ps_dtype dtype)
{
    return ps_dtype_get(dtype)->block_columns > 1 && dtype != PS_DTYPE_Q8_ROW;
}

ps_dtype ps_dtype_of_rows(ps_dtype weight)
{
    return ps_dtype_is_quantised(weight) ? PS_DTYPE_Q8_ROW : PS_DTYPE_F32;
}

uint64_t ps_dtype_row_bytes(ps_dtype dtype, uint64_t columns)
{
    const ps_dtype_info *info = ps_dtype_get(dtype);
    ps_assert(columns % info->block_columns == 0);
    return columns / info->block_columns * info->block_bytes;
}
