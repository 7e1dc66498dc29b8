// cli/explore_timeline.c - plays a layer, and names its spans.
#include "cli/explore_timeline.h"

#include "cli/explore_json.h"

#include <stdlib.h>

#define ARENA_BYTES ((size_t)4 << 30)

static ps_timeline_lane lane_of(ps_play_lane lane)
{
    return lane == PS_LANE_COMM       ? PS_TIMELINE_COLLECTIVE
           : lane == PS_LANE_PREFETCH ? PS_TIMELINE_PREFETCH
                                      : PS_TIMELINE_COMPUTE;
}

// The site of a linear and of a prefetch, otherwise the operator.
static const char *label_of(const ps_plan *plan, const ps_play_span *span)
{
    const ps_plan_step *step = &plan->steps[span->step];
    const char *site = ps_site_name((ps_site)step->attributes.site);
    const char *name = site[0] != '\0' && span->lane != PS_LANE_COMM ? site
                                                                     : ps_op_get(step->op)->name;
    return span->lane == PS_LANE_WAIT ? NULL : name;
}

static int compare_spans(const void *a, const void *b)
{
    const ps_timeline_span *left = a;
    const ps_timeline_span *right = b;
    return left->begin_ns != right->begin_ns ? (left->begin_ns > right->begin_ns ? 1 : -1)
                                             : (int)left->lane - (int)right->lane;
}

static ps_status play_policy(ps_explore_inputs *inputs, const ps_explore_point *point,
                             ps_arena *scratch, ps_timeline_policy *out)
{
    const ps_model_source *model = &inputs->models[point->model_index];
    ps_design_layer layer;
    PS_TRY(ps_design_layer_play(model->config, model->file.gguf, &point->machine, &point->workload,
                                scratch, &layer));
    ps_timeline_span *spans = PS_ARENA_NEW(&inputs->arena, ps_timeline_span, layer.span_count);
    if (spans == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < layer.span_count; i++) {
        const ps_play_span *span = &layer.spans[i];
        if (span->lane < PS_LANE_WAIT) { // a gap says as much
            spans[out->span_count++] = (ps_timeline_span){.lane = lane_of(span->lane),
                                                          .begin_ns = span->begin_ns -
                                                                      layer.begin_ns,
                                                          .end_ns = span->end_ns - layer.begin_ns,
                                                          .label = label_of(layer.plan, span)};
        }
    }
    qsort(spans, out->span_count, sizeof *spans, compare_spans);
    out->spans = spans;
    out->total_ns = layer.end_ns - layer.begin_ns;
    return PS_OK;
}

static ps_status play_timeline(ps_explore_inputs *inputs, const ps_explore_spec *spec,
                               const ps_explore_timeline *timeline, ps_timeline *out)
{
    ps_timeline_policy *policies = PS_ARENA_NEW(&inputs->arena, ps_timeline_policy,
                                                timeline->policy_count);
    if (policies == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < timeline->policy_count; i++) {
        ps_explore_point point;
        ps_arena scratch;
        ps_explore_point_make(spec, &inputs->fields, inputs->machines, 0, &timeline->settings,
                              false, &point);
        point.workload.prefetch = timeline->policies[i].prefetch;
        point.workload.comm_schedule = timeline->policies[i].comm_schedule;
        policies[i].name = timeline->policies[i].name;
        ps_arena_init(&scratch, ARENA_BYTES);
        const ps_status status = play_policy(inputs, &point, &scratch, &policies[i]);
        ps_arena_deinit(&scratch);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "%s: plots[%u]", spec->title, timeline->plot);
        }
    }
    *out = (ps_timeline){.policies = policies, .policy_count = timeline->policy_count};
    return PS_OK;
}

ps_status ps_explore_timelines_play(ps_explore_inputs *inputs, const ps_explore_spec *spec,
                                    ps_timeline **out)
{
    *out = PS_ARENA_NEW(&inputs->arena, ps_timeline, spec->timeline_count);
    if (*out == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < spec->timeline_count; i++) {
        PS_TRY(play_timeline(inputs, spec, &spec->timelines[i], &(*out)[i]));
    }
    return PS_OK;
}
