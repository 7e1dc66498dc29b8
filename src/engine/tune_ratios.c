// engine/tune_ratios.c - buckets, what their windows have time for, and a search for each.
#include "engine/tune_ratios.h"

#include "base/clock.h"
#include "engine/model_source.h"
#include "passes/passes.h"

#include <string.h>

#define ARENA_BYTES ((size_t)4 << 30)
// Of the time, what the thorough measurements at the end of each bucket leave to candidates.
#define SEARCH_PART 0.8

typedef struct tuning {
    const ps_tune_ratios_options *options;
    ps_step_source source;
    ps_step_timer timer;
    uint64_t start_ns;
    double until_s; // of the bucket at hand
    ps_bucket shapes[PS_TUNE_BATCHES_MAX];
    ps_tuned_bucket *bucket;                   // at hand
    uint32_t first, end;                       // its batches
    ps_ratio_timing last[PS_TUNE_BATCHES_MAX]; // of each batch
    ps_tuned_ratios result;
} tuning;

static double seconds(const tuning *t)
{
    return (double)(ps_clock_ns() - t->start_ns) / 1e9;
}

// ---- buckets

static void add_batches(tuning *t)
{
    ps_tuned_ratios *r = &t->result;
    for (uint32_t batch = 1; batch <= PS_STEP_BATCH_MAX; batch++) {
        bool is_asked = false;
        for (uint32_t i = 0; i < t->options->batch_count; i++) {
            is_asked |= t->options->batches[i] == batch;
        }
        if (is_asked) {
            r->batches[r->batch_count++].batch = batch;
        }
    }
}

static void group_batches(tuning *t)
{
    ps_bucket shapes[PS_SESSION_PLANS_MAX];
    ps_tuned_ratios *r = &t->result;
    const uint32_t count = ps_session_buckets(t->source.session, t->source.ranks, shapes);
    uint32_t at = 0;
    for (uint32_t b = 0; b < count && at < r->batch_count; b++) {
        const uint32_t first = at;
        while (at < r->batch_count && r->batches[at].batch <= shapes[b].rows) {
            r->batches[at++].bucket = r->bucket_count;
        }
        if (at > first) {
            t->shapes[r->bucket_count] = shapes[b];
            r->buckets[r->bucket_count++] = (ps_tuned_bucket){
                .rows_least = b == 0 ? 1 : shapes[b - 1].rows + 1, .rows = shapes[b].rows};
        }
    }
}

// ---- what windows have time for

static uint32_t ratio_of(const ps_plan_step *step)
{
    uint32_t i = 0;
    while (i < PS_RATIO_COUNT &&
           ps_ratio_site_of((ps_ratio_site)i) != (ps_site)step->attributes.site) {
        i++;
    }
    return i;
}

// Prefetches of one linear stand together, and all say what its window has time for.
static uint32_t linear_end(const ps_plan *plan, uint32_t begin)
{
    const ps_op_attributes *a = &plan->steps[begin].attributes;
    uint32_t end = begin + 1;
    while (end < plan->step_count && plan->steps[end].op == PS_OP_PREFETCH &&
           plan->steps[end].attributes.site == a->site &&
           plan->steps[end].attributes.layer == a->layer) {
        end++;
    }
    return end;
}

static void read_windows(const ps_plan *plan, ps_ratio_start *out)
{
    double whole[PS_RATIO_COUNT] = {0};
    double fits[PS_RATIO_COUNT] = {0};
    for (uint32_t i = 0; i < plan->step_count;) {
        const ps_plan_step *step = &plan->steps[i];
        const uint32_t site = step->op == PS_OP_PREFETCH ? ratio_of(step) : PS_RATIO_COUNT;
        if (site == PS_RATIO_COUNT) {
            i++;
            continue;
        }
        double bytes = 0;
        for (const uint32_t end = linear_end(plan, i); i < end; i++) {
            bytes += (double)ps_value_weight_bytes(&plan->values[plan->steps[i].inputs[0]].is);
        }
        whole[site] += bytes;
        fits[site] += step->attributes.fits < bytes ? step->attributes.fits : bytes;
        out->has_site[site] |= step->attributes.reason < PS_REASON_DECLINED;
    }
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        out->guess[i] = whole[i] > 0 ? fits[i] / whole[i] : 0;
    }
}

