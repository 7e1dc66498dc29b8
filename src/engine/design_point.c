// engine/design_point.c - plans of a workload, played.
#include "engine/design_point.h"

#include "engine/machine_file.h"
#include "engine/session_plans.h"
#include "explore/fold.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define PERIOD_MAX 16u        // of layers that differ
#define PROMPT_ROWS 8192u     // of a step, at most
#define TOKENS_MAX (1u << 24) // of a context
#define LOGITS_MAX (1u << 20) // of a row
#define BATCH_MAX 65536u      // PS_PLAN_ROWS_MAX
#define NS_MAX 1e15

#define FIELD(KIND, name, lowest, highest)                                                         \
    {                                                                                              \
#name, PS_JSON_##KIND, offsetof(ps_workload, name), lowest, highest                        \
    }
const ps_json_field ps_workload_fields[] = {
    FIELD(U32, batch, 1, BATCH_MAX),
    FIELD(U32, context_tokens, 2, TOKENS_MAX),
    FIELD(U32, prompt_tokens, 0, TOKENS_MAX),
    FIELD(U32, ranks, 1, PS_RANKS_MAX),
    FIELD(U32, context_shards, 0, PS_RANKS_MAX),
    FIELD(U32, weight_bits, 0, 16),
    FIELD(U32, kv_bits, 0, 16),
    FIELD(POLICY, prefetch, 0, 0),
    FIELD(COMM_SCHEDULE, comm_schedule, 0, 0),
    FIELD(BOOL, sequence_parallel, 0, 1),
    FIELD(BOOL, even_kv, 0, 1),
    FIELD(U32, best_logits, 0, LOGITS_MAX),
    FIELD(F64, experts_kept, 0, 1),
    FIELD(F64, coverage, 0, 1),
    FIELD(F64, slo_ns, 0, NS_MAX),
};
const size_t ps_workload_field_count = sizeof ps_workload_fields / sizeof ps_workload_fields[0];

#define METRIC(name, unit, what)                                                                   \
    {                                                                                              \
#name, unit, what, offsetof(ps_design_point, name)                                         \
    }
const ps_design_metric ps_design_metrics[] = {
    METRIC(step_ns, "ns", "time of a decode step, mean over the generated tokens"),
    METRIC(first_ns, "ns", "time of the first decode step"),
    METRIC(last_ns, "ns", "time of the last decode step"),
    METRIC(prompt_ns, "ns", "time of all prompts"),
    METRIC(total_ns, "ns", "time of prompts and decoding"),
    METRIC(tokens_per_s, "1/s", "generated tokens a second, all sequences"),
    METRIC(attention_ns, "ns", "attention segments of a step"),
    METRIC(ffn_ns, "ns", "feed-forward segments of a step"),
    METRIC(comm_ns, "ns", "collectives of a step"),
    METRIC(wait_ns, "ns", "waits for collectives and prefetches in a step"),
    METRIC(barrier_ns, "ns", "barriers of workers in a step"),
    METRIC(work_ns, "ns", "operators of a step"),
    METRIC(attention_prefetch_ns, "ns", "prefetches for attention in a step"),
    METRIC(ffn_prefetch_ns, "ns", "prefetches for the feed-forward network in a step"),
    METRIC(moved_bytes, "bytes", "moved by prefetches in a step"),
    METRIC(fillable_bytes, "bytes", "that waits had time for, or that were asked for, in a step"),
    METRIC(lost_bytes, "bytes", "moved, and given up by L2 before they were read, in a step"),
    METRIC(saved_ns, "ns", "saved by reading from L2 in a step"),
    METRIC(ops_per_byte, "", "operations for a byte that operators read in a step"),
    METRIC(ops_per_word, "", "operations for an element of weights and KV in a step"),
    METRIC(weight_bytes, "bytes", "weights of a rank"),
    METRIC(kv_bytes, "bytes", "KV of a rank at the end"),
    METRIC(memory_bytes, "bytes", "weights and KV of a rank"),
    METRIC(layer_attention_bytes, "bytes", "attention weights of a layer and rank"),
    METRIC(layer_kv_bytes, "bytes", "KV of a layer and rank at the end"),
    METRIC(layer_ffn_bytes, "bytes", "feed-forward weights of a layer and rank"),
    METRIC(area_mm2, "mm2", "area of a chip: cores and L2"),
    METRIC(tokens_per_s_per_mm2, "1/s/mm2", "generated tokens a second for the area of all chips"),
    METRIC(tokens_per_s_per_die_mm2, "1/s/mm2", "the same for the area of one chip"),
    METRIC(fits, "", "1: weights and KV fit into the memory of a rank"),
    METRIC(meets_slo, "", "1: no step takes longer than slo_ns"),
};
const size_t ps_design_metric_count = sizeof ps_design_metrics / sizeof ps_design_metrics[0];

