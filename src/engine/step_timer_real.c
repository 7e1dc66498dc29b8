// engine/step_timer_real.c - steps of two sessions of one model, in turns.
//
// Each turn starts from empty sequences, so that off and ratios run steps at the same positions.
// Tokens are random; whoever is compared gets the same.
#include "base/clock.h"
#include "base/quantile.h"
#include "base/rng.h"
#include "engine/step_timer.h"

#include <math.h>
#include <stdlib.h>

#define TURNS 7u
#define TURNS_FINAL 15u
#define TURNS_LEAST 5u        // where more would take longer than
#define TURNS_NS 4000000000.0 //   so long
#define TURN_NS 3000000u      // at least, of several steps where one is shorter
#define WARM_STEPS 2u

typedef struct side {
    ps_session *session; // NULL: none
    ps_sequence sequences[PS_STEP_BATCH_MAX];
} side;

typedef struct real {
    const ps_step_source *source;
    ps_session_options options; // of the bucket, off
    uint32_t vocabulary;
    side off, with;
} real;

static void close_side(side *s)
{
    ps_session_destroy(s->session);
    s->session = NULL;
}

static ps_status open_side(const real *r, ps_prefetch_policy policy,
                           const ps_prefetch_ratios *ratios, side *out)
{
    ps_session_options options = r->options;
    options.prefetch = policy;
    if (ratios != NULL) {
        options.ratios = *ratios;
    }
    PS_TRY(ps_session_create(r->source->model, &options, &out->session));
    for (uint32_t i = 0; i < options.sequences; i++) {
        PS_TRY(ps_sequence_open(out->session, &out->sequences[i]));
    }
    return PS_OK;
}

static ps_status begin(void *context, const ps_bucket *bucket, uint32_t batch_most)
{
    real *r = context;
    close_side(&r->off);
    r->options = *r->source->session;
    r->options.sequences = batch_most;
    r->options.batch_rows = bucket->rows; // the buckets below, and this one
    r->options.kv_tokens = 0;
    return open_side(r, PS_PREFETCH_OFF, NULL, &r->off);
}

// So many steps from empty sequences on; nanoseconds of one.
static ps_status run(const real *r, side *s, uint32_t batch, uint32_t steps, double *out_ns)
{
    ps_row rows[PS_STEP_BATCH_MAX] = {0};
    ps_rng rng = ps_rng_seed(1);
    for (uint32_t i = 0; i < batch; i++) {
        PS_TRY(ps_sequence_truncate(s->session, s->sequences[i], 0));
    }
    const uint64_t start_ns = ps_clock_ns();
    for (uint32_t step = 0; step < steps; step++) {
        if (r->source->cancel != NULL && *r->source->cancel) {
            return ps_fail(PS_CANCELLED, "cancelled");
        }
        for (uint32_t i = 0; i < batch; i++) {
            const int32_t token = (int32_t)(ps_rng_next(&rng) % r->vocabulary);
            rows[i] = (ps_row){s->sequences[i], token, true};
        }
        PS_TRY(ps_session_step(s->session, rows, batch));
    }
    *out_ns = (double)(ps_clock_ns() - start_ns) / steps;
    return PS_OK;
}

// How many steps a turn has, and how many of *turns there are time for.
static ps_status warm_up(real *r, uint32_t batch, uint32_t *out_steps, uint32_t *turns)
{
    double off_ns, with_ns;
    PS_TRY(run(r, &r->off, batch, WARM_STEPS, &off_ns));
    PS_TRY(run(r, &r->with, batch, WARM_STEPS, &with_ns));
    const double wanted = ceil(TURN_NS / (off_ns < with_ns ? off_ns : with_ns));
    const uint32_t most = r->options.context_tokens;
    *out_steps = wanted < most ? (uint32_t)wanted : most;
    while (*turns > TURNS_LEAST && *turns * *out_steps * (off_ns + with_ns) > TURNS_NS) {
        (*turns)--;
    }
    return PS_OK;
}

static ps_status take_turns(real *r, uint32_t batch, uint32_t turns, ps_ratio_timing *out)
{
    double off_ns[TURNS_FINAL + 1] = {0};
    double ns[TURNS_FINAL] = {0};
    double gains[TURNS_FINAL] = {0};
    double noises[TURNS_FINAL] = {0};
    uint32_t steps = 1;
    PS_TRY(warm_up(r, batch, &steps, &turns));
    PS_TRY(run(r, &r->off, batch, steps, &off_ns[0]));
    for (uint32_t i = 0; i < turns; i++) {
        PS_TRY(run(r, &r->with, batch, steps, &ns[i]));
        PS_TRY(run(r, &r->off, batch, steps, &off_ns[i + 1]));
        gains[i] = 1 - 2 * ns[i] / (off_ns[i] + off_ns[i + 1]);
        noises[i] = fabs(1 - off_ns[i + 1] / off_ns[i]);
    }
    *out = (ps_ratio_timing){.off_ns = ps_quantile(off_ns, turns + 1, 0.5),
                             .ns = ps_quantile(ns, turns, 0.5),
                             .gain = ps_quantile(gains, turns, 0.5),
                             .noise = ps_quantile(noises, turns, 0.9)};
    return PS_OK;
}

static ps_status time_real(void *context, uint32_t batch, const ps_prefetch_ratios *ratios,
                           bool is_final, ps_ratio_timing *out)
{
    real *r = context;
    ps_status status = open_side(r, PS_PREFETCH_RATIO, ratios, &r->with);
    if (status == PS_OK) {
        status = take_turns(r, batch, is_final ? TURNS_FINAL : TURNS, out);
    }
    close_side(&r->with);
    return status;
}

ps_status ps_step_timer_real(const ps_step_source *source, ps_step_timer *out)
{
    real *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for timing steps");
    }
    r->source = source;
    r->vocabulary = source->model->config->vocabulary;
    *out = (ps_step_timer){.context = r, .begin = begin, .time = time_real};
    return PS_OK;
}

void ps_step_timer_real_end(ps_step_timer *timer)
{
    real *r = timer->context;
    close_side(&r->off);
    free(r);
}
