// fuzz-links: ps_plan
//
// Goal: no text whatever makes the plan's parser, verify or printing read or write outside, and a
// plan that verifies prints as a text that verifies and prints as itself. Of such a plan, every
// worker's part of every value lies in the workspaces.
#include "fuzz/fuzz.h"
#include "plan/plan.h"

#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define WORKERS 3

static void print_and_parse(const ps_plan *plan)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_plan *back = NULL;
    ps_buffer first = {0};
    ps_buffer second = {0};
    ps_assert(ps_plan_print(plan, &first) == PS_OK);
    ps_assert(ps_plan_parse((ps_str){first.data, first.length}, &arena, &back) == PS_OK);
    ps_assert(ps_plan_print(back, &second) == PS_OK);
    ps_assert(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    ps_buffer_deinit(&first);
    ps_buffer_deinit(&second);
    ps_arena_deinit(&arena);
}

// What a runner computes addresses from, in 128 bits.
static void check_places(const ps_plan *plan)
{
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const ps_plan_value *value = &plan->values[i];
        if (value->is.kind != PS_VALUE_ACTIVATION) {
            continue;
        }
        const bool is_view = value->is.alias_of != PS_NO_VALUE;
        const ps_plan_value *base = is_view ? &plan->values[value->is.alias_of] : value;
        const uint64_t size = base->is_private ? plan->private_bytes : plan->shared_bytes;
        const unsigned __int128 end = base->offset_bytes +
                                      (unsigned __int128)ps_plan_rows(
                                          plan, &base->is, plan->rows_max, plan->logits_max) *
                                          base->row_bytes;
        ps_assert(end <= size);
        ps_assert(!is_view ||
                  (value->is.alias_column + (uint64_t)value->is.columns) * 4 <= base->row_bytes);
        for (uint32_t w = 0; w < WORKERS && value->part_unit != 0; w++) {
            uint32_t begin, last;
            ps_plan_columns_of(value, w, WORKERS, &begin, &last);
            ps_assert(begin <= last && last <= value->is.columns);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_str text = {.data = (const char *)bytes, .length = size_bytes};
    ps_plan *plan = NULL;
    if (ps_plan_parse(text, &arena, &plan) == PS_OK) {
        check_places(plan);
        print_and_parse(plan);
    } else {
        ps_assert(plan == NULL && ps_error_message()[0] != '\0');
    }
    ps_arena_deinit(&arena);
    return 0;
}