double ps_design_metric_of(const ps_design_metric *metric, const ps_design_point *point)
{
    double value;
    memcpy(&value, (const char *)point + metric->offset, sizeof value);
    return value;
}

// ---- what is asked for

typedef struct design {
    ps_model_config config; // of the layers that are played
    const ps_gguf *file;
    const ps_machine *machine;
    ps_workload workload;
    ps_fold fold;
    ps_arena *arena;
    double kv_part;
    double expert_misses, disk_misses;
} design;

static bool is_alike(const ps_model_layer *a, const ps_model_layer *b)
{
    return a->heads == b->heads && a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->ffn == b->ffn && a->kv_group == b->kv_group && a->is_moe == b->is_moe &&
           a->rope_base == b->rope_base && a->rope_scale == b->rope_scale;
}

// The smallest number of layers after which they repeat; all of them if they do not.
static uint32_t period_of(const ps_model_config *config)
{
    for (uint32_t period = 1; period <= PERIOD_MAX && period < config->layers; period++) {
        uint32_t i = 0;
        while (i + period < config->layers &&
               is_alike(&config->layer[i], &config->layer[i + period])) {
            i++;
        }
        if (i + period == config->layers) {
            return period;
        }
    }
    return config->layers;
}

static ps_status check_bits(const char *what, uint32_t bits)
{
    return bits == 0 || bits == 4 || bits == 8 || bits == 16
               ? PS_OK
               : ps_fail(PS_INVALID, "%s is %u: 4, 8 or 16 would be right", what, bits);
}

ps_status ps_workload_complete(ps_workload *w)
{
    w->prompt_tokens = w->prompt_tokens == 0 ? (uint32_t)(w->context_tokens * (uint64_t)2 / 3)
                                             : w->prompt_tokens;
    w->prompt_tokens = w->prompt_tokens == 0 ? 1 : w->prompt_tokens;
    w->context_shards = w->context_shards == 0 ? 1 : w->context_shards;
    PS_TRY(ps_range_check("batch", w->batch, 1, BATCH_MAX));
    PS_TRY(ps_range_check("context_tokens", w->context_tokens, 2, TOKENS_MAX));
    PS_TRY(ps_range_check("ranks", w->ranks, 1, PS_RANKS_MAX));
    PS_TRY(check_bits("weight_bits", w->weight_bits));
    PS_TRY(check_bits("kv_bits", w->kv_bits));
    if (w->prompt_tokens >= w->context_tokens) {
        return ps_fail(PS_INVALID, "prompt_tokens is %u of %u context_tokens: fewer would be right",
                       w->prompt_tokens, w->context_tokens);
    }
    PS_TRY(ps_sums_check((ps_comm_schedule)w->comm_schedule, w->sequence_parallel));
    return w->ranks % w->context_shards == 0
               ? PS_OK
               : ps_fail(PS_INVALID, "context_shards is %u with %u ranks: a divisor would be right",
                         w->context_shards, w->ranks);
}

