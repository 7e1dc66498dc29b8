// base/ops.c - the table made from ops.def.
#include "base/ops.h"

#define W PS_OP_READS_WEIGHTS
#define V PS_OP_VECTOR
#define C PS_OP_COLLECTIVE
#define R PS_OP_REPLICABLE
#define K PS_OP_COLUMNWISE
static const ps_op_info INFOS[PS_OP_COUNT] = {
#define OP(NAME, text, inputs_min, inputs_max, outputs, flags, operands)                           \
    {text, inputs_min, inputs_max, outputs, flags, operands},
#include "base/ops.def"
#undef OP
};
#undef W
#undef V
#undef C
#undef R
#undef K

static const char *const SITES[PS_SITE_COUNT] = {
    "",           "attn.qkv",    "attn.o",   "mlp.gate_up", "mlp.down",
    "moe.router", "moe.gate_up", "moe.down", "kv",          "lm_head",
};

const ps_op_info *ps_op_get(ps_op op)
{
    ps_assert((unsigned)op < PS_OP_COUNT);
    return &INFOS[op];
}

const char *ps_site_name(ps_site site)
{
    ps_assert((unsigned)site < PS_SITE_COUNT);
    return SITES[site];
}

const char *ps_rows_name(ps_rows rows)
{
    static const char *const NAMES[PS_ROWS_COUNT] = {"T", "L", "O"};
    ps_assert((unsigned)rows < PS_ROWS_COUNT);
    return NAMES[rows];
}

const char *ps_window_name(ps_window window)
{
    static const char *const WINDOWS[] = {[PS_WINDOW_NONE] = "none",
                                          [PS_WINDOW_VECTOR] = "vector",
                                          [PS_WINDOW_COMM] = "comm",
                                          [PS_WINDOW_BARRIER] = "barrier",
                                          [PS_WINDOW_SIDE] = "side"};
    ps_assert((unsigned)window < PS_WINDOW_COUNT);
    return WINDOWS[window];
}

const char *ps_reason_name(ps_reason reason)
{
    static const char *const REASONS[] = {
        [PS_REASON_WHOLE] = "whole",
        [PS_REASON_PART_TIME] = "part_time",
        [PS_REASON_PART_CAPACITY] = "part_capacity",
        [PS_REASON_PART_RATIO] = "part_ratio",
        [PS_REASON_PART_CAP] = "part_cap",
        [PS_REASON_NO_TIME] = "no_time",
        [PS_REASON_NO_CAPACITY] = "no_capacity",
        [PS_REASON_AFTER_MISFIT] = "after_misfit",
        [PS_REASON_COMPUTE_BOUND] = "compute_bound",
        [PS_REASON_RATIO_ZERO] = "ratio_zero",
        [PS_REASON_TOKENS] = "tokens",
        [PS_REASON_NO_WINDOW] = "no_window",
        [PS_REASON_IN_CACHE] = "in_cache",
    };
    ps_assert((unsigned)reason < PS_REASON_COUNT);
    return REASONS[reason];
}
