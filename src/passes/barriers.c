// passes/barriers.c - what workers that come early to a barrier may move until the last one comes.
//
// It goes over the plan and not over the graph, because scheduling puts the barriers. A barrier
// that joins a collective is left to prefetch.c: all workers wait there, and for longer.
//
// How long an early worker will wait nobody knows; it cannot be longer than what is done between
// the barrier before and this one. So what is planned here is the most that can be of use, in the
// order of use, and the wait ends it.
#include "passes/prefetch_internal.h"

typedef struct filling {
    const ps_plan *plan; // with its steps as they were
    const ps_pass_options *options;
    ps_plan_step *steps; // that take their place
    uint32_t step_count;
    uint64_t *ahead; // [values] bytes that earlier waits move, and that nobody has read since
} filling;

static bool is_collective(const ps_plan_step *step)
{
    return (ps_op_get(step->op)->flags & PS_OP_COLLECTIVE) != 0;
}

// What stands from the barrier up to the next wait: [begin, result). Behind a collective its own
// prefetches come; a linear that is reduced as it goes reads its weight before it waits.
static uint32_t end_of_segment(const ps_plan *plan, uint32_t begin)
{
    uint32_t i = begin;
    do {
        if (is_collective(&plan->steps[i])) {
            return plan->steps[i].op == PS_OP_LINEAR_ALL_REDUCE ? i + 1 : i;
        }
        i++;
    } while (i < plan->step_count && !plan->steps[i].barrier);
    return i;
}

static void fill_with(filling *f, ps_prefetch_budget *budget, const ps_plan_step *reader,
                      uint32_t index)
{
    const ps_prefetch_operand operand = ps_prefetch_operand_of(f->plan, reader, index);
    const uint32_t id = reader->inputs[index];
    const bool is_kv = operand.value->kind == PS_VALUE_KV;
    const uint64_t whole = ps_prefetch_operand_bytes(f->options, &operand);
    const uint64_t skip = f->ahead[id];
    if (whole <= skip || (is_kv && skip > 0)) {
        return; // nothing to move, or it has been moved
    }
    uint64_t bytes = whole - skip;
    const ps_reason reason = ps_prefetch_is_bound_by_memory(f->options, &operand, bytes)
                                 ? ps_prefetch_take_part(budget, is_kv, &bytes)
                                 : PS_REASON_COMPUTE_BOUND;
    f->ahead[id] += reason < PS_REASON_DECLINED ? bytes : 0;
    f->steps[f->step_count++] = ps_prefetch_step(reader, index, bytes, skip, reason,
                                                 PS_WINDOW_BARRIER);
}

// work_ns: of the steps from the barrier before to this one.
static void fill_barrier(filling *f, uint32_t barrier, uint64_t work_ns)
{
    const ps_machine *machine = f->options->machine;
    const uint32_t end = end_of_segment(f->plan, barrier);
    uint64_t room = ps_prefetch_cache_bytes(machine);
    for (uint32_t i = barrier; i < end; i++) {
        for (uint32_t j = 0; j < f->plan->steps[i].input_count; j++) {
            const uint64_t there = f->ahead[f->plan->steps[i].inputs[j]];
            room -= there < room ? there : room;
        }
    }
    ps_prefetch_budget budget = ps_prefetch_budget_of(
        (uint64_t)((double)work_ns * machine->fill_gbs), room);
    for (uint32_t i = barrier; i < end; i++) {
        for (uint32_t j = 0; j < f->plan->steps[i].input_count; j++) {
            fill_with(f, &budget, &f->plan->steps[i], j);
        }
    }
}

static void fill_barriers(filling *f)
{
    uint64_t work_ns = 0; // since the last barrier
    for (uint32_t i = 0; i < f->plan->step_count; i++) {
        const ps_plan_step *step = &f->plan->steps[i];
        if (step->barrier && step->join == 0) {
            fill_barrier(f, i, work_ns);
        }
        const uint64_t barrier_ns = step->barrier ? (uint64_t)f->options->machine->barrier_ns : 0;
        work_ns = step->barrier ? 0 : work_ns;
        work_ns += is_collective(step) ? 0 : step->predicted_ns - barrier_ns;
        ps_prefetch_note_step(step, f->ahead);
        f->steps[f->step_count++] = *step;
    }
}

ps_status ps_pass_barriers(ps_plan *plan, const ps_pass_options *options, ps_arena *arena)
{
    if (options->machine->threads < 2 || options->prefetch_threads > 0 ||
        ps_prefetch_policy_of(options->prefetch, options->ranks) != PS_PREFETCH_AUTO) {
        return PS_OK;
    }
    const uint64_t most = plan->step_count + ps_prefetch_operand_count(plan);
    filling f = {.plan = plan,
                 .options = options,
                 .steps = PS_ARENA_NEW(arena, ps_plan_step, most),
                 .ahead = PS_ARENA_NEW(arena, uint64_t, plan->value_count)};
    if (f.steps == NULL || f.ahead == NULL) {
        return PS_NO_MEMORY;
    }
    fill_barriers(&f);
    plan->steps = f.steps;
    plan->step_count = f.step_count;
    return PS_OK;
}