// A rank has whole heads, of which it needs the KV heads; on paper it has a fair share of bytes.
static double kv_part(const ps_workload *w, const ps_model_layer *layer)
{
    const uint32_t groups = w->ranks / w->context_shards;
    uint32_t begin = 0;
    uint32_t end = 0;
    ps_share_columns(layer->heads, 1, groups - 1, groups, &begin, &end);
    const uint32_t group = layer->heads / layer->kv_heads;
    const uint64_t own = ps_divide_up(end, group) - begin / group;
    const double fair = (double)layer->kv_heads / groups;
    return w->even_kv && own > 0 && fair < (double)own ? fair / (double)own : 1;
}

static ps_dtype dtype_of(uint32_t bits)
{
    return bits == 4 ? PS_DTYPE_I4 : bits == 8 ? PS_DTYPE_I8 : PS_DTYPE_F16;
}

static ps_status plan_steps(const design *d, uint32_t rows, uint32_t sequences, ps_plan **out)
{
    const ps_workload *w = &d->workload;
    const bool has_bits = w->kv_bits > 0;
    const ps_pass_options options = {
        .rows_max = rows,
        .logits_max = sequences,
        .context_max = w->context_tokens,
        .sequences = sequences,
        .kv_part = d->kv_part,
        .k_dtype = has_bits ? dtype_of(w->kv_bits) : ps_kv_type_dtype(w->k_type),
        .v_dtype = has_bits ? dtype_of(w->kv_bits) : ps_kv_type_dtype(w->v_type),
        .machine = d->machine,
        .ranks = w->ranks,
        .rank = w->ranks - 1, // where shares differ, the last is a largest: all wait for it
        .context_shards = w->context_shards,
        .comm_schedule = (ps_comm_schedule)w->comm_schedule,
        .prefetch = (ps_prefetch_policy)w->prefetch,
        .ratios = w->ratios,
        .sequence_parallel = w->sequence_parallel,
        .best_logits = w->best_logits};
    const ps_status status = ps_engine_make_plan(&d->config, d->file, &options, d->arena, out);
    // The workload is right: it is the model that cannot be planned so.
    return status == PS_INVALID || status == PS_EXHAUSTED ? PS_UNSUPPORTED : status;
}

static ps_status play(const design *d, const ps_plan *plan, const ps_play_options *options,
                      ps_play *out)
{
    ps_played played = {.span_count = 0};
    PS_TRY(ps_play_plan(plan, d->machine, options, d->arena, &played));
    *out = ps_fold_sums(&d->fold, &played);
    return PS_OK;
}

// ---- memory

typedef struct sizes {
    double dense, experts; // weights
    double attention, ffn; // weights of the layer in the middle
    double kv;             // of it, a position
    double all_kv;         // of all layers, a position
} sizes;

static void add_operand(sizes *s, const ps_plan_step *step, const ps_value *value, double times,
                        bool is_sample)
{
    const ps_site site = (ps_site)step->attributes.site;
    if (value->kind == PS_VALUE_KV && step->op == PS_OP_KV_WRITE) {
        const double bytes = (double)ps_value_kv_bytes(value);
        s->all_kv += times * bytes;
        s->kv += is_sample ? bytes : 0;
    } else if (value->kind == PS_VALUE_WEIGHT) {
        const double bytes = (double)ps_value_weight_bytes(value);
        *(value->experts > 0 ? &s->experts : &s->dense) += times * bytes;
        if (is_sample && (site == PS_SITE_ATTN_QKV || site == PS_SITE_ATTN_O)) {
            s->attention += bytes;
        } else if (is_sample && site != PS_SITE_NONE) {
            s->ffn += bytes;
        }
    }
}

