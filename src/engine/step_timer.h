// engine/step_timer.h - two ways to time decode steps with prefetch ratios beside steps of off.
#ifndef PS_ENGINE_STEP_TIMER_H
#define PS_ENGINE_STEP_TIMER_H

#include "engine/session_plans.h"
#include "explore/ratio_search.h"

#define PS_STEP_BATCH_MAX 512u      // rows of a step that is timed, one of a sequence each
#define PS_STEP_CONTEXT_TOKENS 512u // of the sessions; fewer where the model has fewer

typedef struct ps_step_timer {
    void *context;
    // What follows is of the plan for this bucket, with up to so many rows.
    ps_status (*begin)(void *context, const ps_bucket *bucket, uint32_t batch_most);
    ps_status (*time)(void *context, uint32_t batch, const ps_prefetch_ratios *ratios,
                      bool is_final, ps_ratio_timing *out);
} ps_step_timer;

// What both are made with. The session has complete options of PS_STEP_CONTEXT_TOKENS.
typedef struct ps_step_source {
    const ps_session_options *session;
    const ps_gguf *file;
    const ps_model_config *config;
    const ps_machine *machine;
    uint32_t ranks;
    ps_model *model; // open, NULL for simulated ones
    const volatile bool *cancel;
} ps_step_source;

// The plan of rank 0 for one bucket. Memory comes from the arena.
PS_MUST_USE ps_status ps_step_plan(const ps_step_source *source, const ps_bucket *bucket,
                                   ps_prefetch_policy policy, const ps_prefetch_ratios *ratios,
                                   ps_arena *arena, ps_plan **out);

// Steps of the model, of two sessions in turns: off, ratios, off, ratios, ..., off. A turn is some
// milliseconds. PS_CANCELLED, and what sessions fail with. The source is borrowed.
PS_MUST_USE ps_status ps_step_timer_real(const ps_step_source *source, ps_step_timer *out);
void ps_step_timer_real_end(ps_step_timer *timer);

// Steps of plans that are played (explore/play.h), at the last position of the context: without
// noise. The source is borrowed.
PS_MUST_USE ps_status ps_step_timer_played(const ps_step_source *source, ps_step_timer *out);
void ps_step_timer_played_end(ps_step_timer *timer);

#endif
