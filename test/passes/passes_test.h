// test/passes/passes_test.h - what tests of passes share: a machine with round numbers, and
// options.
#ifndef PS_TEST_PASSES_TEST_H
#define PS_TEST_PASSES_TEST_H

#include "passes/passes.h"

static const ps_machine PS_TEST_MACHINE = {.name = "round numbers",
                                           .threads = 4,
                                           .l2_bytes = 1 << 20,
                                           .llc_bytes = 32 << 20,
                                           .read_gbs = 40,
                                           .cache_read_gbs = 400,
                                           .linear_share = 1,
                                           .int8_gops = 1000,
                                           .f32_gops = 200,
                                           .barrier_ns = 500,
                                           .fill_gbs = 20,
                                           .comm_ns = 10000,
                                           .comm_gbs = 2};

// The buckets that the engine makes plans for, in small: decode, and prefill.
static const ps_pass_options PS_TEST_DECODE = {
    .rows_max = 8, .logits_max = 8, .context_max = 1000, .machine = &PS_TEST_MACHINE};
static const ps_pass_options PS_TEST_PREFILL = {
    .rows_max = 512, .logits_max = 8, .context_max = 1000, .machine = &PS_TEST_MACHINE};

// The same ratio for all linears, in steps of any number of rows.
static inline ps_prefetch_ratios ps_test_ratios(double ratio)
{
    ps_prefetch_ratios ratios = {0};
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        ratios.ratio[i] = ratio;
    }
    for (uint32_t m = 0; m < PS_MODULE_COUNT; m++) {
        ratios.max_tokens[m] = UINT32_MAX;
    }
    return ratios;
}

// "gate" is all of it, "gate:100" so many bytes, "gate+50" what stands behind the first 50; a word
// in parentheses is the reason. Of what is declined the bytes are left out.
static inline ps_status ps_test_print_prefetch(const char *name, const ps_op_attributes *a,
                                               ps_buffer *line)
{
    PS_TRY(ps_buffer_printf(line, "%s", name));
    if (a->skip > 0) {
        PS_TRY(ps_buffer_printf(line, "+%u", a->skip));
    }
    if (a->bytes > 0 && a->reason < PS_REASON_DECLINED) {
        PS_TRY(ps_buffer_printf(line, ":%u", a->bytes));
    }
    return a->reason == PS_REASON_WHOLE
               ? PS_OK
               : ps_buffer_printf(line, "(%s)", ps_reason_name((ps_reason)a->reason));
}

#endif