static ps_prefetch_ratios candidate(const tuning *t, const double *ratios)
{
    ps_prefetch_ratios all = ps_prefetch_ratios_default();
    all.max_bytes = t->options->session.ratios.max_bytes;
    if (ratios != NULL) {
        memcpy(all.ratio, ratios, sizeof all.ratio);
    }
    return all;
}

static ps_status find_windows(tuning *t, const ps_bucket *shape)
{
    ps_arena arena;
    ps_plan *plan = NULL;
    const ps_prefetch_ratios all = candidate(t, NULL);
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_status status = ps_step_plan(&t->source, shape, PS_PREFETCH_RATIO, &all, &arena,
                                          &plan);
    if (status == PS_OK) {
        read_windows(plan, &t->bucket->start);
    }
    ps_arena_deinit(&arena);
    return status;
}

// ---- timing a bucket

static ps_status check_cancel(const tuning *t)
{
    return t->options->cancel != NULL && *t->options->cancel ? ps_fail(PS_CANCELLED, "cancelled")
                                                             : PS_OK;
}

static ps_status time_batches(tuning *t, const ps_prefetch_ratios *ratios, bool is_final)
{
    for (uint32_t i = t->first; i < t->end; i++) {
        const double part = seconds(t) / t->options->limit_s;
        PS_TRY(check_cancel(t));
        if (t->options->progress != NULL) {
            t->options->progress(t->options->progress_context, part < 1 ? part : 1);
        }
        PS_TRY(t->timer.time(t->timer.context, t->result.batches[i].batch, ratios, is_final,
                             &t->last[i]));
    }
    return PS_OK;
}

// What the objective makes of the batches; a batch that loses beyond the noise decides alone.
static ps_ratio_timing judge(const tuning *t)
{
    ps_ratio_timing all = t->last[t->first];
    double off_rate = 0;
    double rate = 0;
    for (uint32_t i = t->first; i < t->end; i++) {
        const ps_ratio_timing *one = &t->last[i];
        if (one->gain < -one->noise) {
            return *one;
        }
        off_rate += t->result.batches[i].batch / one->off_ns;
        rate += t->result.batches[i].batch / (one->off_ns * (1 - one->gain));
        if (t->options->objective == PS_TUNE_THROUGHPUT && one->noise > all.noise) {
            all.noise = one->noise;
        }
    }
    if (t->options->objective == PS_TUNE_THROUGHPUT) {
        all.gain = 1 - off_rate / rate;
    }
    return all;
}

static ps_status time_bucket(void *context, const double *ratios, bool is_final,
                             ps_ratio_timing *out)
{
    tuning *t = context;
    const ps_prefetch_ratios all = candidate(t, ratios);
    PS_TRY(time_batches(t, &all, is_final));
    *out = judge(t);
    return PS_OK;
}

static bool is_over(void *context)
{
    const tuning *t = context;
    return seconds(t) >= t->until_s;
}

// What a batch comes to: off is compared with off where nothing else gains.
static void note_batches(tuning *t)
{
    for (uint32_t i = t->first; i < t->end; i++) {
        ps_tuned_batch *batch = &t->result.batches[i];
        batch->tuned = t->bucket->found.is_gain ? t->last[i]
                                                : (ps_ratio_timing){.off_ns = batch->given.off_ns,
                                                                    .ns = batch->given.off_ns,
                                                                    .noise = batch->given.noise};
    }
}

static ps_status tune_bucket(tuning *t, uint32_t index)
{
    ps_tuned_ratios *r = &t->result;
    const ps_ratio_timer timer = {.context = t, .time = time_bucket, .is_over = is_over};
    t->bucket = &r->buckets[index];
    for (t->first = 0; r->batches[t->first].bucket != index;) {
        t->first++;
    }
    for (t->end = t->first; t->end < r->batch_count && r->batches[t->end].bucket == index;) {
        t->end++;
    }
    PS_TRY(check_cancel(t));
    PS_TRY(find_windows(t, &t->shapes[index]));
    bool has_window = false;
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        has_window |= t->bucket->start.has_site[i];
    }
    if (!has_window || is_over(t)) {
        t->bucket->found.is_cut = has_window;
        return PS_OK;
    }
    PS_TRY(t->timer.begin(t->timer.context, &t->shapes[index], r->batches[t->end - 1].batch));
    PS_TRY(time_batches(t, &r->given, true));
    for (uint32_t i = t->first; i < t->end; i++) {
        r->batches[i].is_timed = true;
        r->batches[i].given = t->last[i];
    }
    PS_TRY(ps_ratio_search(&timer, &t->bucket->start, &t->bucket->found));
    note_batches(t);
    return PS_OK;
}

