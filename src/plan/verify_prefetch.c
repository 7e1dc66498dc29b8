// plan/verify_prefetch.c - what a prefetch must have around it.
//
// A prefetch starts when the collective's input is ready, and lasts while workers wait: it stands
// behind a collective that nobody has joined yet, or right before a barrier, as one of the window
// "barrier" has to; one of the window "vector" may stand before a vector operator, beside which
// machines with a stream for it make it. Elsewhere it would start too late, or run in place of the
// work. It ends with its wait at the latest, so that nothing is left to join. One that dedicated
// threads make starts wherever it stands, and ends when its reader begins.
#include "plan/plan_internal.h"

#include <string.h>

static bool is_vector(const ps_plan_step *step)
{
    return (ps_op_get(step->op)->flags & PS_OP_VECTOR) != 0;
}

static bool is_at_barrier(const ps_plan_step *step)
{
    return step->attributes.window == PS_WINDOW_BARRIER;
}

// Where dedicated threads make it, an operator has to run between its start and its reader.
static ps_status check_side(const ps_plan *plan, uint32_t index, uint32_t reader)
{
    uint32_t next = index;
    while (plan->steps[next].op == PS_OP_PREFETCH) {
        next++;
    }
    return next < reader ? PS_OK
                         : ps_fail(PS_INVALID,
                                   "prefetch of '%s' starts late: nothing runs between it and its "
                                   "reader",
                                   plan->values[plan->steps[index].inputs[0]].is.name);
}

static bool has_wait(const ps_plan_check *check, uint32_t index)
{
    const ps_plan *plan = check->plan;
    if (!is_at_barrier(&plan->steps[index]) && check->started[index] > check->joined[index]) {
        return true;
    }
    uint32_t next = index;
    while (next < plan->step_count && plan->steps[next].op == PS_OP_PREFETCH) {
        next++;
    }
    const bool is_beside = plan->steps[index].attributes.window == PS_WINDOW_VECTOR;
    return next < plan->step_count &&
           (plan->steps[next].barrier || (is_beside && is_vector(&plan->steps[next])));
}

// reader [values]: the next step that reads it; prefetch [values]: the next one that moves it.
static ps_status check_one(const ps_plan_check *check, uint32_t index, const uint32_t *reader,
                           const uint32_t *prefetch)
{
    const uint32_t id = check->plan->steps[index].inputs[0];
    const char *name = check->plan->values[id].is.name;
    if (check->plan->steps[index].barrier || check->plan->steps[index].join > 0) {
        return ps_fail(PS_INVALID, "a prefetch fills a wait and has none itself");
    }
    if (reader[id] == PS_NO_VALUE) {
        return ps_fail(PS_INVALID, "prefetch of '%s', which nobody reads after it", name);
    }
    if (check->plan->steps[index].attributes.reason >= PS_REASON_DECLINED) {
        return PS_OK;
    }
    if (check->plan->steps[index].stream == PS_STREAM_SIDE) {
        PS_TRY(check_side(check->plan, index, reader[id]));
    } else if (!has_wait(check, index)) {
        return ps_fail(
            PS_INVALID, "prefetch of '%s' starts late: %sno barrier follows", name,
            is_at_barrier(&check->plan->steps[index]) ? "" : "no collective is in flight, and ");
    }
    // A later one may go on where this one ends.
    const ps_op_attributes *here = &check->plan->steps[index].attributes;
    if (prefetch[id] != PS_NO_VALUE && prefetch[id] < reader[id] &&
        (here->bytes == 0 ||
         check->plan->steps[prefetch[id]].attributes.skip < (uint64_t)here->skip + here->bytes)) {
        return ps_fail(PS_INVALID, "'%s' is prefetched again in step %u, before it is read", name,
                       prefetch[id]);
    }
    return PS_OK;
}

ps_status ps_plan_check_prefetches(const ps_plan_check *check, ps_arena *arena)
{
    const ps_plan *plan = check->plan;
    uint32_t *reader = PS_ARENA_NEW(arena, uint32_t, plan->value_count);
    uint32_t *prefetch = PS_ARENA_NEW(arena, uint32_t, plan->value_count);
    if (reader == NULL || prefetch == NULL) {
        return PS_NO_MEMORY;
    }
    memset(reader, 0xff, plan->value_count * sizeof *reader);
    memset(prefetch, 0xff, plan->value_count * sizeof *prefetch);
    for (uint32_t i = plan->step_count; i-- > 0;) {
        const ps_plan_step *step = &plan->steps[i];
        if (step->op == PS_OP_PREFETCH) {
            const ps_status status = check_one(check, i, reader, prefetch);
            if (status != PS_OK) {
                return ps_fail_prefix(status, "step %u", i);
            }
            if (step->attributes.reason < PS_REASON_DECLINED) {
                prefetch[step->inputs[0]] = i;
            }
            continue;
        }
        for (uint32_t j = 0; j < step->input_count; j++) {
            // A kv_write reads nothing of what is there.
            const bool reads = step->op != PS_OP_KV_WRITE || j < 2;
            reader[step->inputs[j]] = reads ? i : reader[step->inputs[j]];
        }
    }
    return PS_OK;
}
