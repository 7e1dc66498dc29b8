// fuzz-links: ps_plan
//
// Goal: no text whatever makes the parser of plan files read outside or fail without a message, and
// a set that it accepts holds each bucket once and prints as a text that parses and prints as
// itself. What its plans may do is fuzz_plan's.
#include "fuzz/fuzz.h"
#include "plan/plan_file.h"

#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

static void print_and_parse(const ps_plan_set *set)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_plan_set *back = NULL;
    ps_buffer first = {0};
    ps_buffer second = {0};
    ps_assert(ps_plan_set_print(set, &first) == PS_OK);
    ps_assert(ps_plan_set_parse((ps_str){first.data, first.length}, &arena, &back) == PS_OK);
    ps_assert(ps_plan_set_print(back, &second) == PS_OK);
    ps_assert(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    ps_assert(ps_plan_key_check(&back->key, &set->key) == PS_OK);
    ps_buffer_deinit(&first);
    ps_buffer_deinit(&second);
    ps_arena_deinit(&arena);
}

static void check_set(const ps_plan_set *set)
{
    ps_assert(set->plan_count >= 1 && set->plan_count <= PS_PLAN_FILE_PLANS_MAX);
    ps_assert(set->key.rank < set->key.ranks && set->key.threads > 0);
    for (uint32_t i = 0; i < set->plan_count; i++) {
        const ps_plan *plan = set->plans[i];
        ps_assert(ps_plan_set_find(set, plan->rows_max, plan->logits_max, plan->context_max) ==
                  plan);
        ps_assert(ps_plan_verify(plan) == PS_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_str text = {.data = (const char *)bytes, .length = size_bytes};
    ps_plan_set *set = NULL;
    if (ps_plan_set_parse(text, &arena, &set) == PS_OK) {
        check_set(set);
        print_and_parse(set);
    } else {
        ps_assert(set == NULL && ps_error_message()[0] != '\0');
    }
    ps_arena_deinit(&arena);
    return 0;
}