// Every weight once, layers of the period as often as they are.
static ps_status measure(const design *d, const ps_plan *plan, sizes *out)
{
    bool *seen = PS_ARENA_NEW(d->arena, bool, plan->value_count);
    sizes s = {0};
    if (seen == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        const uint32_t layer = step->attributes.layer; // 1-based
        const bool repeats = layer > d->fold.first && layer <= d->fold.first + d->fold.period;
        for (uint32_t j = 0; j < step->input_count && step->op != PS_OP_PREFETCH; j++) {
            const uint32_t id = step->inputs[j];
            const bool is_kv = plan->values[id].is.kind == PS_VALUE_KV;
            if (is_kv ? step->op == PS_OP_KV_WRITE : !seen[id]) {
                add_operand(&s, step, &plan->values[id].is, repeats ? 1 + d->fold.times : 1,
                            layer == d->fold.first + 1);
                seen[id] = true;
            }
        }
    }
    *out = s;
    return PS_OK;
}

// Experts that are not in memory, and where they are.
static ps_status place_experts(design *d, const sizes *s, ps_design_point *out)
{
    const ps_machine_profile *p = &d->machine->profile;
    const ps_workload *w = &d->workload;
    const double tokens = (double)w->context_tokens / w->context_shards;
    double kept = w->experts_kept == 0 ? 1 : w->experts_kept;
    out->kv_bytes = s->all_kv * w->batch * tokens * d->kv_part;
    if (w->experts_kept == 0 && p->memory_bytes > 0 && s->experts > 0 &&
        (p->host_gbs > 0 || p->disk_gbs > 0)) {
        const double room = (double)p->memory_bytes - s->dense - out->kv_bytes;
        kept = room >= s->experts ? 1 : room > 0 ? room / s->experts : 0;
    }
    out->weight_bytes = s->dense + s->experts * kept;
    out->memory_bytes = out->weight_bytes + out->kv_bytes;
    out->fits = p->memory_bytes == 0 || out->memory_bytes <= (double)p->memory_bytes;
    out->layer_attention_bytes = s->attention;
    out->layer_ffn_bytes = s->ffn;
    out->layer_kv_bytes = s->kv * w->batch * tokens * d->kv_part;
    if (kept >= 1 || s->experts == 0) {
        return PS_OK;
    }
    const double away = s->experts * (1 - kept);
    const double host = p->host_gbs > 0 ? (double)p->host_bytes : 0;
    d->expert_misses = 1 - (w->coverage == 0 ? kept : w->coverage);
    d->disk_misses = host >= away ? 0 : 1 - host / away;
    return d->disk_misses == 0 || p->disk_gbs > 0
               ? PS_OK
               : ps_fail(PS_UNSUPPORTED,
                         "experts of %.1f GB are neither in memory nor in the host's: disk_gbs of "
                         "the machine would be right",
                         away * d->disk_misses / 1e9);
}

// ---- decoding and prompts

// The mean over positions from the first to the last, as a parabola through three.
static ps_play mean_of(const ps_play *first, const ps_play *middle, const ps_play *last)
{
    ps_play out = *first;
    double *sums = (double *)&out;
    for (size_t i = 0; i < PS_PLAY_SUMS; i++) {
        sums[i] = (sums[i] + 4 * ((const double *)middle)[i] + ((const double *)last)[i]) / 6;
    }
    return out;
}

static ps_status decode(design *d, const ps_plan *plan, ps_play *mean, ps_design_point *out)
{
    const ps_workload *w = &d->workload;
    ps_play at[3];
    const uint32_t last = w->context_tokens - 1;
    const uint32_t positions[] = {w->prompt_tokens,
                                  (uint32_t)(((uint64_t)w->prompt_tokens + last) / 2), last};
    for (int i = 0; i < 3; i++) {
        const ps_play_options options = {.rows = w->batch,
                                         .position = positions[i],
                                         .kv_part = d->kv_part,
                                         .expert_misses = d->expert_misses,
                                         .disk_misses = d->disk_misses};
        PS_TRY(play(d, plan, &options, &at[i]));
    }
    *mean = mean_of(&at[0], &at[1], &at[2]);
    out->first_ns = at[0].total_ns;
    out->last_ns = at[2].total_ns;
    out->step_ns = mean->total_ns;
    return PS_OK;
}