// ---- all buckets

// The objective's own first: where time is short, others are left off.
static ps_status tune_buckets(tuning *t)
{
    ps_tuned_ratios *r = &t->result;
    const bool is_latency = t->options->objective == PS_TUNE_LATENCY;
    r->chosen = r->bucket_count;
    for (uint32_t i = 0; i < r->bucket_count; i++) {
        const uint32_t index = is_latency ? i : r->bucket_count - 1 - i;
        t->until_s = SEARCH_PART * t->options->limit_s * (i + 1) / r->bucket_count;
        PS_TRY(tune_bucket(t, index));
        if (r->buckets[index].found.is_gain && r->chosen == r->bucket_count) {
            r->chosen = index;
        }
    }
    r->took_s = seconds(t);
    return PS_OK;
}

static ps_status run_timer(tuning *t)
{
    if (t->options->model == NULL) {
        PS_TRY(ps_step_timer_played(&t->source, &t->timer));
        const ps_status status = tune_buckets(t);
        ps_step_timer_played_end(&t->timer);
        return status;
    }
    PS_TRY(ps_step_timer_real(&t->source, &t->timer));
    const ps_status status = tune_buckets(t);
    ps_step_timer_real_end(&t->timer);
    return status;
}

static ps_status tune_source(tuning *t)
{
    const ps_model_config *config = t->source.config;
    const uint32_t wanted = t->options->context_tokens > 0 ? t->options->context_tokens
                                                           : PS_STEP_CONTEXT_TOKENS;
    ps_session_options session = t->options->session;
    session.plan_file = NULL;
    session.sequences = PS_STEP_BATCH_MAX;
    session.batch_rows = 0;
    session.context_tokens = config->context_tokens < wanted ? config->context_tokens : wanted;
    PS_TRY(ps_session_options_complete(config, &session));
    t->source.session = &session;
    t->result.given = session.ratios;
    t->result.has_module[PS_MODULE_ATTN] = true;
    t->result.has_module[config->experts > 0 ? PS_MODULE_MOE : PS_MODULE_MLP] = true;
    add_batches(t);
    group_batches(t);
    const ps_status status = run_timer(t);
    t->source.session = NULL;
    return status;
}

static ps_status check_plans(const ps_model_source *source, const ps_tune_ratios_options *options)
{
    const bool has_plans = source->file.pst != NULL && ps_pst_plans(source->file.pst).length > 0;
    return options->model != NULL && has_plans
               ? ps_fail(PS_INVALID, "it has plans of its own; the model that it was compiled from "
                                     "would be right")
               : PS_OK;
}

ps_status ps_tune_ratios(const char *path, const ps_tune_ratios_options *options,
                         ps_tuned_ratios *out)
{
    ps_model_source source;
    ps_arena arena;
    tuning t = {.options = options,
                .source = {.machine = options->machine,
                           .ranks = options->ranks,
                           .model = options->model,
                           .cancel = options->cancel},
                .start_ns = ps_clock_ns()};
    ps_arena_init(&arena, ARENA_BYTES);
    ps_status status = ps_model_source_open(path, options->weight_bits, &arena, &source);
    if (status == PS_OK) {
        t.source.file = source.file.gguf;
        t.source.config = source.config;
        status = ps_engine_name_file(path, check_plans(&source, options));
        status = status == PS_OK ? ps_engine_name_file(path, tune_source(&t)) : status;
        ps_model_source_close(&source);
    }
    ps_arena_deinit(&arena);
    if (status == PS_OK) {
        *out = t.result;
    }
    return status;
}

ps_prefetch_ratios ps_tuned_bucket_ratios(const ps_tuned_ratios *tuned, uint32_t bucket)
{
    const ps_tuned_bucket *b = &tuned->buckets[bucket];
    ps_prefetch_ratios ratios = {.max_bytes = tuned->given.max_bytes};
    memcpy(ratios.ratio, b->found.ratio, sizeof ratios.ratio);
    for (uint32_t m = 0; m < PS_MODULE_COUNT; m++) {
        ratios.min_tokens[m] = b->rows_least;
        ratios.max_tokens[m] = b->rows;
    }
    return ratios;
}
