// engine/simulate_trace.c - a step that was played as a Chrome trace.
#include "engine/simulate.h"

#include <math.h>

#define OP(NAME, text, inputs_min, inputs_max, outputs, flags, operands)                           \
    {text, "compute", {"layer", "memory_bytes", "cache_bytes"}},
static const ps_trace_kind OPERATORS[PS_OP_COUNT] = {
#include "base/ops.def"
};
#undef OP
static const ps_trace_kind COMM = {"collective", "comm", {"layer", "bytes"}};
static const ps_trace_kind PREFETCH = {"prefetch", "prefetch", {"layer", "bytes"}};
static const ps_trace_kind WAIT = {"wait", "wait", {"layer"}};
static const ps_trace_kind BARRIER = {"barrier", "wait", {"layer"}};

// By ps_play_lane, where spans of each are shown.
static const ps_play_lane SHOWN[PS_LANE_COUNT] = {
    [PS_LANE_COMPUTE] = PS_LANE_COMPUTE,   [PS_LANE_COMM] = PS_LANE_COMM,
    [PS_LANE_PREFETCH] = PS_LANE_PREFETCH, [PS_LANE_WAIT] = PS_LANE_COMPUTE,
    [PS_LANE_BARRIER] = PS_LANE_COMPUTE,
};
#define LANES_SHOWN 3

static const ps_trace_kind *kind_of(ps_op op, ps_play_lane lane)
{
    switch (lane) {
    case PS_LANE_COMM:
        return &COMM;
    case PS_LANE_PREFETCH:
        return &PREFETCH;
    case PS_LANE_WAIT:
        return &WAIT;
    case PS_LANE_BARRIER:
        return &BARRIER;
    default:
        return &OPERATORS[op];
    }
}

static void add_span(ps_trace_lane *lane, const ps_plan *plan, const ps_play_span *span)
{
    const ps_plan_step *step = &plan->steps[span->step];
    const ps_site site = (ps_site)step->attributes.site;
    const bool is_own = span->lane == PS_LANE_COMPUTE || span->lane == PS_LANE_PREFETCH;
    const char *detail = !is_own                ? ps_op_get(step->op)->name
                         : site == PS_SITE_NONE ? NULL
                                                : ps_site_name(site);
    const int64_t arguments[] = {step->attributes.layer, llround(span->memory_bytes),
                                 llround(span->cache_bytes)};
    // What follows each other still does when both are rounded alike.
    ps_trace_span(lane, kind_of(step->op, span->lane), detail, (uint64_t)llround(span->begin_ns),
                  (uint64_t)llround(span->end_ns), arguments);
}

static ps_status fill(const ps_design_step *step, ps_trace *trace)
{
    const ps_played *played = &step->played;
    ps_trace_lane *lanes[LANES_SHOWN];
    uint32_t counts[LANES_SHOWN] = {1, 1, 1};
    for (uint32_t i = 0; i < played->span_count; i++) {
        counts[SHOWN[played->spans[i].lane]]++;
    }
    for (uint32_t i = 0; i < LANES_SHOWN; i++) {
        PS_TRY(ps_trace_lane_add(trace, ps_play_lane_name((ps_play_lane)i), counts[i], &lanes[i]));
    }
    for (uint32_t i = 0; i < played->span_count; i++) {
        add_span(lanes[SHOWN[played->spans[i].lane]], step->plan, &played->spans[i]);
    }
    return PS_OK;
}

ps_status ps_design_step_trace(const ps_design_step *step, uint32_t process, const char *name,
                               ps_trace **out)
{
    ps_trace *trace = NULL;
    PS_TRY(ps_trace_create(process, name, &trace));
    const ps_status status = fill(step, trace);
    if (status != PS_OK) {
        ps_trace_destroy(trace);
        return status;
    }
    *out = trace;
    return PS_OK;
}
