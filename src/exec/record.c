// exec/record.c - kinds of events.
#include "exec/record.h"

static const ps_trace_kind STEPS[PS_OP_COUNT] = {
#define OP(NAME, text, inputs_min, inputs_max, outputs, flags, operands)                           \
    {text, "compute", {"layer", "bytes"}},
#include "base/ops.def"
#undef OP
};
static const ps_trace_kind WAIT = {"wait", "wait", {"layer"}};
static const ps_trace_kind RUN = {"run", "run", {"step", "rows", "mask"}};
static const ps_trace_kind COMM = {"collective", "comm", {"layer"}};
// By window.
static const ps_trace_kind PREFETCHES[PS_WINDOW_COUNT] = {
    [PS_WINDOW_NONE] = {"prefetch", "prefetch", {"layer", "bytes", "asked"}},
    [PS_WINDOW_COMM] = {"prefetch", "prefetch", {"layer", "bytes", "asked"}},
    [PS_WINDOW_VECTOR] = {"vector_prefetch", "prefetch", {"layer", "bytes", "asked"}},
    [PS_WINDOW_BARRIER] = {"barrier_prefetch", "prefetch", {"layer", "bytes", "asked"}},
    [PS_WINDOW_SIDE] = {"side_prefetch", "prefetch", {"layer", "bytes", "asked"}},
};

static const char *site_of(const ps_bound_step *step)
{
    return step->plan->attributes.site == PS_SITE_NONE
               ? NULL
               : ps_site_name((ps_site)step->plan->attributes.site);
}

void ps_record_step(ps_trace_lane *lane, const ps_bound_step *step, uint64_t start_ns,
                    uint64_t end_ns)
{
    const int64_t arguments[] = {step->plan->attributes.layer, (int64_t)step->plan->weight_bytes};
    ps_trace_span(lane, &STEPS[step->plan->op], site_of(step), start_ns, end_ns, arguments);
}

void ps_record_wait(ps_trace_lane *lane, const ps_bound_step *step, uint64_t start_ns,
                    uint64_t end_ns)
{
    ps_trace_span(lane, &WAIT, ps_op_get(step->plan->op)->name, start_ns, end_ns,
                  (int64_t[]){step->plan->attributes.layer});
}

void ps_record_run(ps_trace_lane *lane, const ps_step *step, uint64_t mask, uint64_t start_ns,
                   uint64_t end_ns)
{
    const int64_t arguments[] = {(int64_t)step->number, step->row_count,
                                 (int64_t)(mask & (((uint64_t)1 << PS_GUARD_SLOTS) - 1))};
    ps_trace_span(lane, &RUN, NULL, start_ns, end_ns, arguments);
}

void ps_record_comm(ps_trace_lane *lane, const ps_bound_step *step, uint64_t start_ns,
                    uint64_t end_ns)
{
    ps_trace_span(lane, &COMM, ps_op_get(step->plan->op)->name, start_ns, end_ns,
                  (int64_t[]){step->plan->attributes.layer});
}

void ps_record_prefetch(ps_trace_lane *lane, const ps_bound_step *step, uint64_t start_ns,
                        uint64_t end_ns, uint64_t asked_bytes, uint64_t moved_bytes)
{
    const int64_t arguments[] = {step->plan->attributes.layer, (int64_t)moved_bytes,
                                 (int64_t)asked_bytes};
    ps_trace_span(lane, &PREFETCHES[step->plan->attributes.window], site_of(step), start_ns, end_ns,
                  arguments);
}
