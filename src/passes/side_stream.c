// passes/side_stream.c - what dedicated threads fill the shared cache with while workers compute.
//
// From one operator that reads weights or KV to the next, the dedicated threads read what the next
// one will read: each of its operands has a prefetch in front of the operator before, where it
// starts, and is let go when its reader begins. Nothing waits for it. What a collective's wait
// moves for the reader is left to that.
#include "passes/prefetch_internal.h"

typedef struct insertion {
    uint32_t before; // step
    ps_plan_step step;
} insertion;

typedef struct filling {
    const ps_plan *plan; // with its steps as they were
    const ps_pass_options *options;
    bool is_cached; // all weights stay in the workers' own caches
    insertion *list;
    uint32_t count;
    uint64_t *ahead; // [values] bytes that waits move, and that nobody has read since
} filling;

static bool reads_stored(const filling *f, const ps_plan_step *step)
{
    for (uint32_t i = 0; i < step->input_count; i++) {
        const ps_prefetch_operand operand = ps_prefetch_operand_of(f->plan, step, i);
        if (ps_prefetch_operand_bytes(f->options, &operand) > 0) {
            return true;
        }
    }
    return false;
}

static ps_reason take(const filling *f, const ps_prefetch_operand *operand,
                      ps_prefetch_budget *budget, uint64_t *bytes)
{
    return f->is_cached ? PS_REASON_IN_CACHE
           : !ps_prefetch_is_bound_by_memory(f->options, operand, *bytes)
               ? PS_REASON_COMPUTE_BOUND
               : ps_prefetch_take_part(budget, operand->value->kind == PS_VALUE_KV, bytes);
}

// Prefetches for step `reader`, which start at step `start`, `time_ns` before it.
static void fill(filling *f, uint32_t start, uint32_t reader, uint64_t time_ns)
{
    const ps_machine *machine = f->options->machine;
    const ps_plan_step *step = &f->plan->steps[reader];
    const double rate = machine->fill_gbs / machine->threads * f->options->prefetch_threads;
    // The other half is for what the workers read meanwhile.
    ps_prefetch_budget budget = ps_prefetch_budget_of((uint64_t)((double)time_ns * rate),
                                                      machine->llc_bytes / 2);
    for (uint32_t i = 0; i < step->input_count; i++) {
        const ps_prefetch_operand operand = ps_prefetch_operand_of(f->plan, step, i);
        uint64_t bytes = ps_prefetch_operand_bytes(f->options, &operand);
        if (bytes == 0 || f->ahead[step->inputs[i]] > 0) {
            continue;
        }
        const ps_reason reason = take(f, &operand, &budget, &bytes);
        f->ahead[step->inputs[i]] += reason < PS_REASON_DECLINED ? bytes : 0;
        f->list[f->count++] = (insertion){
            .before = start, .step = ps_prefetch_step(step, i, bytes, 0, reason, PS_WINDOW_SIDE)};
    }
}

static void fill_all(filling *f)
{
    uint32_t start = PS_NO_VALUE; // the reader before
    uint64_t time_ns = 0;         // since it began
    uint64_t weight_bytes = 0;
    for (uint32_t i = 0; i < f->plan->step_count; i++) {
        weight_bytes += f->plan->steps[i].weight_bytes;
    }
    f->is_cached = weight_bytes <= ps_prefetch_cache_bytes(f->options->machine);
    for (uint32_t i = 0; i < f->plan->step_count; i++) {
        const ps_plan_step *step = &f->plan->steps[i];
        if (reads_stored(f, step)) {
            if (start != PS_NO_VALUE) {
                fill(f, start, i, time_ns);
            }
            start = i;
            time_ns = 0;
        }
        time_ns += step->predicted_ns;
        ps_prefetch_note_step(step, f->ahead);
    }
}

ps_status ps_pass_side(ps_plan *plan, const ps_pass_options *options, ps_arena *arena)
{
    if (options->prefetch_threads == 0 ||
        ps_prefetch_policy_of(options->prefetch, options->ranks) != PS_PREFETCH_AUTO) {
        return PS_OK;
    }
    const uint64_t most = ps_prefetch_operand_count(plan);
    filling f = {.plan = plan,
                 .options = options,
                 .list = PS_ARENA_NEW(arena, insertion, most),
                 .ahead = PS_ARENA_NEW(arena, uint64_t, plan->value_count)};
    ps_plan_step *steps = PS_ARENA_NEW(arena, ps_plan_step, plan->step_count + most);
    if (f.list == NULL || f.ahead == NULL || steps == NULL) {
        return PS_NO_MEMORY;
    }
    fill_all(&f);
    uint32_t count = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        for (; at < f.count && f.list[at].before == i; at++) {
            steps[count++] = f.list[at].step;
        }
        steps[count++] = plan->steps[i];
    }
    plan->steps = steps;
    plan->step_count = count;
    return PS_OK;
}