// In steps of many rows, each at the mean length of the contexts.
static ps_status run_prompts(const design *d, double *out_ns)
{
    const ps_workload *w = &d->workload;
    const uint64_t all = (uint64_t)w->batch * w->prompt_tokens;
    const uint32_t rows = all < PROMPT_ROWS ? (uint32_t)all : PROMPT_ROWS;
    const uint32_t sequences = (uint32_t)ps_divide_up(rows, w->prompt_tokens);
    const ps_play_options options = {.rows = rows,
                                     .position = w->prompt_tokens / 2,
                                     .sequences = sequences,
                                     .kv_part = d->kv_part,
                                     .expert_misses = d->expert_misses,
                                     .disk_misses = d->disk_misses};
    ps_plan *plan = NULL;
    ps_play sums;
    PS_TRY(plan_steps(d, rows, sequences, &plan));
    PS_TRY(play(d, plan, &options, &sums));
    *out_ns = sums.total_ns * (double)all / rows;
    return PS_OK;
}

static void add_area(const design *d, ps_design_point *out)
{
    const ps_machine *m = d->machine;
    const double l2_mib = (double)(m->l2_bytes * m->threads) / (1 << 20);
    if (m->profile.core_mm2 > 0) {
        out->area_mm2 = m->profile.core_mm2 + m->profile.l2_mm2_per_mib * l2_mib;
        out->tokens_per_s_per_die_mm2 = out->tokens_per_s / out->area_mm2;
        out->tokens_per_s_per_mm2 = out->tokens_per_s_per_die_mm2 / d->workload.ranks;
    }
}

static ps_status play_point(design *d, ps_design_point *out)
{
    const ps_workload *w = &d->workload;
    ps_plan *plan = NULL;
    sizes s;
    ps_play mean = {.total_ns = 0};
    PS_TRY(plan_steps(d, w->batch, w->batch, &plan));
    PS_TRY(measure(d, plan, &s));
    PS_TRY(place_experts(d, &s, out));
    PS_TRY(decode(d, plan, &mean, out));
    PS_TRY(run_prompts(d, &out->prompt_ns));
    const double fill_gbs = d->machine->fill_gbs;
    const double bytes = mean.memory_bytes + mean.cache_bytes;
    out->total_ns = out->prompt_ns + out->step_ns * (w->context_tokens - w->prompt_tokens);
    out->tokens_per_s = w->batch / out->step_ns * 1e9;
    out->attention_ns = mean.attention_ns;
    out->ffn_ns = mean.ffn_ns;
    out->comm_ns = mean.comm_ns;
    out->wait_ns = mean.wait_ns;
    out->barrier_ns = mean.barrier_ns;
    out->work_ns = mean.work_ns;
    out->attention_prefetch_ns = mean.attention_moved_bytes / fill_gbs;
    out->ffn_prefetch_ns = mean.ffn_moved_bytes / fill_gbs;
    out->moved_bytes = mean.moved_bytes;
    out->fillable_bytes = mean.fillable_bytes;
    out->lost_bytes = mean.lost_bytes;
    out->saved_ns = mean.saved_ns;
    out->ops_per_byte = bytes > 0 ? mean.ops / bytes : 0;
    out->ops_per_word = mean.words > 0 ? mean.ops / mean.words : 0;
    out->meets_slo = w->slo_ns == 0 || (out->first_ns <= w->slo_ns && out->last_ns <= w->slo_ns);
    add_area(d, out);
    return PS_OK;
}

ps_status ps_design_check(const ps_machine *machine, const ps_workload *workload)
{
    ps_workload completed = *workload;
    PS_TRY(ps_machine_check_changed(machine));
    return ps_workload_complete(&completed);
}

