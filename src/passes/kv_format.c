// passes/kv_format.c - the number formats of keys and values.
#include "passes/passes.h"

static ps_status check_head(const ps_value *kv, ps_dtype dtype)
{
    const ps_dtype_info *format = ps_dtype_get(dtype);
    return kv->head_dim % format->block_columns == 0
               ? PS_OK
               : ps_fail(PS_INVALID,
                         "a KV cache in %s needs heads of a multiple of %u values; those of '%s' "
                         "have %u, F16 would be right",
                         format->name, format->block_columns, kv->name, kv->head_dim);
}

ps_status ps_pass_kv_format(ps_graph *graph, const ps_pass_options *options)
{
    const bool keep_k = options->k_dtype == PS_DTYPE_F32;
    const bool keep_v = options->v_dtype == PS_DTYPE_F32;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        ps_value *kv = &graph->values[i];
        if (kv->kind != PS_VALUE_KV) {
            continue;
        }
        kv->dtype = keep_k ? kv->dtype : options->k_dtype;
        kv->v_dtype = keep_v ? kv->v_dtype : options->v_dtype;
        PS_TRY(check_head(kv, kv->dtype));
        PS_TRY(check_head(kv, kv->v_dtype));
    }
    return PS_OK;
}
