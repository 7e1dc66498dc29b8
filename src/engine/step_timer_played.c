// engine/step_timer_played.c - a step in simulated time.
#include "engine/step_timer.h"
#include "explore/play.h"

#include <stdlib.h>

typedef struct played {
    const ps_step_source *source;
    ps_bucket bucket;
} played;

ps_status ps_step_plan(const ps_step_source *source, const ps_bucket *bucket,
                       ps_prefetch_policy policy, const ps_prefetch_ratios *ratios, ps_arena *arena,
                       ps_plan **out)
{
    ps_session_options session = *source->session;
    session.prefetch = policy;
    session.ratios = *ratios;
    const ps_pass_options pass = ps_session_pass_options(&session, bucket, source->machine,
                                                         source->ranks, 0);
    return ps_engine_make_plan(source->config, source->file, &pass, arena, out);
}

static ps_status begin(void *context, const ps_bucket *bucket, uint32_t batch_most)
{
    played *p = context;
    (void)batch_most;
    p->bucket = *bucket;
    return PS_OK;
}

static ps_status play(const played *p, uint32_t batch, ps_prefetch_policy policy,
                      const ps_prefetch_ratios *ratios, double *out_ns)
{
    ps_arena arena;
    ps_plan *plan = NULL;
    ps_played step = {.span_count = 0};
    ps_arena_init(&arena, (size_t)4 << 30);
    ps_status status = ps_step_plan(p->source, &p->bucket, policy, ratios, &arena, &plan);
    if (status == PS_OK) {
        const ps_play_options options = {.rows = batch, .position = plan->context_max - 1};
        status = ps_play_plan(plan, p->source->machine, &options, &arena, &step);
    }
    ps_arena_deinit(&arena);
    *out_ns = step.sums.total_ns;
    return status;
}

static ps_status time_played(void *context, uint32_t batch, const ps_prefetch_ratios *ratios,
                             bool is_final, ps_ratio_timing *out)
{
    ps_ratio_timing timing = {.noise = 0};
    (void)is_final;
    PS_TRY(play(context, batch, PS_PREFETCH_OFF, ratios, &timing.off_ns));
    PS_TRY(play(context, batch, PS_PREFETCH_RATIO, ratios, &timing.ns));
    timing.gain = 1 - timing.ns / timing.off_ns;
    *out = timing;
    return PS_OK;
}

ps_status ps_step_timer_played(const ps_step_source *source, ps_step_timer *out)
{
    played *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for playing steps");
    }
    p->source = source;
    *out = (ps_step_timer){.context = p, .begin = begin, .time = time_played};
    return PS_OK;
}

void ps_step_timer_played_end(ps_step_timer *timer)
{
    free(timer->context);
}