// What is not known before a point has been played.
static const ps_design_point NOTHING_KNOWN = {
    .fits = 1, .area_mm2 = NAN, .tokens_per_s_per_mm2 = NAN, .tokens_per_s_per_die_mm2 = NAN};

// With a fold of all layers none is left out.
static ps_status make_design(const ps_model_config *config, const ps_gguf *file, ps_fold fold,
                             design *d)
{
    PS_TRY(ps_machine_check_changed(d->machine));
    PS_TRY(ps_workload_complete(&d->workload));
    d->kv_part = kv_part(&d->workload, &config->layer[0]);
    d->config = *config;
    d->config.layers = fold.layers;
    d->fold = fold;
    d->file = file;
    if (d->workload.weight_bits > 0) {
        d->config.weight_dtype = dtype_of(d->workload.weight_bits);
        d->config.ties_embedding = file == NULL
                                       ? config->ties_embedding
                                       : ps_gguf_tensor_find(file, "output.weight") == NULL;
        d->file = NULL;
    }
    return PS_OK;
}

ps_status ps_design_point_play(const ps_model_config *config, const ps_gguf *file,
                               const ps_machine *machine, const ps_workload *workload,
                               ps_arena *arena, ps_design_point *out)
{
    design d = {.machine = machine, .workload = *workload, .arena = arena};
    ps_design_point point = NOTHING_KNOWN;
    PS_TRY(make_design(config, file, ps_fold_of(config->layers, period_of(config)), &d));
    PS_TRY(play_point(&d, &point));
    *out = point;
    return PS_OK;
}

static ps_status play_step(design *d, ps_plan *plan, ps_design_step *out)
{
    const ps_workload *w = &d->workload;
    sizes s;
    ps_design_point point = NOTHING_KNOWN;
    PS_TRY(measure(d, plan, &s));
    PS_TRY(place_experts(d, &s, &point));
    const ps_play_options options = {.rows = w->batch,
                                     .position = w->context_tokens - 1,
                                     .kv_part = d->kv_part,
                                     .expert_misses = d->expert_misses,
                                     .disk_misses = d->disk_misses,
                                     .records = true};
    PS_TRY(ps_play_plan(plan, d->machine, &options, d->arena, &out->played));
    out->plan = plan;
    return PS_OK;
}

ps_status ps_design_step_play(const ps_model_config *config, const ps_gguf *file,
                              const ps_machine *machine, const ps_workload *workload,
                              ps_arena *arena, ps_design_step *out)
{
    design d = {.machine = machine, .workload = *workload, .arena = arena};
    const ps_fold whole = {.layers = config->layers, .period = config->layers};
    ps_plan *plan = NULL;
    PS_TRY(make_design(config, file, whole, &d));
    PS_TRY(plan_steps(&d, d.workload.batch, d.workload.batch, &plan));
    return play_step(&d, plan, out);
}

ps_status ps_design_layer_play(const ps_model_config *config, const ps_gguf *file,
                               const ps_machine *machine, const ps_workload *workload,
                               ps_arena *arena, ps_design_layer *out)
{
    ps_design_step step;
    PS_TRY(ps_design_step_play(config, file, machine, workload, arena, &step));
    const ps_played *played = &step.played;
    const ps_play *layer = &played->layer_begin[played->layer_count / 2];
    ps_play_span *spans = PS_ARENA_NEW(arena, ps_play_span, played->span_count);
    if (spans == NULL) {
        return PS_NO_MEMORY;
    }
    *out = (ps_design_layer){.plan = step.plan,
                             .spans = spans,
                             .begin_ns = layer[0].total_ns,
                             .end_ns = layer[1].total_ns};
    for (uint32_t i = 0; i < played->span_count; i++) {
        const ps_play_span *span = &played->spans[i];
        if (span->begin_ns >= out->begin_ns && span->begin_ns < out->end_ns) {
            spans[out->span_count++] = *span;
        }
    }
    return PS_OK;
}
