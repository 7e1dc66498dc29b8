// fuzz-links: ps_plan
//
// Goal: no text whatever makes the parser of plan files read outside or fail without a message, and
// sets that it accepts, one a rank, hold each bucket once and print as a text that parses and
// prints as itself. What their plans may do is fuzz_plan's.
#include "fuzz/fuzz.h"
#include "plan/plan_file.h"

#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

// The sets of all ranks of a text, as far as they are accepted.
static ps_status parse_all(ps_str text, ps_arena *arena, ps_plan_set *sets[PS_PLAN_FILE_RANKS_MAX])
{
    uint32_t ranks = 1;
    ps_status status = PS_OK;
    for (uint32_t rank = 0; rank < ranks && status == PS_OK; rank++) {
        sets[rank] = NULL;
        status = ps_plan_set_parse(text, rank, arena, &sets[rank]);
        ps_assert((status == PS_OK) == (sets[rank] != NULL));
        ranks = status == PS_OK ? sets[0]->key.ranks : ranks;
    }
    return status;
}

static void print_all(ps_plan_set *const *sets, ps_buffer *out)
{
    for (uint32_t rank = 0; rank < sets[0]->key.ranks; rank++) {
        ps_assert(ps_plan_set_print(sets[rank], out) == PS_OK);
    }
}

static void print_and_parse(ps_plan_set *const *sets)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_plan_set *back[PS_PLAN_FILE_RANKS_MAX];
    ps_buffer first = {0};
    ps_buffer second = {0};
    print_all(sets, &first);
    ps_assert(parse_all((ps_str){first.data, first.length}, &arena, back) == PS_OK);
    print_all(back, &second);
    ps_assert(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    ps_assert(ps_plan_key_check(&back[0]->key, &sets[0]->key) == PS_OK);
    ps_buffer_deinit(&first);
    ps_buffer_deinit(&second);
    ps_arena_deinit(&arena);
}

static void check_set(const ps_plan_set *set, uint32_t rank)
{
    ps_assert(set->plan_count >= 1 && set->plan_count <= PS_PLAN_FILE_PLANS_MAX);
    ps_assert(set->rank == rank && rank < set->key.ranks && set->key.threads > 0);
    ps_assert(set->key.ranks <= PS_PLAN_FILE_RANKS_MAX);
    for (uint32_t i = 0; i < set->plan_count; i++) {
        const ps_plan *plan = set->plans[i];
        ps_assert(ps_plan_set_find(set, plan->rows_max, plan->logits_max, plan->context_max) ==
                  plan);
        ps_assert(plan->rank == rank && ps_plan_verify(plan) == PS_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_str text = {.data = (const char *)bytes, .length = size_bytes};
    ps_plan_set *sets[PS_PLAN_FILE_RANKS_MAX];
    if (parse_all(text, &arena, sets) == PS_OK) {
        for (uint32_t rank = 0; rank < sets[0]->key.ranks; rank++) {
            check_set(sets[rank], rank);
        }
        print_and_parse(sets);
    } else {
        ps_assert(ps_error_message()[0] != '\0');
    }
    ps_arena_deinit(&arena);
    return 0;
}
